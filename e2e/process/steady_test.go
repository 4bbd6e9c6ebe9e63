package process

import (
	"fmt"
	"sync"
	"testing"
	"time"
)

// steadyLimits are a limit of each precision.
const steadyLimits = `
{apiVersion: titrate.dev/v1alpha1, kind: Tenant, name: tenants/steady, spec: {weight: 1}}
---
{apiVersion: titrate.dev/v1alpha1, kind: Limit, name: tenants/steady/limits/local,
 spec: {rate: 1000/s, burst: 1000, precision: LOCAL, overrides: [{client: local, rate: 10/s, burst: 10}]}}
---
{apiVersion: titrate.dev/v1alpha1, kind: Limit, name: tenants/steady/limits/exact,
 spec: {rate: 1000/s, burst: 1000, precision: EXACT, overrides: [{client: exact, rate: 10/s, burst: 10}]}}
`

// steady is a client that never asks for more than 8 of the 10 requests per second of its limit: it
// waits for an eighth of a second after each answer. Of three requests the first gateway gets two,
// as its weight is twice that of the second.
type steady struct {
	asked, refused int
	first          time.Duration // of a refusal, since the start
}

// keepAsking has a steady client for each precision, until the test calls the function that it returns:
// nothing was refused.
func (w *system) keepAsking(t *testing.T) (end func()) {
	t.Helper()
	w.apply(steadyLimits)
	w.inForce(t, patience)
	stop, began := make(chan struct{}), time.Now()
	clients := map[string]*steady{"local": {}, "exact": {}}
	var all sync.WaitGroup
	for name, c := range clients {
		all.Go(func() {
			for ; ; c.asked++ {
				front := w.fronts[0]
				if c.asked%3 == 2 {
					front = w.fronts[1]
				}
				if !w.admits(t, front, "steady", name) {
					if c.refused++; c.refused == 1 {
						c.first = time.Since(began)
					}
				}
				select {
				case <-stop:
					return
				case <-time.After(time.Second / 8):
				}
			}
		})
	}
	var once sync.Once
	wait := func() { once.Do(func() { close(stop); all.Wait() }) }
	t.Cleanup(wait)
	return func() {
		t.Helper()
		wait()
		for name, c := range clients {
			said := fmt.Sprintf("%s: %d of %d requests of a client at 80 %% of its limit were refused", name, c.refused, c.asked)
			if c.refused > 0 {
				t.Errorf("%s, the first %v after it began", said, c.first)
			} else {
				t.Log(said)
			}
		}
	}
}
