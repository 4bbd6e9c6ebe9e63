package linkserver

import (
	"fmt"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/titrate/titrate/control/config"
	"github.com/titrate/titrate/control/exchange"
	"github.com/titrate/titrate/proto/link"
)

// checkUser refuses users other than root and the agent's own.
func checkUser(uid, own int) error {
	if uid != 0 && uid != own {
		return fmt.Errorf("linkserver: the peer runs as user %d: only user %d and root may connect; --socket-group "+
			"admits a group", uid, own)
	}
	return nil
}

// Conn is a connection to a filter process whose Hellos are exchanged.
type Conn struct {
	// Number is the connection's own: none comes twice.
	Number uint64
	// Hello is the filter's; its Version is the version of the link that both sides understand.
	Hello link.Hello
	// PID of the process as the kernel knows it; 0 if it is in another PID namespace or the system does not know.
	PID int

	conn *net.UnixConn
	box  mailbox
}

// Send puts a *Spent, *Config, *Delta, *Shares, *Sums, *TokenAnswers, *SlotReplies, *QuotaReplies or *Heartbeat in the
// mailbox, in the place of an older one of its kind. A *Delta is added to the configuration or the delta before it that
// was not sent yet. Sums that are only what has changed are added to the Sums, and answers and replies to earlier ones.
// It never blocks. The message belongs to the connection from then on. It must not be changed, nor be sent to another
// one (but for a *Config and a *Delta, which are only read).
func (c *Conn) Send(m link.Message) { c.box.put(m) }

// Close ends the connection; the handler's Disconnected follows.
func (c *Conn) Close() { c.conn.Close() }

// mailbox keeps the latest message of each kind until it is written.
type mailbox struct {
	mu    sync.Mutex
	slots [slots]link.Message
	wake  chan struct{}
}

// The slots, in the order in which they are written. What clients have spent comes before the configuration, with which
// a filter begins to serve. Shares mean nothing without the configuration that names their flows.
const (
	slotSpent = iota
	slotConfig
	slotShares
	slotSums
	slotHeartbeat
	slotTokens
	slotGlobal // tokens of the owners of all sites
	slotReplies
	slotQuotas
	slots
)

func (b *mailbox) put(m link.Message) {
	slot := slotHeartbeat
	switch m := m.(type) {
	case *exchange.Spent:
		slot = slotSpent
	case *config.Config, *config.Delta:
		slot = slotConfig
	case *exchange.Shares:
		slot = slotShares
	case *exchange.Sums:
		slot = slotSums
	case *exchange.TokenAnswers:
		if slot = slotTokens; m.Global {
			slot = slotGlobal
		}
	case *exchange.SlotReplies:
		slot = slotReplies
	case *exchange.QuotaReplies:
		slot = slotQuotas
	}
	b.mu.Lock()
	b.slots[slot] = merged(b.slots[slot], m)
	b.mu.Unlock()
	select {
	case b.wake <- struct{}{}:
	default: // the writer is awake already
	}
}

// merged returns the message to write for a message and an older one of its slot that was not written yet,
// nil if there is none.
func merged(waits, m link.Message) link.Message {
	if t, ok := m.(*exchange.SlotReplies); ok {
		before, _ := waits.(byOwner[*exchange.SlotReplies])
		return before.add(t, func(before *exchange.SlotReplies) bool { return before.Owner == t.Owner })
	}
	if t, ok := m.(*exchange.QuotaReplies); ok {
		before, _ := waits.(byOwner[*exchange.QuotaReplies])
		return before.add(t, func(before *exchange.QuotaReplies) bool { return before.Owner == t.Owner })
	}
	switch waits := waits.(type) {
	case *exchange.Sums:
		waits.Add(m.(*exchange.Sums))
		return waits
	case *exchange.TokenAnswers:
		waits.Add(m.(*exchange.TokenAnswers))
		return waits
	case *config.Config:
		if d, ok := m.(*config.Delta); ok {
			if whole, err := waits.With(d); err == nil { // else the filter asks for the whole
				return whole
			}
		}
	case *config.Delta:
		if d, ok := m.(*config.Delta); ok {
			return waits.Then(d)
		}
	}
	return m
}

// byOwner are the messages of owners of slots or of quotas, one for each owner.
type byOwner[M replies[M]] []M

type replies[M any] interface {
	link.Message
	Add(M)
	Parts(most int) []M
}

// add adds a message to the one of the same owner, if there is one.
func (all byOwner[M]) add(m M, same func(M) bool) byOwner[M] {
	if i := slices.IndexFunc(all, same); i >= 0 {
		all[i].Add(m)
		return all
	}
	return append(all, m)
}

// write writes the messages.
func (all byOwner[M]) write(w *link.Writer) error {
	for _, m := range all {
		if err := writeAll(w, m.Parts(link.MaxTokens)); err != nil {
			return err
		}
	}
	return nil
}

// next returns the first message that waits, by slot; nil if none does.
func (b *mailbox) next() link.Message {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i, m := range b.slots {
		if m != nil {
			b.slots[i] = nil
			return m
		}
	}
	return nil
}

// deadlineWriter fails if the filter does not read for DeadAfter.
type deadlineWriter struct{ conn *net.UnixConn }

func (p deadlineWriter) Write(b []byte) (int, error) {
	if err := p.conn.SetWriteDeadline(time.Now().Add(link.DeadAfter)); err != nil {
		return 0, err
	}
	return p.conn.Write(b)
}
