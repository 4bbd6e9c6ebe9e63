package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/titrate/titrate/e2e/bench/rig"
	"github.com/titrate/titrate/lab/simulate/measure"
)

// Result is the outcome of a run.
type Result struct {
	Pass    bool     `json:"pass"`
	Agents  int      `json:"agents"` // at the beginning
	Envoys  int      `json:"envoys"`
	Keys    int      `json:"keys"`
	Users   int      `json:"users"`           // of a key; 0: all synthetic gateways
	Rate    float64  `json:"rate"`            // requests/s of a key
	Exact   bool     `json:"exact"`           // The keys belong to an EXACT limit, Keys of them at each gateway
	Sites   int      `json:"sites,omitempty"` // of the agents; 0: one. Keys are clients at all sites
	Start   float64  `json:"startSeconds"`
	Seconds float64  `json:"seconds"`
	Phases  []Phase  `json:"phases"`
	Traffic *Traffic `json:"traffic,omitempty"`
	Checks  []Check  `json:"checks"`
	// Void is the reason why the run proves nothing: the machine is too slow for so many agents.
	Void string `json:"void,omitempty"`
	// Reconnects is the number of links of synthetic gateways that failed and were opened again.
	Reconnects int `json:"reconnects"`
	// Simulated is the traffic of an agent in the same fleet on virtual time.
	Simulated *measure.Gossip `json:"simulated,omitempty"`
}

// Phase are the measurements from an event to the next one.
type Phase struct {
	Name    string  `json:"name"`
	Agents  int     `json:"agents"`  // that run at the end
	Present int     `json:"present"` // synthetic gateways that receive each other's claims
	Seconds float64 `json:"seconds"`

	Claims       float64 `json:"claimsSeconds"`  // from the event until all sums are right
	Members      float64 `json:"membersSeconds"` // until all count the same members
	Split        float64 `json:"splitSeconds"`   // until the cut-off gateways know it
	Bound        float64 `json:"boundSeconds"`   // of Claims and Split
	BoundMembers float64 `json:"boundMembersSeconds"`
	Wrong        string  `json:"wrong,omitempty"` // sum, when the time was over

	CountOff   float64 `json:"countOff"` // requests that a count is wrong by, at least
	CountWhere string  `json:"countWhere,omitempty"`
	CountLag   float64 `json:"countLagSeconds"` // δ that counts were judged with, the longest
	CountsSeen float64 `json:"countsSeen"`      // part of the counts that could not have stood still unnoticed
	ShareOff   float64 `json:"shareOff"`        // |sum of the shares/capacity − 1|, the worst
	Late       float64 `json:"lateSeconds"`     // that claims or sums came late over a link, the most
	Reconnects int     `json:"reconnects"`      // links that ended by themselves and came back

	Tokens *Tokens    `json:"tokens,omitempty"` // of EXACT keys
	Sites  *SitePhase `json:"sites,omitempty"`  // of several sites

	Use         Use     `json:"perAgent"`
	Coordinator float64 `json:"coordinatorCores"`
	Harness     float64 `json:"harnessCores"` // of this process
	Busy        float64 `json:"busyCores"`    // of the machine, by all processes
}

// Use is the use of an agent.
type Use struct {
	CPU        Figure `json:"cores"`
	BytesOut   Figure `json:"bytesOutPerSecond"` // gossip, without headers of IP and UDP
	BytesIn    Figure `json:"bytesInPerSecond"`
	PacketsOut Figure `json:"packetsOutPerSecond"`
	PacketsIn  Figure `json:"packetsInPerSecond"`
	RecordsOut Figure `json:"recordsOutPerSecond"` // 0 from agents that do not count them
	Link       Figure `json:"linkBytesPerSecond"`  // both directions
	Memory     Figure `json:"memoryBytes"`         // that no file backs, at the end
}

// Figure is one of all agents.
type Figure struct {
	Mean float64 `json:"mean"`
	Most float64 `json:"most"`
}

// Check is a figure and its bound.
type Check struct {
	Name   string  `json:"name"`
	Phase  string  `json:"phase,omitempty"`
	Figure float64 `json:"figure"`
	Most   float64 `json:"most"`
	Unit   string  `json:"unit"`
	Pass   bool    `json:"pass"`
	Why    string  `json:"why,omitempty"` // it did not pass
}

