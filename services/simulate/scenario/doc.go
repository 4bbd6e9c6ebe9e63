// Package scenario describes what `titrate simulate` plays: gateways and the
// network between them, pools, tenants with limits, clients with a demand over
// time, and what goes wrong when.
//
// # Model
//
// A [Scenario] is data: built in code, or read from YAML or JSON by package read.
// Times are counted from its start. A client has a demand, a rate over time that
// is turned into arrivals evenly or as a Poisson process, and a route, the rule by
// which each of its requests finds a gateway. Gateways that are down get nothing:
// a pinned client goes to the next one in the list, as behind a load balancer.
//
// # Format
//
//	duration: 60s                       # required; at most 24h
//	warmup: 5s                          # left out of means; default a tenth
//	lead: 2s                            # quiet time before 0, default 2s; 0s = cold start
//	seed: 1
//	replicas: 3                         # gw-1 … gw-3; or [{name: eu, weight: 2}, …]
//	gossip: {period: 50ms, delay: 20ms, jitter: 5ms, loss: 0.01}
//	coordinator: {round: 250ms, delay: 5ms}
//	pools:
//	  - {name: api, capacity: 300, sharing: MAX_MIN, queue: {aqm: VARIABLE_STRUCTURE}}
//	tenants:
//	  - name: acme
//	    weight: 1
//	    quotas: [{pool: api, guaranteed: 10, max: 200}]
//	    limits: [{name: per-client, rate: 100/s, burst: 100, strict: false}]
//	clients:
//	  - {name: app, count: 5, tenant: acme, pool: api, demand: {poisson: 20/s}}
//	events:
//	  - {at: 20s, partition: [[gw-1], [gw-2, gw-3, coordinator]]}
//	  - {at: 40s, heal: true}
//
// demand is one of
//
//	{constant: 50/s} {poisson: 50/s}
//	{onOff: {rate: 50/s, on: 2s, off: 3s}}      {step: [{at: 0s, rate: 5/s}, …]}
//	{ramp: [{at: 5s, rate: 0/s}, {at: 20s, rate: 90/s}]}   {trace: requests.csv}
//
// with arrivals: EVEN (default) or POISSON for onOff, step and ramp. A trace has
// lines `t,client,cost`: seconds, a name, cost units (1 if absent); # begins a
// comment. route is one of {spread: {gw-1: 6, gw-2: 3}} (absent: none),
// {pinned: gw-1}, {moving: 5s} (to the next gateway that often), {roundRobin: true};
// without it requests go to all gateways evenly, at random. An event is one of
// partition, heal, join, leave, crash, restart, coordinator (LOST or BACK), limit
// ({tenant, name, rate, burst}) and pool ({name, capacity}).
//
// # Invariant
//
//   - What [Scenario.Check] lets pass can be simulated.
package scenario
