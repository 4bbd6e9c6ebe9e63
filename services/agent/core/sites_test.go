package core

import (
	"math"
	"testing"
	"time"

	"github.com/titrate/titrate/control/exchange"
	"github.com/titrate/titrate/services/agent/gossip/size"
	"pgregory.net/rapid"
)

// Packets are lost and agents start again. After quiet each gateway has the claims of all others, at any site. A cost
// that is admitted then is charged once at each. What was charged for a gateway that was unreachable may be taken back
// then, if the gateway did not admit it. Nothing that was admitted is forgotten, but for what is assumed in a period.
func TestSitesAgreeAfterQuiet(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sites, everybody := rapid.IntRange(2, 3).Draw(t, "sites"), rapid.SampledFrom([]int{1, 16}).Draw(t, "everybody")
		n := sites * rapid.IntRange(1, 3).Draw(t, "agents of a site")
		f := newSites(sites, n, everybody, rapid.Uint64().Draw(t, "seed"))
		keys := []uint64{11, 12, 13}
		for i := range n {
			for _, k := range keys {
				f.agents[i].claim[k] = float64(1 + f.random.IntN(9))
				f.admit(i, k, 1)
			}
		}
		f.run(3*time.Second, nil)
		f.claimsAgree(t, "at first", keys)
		f.loss = float64(rapid.IntRange(0, 3).Draw(t, "loss")) / 10
		for range rapid.IntRange(1, 5).Draw(t, "steps") {
			i := f.random.IntN(n)
			if rapid.Bool().Draw(t, "restart") {
				f.begin(i)
			} else {
				f.agents[i].claim[keys[0]] = float64(1 + f.random.IntN(9))
				f.admit(i, keys[0], 2)
			}
			f.run(time.Second, nil)
		}
		f.loss = 0
		f.run(10*time.Second, nil)
		f.claimsAgree(t, "after quiet", keys)
		was := make([]float64, n)
		for i, a := range f.agents {
			was[i] = a.spent(keys[0])
		}
		f.admit(0, keys[0], 100)
		f.run(2*time.Second, nil)
		all, claims := f.truth(keys[0], -1)
		for i, a := range f.agents[1:] {
			least := min(was[i+1]+99.9, all-claims*period.Seconds())
			if got := a.spent(keys[0]); got < least || got > was[i+1]+100.1 {
				t.Fatalf("gateway %d takes %v to be spent after %v and a cost of 100 at another one, want %v and no more than 100"+
					" of it", i+1, got, was[i+1], least)
			}
		}
	})
}

// claimsAgree fails unless each gateway was sent what all others claim.
func (f *fleet) claimsAgree(t *rapid.T, what string, keys []uint64) {
	for i, a := range f.agents {
		for _, key := range keys {
			_, claims := f.truth(key, i)
			if got := a.sums[key].Claims; got < .99*claims || got > 1.01*claims {
				t.Fatalf("%s: gateway %d of %s is told that the others claim %v of key %d, want %v", what, i, f.site(i), got,
					key, claims)
			}
		}
	}
}

// Sites send each other the keys that both use, and no more than their budget: those of one site are registered once.
func TestTrafficBetweenSites(t *testing.T) {
	const keys, both = 4_000, 2_000
	f := newSites(2, 4, 16, 1)
	announce := func(i, from, to int, admitted float64) {
		a := f.agents[i]
		m := &exchange.Claims{}
		for k := from; k < to; k++ {
			m.Keys = append(m.Keys, exchange.KeyClaim{Key: uint64(k + 1), Claim: 1, Unsaturated: 1, Admitted: admitted, Spent: 1})
		}
		f.take(a, a.Received(f.at(a), 1, m))
	}
	bytes, records := 0, map[uint64]int{}
	count := func() {
		for _, m := range f.mail {
			if f.site(m.from) != f.site(m.to) {
				for _, s := range m.packet.GetSites() {
					bytes += size.Sum(s) + 3
					records[s.GetKey()]++
				}
			}
		}
	}
	announce(0, 0, keys, 1)
	announce(1, keys-both, 2*keys-both, 1)
	f.run(8*time.Second, count)
	alone, most := 0, 0
	for key, n := range records {
		if key <= keys-both || key > keys {
			alone, most = alone+n, max(most, n)
		}
	}
	if want := 2 * (keys - both); alone < want || alone > want+want/20 {
		t.Errorf("%d records of %d keys that one site uses, want one each", alone, want)
	}
	bytes = 0
	const seconds = 5
	for range seconds * 5 {
		announce(0, 0, keys, float64(2+f.now/time.Millisecond))
		announce(1, keys-both, 2*keys-both, float64(2+f.now/time.Millisecond))
		f.run(200*time.Millisecond, count)
	}
	rate := float64(bytes) / seconds / 2
	t.Logf("%.0f B/s from a site to the other, of %d keys used at both", rate, both)
	if rate > 100_000 || rate < 20_000 {
		t.Errorf("%.0f B/s from a site to the other, want 20,000 to 100,000", rate)
	}
}

