package core

import (
	"math"
	"testing"
	"time"

	"github.com/titrate/titrate/control/exchange"
)

// A claim falls in each period after a request. While the key's owner decides, that costs other agents a record a
// second (and here, with one key, one more to remind them). If another site uses the key, its owner here has more of
// them. In the end all know what is claimed.
func TestClaimsOfOwnedKeysAreFew(t *testing.T) {
	const seconds, key = 5, 7
	for _, tc := range []struct {
		sites, agents int
		owned         bool
		most, least   int
	}{{1, 4, true, 2*seconds + 2, 2}, {2, 8, true, 2*seconds + 2, 2}, {1, 4, false, 200, 3 * seconds}} {
		f := newSites(tc.sites, tc.agents, 16, 1)
		claim, records := 3., map[int]int{}
		for i, b := range f.agents {
			b.claim[key] = .5
			f.admit(i, key, 1)
		}
		f.run(time.Second, nil)
		a := f.agents[0]
		count := func() {
			for _, m := range f.mail {
				for _, r := range m.packet.GetReplicas() {
					if m.from == 0 && r.GetSite() == "" {
						records[m.to] += len(r.GetKeys())
					}
				}
			}
		}
		for range seconds * int(time.Second/period) {
			if claim *= math.Exp(-period.Seconds()); claim < .05 {
				claim = 0
			}
			a.claim[key] = claim
			f.take(a, a.Received(f.at(a), 1, &exchange.Claims{Keys: []exchange.KeyClaim{{Key: key, Claim: claim,
				Unsaturated: claim, Admitted: a.admitted[key], Spent: a.spent(key), Own: a.own(key), Owned: tc.owned}}}))
			count()
			f.run(period, count)
		}
		f.run(2*time.Second, nil)
		owner := a.aggregator.Owner(key)
		for to := tc.sites; to < tc.agents; to += tc.sites {
			n, most := records[to], tc.most
			if f.agents[to].name == owner && tc.sites > 1 {
				most = 8 * seconds
			}
			if n < tc.least || n > most {
				t.Errorf("%+v: %d records to agent %d, want up to %d", tc, n, to, most)
			}
			_, want := f.truth(key, to)
			if got := f.agents[to].sums[key].Claims; math.Abs(got-want) > .06 {
				t.Errorf("%+v: gateway %d is sent claims of %g in the end, want %g", tc, to, got, want)
			}
		}
	}
}
