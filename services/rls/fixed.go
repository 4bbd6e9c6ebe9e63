package rls

import (
	"fmt"
	"time"

	"github.com/titrate/titrate/control/exchange"
	"github.com/titrate/titrate/control/limiter"
	"github.com/titrate/titrate/services/rls/windows"
)

// Windows is the kind of window in which the limits of the files count.
type Windows string

// The kinds of windows; "" is Sliding.
const (
	// Sliding: N per unit is a bucket of N that refills at N per unit.
	Sliding Windows = "sliding"
	// Fixed: N in each second, minute and so on, as envoyproxy/ratelimit counts.
	Fixed Windows = "fixed"
)

// Validate reports what are no windows.
func (w Windows) Validate() error {
	if w == "" || w == Sliding || w == Fixed {
		return nil
	}
	return fmt.Errorf("--rls-windows is %q: want %s or %s", string(w), Sliding, Fixed)
}

// count decides a descriptor by the fixed window of now.
func (s *Server) count(m *match, hits uint64) answer {
	now := s.now().Unix()
	w := windows.At(now, int64(m.Unit.Length()/time.Second))
	seed := s.composer.seed.Load()
	after := s.windows.Take(now, windows.Hit{
		Window: w, Hits: hits, Limit: m.Requests, Stop: s.o.StopOverLimit,
		Key:    windows.Key(seed, w, uint8(m.Unit), m.Domain, m.Client),
		Shared: windows.Key(seed, w, uint8(m.Unit), m.Domain, "\x00"+m.ID), // no client begins so
	})
	a := answer{reason: limiter.ClientLimit, reset: time.Duration(w.End()-now) * time.Second}
	if a.over = after > uint64(m.Requests); !a.over {
		a.remaining = m.Requests - uint32(after)
	}
	return a
}

// sharing sends the agent the counts in fixed windows, and takes the other gateways' counts.
type sharing struct {
	*windows.Store

	s     *Server
	alone bool // no other limits are counted here
}

// Claims appends what has changed.
func (s *sharing) Claims(c *exchange.Claims) { s.Store.Claims(s.s.now().Unix(), c) }

// SetSums takes in the other gateways' counts, and leaves in sums what the engine needs.
func (s *sharing) SetSums(sums *exchange.Sums) {
	if s.Store.SetSums(sums); s.alone {
		sums.Keys = nil
	}
}
