package ledger

import (
	"context"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"golang.org/x/time/rate"

	"github.com/titrate/titrate/services/coordinator/booking"
	"github.com/titrate/titrate/services/pause"
	"github.com/titrate/titrate/services/store"
)

// Run keeps the ledger until ctx ends.
func (l *Ledger) Run(ctx context.Context) {
	for ctx.Err() == nil {
		l.mu.Lock()
		epoch, led := l.epoch, l.led
		l.mu.Unlock()
		leading, stop := context.WithCancel(ctx)
		go func() {
			select {
			case <-led:
			case <-leading.Done():
			}
			stop()
		}()
		if epoch != 0 && l.needed(leading) {
			l.lead(leading, epoch)
		}
		<-leading.Done()
		stop()
	}
}

// lead owns the journal until ctx ends.
func (l *Ledger) lead(ctx context.Context, epoch int64) {
	said := rate.Sometimes{First: 1, Interval: time.Minute}
	for ctx.Err() == nil {
		j, err := l.open(ctx, epoch)
		if err == nil {
			err = l.serve(ctx, j)
			l.close()
		}
		if err != nil && ctx.Err() == nil {
			said.Do(func() {
				l.o.Log.Warn("bookings of calendar quotas are not stored; it is tried again", "error", err)
			})
			pause.For(ctx, openAgain)
		}
	}
}

// open takes the journal and reads the book.
func (l *Ledger) open(ctx context.Context, epoch int64) (*journal, error) {
	j, err := openJournal(ctx, l.o.Client, l.o.Prefix, epoch, l.refused)
	if err != nil {
		return nil, err
	}
	now := time.Now()
	book := booking.New(l.o.Terms)
	unreadable, err := j.read(ctx, now, book)
	if err != nil {
		return nil, err
	}
	if unreadable > 0 {
		l.o.Log.Error("stored bookings cannot be read: owners say what they know of them", "values", unreadable)
	}
	l.mu.Lock()
	if l.before != nil {
		book.Merge(now, l.before)
		l.before = nil
	}
	book.Configure(l.used)
	book.Opened(now)
	l.book = book
	l.stats.Unreadable += uint64(unreadable)
	l.mu.Unlock()
	l.o.Log.Info("bookings of calendar quotas are taken here", "epoch", epoch, "records", book.Records(),
		"took", time.Since(now))
	l.announce(now)
	notify(l.work)
	return j, nil
}

// refused notes that etcd does not store something until somebody has changed something.
func (l *Ledger) refused(err error) {
	l.mu.Lock()
	l.stats.Refused++
	l.mu.Unlock()
	l.said.Do(func() { l.o.Log.Error("etcd refuses to store bookings of calendar quotas", "error", err) })
}

// close ends the ownership. Owners repeat the requests that wait.
func (l *Ledger) close() {
	l.mu.Lock()
	l.counts = plus(l.counts, l.book.Counts())
	answers := l.waiting
	l.before, l.book, l.waiting, l.announced = l.book, nil, nil, nil
	l.generation++
	l.mu.Unlock()
	l.sayAway(answers)
}

// serve writes windows until ctx ends or the journal is lost. When ctx ends, what is written and the use that is in
// memory alone have finishFor to be stored, because another coordinator leads from now on. If that one has the journal
// already, owners say their use again.
func (l *Ledger) serve(ctx context.Context, j *journal) error {
	storing, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(finishFor, cancel) })()
	soon := rate.NewLimiter(atOnce, 4)
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	last := time.Time{}
	for shard := 0; ; {
		var stale []int
		select {
		case <-ctx.Done():
			l.finish(storing, j)
			return nil
		case <-ticker.C:
			stale = l.tidy(shard)
			shard = (shard + 1) % booking.Shards
			l.announce(time.Now())
			if len(stale) == 0 {
				continue
			}
		case <-l.work:
			rest := window - time.Since(last)
			select {
			case <-l.first:
				if !soon.Allow() {
					pause.For(ctx, rest)
				}
			case <-ctx.Done():
			case <-time.After(rest):
			}
		}
		last = time.Now()
		if err := l.write(storing, j, stale); err != nil {
			return err
		}
	}
}

// finish stores the use that is in memory alone.
func (l *Ledger) finish(ctx context.Context, j *journal) {
	for shard := 0; shard < booking.Shards && ctx.Err() == nil; {
		var stale []int
		l.mu.Lock()
		for ; shard < booking.Shards && len(stale) < foldsAtOnce; shard++ {
			if l.book.Stale(shard) {
				stale = append(stale, shard)
			}
		}
		l.mu.Unlock()
		if len(stale) > 0 && l.write(ctx, j, stale) != nil {
			return
		}
	}
}

// tidy looks at a shard, and returns it if use in it is to be stored.
func (l *Ledger) tidy(shard int) (stale []int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	l.book.Tidy(now, shard)
	l.book.Settle(now, shard)
	notify(l.work) // it may have made records final
	if l.book.Stale(shard) {
		stale = append(stale, shard)
	}
	return stale
}

// write stores what has changed, and sends the answers that waited for it.
func (l *Ledger) write(ctx context.Context, j *journal, stale []int) error {
	l.mu.Lock()
	b, answers := j.batch(l.book, stale...), l.waiting
	l.waiting, l.writing = nil, time.Now()
	l.mu.Unlock()
	slow := time.AfterFunc(slowAfter, func() { l.sayAway(answers) })
	err := j.store(ctx, b)
	slow.Stop()
	l.mu.Lock()
	l.writing = time.Time{}
	if err != nil {
		l.mu.Unlock()
		l.sayAway(answers)
		return err
	}
	l.stats.Transactions, l.stats.Bytes, l.stats.Last = j.written.transactions, j.written.bytes, j.written.last
	l.mu.Unlock()
	for i := range answers {
		answers[i].stored()
	}
	return nil
}

// sayAway answers requests that etcd takes long to store. Their intervals follow.
func (l *Ledger) sayAway(answers []waiting) {
	l.mu.Lock()
	l.stats.Away += uint64(len(answers))
	l.mu.Unlock()
	for _, w := range answers {
		w.answer(notStored(w.booking))
	}
}

// needed waits until a calendar is in use, or bookings are stored; false: ctx has ended before.
func (l *Ledger) needed(ctx context.Context) bool {
	for ctx.Err() == nil {
		l.mu.Lock()
		used := len(l.used) > 0
		l.unused = false
		l.mu.Unlock()
		if used {
			return true
		}
		asking, cancel := context.WithTimeout(ctx, store.Timeout)
		got, err := l.o.Client.Get(asking, l.o.Prefix+"/", clientv3.WithPrefix(), clientv3.WithCountOnly())
		cancel()
		switch {
		case err != nil:
			pause.For(ctx, openAgain)
		case got.Count > 0:
			return true
		default:
			l.mu.Lock()
			l.unused = len(l.used) == 0
			l.mu.Unlock()
			select {
			case <-ctx.Done():
			case <-l.wanted:
			}
		}
	}
	return false
}
