package client

import (
	"io"
	"net/http"
	"time"
)

// Transport returns a RoundTripper that sends through base (nil: [http.DefaultTransport]), one window per host. It
// closes a refused response before it tries again; the last one is returned as it came.
func (c *Client) Transport(base http.RoundTripper) http.RoundTripper {
	if base == nil {
		base = http.DefaultTransport
	}
	return &transport{client: c, base: base}
}

type transport struct {
	client *Client
	base   http.RoundTripper
}

// RoundTrip sends r when its host's window allows it.
func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	w := t.client.window(r.URL.Host)
	for attempt := 0; ; attempt++ {
		if err := w.acquire(r.Context(), r.URL.Host); err != nil {
			closeBody(r)
			return nil, err
		}
		sent := time.Now()
		response, err := t.base.RoundTrip(r)
		if err != nil {
			w.release(sent, answer{failed: true})
			return nil, err
		}
		a := read(response, time.Now())
		w.release(sent, a)
		if !a.refused || attempt >= t.client.o.Retries {
			return response, nil
		}
		again := replay(r)
		if again == nil {
			return response, nil
		}
		const rest = 64 << 10 // read so much of a refusal, to keep its connection
		_, _ = io.CopyN(io.Discard, response.Body, rest)
		response.Body.Close()
		r = again
	}
}

// replay returns a copy of the request to send again, nil if its body cannot be sent twice.
func replay(r *http.Request) *http.Request {
	if r.Body == nil || r.Body == http.NoBody {
		return r
	}
	if r.GetBody == nil {
		return nil
	}
	body, err := r.GetBody()
	if err != nil {
		return nil
	}
	again := r.Clone(r.Context())
	again.Body = body
	return again
}

// closeBody is a RoundTripper's duty, also when it sends nothing.
func closeBody(r *http.Request) {
	if r.Body != nil {
		r.Body.Close()
	}
}
