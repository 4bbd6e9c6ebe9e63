package reports

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/titrate/titrate/control/exchange"
	controlv1 "github.com/titrate/titrate/proto/titrate/control/v1alpha1"
	"google.golang.org/protobuf/proto"
)

const window = 250 * time.Millisecond

// counted adds up what the coordinator makes of reports, as its inbox does.
type counted struct {
	last  map[place]*controlv1.FlowReport
	units map[place]float64
	rows  int
	idle  int // of them, of flows that do nothing
}

func (c *counted) take(named []*controlv1.FlowReport, changes bool) {
	if !changes {
		c.last = map[place]*controlv1.FlowReport{}
	}
	c.rows += len(named)
	for _, f := range named {
		if f.GetWaiting() > 0 {
			c.idle++
		}
		for p := range c.last {
			if p.flow == (flow{f.GetTenant(), f.GetPool()}) && p.gateway != f.GetGateway() {
				panic("a flow with several gateways: not in this test")
			}
		}
		c.last[place{flow{f.GetTenant(), f.GetPool()}, f.GetGateway()}] = f
	}
	for p, f := range c.last {
		c.units[p] += f.GetDemand() * window.Seconds()
		if f.GetOnce() || !changes {
			delete(c.last, p)
		}
	}
}

// poisson draws the arrivals of a window.
func poisson(random *rand.Rand, mean float64) float64 {
	n, p := -1.0, 1.0
	for limit := math.Exp(-mean); p > limit; n++ {
		p *= random.Float64()
	}
	return n
}

// The coordinator counts what flows do, slow or fast, steady or not; and steady fast flows
// cost little.
func TestSelectorCountsWhatHappened(t *testing.T) {
	for _, c := range []struct {
		name      string
		rate      func(flow, second int) float64
		rowsPer   float64 // second and flow, at most
		tolerance float64 // of the sum of one flow
	}{
		{"a request each 10 s", func(int, int) float64 { return .1 }, .11, 1e-9},
		{"a request each second", func(int, int) float64 { return 1 }, .95, 1e-9},
		{"10/s", func(int, int) float64 { return 10 }, 1, .03},
		{"100/s", func(int, int) float64 { return 100 }, 1, .01},
		{"100/s, then 300/s", func(_, s int) float64 { return 100 + 200*float64(s/60) }, 1, .01},
		{"on and off each 7 s", func(f, s int) float64 { return 80 * float64((s+f)/7%2) }, 1.5, .02},
	} {
		t.Run(c.name, func(t *testing.T) {
			const flows, seconds = 50, 120
			random := rand.New(rand.NewPCG(1, 2))
			var selector Selector
			got := counted{last: map[place]*controlv1.FlowReport{}, units: map[place]float64{}}
			sums := map[place]float64{}
			for w := range 4 * seconds {
				var rates []*controlv1.FlowReport
				for i := range flows {
					n := poisson(random, c.rate(i, w/4)*window.Seconds())
					if n == 0 && w > 0 {
						continue
					}
					f := &controlv1.FlowReport{Tenant: fmt.Sprint(i), Pool: "api", Gateway: "gw",
						Demand: n / window.Seconds(), Served: n / window.Seconds()}
					rates = append(rates, f)
					sums[place{flow{f.Tenant, "api"}, "gw"}] += n
				}
				for len(rates) <= reportAll { // so that changes are reported
					rates = append(rates, &controlv1.FlowReport{Tenant: fmt.Sprint("idle", len(rates)), Pool: "api",
						Gateway: "gw", Waiting: 1})
				}
				got.take(selector.Select(rates, window, true))
			}
			off, rows := 0.0, 0
			for p, sum := range sums {
				if e := math.Abs(got.units[p]-sum) - 5; sum > 0 {
					off = max(off, e/sum)
				}
				rows++
			}
			perFlow := float64(got.rows-got.idle) / seconds / flows
			t.Logf("%.3f rows per second and flow, worst sum off by %.4f", perFlow, off)
			if off > c.tolerance || rows != flows {
				t.Errorf("the sum of a flow is off by %.3f, want at most %v; %d flows", off, c.tolerance, rows)
			}
			if c.rowsPer < perFlow && c.rate(0, 0) > 5 {
				t.Errorf("%.2f rows per second and flow, want at most %v", perFlow, c.rowsPer)
			}
		})
	}
}

// Few flows are reported each time, as are all while the coordinator does not understand changes.
func TestSelectorNamesAll(t *testing.T) {
	var selector Selector
	rates := make([]*controlv1.FlowReport, reportAll+1)
	for i := range rates {
		rates[i] = &controlv1.FlowReport{Tenant: fmt.Sprint(i), Pool: "api", Gateway: "gw", Demand: 100}
	}
	for range 3 {
		if named, changes := selector.Select(rates, window, false); changes || len(named) != len(rates) {
			t.Errorf("not understood: %d rates, changes %v", len(named), changes)
		}
		if named, changes := selector.Select(rates[:reportAll], window, true); changes || len(named) != reportAll {
			t.Errorf("few: %d rates, changes %v", len(named), changes)
		}
	}
	for i := range 20 {
		named, changes := selector.Select(rates, window, true)
		if !changes || i > 4 && len(named) != 0 {
			t.Errorf("report %d of the same names %d flows, changes %v", i, len(named), changes)
		}
		if i > 4+int(reportEvery/window)/2 {
			break
		}
	}
	rates[7].Demand, rates[9].Waiting = 400, 9
	if named, _ := selector.Select(rates, window, true); len(named) != 2 || named[0].GetDemand() < 400 ||
		named[0].GetDemand() > 420 || named[1].GetWaiting() != 9 {
		t.Errorf("a jump and a queue: %v", named)
	}
	if named, _ := selector.Select(rates[:reportAll], window, true); len(named) != reportAll {
		t.Errorf("few again: %d", len(named))
	}
}

// Of more flows than a report has room for, those of the gateways with few are reported, in a complete report and in
// one of changes. A flow is reported at all its gateways or at none.
func TestAGatewayWithManyFlowsLeavesRoom(t *testing.T) {
	var rates []*controlv1.FlowReport
	add := func(gateway, tenant string) {
		rates = append(rates, &controlv1.FlowReport{Tenant: tenant, Pool: "api", Gateway: gateway, Demand: 100})
	}
	for i := range 2 * most {
		add("bad", fmt.Sprint("a", i))
	}
	add("bad", "shared")
	add("good", "shared")
	add("good", "z")
	for _, understood := range []bool{false, true} {
		var s Selector
		got, changes := s.Select(slices.Clone(rates), exchange.ReportEvery, understood)
		of, bytes := map[string]int{}, 0
		for _, f := range got {
			bytes += proto.Size(f) + 4
			if of[f.GetGateway()]++; f.GetTenant() == "shared" {
				of["shared"]++
			}
		}
		if changes != understood || of["good"] != 2 || of["shared"] != 2 || len(got) > most || bytes > 16<<20 {
			t.Errorf("changes %v: %v of %d flows, %d bytes", changes, of, len(got), bytes)
		}
	}
}