// Bounds that are no options.
const (
	// mostCountOff forgives rounding: counts are whole.
	mostCountOff = .01
	// mostShareOff is the part by which a share may change before it is sent to agents.
	mostShareOff = .02
	// leastFull is the part of the processors' time from which on a run is void that is not over in time, or that uses
	// it while nothing happens.
	leastFull = .9
	// leastSeen is the part of the counts whose movement a run must be able to check; a run below it is void.
	leastSeen = .5
)

var (
	errTimeout = errors.New("not within -timeout")
	// errLate is an agent or a gateway that does not answer in time.
	errLate = errors.New("not within")
)

// run starts a fleet, goes through its phases and judges.
func run(ctx context.Context, o options) (r *Result, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, o.timeout, fmt.Errorf("%w %v", errTimeout, o.timeout))
	defer cancel()
	began := time.Now()
	busy, err := rig.Busy()
	if err != nil {
		return nil, err
	}
	r = &Result{Agents: o.agents, Envoys: o.envoys, Keys: o.keys, Users: o.users, Rate: o.rate,
		Exact: o.exact}
	if o.sites > 1 {
		r.Sites, r.Users = o.sites, o.sites
	}
	f, err := newFleet(ctx, o)
	if err != nil {
		return r.late(err, time.Since(began), busy)
	}
	defer func() {
		if end := f.close(); err == nil {
			err = end
		}
	}()
	if err := f.begun(ctx); err != nil {
		return r.late(err, time.Since(began), busy)
	}
	r.Start = time.Since(began).Seconds()
	f.rig.Say("%s: up, and %s after %.1f s", r.what(), r.ready(), r.Start)
	if err := f.playAll(ctx, r); err != nil {
		return r.late(err, time.Since(began), busy)
	}
	if err := f.finish(ctx, r); err != nil {
		return nil, err
	}
	r.Seconds = time.Since(began).Seconds()
	return r, nil
}

// late returns the result of a run that was not over in time: void if the machine's processors were full since it
// began, when all processes together had used before.
func (r *Result) late(err error, took, before time.Duration) (*Result, error) {
	if !errors.Is(err, errTimeout) && !errors.Is(err, errLate) {
		return nil, err
	}
	now, failed := rig.Busy()
	if failed != nil {
		return nil, errors.Join(err, failed)
	}
	first, _, _ := strings.Cut(err.Error(), "\n") // each agent has one, with its log
	if r.voidIfFull((now-before).Seconds()/took.Seconds(), first); r.Void != "" {
		r.Void += ", or a longer -timeout"
		return r, nil
	}
	return nil, err
}

// voidIfFull makes a run void in which all processes together used so many cores.
func (r *Result) voidIfFull(cores float64, when string) {
	n := runtime.NumCPU()
	if full := cores / float64(n); full >= leastFull {
		r.Void = fmt.Sprintf("the machine is too slow: its %d processors were %.0f %% busy (%s); try fewer -n or -keys",
			n, 100*full, when)
	}
}

// begun waits until all agents have found each other.
func (f *fleet) begun(ctx context.Context) error {
	switch {
	case f.o.sites > 1:
		return f.beginSites(ctx)
	case f.o.exact:
		return f.registered(ctx)
	}
	return f.agree(ctx, time.Now(), &Phase{Name: "start", Bound: f.o.timeout.Seconds(),
		BoundMembers: f.o.timeout.Seconds()})
}

// playAll goes through the phases that are asked for.
func (f *fleet) playAll(ctx context.Context, r *Result) error {
	play := f.play
	switch {
	case f.o.sites > 1:
		play = f.playSites
	case f.o.exact:
		play = f.playExact
	}
	for _, p := range f.o.kind() {
		if !slices.Contains(f.o.phases, p.name) {
			continue
		}
		played, err := play(ctx, p)
		if err != nil {
			return err
		}
		r.Phases = append(r.Phases, played)
		if t := played.Tokens; t != nil {
			f.rig.Say("%-14s %3d agents, which agree after %.2f s; %.2f messages per key, %d links lost, %.2f %% "+
				"decided by owners, %d refused", p.name, played.Agents, t.Agreed, t.PerKey, t.Lost, 100*t.Decided,
				t.Refused)
			continue
		}
		if s := played.Sites; s != nil {
			f.rig.Say("%-9s %3d agents, which agree after %.2f s; %s/s from one site to another, %.2f %% decided by "+
				"owners",
				p.name, played.Agents, s.Agreed, amount(s.Pair.Most), 100*s.Decided)
			continue
		}
		f.rig.Say("%-9s %3d agents, sums right after %.2f s, members after %.1f s; per agent %.3f cores, %s/s out",
			p.name, played.Agents, played.Claims, played.Members, played.Use.CPU.Mean, amount(played.Use.BytesOut.Mean))
	}
	return nil
}

