package operator

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"

	quotav1 "github.com/titrate/titrate/proto/titrate/quota/v1alpha1"
	"github.com/titrate/titrate/services/kubernetes"
)

// apiServer answers like an API server about one Lease and some custom resources.
type apiServer struct {
	version int // of the Lease; 0: there is none
	holder  string
	pools   []string // JSON
	patched []string // paths
}

// RoundTrip implements http.RoundTripper.
func (s *apiServer) RoundTrip(r *http.Request) (*http.Response, error) {
	status, body := s.answer(r)
	return &http.Response{StatusCode: status, Status: fmt.Sprint(status), Request: r,
		Body: io.NopCloser(strings.NewReader(body))}, nil
}

func (s *apiServer) answer(r *http.Request) (int, string) {
	switch {
	case strings.Contains(r.URL.Path, "/leases"):
		return s.lease(r)
	case r.Method == http.MethodPatch:
		s.patched = append(s.patched, r.URL.Path)
		return http.StatusOK, "{}"
	case strings.HasSuffix(r.URL.Path, "/pools"):
		return http.StatusOK, `{"items":[` + strings.Join(s.pools, ",") + `]}`
	}
	return http.StatusOK, `{"items":[]}`
}

func (s *apiServer) lease(r *http.Request) (int, string) {
	if r.Method == http.MethodGet {
		if s.version == 0 {
			return http.StatusNotFound, "{}"
		}
		return http.StatusOK, s.stored()
	}
	var given leaseObject
	if err := json.NewDecoder(r.Body).Decode(&given); err != nil {
		return http.StatusBadRequest, err.Error()
	}
	if r.Method == http.MethodPut && given.Metadata.ResourceVersion != fmt.Sprint(s.version) {
		return http.StatusConflict, `{"message":"the object has been modified"}`
	}
	s.version, s.holder = s.version+1, given.Spec.HolderIdentity
	return http.StatusOK, s.stored()
}

func (s *apiServer) stored() string {
	return fmt.Sprintf(`{"metadata":{"resourceVersion":"%d"},"spec":{"holderIdentity":%q}}`, s.version, s.holder)
}

// slow is a coordinator that is slow to apply, so that other events happen during the call.
type slow struct {
	quotav1.QuotaServiceClient
	meanwhile func()
	applied   int
}

func (s *slow) Apply(_ context.Context, r *quotav1.ApplyRequest, _ ...grpc.CallOption) (*quotav1.ApplyResponse,
	error) {
	s.applied += len(r.GetResources())
	time.Sleep(renewEvery + time.Second)
	s.meanwhile()
	return &quotav1.ApplyResponse{Resources: r.GetResources()}, nil
}

// An operator that loses the Lease in the middle of a pass writes nothing more: its list may be out of date,
// and another operator may have written since.
func TestTheLeadIsLostInAPass(t *testing.T) {
	for name, lost := range map[string]bool{"kept": false, "lost": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				guarded := fmt.Sprintf(`{"name":"pools/api","spec":{"capacity":1},"metadata":{"name":"api","uid":"1",`+
					`"creationTimestamp":"2026-01-01T00:00:00Z","finalizers":[%q]}}`, finalizer)
				server := &apiServer{pools: []string{guarded}}
				api := &slow{meanwhile: func() {}}
				if lost {
					api.meanwhile = func() { server.version, server.holder = server.version+1, "another" }
				}
				var log bytes.Buffer
				o := New(Options{API: api, Set: "kubernetes", Name: "one", Resync: time.Minute,
					Log: slog.New(slog.NewTextHandler(&log, nil)), Cluster: &kubernetes.Cluster{Namespace: "ns",
						Server: "http://api", Client: &http.Client{Transport: server},
						Token: func() (string, error) { return "token", nil }}})
				o.lead(t.Context())
				if api.applied != 1 {
					t.Fatalf("%d resources are applied:\n%s", api.applied, &log)
				}
				if wrote := len(server.patched) > 0; wrote == lost || lost != (o.Trouble() != nil) {
					t.Errorf("patched %v, trouble %v:\n%s", server.patched, o.Trouble(), &log)
				}
				if lost && server.holder != "another" {
					t.Errorf("the lead of another is taken: %s", server.holder)
				}
			})
		})
	}
}
