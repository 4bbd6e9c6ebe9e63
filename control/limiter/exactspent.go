package limiter

import (
	"github.com/titrate/titrate/control/grant"
	"github.com/titrate/titrate/control/limiter/internal/tokens"
)

// What of an EXACT key's bucket the ledger knows and its owner does not.

// knownSpent returns how much of a key's bucket was spent as far as the ledger knows, in millionths. It is
// above 0 only if the limit became EXACT or was left to the ledger so recently that the owner may not know.
// What gateways that are unreachable are assumed to spend is left out: they report to the owner themselves.
func (e *Engine) knownSpent(c *call, l *limit, k *tokens.Key) int64 {
	return e.spentSince(c, l, k, e.exactSince(c, l, k))
}

// spentSince is knownSpent where the ledger has decided until some time.
func (e *Engine) spentSince(c *call, l *limit, k *tokens.Key, since int64) int64 {
	if k.While {
		if e.keys.Owes(c.now) {
			if spent, healed, _ := e.keys.AfterCut(c.keysOf(l), c.under(l), c.now); healed != 0 {
				return int64(spent * grant.Token)
			}
		}
	}
	if since == 0 || float64(c.now-since)*1e-9*k.Rate > k.Burst {
		return 0
	}
	return int64(e.keys.Usage(c.keysOf(l), c.under(l), c.now, c.costOf(l)).Known * grant.Token)
}

// exactSince returns when a limit became EXACT, or was left to the ledger last; 0: it has always been.
func (e *Engine) exactSince(c *call, l *limit, k *tokens.Key) int64 {
	since := e.tallyOf(l).left.Load() // by the limit's name: a change of the configuration does not lose it
	if k.While {
		since = max(since, e.near.Load())
	}
	if l.begun != nil {
		l.begun.CompareAndSwap(0, max(c.now, 1))
		since = max(since, l.begun.Load())
	}
	return since
}

// beginPart charges the key's standing part with what the ledger let pass before the limit was EXACT, or while there
// was no link. What it did before there were parts their owner knows.
func (e *Engine) beginPart(c *call, l *limit, k *tokens.Key) {
	begun := e.tokensOf(l).PartsBegun()
	if begun == 0 {
		return
	}
	since := max(e.exactSince(c, l, k), e.linked.Load())
	if since <= begun {
		return
	}
	if spent := e.spentSince(c, l, k, since); spent > 0 {
		e.tokensOf(l).BeginPart(k, c.now, spent, since)
	}
}

// isInDebt reports whether a key owes what gateways admitted that could not reach each other. Until that is repaid
// the ledger decides, which all gateways have alike. An owner knows of no more debt than a burst, and each side of
// a cut has had an owner of its own. When it is repaid, the owner is sent what is spent.
func (e *Engine) isInDebt(c *call, l *limit, k *tokens.Key) bool {
	if !k.While || !e.keys.Owes(c.now) {
		return false
	}
	spent, since, debt := e.keys.AfterCut(c.keysOf(l), c.under(l), c.now)
	switch {
	case debt:
		e.tokensOf(l).EmptyPart(k, c.now)
	case since != 0:
		e.tokensOf(l).Learn(k, c.now, int64(spent*grant.Token), since)
	}
	return debt
}
