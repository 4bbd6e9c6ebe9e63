package rig

import (
	"fmt"
	"slices"
	"time"

	"github.com/prometheus/procfs"

	"github.com/titrate/titrate/lab/installation/child"
)

// Thread is the use of the processor by all threads of one name in a process.
type Thread struct {
	Name     string        `json:"name"`
	CPU      time.Duration `json:"cpu"`      // user and system
	Switches float64       `json:"switches"` // times that a thread gave up its processor voluntarily
}

// Threads are all threads of a process by their number.
type Threads map[int]Thread

// ThreadsOf reads what each thread of a process has done so far. Threads that end meanwhile are left out.
func ThreadsOf(p *child.Process) (Threads, error) {
	all, err := procfs.AllThreads(p.PID())
	if err != nil {
		return nil, fmt.Errorf("threads of %s: %w", p.Name, err)
	}
	out := Threads{}
	for _, t := range all {
		name, err := t.Comm()
		if err != nil {
			continue
		}
		used, err := t.Schedstat()
		if err != nil {
			continue
		}
		status, err := t.NewStatus()
		if err != nil {
			continue
		}
		out[t.PID] = Thread{name, time.Duration(used.RunningNanoseconds), float64(status.VoluntaryCtxtSwitches)}
	}
	return out, nil
}

// Since returns the use since an earlier reading of the same process, by the threads' names.
func (now Threads) Since(before Threads) []Thread {
	sums := map[string]Thread{}
	for number, t := range now {
		sum, was := sums[t.Name], before[number]
		sums[t.Name] = Thread{t.Name, sum.CPU + t.CPU - was.CPU, sum.Switches + t.Switches - was.Switches}
	}
	var out []Thread
	for _, t := range sums {
		out = append(out, t)
	}
	slices.SortFunc(out, func(a, b Thread) int { return int(b.CPU - a.CPU) })
	return out
}
