package simulate

import (
	"testing"
	"time"

	"github.com/titrate/titrate/lab/simulate/scenario"
	quotav1 "github.com/titrate/titrate/proto/titrate/quota/v1alpha1"
	"github.com/titrate/titrate/services/store/resource"
)

// One of three agents is cut off, so each side of a limit with precision EXACT has an owner and a bucket. Half
// a second after the cut has ended there is one owner again, and one bucket: no gateway still uses the bucket
// of the owner before.
func TestExactAfterACut(t *testing.T) {
	t.Parallel()
	const rate, burst, cut = 100, 100, 20 * time.Second
	for _, lone := range []string{"gw-1", "gw-2", "gw-3"} {
		s := scenario.New(45*time.Second, 3)
		s.Gossip.Delay, s.Lead = 250*time.Microsecond, 5*time.Second
		s.Resources = []resource.Message{&quotav1.Tenant{Name: "tenants/acme"},
			&quotav1.Limit{Name: "tenants/acme/limits/each", Rate: "100/s", Burst: burst,
				Precision: quotav1.Precision_EXACT}}
		s.Clients = []scenario.Client{{Name: "app", Tenant: "acme", Cost: 1, Demand: scenario.Poisson(3 * rate)}}
		s.Events = []scenario.Event{
			{At: 5 * time.Second, Kind: scenario.Partition, Groups: [][]string{{lone}}},
			{At: 5*time.Second + cut, Kind: scenario.Heal}}
		r, err := Run(t.Context(), s, Options{})
		if err != nil {
			t.Fatal(err)
		}
		if k := r.Systems[0].Keys[0]; k.WorstExcess > rate*(cut+time.Second).Seconds()+burst {
			t.Errorf("%s cut off: %.0f over rate·t + burst", lone, k.WorstExcess)
		}
	}
}
