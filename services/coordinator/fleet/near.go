package fleet

import (
	"fmt"
	"time"

	"github.com/titrate/titrate/control/config"
	controlv1 "github.com/titrate/titrate/proto/titrate/control/v1alpha1"
	quotav1 "github.com/titrate/titrate/proto/titrate/quota/v1alpha1"
	"github.com/titrate/titrate/services/store/resource"
)

// near counts the agents' reports about limits that state no precision.
type near struct {
	exact int    // agents where such limits are EXACT
	why   string // they are
	local int    // agents where they are LOCAL
	not   string // one of these, and why
	way   time.Duration
}

// note takes what an agent says.
func (n *near) note(agent string, s *controlv1.State) {
	if s.GetExactWhy() == "" {
		return
	}
	n.way = max(n.way, s.GetWay().AsDuration())
	if s.GetExact() {
		n.exact++
		n.why = s.GetExactWhy()
		return
	}
	if n.local++; n.not == "" {
		n.not = fmt.Sprintf("%s (agent %s)", s.GetExactWhy(), agent)
	}
}

// precision says how close a limit is held, and why.
func (n *near) precision(l *quotav1.Limit) (p quotav1.Precision, why string) {
	switch c, err := resource.LimitConfig(l); {
	case err != nil || c.Mode == config.Off || c.Concurrency > 0 || c.Quota != nil:
		return quotav1.Precision_PRECISION_UNSPECIFIED, ""
	case c.Mode == config.Shadow:
		return quotav1.Precision_LOCAL, "it is SHADOW"
	case c.Precision != config.Unstated:
		return l.GetPrecision(), ""
	case c.Queued():
		return quotav1.Precision_LOCAL, "it has a queue"
	}
	switch {
	case n.exact+n.local == 0:
		return quotav1.Precision_PRECISION_UNSPECIFIED, ""
	case n.exact <= n.local:
		return quotav1.Precision_LOCAL, n.not
	}
	if why = n.why; n.way > 0 {
		why = fmt.Sprintf("%s: %s", why, n.way)
	}
	if n.local > 0 {
		why += "; LOCAL at some: " + n.not
	}
	return quotav1.Precision_EXACT, why
}
