package process

import (
	"testing"

	"github.com/titrate/titrate/e2e/guide"
)

// The page about the API over HTTP, with curl, as it stands.
func TestGuideRest(t *testing.T) {
	b := need(t)
	t.Parallel()
	said := guide.Run(t, b.clone(t, nil), script(t, "../../docs/rest.md", "To try it", "Create, change, delete",
		"Several at once, plans and history", "What happens now", "Errors"))
	contains(t, said, `"name":"tenants/acme/quotas/api"`, `"code":"ABORTED"`, `"outcomes":["CREATED"`,
		`"deleted":["tenants/acme/quotas/api"]`, `"name":"cut-half"`, `"message":"a limit for everybody"`, `"allowed":true`,
		`pool.capacity: must be greater than 0 and less than or equal to 1000000000`,
		`body:1: capactiy: unknown field; known are name, `)
}
