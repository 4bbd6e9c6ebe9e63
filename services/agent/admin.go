package agent

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/titrate/titrate/services/agent/core"
	"github.com/titrate/titrate/services/telemetry"
)

// openAdmin opens the HTTP server.
func (a *Agent) openAdmin(ctx context.Context) error {
	var err error
	if a.admin, err = telemetry.NewAdmin(a.metrics, a.c.Security, a.log); err != nil {
		return err
	}
	if err := a.registerMetrics(); err != nil {
		return err
	}
	alarm := func(f func(now time.Duration, c *core.Core) error) func() error {
		return func() error { return ask(a, f) }
	}
	if !a.standsAlone() {
		a.admin.Check("configuration", alarm(func(_ time.Duration, c *core.Core) error { return c.Ready() }))
	}
	if a.rls != nil {
		a.admin.Alarm("rls", a.limitsInForce)
		a.admin.Alarm("rls requests", a.rls.Trouble)
	}
	if a.rlqs != nil {
		a.admin.Alarm("rlqs", a.rlqs.Trouble)
	}
	a.admin.Alarm("gossip", alarm(func(now time.Duration, c *core.Core) error { return c.Unheard(now) }))
	a.admin.Alarm("configuration", alarm(func(now time.Duration, c *core.Core) error { return c.NotEnforced(now) }))
	a.admin.Alarm("keys", alarm(func(now time.Duration, c *core.Core) error { return c.OverBudget(now) }))
	a.admin.Alarm("name", a.nameInUse)
	a.admin.Alarm("snapshot", a.unwritten)
	a.admin.Alarm("gossip keys", a.keysUnusable)
	a.admin.Handle("GET /status", http.HandlerFunc(a.serveStatus))
	if a.c.FaultInjection {
		a.admin.Handle("POST /fault/partition", http.HandlerFunc(a.servePartition))
	}
	a.adminAt, err = a.c.Security.Listen(ctx, "--admin", a.c.Admin)
	return err
}

// nameInUse says that coordinators refuse this agent because another one has its name.
func (a *Agent) nameInUse() error {
	if s := a.stream.Status(); s.NameInUse {
		return fmt.Errorf("coordinator %s: %s", s.Address, s.Error)
	}
	return nil
}

func (a *Agent) serveStatus(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	if err := e.Encode(a.Status()); err != nil {
		a.log.Debug("status not sent", "error", err)
	}
}

// servePartition takes ?on=true and ?on=false.
func (a *Agent) servePartition(w http.ResponseWriter, r *http.Request) {
	on, err := strconv.ParseBool(r.URL.Query().Get("on"))
	if err != nil {
		http.Error(w, "want POST /fault/partition?on=true or ?on=false", http.StatusBadRequest)
		return
	}
	a.Partition(on)
	w.WriteHeader(http.StatusNoContent)
}
