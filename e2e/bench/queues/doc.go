// Package queues measures the effect of a queue's laws on three kinds of clients. They are clients that
// obey marks, clients that send at a fixed rate, and clients that retry at once.
//
// # Method
//
// One real Envoy, and one pool per law and kind. All pools have the same capacity, delay target and longest
// wait, and are loaded at the same time, so that every cell sees the same machine. Requests that the gateway
// does not limit take no time: Envoy answers them itself.
//
//	cooperative   workers that ask again as soon as they are answered, through
//	              services/client: a window that marks halve
//	open loop     arrivals at twice the capacity, independent of the answers
//	retrying      arrivals at 1.3 times the capacity; a refused client asks again
//	              after 20 ms, up to four times, and gives up waiting after the
//	              useful time
//
// An answer is good if it came within the useful time; goodput is the rate of good answers, as a fraction of
// the capacity. Waits are the gateway's figures (x-titrate-wait-ms), 0 without one. Refusals count answers, not
// callers: each is a request that Envoy had to refuse.
package queues
