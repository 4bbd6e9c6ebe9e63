package rls

import (
	"context"
	"crypto/sha256"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"time"

	"github.com/titrate/titrate/services/rls/ratelimitconfig"
)

// watchEvery is the interval at which the directory is read. A change is in force within twice that; more often reads
// the files more often.
const watchEvery = time.Second

// watcher follows the directory with the files.
type watcher struct {
	dir  string
	read ratelimitconfig.Options
	load func(*ratelimitconfig.Config) error
	log  *slog.Logger
	// sliding: N per unit is a bucket, not a window.
	sliding bool

	seen    string   // signature of what was read last
	leftOut []string // files that were not read
	refusals
}

// start reads the directory for the first time. Then everything must be right.
func (w *watcher) start() error {
	if w.dir == "" {
		return nil
	}
	if err := w.readFiles(); err != nil {
		return fmt.Errorf("--rls-config %s:\n%w", w.dir, err)
	}
	return nil
}

// run follows the directory until ctx ends.
func (w *watcher) run(ctx context.Context) {
	if w.dir == "" {
		return
	}
	ticker := time.NewTicker(watchEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			w.look()
		}
	}
}

// look reads the files again if one has changed.
func (w *watcher) look() {
	now, err := w.signature()
	if err == nil && now == w.seen {
		return
	}
	err = w.readFiles()
	if news := w.note(err); err != nil && news {
		w.log.Error("rate limits of the files refused; those before stay in force", "dir", w.dir, "error", err)
	}
}

// readFiles puts the files in force. What is read may be newer than the signature; then
// the next look reads it once more.
func (w *watcher) readFiles() error {
	var err error
	if w.seen, err = w.signature(); err != nil { // then seen is "", and all is read once it works
		return err
	}
	c, err := ratelimitconfig.ReadDir(w.dir, w.read)
	if err != nil {
		return err
	}
	if err := w.load(c); err != nil {
		return err
	}
	w.report(c)
	return nil
}

// mostNamed bounds the limits that a report names.
const mostNamed = 20

// report says how many limits are in force, and which of them count in another way than in ratelimit.
func (w *watcher) report(c *ratelimitconfig.Config) {
	all, buckets, where := c.Limits(), 0, []string{}
	for _, l := range all {
		if !w.sliding || l.Unlimited || l.Requests == 0 {
			continue
		}
		if buckets++; buckets <= mostNamed {
			where = append(where, fmt.Sprintf("%s:%d: %s", l.File, l.Line, l.Path))
		}
	}
	w.log.Info("rate limits of the files in force; buckets refill evenly and are no fixed windows, as "+
		"--rls-windows fixed makes them", "dir", w.dir, "domains", len(c.Domains()), "limits", len(all),
		"buckets", buckets, "first", where)
}

// nameLeftOut logs which files are not read, once.
func (w *watcher) nameLeftOut(files []string) {
	if slices.Equal(files, w.leftOut) {
		return
	}
	w.leftOut = files
	if len(files) > 0 {
		w.log.Warn("files of the directory are not read: names that begin with a dot, links to directories, and what "+
			"is no file", "dir", w.dir, "files", files)
	}
}

// signature distinguishes contents of the directory, by the names and bytes of its files: neither a size nor a time
// shows that a file is as it was. It follows symbolic links, as those of a mounted ConfigMap.
func (w *watcher) signature() (string, error) {
	files, leftOut, err := ratelimitconfig.List(w.dir)
	if err != nil {
		return "", err
	}
	w.nameLeftOut(leftOut)
	sum := sha256.New()
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(sum, "%q %d\n", name, len(text))
		sum.Write(text)
	}
	return string(sum.Sum(nil)), nil
}
