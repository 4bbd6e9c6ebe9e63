// Package exactness measures how near three gateways come to one common limit, compared with a local limit on
// each and ratelimit with Redis.
//
// # Method
//
// A cell is a limit (1 to 10⁴ requests per second, burst one second's worth) and a load, with two clients. One
// asks for more than the limit and must get exactly the limit, the other asks for less and must never be
// refused. Cells of different clients do not touch each other, so many run at once, as many as the machine
// sustains; each lasts 8 to 24 s.
//
//	6:3:1     evenly over time, 60, 30 and 10 % through the three gateways
//	pinned    all through one gateway
//	rotating  all through one gateway at a time, the next every 2 s
//	on/off    6:3:1, twice as much for a second, then nothing for a second
//	edge      every 3 s, a second's worth in the last and another in the first
//	          tenth of a second around the clock's second, 6:3:1
//	join      6:3:1; a fourth gateway starts and takes 30 parts of 130 from
//	          halfway on
//	change    6:3:1; the limit is halved halfway
//
// The client above asks 1.5 × the limit (1.2 × at 10⁴/s), the one below 0.8 ×; at
// edges 1 + 1 and ½ + ½ seconds' worth; below a change 0.4 ×.
//
// # Figures
//
// A request counts when its gateway received it, by the gateway's clock (all
// are this machine's), not when it was sent or answered.
//
//   - mean: the admitted requests of the client above, over the requests that one
//     token bucket admits of the same load. This bucket has room for one request
//     beyond the burst. (A bucket of exactly one second's worth loses the parts of
//     a request that come in while it is full: at 1/s it admits 0.75/s of 1.5/s.)
//   - excess: the most admitted requests in any window t over rate·t + burst; the
//     ideal bucket has 0 or less. Before and after a change are judged separately,
//     with a second between them.
//   - sliding second: the most admitted requests in any second, over the rate.
//     An ideal bucket reaches 2: the burst and the rate. With a change only the
//     time before the change is judged.
//   - wrongful: of the requests of the client below, the part that was refused
//     although the ideal bucket would have admitted them.
//   - failed: anything but 200 and 429. It should be 0.
//   - held: of the requests to EXACT limits, the part that waited for tokens, and for how long, as
//     the filters report (titrate_wait_ms).
//
// # The systems
//
//   - titrate: agents, gossip, coordinator, limits without a queue (a request
//     beyond the limit is refused at once, as with the others).
//   - local_ratelimit: every gateway has the whole limit, by a dynamic
//     descriptor per client. Without the load change: a change would be a new
//     listener.
//   - services: one request to the service per request. Not at 10⁴/s, which they
//     do not sustain on a machine that also runs the load, and without the load
//     change. A window has no burst: it refuses the bursts that a token bucket
//     allows.
//
// The services, as package rig starts them:
//
//	titrate --rls        an agent for each gateway; a bucket
//	ratelimit + Redis    one for all; windows of a second of the clock
//	Limitador (library)  one for all, counters in its memory; windows of a second
//	                     that begin with a request
package exactness
