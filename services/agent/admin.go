package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/titrate/titrate/services/agent/gateways"
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
	a.admin.Alarm("keys", a.crowded)
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

// crowdedFor is how long after the last key beyond a gateway's budget the alarm stays.
const crowdedFor = time.Minute

// crowded says which gateways have more busy keys than they have full state for: such
// a key is held to its part of the limit.
func (a *Agent) crowded() error {
	var all []error
	a.server.Each(func(g *gateways.Gateway) {
		if last, requests := g.Crowded(); requests > 0 && time.Since(last) < crowdedFor {
			all = append(all, fmt.Errorf("gateway %s has more busy keys than full state for them: each one beyond is held to rate/N and burst/N "+
				"(%d requests since its start); either names are invented, or its `keys` should be larger", g.Replica(), requests))
		}
	})
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
