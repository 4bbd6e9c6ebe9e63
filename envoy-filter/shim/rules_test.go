package shim

import (
	"testing"

	"github.com/titrate/titrate/envoy-filter/settings"
)

// C can read each kind of source, and no two kinds alike.
func TestEachKindHasASource(t *testing.T) {
	seen := map[any]settings.Kind{}
	for kind, source := range sourceKinds {
		if other, twice := seen[source]; source.kind == 0 || twice {
			t.Errorf("kind %d of settings is %+v in C, kind %d too: %v", kind, source, other, twice)
		}
		seen[source] = settings.Kind(kind)
	}
}
