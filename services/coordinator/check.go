package coordinator

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	controlv1 "github.com/titrate/titrate/proto/titrate/control/v1alpha1"
	quotav1 "github.com/titrate/titrate/proto/titrate/quota/v1alpha1"
	"github.com/titrate/titrate/services/coordinator/allocation"
	"github.com/titrate/titrate/services/coordinator/config"
	"github.com/titrate/titrate/services/coordinator/election"
	"github.com/titrate/titrate/services/coordinator/fleet"
	"github.com/titrate/titrate/services/coordinator/leadership"
	"github.com/titrate/titrate/services/quota"
	"github.com/titrate/titrate/services/store/resource"
	"github.com/titrate/titrate/services/wording"
)

// facts are the state from which check judges the health of an installation.
type facts struct {
	etcd     error // nil = the session lives
	files    error // what is wrong with TLS files
	expires  error // which of their certificates expire soon
	anyAgent bool  // agents show no certificate
	unknown  bool  // nor do others, and they send no token
	trouble  config.Trouble
	known    bool  // a configuration was read
	astray   error // what is stored is not followed any more
	config   *allocation.Config
	election election.State
	agents   int
	fleet    fleet.Summary
	lapsed   []string // resources of which something has lapsed, and what
	sites    []fleet.Site
	names    []string // in the first limit or pool with a name that gateways do not know
	view     leadership.View
	shared   []string                  // which coordinator leads how many pools
	alone    error                     // why the pools are not shared though they should be
	pools    *controlv1.FindingsAnswer // all that are known of
	silent   error                     // of the coordinators that share the pools, one does not answer
	late     []*quotav1.Gateway        // that have lacked a change for longer than lateAfter
	lost     []*quotav1.Gateway        // whose agents have been unreachable for as long
	now      time.Time
}

// lateAfter is the time that a gateway may lack a change before check names it. A change is in force everywhere within
// a second or two; shorter would name gateways that only just receive it.
const lateAfter = 10 * time.Second

// Findings judges this coordinator and, if it leads, the gateways and pools.
func (l *live) Findings(ctx context.Context) []*quotav1.Finding {
	o := l.coordinator
	f := facts{etcd: o.elector.Etcd(), files: o.config.Security.Trouble(), anyAgent: o.config.Security.CA == "",
		unknown: o.guard == nil,
		trouble: o.configuration.Trouble(), agents: len(o.streams.Agents()), fleet: o.fleet.Summary(o.streams.Agents()),
		view: l.view()}
	if f.files == nil {
		f.files = o.config.EtcdSecurity.Trouble()
	}
	if f.files == nil && o.guard != nil {
		f.files = o.guard.Trouble()
	}
	f.expires = cmp.Or(o.config.Security.Soon(), o.config.EtcdSecurity.Soon())
	f.astray = o.store.Following()
	f.config, f.known, _ = o.configuration.Allocation()
	f.election, _ = o.elector.State()
	f.alone = o.notShared()
	if f.election.Role != election.Following {
		l.askPools(ctx, &f)
		f.now = time.Now()
		f.late, f.lost = l.late(ctx, f.now)
		f.names = l.Unknown(1, func(resource.Message) bool { return true })
		f.lapsed = l.lapsed(f.now)
		f.sites = o.fleet.Sites(o.streams.Agents())
	}
	return f.findings()
}

// late returns the gateways that have lacked a change for longer than lateAfter, and those whose agents have been
// unreachable for as long.
func (l *live) late(ctx context.Context, now time.Time) (late, lost []*quotav1.Gateway) {
	revision, gateways, err := l.Gateways()
	if err != nil {
		return nil, nil
	}
	quota.Behind(ctx, l.coordinator.store, revision, gateways)
	for _, g := range gateways {
		heard, since := g.GetHeard(), g.GetBehindSince()
		switch {
		case heard != nil && now.Sub(heard.AsTime()) >= lateAfter:
			lost = append(lost, g)
		case heard == nil && g.GetRefused() == 0 && since != nil && now.Sub(since.AsTime()) >= lateAfter:
			late = append(late, g)
		}
	}
	return late, lost
}

