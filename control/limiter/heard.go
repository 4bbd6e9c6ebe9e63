package limiter

import (
	"maps"
	"sync/atomic"

	"github.com/titrate/titrate/control/drc"
	"github.com/titrate/titrate/control/exchange"
	"github.com/titrate/titrate/control/limiter/internal/lock"
	"github.com/titrate/titrate/control/limiter/internal/members"
)

// heardFlows holds the claims of the other replicas on flows, by their keys. A flow looks up its
// sums when it is next stepped and something has changed.
type heardFlows struct {
	version atomic.Uint64 // rises with each change

	mu      lock.Mutex[lock.Leaf]
	flows   map[uint64]heardFlow
	listing uint32 // of the Full sums that came last
	stale   bool   // there may be flows that the sums do not name any more
}

type heardFlow struct {
	drc.Sums
	listing uint32 // that named it last; 0: it is gone
}

// set takes in sums. A flow that they do not name any more is claimed by nobody else,
// unless this replica receives too little to know.
func (h *heardFlows) set(s *exchange.Sums, m *members.View) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.flows == nil {
		h.flows = map[uint64]heardFlow{}
	}
	if s.Full {
		h.listing, h.stale = max(1, h.listing+1), true
	}
	changed := len(s.Flows) > 0
	if m.Replicas > 1 {
		for _, f := range s.Flows {
			h.flows[f.Key] = heardFlow{drc.Sums{
				Claims: f.Claims, Active: f.Active, Unsaturated: f.Unsaturated,
			}, h.listing}
		}
	}
	for _, key := range s.Gone {
		if f, ok := h.flows[key]; ok {
			f.listing, h.stale = 0, true
			h.flows[key] = f
		}
	}
	if h.stale && m.Isolation == exchange.Connected && !s.More {
		h.stale, changed = false, true
		maps.DeleteFunc(h.flows, func(_ uint64, f heardFlow) bool { return f.listing != h.listing })
	}
	if changed {
		h.version.Add(1)
	}
}

// get returns what the others claim of a flow.
func (h *heardFlows) get(key uint64) drc.Sums {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.flows[key].Sums
}

// any reports whether other replicas claim any flow.
func (h *heardFlows) any() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.flows) > 0
}
