package quota

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	quotav1 "github.com/titrate/titrate/proto/titrate/quota/v1alpha1"
	"github.com/titrate/titrate/services/store/resource"
	"github.com/titrate/titrate/services/toplist"
	"github.com/titrate/titrate/services/wording"
)

// limitSentence says what a limit did to the tenant's requests, and what it lets pass. l is nil
// if the limit is not configured.
func limitSentence(w *seen, e *quotav1.LimitExplanation, l *quotav1.Limit) string {
	name := e.GetLimit()[strings.LastIndex(e.GetLimit(), "/")+1:]
	a := e.GetActivity()
	of := ""
	all := w.total.GetAdmitted() + w.total.GetRefused()
	if sameTime(w.total, a) && all >= max(a.GetClientLimit()+a.GetQueueTimeout(), a.GetShadowed(), a.GetWaited(),
		a.GetOwnerWaited(), a.GetOwnerSilent(), a.GetOwnerUnasked()) {
		of = fmt.Sprintf(" %d", all)
	}
	var did []string
	add := func(n uint64, format string) {
		switch {
		case n > 0 && of == "":
			did = append(did, fmt.Sprintf(format, strconv.FormatUint(n, 10)))
		case n > 0:
			did = append(did, fmt.Sprintf(format, fmt.Sprintf("%d (%s)", n, percent(n, all))))
		}
	}
	add(a.GetClientLimit(), "refused %s at once")
	add(a.GetWaited(), "made %s wait")
	add(a.GetQueueTimeout(), "refused %s after they had waited for too long")
	add(a.GetShadowed(), "would, if it were enforced, have refused or held %s")
	if n := a.GetOwnerWaited(); n > 0 {
		add(n, fmt.Sprintf("made %%s wait for the owner of their key (%s in the mean)",
			mean(a.GetOwnerWaitedSeconds(), n)))
	}
	add(a.GetOwnerSilent(), "left %s to the ledger, as the owner of their key did not answer")
	add(a.GetOwnerUnasked(), "left %s of new keys to the ledger, as it had asked about too many keys")
	if len(did) == 0 {
		return fmt.Sprintf("Limit %s has stopped no request of %s in the last minute: %s.", name, w.who, lets(e, l))
	}
	requests := "requests"
	if of != "" {
		requests = wording.Plural(all, "request")
	}
	return fmt.Sprintf("Of%s %s of %s in the last %s limit %s %s%s: %s.%s", of, requests, w.who,
		seconds(a.GetWindow()), name, strings.Join(did, ", "), since(a), lets(e, l), refusedLately(a))
}

// refusedLately is a sentence about the refusals of a limit in the last seconds of a minute. It is "" if the limit
// refused nothing, or if not all refusals that were counted are the limit's.
func refusedLately(a *quotav1.Activity) string {
	_, refused, window := toplist.Recent(a)
	n := a.GetClientLimit() + a.GetQueueTimeout()
	if n == 0 || n != a.GetRefused() || window <= 0 || window >= a.GetWindow().AsDuration() {
		return ""
	}
	return fmt.Sprintf(" In the last %s it refused %d.", seconds(durationpb.New(window)), refused)
}

// mean is the mean of n waits that took so many seconds together.
func mean(seconds float64, n uint64) string { return wording.Rough(1000*seconds/float64(n), 2) + " ms" }

// sameTime reports whether the tenant's requests were counted in about the time in which a limit's were. A limit that
// was applied a moment ago has counted for that moment only, and its requests are no part of the last minute's.
func sameTime(all, limit *quotav1.Activity) bool {
	return all.GetWindow().AsDuration() <= limit.GetWindow().AsDuration()+windowStep
}

// windowStep is the difference between the windows of counts: they are 60 to 70 s long.
const windowStep = 10 * time.Second

// since says for how long requests have been limited.
func since(a *quotav1.Activity) string {
	if a.GetSince() == nil {
		return ""
	}
	return ", and has done so for " + seconds(a.GetSince())
}

