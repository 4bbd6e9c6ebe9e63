package simulate

import (
	"github.com/titrate/titrate/lab/simulate/baseline"
	"github.com/titrate/titrate/lab/simulate/system"
)

// baselines are the systems that Titrate can be compared with, in the order in
// which help lists them.
var baselines = []contender{
	{"static", baseline.Static},
	{"central", baseline.Central},
	{"shared", baseline.Shared},
	{"fps", baseline.FPS},
	{"aimd", baseline.AIMD},
	{"waterfill", baseline.Waterfill},
	{"claims", baseline.Claims},
}

// contender is a system with the name that it is asked for by.
type contender struct {
	name string
	make system.Maker
}

// Baselines lists the names that Options.Baselines takes.
func Baselines() []string {
	names := make([]string, len(baselines))
	for i, b := range baselines {
		names[i] = b.name
	}
	return names
}
