package limiter

import (
	"github.com/titrate/titrate/control/config"
	"github.com/titrate/titrate/control/exchange"
)

// Whose request it is, as limits see it. A limit without an identity tells
// clients apart by Request.Client, one with an identity by the value that the
// request has under that name; a request without such a value is "", one client
// together with all others that lack it. A limit with classes applies only to
// requests that are in one of them.
//
// Names become places in small tables when a configuration is compiled, so that
// a request carries an array and a bitmask instead of names. Which name has
// which place is the caller's to say, see [Engine.Name].

// Bounds of what requests can be told apart by, in one process.
const (
	MaxIdentities = 8
	MaxClasses    = 32
)

// Identities are the values of one request by place; "" where it has none. Like
// all strings of a Request they may alias foreign memory.
type Identities [MaxIdentities]string

// clone copies the values, which outlive their request while it is held.
func (ids *Identities) clone() *Identities {
	if ids == nil {
		return nil
	}
	c := new(Identities)
	for i, value := range ids {
		if value != "" {
			c[i] = cloneString(value)
		}
	}
	return c
}

// Names says which identity and which class has which place; "" is a free one.
type Names struct {
	Identities [MaxIdentities]string
	Classes    [MaxClasses]string
}

// Known lists the names that have a place.
func (n *Names) Known() *exchange.Names {
	return &exchange.Names{Identities: given(n.Identities[:]), Classes: given(n.Classes[:])}
}

// given are the names that are not "".
func given(names []string) (out []string) {
	for _, name := range names {
		if name != "" {
			out = append(out, name)
		}
	}
	return out
}

// Wanted says which places the limits of a configuration ask for, a bit each.
type Wanted struct {
	Identities uint8
	Classes    uint32
}

// or is what either asks for.
func (w Wanted) or(o Wanted) Wanted {
	return Wanted{w.Identities | o.Identities, w.Classes | o.Classes}
}

// Where a limit finds its client: 0 in Request.Client, 1 + place among the
// identities, unnamed nowhere.
const unnamed = MaxIdentities + 1

// place returns a limit's identity by name.
func (n *Names) place(identity string) uint8 {
	if identity == "" {
		return 0
	}
	for i, name := range n.Identities {
		if name == identity {
			return uint8(i) + 1
		}
	}
	return unnamed
}

// every is the class that all requests are in.
const every = 1 << MaxClasses

// classes returns the mask of a limit's classes. Of classes that nobody knows
// there are no requests.
func (n *Names) classes(names []string) (mask uint64) {
	if len(names) == 0 {
		return every
	}
	for _, name := range names {
		for i, known := range n.Classes {
			if name == known && name != "" {
				mask |= 1 << i
			}
		}
	}
	return mask
}

// subject is whose request it is.
type subject struct {
	client  string
	ids     *Identities
	classes uint64 // with every
}

func (r *Request) subject() subject {
	return subject{r.Client, r.Identities, uint64(r.Classes) | every}
}

// under returns the name by which a limit knows the subject.
func (w *subject) under(l *limit) string {
	if l.identity == 0 {
		return w.client
	}
	if w.ids == nil || l.identity == unnamed {
		return ""
	}
	return w.ids[l.identity-1]
}

// apart is what besides the client tells the subqueues of a route apart: who
// waits for one limit must not keep others waiting whom that limit does not hold.
type apart struct {
	identities uint8  // of limits with a queue
	classes    uint64 // likewise
}

// add takes in a limit of the route.
func (a *apart) add(l *limit) {
	if !l.queued {
		return
	}
	if l.identity != 0 && l.identity != unnamed {
		a.identities |= 1 << (l.identity - 1)
	}
	a.classes |= l.classes &^ every
}

// line returns the key of the subqueue that a request waits in.
func (f *flow) line(rt *route, w subject) uint64 {
	if rt.apart == (apart{}) {
		return clientKey(f.salt, w.client)
	}
	h := fold(absorb(f.salt, w.client)^rt.apart.classes&w.classes, mulA)
	for i := range MaxIdentities {
		if rt.apart.identities>>i&1 != 0 && w.ids != nil {
			h = absorb(h, w.ids[i])
		}
	}
	return finish(h)
}

// Name says which names have which places from now on. A name that has lost its
// place is one that no request has; a place may change its name only when no
// request carries the old one any more.
func (e *Engine) Name(n Names) {
	e.naming.Lock()
	defer e.naming.Unlock()
	e.known = n
	e.told.Store(&n)
	if e.config != nil && e.snap.Load().named {
		e.install(e.config)
	}
}

// Named returns what Name said last, nil before. It never waits.
func (e *Engine) Named() *Names { return e.told.Load() }

// install compiles a validated configuration and puts it in force. What either
// configuration asks of requests is asked while both may be in use. naming is
// locked.
func (e *Engine) install(c *config.Config) {
	s := compile(c, &e.known)
	if e.wants != nil {
		e.wants(e.wanted.or(s.wanted))
		defer e.wants(s.wanted)
	}
	e.wanted = s.wanted
	e.config = c
	e.admin.Lock()
	defer e.admin.Unlock()
	e.snap.Store(s)
	e.refreshAll()
	for _, f := range e.live() {
		f.stir()
	}
}
