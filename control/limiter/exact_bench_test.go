package limiter

import (
	"fmt"
	"testing"

	"github.com/titrate/titrate/control/config"
	"github.com/titrate/titrate/control/exchange"
	"github.com/titrate/titrate/control/grant"
)

// lender answers a gateway as owner of all keys.
type lender struct {
	owners map[uint64]*grant.Owner
	e      *Engine
	key    uint64
	now    int64
}

func (l *lender) Grant(_ grant.Peer, g grant.Grant) {
	l.e.AnswerTokens(l.now, &exchange.TokenAnswers{Grants: []exchange.TokenGrant{{Key: l.key, Grant: g}}}, nil)
}
func (l *lender) Recall(grant.Peer, grant.Recall) {}
func (l *lender) CallPart(grant.Peer)             {}

// BenchmarkExactWarm is the admit path of an EXACT limit over clients whose buckets a gateway has, beside LOCAL.
func BenchmarkExactWarm(b *testing.B) {
	for _, precision := range []config.Precision{config.Local, config.Exact} {
		b.Run(fmt.Sprint(precision), func(b *testing.B) {
			const keys = 1000
			l := &lender{owners: map[uint64]*grant.Owner{}, e: New(Options{Keys: 1 << 14, Ask: func() {}})}
			c := config.Limit{Name: "l", Rate: 1e6, Burst: 1e6, Precision: precision}
			mustApply(b, l.e, simple(1e12, config.Queue{}, c))
			l.e.LinkTokens(sec, true)
			rs, now := make([]Request, keys), sec
			for i := range rs {
				rs[i] = Request{Tenant: "a", Client: fmt.Sprintf("client-%08d", i), Pool: "api", Cost: 1}
			}
			for range 400 {
				now += sec / 10
				for i := range rs {
					if l.e.Decide(now, &rs[i]).Verdict == Wait {
						l.e.Enqueue(now, &rs[i], uint64(i))
					}
				}
				var q exchange.TokenRequests
				l.e.PollTokens(now, &q)
				for _, m := range q.List {
					if l.owners[m.Key] == nil {
						l.owners[m.Key] = grant.NewOwner(grant.Params{Rate: 1e6, Burst: 1e12}, 1, now)
					}
					l.key, l.now = m.Key, now
					l.owners[m.Key].Request(now, 1, m.Request, l)
				}
			}
			i := 0
			for b.Loop() {
				now += 2000
				i++
				if out := l.e.Decide(now, &rs[i%keys]); out.Verdict != Admit {
					b.Fatalf("%+v", out)
				}
			}
		})
	}
}
