package limiter

import (
	"reflect"
	"testing"

	"github.com/titrate/titrate/control/config"
	"github.com/titrate/titrate/control/config/configtest"
)

// Each field of a limit makes a difference to the engine. See CONTRIBUTING.md, "Adding a
// field to a limit".
func TestEveryFieldOfALimitCounts(t *testing.T) {
	names := &Names{}
	names.Identities[0], names.Classes[0] = "some", "some"
	compiled := func(l config.Limit) *limit {
		return newLimit(&snapshot{seed: 1, version: 1}, &config.Tenant{Name: "a"}, rules([]config.Limit{l})[0], names)
	}
	plain := compiled(config.Limit{})
	for name, l := range configtest.Fields[config.Limit]() {
		if name == "Until" { // who applies a configuration leaves out what has lapsed
			continue
		}
		if reflect.DeepEqual(compiled(l), plain) {
			t.Errorf("Limit.%s makes no difference: newLimit forgets it", name)
		}
	}
}
