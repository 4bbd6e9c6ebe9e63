package console

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
)

// mostBytes bounds the site on its way to a browser.
const mostBytes = 200 << 10

func get(t *testing.T, h http.Handler, path string, header ...string) *http.Response {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil)
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Result()
}

// The whole site is served from the program, compressed, and small. A browser that has a file does not get it again.
func TestSite(t *testing.T) {
	c, err := New(http.NotFoundHandler())
	if err != nil {
		t.Fatal(err)
	}
	all := 0
	for path, kind := range map[string]string{"/": "text/html", "/app.js": "text/javascript", "/app.css": "text/css",
		"/icon.svg": "image/svg+xml"} {
		a := get(t, c, path, "Accept-Encoding", "br, gzip")
		packed, _ := io.ReadAll(a.Body)
		z, err := gzip.NewReader(bytes.NewReader(packed))
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		plain, err := io.ReadAll(z)
		if err != nil || !strings.HasPrefix(a.Header.Get("Content-Type"), kind) {
			t.Errorf("%s: %v, type %q, want %s", path, err, a.Header.Get("Content-Type"), kind)
		}
		all += len(packed)
		same, _ := io.ReadAll(get(t, c, path).Body)
		if !bytes.Equal(plain, same) {
			t.Errorf("%s: compressed it is another file", path)
		}
		if again := get(t, c, path, "If-None-Match", a.Header.Get("ETag")); again.StatusCode != http.StatusNotModified {
			t.Errorf("%s: asked again: %d", path, again.StatusCode)
		}
	}
	t.Logf("the site has %d bytes, compressed", all)
	if all > mostBytes {
		t.Errorf("the site has %d bytes, compressed; at most %d", all, mostBytes)
	}
}

// Every answer forbids scripts of elsewhere, frames, and HTML of texts; the page has no script, style or handler in
// itself, and the script makes no HTML of texts.
func TestPolicy(t *testing.T) {
	c, err := New(http.NotFoundHandler())
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/", "/app.js", "/v1alpha1/pools", "/nothing"} {
		h := get(t, c, path).Header
		csp := h.Get("Content-Security-Policy")
		for _, part := range []string{"default-src 'none'", "script-src 'self'", "style-src 'self'", "connect-src 'self'",
			"frame-ancestors 'none'", "base-uri 'none'", "form-action 'none'", "require-trusted-types-for 'script'"} {
			if !strings.Contains(csp, part) {
				t.Errorf("%s: the policy %q lacks %s", path, csp, part)
			}
		}
		if strings.Contains(csp, "unsafe") || h.Get("X-Content-Type-Options") != "nosniff" || h.Get("Set-Cookie") != "" {
			t.Errorf("%s: %v", path, h)
		}
	}
	page, _ := site.ReadFile("site/index.html")
	if found := regexp.MustCompile(`(?i)<script>|<style|\son\w+=|\sstyle=|https?:`).Find(page); found != nil {
		t.Errorf("the page has %q", found)
	}
	script, _ := site.ReadFile("site/app.js")
	if found := regexp.MustCompile(`innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|` +
		`document\.cookie|https?://[^w]`).Find(script); found != nil {
		t.Errorf("the script has %q", found)
	}
}