func percent(n, all uint64) string {
	p := 100 * float64(n) / float64(all)
	if p > 0 && p < 1 {
		return wording.Rough(p, 2) + " %"
	}
	return fmt.Sprintf("%.0f %%", p)
}

func seconds(d *durationpb.Duration) string {
	if d := d.AsDuration(); d >= 2*time.Minute {
		return d.Round(time.Second).String()
	}
	return fmt.Sprintf("%.0f s", d.AsDuration().Seconds())
}

// lets says what a limit lets pass.
func lets(e *quotav1.LimitExplanation, l *quotav1.Limit) string {
	if l == nil {
		return "it is not configured any more, or by a file of the rate limit service"
	}
	who := "each client"
	if e.GetKey() == quotav1.Key_TENANT {
		who = "all clients together"
	}
	of := ""
	if l.GetCost() != "" {
		of = " of " + l.GetCost()
	}
	out := fmt.Sprintf("it lets %s have %s%s, burst %s", who, rate(e.GetRate()), of, wording.Number(e.GetBurst()))
	switch {
	case resource.IsOver(l, time.Now()):
		return fmt.Sprintf("it has lapsed (%s) and lets everything pass", resource.Moment(l.GetUntil()))
	case e.GetConcurrency() > 0:
		out = fmt.Sprintf("it lets %s have %s in flight over all gateways", who,
			wording.Count(int(e.GetConcurrency()), "request"))
	case l.GetQuota() != nil:
		out = fmt.Sprintf("it lets %s have %s%s over all gateways", who, resource.QuotaText(l.GetQuota()), of)
	case e.GetRate() == 0:
		out = "its rate is 0, so it lets nothing pass"
	}
	if n := len(l.GetOverrides()); n > 0 {
		out += fmt.Sprintf("; named clients with numbers of their own: %d", n)
	}
	if n := len(l.GetPlans()); n > 0 {
		out += fmt.Sprintf("; plans of requests with numbers of their own: %d", n)
	}
	if r := l.GetRequestedRate(); r != nil {
		out += fmt.Sprintf("; requests may state a rate of their own, %s to %s", r.GetLeast(), r.GetMost())
	}
	out += counted(l.GetPrecision() == quotav1.Precision_EXACT, e.GetMode() == quotav1.Mode_SHADOW)
	if l.GetUntil() != nil {
		out += "; it lapses at " + resource.Moment(l.GetUntil())
	}
	return out
}

// counted says how a limit counts, if it is EXACT or in SHADOW.
func counted(exact, shadow bool) string {
	switch {
	case exact && shadow:
		return "; enforced, it would be EXACT, with one bucket over all gateways: in SHADOW each gateway's " +
			"ledger counts; it is in SHADOW, so nothing was refused"
	case exact:
		return "; it is EXACT: one bucket over all gateways"
	case shadow:
		return "; it is in SHADOW, so nothing was refused"
	}
	return ""
}

// shadowShare says what enforcing a quota would do.
func shadowShare(e *quotav1.Explanation) string {
	a := e.GetActivity()
	n, all := a.GetShadowed()-a.GetLimitShadowed(), a.GetAdmitted()+a.GetRefused()
	return fmt.Sprintf("Its share of pool %s, %s, would, if it were enforced, have refused or held %d of %s "+
		"(%s) of %s in the last %s.", strings.TrimPrefix(e.GetPool(), "pools/"), rate(e.GetShare()), n,
		wording.Count(max(n, all), "request"),
		percent(n, max(n, all)), spoken(e.GetTenant()), seconds(a.GetWindow()))
}

