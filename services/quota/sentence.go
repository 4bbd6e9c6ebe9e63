package quota

import (
	"fmt"
	"math"
	"strings"

	quotav1 "github.com/titrate/titrate/proto/titrate/quota/v1alpha1"
	"github.com/titrate/titrate/services/store/resource"
	"github.com/titrate/titrate/services/wording"
)

// sentence puts an explanation into English for the one on call: what the tenant
// gets, what holds it there, and the numbers to check it by.
func sentence(e *quotav1.Explanation, g quotav1.Guarantee) string {
	who := spoken(e.GetTenant())
	where := "pool " + strings.TrimPrefix(e.GetPool(), "pools/")
	var b strings.Builder
	if asksNothing(e) {
		b.WriteString("In the coordinator's last round ")
	} else {
		b.WriteString("Now ")
	}
	switch {
	case e.Max != nil && e.GetMax() == 0:
		fmt.Fprintf(&b, "%s is blocked from %s: the max of its quota is 0, so all that it asks for, %s, is refused "+
			"at once",
			who, where, rate(e.GetDemand()))
	case asksNothing(e):
		asks := "asked for nothing of"
		if e.GetActivity().GetClientLimit() > 0 {
			asks = "got nothing past its limits to"
		}
		fmt.Fprintf(&b, "%s %s %s; its share stands at %s%s", who, asks, where, rate(e.GetShare()),
			idleBound[e.GetBoundBy()])
	case e.GetBoundBy() == quotav1.Bound_DEMAND && e.GetShare() > e.GetDemand():
		fmt.Fprintf(&b, "%s gets %s of %s and may take %s: %s", who, wants(e), where, rate(e.GetShare()),
			spare(e, g))
	case e.GetBoundBy() == quotav1.Bound_DEMAND:
		fmt.Fprintf(&b, "%s gets %s of %s, %s: %s", who, rate(e.GetShare()), where, wants(e), spare(e, g))
	case e.GetBoundBy() == quotav1.Bound_GUARANTEED:
		fmt.Fprintf(&b, "%s gets its guarantee of %s of %s: its demand %s is above it, and %s is no more; %s",
			who, rate(e.GetGuaranteed()), where, demand(e), fair(e, g), price(e))
	case e.GetBoundBy() == quotav1.Bound_MAX:
		fmt.Fprintf(&b, "%s gets %s of %s, the max of its quota: its demand %s is above it%s",
			who, rate(e.GetShare()), where, demand(e), beyondMax(e, g))
	case e.GetBoundBy() == quotav1.Bound_POOL:
		fmt.Fprintf(&b, "%s gets %s of %s: its demand %s is above %s; %s",
			who, rate(e.GetShare()), where, demand(e), fair(e, g), price(e))
	default:
		fmt.Fprintf(&b, "%s has no share of %s yet: no round has counted it", who, where)
	}
	if e.GetStale() {
		fmt.Fprintf(&b, "; the share is stale: it was granted in epoch %d, has not been renewed, and stays as it is",
			e.GetEpoch())
	}
	return b.String() + "." + traffic(e.GetActivity())
}

// spoken is a tenant as sentences name it: without collection, and in quotes if a reader would take it for a dash.
func spoken(tenant string) string {
	if tenant = strings.TrimPrefix(tenant, "tenants/"); tenant == resource.AnyTenant {
		return fmt.Sprintf("tenant %q", tenant)
	}
	return tenant
}

// asksNothing reports whether the last round counted no demand, of a tenant that is not blocked. The requests of the
// last minute may be more: a round is at most two seconds.
func asksNothing(e *quotav1.Explanation) bool {
	blocked := e.Max != nil && e.GetMax() == 0
	return !blocked && e.GetBoundBy() != quotav1.Bound_BOUND_UNSPECIFIED && e.GetDemand() == 0
}

// wants says what the share has to cover.
func wants(e *quotav1.Explanation) string {
	if e.GetActivity().GetClientLimit() > 0 {
		return "all that its limits let pass"
	}
	return "all that it asks for"
}

// idleBound says what holds the share of a tenant that asks for nothing.
var idleBound = map[quotav1.Bound]string{
	quotav1.Bound_GUARANTEED: ", its guarantee",
	quotav1.Bound_MAX:        ", the max of its quota",
	quotav1.Bound_POOL:       ", its fair share",
}

// spare says why a tenant that gets its demand gets it.
func spare(e *quotav1.Explanation, g quotav1.Guarantee) string {
	switch {
	case e.GetFairRate() == 0:
		return fmt.Sprintf("its demand is %s, and the pool's capacity of %s is not used up", demand(e),
			rate(e.GetCapacity()))
	case e.GetGuaranteed() >= e.GetDemand() && e.GetWeight()*e.GetFairRate() < e.GetDemand():
		return fmt.Sprintf("its demand %s is within its guarantee of %s", demand(e), rate(e.GetGuaranteed()))
	}
	return fmt.Sprintf("its demand %s is within %s", demand(e), fair(e, g))
}

// demand is the measured demand, and a warning where the measure is a lower bound.
func demand(e *quotav1.Explanation) string {
	if e.GetLimited() && e.GetDemand() <= e.GetShare() {
		return rate(e.GetDemand()) + " (limited in the last round, so it may want more)"
	}
	return rate(e.GetDemand())
}

// fair is the share that fairness alone gives, with its working.
func fair(e *quotav1.Explanation, g quotav1.Guarantee) string {
	working := fmt.Sprintf("fair share %s × weight %s", rate(e.GetFairRate()), wording.Number(round(e.GetWeight())))
	if g == quotav1.Guarantee_ADDITIVE && e.GetGuaranteed() > 0 {
		sum := e.GetGuaranteed() + e.GetWeight()*e.GetFairRate()
		return fmt.Sprintf("its guarantee %s + the %s = %s", rate(e.GetGuaranteed()), working, rate(sum))
	}
	return fmt.Sprintf("the %s = %s", working, rate(e.GetWeight()*e.GetFairRate()))
}

func beyondMax(e *quotav1.Explanation, g quotav1.Guarantee) string {
	if e.GetFairRate() == 0 {
		return fmt.Sprintf(", and the pool's capacity of %s is not used up", rate(e.GetCapacity()))
	}
	return ", and so is " + fair(e, g)
}

func price(e *quotav1.Explanation) string {
	return fmt.Sprintf("the pool's capacity of %s is used up (price %s)", rate(e.GetCapacity()),
		wording.Number(round(e.GetPrice())))
}

// rate writes cost units per second as a person says them: to one decimal, in the unit in which they are at least 1.
func rate(r float64) string {
	return wording.Rate(r, func(x float64) string {
		if x != 0 && math.Abs(x) < .95 {
			return wording.Rough(x, 3)
		}
		return fmt.Sprintf("%.1f", x)
	})
}

// round keeps three significant digits.
func round(x float64) float64 {
	if x == 0 || math.IsInf(x, 0) || math.IsNaN(x) {
		return x
	}
	scale := math.Pow(10, 2-math.Floor(math.Log10(math.Abs(x))))
	return math.Round(x*scale) / scale
}
