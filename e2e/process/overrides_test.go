package process

import (
	"testing"

	"github.com/titrate/titrate/e2e/guide"
)

// Overrides that are resources hold at a gateway, of a rate and of a concurrency; they come, change, lapse and go
// one by one. An agent that comes back without a coordinator still has them.
func TestOverridesAreInForce(t *testing.T) {
	b := need(t)
	t.Parallel()
	said := guide.Run(t, b.clone(t, map[string]string{"envoy": b.envoy}), script(t, tryIt, "To try it")+`
titrate apply -f - >applied.log <<YAML
{apiVersion: titrate.dev/v1alpha1, kind: Limit, name: tenants/acme/limits/each, spec: {rate: 1000/h}}
---
{apiVersion: titrate.dev/v1alpha1, kind: Limit, name: tenants/acme/limits/flight, spec: {concurrency: 1000}}
---
{apiVersion: titrate.dev/v1alpha1, kind: Override, name: tenants/acme/limits/each/overrides/few, spec: {rate: 4/h}}
---
{apiVersion: titrate.dev/v1alpha1, kind: Override, name: tenants/acme/limits/each/overrides/soon, spec: {rate: 0, until: "$(date -u -d '12 seconds' +%FT%TZ)"}}
---
{apiVersion: titrate.dev/v1alpha1, kind: Override, name: tenants/acme/limits/each/overrides/a%2Fb, spec: {rate: 3/h}}
---
{apiVersion: titrate.dev/v1alpha1, kind: Override, name: tenants/acme/limits/flight/overrides/one, spec: {concurrency: 1}}
YAML
until titrate get overrides | grep -c ' 1/1' | grep -q 4; do sleep 0.1; done
until requests 1 -H 'x-client: warm' / | grep -q 200; do sleep 0.1; done # slots begin 3.5 s after their agent
echo soon: $(requests 2 -H 'x-client: soon' /)
echo few: $(requests 6 -H 'x-client: few' /)
echo a/b: $(requests 5 -H 'x-client: a/b' /)
for i in $(seq 20); do curl -so /dev/null -w '%{http_code}\n' -H 'x-tenant: acme' -H 'x-client: one' http://127.0.0.1:10000/ & done >one.log
sleep 2
grep -q 429 one.log && echo one at a time
until requests 1 -H 'x-client: eve' / | grep -q 200; do sleep 0.1; done
titrate block acme --client eve --limit each >/dev/null
until requests 1 -H 'x-client: eve' / | grep -q 429; do sleep 0.05; done
titrate delete tenants/acme/limits/each/overrides/few
until requests 1 -H 'x-client: few' / | grep -q 200; do sleep 0.1; done
until requests 1 -H 'x-client: soon' / | grep -q 200; do sleep 0.1; done
sleep 2 # the agent has written its snapshot
pids=($(jobs -p))
kill -9 ${pids[1]} ${pids[2]}
wait ${pids[2]} || true
titrate agent --coordinator 127.0.0.1:7400 --socket $PWD/agent.sock --snapshot-dir $PWD >again.log 2>&1 &
until grep -q "gateway connected" again.log; do sleep 0.1; done
sleep 1
echo a new agent, eve: $(requests 1 -H 'x-client: eve' /)
`)
	contains(t, said, "soon: 2 429", "few: 4 200 2 429", "a/b: 3 200 2 429",
		"tenants/acme/limits/each/overrides/few deleted", "one at a time", "a new agent, eve: 1 429")
}
