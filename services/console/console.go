// Package console serves the console: pages for a browser that show what the admin API answers.
//
// # Model
//
//	browser ──► /             files of the folder site, which are in the program
//	        ──► /v1alpha1…    the admin API as package rest serves it
//	        ──► /events       a stream of answers of the same API, asked again each second
//
// The folder app has the sources of the pages. `make generate` makes the folder site with esbuild.
//
// # Invariants
//
//   - All data comes from the handler of the admin API, with the credentials of the caller, each time. So the
//     API's roles, ceilings, history and audit hold, and a token that is withdrawn ends within a second or two.
//   - The pages run no script and load no file besides those of the folder site: see policy.
//   - No token is in a cookie or in a URL. Without cookies no other page can act for the reader.
//   - Watchers are bounded, all together and for each caller. Each has a goroutine of its own, so a slow one
//     delays no other one. A watcher that does not take an answer within seconds is dropped, and counted.
package console

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"io/fs"
	"mime"
	"net/http"
	"path"
	"strings"
)

//go:embed site
var site embed.FS

// policy is the Content-Security-Policy of all answers. It forbids scripts and styles within the page, addresses of
// other hosts, frames, and texts that become HTML.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; " +
	"trusted-types 'none'"

// Console is an HTTP handler. Close ends its streams.
type Console struct {
	*watchers
	all http.Handler
}

// New makes a console on the handler of the admin API, see package rest.
func New(api http.Handler) (*Console, error) {
	c := &Console{watchers: newWatchers(api)}
	files, err := load()
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	for name, f := range files {
		mux.Handle("GET /"+name, f)
	}
	mux.Handle("GET /{$}", files["index.html"])
	mux.Handle("POST /events", http.NewCrossOriginProtection().Handler(http.HandlerFunc(c.watch)))
	mux.Handle("/", api)
	c.all = mux
	return c, nil
}

// ServeHTTP implements http.Handler.
func (c *Console) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	c.all.ServeHTTP(w, r)
}

// file is a file of the site, as it is and compressed.
type file struct {
	kind, tag     string
	plain, packed []byte
}

// load reads the site.
func load() (map[string]*file, error) {
	entries, err := fs.ReadDir(site, "site")
	if err != nil {
		return nil, err
	}
	all := map[string]*file{}
	for _, e := range entries {
		plain, err := site.ReadFile("site/" + e.Name())
		if err != nil {
			return nil, err
		}
		var packed bytes.Buffer
		z, err := gzip.NewWriterLevel(&packed, gzip.BestCompression)
		if err != nil {
			return nil, err
		}
		_, _ = z.Write(plain) // a buffer takes everything
		_ = z.Close()
		sum := sha256.Sum256(plain)
		all[e.Name()] = &file{kind: mime.TypeByExtension(path.Ext(e.Name())), plain: plain, packed: packed.Bytes(),
			tag: `"` + hex.EncodeToString(sum[:8]) + `"`}
	}
	if all["index.html"] == nil {
		return nil, fmt.Errorf("the console has no page: run make generate")
	}
	return all, nil
}

// ServeHTTP implements http.Handler. A browser asks each time whether the file has changed: the next release may be
// served at the same address.
func (f *file) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h, body := w.Header(), f.plain
	h.Set("Content-Type", f.kind)
	h.Set("ETag", f.tag)
	h.Set("Cache-Control", "no-cache")
	h.Set("Vary", "Accept-Encoding")
	if r.Header.Get("If-None-Match") == f.tag {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	if strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		h.Set("Content-Encoding", "gzip")
		body = f.packed
	}
	_, _ = w.Write(body)
}
