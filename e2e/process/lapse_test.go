package process

import (
	"testing"

	"github.com/titrate/titrate/e2e/guide"
)

// A block ends in time at a gateway whose agent and coordinator are gone: the filter lets it lapse by itself. An agent
// that comes back without a coordinator, from its snapshot, does not bring it back.
func TestABlockEndsByItself(t *testing.T) {
	b := need(t)
	t.Parallel()
	said := guide.Run(t, b.clone(t, map[string]string{"envoy": b.envoy}), script(t, tryIt, "To try it")+`
titrate block acme --client mallory --for 15s
titrate block acme --client eve --for 1h
until requests 1 -H 'x-client: mallory' / | grep -q 429; do sleep 0.1; done
sleep 2 # the agent has written its snapshot
pids=($(jobs -p))
kill -9 ${pids[1]} ${pids[2]}
echo cut off: $(requests 1 -H 'x-client: mallory' /)
until requests 1 -H 'x-client: mallory' / | grep -q 200; do sleep 0.1; done
echo lapsed, eve: $(requests 1 -H 'x-client: eve' /)
titrate agent --coordinator 127.0.0.1:7400 --socket $PWD/agent.sock --snapshot-dir $PWD >again.log 2>&1 &
until grep -q "gateway connected" again.log; do sleep 0.1; done
sleep 1
echo a new agent, mallory: $(requests 1 -H 'x-client: mallory' /), eve: $(requests 1 -H 'x-client: eve' /)
`)
	contains(t, said, "cut off: 1 429", "lapsed, eve: 1 429", "a new agent, mallory: 1 200, eve: 1 429")
}
