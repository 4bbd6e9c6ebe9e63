package grid

import (
	"fmt"
	"slices"
	"time"

	"github.com/titrate/titrate/lab/simulate/scenario"
)

// limit is a limit of the grid.
type limit struct {
	name        string
	rate, burst float64
}

// slow reports whether a limit must be played for minutes to give a meaningful figure.
func (l limit) slow() bool { return l.rate < 4 }

// limits are limits that users configure. Bursts are one second's (minute's, hour's) worth, and 1, 5 and 20.
func limits(quick bool) []limit {
	if quick {
		return []limit{{"5/s", 5, 5}, {"10/s", 10, 1}, {"100/s", 100, 20}, {"100/min", 100. / 60, 5}}
	}
	var out []limit
	for _, r := range []struct {
		name        string
		rate, worth float64
	}{{"1/s", 1, 1}, {"5/s", 5, 5}, {"10/s", 10, 10}, {"100/s", 100, 100}, {"100/min", 100. / 60, 100},
		{"1000/h", 1000. / 3600, 1000}} {
		bursts := []float64{1, 5, 20, r.worth}
		slices.Sort(bursts)
		for _, b := range slices.Compact(bursts) {
			out = append(out, limit{r.name, r.rate, b})
		}
	}
	return out
}

// Cell are the common conditions of the gateways of one scenario.
type Cell struct {
	Replicas int           `json:"replicas"`
	Delay    time.Duration `json:"delayNs"` // of the gossip, one way, ± 40 %
	Loss     float64       `json:"loss"`    // of packets, 0 to 1
	Events   string        `json:"events"`  // "" or the event
}

func (c Cell) String() string {
	s := fmt.Sprintf("N=%d %v %.0f%%", c.Replicas, c.Delay, 100*c.Loss)
	if c.Events != "" {
		s += " " + c.Events
	}
	return s
}

// cells are the conditions. Slow limits run longer, and in fewer cells.
func cells(quick bool) []Cell {
	const ms = time.Millisecond
	if quick {
		return []Cell{{3, 25 * ms, 0, ""}, {3, 100 * ms, .3, ""}, {3, 100 * ms, 0, "cut 6s"}}
	}
	var out []Cell
	for _, n := range []int{3, 10} {
		for _, d := range []time.Duration{25 * ms, 100 * ms, 250 * ms} {
			for _, loss := range []float64{0, .3} {
				if n == 3 || (d == 100*ms) == (loss > 0) {
					out = append(out, Cell{n, d, loss, ""})
				}
			}
		}
	}
	out = append(out, Cell{30, 100 * ms, 0, ""}, Cell{100, 100 * ms, 0, ""})
	for _, what := range []string{"join", "crash", "restart", "cut 6s", "partition"} {
		out = append(out, Cell{3, 100 * ms, 0, what})
	}
	return out
}

// plays reports whether a cell plays a limit: cells with many gateways or with events play only some.
func (c Cell) plays(l limit) bool {
	switch {
	case c.Replicas >= 30:
		return l.burst == 5 || l.burst == 20 && l.rate >= 10
	case c.Events != "":
		return !l.slow() && l.burst == l.rate
	}
	return true
}

// span returns for how long a cell is played.
func (c Cell) span(quick, slow bool) time.Duration {
	switch {
	case quick:
		return 20 * time.Second
	case c.Replicas >= 100:
		return 10 * time.Second
	case c.Events != "":
		return 60 * time.Second
	case slow && c.Replicas < 30:
		return 120 * time.Second
	}
	return 20 * time.Second
}

// happenings are the events of a cell.
func (c Cell) happenings(span time.Duration) []scenario.Event {
	at := span / 3
	switch c.Events {
	case "join":
		return []scenario.Event{{At: at, Kind: scenario.Join, Replica: "gw-new"}}
	case "crash":
		return []scenario.Event{{At: at, Kind: scenario.Crash, Replica: "gw-2"}}
	case "restart":
		return []scenario.Event{{At: at, Kind: scenario.Restart, Replica: "gw-2"}}
	case "cut 6s", "partition": // shorter than T1, longer than T2
		length := 6 * time.Second
		if c.Events == "partition" {
			length = at
		}
		return []scenario.Event{
			{At: at, Kind: scenario.Partition, Groups: [][]string{{"gw-1"}, {"gw-2", "gw-3", scenario.Coordinator}}},
			{At: at + length, Kind: scenario.Heal},
		}
	}
	return nil
}
