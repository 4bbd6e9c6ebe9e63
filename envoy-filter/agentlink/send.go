package agentlink

import (
	"bufio"
	"errors"
	"time"

	"github.com/titrate/titrate/control/exchange"
	"github.com/titrate/titrate/control/limiter"
	"github.com/titrate/titrate/proto/link"
)

// The agent keeps what clients have spent, so that the process after this one can
// restore it.
const (
	// spentLeast: a key that has its whole burst again within this time is not sent.
	spentLeast = 250 * time.Millisecond
	// spentParts: each tick looks at 1/spentParts of the keys, so a key is sent within
	// claimsEvery·spentParts = 250 ms, up to 600,000 keys.
	spentParts = 5
	// spentMost bounds the keys of a tick, 19 B each: 1.6 MB/s. If more keys have
	// changed, a walk over all keys takes longer.
	spentMost = 4096
)

// sender sends the state of this process on one connection.
type sender struct {
	*Client
	w   *link.Writer
	out *bufio.Writer // of w: what is sent at one time is one write, which wakes the agent once

	// What was sent last.
	lastHeartbeat link.Heartbeat
	lastRefused   *link.Refused
	lastNames     *limiter.Names
	noClaims      bool // the last claims were empty

	part  int // of the clients that are limited the most, that the next report has
	walk  limiter.SpentCursor
	spent exchange.Spent // memory for the next message
	stats limiter.Stats  // reused for each message

	tokens     [exchange.Scopes]exchange.TokenRequests // reused for each message
	slots      []*exchange.SlotAsks                    // likewise
	quotas     []*exchange.QuotaAsks                   // likewise
	registered exchange.Registered
}

// send sends until the link ends, the process ends, or a write fails: that is the error.
func (c *Client) send(w *link.Writer, out *bufio.Writer, ended <-chan struct{}) error {
	s := &sender{Client: c, w: w, out: out, walk: limiter.SpentCursor{Least: spentLeast}}
	c.repeatClaims()
	timer := time.NewTimer(c.untilNext(claimsEvery))
	defer timer.Stop()
	again := time.NewTimer(time.Hour) // questions to owners are repeated
	defer again.Stop()
	for tick := 0; ; tick++ {
		if err := errors.Join(s.tick(tick), out.Flush()); err != nil {
			return err
		}
		for due := false; !due; {
			select {
			case <-ended:
				return nil
			case <-c.finishing:
				return s.sendFinal()
			case <-timer.C:
				due = true
				timer.Reset(c.untilNext(claimsEvery))
			case <-c.o.Asked:
			case <-again.C:
			}
			if err := errors.Join(s.sendTokens(again), out.Flush()); err != nil {
				return err
			}
		}
	}
}

// sendTokens sends the token questions for the owners of EXACT limits' keys, and sets the time for the next
// ones.
func (s *sender) sendTokens(again *time.Timer) error {
	if !s.takesTokens {
		return nil
	}
	now := s.o.Now()
	wait := time.Hour
	for i := range s.tokens {
		q := &s.tokens[i]
		q.Global, q.List, q.Answers = i == exchange.OfAll, q.List[:0], q.Answers[:0]
		if next := s.o.Engine.PollTokens(now, q); next != 0 {
			wait = min(wait, time.Duration(max(next-now, 1)))
		}
	}
	slotsDue, err := s.sendSlots(now)
	if err != nil {
		return err
	}
	quotasDue, err := s.sendQuotas(now)
	if err != nil {
		return err
	}
	for _, due := range []int64{slotsDue, quotasDue} {
		if due != 0 {
			wait = min(wait, time.Duration(max(due-now, 1)))
		}
	}
	again.Reset(wait)
	for i := range s.tokens {
		if s.tokens[i].Empty() {
			continue
		}
		for _, part := range s.tokens[i].Parts(link.MaxTokens) {
			if err := s.w.Write(part); err != nil {
				return err
			}
		}
	}
	return nil
}

// sendSlots sends what owners of slots are to be sent, and returns when there is more to send; 0: when the engine asks.
// The gateway has registered with all owners once tokens and slots have.
func (s *sender) sendSlots(now int64) (next int64, err error) {
	if !s.takesSlots {
		return 0, nil
	}
	var known uint64
	s.slots, next, known = s.o.Engine.PollSlots(now, s.slots[:0])
	s.tokens[exchange.OfSite].Registered = s.registered.Add(s.tokens[exchange.OfSite].Registered, known)
	for _, m := range s.slots {
		for _, part := range m.Parts(link.MaxTokens) {
			if err := s.w.Write(part); err != nil {
				return 0, err
			}
		}
	}
	return next, nil
}

