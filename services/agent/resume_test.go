package agent

import (
	"path/filepath"
	"slices"
	"testing"

	"github.com/titrate/titrate/control/config"
	controlv1 "github.com/titrate/titrate/proto/titrate/control/v1alpha1"
	"github.com/titrate/titrate/services/store/resource"
)

// The next leader learns which configuration the agent has, and says that nothing is lacking: the new shares are in
// force, and no gateway is sent the configuration again. So it is after a restart.
func TestTheNextLeaderSendsNoConfiguration(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "state")
	one := lead(t, pools(3, true, 100), 5, 40)
	two := lead(t, &controlv1.Configuration{Nonce: 1, Revision: 3, Last: true, Seed: 11, Epoch: 6}, 6, 50)
	a := run(t, Config{Name: "agent-1", Coordinators: []string{one.address, two.address}, SnapshotDir: dir})
	f := connect(a, "gw-1", 1)
	var held *config.Config
	f.eventually("has its orders", func() bool {
		held = f.config
		return held != nil && f.shares != nil && f.shares.Flows[0].Share == 40
	})
	one.stop()
	f.eventually("has the shares of the next leader", func() bool {
		return f.shares.Epoch == 6 && f.shares.Flows[0].Share == 50
	})
	f.eventually("keeps its configuration", func() bool { return f.config == held })
	a.stop()
	again := run(t, Config{Name: "agent-1", Coordinators: []string{two.address}, SnapshotDir: dir})
	again.eventually("is led again", func(s Status) bool { return s.ConfigRevision == 3 && !s.SharesStale })
	var want resource.Digest
	for _, r := range pools(3, true, 100).GetResources() {
		want = want.Replace(nil, r)
	}
	two.eventually(t, "was told twice what the agent holds", func() bool {
		return len(two.hellos) >= 2 && !slices.ContainsFunc(two.hellos, func(h *controlv1.Hello) bool {
			return h.GetDigest() != uint64(want)
		})
	})
	two.eventually(t, "heard no refusal", func() bool {
		return !slices.ContainsFunc(two.acks, func(a *controlv1.Ack) bool { return a.GetError() != "" })
	})
	if one.hellos[0].GetDigest() != 0 {
		t.Error("an agent without a configuration says that it has one")
	}
}
