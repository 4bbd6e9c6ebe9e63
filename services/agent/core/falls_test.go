package core

import (
	"math"
	"slices"
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

// Of a key beyond Options.Shared whose owner grants tokens only the owner receives claims, in a small fleet, too, and
// only its users receive sums. Agents whose gateways do not use it know nothing of it.
func TestManyExactKeysAreSentToTheirOwnerAlone(t *testing.T) {
	const key = 7
	f := newShared(8, 16, 1, func() int { return -1 })
	f.run(time.Second, nil)
	owner := f.agents[0].aggregator.Owner(key)
	var users []int
	for i, a := range f.agents {
		if a.name != owner && len(users) < 3 {
			users = append(users, i)
			a.claim[key] = float64(i)
			f.admit(i, key, 2)
		}
	}
	f.run(2*time.Second, func() {
		for _, m := range f.mail {
			for _, r := range m.packet.GetReplicas() {
				if len(r.GetKeys()) > 0 && f.agents[m.to].name != owner {
					t.Fatalf("agent %d is sent %v of agent %d, and %s is the owner", m.to, r.GetKeys(), m.from, owner)
				}
			}
		}
	})
	for i, a := range f.agents {
		known := a.Status(f.at(a)).Aggregation
		switch _, claims := f.truth(key, i); {
		case a.name == owner:
			if known.Owned != 1 || known.Keys != 0 {
				t.Errorf("the owner owns %d keys and uses %d, want 1 and 0", known.Owned, known.Keys)
			}
		case !slices.Contains(users, i):
			if known.Owned+known.Keys > 0 {
				t.Errorf("agent %d, which uses no key, knows %d", i, known.Owned+known.Keys)
			}
		case a.sums[key].Claims != claims:
			t.Errorf("gateway %d is sent claims of %g, want %g", i, a.sums[key].Claims, claims)
		}
	}
}
