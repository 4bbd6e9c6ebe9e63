// Package client lets a Go program be a good client of a limited service. It has an
// [http.RoundTripper] and gRPC interceptors that slow down when a gateway marks their
// requests, wait when it says how long, and try again what it refused.
//
//	hc := &http.Client{Transport: client.New(client.Options{}).Transport(nil)}
//
//	c := client.New(client.Options{})
//	conn, err := grpc.NewClient(target, grpc.WithUnaryInterceptor(c.Unary()),
//		grpc.WithStreamInterceptor(c.Stream()))
//
// # Model
//
// Each destination (the URL's host, the gRPC target) has a congestion window w,
// the requests that may be in flight, as TCP with ECN has one for packets:
//
//	answer without a mark   w += 1 per answer until the first mark, then 1/w
//	marked, or refused      w ← w/2, at most once per round trip
//
// Requests leave paced, w per smoothed round trip, so that below one in flight (w < 1) the program still goes on, at w
// requests per round trip. That is the kind of client that Titrate's variable-structure law is made for: its queue
// stays at the delay target and nobody is refused.
//
// What the gateway says about time is obeyed to the letter: Retry-After (RFC 9110 §10.2.3, seconds or a date),
// `RateLimit` with r=0 and t (draft-ietf-httpapi-ratelimit-headers-10), and gRPC's grpc-retry-pushback-ms. Nothing
// leaves for that destination before. A refused request (429, 503 with Retry-After, RESOURCE_EXHAUSTED) was not
// processed, so it is sent again when its body can be, up to Options.Retries times.
//
// # Invariants
//
//   - In flight ≤ max(1, w) ≤ Options.MaxInFlight per destination.
//   - Requests leave in the order in which they came.
//   - A request whose context ends first costs nothing. A request whose deadline is before
//     the time that the gateway has named fails at once, with [*ThrottledError], instead of
//     waiting in vain.
//   - A pause is never longer than Options.MaxPause, whatever a header says.
//
// Each request costs O(1) and one mutex per destination.
//
// Source: Jacobson, Congestion Avoidance and Control (1988); RFC 3168 (ECN); Yan, Gao, Özbay, A Variable Structure
// Control Approach to AQM, whose sources are Reno's.
package client
