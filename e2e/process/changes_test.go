package process

import (
	"testing"

	"github.com/titrate/titrate/e2e/guide"
)

// The page about changes, from the first apply to the rollback, as it stands.
func TestGuideChanges(t *testing.T) {
	b := need(t)
	t.Parallel()
	said := guide.Run(t, b.clone(t, nil), script(t, "../../docs/changes.md", "To try it", "Apply, with a reason",
		"Plan first", "Look back", "Go back", "Several coordinators"))
	contains(t, said, "capacity: 300 -> 100", "exit status 1",
		"cut-half: pools/api: capacity falls from 300.0/s to 100.0/s",
		"tenants/bolt created", "tenants/bolt deleted (dry run)", "nobody uses it yet", "+ tenants/bolt",
		"Rolled back to ", "tenants/bolt       1  -",
		"context here created: 127.0.0.1:7400, the current one", "insecure  true")
}
