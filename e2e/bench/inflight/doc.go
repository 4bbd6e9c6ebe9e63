// Package inflight measures limits on requests in flight over three gateways, beside a counter in Redis.
//
// # Method
//
// One client sends requests through three gateways, a Poisson process at each, and does not repeat what is refused.
// A request says how long the upstream is to hold it, an exponential time. So all systems are asked for the same, in
// turn, in interleaved rounds after a warm-up. The upstream is in this process and keeps how many requests it has
// over time. control/slots: TestCells plays the same cells on virtual time.
//
// In the cell with crashes one gateway after the other ends at even intervals, by SIGKILL for an Envoy, and is
// started again at once. Its requests end at the upstream, too. Requests to a gateway that is down fail.
//
// # Figures
//
//   - use: the mean number in flight at the upstream, over the limit, or over what was wanted if that is less. A slot
//     on its way between gateway and upstream is not in flight there.
//   - refused wrongly: the refusals that reached the client while the upstream had less than the limit, over all
//     requests.
//   - at the gateways: the same two, with requests that are on their way to the upstream and answers on their way
//     back, which have a slot or a count. It is an estimate: a gateway is taken to be half way, and the ways there as
//     long as those back, which do not wait. At a full limit a tenth of a request more or less shows.
//   - most in flight: at the upstream, warm-up included.
//   - added: the latency of an answered request, less its stay at the upstream, in the median.
//   - starts late: the generator's lateness. Beyond 20 ms at the 99th percentile a cell is void.
//
// # The systems
//
//	titrate              Envoys with a limit that has a concurrency, agents, a coordinator
//	INCR, DECR           a gateway counts up in one Redis. Above the limit it counts down and refuses; otherwise it
//	                     sends the request on and counts down when that has ended
//	INCR, EXPIRE, DECR   the same; each INCR also sets a TTL of a minute
//
// The counter's gateways are small HTTP servers of this process, not Envoys. When one crashes its connections end and
// it never counts down what it has in flight.
package inflight
