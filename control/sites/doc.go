// Package sites keeps one limit over several sites. Each site has an owner of a key, with a token
// bucket (rate r, burst b) of its own (package control/grant). The owners report to each other what
// their sites have admitted, and each charges its bucket with what the others have:
//
//	site A   bucket ◄── own admissions
//	            ▲
//	            └────── what B and C have admitted, as reported ◄──── owners at B and C
//
// # Model
//
// A [Book] is the ledger of one key at one owner. It is a drc.Ledger of as many replicas as there are
// sites. It counts the site's own admissions and receives the sums over the other sites. Its D rises by the
// cost that is to be charged. So first contact, a new count (Epoch) and silence have one law here and between
// gateways. The bucket remembers the refill that it turned away before a late report: grant.Owner.Charge.
//
// # Bounds
//
// A site refuses by its bucket alone. While reports are no older than the lag δ nobody is refused who keeps
// within the limit over all sites; where b < r·δ up to 4 % are. S sites together admit at most
// r·t + b + (S−1)·(b + 2·r·δ) in a window t: r·δ until the first report, and r·δ since the latest one. What is beyond
// r·t + b is debt of all buckets, repaid before more is admitted. Debt is at most S·b + r·15 s, so that
// a heal takes no longer than that to refill.
//
// Each call is O(1) and allocates nothing.
package sites
