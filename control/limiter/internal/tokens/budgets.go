package tokens

import (
	"maps"

	"github.com/titrate/titrate/control/budget"
	"github.com/titrate/titrate/control/limiter/internal/lock"
)

// What a replica asks the owners of keys, and how many keys it knows, is divided among the limits of
// tenants (package budget). A key that is new here and for which its limit has nothing left is Unowned:
// the ledger decides, and no owner is asked. Keys that are known go on, and so do all other limits.

const (
	// asked and askedStated are the questions that a replica may ask per second. Each costs its agent some
	// 0.1 ms of processor time and the owner as much. A limit that states EXACT may ask more.
	asked, askedStated = 2000, 20_000
	// crowdedFor is the time, in nanoseconds, for which a limit counts as crowded after a key found no
	// room. keepCrowded is the time for which its keys that have nothing to remember are kept.
	crowdedFor, keepCrowded = int64(10e9), int64(1e9)
)

// budgets has each limit's part of the keys and of the questions per second.
type budgets struct {
	mu      lock.Mutex[lock.Budget]
	room    *budget.Room
	rates   [2]*budget.Rate     // of limits that state EXACT, and of limits that state no precision
	crowded map[budget.ID]int64 // limits of which a key found no room, and when
}

func (b *budgets) init(keys int) {
	b.room, b.crowded = budget.NewRoom(keys), map[budget.ID]int64{}
	b.rates = [2]*budget.Rate{budget.NewRate(askedStated), budget.NewRate(asked)}
}

func (b *budgets) rate(k *Key) *budget.Rate {
	if k.While {
		return b.rates[1]
	}
	return b.rates[0]
}

// fits reports whether a key that is new here may be asked about.
func (b *budgets) fits(k *Key, now int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.fitsLocked(k, now)
}

func (b *budgets) fitsLocked(k *Key, now int64) bool {
	if !b.room.Fits(k.Part) {
		b.crowded[k.Part] = now
		return false
	}
	return b.rate(k).Fits(now, k.Part)
}

// take gives a place to a key that fits.
func (b *budgets) take(k *Key, now int64) (ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if ok = b.fitsLocked(k, now); ok {
		b.room.Take(k.Part)
	}
	return ok
}

func (b *budgets) free(limit budget.ID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.room.Free(limit)
}

// ask counts a question.
func (b *budgets) ask(k *Key, now int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.rate(k).Ask(now, k.Part)
}

// crowdedLimits returns the limits of which a key found no room within crowdedFor; nil: none.
func (b *budgets) crowdedLimits(now int64) map[budget.ID]int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.crowded) == 0 {
		return nil
	}
	maps.DeleteFunc(b.crowded, func(_ budget.ID, at int64) bool { return now-at > crowdedFor })
	return maps.Clone(b.crowded)
}
