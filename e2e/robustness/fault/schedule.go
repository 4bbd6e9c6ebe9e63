package fault

import (
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"time"
)

// Event of a schedule: a fault of a kind from At on, for a time.
type Event struct {
	At   time.Duration // since the load's start
	Last time.Duration // until it is undone
	Kind *Kind
	Seed uint64 // what its target is drawn from
}

// The rhythm of a schedule.
const (
	// Warm is the time before the first fault.
	Warm = 15 * second
	// inARow is the number of faults between two quiet spans, and quiet their length,
	// after the graces of all faults before.
	inARow = 4
	quiet  = 8 * second
	// overlap is the probability that a fault begins before the last one is over.
	overlap = .4
)

// Schedule draws the faults of a run of the given length. Every kind comes once
// before any comes again. The same arguments give the same schedule.
func Schedule(seed uint64, length time.Duration, kinds []Kind) (events []Event) {
	r := rand.New(rand.NewPCG(seed, 1))
	at, calm := Warm, Warm // the next beginning, and the end of all graces so far
	var bag []*Kind
	busy := map[string]time.Duration{} // by what is touched, until when
	for n := 1; ; n++ {
		if len(bag) == 0 {
			bag = shuffled(r, kinds)
		}
		k := bag[0]
		bag = bag[1:]
		begins := max(at, busy[k.Touches], busy[Everything])
		if k.Touches == Everything {
			for _, until := range busy {
				begins = max(begins, until)
			}
		}
		last := k.Shortest + time.Duration(r.Float64()*float64(k.Longest-k.Shortest))
		if begins+last > length {
			return events
		}
		events = append(events, Event{begins.Round(time.Millisecond), last.Round(time.Millisecond), k, r.Uint64()})
		over := begins + last
		busy[k.Touches] = over + recovery
		calm = max(calm, over+k.Grace.Unfair)
		at = over + time.Duration(r.Float64()*float64(3*second))
		if r.Float64() < overlap {
			at = begins + time.Duration(r.Float64()*float64(last))
		}
		if n%inARow == 0 {
			at = calm + recovery + quiet
		}
	}
}

// Everything is touched by faults that overlap with no other.
const Everything = "all"

// recovery is about what a process takes to serve again.
const recovery = 2 * second

func shuffled(r *rand.Rand, kinds []Kind) []*Kind {
	bag := make([]*Kind, len(kinds))
	for i := range bag {
		bag[i] = &kinds[i]
	}
	r.Shuffle(len(bag), func(i, j int) { bag[i], bag[j] = bag[j], bag[i] })
	return bag
}

// Print writes a schedule.
func Print(w io.Writer, events []Event) {
	for _, e := range events {
		fmt.Fprintf(w, "  %6.1f s  for %4.1f s  %s\n", e.At.Seconds(), e.Last.Seconds(), e.Kind.Name)
	}
}

// Select gives the kinds of the given names, all without any. sites says that the gateways are of several sites.
func Select(names []string, sites bool) ([]Kind, error) {
	kinds := slices.Clone(Kinds)
	if sites {
		kinds = append(kinds, OfSites...)
	}
	if len(names) == 0 {
		return kinds, nil
	}
	var found []Kind
	for _, n := range names {
		matching := slices.DeleteFunc(slices.Clone(kinds), func(k Kind) bool { return !k.named(n) })
		if len(matching) == 0 {
			return nil, fmt.Errorf("no kind of faults is called %q: see -list", n)
		}
		found = append(found, matching...)
	}
	return found, nil
}

// named reports whether a kind has the name, or its first word: kill stands for
// kill-envoy, kill-agent and so on.
func (k *Kind) named(n string) bool {
	return k.Name == n || len(k.Name) > len(n) && k.Name[:len(n)] == n && k.Name[len(n)] == '-'
}
