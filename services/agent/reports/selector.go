package reports

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"time"

	controlv1 "github.com/titrate/titrate/proto/titrate/control/v1alpha1"
)

// Selector picks which of the rates are reported to the coordinator. While there are few flows,
// all of them are reported each time. Beyond that a flow is reported window by window, when it did
// anything, as long as it is slow. A flow with a unit or more in a window goes on as reported, and
// is reported again when what it did differs from that by more than chance:
//
//	|a − r·h| > jump·√max(r·h, 1)     in the last window h
//	|A − r·t| > drift·√max(r·t, 1)    in the time t since it was reported
//
// and after reportEvery in any case. r is the rate that it is believed to have, a and A are the
// cost; of demand, served, completed and shed each. What waits and what is at the upstream is
// reported when it differs by as much.
//
// After a jump r is the rate of the last window, otherwise the mean A/t. The report has r, and in addition so much
// that what the coordinator has counted too little or too much of the flow is made good within reportEvery. The sums
// of both are equal in the long run.
type Selector struct {
	places map[place]*flowState
	turn   uint64
}

const (
	// reportAll is the number of flows up to which each is reported each time.
	reportAll = 32
	// most bounds the rates in one report, and mostBytes their bytes: some 5 MB, of the 16 MiB that the coordinator
	// takes. The others wait for the next one, or are left out of a complete one.
	most      = 50_000
	mostBytes = 10 << 20
	jump      = 3
	drift     = 2
	// reportEvery is the time after which a flow is reported in any case. Longer saves bytes; a mean that differs by
	// less than chance is then off for longer.
	reportEvery = 5 * time.Second
	// slow and fast are the units in a window from which a flow is reported window by window, and
	// from which it goes on.
	slow, fast = .5, 1
)

// place is a flow at one gateway.
type place struct {
	flow
	gateway string
}

func (p place) compare(q place) int {
	return cmp.Or(cmp.Compare(p.tenant, q.tenant), cmp.Compare(p.pool, q.pool), cmp.Compare(p.gateway, q.gateway))
}

// amounts are demand, served, completed, shed and residence, per second or in units.
type amounts [5]float64

// compared are the amounts that are compared with what was reported: not residence, which follows
// from what is at the upstream.
const compared = 4

func amountsOf(f *controlv1.FlowReport) amounts {
	return amounts{f.GetDemand(), f.GetServed(), f.GetCompleted(), f.GetShed(), f.GetResidence()}
}

func (a amounts) plus(b amounts, times float64) amounts {
	for i := range a {
		a[i] += b[i] * times
	}
	return a
}

// far reports whether units differ from those expected by more than so many deviations.
func (a amounts) far(expected amounts, deviations float64) bool {
	for i := range compared {
		if isFar(a[i], expected[i], deviations) {
			return true
		}
	}
	return false
}

func isFar(v, expected, deviations float64) bool {
	return math.Abs(v-expected) > deviations*math.Sqrt(math.Max(expected, 1))
}

// flowState is the last report of a flow at one gateway, and its use since.
type flowState struct {
	steady bool                  // it goes on as reported
	mean   amounts               // that it is believed to do, if it is steady
	last   *controlv1.FlowReport // reported, if it is steady: mean, and something of what is owed
	now    *controlv1.FlowReport // in this window; nil: nothing
	turn   uint64                // of now
	sum    amounts               // since it was reported, or lately
	span   time.Duration         // of sum
	owed   amounts               // what it did beyond what the coordinator has counted
}

// Reset forgets what was reported: the stream is a new one.
func (t *Selector) Reset() { *t = Selector{} }

// Keep forgets the flows of pools that are not reported on this stream any more.
func (t *Selector) Keep(reported func(pool string) bool) {
	maps.DeleteFunc(t.places, func(p place, _ *flowState) bool { return !reported(p.pool) })
}

// Select returns which of the rates to name in a report, and whether it names only changes.
// rates, in order, cover the time every. understood: the coordinator understands changes.
func (t *Selector) Select(rates []*controlv1.FlowReport, every time.Duration, understood bool) (
	named []*controlv1.FlowReport, changes bool) {
	if !understood || len(rates) <= reportAll {
		t.Reset()
		return fittingOf(rates), false
	}
	if t.places == nil {
		t.places = map[place]*flowState{}
	}
	t.turn++
	for _, f := range rates {
		p := placeOf(f)
		if t.places[p] == nil {
			t.places[p] = &flowState{}
		}
		t.places[p].now, t.places[p].turn = f, t.turn
	}
	return t.name(t.due(every), every), true
}

// due lets a window pass, and returns the flows that are to be reported.
func (t *Selector) due(every time.Duration) map[flow]bool {
	due := map[flow]bool{}
	for p, s := range t.places {
		if s.turn != t.turn {
			s.now = nil
		}
		s.span += every
		s.sum = s.sum.plus(amountsOf(s.now), every.Seconds())
		s.owed = s.owed.plus(amountsOf(s.now), every.Seconds()).plus(amountsOf(s.last), -every.Seconds())
		switch {
		case s.due(every):
			due[p.flow] = true
		case !s.steady && time.Duration(t.turn-s.turn)*every > reportEvery:
			delete(t.places, p)
		}
		if !s.steady && s.span >= reportEvery { // what a slow flow did fades
			s.sum, s.span = amounts{}.plus(s.sum, .5), s.span/2
		}
	}
	return due
}

