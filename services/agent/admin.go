package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/titrate/titrate/services/telemetry"
)

// openAdmin opens the HTTP server.
func (a *Agent) openAdmin(ctx context.Context) error {
	var err error
	if a.admin, err = telemetry.NewAdmin(a.metrics, a.c.Security, a.log); err != nil {
		return err
	}
	if err := a.measure(); err != nil {
		return err
	}
	a.admin.Check("configuration", func() error {
		if config, _ := a.orders.InForce(); config == nil {
			return errors.New("none yet: neither a coordinator nor a last good snapshot gave one")
		}
		return nil
	})
	a.admin.Alarm("gossip", a.apart)
	a.admin.Alarm("configuration", a.notEnforced)
	a.admin.Handle("GET /status", http.HandlerFunc(a.serveStatus))
	if a.c.FaultInjection {
		a.admin.Handle("POST /fault/partition", http.HandlerFunc(a.servePartition))
	}
	a.adminAt, err = a.c.Security.Listen(ctx, "--admin", a.c.Admin)
	return err
}

// apart says who is not heard: limits and shares are then split without them.
func (a *Agent) apart() error {
	var all []error
	if missing := a.mesh.Missing(); len(missing) > 0 {
		all = append(all, fmt.Errorf("agents that failed or fell silent: %s", some(missing)))
	}
	if unheard := a.tally.Status(a.now()).Unheard; len(unheard) > 0 {
		all = append(all, fmt.Errorf("gateways of the membership that are not heard: %s", some(unheard)))
	}
	return errors.Join(all...)
}

// some lists the first few names.
func some(names []string) string {
	const few = 8
	if len(names) <= few {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:few], ", "), len(names)-few)
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
