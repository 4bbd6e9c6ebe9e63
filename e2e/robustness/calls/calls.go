// Package calls is the use of the API while things break: documents are applied,
// one change after the other is made, and what was acknowledged is remembered.
package calls

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/titrate/titrate/e2e/robustness/fault"
	quotav1 "github.com/titrate/titrate/proto/titrate/quota/v1alpha1"
	"github.com/titrate/titrate/services/document"
	"github.com/titrate/titrate/services/store/resource"
)

// API is the coordinators' admin API.
type API struct {
	conns []*grpc.ClientConn
	all   []quotav1.QuotaServiceClient

	alone sync.RWMutex // held for reading by each change

	mu       sync.Mutex
	next     int
	revision int64 // of the latest change that was acknowledged
	counter  Counter
}

// Counter is the limit whose rate rises with each change.
type Counter struct {
	Tried        int           `json:"tried"`
	Acknowledged int           `json:"acknowledged"` // changes
	Last         int           `json:"last"`         // value that was acknowledged
	Slowest      time.Duration `json:"slowest"`      // acknowledgement
}

// Dial connects to the coordinators at the given addresses.
func Dial(addresses []string) (*API, error) {
	a := &API{}
	for _, address := range addresses {
		conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			return nil, errors.Join(err, a.Close())
		}
		a.conns = append(a.conns, conn)
		a.all = append(a.all, quotav1.NewQuotaServiceClient(conn))
	}
	return a, nil
}

// Close closes the connections.
func (a *API) Close() error {
	var errs []error
	for _, c := range a.conns {
		errs = append(errs, c.Close())
	}
	return errors.Join(errs...)
}

// timeout of one call to one coordinator.
const timeout = 3 * time.Second

// Alone does something while no change is under way.
func (a *API) Alone(do func() error) error {
	a.alone.Lock()
	defer a.alone.Unlock()
	return do()
}

// Remember notes what is acknowledged now; forget drops what was acknowledged
// since.
func (a *API) Remember() (forget func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	last := a.counter.Last
	return func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.counter.Last = last
	}
}

// call asks the coordinators in turn until one has answered, with success or with
// a refusal of what was asked for.
func (a *API) call(ctx context.Context, do func(context.Context, quotav1.QuotaServiceClient) error) error {
	a.alone.RLock()
	defer a.alone.RUnlock()
	a.mu.Lock()
	first := a.next
	a.next++
	a.mu.Unlock()
	var last error
	for i := range a.all {
		within, cancel := context.WithTimeout(ctx, timeout)
		last = do(within, a.all[(first+i)%len(a.all)])
		cancel()
		switch status.Code(last) {
		case codes.Unavailable, codes.DeadlineExceeded, codes.Canceled, codes.Aborted, codes.Unknown,
			codes.ResourceExhausted:
			continue
		}
		return last
	}
	return fmt.Errorf("%w: %w", fault.ErrUnreachable, last)
}

// Apply applies YAML documents, all or none.
func (a *API) Apply(ctx context.Context, documents string) error {
	parsed, err := document.Parse("robustness.yaml", []byte(documents))
	if err != nil {
		return err
	}
	var all []*quotav1.Resource
	for _, d := range parsed {
		all = append(all, resource.Of(d.Resource))
	}
	return a.call(ctx, func(ctx context.Context, c quotav1.QuotaServiceClient) error {
		applied, err := c.Apply(ctx, &quotav1.ApplyRequest{Resources: all})
		if err == nil {
			a.acknowledge(applied.GetRevision())
		}
		return err
	})
}

func (a *API) acknowledge(revision int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.revision = max(a.revision, revision)
}

// Delete deletes a limit. A missing limit is no error: an earlier call may
// have deleted it whose answer was lost.
func (a *API) Delete(ctx context.Context, limit string) error {
	return a.call(ctx, func(ctx context.Context, c quotav1.QuotaServiceClient) error {
		_, err := c.DeleteLimit(ctx, &quotav1.DeleteLimitRequest{Name: limit})
		if status.Code(err) == codes.NotFound {
			return nil
		}
		return err
	})
}

// counterName is the limit that is changed all the time.
const counterName = "tenants/probe/limits/counter"

// Count changes the counter at this interval until ctx ends. An acknowledged value must never be lost; a value
// without acknowledgement may be there or not.
func (a *API) Count(ctx context.Context, every time.Duration) {
	for value := 1; ; value++ {
		select {
		case <-ctx.Done():
			return
		case <-time.After(every):
		}
		began := time.Now()
		err := a.Apply(ctx, fmt.Sprintf(
			`{apiVersion: titrate.dev/v1alpha1, kind: Limit, name: %s, spec: {rate: %d/s, burst: 1000000}}`,
			counterName, value))
		if ctx.Err() != nil {
			return
		}
		a.mu.Lock()
		a.counter.Tried++
		if err == nil {
			a.counter.Acknowledged++
			a.counter.Last = value
			a.counter.Slowest = max(a.counter.Slowest, time.Since(began))
		}
		a.mu.Unlock()
	}
}

// Counted returns the counts of the changes by outcome.
func (a *API) Counted() Counter {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.counter
}

// Read gives the counter's value at each coordinator.
func (a *API) Read(ctx context.Context) (values []int, err error) {
	for _, c := range a.all {
		within, cancel := context.WithTimeout(ctx, timeout)
		limit, err := c.GetLimit(within, &quotav1.GetLimitRequest{Name: counterName})
		cancel()
		if err != nil {
			return nil, err
		}
		var value int
		if _, err := fmt.Sscanf(limit.GetRate(), "%d/s", &value); err != nil {
			return nil, fmt.Errorf("rate %q of %s: %w", limit.GetRate(), counterName, err)
		}
		values = append(values, value)
	}
	return values, nil
}

// Revision returns the revision of the latest acknowledged change.
func (a *API) Revision() int64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.revision
}
