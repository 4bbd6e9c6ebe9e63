package measure

import (
	"slices"
	"time"

	"github.com/titrate/titrate/lab/simulate/scenario"
)

const (
	finestBin   = 50 * time.Millisecond
	mostBins    = 20_000
	mostCells   = 4 << 20 // bins × rows
	mostPhases  = 4000
	leastPhase  = time.Second
	settleAfter = 3 * time.Second // after the start of a phase, at most half of the phase
)

// phase is a stretch in which demand and configuration do not change.
type phase struct {
	from, to time.Duration
	judged   bool // after the warm-up
}

func (p phase) seconds() float64 { return (p.to - p.from).Seconds() }

// settled returns the beginning of the phase's judged part.
func (p phase) settled() time.Duration { return p.from + min(settleAfter, (p.to-p.from)/2) }

// plan divides a run into phases and bins.
type plan struct {
	end    time.Duration
	warm   time.Duration // the end of the warm-up
	bin    time.Duration
	bins   int
	phases []phase
	events []scenario.Event // in order of time
}

// newPlan cuts up a scenario; rows is how many things are counted in each bin.
func newPlan(s *scenario.Scenario, rows int) plan {
	p := plan{end: s.Duration, warm: s.Warmup}
	p.bin = max(finestBin, s.Duration/min(mostBins, max(100, mostCells/time.Duration(max(rows, 1)))))
	p.bins = int((s.Duration + p.bin - 1) / p.bin)
	for _, i := range s.Order() {
		p.events = append(p.events, s.Events[i])
	}
	p.cut(s)
	return p
}

// cut makes phases. Events and the end of the warm-up always begin a phase; a bend of demand begins one if both
// phases are then long enough.
func (p *plan) cut(s *scenario.Scenario) {
	hard := []time.Duration{0, s.Warmup, s.Duration}
	for i := range p.events {
		hard = append(hard, p.events[i].At)
	}
	var soft []time.Duration
	for i := range s.Clients {
		soft = append(soft, s.Clients[i].Demand.Changes(s.Duration)...)
	}
	slices.Sort(hard)
	slices.Sort(soft)
	hard, soft = slices.Compact(hard), slices.Compact(soft)
	least := max(leastPhase, s.Duration/mostPhases)
	for i, from := range hard[:len(hard)-1] {
		next := hard[i+1]
		for len(soft) > 0 && soft[0] < next {
			if soft[0]-from >= least && next-soft[0] >= least {
				p.phases = append(p.phases, phase{from, soft[0], from >= s.Warmup})
				from = soft[0]
			}
			soft = soft[1:]
		}
		p.phases = append(p.phases, phase{from, next, from >= s.Warmup})
	}
}

// binOf is the bin that a time is in.
func (p *plan) binOf(t time.Duration) int { return min(max(int(t/p.bin), 0), p.bins-1) }

// within are the whole bins inside a stretch.
func (p *plan) within(from, to time.Duration) (first, after int) {
	return int((from + p.bin - 1) / p.bin), int(to / p.bin)
}

// phaseOf is the phase that a time is in.
func (p *plan) phaseOf(t time.Duration) int {
	i, _ := slices.BinarySearchFunc(p.phases, t, func(p phase, t time.Duration) int {
		if t >= p.to {
			return -1
		}
		return 1
	})
	return min(i, len(p.phases)-1)
}