// traffic says what became of the tenant's requests to a pool; "" if there were none.
func traffic(a *quotav1.Activity) string {
	all := a.GetAdmitted() + a.GetRefused()
	if all == 0 {
		return ""
	}
	parts := []string{fmt.Sprintf("%d admitted", a.GetAdmitted())}
	add := func(n uint64, what string) {
		if n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, what))
		}
	}
	add(a.GetClientLimit(), "refused by limits")
	add(a.GetTenantShare(), "refused by the share (tenant_share)")
	add(a.GetQueueFull(), "refused since the queue was full (queue_full)")
	add(a.GetQueueTimeout(), "refused after they had waited for too long (queue_timeout)")
	add(a.GetWaited()-a.GetLimitWaited(), "waited for the share")
	add(a.GetLimitWaited(), "waited for limits")
	add(a.GetMarked(), "marked")
	add(a.GetShadowed(), "let pass by SHADOW")
	return fmt.Sprintf(" Of %s in the last %s: %s.%s", wording.Count(all, "request"), seconds(a.GetWindow()),
		strings.Join(parts, ", "), lastSeconds(a))
}

// lastSeconds adds to the numbers of a minute the numbers of its last seconds.
func lastSeconds(a *quotav1.Activity) string {
	admitted, refused, window := toplist.Recent(a)
	if window <= 0 || window >= a.GetWindow().AsDuration() {
		return ""
	}
	return fmt.Sprintf(" Of these in the last %s: %d admitted, %d refused.", seconds(durationpb.New(window)), admitted,
		refused)
}

// note adds sentences about the tenant as a whole.
func (w *seen) note() {
	say := func(format string, args ...any) { w.out.Notes = append(w.out.Notes, fmt.Sprintf(format, args...)) }
	if w.r.GetShadow() {
		n, all := w.total.GetShadowed(), w.total.GetAdmitted()+w.total.GetRefused()
		if n == 0 {
			say("Enforcing what is in SHADOW would have refused or held no request of %s in the last minute.", w.who)
		} else {
			all = max(n, all)
			say("Enforcing all that is in SHADOW would have refused or held %d of %s (%s) of %s in the last %s.", n,
				wording.Count(all, "request"), percent(n, all), w.who, seconds(w.total.GetWindow()))
		}
	}
	if idle := w.noShare(); idle != "" {
		say("%s", idle)
	}
	if name := w.r.GetClient(); name != "" && len(w.out.Clients) == 0 {
		say("Client %q is not among the clients of %s that were refused, held or let pass by SHADOW the most in about "+
			"the last two minutes: that happened to few of its requests, or to none.", name, w.who)
	}
	if on := w.s.parents(w.ctx, w.r.GetTenant())[1:]; len(on) > 1 {
		say("%s is on plan %s: what it does not have itself, it has of the plan.", w.who, strings.TrimPrefix(on[0],
			"plans/"))
	}
	if w.tenant == resource.AnyTenant {
		say("Tenant %q counts all requests that name no tenant, or a tenant that is not configured.", w.tenant)
	}
	switch {
	case len(w.silent) > 0:
		say("%d of %s did not answer, so their gateways are not counted: %s.", len(w.silent),
			wording.Count(w.agents, "agent"),
			strings.Join(w.silent[:min(len(w.silent), 5)], ", "))
	case w.agents == 0:
		say("No agent is connected, so what gateways did is not known.")
	}
}

// noShare says what a tenant without an explanation has sent; "" if there is one, or if no agent has answered.
func (w *seen) noShare() string {
	only := w.r.GetShadow() || w.r.GetLimit() != "" || w.r.GetClient() != ""
	pool := strings.TrimPrefix(w.r.GetPool(), "pools/")
	if w.agents == len(w.silent) || len(w.out.GetExplanations()) > 0 || pool != "" && only {
		return ""
	}
	switch {
	case pool != "" && w.flows[pool] == nil:
		return fmt.Sprintf("%s has sent no request to pool %s in the last minute, and has no share of it.", w.who, pool)
	case pool != "":
		return fmt.Sprintf("%s has no share of pool %s yet.%s", w.who, pool, traffic(w.flows[pool]))
	case w.total == nil && len(w.limits) == 0:
		return w.who + " has sent no request to a configured pool in the last minute."
	case len(w.out.GetLimits()) == 0 && !only:
		return fmt.Sprintf("%s has no share of a pool yet.%s", w.who, traffic(w.total))
	}
	return ""
}
