// Package keys has the keys of concurrency limits at one gateway, and its leases with their owners.
//
//	Try ──► Admitted ───────────────────────► the request is in flight ──► Free
//	 │ Waits                                        ▲                        │
//	Join ─► line of the key ── Ended{Admitted} ─────┘ ◄── the first in line ─┘
//	                  └─────── Ended{Refused}: Queue.Wait has passed, or all slots are in use
//
// A key is forgotten when it has no slot and no request, and its owner knows that.
package keys
