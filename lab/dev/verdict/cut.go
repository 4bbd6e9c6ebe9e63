package verdict

import (
	"math"

	"github.com/titrate/titrate/lab/dev/scenario"
)

// cut is a time in which an agent receives nothing from the others.
type cut struct {
	from   float64 // s
	joined float64 // when the two sides are connected again, s; +Inf: never
}

// joins bounds the time from the end of a cut until agents receive from each other again, s: an agent
// looks for unreachable agents once a second.
const joins = 2

// cuts returns the cuts of a scenario in order.
func cuts(s *scenario.Scenario) (all []cut) {
	open := map[string]int{} // by gateway: of all
	for _, p := range s.Phases {
		for _, e := range p.Events {
			i, found := open[e.Target]
			switch {
			case e.Fault == scenario.CutAgent && !found:
				open[e.Target] = len(all)
				all = append(all, cut{e.At, math.Inf(1)})
			case e.Fault == scenario.HealAgent && found:
				all[i].joined = e.At + joins
				delete(open, e.Target)
			}
		}
	}
	return all
}

// allowance returns the part of a limit's excess that is due to cuts, in windows that end in [start, end),
// requests. Each side of a cut may admit rate·t + burst (docs/guarantees.md), so that both together admit burst
// + rate·t more until they are connected again. Then they repay it, at the rate.
func allowance(s *scenario.Scenario, l *scenario.Limit, start, end float64) (most float64) {
	all := cuts(s)
	moments := []float64{start, end}
	for _, c := range all {
		moments = append(moments, c.joined)
	}
	for _, moment := range moments {
		t, sum := min(max(moment, start), end), 0.0
		for _, c := range all {
			if t > c.from {
				together := l.Burst + l.Rate*(min(t, c.joined)-c.from)
				sum += max(0, together-l.Rate*max(0, t-c.joined))
			}
		}
		most = max(most, sum)
	}
	return most
}
