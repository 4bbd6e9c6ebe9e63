package fleet

import (
	"fmt"
	"time"

	"github.com/titrate/titrate/control/config"
	controlv1 "github.com/titrate/titrate/proto/titrate/control/v1alpha1"
	quotav1 "github.com/titrate/titrate/proto/titrate/quota/v1alpha1"
	"github.com/titrate/titrate/services/store/resource"
)

// near is what the agents say of limits that state no precision.
type near struct {
	said  int    // agents that have said something
	local string // an agent where such limits are LOCAL, and why; "": none
	why   string // they are EXACT
	way   time.Duration
}

// note takes what an agent says.
func (n *near) note(agent string, s *controlv1.State) {
	if s.GetExactWhy() == "" {
		return
	}
	n.said++
	n.way = max(n.way, s.GetWay().AsDuration())
	if n.why = s.GetExactWhy(); !s.GetExact() && n.local == "" {
		n.local = fmt.Sprintf("%s (agent %s)", s.GetExactWhy(), agent)
	}
}

// precision is how close a limit is held, and why.
func (n *near) precision(l *quotav1.Limit) (p quotav1.Precision, why string) {
	switch c, err := resource.LimitConfig(l); {
	case err != nil || c.Mode == config.Off:
		return quotav1.Precision_PRECISION_UNSPECIFIED, ""
	case c.Mode == config.Shadow:
		return quotav1.Precision_LOCAL, "it is SHADOW"
	case c.Precision != config.Unstated:
		return l.GetPrecision(), ""
	case c.Queued():
		return quotav1.Precision_LOCAL, "it has a queue"
	}
	switch {
	case n.said == 0:
		return quotav1.Precision_PRECISION_UNSPECIFIED, ""
	case n.local != "":
		return quotav1.Precision_LOCAL, n.local
	case n.way > 0:
		return quotav1.Precision_EXACT, fmt.Sprintf("%s: %s", n.why, n.way)
	}
	return quotav1.Precision_EXACT, n.why
}
