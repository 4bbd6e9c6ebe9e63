package enforcer

import (
	"sync"
	"testing"
	"time"

	"github.com/titrate/titrate/control/config"
	"github.com/titrate/titrate/control/exchange"
	"github.com/titrate/titrate/control/grant"
	"github.com/titrate/titrate/control/limiter"
)

// answers gathers the answers of a key's owner.
type answers struct {
	key uint64
	exchange.TokenAnswers
}

func (a *answers) Grant(_ grant.Peer, g grant.Grant) {
	a.Grants = append(a.Grants, exchange.TokenGrant{Key: a.key, Grant: g})
}

// CallPart has nothing sent: gateways have no parts here.
func (a *answers) CallPart(grant.Peer) {}

func (a *answers) Recall(_ grant.Peer, r grant.Recall) {
	a.Recalls = append(a.Recalls, exchange.TokenRecall{Key: a.key, Recall: r})
}

// Requests that wait for an owner's tokens, and then for their tenant's share, end once each, also
// if the answer comes while Stop runs; nothing ends after Stop.
func TestAnswerBesideStop(t *testing.T) {
	for range 300 {
		e := limiter.New(limiter.Options{Keys: 64, Boot: limiter.BootOpen, Start: Now(), Ask: func() {}})
		if err := e.Apply(&config.Config{
			Revision: 1,
			Pools: []config.Pool{{Name: "api", Capacity: 1e6, Queue: config.Queue{Law: config.DropTail,
				DelayTarget: 10 * time.Second, MaxWait: 30 * time.Second, MaxRequests: 100}}},
			Tenants: []config.Tenant{{Name: "acme", Weight: 1, Limits: []config.Limit{
				{Name: "all", PerTenant: true, Rate: 10, Burst: 50, Precision: config.Exact}}}},
		}); err != nil {
			t.Fatal(err)
		}
		e.SetShares(&exchange.Shares{Epoch: 1, Revision: 1, Flows: []exchange.Share{{Tenant: "acme", Pool: "api",
			Share: 1}}})
		e.LinkTokens(Now(), true)
		ended, stopped := map[uint64]int{}, false // by ticket; the enforcer delivers one batch at a time
		var mu sync.Mutex
		enf := New(Options{Engine: e, FailurePolicy: limiter.BootOpen, Deliver: func(es []limiter.Event) {
			mu.Lock()
			defer mu.Unlock()
			for _, one := range es {
				if ended[one.Ticket]++; stopped {
					t.Errorf("ticket %d ends after Stop", one.Ticket)
				}
			}
		}})
		enf.Start()
		waits := 0
		for ticket := uint64(1); ticket <= 30; ticket++ {
			if out, _ := enf.Enqueue(&acme, ticket); out.Verdict == limiter.Wait {
				waits++
			}
		}
		var asked exchange.TokenRequests
		e.PollTokens(Now(), &asked)
		var said answers
		for _, q := range asked.List {
			said.key = q.Key
			owner := grant.NewOwner(grant.Params{Rate: 10, Burst: 50 * grant.Token}, 1, Now())
			owner.Request(Now(), 0, q.Request, &said)
		}
		var both sync.WaitGroup
		both.Go(func() { enf.Answer(&said.TokenAnswers) })
		both.Go(func() {
			enf.Stop()
			mu.Lock()
			stopped = true
			mu.Unlock()
		})
		both.Wait()
		mu.Lock()
		if len(said.Grants) == 0 || waits == 0 || len(ended) != waits {
			t.Fatalf("%d grants; of %d requests that waited %d have ended", len(said.Grants), waits, len(ended))
		}
		for ticket, times := range ended {
			if times != 1 {
				t.Fatalf("ticket %d ended %d times", ticket, times)
			}
		}
		mu.Unlock()
	}
}
