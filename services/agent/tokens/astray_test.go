package tokens

import (
	"testing"

	"github.com/titrate/titrate/control/exchange"
	"github.com/titrate/titrate/control/grant"
	gossipv1 "github.com/titrate/titrate/proto/titrate/gossip/v1alpha1"
	"github.com/titrate/titrate/services/agent/owners"
)

// A grant or a recall counts if its sender owns the key. Else each agent could grant tokens of each key: the
// numbers of sessions can be guessed.
func TestOnlyTheOwnerAnswers(t *testing.T) {
	f := newFleet(t, "a", "b", "c") // keys below 100 are a's, others b's
	a := f.desks["a"]
	a.Ask(settled, 7, asks(1, 1))
	f.carry(settled)
	delete(f.got["a"], 7)
	for _, key := range []uint64{1, 200} {
		a.Receive(settled, "c", &gossipv1.Tokens{
			Grants:  []*gossipv1.TokenGrant{{Key: key, Process: 7, Session: 1, Owner: 9, Seq: 2, Granted: 1 << 60}},
			Recalls: []*gossipv1.TokenRecall{{Key: key, Process: 7, Session: 1, Owner: 9, Number: 9}}})
	}
	f.carry(settled)
	if got := f.got["a"][7]; got != nil || a.Stats().Dropped[owners.Astray] != 4 {
		t.Errorf("a gateway is told %+v by an agent that does not own the key; %+v", got, a.Stats())
	}
	a.Receive(settled, "b", &gossipv1.Tokens{Grants: []*gossipv1.TokenGrant{{Key: 200, Process: 7}},
		Recalls: []*gossipv1.TokenRecall{{Key: 200, Process: 7}}})
	f.carry(settled)
	if got := f.got["a"][7]; got == nil || len(got.Grants)+len(got.Recalls) != 2 {
		t.Errorf("the owner is not heard: %+v", got)
	}
}

// A gateway's answer to a recall can lead to the next recall at once: then the first one was answered and
// not lost. As a loss it closed the way of all recalls to that gateway for up to a second.
func TestTheNextRecallIsSentAtOnce(t *testing.T) {
	f := newFleet(t, "a", "b")
	a, now := f.desks["a"], settled
	number := map[uint64]uint32{}
	ask := func(process uint64, seq uint32, need, ahead int64, change func(q *grant.Request)) {
		m := asks(1, seq)
		q := &m.List[0].Request
		number[process]++
		q.Number, q.Need, q.Ahead, q.Use = number[process], need*grant.Token, ahead*grant.Token, ahead*grant.Token
		if change != nil {
			change(q)
		}
		a.Ask(now, process, m)
		f.carry(now)
	}
	recalls := func() []exchange.TokenRecall { return f.got["a"][7].Recalls }
	ask(7, 1, 1, 0, nil) // it gets the bucket
	ask(8, 1, 1, 0, nil) // which is recalled
	ask(7, 2, 1, 5, nil) // this has crossed the recall
	ask(9, 1, 10, 0, nil)
	if len(recalls()) != 1 {
		t.Fatalf("recalls: %+v", recalls())
	}
	ask(7, 2, 1, 5, func(q *grant.Request) { q.Recalled, q.Exclusive, q.Level = recalls()[0].Number, true, 0 })
	if n := len(recalls()); n != 2 || recalls()[n-1].Number == recalls()[0].Number {
		t.Errorf("recalls: %+v, want the next one at once", recalls())
	}
}