// lapsed lists resources of which something has lapsed, each with what.
func (l *live) lapsed(now time.Time) (found []string) {
	if all, known := l.coordinator.configuration.Since(-1); known {
		for _, r := range all.Resources {
			if _, sentence := resource.Lapsed(resource.Unwrap(r), now); sentence != "" {
				found = append(found, resource.Name(r)+": "+sentence)
			}
		}
	}
	return found
}

// askPools finds out about all pools, those of others that share them too.
func (l *live) askPools(ctx context.Context, f *facts) {
	f.pools = l.ownPools()
	s := f.election.Sharing
	if s == nil {
		return
	}
	led := map[string]int32{l.coordinator.config.Name: f.pools.GetPools()}
	f.silent = l.coordinator.peers.each(ctx, s, &controlv1.AskRequest{
		Question: &controlv1.AskRequest_Findings{Findings: &controlv1.FindingsQuestion{}},
	}, func(one *election.Sharer, a *controlv1.AskResponse) {
		there := a.GetFindings()
		f.pools.Findings = append(f.pools.Findings, there.GetFindings()...)
		f.pools.Pools, f.pools.Full = f.pools.GetPools()+there.GetPools(), f.pools.GetFull()+there.GetFull()
		f.pools.Settling = f.pools.GetSettling() && there.GetSettling()
		led[one.Name] += there.GetPools()
	})
	for i := range s.Sharers {
		one := &s.Sharers[i]
		of := ""
		if s.Sites() {
			of = " of " + wording.Site(one.Site)
		}
		if n, known := led[one.Name]; known {
			f.shared = append(f.shared, fmt.Sprintf("%s%s leads %d", one.Name, of, n))
		}
	}
}

// ownPools returns the findings about the pools that are led here.
func (l *live) ownPools() *controlv1.FindingsAnswer {
	v := l.view()
	return poolFindings(&v)
}

func poolFindings(v *leadership.View) *controlv1.FindingsAnswer {
	out := &controlv1.FindingsAnswer{}
	if v.Outcome == nil {
		out.Settling = true
		return out
	}
	var beyond []string
	out.Pools = int32(len(v.Outcome.Pools))
	for _, p := range v.Outcome.Pools {
		if p.FairRate > 0 {
			out.Full++
		}
		if p.Infeasible || p.GuaranteeScale < 1 {
			beyond = append(beyond, p.Pool)
		}
	}
	if len(beyond) > 0 {
		out.Findings = append(out.Findings, doubtful("pools",
			"lower guarantees or raise capacities: titrate get quotas", "guarantees exceed the capacity of %s",
			strings.Join(beyond[:min(len(beyond), 5)], ", ")))
	}
	return out
}

// findings has at least one finding of each category, in the order in which one would look.
func (f *facts) findings() []*quotav1.Finding {
	out := []*quotav1.Finding{f.ofEtcd(), f.ofConfiguration()}
	if n := len(f.lapsed); n > 0 {
		out = append(out, fine("configuration", "to be cleaned up some time, %s of which something has lapsed: %s",
			wording.Count(n, "resource"), firstOf(f.lapsed, func(one string) string { return one })))
	}
	out = append(out, f.ofSecurity(), f.ofLeader())
	if f.election.Role == election.Following {
		return out
	}
	return slices.Concat(out, f.ofGateways(), f.ofSites(), f.ofPools())
}

func fine(category, format string, args ...any) *quotav1.Finding {
	return &quotav1.Finding{Category: category, State: quotav1.Finding_OK, Message: fmt.Sprintf(format, args...)}
}

func doubtful(category, advice, format string, args ...any) *quotav1.Finding {
	return &quotav1.Finding{Category: category, State: quotav1.Finding_WARNING, Advice: advice,
		Message: fmt.Sprintf(format, args...)}
}

