package process

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/titrate/titrate/lab/installation"
)

// one and two are the coordinators' names. By them the second leads the pool api and the first found.
const one, two = "coordinator", "coordinator-2"

// found is a second pool.
const found = "{apiVersion: titrate.dev/v1alpha1, kind: Pool, name: pools/found, spec: {capacity: 100}}\n"

// TestCoordinatorsShare: two coordinators lead a pool each, and either answers for both. One is killed under
// traffic: the other leads both pools, and no request is affected. It comes back, and the same is done with the
// other.
func TestCoordinatorsShare(t *testing.T) {
	w := newSystemOf(t, need(t), true, "--share-pools")
	w.apply(documents + "---\n" + found)
	w.sharedBy(t, two, one)
	w.begin(t).end(t, allowance{more: thirtyBurst}) // both gateways begin cold
	for _, c := range []struct {
		killed    *installation.Coordinator
		rest, api string // whose name and address
	}{{w.Coordinators[0], two, w.Coordinators[1].API}, {w.Coordinators[1], one, w.API()}} {
		epoch := w.filter(0, "titrate_shares_epoch")
		load := w.begin(t)
		c.killed.Kill()
		killed := time.Now()
		eventually(t, "the other one leads all", patience, func() string { return w.led(t, c.api, c.rest, c.rest) })
		t.Logf("%s led all pools %.2f s after the other was killed, whose session lasts 2 s", c.rest,
			time.Since(killed).Seconds())
		w.linked(t, patience, epoch)
		load.pass(t, 1)
		w.start(c.killed.Server)
		w.sharedBy(t, two, one)
		load.pass(t, 1)
		load.end(t, allowance{})
	}
	w.healthy(t)
}

// sharedBy waits until each coordinator says that these lead the pools api and found, and each agent
// has a stream to each.
func (w *system) sharedBy(t *testing.T, api, found string) {
	t.Helper()
	for _, server := range []string{w.API(), w.Coordinators[1].API} {
		eventually(t, "the pools are shared", patience, func() string { return w.led(t, server, api, found) })
		status, said, complaint := w.bin.run(t, "", "check", "--server", server)
		if status != 0 || !strings.Contains(said, "2 coordinators share the pools") {
			t.Errorf("titrate check: exit status %d: %s%s", status, said, complaint)
		}
		status, said, complaint = w.bin.run(t, "", "get", "pools", "--server", server)
		if status != 0 || !strings.Contains(said, "LEADER") {
			t.Errorf("titrate get pools: exit status %d: %s%s", status, said, complaint)
		}
	}
	for i, g := range w.Gateways {
		eventually(t, "each agent has both streams", patience, func() string {
			var status struct {
				Streams []struct{ Connected bool }
			}
			_, body := w.get(g.AgentWeb + "/status")
			if err := json.Unmarshal([]byte(body), &status); err != nil {
				return err.Error()
			}
			connected := 0
			for _, s := range status.Streams {
				if s.Connected {
					connected++
				}
			}
			return unless(connected == 2 && len(status.Streams) == 2, fmt.Sprintf("agent %d: %+v", i+1, status.Streams))
		})
	}
}

// led returns "" if these coordinators lead the pools api and found, as one of them reports, else the leaders.
func (w *system) led(t *testing.T, server, api, found string) string {
	t.Helper()
	for pool, want := range map[string]string{"api": api, "found": found} {
		status, said, complaint := w.bin.run(t, "", "get", "pools/"+pool, "--server", server, "-o", "yaml")
		if status != 0 || !strings.Contains(said, "leader: "+want+"\n") {
			return fmt.Sprintf("pool %s: exit status %d: %s%s, want leader %s", pool, status, said, complaint, want)
		}
	}
	return ""
}
