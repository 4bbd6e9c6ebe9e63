package uplink

import (
	"time"

	"github.com/titrate/titrate/control/exchange"
	"github.com/titrate/titrate/control/limiter"
	"github.com/titrate/titrate/proto/link"
)

// What the agent is told of keys that have spent something, so that the process
// after this one knows.
const (
	// tellLeast is the time to win the burst back below which a key is not told.
	tellLeast = 250 * time.Millisecond
	// tellParts: each tick goes through so large a part of the keys, so that a key
	// is told within claimsEvery·tellParts = 250 ms, up to 600,000 keys.
	tellParts = 5
	// tellMost bounds the keys of a tick, 19 B each: 1.6 MB/s. With more news than
	// that the walk takes longer.
	tellMost = 4096
)

// teller writes what this process has to say on one connection.
type teller struct {
	*Client
	w       *link.Writer
	version uint8
	said    link.Heartbeat
	refused *link.Refused
	named   *limiter.Names
	spent   exchange.Spent
	walk    limiter.SpentWalk
	stats   limiter.Stats
	silent  bool
}

// tell writes until the link ends, a write fails or the process does.
func (c *Client) tell(w *link.Writer, version uint8, ended <-chan struct{}) {
	t := &teller{Client: c, w: w, version: version, walk: limiter.SpentWalk{Least: tellLeast}}
	ticker := time.NewTicker(claimsEvery)
	defer ticker.Stop()
	for tick := 0; ; tick++ {
		if t.tick(tick) != nil {
			return
		}
		select {
		case <-ended:
			return
		case <-c.finishing:
			t.last()
			return
		case <-ticker.C:
		}
	}
}

func (t *teller) tick(tick int) error {
	steps := []func() error{t.leftOut, t.names, t.claim, func() error { return t.spend(tellParts, tellMost) }}
	beat, due := t.heartbeat(t.said.Sequence), tick%int(link.HeartbeatEvery/claimsEvery) == 0
	if beat.Parted = t.said.Parted; due { // counted as often, or each request would make a heartbeat
		t.stats.Keys = -1 // not to count them
		t.o.Engine.Stats(t.o.Now(), &t.stats)
		beat.Parted = t.stats.Unpromoted
	}
	if *beat != t.said || due {
		if err := t.beat(beat); err != nil {
			return err
		}
	}
	if tick%int(reportEvery/claimsEvery) == 0 {
		steps = append(steps, t.report)
	}
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

func (t *teller) beat(beat *link.Heartbeat) error {
	beat.Sequence++
	t.said = *beat
	return t.w.Write(beat)
}

func (t *teller) leftOut() error {
	r := t.Client.leftOut.Load()
	if r == t.refused || t.version < 2 {
		return nil
	}
	t.refused = r
	return t.w.Write(r)
}

func (t *teller) names() error {
	n := t.o.Engine.Named()
	if n == t.named || t.version < 2 {
		return nil
	}
	t.named = n
	return t.w.Write(n.Known())
}

func (t *teller) claim() error {
	t.claims.Reset()
	t.o.Engine.Claims(t.o.Now(), &t.claims)
	t.claims.Withdrawn = append(t.claims.Withdrawn, t.release()...)
	empty := len(t.claims.Flows)+len(t.claims.Keys)+len(t.claims.Withdrawn) == 0
	if empty && t.silent {
		return nil
	}
	t.silent = empty
	return t.w.Write(&t.claims)
}

func (t *teller) report() error {
	t.o.Engine.Report(t.o.Now(), &t.Client.report)
	return t.w.Write(&t.Client.report)
}

// spend tells of keys that have spent something, from a part of the table and at
// most so many.
func (t *teller) spend(part, most int) error {
	_, err := t.spendSome(part, most)
	return err
}

func (t *teller) spendSome(part, most int) (end bool, err error) {
	if t.version < 2 {
		return true, nil
	}
	t.spent.Keys = t.spent.Keys[:0]
	end = t.o.Engine.TellSpent(t.o.Now(), &t.walk, part, most, func(s exchange.KeySpent) {
		t.spent.Keys = append(t.spent.Keys, s)
	})
	if len(t.spent.Keys) == 0 {
		return end, nil
	}
	return end, t.w.Write(&t.spent)
}

// last tells what is new in the whole table, however much that is. The walk may
// stand in the middle: its rest comes first.
func (t *teller) last() {
	defer close(t.finished)
	if t.report() != nil {
		return
	}
	for walks := 0; walks < 2; {
		end, err := t.spendSome(1, tellMost)
		if err != nil {
			return
		}
		if end {
			walks++
		}
	}
}

// Finish tells the agent what is new, ends the link and returns when that is done, or
// after patience. What is decided afterwards is not told.
func (c *Client) Finish(patience time.Duration) {
	c.finish.Do(func() { close(c.finishing) })
	if !c.Connected.Load() {
		return
	}
	select {
	case <-c.finished:
	case <-time.After(patience):
	}
}
