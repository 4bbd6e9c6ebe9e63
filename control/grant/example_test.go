package grant_test

import (
	"fmt"

	"github.com/titrate/titrate/control/grant"
)

// line carries what the owner sends to two gateways, in order.
type line map[grant.Peer]*grant.Gateway

func (l line) Grant(to grant.Peer, m grant.Grant)   { l[to].Grant(0, m) }
func (l line) Recall(to grant.Peer, m grant.Recall) { l[to].Recall(0, m) }
func (l line) CallPart(grant.Peer)                  {} // of standing parts, which these gateways do not have

// Two gateways share a limit of 10/s with a burst of 5. The first one has the bucket to
// itself until the second asks.
func Example() {
	p := grant.Params{Rate: 10, Burst: 5 * grant.Token}
	owner := grant.NewOwner(p, 1, 0)
	a, b := grant.NewGateway(p, 1<<20), grant.NewGateway(p, 2<<20)
	l := line{1: a, 2: b}
	ask := func() {
		for range 3 { // a question, a recall and its answer
			for id, g := range l {
				q, ok := g.Poll(0)
				if !ok {
					q, ok = g.Ask(0)
				}
				if ok {
					owner.Request(0, id, q, l)
				}
			}
		}
	}
	fmt.Println("a's first request waits:", a.Take(0, grant.Token) == grant.Waits)
	ask()
	fmt.Println("it is admitted:", a.Retry(0, 0, grant.Token) == grant.Admitted)
	fmt.Println("the next needs nobody:", a.Take(0, grant.Token) == grant.Admitted)
	fmt.Println("b's first request waits:", b.Take(0, grant.Token) == grant.Waits)
	ask()
	fmt.Println("it is admitted:", b.Retry(0, 0, grant.Token) == grant.Admitted)
	fmt.Println("spent in all:", owner.Level(0)/grant.Token)
	// Output:
	// a's first request waits: true
	// it is admitted: true
	// the next needs nobody: true
	// b's first request waits: true
	// it is admitted: true
	// spent in all: 3
}
