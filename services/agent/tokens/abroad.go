package tokens

import (
	"time"

	"github.com/titrate/titrate/control/exchange"
	"github.com/titrate/titrate/control/grant"
	"github.com/titrate/titrate/control/sites"
)

// Abroad takes the sums of what other sites do with a key. used: they use it now. n is the number of sites, lag is
// the time after which an admission at another site is known here.
func (d *Desk) Abroad(now time.Duration, key uint64, s *exchange.KeySum, used bool, n int, lag time.Duration) {
	k := d.owned[key]
	if k == nil || k.away || k.name.Limit == "" {
		return
	}
	at, out := int64(now), outbox{d, key}
	k.o.SetAbroad(at, used, out)
	p := sites.Params{Rate: k.params.Rate, Burst: max(k.params.Burst, grant.Token), Sites: n, Lag: lag.Seconds()}
	spent, admitted := k.o.Level(at)-k.o.Out(), k.o.Admitted(at)
	if k.book == nil {
		k.book = sites.NewBook(p, at, spent, admitted)
	}
	cost := k.book.Receive(p, at, spent, admitted, s)
	if cost != 0 {
		k.o.Charge(at, at-int64(lag), cost, p.Deepest(), out)
	}
	d.schedule(k)
}
