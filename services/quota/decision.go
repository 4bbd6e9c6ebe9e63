package quota

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	quotav1 "github.com/titrate/titrate/proto/titrate/quota/v1alpha1"
	"github.com/titrate/titrate/services/quota/valid"
	"github.com/titrate/titrate/services/toplist"
	"github.com/titrate/titrate/services/wording"
)

// FindDecisions says what was decided about the request of an ID, step by step.
func (s *Server) FindDecisions(ctx context.Context, r *quotav1.FindDecisionsRequest) (*quotav1.FindDecisionsResponse,
	error) {
	if err := s.asked(valid.Message(r), "agents cannot be asked"); err != nil {
		return nil, err
	}
	out, err := s.live.Decisions(ctx, r.GetRequest())
	if err != nil {
		return nil, explainStatus(err)
	}
	if tenants, only := s.readsOnly(ctx); only {
		out.Decisions = slices.DeleteFunc(out.Decisions, func(d *quotav1.Decision) bool {
			return !slices.Contains(tenants, d.GetTenant())
		})
	}
	for i, d := range out.Decisions {
		if d.Steps = decisionSteps(d); i == 0 {
			d.Steps = append(d.Steps, s.claimsNow(ctx, d)...)
		}
	}
	out.Notes = decisionNotes(r.GetRequest(), out)
	return out, nil
}

// claimsNow says what other sites claim now of the key that decided, or of the first key, at the site that decided.
func (s *Server) claimsNow(ctx context.Context, d *quotav1.Decision) []string {
	of := slices.IndexFunc(d.GetLimits(), func(l *quotav1.LimitStep) bool { return l.GetLimit() == d.GetLimit() })
	if d.GetSite() == "" || len(d.GetLimits()) == 0 {
		return nil
	}
	l := d.GetLimits()[max(of, 0)]
	b, err := s.live.Bucket(ctx, "tenants/"+d.GetTenant()+"/limits/"+l.GetLimit(), l.GetClient())
	if err != nil {
		return nil // the decision is known all the same
	}
	there := slices.DeleteFunc(b.GetClaims(), func(c *quotav1.SiteClaim) bool { return c.GetAt() != d.GetSite() })
	if len(there) == 0 {
		return []string{fmt.Sprintf("Site %s decided by its own numbers: no other site uses limit %s for this "+
			"client now.", d.GetSite(), l.GetLimit())}
	}
	return []string{fmt.Sprintf("Site %s decided.%s That is as of now.", d.GetSite(), claimSentences(there))}
}

// decisionSteps are a decision in sentences: what came of the request, then what each limit and the share had for it.
func decisionSteps(d *quotav1.Decision) []string {
	gateway := d.GetGateway()
	if d.GetSite() != "" {
		gateway += " of site " + d.GetSite()
	}
	steps := []string{fmt.Sprintf("Gateway %s %s %s ago.", gateway, decided(d), seconds(d.GetAgo()))}
	whose := fmt.Sprintf("It was a request of tenant %q, client %q, to pool %q, with a cost of %s; in force were "+
		"revision %d of the configuration and shares of epoch %d.", d.GetTenant(), d.GetClient(), d.GetPool(),
		wording.Number(d.GetCost()), d.GetRevision(), d.GetEpoch())
	steps = append(steps, whose)
	for _, l := range d.GetLimits() {
		steps = append(steps, limitStep(d, l))
	}
	if len(d.GetLimits()) == 0 && d.GetShare() != nil {
		steps = append(steps, "No limit applied to it.")
	}
	if d.GetShare() != nil {
		steps = append(steps, shareStep(d))
	}
	if d.GetRefused() && d.GetRetryAfter() != nil {
		steps = append(steps, fmt.Sprintf("The answer said that a request may pass after %s.",
			d.GetRetryAfter().AsDuration().Round(time.Millisecond)))
	} else if d.GetRefused() {
		steps = append(steps, "The answer named no time to wait: waiting does not help, or it is not known for how "+
			"long.")
	}
	return steps
}

