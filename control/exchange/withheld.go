package exchange

import (
	"maps"
	"slices"
)

// mostWithheld bounds the keys of a Withheld. The other replicas forget the claims of the rest
// after a while.
const mostWithheld = 1 << 16

// Withheld keeps what a gateway without an agent cannot announce of the keys that it withdraws:
// the last count of each, and that it is withdrawn. Without that count the others would receive
// the count with the next use of the key, as if all of it had been admitted just then. The zero
// Withheld is empty. Not safe for concurrent use.
type Withheld struct {
	counts map[uint64]KeyClaim // by key: announced last
	ended  map[uint64]bool     // keys that are withdrawn
}

// Add takes claims that no agent has seen. It keeps nothing of c.
func (w *Withheld) Add(c *Claims) {
	if w.counts == nil && len(c.Keys)+len(c.Withdrawn) > 0 {
		w.counts, w.ended = map[uint64]KeyClaim{}, map[uint64]bool{}
	}
	for _, k := range c.Keys {
		if _, known := w.counts[k.Key]; known || len(w.counts) < mostWithheld {
			w.counts[k.Key] = k
		}
		delete(w.ended, k.Key)
	}
	for _, f := range c.Flows {
		delete(w.ended, f.Key)
	}
	for _, key := range c.Withdrawn {
		if len(w.ended) < mostWithheld {
			w.ended[key] = true
		}
	}
}

// AddTo adds to the first claims on a new link what was withheld, but for keys that they name, and
// forgets it.
func (w *Withheld) AddTo(c *Claims) {
	for _, k := range c.Keys {
		delete(w.ended, k.Key)
	}
	for _, f := range c.Flows {
		delete(w.ended, f.Key)
	}
	for _, key := range slices.Sorted(maps.Keys(w.ended)) {
		if k, ok := w.counts[key]; ok {
			k.Claim, k.Active, k.Unsaturated = 0, 0, 0
			c.Keys = append(c.Keys, k)
		}
		c.Withdrawn = append(c.Withdrawn, key)
	}
	*w = Withheld{}
}
