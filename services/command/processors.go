package command

import (
	"context"
	"os"
	"runtime"
	"sync"
	"syscall"
	"time"
)

// A process that is woken a hundred times a second to do a little each time spends more on its other threads than on
// the work. The Go runtime wakes a second thread to look for more of it, which finds none. On one processor it does
// not. So a process with little work runs Go on one processor, and a process with more work on all.

const (
	// looksEvery is the time between two looks at the processor time used.
	looksEvery = time.Second
	// little and much are parts of one processor. One processor is enough below little; a process that uses more than
	// much gets all of them within looksEvery.
	little, much = .125, .25
	// littleFor is the number of successive looks that must find little.
	littleFor = 5
)

// OnFewProcessors calls run, and sets meanwhile on how many processors Go runs.
func OnFewProcessors(ctx context.Context, run func(context.Context) error) error {
	looking, stop := context.WithCancel(ctx)
	var looks sync.WaitGroup
	defer looks.Wait()
	defer stop()
	looks.Go(func() { setProcessors(looking) })
	return run(ctx)
}

// setProcessors sets on how many processors Go runs until ctx ends. It does nothing where the operator has set
// GOMAXPROCS.
func setProcessors(ctx context.Context) {
	if os.Getenv("GOMAXPROCS") != "" {
		return
	}
	defer runtime.SetDefaultGOMAXPROCS()
	tick := time.NewTicker(looksEvery)
	defer tick.Stop()
	var p processors
	before, at := usedTime(), time.Now()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		used, now, was := usedTime(), time.Now(), p.one
		switch one := p.look((used - before).Seconds() / now.Sub(at).Seconds()); { // a change stops the process for µs
		case one && !was:
			runtime.GOMAXPROCS(1)
		case was && !one:
			runtime.SetDefaultGOMAXPROCS()
		}
		before, at = used, now
	}
}

// processors is whether a process runs on one processor.
type processors struct {
	one   bool
	quiet int // looks in a row that found little
}

// look takes the part of a processor that was used, and reports whether to run on one.
func (p *processors) look(used float64) bool {
	switch p.quiet++; {
	case used > much:
		p.one, p.quiet = false, 0
	case used >= little:
		p.quiet = 0
	case p.quiet >= littleFor:
		p.one = true
	}
	return p.one
}

// usedTime is the processor time that the process has used.
func usedTime() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u) // it never fails for the calling process
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
