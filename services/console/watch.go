package console

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/titrate/titrate/services/wording"
)

const (
	// A round asks every path of a watcher. After it the watcher pauses for period, or for pauseFactor times the time
	// that answers took, up to mostPause. So one watcher with fast answers takes a fifth of a core at most.
	period, pauseFactor, mostPause = time.Second, 4, 2 * time.Second
	// mostAsking bounds how many watchers ask at a time. Of one caller it is one.
	mostAsking = 4
	// mostWatchers and mostOfCaller bound the streams that are open, in all and of one caller.
	mostWatchers, mostOfCaller = 64, 16
	// refusedPause is the time after which a path is asked again that the caller may not read: each refusal is logged.
	refusedPause = 30 * time.Second
	// writeTime is the time for a watcher to take an answer; then it is dropped.
	writeTime = 5 * time.Second
	// mostQuestion bounds the body of a question, bytes; mostPaths and mostPath what it asks.
	mostQuestion, mostPaths, mostPath = 16 << 10, 16, 1 << 10
	// mostAnswer bounds one answer, bytes: a page of 1000 resources has room.
	mostAnswer = 4 << 20

	apiPrefix   = "/v1alpha1"
	accessPath  = apiPrefix + ":access"
	digestBytes = 8
)

// watchers are the streams that are open.
type watchers struct {
	api               http.Handler
	period, writeTime time.Duration   // the constants; tests are faster
	asking            chan struct{}   // has a place for each that asks
	ending            context.Context // of all streams
	end               context.CancelFunc

	dropped, refused atomic.Uint64

	mu    sync.Mutex
	open  map[string]*caller
	total int
}

// caller has the open streams of one caller.
type caller struct {
	streams int
	asking  chan struct{} // has a place for a stream that asks
}

func newWatchers(api http.Handler) *watchers {
	w := &watchers{api: api, period: period, writeTime: writeTime, asking: make(chan struct{}, mostAsking),
		open: map[string]*caller{}}
	w.ending, w.end = context.WithCancel(context.Background())
	return w
}

// Close ends all streams; new ones end at once.
func (w *watchers) Close() { w.end() }

// Watchers returns the number of open streams.
func (w *watchers) Watchers() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.total
}

// Dropped returns how many streams were ended because their reader was too slow.
func (w *watchers) Dropped() uint64 { return w.dropped.Load() }

// Refused returns how many streams were refused because too many were open.
func (w *watchers) Refused() uint64 { return w.refused.Load() }

// enter counts one more stream of a caller, if there may be one. leave ends it.
func (w *watchers) enter(name string) (by *caller, leave func(), ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	by = w.open[name]
	if w.total >= mostWatchers || by != nil && by.streams >= mostOfCaller {
		w.refused.Add(1)
		return nil, nil, false
	}
	if by == nil {
		by = &caller{asking: make(chan struct{}, 1)}
		w.open[name] = by
	}
	w.total++
	by.streams++
	return by, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.total--
		if by.streams--; by.streams == 0 {
			delete(w.open, name)
		}
	}, true
}

// question is the body of a request for a stream: paths of the admin API that are read with GET.
type question struct {
	Paths []string `json:"paths"`
}

// asked is one path of a question, as it is written there.
type asked struct {
	*url.URL
	text string
}

// readQuestion reads and checks a question.
func readQuestion(body io.Reader) (paths []asked, err error) {
	var q question
	decoder := json.NewDecoder(body)
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&q); err != nil {
		return nil, fmt.Errorf(`body: want {"paths": [...]}: %w`, err)
	}
	if len(q.Paths) == 0 || len(q.Paths) > mostPaths {
		return nil, fmt.Errorf("paths: %d are given, want 1 to %d", len(q.Paths), mostPaths)
	}
	for _, p := range q.Paths {
		u, err := url.ParseRequestURI(p)
		if err != nil || len(p) > mostPath || u.Host != "" || !strings.HasPrefix(u.Path, apiPrefix) {
			return nil, fmt.Errorf("paths: %s is not a path of the admin API below %s, of %d bytes at most",
				wording.Quote(p), apiPrefix, mostPath)
		}
		paths = append(paths, asked{u, p})
	}
	return paths, nil
}

