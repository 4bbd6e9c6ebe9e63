package main

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"sync"
	"time"

	"github.com/titrate/titrate/e2e/bench/rig"
	"github.com/titrate/titrate/lab/judge"
)

// usage is the use of all agents so far.
type usage struct {
	at          time.Time
	coordinator time.Duration
	harness     time.Duration // this process
	busy        time.Duration // all processors of the machine, by all processes
	agents      map[*member]agentUsage
}

// agentUsage is the use of one agent so far.
type agentUsage struct {
	pid     int
	cpu     time.Duration
	memory  int64 // bytes, now
	metrics metrics
	link    int64 // bytes to the gateway and from it
}

// metrics of an agent, by name and direction or kind.
type metrics map[string]float64

// The metrics that are read. Agents that do not count records lack the records metric.
const (
	bytesOut   = "titrate_agent_gossip_bytes_total out"
	bytesIn    = "titrate_agent_gossip_bytes_total in"
	packetsOut = "titrate_agent_gossip_packets_total out"
	packetsIn  = "titrate_agent_gossip_packets_total in"
	records    = "titrate_agent_gossip_records_total"
	refused    = "titrate_agent_claims_refused_total"
	conflicts  = "titrate_agent_conflicts_total"
	delay      = "titrate_agent_gossip_delay_seconds"
	peers      = "titrate_agent_peers"
	tokenKeys  = "titrate_agent_tokens_keys"
	asked      = "titrate_agent_tokens_asked_total"
	granted    = "titrate_agent_tokens_messages_total grant"
	recalled   = "titrate_agent_tokens_messages_total recall"
	reachable  = "titrate_agent_site_reachable" // other sites
	siteKeys   = "titrate_agent_site_keys"
	waiting    = "titrate_agent_site_waiting"
)

var (
	sample = regexp.MustCompile(`(?m)^(titrate_agent_\w+)(?:\{(.*)\})? (\S+)$`)
	kind   = regexp.MustCompile(`(?:direction|kind)="(\w+)"`)
)

// parseMetrics reads a page of Prometheus' text format. Samples that differ in other labels
// than the direction and the kind are added up.
func parseMetrics(page string) (metrics, error) {
	m := metrics{}
	for _, s := range sample.FindAllStringSubmatch(page, -1) {
		v, err := strconv.ParseFloat(s[3], 64)
		if err != nil {
			return nil, fmt.Errorf("metric %s: %w", s[1], err)
		}
		name := s[1]
		if d := kind.FindStringSubmatch(s[2]); d != nil {
			name += " " + d[1]
		}
		m[name] += v
	}
	if _, ok := m[bytesOut]; !ok {
		return nil, fmt.Errorf("the agent has no metric %s", bytesOut)
	}
	return m, nil
}

// usage reads the use of all running agents.
func (f *fleet) usage(ctx context.Context) (u usage, err error) {
	u = usage{at: time.Now(), agents: map[*member]agentUsage{}}
	if u.coordinator, err = (rig.CPU{f.in.Coordinators[0].Process()}).Of(); err != nil {
		return u, err
	}
	if u.harness, err = rig.OwnCPU(); err != nil {
		return u, err
	}
	if u.busy, err = rig.Busy(); err != nil {
		return u, err
	}
	var mu sync.Mutex
	return u, each(f.running(false), func(m *member) error {
		a, err := f.agentUsage(ctx, m)
		if err != nil {
			return fmt.Errorf("%s: %w", m.name, err)
		}
		mu.Lock()
		defer mu.Unlock()
		u.agents[m] = a
		return nil
	})
}

func (f *fleet) agentUsage(ctx context.Context, m *member) (a agentUsage, err error) {
	a.pid = m.agent.Process().PID()
	if a.cpu, err = (rig.CPU{m.agent.Process()}).Of(); err != nil {
		return a, err
	}
	if a.memory, err = rig.AnonymousBytes(m.agent.Process()); err != nil {
		return a, err
	}
	page, err := f.page(ctx, m)
	if err != nil {
		return a, err
	}
	if m.filter != nil {
		t := m.filter.Traffic()
		a.link = t.In + t.Out
	}
	a.metrics, err = parseMetrics(page)
	return a, err
}

// page fetches an agent's metrics. On a machine that is busy an answer may take longer than
// one try.
func (f *fleet) page(ctx context.Context, m *member) (page string, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, f.o.within, fmt.Errorf("%w %v", errLate, f.o.within))
	defer cancel()
	err = m.agent.Process().Ready(ctx, func(ctx context.Context) (err error) {
		page, err = f.rig.Get(ctx, m.url("/metrics"))
		return err
	})
	return page, err
}

// spent returns the use of agents between two looks, for agents that ran at both.
func (f *fleet) spent(before, after usage) (u Use) {
	seconds := after.at.Sub(before.at).Seconds()
	var list figures
	for m, now := range after.agents {
		then, ok := before.agents[m]
		if !ok || then.pid != now.pid {
			continue
		}
		per := func(name string) float64 { return (now.metrics[name] - then.metrics[name]) / seconds }
		list.add("cpu", (now.cpu-then.cpu).Seconds()/seconds)
		list.add("out", per(bytesOut))
		list.add("in", per(bytesIn))
		list.add("packets out", per(packetsOut))
		list.add("packets in", per(packetsIn))
		list.add("records", per(records))
		list.add("memory", float64(now.memory))
		if m.filter != nil {
			list.add("link", float64(now.link-then.link)/seconds)
		}
	}
	return Use{CPU: list.figure("cpu"), BytesOut: list.figure("out"), BytesIn: list.figure("in"),
		PacketsOut: list.figure("packets out"), PacketsIn: list.figure("packets in"),
		RecordsOut: list.figure("records"), Link: list.figure("link"), Memory: list.figure("memory")}
}

// figures are values by name.
type figures map[string][]float64

func (f *figures) add(name string, v float64) {
	if *f == nil {
		*f = figures{}
	}
	(*f)[name] = append((*f)[name], v)
}

// figure is the mean of all agents and the most of one.
func (f figures) figure(name string) (out Figure) {
	for _, v := range f[name] {
		out.Mean += v / float64(len(f[name]))
	}
	out.Most = judge.Quantile(f[name], 1)
	return out
}