// decided says what became of the request.
func decided(d *quotav1.Decision) string {
	var b strings.Builder
	switch {
	case d.GetRefused():
		fmt.Fprintf(&b, "refused it (%s)", d.GetReason())
	case d.GetShadowed():
		fmt.Fprintf(&b, "let it pass because of a mode SHADOW, and would have refused or held it (%s)",
			cmp.Or(d.GetReason(), "it would have waited"))
	case d.GetMarked():
		b.WriteString("admitted it with a congestion mark")
	default:
		b.WriteString("admitted it")
	}
	if w := d.GetWaited().AsDuration(); w > 0 {
		fmt.Fprintf(&b, ", after it had waited for %s%s,", w.Round(100*time.Microsecond), heldBy(d))
	}
	return b.String()
}

// heldBy says what the request waited for, if that is known.
func heldBy(d *quotav1.Decision) string {
	switch by := d.GetHeldBy(); by {
	case "":
		return ""
	case toplist.Share:
		return " for its tenant's share"
	default:
		return " for limit " + by
	}
}

// limitStep says what a limit had for the request.
func limitStep(d *quotav1.Decision, l *quotav1.LimitStep) string {
	who := fmt.Sprintf("client %q", l.GetClient())
	if l.GetClient() == "" {
		who = "all clients together, or requests without a client,"
	}
	if l.GetConcurrency() > 0 {
		return slotStep(d, l, who)
	}
	if l.GetAmount() > 0 {
		return quotaStep(d, l, who)
	}
	out := fmt.Sprintf("Limit %s lets %s have %s, burst %s: %s was free", l.GetLimit(), who, rate(l.GetRate()),
		wording.Number(l.GetBurst()), wording.Rough(max(l.GetFree(), 0), 3))
	if over := -l.GetFree(); over >= .005 {
		out += fmt.Sprintf(", %s taken beyond it", wording.Rough(over, 3))
	}
	switch {
	case d.GetLimit() == l.GetLimit() && d.GetRefused():
		out += ", so it refused"
	case d.GetLimit() == l.GetLimit():
		out += ", so it would have refused or held the request"
	case l.GetPasses():
		out += ", enough for the request"
	default:
		out += ", too little for one request more"
	}
	if w := l.GetWait().AsDuration(); w > 0 {
		out += fmt.Sprintf(" (enough after %s)", w.Round(time.Millisecond))
	}
	return out + exactly(d, l) + ending(l)
}

// exactly says whose bucket decided, for a limit that is EXACT.
func exactly(d *quotav1.Decision, l *quotav1.LimitStep) string {
	switch {
	case l.GetSilent():
		return "; it is EXACT, but the owner of the client's key did not answer, so the ledger counted"
	case l.GetUnasked():
		return "; it is EXACT, but the gateway had asked about too many of its keys, so the ledger counted for this " +
			"new one"
	case l.GetExact() && d.GetSite() != "":
		return "; it is EXACT, so that is the one bucket of the site's gateways"
	case l.GetParted():
		return "; it is EXACT, and the gateway has a standing part of the one bucket: it asks the owner for more only"
	case l.GetExact():
		return "; it is EXACT, so that is the one bucket of all gateways"
	}
	return ""
}

// ending ends the sentence of a limit.
func ending(l *quotav1.LimitStep) string {
	if l.GetShadow() {
		return "; it is in SHADOW."
	}
	return "."
}