// readDigests reads the ID of the last event that a reader has had: the digests of the answers that it knows. Any
// other text is none.
func readDigests(id string, paths int) [][digestBytes]byte {
	known := make([][digestBytes]byte, paths)
	raw, err := hex.DecodeString(id[:min(len(id), 2*digestBytes*mostPaths)])
	if err != nil || len(raw) != digestBytes*paths {
		return known
	}
	for i := range known {
		copy(known[i][:], raw[i*digestBytes:])
	}
	return known
}

// watch answers with a stream of events: an answer of the API for each path when it differs from the one before. An
// event's ID is the state that its reader knows then; with it in Last-Event-ID a stream goes on from there, at this
// coordinator or at another one.
func (w *watchers) watch(to http.ResponseWriter, r *http.Request) {
	paths, err := readQuestion(http.MaxBytesReader(to, r.Body, mostQuestion))
	if err != nil {
		fail(to, http.StatusBadRequest, "INVALID_ARGUMENT", err.Error())
		return
	}
	access := w.ask(r, &url.URL{Path: accessPath})
	if access.status != http.StatusOK {
		to.Header().Set("Content-Type", "application/json")
		to.WriteHeader(access.status)
		_, _ = to.Write(access.Bytes())
		return
	}
	by, leave, ok := w.enter(callerName(r, access.Bytes()))
	if !ok {
		to.Header().Set("Retry-After", "5")
		fail(to, http.StatusTooManyRequests, "RESOURCE_EXHAUSTED", fmt.Sprintf("too many consoles are open here: "+
			"%d at most, of one caller %d. Close some", mostWatchers, mostOfCaller))
		return
	}
	defer leave()
	to.Header().Set("Content-Type", "text/event-stream")
	to.Header().Set("Cache-Control", "no-store")
	s := &stream{of: w, by: by, r: r, to: to, paths: paths,
		known: readDigests(r.Header.Get("Last-Event-ID"), len(paths)), after: make([]time.Time, len(paths))}
	if err := s.run(); errors.Is(err, errSlow) {
		w.dropped.Add(1)
	}
}

// callerName is the name by which streams are counted. A caller without credentials is its host.
func callerName(r *http.Request, access []byte) string {
	var who struct{ Caller, Credential string }
	if json.Unmarshal(access, &who) == nil && who.Credential != "" {
		return who.Credential + " " + who.Caller
	}
	host, _, _ := net.SplitHostPort(r.RemoteAddr)
	return host
}

// errSlow is the end of a stream whose reader did not take what was sent.
var errSlow = errors.New("the reader is too slow")

// stream is one watcher.
type stream struct {
	of    *watchers
	by    *caller
	r     *http.Request
	to    http.ResponseWriter
	paths []asked
	known [][digestBytes]byte // of the answers that were sent last
	after []time.Time         // when a path is asked again, by path
}

// errEnded is the end of a stream that nobody reads or that may not go on.
var errEnded = errors.New("the stream has ended")

// run sends until the reader leaves, is too slow or not known any more, or all streams end.
func (s *stream) run() error {
	if err := s.live(); err != nil {
		return err
	}
	for {
		var took time.Duration
		for i, p := range s.paths {
			if time.Now().Before(s.after[i]) {
				continue
			}
			a, asked, err := s.turn(p.URL)
			if err != nil {
				return err
			}
			took += asked
			if err := s.send(i, a); err != nil {
				return err
			}
		}
		if err := s.live(); err != nil {
			return err
		}
		select {
		case <-s.r.Context().Done():
			return errEnded
		case <-s.of.ending.Done():
			return errEnded
		case <-time.After(s.of.pause(took)):
		}
	}
}

// pause is the pause after a round whose answers took a time.
func (w *watchers) pause(took time.Duration) time.Duration {
	return max(w.period, min(mostPause, pauseFactor*took))
}