// After a request a claim falls in each period, until it is 0, and so does what is spent. The other site lets both fall
// by itself. While it is cut off they stand.
func TestFallingClaimsBetweenSites(t *testing.T) {
	const key, periods, refill = 7, 100, .7
	for _, window := range []float64{1, .4} {
		f := newSites(2, 4, 1, 1)
		records, worst, off := 0, 0., 0.
		demand := func(i int) float64 { return f.agents[i].claim[key] }
		play := func(periods int, cost float64) {
			records, worst, off = 0, 0, 0
			for p := range periods {
				for i := range 2 { // the first gateways of both sites
					f.agents[i].claim[key] *= math.Exp(-period.Seconds() / window)
					if f.agents[i].claim[key] < .02/window {
						f.agents[i].claim[key] = 0
					}
				}
				f.agents[0].admitted[key] += cost
				f.agents[0].claim[key] += cost / window
				for _, a := range f.agents {
					a.refilled[key] += min(refill*period.Seconds(), a.spent(key))
				}
				cost = 0
				for i := range f.agents {
					f.announce(i, key)
				}
				f.run(period, func() {
					for _, m := range f.mail {
						if f.site(m.from) == f.site(0) && f.site(m.to) != f.site(0) {
							records += len(m.packet.GetSites())
						}
					}
				})
				if p > 4 && f.cut == "" {
					worst = max(worst, math.Abs(f.agents[1].sums[key].Claims-demand(0)))
					off = max(off, math.Abs(f.agents[1].sums[key].Spent-f.agents[0].spent(key)))
				}
			}
		}
		f.admit(1, key, 1)
		play(2*periods, 1)
		for range 3 { // after the first one the owner knows the law
			play(periods, 1)
		}
		if play(periods, 1); records < 1 || records > 8 {
			t.Errorf("window %g s: %d records of one request, want 2, each of which is seen up to 4 times", window, records)
		}
		if bound := .25 / window; worst > bound {
			t.Errorf("window %g s: what the other site has differs from the claim by %.3f, want at most %.3f", window, worst,
				bound)
		}
		if off > .4 {
			t.Errorf("window %g s: what the other site takes for spent is off by %.2f, want at most .4", window, off)
		}
		play(2, 4)
		f.cut = f.site(0)
		was := demand(0)
		play(40, 0)
		if got := f.agents[1].sums[key].Claims; got < .6*was || got > 1.2*was {
			t.Errorf("window %g s: while a site is cut off, it claims %.2f, want about what it last did, %.2f", window, got,
				was)
		}
		f.cut = ""
		play(20, 0)
		if got := f.agents[1].sums[key].Claims; math.Abs(got-demand(0)) > .1/window {
			t.Errorf("window %g s: after the cut it claims %.2f, want %.2f", window, got, demand(0))
		}
	}
}

// Beyond Everybody agents, the only gateway of a site that uses a key may be one of the key's owner there. What it
// admits and claims is known at the other site all the same.
func TestOwnersGatewayAloneIsKnownAbroad(t *testing.T) {
	keys := []uint64{7, 8, 9, 10, 11, 12, 13, 14}
	f := newSites(2, 6, 1, 1)
	for _, key := range keys { // each has an owner among three agents of each site
		f.admit(0, key, 1)
		f.admit(1, key, 1)
	}
	f.run(time.Second, nil)
	for _, key := range keys {
		f.agents[0].claim[key] = 3
		f.admit(0, key, 5)
	}
	f.run(3*time.Second, nil)
	for _, key := range keys {
		if got := f.agents[1].sums[key]; f.agents[1].charged[key] < 5.99 || got.Claims < 2.9 {
			t.Errorf("key %d: the other site has charged %v of 6, and knows a claim of %v of 3", key,
				f.agents[1].charged[key], got.Claims)
		}
	}
}
