package client_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/titrate/titrate/services/client"
)

// A gateway marks what it admits while its queue grows; a client that reacts to the marks keeps fewer requests in
// flight, and is not refused.
func Example() {
	gateway := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("x-titrate-congestion", "1")
	}))
	defer gateway.Close()

	polite := client.New(client.Options{Start: 16})
	hc := &http.Client{Transport: polite.Transport(nil)}
	for range 3 {
		response, err := hc.Get(gateway.URL)
		if throttled := (*client.ThrottledError)(nil); errors.As(err, &throttled) {
			fmt.Println("not before", throttled.RetryAt) // only with a deadline that is too early
		}
		response.Body.Close()
	}
	fmt.Println("in flight at most:", polite.State(gateway.Listener.Addr().String()).Window)
	// Output: in flight at most: 2
}
