package aggregation

import (
	"time"

	"github.com/titrate/titrate/control/claims"
)

// After a cut the users of a key learn one by one what the other side has admitted. A user that came late to the key
// does not. A second after a gateway has returned to it they compare their pools, and all know the largest debt.
const (
	compareAfter = time.Second
	// A cut that changes owners lasts for longCut at least, and gateways return to keys within returnWithin, seconds.
	longCut, returnWithin = 1, 10
)

// comparison is a key whose users are to compare their pools.
type comparison struct {
	key uint64
	at  time.Duration
}

// noteReturn has the users of a key compare their pools soon if the claim is of a gateway that was cut off.
func (t *Aggregator) noteReturn(now time.Duration, id claims.Peer, outcome claims.Outcome, info *ownedKey, r *told) {
	switch {
	case outcome == claims.Old || info.compare || !r.known || r.left || r.abroad || t.needsAll(info):
	case t.owned.Returns(id, longCut, returnWithin, now.Seconds()):
		info.compare = true
		t.comparisons = append(t.comparisons, comparison{r.Key, now + compareAfter})
	}
}

// comparePools begins another count of the keys of which that is due: then each user takes the emptiest pool.
func (t *Aggregator) comparePools(now time.Duration) {
	for len(t.comparisons) > 0 && t.comparisons[0].at <= now {
		key := t.comparisons[0].key
		t.comparisons = t.comparisons[1:]
		if info := t.ours.get(key); info != nil && info.compare {
			info.compare = false
			t.owned.Renew(key)
			t.tellUsers(now, key, several, false)
		}
	}
}