// quotaStep is limitStep for a limit with a quota.
func quotaStep(d *quotav1.Decision, l *quotav1.LimitStep, who string) string {
	out := fmt.Sprintf("Limit %s lets %s have %s in its period over all gateways", l.GetLimit(), who,
		wording.Number(l.GetAmount()))
	switch named := d.GetLimit() == l.GetLimit(); {
	case l.GetSilent() && named && d.GetRefused():
		out += ": the agent that counts did not answer, so it refused"
	case named && d.GetRefused():
		out += fmt.Sprintf(": %s was left, so it refused", wording.Rough(l.GetFree(), 3))
	case named:
		out += fmt.Sprintf(": %s was left, so it would have refused the request", wording.Rough(l.GetFree(), 3))
	case l.GetFree() > 0:
		out += fmt.Sprintf(": %s was left", wording.Rough(l.GetFree(), 3))
	}
	if w := l.GetWait().AsDuration(); w > time.Second {
		out += fmt.Sprintf(" (the next period begins in %s)", w.Round(time.Second))
	}
	return out + ending(l)
}

// slotStep is limitStep for a limit on requests in flight.
func slotStep(d *quotav1.Decision, l *quotav1.LimitStep, who string) string {
	out := fmt.Sprintf("Limit %s lets %s have %s in flight over all gateways", l.GetLimit(), who,
		wording.Count(int(l.GetConcurrency()), "request"))
	switch named := d.GetLimit() == l.GetLimit(); {
	case l.GetSilent() && named && d.GetRefused():
		out += ": the agent that counts them did not answer, so it refused"
	case named && d.GetRefused():
		out += ": all slots were in use, so it refused"
	case named:
		out += ": all slots were in use, so it would have refused the request"
	default:
		out += fmt.Sprintf(": %s idle at this gateway", wording.Count(int(l.GetFree()), "slot"))
	}
	return out + ending(l)
}

// shareStep says what the share had for the request.
func shareStep(d *quotav1.Decision) string {
	h := d.GetShare()
	if d.GetRefused() && d.GetReason() == "client_limit" {
		return fmt.Sprintf("Its tenant's share of the pool, %s, was not asked: the limit came first.",
			share(h.GetShare()))
	}
	out := fmt.Sprintf("Its tenant's share of the pool was %s over all gateways, %s at this one, which was asked for "+
		"%s; %s could pass at once, and %s waited", share(h.GetShare()), share(h.GetRate()),
		rate(h.GetDemand()), wording.Rough(h.GetCredit(), 3), wording.Count(h.GetWaiting(), "request"))
	if d.GetRefused() && d.GetLimit() == toplist.Share {
		out += ", so it refused"
	}
	if h.GetLost() {
		out += "; the share had expired, since no coordinator was reachable"
	}
	return out + "."
}

func share(r float64) string {
	if math.IsInf(r, 1) {
		return "unbounded"
	}
	return rate(r)
}

// decisionNotes says why nothing is known of a request, and which gateways are missing.
func decisionNotes(request string, r *quotav1.FindDecisionsResponse) (notes []string) {
	say := func(format string, args ...any) { notes = append(notes, fmt.Sprintf(format, args...)) }
	answered := int(r.GetAgents()) - len(r.GetSilent())
	switch {
	case r.GetAgents() == 0:
		say("No agent is connected, so what gateways did is not known.")
	case len(r.GetDecisions()) > 0:
	case r.GetRemembered() == 0 && answered > 0:
		say("No gateway knows request %q: the agents remember no request that was refused, held, marked or let pass "+
			"by SHADOW.", request)
	case answered > 0:
		say("No gateway knows request %q. It was admitted at once, or decided too long ago, or too many were decided "+
			"at that time: the agents remember %s that were refused, held, marked or let pass by SHADOW, the "+
			"oldest for %s. The access log of its gateway has its reason and its limit.", request,
			wording.Count(r.GetRemembered(), "request"), seconds(r.GetBack()))
	}
	if n := len(r.GetSilent()); n > 0 {
		say("%d of %s did not answer, so their gateways are not counted: %s.", n, wording.Count(r.GetAgents(), "agent"),
			strings.Join(r.GetSilent()[:min(n, 5)], ", "))
	}
	return notes
}