func (s *flowState) due(every time.Duration) bool {
	if !s.steady {
		return s.now != nil
	}
	return s.span >= reportEvery || s.jumped(every) ||
		s.sum.far(amounts{}.plus(s.mean, s.span.Seconds()), drift) ||
		isFar(s.now.GetWaiting(), s.last.GetWaiting(), drift) || isFar(s.now.GetInFlight(), s.last.GetInFlight(), drift)
}

func (s *flowState) jumped(every time.Duration) bool {
	h := every.Seconds()
	return amounts{}.plus(amountsOf(s.now), h).far(amounts{}.plus(s.mean, h), jump)
}

// name returns what to report of the flows that are due, of each at all its gateways.
func (t *Selector) name(due map[flow]bool, every time.Duration) []*controlv1.FlowReport {
	var places []place
	for p := range t.places {
		if due[p.flow] {
			places = append(places, p)
		}
	}
	slices.SortFunc(places, place.compare)
	places = fitting(places)
	out := make([]*controlv1.FlowReport, 0, len(places))
	for _, p := range places {
		out = append(out, t.places[p].report(p, every))
	}
	return out
}

// fitting returns places that fit into a report, all or none of a flow, those of the gateways with the fewest first.
// One gateway with many flows keeps no other gateway's from the coordinator.
func fitting(places []place) []place {
	size := 0
	for _, p := range places {
		size += p.size()
	}
	if len(places) <= most && size <= mostBytes {
		return places
	}
	of, rank, parts := map[string]int{}, map[flow]int{}, map[flow]int{}
	for _, p := range places {
		of[p.gateway]++
		parts[p.flow]++
	}
	for _, p := range places {
		if least, known := rank[p.flow]; !known || of[p.gateway] < least {
			rank[p.flow] = of[p.gateway]
		}
	}
	slices.SortStableFunc(places, func(a, b place) int {
		return cmp.Or(cmp.Compare(rank[a.flow], rank[b.flow]), a.compare(b))
	})
	n, bytes := 0, 0
	for n < len(places) {
		next := n + parts[places[n].flow]
		for _, p := range places[n:next] {
			bytes += p.size()
		}
		if next > most || bytes > mostBytes {
			break
		}
		n = next
	}
	return places[:n]
}

// size bounds the bytes of a flow in a report.
func (p place) size() int { return 150 + len(p.tenant) + len(p.pool) + len(p.gateway) }

func placeOf(f *controlv1.FlowReport) place {
	return place{flow{f.GetTenant(), f.GetPool()}, f.GetGateway()}
}

// fittingOf is fitting for the rates themselves.
func fittingOf(rates []*controlv1.FlowReport) []*controlv1.FlowReport {
	places := make([]place, len(rates))
	for i, f := range rates {
		places[i] = placeOf(f)
	}
	if places = fitting(places); len(places) == len(rates) {
		return rates
	}
	kept := make(map[place]bool, len(places))
	for _, p := range places {
		kept[p] = true
	}
	return slices.DeleteFunc(rates, func(f *controlv1.FlowReport) bool { return !kept[placeOf(f)] })
}

// report returns what is reported of a flow at a gateway, and notes that it is.
func (s *flowState) report(p place, every time.Duration) *controlv1.FlowReport {
	h, mean := every.Seconds(), amounts{}.plus(s.sum, 1/s.span.Seconds())
	pace := max(mean[0], mean[1], mean[2]) * h
	if s.steady && pace < slow || !s.steady && (pace < fast || s.span < time.Second) {
		return s.reportWindow(p, h)
	}
	if s.steady && s.jumped(every) {
		mean = amountsOf(s.now)
	}
	f := s.row(p)
	s.count(f, mean.plus(s.owed, 1/reportEvery.Seconds()), h)
	s.steady, s.mean, s.last, s.sum, s.span = true, mean, f, amounts{}, 0
	return f
}

// count writes rates into what is reported, and what they count for beyond what the flow did.
func (s *flowState) count(f *controlv1.FlowReport, r amounts, h float64) {
	for i := range r {
		r[i] = math.Max(r[i], 0)
	}
	f.Demand, f.Served, f.Completed, f.Shed, f.Residence = r[0], r[1], r[2], r[3], r[4]
	s.owed = s.owed.plus(amountsOf(s.last), h).plus(r, -h)
}

// reportWindow returns what the flow did in this window: it does not go on.
func (s *flowState) reportWindow(p place, h float64) *controlv1.FlowReport {
	f := s.row(p)
	f.Once = true
	s.count(f, amounts{}.plus(s.owed.plus(amountsOf(s.last), h), 1/h), h)
	s.steady, s.last = false, nil
	return f
}

// row returns a report's row of a flow at a gateway, without rates.
func (s *flowState) row(p place) *controlv1.FlowReport {
	return &controlv1.FlowReport{Tenant: p.tenant, Pool: p.pool, Gateway: p.gateway,
		Waiting: s.now.GetWaiting(), Limited: s.now.GetLimited(), InFlight: s.now.GetInFlight(),
		Marked: s.now.GetMarked(), Rejected: s.now.GetRejected(), ClientRejected: s.now.GetClientRejected()}
}