// turn asks once it is this watcher's turn, and returns how long the answer took. A caller that is not known any more
// has no stream: when its reader begins a new one, the answer to that says so.
func (s *stream) turn(u *url.URL) (*answer, time.Duration, error) {
	for _, places := range []chan struct{}{s.by.asking, s.of.asking} {
		if err := s.wait(places); err != nil {
			return nil, 0, err
		}
		defer func() { <-places }()
	}
	began := time.Now()
	a := s.of.ask(s.r, u)
	if a.status == http.StatusUnauthorized {
		return nil, 0, errEnded
	}
	return a, time.Since(began), nil
}

// wait takes a place. Meanwhile the stream shows that it lives.
func (s *stream) wait(places chan struct{}) error {
	life := time.NewTicker(s.of.period)
	defer life.Stop()
	for {
		select {
		case places <- struct{}{}:
			return nil
		case <-life.C:
			if err := s.live(); err != nil {
				return err
			}
		case <-s.r.Context().Done():
			return errEnded
		case <-s.of.ending.Done():
			return errEnded
		}
	}
}

// live sends a comment, which shows that the stream lives.
func (s *stream) live() error { return s.write([]byte(":\n\n")) }

// send sends an answer if it differs from the last one.
func (s *stream) send(i int, a *answer) error {
	if a.status == http.StatusForbidden {
		s.after[i] = time.Now().Add(refusedPause)
	}
	var one bytes.Buffer // line: an event's data has no other
	if json.Compact(&one, a.Bytes()) != nil {
		one.Reset()
		one.WriteString("null")
	}
	body := one.Bytes()
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %d %s", s.paths[i].text, a.status, body))
	if s.known[i] == [digestBytes]byte(sum[:digestBytes]) {
		return nil
	}
	copy(s.known[i][:], sum[:])
	var id []byte
	for _, one := range s.known {
		id = append(id, one[:]...)
	}
	path, _ := json.Marshal(s.paths[i].text) // a string
	return s.write(fmt.Appendf(nil, "id: %x\ndata: {\"path\":%s,\"status\":%d,\"body\":%s}\n\n", id, path, a.status,
		body))
}

// write sends bytes at once, within writeTime. Until the next ones there is no deadline: HTTP/2 would reset the stream.
func (s *stream) write(b []byte) error {
	began, c := time.Now(), http.NewResponseController(s.to)
	_ = c.SetWriteDeadline(began.Add(s.of.writeTime)) // a recorder of tests has none
	_, err := s.to.Write(b)
	if err = cmp.Or(err, c.Flush()); err != nil && time.Since(began) >= s.of.writeTime {
		return errSlow
	}
	_ = c.SetWriteDeadline(time.Time{})
	return err
}

// ask asks the API as the caller would.
func (w *watchers) ask(r *http.Request, u *url.URL) *answer {
	one := r.Clone(r.Context())
	one.Method, one.URL, one.RequestURI = http.MethodGet, u, u.RequestURI()
	one.Body, one.ContentLength, one.Pattern = http.NoBody, 0, ""
	one.Header = http.Header{"Authorization": r.Header.Values("Authorization")}
	a := &answer{status: http.StatusOK, header: http.Header{}}
	w.api.ServeHTTP(a, one)
	if a.over {
		a.Reset()
		a.status = http.StatusRequestEntityTooLarge
		a.Buffer.Write(problem(a.status, "OUT_OF_RANGE",
			fmt.Sprintf("the answer has more than %d bytes: ask for a page", mostAnswer)))
	}
	return a
}

// answer is an answer of the API in memory.
type answer struct {
	bytes.Buffer
	header http.Header
	status int
	over   bool
}

// Header implements http.ResponseWriter.
func (a *answer) Header() http.Header { return a.header }

// WriteHeader implements http.ResponseWriter.
func (a *answer) WriteHeader(status int) { a.status = status }

// Write implements http.ResponseWriter.
func (a *answer) Write(b []byte) (int, error) {
	if a.over = a.over || a.Len()+len(b) > mostAnswer; a.over {
		return len(b), nil
	}
	return a.Buffer.Write(b)
}

// fail answers with an error in the form of the API.
func fail(w http.ResponseWriter, status int, code, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(problem(status, code, message))
}

func problem(status int, code, message string) []byte {
	b, _ := json.Marshal(map[string]any{"status": status, "code": code, "message": message}) // of strings and a number
	return append(b, '\n')
}