// sendQuotas is the same for the owners of units of quotas.
func (s *sender) sendQuotas(now int64) (next int64, err error) {
	if !s.takesQuotas {
		return 0, nil
	}
	s.quotas, next = s.o.Engine.PollQuotas(now, s.quotas[:0])
	for _, m := range s.quotas {
		for _, part := range m.Parts(link.MaxTokens) {
			if err := s.w.Write(part); err != nil {
				return 0, err
			}
		}
	}
	return next, nil
}

func (s *sender) tick(tick int) error {
	steps := []func() error{
		func() error { return s.sendHeartbeat(tick) }, s.sendLeftOut, s.sendNames,
		func() error { return s.sendClaims() },
		func() error { _, err := s.sendSpent(spentParts, spentMost); return err },
	}
	if tick%int(reportEvery/claimsEvery) == 0 {
		steps = append(steps, s.sendReport, s.sendDecisions)
	}
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// sendHeartbeat sends a heartbeat if one is due or its content has changed. Parted is read
// only when one is due: it can change with every request.
func (s *sender) sendHeartbeat(tick int) error {
	beat, due := s.heartbeat(s.lastHeartbeat.Sequence), tick%int(link.HeartbeatEvery/claimsEvery) == 0
	beat.Parted = s.lastHeartbeat.Parted
	if due {
		s.stats.Keys = -1 // do not count them
		s.o.Engine.Stats(s.o.Now(), &s.stats)
		beat.Parted = s.stats.Unpromoted
	}
	if *beat == s.lastHeartbeat && !due {
		return nil
	}
	beat.Sequence++
	s.lastHeartbeat = *beat
	return s.w.Write(beat)
}

func (s *sender) sendLeftOut() error {
	r := s.leftOut.Load()
	if r == s.lastRefused {
		return nil
	}
	s.lastRefused = r
	return s.w.Write(r)
}

func (s *sender) sendNames() error {
	n := s.o.Engine.Named()
	if n == s.lastNames {
		return nil
	}
	s.lastNames = n
	return s.w.Write(n.Known())
}

// sendClaims sends the claims that have changed since the last tick.
func (s *sender) sendClaims() error {
	s.takeClaims(s.o.Now(), &s.claims)
	s.addWithheld(&s.claims)
	empty := len(s.claims.Flows)+len(s.claims.Keys)+len(s.claims.Withdrawn) == 0
	if empty && s.noClaims {
		return nil
	}
	s.noClaims = empty
	for _, part := range s.claims.Parts(link.MaxRecords) {
		if err := s.w.Write(part); err != nil {
			return err
		}
	}
	return nil
}

func (s *sender) sendReport() error {
	now := s.o.Now()
	s.o.Engine.Report(now, &s.report)
	if s.o.Clients != nil {
		s.o.Clients(now, s.part, &s.report)
		s.part = (s.part + 1) % s.o.ClientParts
	}
	return s.w.Write(&s.report)
}

// sendDecisions sends decisions about single requests, if the agent takes them.
func (s *sender) sendDecisions() error {
	if s.o.Decisions == nil {
		return nil
	}
	d := s.o.Decisions.Take(s.o.Now())
	if d == nil {
		return nil
	}
	return s.w.Write(d)
}

// sendSpent sends keys that have spent something since they were sent last: from 1/part
// of the table, at most most keys. end: the walk has come to the end of the table.
func (s *sender) sendSpent(part, most int) (end bool, err error) {
	s.spent.Keys = s.spent.Keys[:0]
	end = s.o.Engine.SpentChanges(s.o.Now(), &s.walk, part, most, func(k exchange.KeySpent) {
		s.spent.Keys = append(s.spent.Keys, k)
	})
	if len(s.spent.Keys) == 0 {
		return end, nil
	}
	return end, s.w.Write(&s.spent)
}

// sendFinal sends a report and all changed claims of the whole table. The current walk may be in the middle of
// the table, so a second walk follows.
func (s *sender) sendFinal() error {
	defer close(s.finished)
	s.o.Engine.ReleaseTokens(s.o.Now())
	if err := s.sendReport(); err != nil {
		return err
	}
	if err := s.sendTokens(time.NewTimer(time.Hour)); err != nil {
		return err
	}
	for walks := 0; walks < 2; {
		end, err := s.sendSpent(1, spentMost)
		if err != nil {
			return err
		}
		if end {
			walks++
		}
	}
	return s.out.Flush()
}

// Finish sends the agent all changes and ends the link. It returns when that is done, or after the timeout.
// Later decisions do not reach the agent.
func (c *Client) Finish(timeout time.Duration) {
	c.finish.Do(func() { close(c.finishing) })
	if !c.Connected.Load() {
		return
	}
	select {
	case <-c.finished:
	case <-time.After(timeout):
	}
}
