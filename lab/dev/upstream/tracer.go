package upstream

import (
	"bufio"
	"encoding/json"
	"io"
	"net/http"
	"sync"
	"time"
)

// tracer writes one line per request; a nil tracer writes none.
type tracer struct {
	mu  sync.Mutex
	out *bufio.Writer
	enc *json.Encoder
}

// entry is a line of the upstream's trace.
type entry struct {
	Time    int64   `json:"time"` // arrival, Unix ns
	Tenant  string  `json:"tenant,omitempty"`
	Client  string  `json:"client,omitempty"`
	Gateway string  `json:"gateway,omitempty"` // header x-gateway, which the demo's Envoys add
	Path    string  `json:"path"`
	Status  int     `json:"status"` // 499 = its client went away while it waited
	WaitMs  float64 `json:"waitMs"` // in the upstream's own queue
}

func newTracer(w io.Writer) *tracer {
	if w == nil {
		return nil
	}
	out := bufio.NewWriter(w)
	return &tracer{out: out, enc: json.NewEncoder(out)}
}

// write records one request. A failing writer stops the trace, never the server;
// flush reports it.
func (t *tracer) write(r *http.Request, arrived time.Time, waited time.Duration, status int) {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	_ = t.enc.Encode(entry{
		Time:    arrived.UnixNano(),
		Tenant:  r.Header.Get("x-tenant"),
		Client:  r.Header.Get("x-client"),
		Gateway: r.Header.Get("x-gateway"),
		Path:    r.URL.Path,
		Status:  status,
		WaitMs:  float64(waited.Microseconds()) / 1e3,
	})
}

func (t *tracer) flush() error {
	if t == nil {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.out.Flush()
}
