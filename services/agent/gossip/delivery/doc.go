// Package delivery keeps one peer up to date about the state of many keys, over packets
// that may be lost, repeated or overtaken. It does no I/O and reads no clock.
//
// # Model
//
// A Box holds, for each item that the peer is to know, whether the peer knows its latest
// state. What an item says is read when a packet is filled, so a packet has the latest
// state, and a later packet replaces an earlier one.
//
//	calm     the peer has acknowledged the latest state; it costs nothing
//	waiting  there is a newer state, or none was sent yet
//	flying   a packet has carried the latest state and is not acknowledged
//
//	          Tell             Take              Acked
//	(unknown) ────► waiting ─────────► flying ─────────► calm
//	                   ▲  lost, or Tell  │                 │
//	                   └─────────────────┴──── Tell ◄──────┘
//
// Urgent items are taken first, but for one of four, and among equals the longest waiting. A window bounds the packets
// on their way, as in TCP: a peer that is late is sent less. Spare items have a quarter of the window, and a
// budget of items per second.
//
// A packet counts as lost when a packet sent after it was acknowledged and it was not ([reorder] later ones), or when
// it was not acknowledged in time.
//
// All operations are O(1) for an item; calm items are visited by [Box.Visit] only, as many
// at a time as its caller wants.
package delivery