func failed(category, advice, format string, args ...any) *quotav1.Finding {
	return &quotav1.Finding{Category: category, State: quotav1.Finding_FAILED, Advice: advice,
		Message: fmt.Sprintf(format, args...)}
}

func (f *facts) ofEtcd() *quotav1.Finding {
	if f.etcd != nil {
		return failed("etcd", "look at etcd, and at --etcd-endpoints of the coordinator; meanwhile limits go on and "+
			"shares stay as they are", "%v", f.etcd)
	}
	if f.trouble.Lost > 0 {
		return doubtful("etcd", "changes since the backup are lost: see titrate history and titrate recover --help",
			"etcd was restored or replaced, in all %s since this coordinator started",
			wording.Count(f.trouble.Lost, "time"))
	}
	return fine("etcd", "the session lives")
}

func (f *facts) ofConfiguration() *quotav1.Finding {
	const name = "configuration"
	switch {
	case f.trouble.Held != "":
		return failed(name, "titrate recover --help", "held: %s", f.trouble.Held)
	case !f.known:
		return failed(name, "it is read once etcd is there", "not read from etcd yet")
	case f.astray != nil:
		return failed(name, "--etcd-user needs read and write on --etcd-prefix; etcd's log has more", "%v",
			f.astray)
	case len(f.trouble.Unreadable) > 0:
		return failed(name, "apply them again, or delete them", "%s cannot be read, such as %s",
			wording.Count(len(f.trouble.Unreadable), "stored resource"), f.trouble.Unreadable[0])
	case len(f.config.Pools) == 0:
		return doubtful(name, "titrate apply --help has an example", "revision %d has no pool", f.config.Revision)
	}
	return fine(name, "revision %d: %s, %s, %s", f.config.Revision, wording.Count(len(f.config.Pools), "pool"),
		wording.Count(len(f.config.Tenants), "tenant"), wording.Count(len(f.config.Quotas), "quota"))
}

func (f *facts) ofSecurity() *quotav1.Finding {
	const name = "security"
	switch {
	case f.files != nil:
		return failed(name, "replace the files; what was read before stays in use", "%v", f.files)
	case f.expires != nil:
		return doubtful(name, "renew it: new files are read without a restart", "%v", f.expires)
	case f.unknown:
		return doubtful(name, "give coordinators --tls-cert, --tls-key and --tls-ca: docs/security.md",
			"callers show no certificate: any client that can connect may do everything")
	case f.anyAgent:
		return doubtful(name, "give coordinators --tls-ca, and agents certificates: docs/security.md",
			"callers send tokens, but agents show no certificate: any client that can connect may be an agent")
	}
	return fine(name, "callers are known by certificates or tokens")
}

func (f *facts) ofLeader() *quotav1.Finding {
	const name = "leader"
	switch {
	case f.alone != nil:
		return doubtful(name, "give it a release that shares, and all coordinators --share-pools: titrate coordinator "+
			"--help", "%v", f.alone)
	case f.silent != nil:
		return failed(name, "look at that coordinator; if it has ended, the others lead its pools within "+
			"--session-ttl and --settle", "%v", f.silent)
	case f.election.Role == election.Leading && f.election.Sharing != nil:
		return fine(name, "%s the pools, epoch %d: %s",
			wording.Does(len(f.election.Sharing.Sharers), "coordinator", "shares", "share"),
			f.election.Epoch, strings.Join(f.shared, ", "))
	case f.election.Role == election.Leading:
		return fine(name, "this coordinator leads, epoch %d", f.election.Epoch)
	case f.election.Role == election.Orphaned:
		return failed(name, "bring etcd back; the shares stay as they are",
			"this coordinator led and has lost etcd: shares are frozen")
	case f.election.Leader == "":
		return failed(name, "look at etcd and at the other coordinators; the shares stay as they are", "nobody leads")
	}
	return fine(name, "%s leads; ask it for gateways and pools, with --server", f.election.Leader)
}

