package operator

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	quotav1 "github.com/titrate/titrate/proto/titrate/quota/v1alpha1"
	"github.com/titrate/titrate/services/kubernetes"
	"github.com/titrate/titrate/services/pause"
	"github.com/titrate/titrate/services/store/resource"
)

const (
	// RetryEvery is the time from a failed pass to the next pass. It is also the first pause before
	// the API is asked again for refused objects.
	RetryEvery = 5 * time.Second
	// passPause is the least time between two passes: changes in between are one pass.
	passPause = 200 * time.Millisecond
	// watchPause is the time between the end of a watch and the next.
	watchPause = time.Second
	// releaseTime bounds how long an operator that stops tries to give up the lead.
	releaseTime = 2 * time.Second
)

// Options are fixed for an operator's life.
type Options struct {
	Cluster *kubernetes.Cluster // with the namespace of the Lease
	API     quotav1.QuotaServiceClient
	// Set owns the applied resources. Each cluster with the same coordinator needs another set.
	Set string
	// Name distinguishes this operator from others of the cluster.
	Name string
	// Resync is the longest time between two passes. Shorter: changes by other means are reverted sooner, at a
	// higher cost.
	Resync time.Duration
	Log    *slog.Logger
}

// Operator is described in the package comment.
type Operator struct {
	o       Options
	lease   lease
	changed chan struct{}
	next    time.Time // of the next pass that is due without a change
	refused refusals

	passes, failures atomic.Uint64
	leading          atomic.Bool
	mu               sync.Mutex
	trouble          error          // of the last pass
	objects          map[string]int // by reason, as the last pass found them
}

// New makes an operator; Run starts it.
func New(o Options) *Operator {
	return &Operator{o: o, lease: lease{cluster: o.Cluster, holder: o.Name}, changed: make(chan struct{}, 1)}
}

// Run makes passes until ctx ends, while it leads.
func (o *Operator) Run(ctx context.Context) {
	var watches sync.WaitGroup
	defer watches.Wait()
	for _, kind := range Kinds {
		watches.Go(func() { o.watch(ctx, kind) })
	}
	for {
		o.lead(ctx)
		wait := renewEvery
		if due := time.Until(o.next); o.leading.Load() && due < wait {
			wait = due
		}
		select {
		case <-ctx.Done():
			o.release(ctx)
			return
		case <-time.After(max(wait, passPause)):
		case <-o.changed:
			o.next = time.Time{}
			pause.For(ctx, passPause)
		}
	}
}

// watch notes changes of a kind until ctx ends.
func (o *Operator) watch(ctx context.Context, kind resource.Kind) {
	for ctx.Err() == nil {
		err := objects{o.o.Cluster}.watch(ctx, kind, o.change)
		o.o.Log.Debug("watch ended", "kind", kind.String(), "error", err)
		o.change() // for changes that were missed
		pause.For(ctx, watchPause)
	}
}

func (o *Operator) change() {
	select {
	case o.changed <- struct{}{}:
	default: // noted already
	}
}

// lead takes or renews the lead, and makes a pass if one is due.
func (o *Operator) lead(ctx context.Context) {
	held, err := o.lease.hold(ctx, time.Now())
	switch {
	case err != nil && ctx.Err() == nil:
		o.o.Log.Warn("cannot take or renew the lead", "error", err)
		o.note(err, nil)
	case !held:
		o.note(nil, nil) // another makes the passes
	}
	if held != o.leading.Swap(held) {
		o.o.Log.Info("lead", "held", held)
		o.next = time.Time{}
	}
	if !held || time.Now().Before(o.next) {
		return
	}
	p := &pass{Operator: o, verdicts: map[*object]verdict{}, denied: map[string]verdict{}}
	err = p.run(ctx)
	if ctx.Err() != nil {
		return
	}
	o.passes.Add(1)
	o.note(err, p.verdicts)
	o.next = time.Now().Add(min(RetryEvery, o.o.Resync))
	if err != nil {
		o.o.Log.Error("pass failed; the configuration in force stays", "error", err)
	}
	if p.asked {
		if next := p.backOff(); err == nil {
			o.next = next
		}
	}
}

// leads returns an error if another operator may have led since the pass began: this pass's list may then be
// out of date.
func (o *Operator) leads(ctx context.Context) error {
	held, err := o.lease.renew(ctx, time.Now())
	if err == nil && !held {
		err = errors.New("another operator leads now")
	}
	return err
}

// note keeps the outcome of a pass, for metrics and probes.
func (o *Operator) note(err error, verdicts map[*object]verdict) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.trouble = err
	if err != nil {
		o.failures.Add(1)
		return
	}
	o.objects = map[string]int{}
	for _, v := range verdicts {
		o.objects[v.reason]++
	}
}

// Trouble returns the error of the last pass, nil if it succeeded.
func (o *Operator) Trouble() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.trouble
}

// release gives the lead up when the operator stops.
func (o *Operator) release(ctx context.Context) {
	if !o.leading.Load() {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseTime)
	defer cancel()
	if err := o.lease.release(ctx, time.Now()); err != nil {
		o.o.Log.Warn("the lead was not given up; another operator takes it after its time", "error", err)
	}
}
