package coordinator

import (
	"log/slog"

	"github.com/titrate/titrate/services/store"
	"github.com/titrate/titrate/services/store/resource"
)

// named is how many names one line of the log lists.
const named = 5

// warnOldBursts logs, once per snapshot of the store, which limits were stored without a
// burst. An older version stored them and gave them one second's worth of their rate,
// which they keep.
func warnOldBursts(log *slog.Logger, b store.Batch) {
	var names []string
	count := 0
	for _, r := range b.Resources {
		if l := r.GetLimit(); b.Reset && l != nil && resource.BurstUnset(l) {
			if count++; count <= named {
				names = append(names, l.GetName())
			}
		}
	}
	if count > 0 {
		log.Warn("limits were stored without a burst by an older version: they keep one second's worth of their rate; "+
			"applied anew without burst they get the amount of the rate (100/min: 100)",
			"limits", count, "first", names)
	}
}
