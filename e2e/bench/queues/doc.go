// Package queues measures what the laws of a queue do to clients of three kinds:
// those that obey marks, those that ask at a pace of their own, and those that
// come back at once.
//
// # Method
//
// One real Envoy, one pool per law and kind, all with the same capacity, delay
// target and longest wait, all loaded at the same time, so that every cell sees the
// same machine. What is not limited by the gateway takes no time: Envoy answers by
// itself.
//
//	cooperative   workers that ask again as soon as they are answered, through
//	              services/client: a window that marks halve
//	open loop     arrivals at twice the capacity, whatever the answers
//	retrying      arrivals at 1.3 times the capacity; who is refused asks again
//	              after 20 ms, up to four times, and gives up waiting after the
//	              useful time
//
// An answer is good if it came within the useful time; goodput is the rate of those,
// as a fraction of the capacity. Waits are what the gateway says (x-titrate-wait-ms),
// 0 when it says nothing. Refusals count answers, not callers: each is a request
// that Envoy had to refuse.
package queues
