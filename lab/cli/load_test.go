package cli

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/titrate/titrate/lab/dev/load"
)

// A short load has a line, too. Requests that it ends itself have not failed.
func TestLoadOfHalfASecond(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.Header.Get(load.TenantHeader) {
		case "slow":
			<-r.Context().Done()
		case "limited":
			w.WriteHeader(http.StatusTooManyRequests)
		}
	}))
	defer server.Close()
	urls := []string{server.URL}
	s, err := loadScenario(urls, nil, []string{"acme=200", "slow=100", "limited=100"})
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := runLoad(t.Context(), &out, urls, s, time.Second/2); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) != 2 || !strings.HasPrefix(lines[0], "acme ") || !strings.Contains(lines[0],
		"; limited 0/s admitted") ||
		strings.Count(lines[0], " 0/s failed") != 2 || strings.Contains(lines[0], "slow") ||
		!strings.HasSuffix(lines[1], " requests had no answer when the load ended") {
		t.Errorf("%s", &out)
	}
}

// A load that reaches nobody says so.
func TestLoadWithoutAnswers(t *testing.T) {
	urls := []string{"http://127.0.0.1:1/"}
	s, err := loadScenario(urls, nil, []string{"acme=100"})
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := runLoad(t.Context(), &out, urls, s, time.Second/5); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), "acme 0/s admitted") || strings.Contains(out.String(), " 0/s failed") {
		t.Errorf("%s", &out)
	}
}