// finish ends the traffic, and judges all.
func (f *fleet) finish(ctx context.Context, r *Result) error {
	u, err := f.usage(ctx)
	if err != nil {
		return err
	}
	var broken, slowest float64
	for m, a := range u.agents {
		broken += a.metrics[refused] + a.metrics[conflicts]
		if m.envoy != nil {
			slowest = max(slowest, a.metrics[delay])
		}
	}
	for i := range r.Phases {
		switch p := &r.Phases[i]; {
		case r.Sites > 1:
			r.judgeSites(p)
		case r.Exact:
			r.judgeExact(p)
		default:
			r.judgePhase(p)
		}
	}
	r.Reconnects = f.reconnects()
	r.atMost("claims refused, or in conflict", "", broken, 0, "records", "")
	if f.traffic != nil {
		r.Traffic = f.traffic.judge(time.Duration(slowest * float64(time.Second)))
		r.judgeTraffic()
	}
	r.Pass = r.Void == "" && !r.failed()
	return nil
}

// failed reports whether a check did not pass.
func (r *Result) failed() bool {
	return slices.ContainsFunc(r.Checks, func(c Check) bool { return !c.Pass })
}

func (r *Result) judgePhase(p *Phase) {
	r.atMost("all sums of claims are right", p.Name, p.Claims, p.Bound, "s", p.Wrong)
	r.atMost("all members are known", p.Name, p.Members, p.BoundMembers, "s", "some gateways count others")
	if p.Name == "partition" {
		r.atMost("agents that are cut off know it", p.Name, p.Split, p.Bound, "s", "some do not know it")
	}
	r.atMost(fmt.Sprintf("a count is wrong by, with δ up to %.2f s", p.CountLag), p.Name, p.CountOff, mostCountOff,
		"requests", p.CountWhere)
	if p.CountsSeen < leastSeen && r.Void == "" {
		r.Void = fmt.Sprintf("the machine is too slow for %d agents: in the phase %s claims and sums were up to %.1f "+
			"s late, so that %.0f %% of the counts could have stood still unnoticed; try -n %d", r.Agents, p.Name,
			p.Late, 100*(1-p.CountsSeen), r.fitting(p))
	}
	r.atMost("the sum of the shares is off by", p.Name, 100*p.ShareOff, 100*mostShareOff, "%", "")
}

// fitting returns the number of agents that the machine has time for, estimated from a phase. With this number,
// the fleet uses half of the processor time that other processes leave, and it is at most half of the present
// number.
func (r *Result) fitting(p *Phase) int {
	used := p.Use.CPU.Mean*float64(p.Agents) + p.Harness + p.Coordinator
	free := float64(runtime.NumCPU()) - max(0, p.Busy-used)
	return max(r.Envoys+2, int(math.Round(float64(r.Agents)/2*min(1, max(0, free)/used))))
}

func (r *Result) judgeTraffic() {
	t := r.Traffic
	r.atMost("a client above its limit, over rate·t + burst", "", t.Excess, t.Slack, "requests", "")
	r.atMost("a client below its limit, refused wrongly", "", float64(t.Below), 0, "requests", "")
	r.atMost("requests that failed", "", float64(t.Failed), 0, "requests", t.First)
	r.atMost("requests that are missing", "", max(0, 1-float64(t.Sent)), 0, "requests", "none was sent")
}

func (r *Result) atMost(name, phase string, figure, most float64, unit, why string) {
	c := Check{Name: name, Phase: phase, Figure: figure, Most: most, Unit: unit, Pass: figure <= most}
	if !c.Pass {
		c.Why = why
	}
	r.Checks = append(r.Checks, c)
}
