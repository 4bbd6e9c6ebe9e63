// Package instructions counts the instructions that a request takes in Envoy, with callgrind. The count does
// not depend on the machine's other work, so it shows small differences that CPU time on a shared machine
// hides.
//
// # Method
//
// One Envoy per variant, one worker, under `valgrind --tool=callgrind --separate-threads=yes`. It starts
// uncounted; a warm-up initialises its lazy parts and spends the bursts. Then the counters are set to 0, a
// closed load of one connection sends requests (wrk, 1000 clients in turn, or one) and the counts are dumped. The
// figure is the instructions of the worker's thread, the thread with the highest count, over the requests
// answered.
//
// # What it does not count
//
// Other threads, which work by the clock and not by the request (Go's monitor thread, the ticker, Envoy's main
// thread): valgrind makes requests some fifty times slower. So these threads would count fifty times as much
// per request. The kernel is not counted either. And the count is not time: a cache miss counts as much as an
// addition. Package cpu includes all of these.
//
// Go's asynchronous preemption is switched off in the filter (GODEBUG), because callgrind 3.19 fails on signals
// of a thread with an unknown stack. A decision is far too short to be preempted.
//
// `perf stat` would count the same without slowing anything down, but many virtual machines do not allow it.
package instructions

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/titrate/titrate/e2e/bench/rig"
	"github.com/titrate/titrate/papers/markdown"
)

const documents = `
{apiVersion: titrate.dev/v1alpha1, kind: Pool, name: pools/api, spec: {capacity: 10000000}}
---
{apiVersion: titrate.dev/v1alpha1, kind: Tenant, name: tenants/admit, spec: {weight: 1}}
---
{apiVersion: titrate.dev/v1alpha1, kind: Limit, name: tenants/admit/limits/each, spec: {rate: 100000/s, burst: 100000}}
---
{apiVersion: titrate.dev/v1alpha1, kind: Tenant, name: tenants/reject, spec: {weight: 1}}
---
{apiVersion: titrate.dev/v1alpha1, kind: Limit, name: tenants/reject/limits/each, spec: {rate: 1/h, burst: 1}}
---
{apiVersion: titrate.dev/v1alpha1, kind: Tenant, name: tenants/local, spec: {weight: 1}}
---
{apiVersion: titrate.dev/v1alpha1, kind: Limit, name: tenants/local/limits/each, spec: {rate: 100000/s, burst: 100000,
  precision: LOCAL}}
---
{apiVersion: titrate.dev/v1alpha1, kind: Tenant, name: tenants/exact, spec: {weight: 1}}
---
{apiVersion: titrate.dev/v1alpha1, kind: Limit, name: tenants/exact/limits/each, spec: {rate: 100000/s, burst: 100000,
  precision: EXACT}}
---
{apiVersion: titrate.dev/v1alpha1, kind: Tenant, name: tenants/flights, spec: {weight: 1}}
---
{apiVersion: titrate.dev/v1alpha1, kind: Limit, name: tenants/flights/limits/each, spec: {concurrency: 1000}}
`

// A refusal's options other than the defaults.
const (
	indent      = "\n                          "
	filterState = indent + "access_log_to: FILTER_STATE" + indent + "access_log_key: 0123456789abcdef"
	once        = filterState + indent + "rate_limit_policy: false" + indent + `reason_header: ""` + indent +
		`request_id_header: ""`
	bare = indent + "access_log: 'OFF'" + indent + "rate_limit_headers: 'OFF'" + indent + `reason_header: ""` +
		indent + `request_id_header: ""` + indent + "reject_body: NONE"
)

// Count is a variant's figure.
type Count struct {
	Variant    string  `json:"variant"`
	PerRequest float64 `json:"instructionsPerRequest"`
	Requests   float64 `json:"requests"`
}

// variant is an Envoy and the tenant that is asked for.
type variant struct {
	name, tenant string
	clients      int
	spec         rig.Spec
}

// variants are all, the base first.
func variants() []variant {
	limits := []rig.Limit{{Tenant: "admit", Rate: 1_000_000}}
	ours := rig.Spec{Filter: rig.Titrate}
	return []variant{
		{"no filter", "admit", 1000, rig.Spec{Filter: rig.Plain}},
		{"local_ratelimit", "admit", 1000, rig.Spec{Filter: rig.Local}},
		{"local_ratelimit, dynamic", "admit", 1000, rig.Spec{Filter: rig.Dynamic, Limits: limits}},
		{"titrate, admit", "admit", 1000, ours},
		{"titrate, admit one client, LOCAL", "local", 1, ours},
		{"titrate, admit one client, EXACT", "exact", 1, ours},
		{"titrate, admit one client, concurrency", "flights", 1, ours},
		{"titrate, reject", "reject", 1000, ours},
		{"titrate, reject, log in filter state", "reject", 1000, rig.Spec{Filter: rig.Titrate, Also: filterState}},
		{"titrate, reject, and nothing said twice", "reject", 1000, rig.Spec{Filter: rig.Titrate, Also: once}},
		{"titrate, reject, bare", "reject", 1000, rig.Spec{Filter: rig.Titrate, Also: bare}},
	}
}