func (f *facts) ofGateways() (out []*quotav1.Finding) {
	const name = "gateways"
	members := f.view.Members
	if f.agents == 0 {
		return []*quotav1.Finding{doubtful(name, "start agents with --coordinator: titrate agent --help",
			"no agent is connected")}
	}
	if f.view.Stale && f.election.Role != election.Orphaned { // ofLeader has said so, and why
		out = append(out, failed(name, "look at the coordinator's log",
			"shares were not renewed in time: they are stale"))
	}
	if f.fleet.Refusing > 0 {
		out = append(out, failed(name, "they keep the configuration before: correct what the reason names",
			"the configuration is refused by %s: %v", wording.Count(f.fleet.Refusing, "gateway"), f.fleet.First))
	} else if f.fleet.First != nil {
		out = append(out, doubtful(name, "titrate get lists which", "%v", f.fleet.First))
	}
	if len(f.names) > 0 {
		out = append(out, doubtful(name, "name it in the settings of the filters, or correct it; titrate get limits "+
			"pools lists all", "%s", strings.TrimSuffix(f.names[0], ".")))
	}
	if len(f.late) > 0 {
		out = append(out, doubtful(name, "look at the log and the /status of their agents; titrate get gateways "+
			"lists all", "%d of the gateways lack changes of the configuration: %s", len(f.late), f.lateNames()))
	}
	if len(f.lost) > 0 {
		out = append(out, doubtful(name, "look at the processes and the logs of their agents; these gateways go on "+
			"with what they have. Removed ones are forgotten after ten minutes",
			"no agent is connected of %s: %s", wording.Count(len(f.lost), "gateway"), f.lostNames()))
	}
	if f.view.Outcome != nil && len(f.view.Outcome.Suspects) > 0 {
		out = append(out, doubtful(name, "look at that agent: its clock, its version, who it is",
			"impossible numbers come from %s, such as %s", wording.Count(len(f.view.Outcome.Suspects), "agent"),
			f.view.Outcome.Suspects[0].Agent))
	}
	if members == 0 {
		out = append(out, doubtful(name, "look at the filter's agent_socket and at the agent's /status",
			"%s connected, and no gateway", wording.Count(f.agents, "agent")))
	}
	if len(out) == 0 {
		out = append(out, fine(name, "%s, %s", wording.Count(f.agents, "agent"),
			wording.Count(members, "gateway")))
	}
	return out
}

// lateNames are the first gateways that are late, each with what it lacks.
func (f *facts) lateNames() string {
	return firstOf(f.late, func(g *quotav1.Gateway) string {
		return fmt.Sprintf("%s lacks %d, the oldest for %s", g.GetName(), g.GetBehind(),
			f.now.Sub(g.GetBehindSince().AsTime()).Round(time.Second))
	})
}

// lostNames names the first gateways whose agents are unreachable.
func (f *facts) lostNames() string {
	return firstOf(f.lost, func(g *quotav1.Gateway) string {
		agent := g.GetAgent()
		if g.GetSite() != "" {
			agent += " of site " + g.GetSite()
		}
		text := fmt.Sprintf("%s, agent %s for %s", g.GetName(), agent,
			f.now.Sub(g.GetHeard().AsTime()).Round(time.Second))
		if g.GetBehind() > 0 {
			text += ", lacks " + wording.Count(g.GetBehind(), "change")
		}
		return text
	})
}

// firstOf says of the first of a list what there is to say, and of the others how many they are.
func firstOf[T any](all []T, say func(T) string) string {
	var words []string
	for _, one := range all[:min(len(all), 5)] {
		words = append(words, say(one))
	}
	if more := len(all) - len(words); more > 0 {
		words = append(words, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(words, "; ")
}

func (f *facts) ofPools() []*quotav1.Finding {
	const name = "pools"
	switch {
	case f.pools.GetSettling():
		return []*quotav1.Finding{fine(name, "no shares yet: no agent has reported")}
	case len(f.pools.GetFindings()) > 0:
		return f.pools.GetFindings()
	}
	pools := wording.Count(f.pools.GetPools(), "pool")
	return []*quotav1.Finding{fine(name, "%s, %d of them full", pools, f.pools.GetFull())}
}
