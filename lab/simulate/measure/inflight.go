package measure

import (
	"container/heap"
	"time"

	"github.com/titrate/titrate/control/limiter"
	"github.com/titrate/titrate/lab/simulate/scenario"
	"github.com/titrate/titrate/lab/simulate/system"
	"github.com/titrate/titrate/lab/simulate/traffic"
)

// inFlight records the requests in flight of the keys of concurrency limits. A request is in flight for the time that
// its client's requests take, and ends with its gateway.
type inFlight struct {
	keys    []inFlightKey
	flights flights
}

// inFlightKey is one key.
type inFlightKey struct {
	now, most                           int
	at                                  time.Duration // up to which area is
	area                                float64       // requests·seconds after the warm-up
	offered, admitted, refused, wrongly int
}

// flight is an admitted request that has not ended.
type flight struct {
	end     time.Duration
	gateway int32
	keys    []int
}

// flights are ordered by their ends.
type flights []flight

// Len, Less, Swap, Push and Pop are of heap.Interface.
func (f flights) Len() int           { return len(f) }
func (f flights) Less(i, j int) bool { return f[i].end < f[j].end }
func (f flights) Swap(i, j int)      { f[i], f[j] = f[j], f[i] }
func (f *flights) Push(x any)        { *f = append(*f, x.(flight)) }
func (f *flights) Pop() any {
	last := (*f)[len(*f)-1]
	*f = (*f)[:len(*f)-1]
	return last
}

// until ends the flights whose time has come.
func (p *Recorder) until(now time.Duration) {
	for len(p.inFlight.flights) > 0 && p.inFlight.flights[0].end <= now {
		f := heap.Pop(&p.inFlight.flights).(flight)
		p.land(f.end, &f)
	}
}

func (p *Recorder) land(now time.Duration, f *flight) {
	for _, k := range f.keys {
		p.fly(now, k, -1)
	}
}

// fly adds to the requests in flight of a key.
func (p *Recorder) fly(now time.Duration, key, n int) {
	k := &p.inFlight.keys[key]
	if from := max(k.at, p.t.warm); now > from {
		k.area += float64(k.now) * (now - from).Seconds()
	}
	k.at = now
	k.now += n
	k.most = max(k.most, k.now)
}

// Happened notes an event, before the system plays it: the requests of a gateway that ends are over.
func (p *Recorder) Happened(e *scenario.Event) {
	switch e.Kind {
	case scenario.Leave, scenario.Crash, scenario.Restart:
	default:
		return
	}
	p.until(e.At)
	kept := p.inFlight.flights[:0]
	for _, f := range p.inFlight.flights {
		if p.cast.Gateways[f.gateway] == e.Replica {
			p.land(e.At, &f)
		} else {
			kept = append(kept, f)
		}
	}
	p.inFlight.flights = kept
	heap.Init(&p.inFlight.flights)
}

// answered takes an answer to a request of a client with concurrency limits.
func (p *Recorder) answered(a system.Answer, r *traffic.Request, c *traffic.Client) {
	p.until(a.At)
	for _, key := range c.InFlight {
		k := &p.inFlight.keys[key]
		switch by := &p.cast.InFlight[key]; {
		case a.Fate == system.Admitted:
			k.admitted++
			p.fly(a.At, key, 1)
		case a.Fate == system.Rejected && a.Reason == limiter.ClientLimit && a.Limit == by.Limit:
			k.refused++
			if int64(k.now) < by.Concurrency {
				k.wrongly++
			}
		}
	}
	if a.Fate == system.Admitted {
		heap.Push(&p.inFlight.flights, flight{a.At + c.Takes, r.Gateway, c.InFlight})
	}
}

// InFlight is a key of a concurrency limit: one client, or a whole tenant. Counts cover the whole run.
type InFlight struct {
	Tenant      string `json:"tenant"`
	Limit       string `json:"limit"`
	Client      string `json:"client,omitempty"` // "" for a tenant's
	Concurrency int64  `json:"concurrency"`      // at the end

	Offered  int `json:"offered"`
	Admitted int `json:"admitted"`
	Refused  int `json:"refused"` // by this limit
	// Wrongly counts those of Refused at a time at which fewer were in flight than the limit allows.
	Wrongly int     `json:"wrongly"`
	Most    int     `json:"most"` // in flight at one time
	Mean    float64 `json:"mean"` // in flight, after the warm-up
}

// inFlightResult returns the figures at the end of the run.
func (p *Recorder) inFlightResult() (out []InFlight) {
	p.until(p.t.end)
	for i := range p.inFlight.keys {
		p.fly(p.t.end, i, 0)
		k, of := &p.inFlight.keys[i], &p.cast.InFlight[i]
		out = append(out, InFlight{Tenant: of.Tenant, Limit: of.Limit, Client: of.Client, Concurrency: of.Concurrency,
			Offered: k.offered, Admitted: k.admitted, Refused: k.refused, Wrongly: k.wrongly, Most: k.most,
			Mean: k.area / (p.t.end - p.t.warm).Seconds()})
	}
	return out
}