// Run counts and returns the table. Without valgrind the table has a note.
func Run(ctx context.Context, r *rig.Rig, d time.Duration) ([]Count, []markdown.Section, error) {
	valgrind, err := exec.LookPath("valgrind")
	if err != nil {
		return nil, []markdown.Section{{Title: "Instructions per request",
			Notes: []string{"Not counted: no valgrind here (Debian package valgrind)."}}}, nil
	}
	in, err := r.Installation(ctx, "callgrind", documents)
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = in.Stop() }() // the rig kills processes that do not end
	var counts []Count
	for _, v := range variants() {
		if len(counts) > 0 && !r.Wants(v.name) { // the first is the base
			continue
		}
		v.spec.Name = fmt.Sprintf("callgrind-%d", len(counts))
		c, err := count(ctx, r, in, valgrind, v.spec, rig.Closed{Tenant: v.tenant, Keys: v.clients, Connections: 1,
			Duration: d})
		if err != nil {
			return nil, nil, fmt.Errorf("%s: %w", v.name, err)
		}
		c.Variant = v.name
		counts = append(counts, c)
		r.Say("instructions: %-38s %8.0f per request", c.Variant, c.PerRequest)
	}
	return counts, []markdown.Section{tabulate(counts)}, nil
}

func tabulate(counts []Count) markdown.Section {
	t := markdown.Section{Title: "Instructions per request, Envoy's worker",
		Head:  []string{"variant", "instructions", "over no filter"},
		Notes: []string{"callgrind; the worker's thread only (kernel and background threads are not in it)."}}
	for _, c := range counts {
		t.Add(c.Variant, fmt.Sprintf("%.0f", c.PerRequest),
			fmt.Sprintf("%+.1f %%", 100*(c.PerRequest/counts[0].PerRequest-1)))
	}
	return t
}

// count measures one variant.
func count(ctx context.Context, r *rig.Rig, in *rig.Installation, valgrind string, s rig.Spec,
	load rig.Closed) (Count, error) {
	out := r.File(s.Name + ".out")
	s.Wrap = []string{valgrind, "--tool=callgrind", "--separate-threads=yes", "--instr-atstart=no",
		"--callgrind-out-file=" + out}
	s.Env = []string{"GODEBUG=asyncpreemptoff=1"}
	e, err := start(ctx, r, in, s)
	if err != nil {
		return Count{}, err
	}
	defer e.Kill() // all of its output has been read
	if err := control(ctx, e, "--instr=on"); err != nil {
		return Count{}, err
	}
	if err := warmUp(ctx, r, e, load); err != nil {
		return Count{}, err
	}
	if err := control(ctx, e, "--zero"); err != nil {
		return Count{}, err
	}
	a, err := r.Wrk(ctx, e.URL(), load)
	if err != nil {
		return Count{}, err
	}
	if err := control(ctx, e, "--dump"); err != nil {
		return Count{}, err
	}
	if a.Refused != 0 && a.Refused != a.Count {
		return Count{}, fmt.Errorf("%.0f of %.0f requests were refused: the figure would be of a mixture", a.Refused,
			a.Count)
	}
	worker, err := busiest(out + ".1-*")
	return Count{PerRequest: worker / a.Count, Requests: a.Count}, err
}

// warmUp sends requests until each client has sent two, so that clients with a burst of one have spent it and
// the answers that they waited for have come. A slow machine takes longer.
func warmUp(ctx context.Context, r *rig.Rig, e *rig.Envoy, load rig.Closed) error {
	for asked := 0.0; asked < float64(2*load.Keys); {
		a, err := r.Wrk(ctx, e.URL(), load)
		if err != nil {
			return err
		}
		if a.Count == 0 {
			return fmt.Errorf("%s answers nothing", e.Name)
		}
		asked += a.Count
	}
	return nil
}

func start(ctx context.Context, r *rig.Rig, in *rig.Installation, s rig.Spec) (*rig.Envoy, error) {
	if s.Filter != rig.Titrate {
		return r.Envoy(ctx, s)
	}
	g, err := in.Join(ctx, s)
	if err != nil {
		return nil, err
	}
	return g.Proxy, nil
}

// control has callgrind do something.
func control(ctx context.Context, e *rig.Envoy, what string) error {
	out, err := exec.CommandContext(ctx, "callgrind_control", what, strconv.Itoa(e.Process().PID())).CombinedOutput()
	if err != nil || !strings.Contains(string(out), "OK.") {
		return fmt.Errorf("callgrind_control %s: %w: %s", what, err, out)
	}
	return nil
}

// busiest is the largest total among the dumps of the threads.
func busiest(pattern string) (most float64, err error) {
	dumps, err := filepath.Glob(pattern)
	if err != nil {
		return 0, err
	}
	for _, dump := range dumps {
		n, err := total(dump)
		if err != nil {
			return 0, err
		}
		most = max(most, n)
	}
	if most == 0 {
		return 0, fmt.Errorf("no dump of callgrind counted anything: %s", pattern)
	}
	return most, nil
}

func total(dump string) (float64, error) {
	f, err := os.Open(dump)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	in := bufio.NewScanner(f)
	in.Buffer(nil, 1<<20)
	for in.Scan() {
		if text, ok := strings.CutPrefix(in.Text(), "totals: "); ok {
			return strconv.ParseFloat(text, 64)
		}
	}
	return 0, in.Err()
}
