package limiter

import (
	"encoding/binary"
	"math"
	"testing"

	"github.com/titrate/titrate/control/config"
	"github.com/titrate/titrate/control/exchange"
	"github.com/titrate/titrate/control/grant"
)

// hostile reads numbers of any size from bytes.
type hostile struct{ b []byte }

func (h *hostile) u64() uint64 {
	var word [8]byte
	h.b = h.b[copy(word[:], h.b):]
	return binary.LittleEndian.Uint64(word[:])
}

func (h *hostile) i64() int64 { return int64(h.u64()) }

// f64 is a number that a link lets pass: no NaN, no −Inf.
func (h *hostile) f64() float64 {
	if v := math.Float64frombits(h.u64()); !math.IsNaN(v) && !math.IsInf(v, -1) {
		return v
	}
	return 0
}

// FuzzLink gives an engine sums, shares and answers of owners with any numbers. The engine does not panic, and
// answers every request: a request that waits gets its answer within 1.6 s.
func FuzzLink(f *testing.F) {
	f.Add([]byte{})
	f.Add(binary.LittleEndian.AppendUint64(nil, math.MaxUint64))
	f.Fuzz(func(t *testing.T, b []byte) {
		h := &hostile{b}
		e := New(Options{Keys: 64, Ask: func() {}})
		mustApply(t, e, simple(1000, config.Queue{}, exactly("l", 10, 5), config.Limit{Name: "m", Rate: 3}))
		e.LinkTokens(sec, true)
		now, waits := sec, 0
		r := Request{Tenant: "acme", Client: "c", Pool: "api", Cost: 1}
		var events []Event
		for ticket := uint64(1); ticket < 8; ticket++ {
			if out := e.Decide(now, &r); out.Verdict == Wait {
				if out, _ = e.Enqueue(now, &r, ticket); out.Verdict == Wait {
					waits++
				}
			}
			var asked exchange.TokenRequests
			e.PollTokens(now, &asked)
			for _, q := range asked.List {
				events = e.AnswerTokens(now, h.answers(&q), events)
				e.SetSums(now, h.sums(q.Key))
			}
			e.SetShares(&exchange.Shares{Epoch: int64(ticket), Flows: []exchange.Share{{Tenant: "acme", Pool: "api",
				Share: max(0, h.f64())}}})
			now += 10 * 1e6
			events = e.Tick(now, events)
		}
		for range 300 {
			now += 5 * 1e6
			events = e.Tick(now, events)
		}
		if len(events) != waits {
			t.Fatalf("%d of %d requests that waited were answered", len(events), waits)
		}
	})
}

// answers are a grant and a recall for a question, some of whose numbers fit.
func (h *hostile) answers(q *exchange.TokenRequest) *exchange.TokenAnswers {
	flags := h.u64()
	g := grant.Grant{Owner: 7, Session: q.Session, Seq: q.Seq, Granted: h.i64(), Admit: h.i64(), Seen: uint32(h.u64()),
		Wait: h.i64(), Others: h.i64(), Level: h.i64(), Full: h.i64(), Exclusive: flags&1 == 1, Begin: flags&2 == 2}
	r := grant.Recall{Owner: 7, Session: q.Session, Number: uint32(h.u64()), Seq: q.Seq, Seen: uint32(h.u64()),
		Granted: h.i64()}
	g.Pending = flags&16 == 16
	a := &exchange.TokenAnswers{Grants: []exchange.TokenGrant{{Key: q.Key, Grant: g}}}
	if flags&4 == 4 {
		a.Owners = exchange.Owners{View: h.u64(), List: []exchange.Owner{{Hash: h.u64(), Life: h.u64()}}}
	}
	if flags&8 == 8 {
		a.Recalls = []exchange.TokenRecall{{Key: q.Key, Recall: r}}
	}
	return a
}

// sums returns sums of a key, with any numbers.
func (h *hostile) sums(key uint64) *exchange.Sums {
	s := &exchange.Sums{Replicas: int(h.u64() % 5000), TotalWeight: h.f64(), Weight: h.f64()}
	s.Keys = []exchange.KeySum{{Key: key}}
	k := &s.Keys[0]
	for _, v := range []*float64{&k.Claims, &k.Active, &k.Unsaturated, &k.Admitted, &k.Spent} {
		*v = h.f64()
	}
	return s
}
