package rest_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	quotav1 "github.com/titrate/titrate/proto/titrate/quota/v1alpha1"
	"github.com/titrate/titrate/services/access"
	"github.com/titrate/titrate/services/quota"
	"github.com/titrate/titrate/services/rest"
	"github.com/titrate/titrate/services/store/storetest"
)

// FuzzHandler sends requests of any method, path, query and body to the API on a real store. Each answer is
// one JSON value with a status that does not blame the server.
func FuzzHandler(f *testing.F) {
	for _, c := range [][3]string{
		{"POST", "/v1alpha1/pools", `{"name":"pools/api","capacity":300}`},
		{"POST", "/v1alpha1/tenants", `{"name":"tenants/acme"}`},
		{"POST", "/v1alpha1/tenants/acme/limits?limit_id=l", `{"rate":"5/s","burst":1}`},
		{"PATCH", "/v1alpha1/pools/api?updateMask=capacity&validateOnly=true", `{"capacity":1,"etag":"1"}`},
		{"PUT", "/v1alpha1/pools/api?allow_missing=1", `{"capacity":1e400}`},
		{"DELETE", "/v1alpha1/tenants/acme?force=true", ""},
		{"GET", "/v1alpha1/pools?pageSize=1&page_token=x", ""},
		{"GET", "/v1alpha1/tenants/acme:why?pool=pools/api", ""},
		{"GET", "/v1alpha1/revisions/1", ""},
		{"POST", "/v1alpha1:apply", `{"resources":[{"pool":{"name":"pools/b","capacity":2}}],"deletions":[{"name":"x"}]}`},
		{"GET", "/v1alpha1/%zz/..//", ""}, {"GET", "/openapi.json", ""},
	} {
		f.Add(c[0], c[1], c[2])
	}
	s := rest.New(rest.Options{Bounds: bytes1M})
	quota.New(storetest.Open(f), nil).Register(s)
	quotav1.RegisterAccessServiceServer(s, access.NewServer(nil))
	handler, err := s.Handler()
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, method, path, body string) {
		at, err := url.ParseRequestURI(path)
		if err != nil {
			return // net/http refuses it
		}
		r := httptest.NewRequest(http.MethodGet, "/", strings.NewReader(body))
		r.Method, r.URL, r.RequestURI = method, at, path
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		redirect := w.Code >= 300 && w.Code < 400 // net/http's own, to the path without its dots
		if w.Code == http.StatusInternalServerError || !redirect && !json.Valid(w.Body.Bytes()) {
			t.Errorf("%s %q with %q: %d %s", method, path, body, w.Code, w.Body)
		}
	})
}
