// Package slots keeps at most c requests of a key in flight over all gateways.
//
// # Model
//
// A slot is the right to have one request in flight. A key has c slots. Each slot has one
// place: the owner of the key (an agent), or one gateway, where it is in use or idle.
//
//	owner's free slots + Σ over gateways (granted + brought − returned) = c
//
// Slots travel; nothing is counted up and down in a store. So a process that dies leaves nothing
// behind: its slots are the slots of its session, and they return with the end of the session.
//
//	gateway ── Ask: 2 requests wait, 41 slots returned so far ──► owner
//	gateway ◄─ Reply: 44 slots granted so far; short for 50 ms ─── owner
//
// A request that ends passes its slot on to the next one at the same gateway, without a message.
//
// # Rules
//
// Rules 1 to 5 keep the bound, rules 6 to 10 the use. For each rule random_test.go or cells_test.go
// has a variant without the rule, which fails.
//
//  1. Owner and gateway keep granted and returned per session, cumulative. A gateway has what it has
//     received less what it has returned. The owner counts what it has granted less the returns that it
//     has received, so it never counts less than the gateway has.
//  2. A session ends with its process or with its lease, never by a session of another process: the
//     parent and the child of a hot restart are two users.
//  3. A new owner grants nothing until every gateway has registered what it has, or has been
//     unreachable for ExpireAfter. Gateways go on with what they have.
//  4. A gateway starts nothing after LeaseFor since it sent the last message that the owner has answered. The
//     owner frees the slots of a gateway ExpireAfter after it received the last message. ExpireAfter is longer.
//  5. A gateway whose lease has run out drops its idle slots, and brings the slots in use into its next
//     session. These were perhaps granted again meanwhile, so they go back when a request ends, and are
//     not used again.
//  6. An owner without free slots is short, and says in its messages for how long. Meanwhile gateways return
//     idle slots at once.
//  7. A no of the owner holds while it is short. It ends with a grant, or with the notice that slots are free.
//  8. Requests wait for up to MaxWait, also while all slots are in use, but then only as many as slots become free in
//     that time. If the limit has a queue it bounds both.
//  9. A question has a number of requests and an end. Owner and gateway drop it then. Where requests wait longer, the
//     gateway asks again before.
//  10. If a gateway waits and has far less than its part by use, the owner makes the others that have more
//     than their parts return slots as requests end. If it has had none for a second, or if more slots are out
//     than the limit has, they keep the whole slots of their parts only.
//
// # Bounds
//
//   - Requests that were started with a lease: c at most, less the slots that are under way.
//   - Requests in flight: c, and those of gateways whose lease has run out and that were in flight then.
//   - All slots are free within ExpireAfter of the end of all requests, with every loss of messages and processes.
//   - Where the limit is lowered, no request ends early: slots go back as requests end.
//
// # Time and numbers
//
// Times are nanoseconds of one's own clock; messages carry durations only. Rates of clocks may differ by one part in
// seven. Nothing here has a clock, goroutine or lock; a value is for one goroutine at a time.
// A request at a gateway costs O(1), a message at an owner O(gateways that use the key).
//
// Source: conservation of a moiety, free enzyme plus complex, after Monti and Sifalakis (2013), §3; leases after
// Gray and Cheriton, "Leases" (1989); escrowed quantities after O'Neil, "The Escrow Transactional Method" (1986).
package slots
