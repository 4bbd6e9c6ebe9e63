package measure

import (
	"math"
	"time"

	"github.com/titrate/titrate/lab/judge"
)

// worst is the worst that was admitted of a pool or key, in any window of the run.
type worst struct {
	level   judge.Level
	second  judge.Window
	excess  float64 // over rate·t + burst; −Inf before anything was admitted
	highest float64 // in a second
}

func newWorst() worst { return worst{second: judge.Window{Width: time.Second}, excess: math.Inf(-1)} }

func (w *worst) admit(now time.Duration, cost float64) {
	w.excess = max(w.excess, w.level.Admit(now, cost))
	w.highest = max(w.highest, w.second.Admit(now, cost))
}
