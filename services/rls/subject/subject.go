// Package subject reads whose request the entries of a descriptor, or of a bucket id, describe. The rate limit service
// and the rate limit quota service of the agent have these entries alike:
//
//	tenant, client, pool   as the filter's settings of these names
//	class                  a class that the request is in; may be repeated
//	plan, requested_rate   the name of the request's plan, and the rate that it states
//	any other key          an identity of that name
package subject

import (
	"slices"

	"github.com/titrate/titrate/control/config"
	"github.com/titrate/titrate/control/limiter"
)

// Domain is the domain by which the tenants' own limits and shares are asked.
const Domain = "titrate"

// Request is a request to a service, whose entries Add takes.
type Request struct {
	limiter.Request

	names *limiter.Names
}

// New returns a request without entries, by the names of the configuration in force.
func New(names *limiter.Names) Request {
	return Request{limiter.Request{Identities: &limiter.Identities{}}, names}
}

// Add takes an entry.
func (r *Request) Add(key, value string) {
	switch key {
	case "tenant":
		r.Tenant = value
	case "client":
		r.Client = value
	case "pool":
		r.Pool = value
	case "class":
		for i, name := range r.names.Classes {
			if name == value && name != "" {
				r.Classes |= 1 << i
			}
		}
	case "plan":
		r.identify(config.PlanIdentity, value)
	case "requested_rate":
		r.identify(config.RateIdentity, value)
	default:
		r.identify(key, value)
	}
}

func (r *Request) identify(key, value string) {
	for i, name := range r.names.Identities {
		if name == key && name != "" {
			r.Identities[i] = value
		}
	}
}

// Names gives the names of identities and classes that limits use their places; unused is how many there was no place
// for.
func Names(c *config.Config) (out limiter.Names, unused int) {
	var identities, classes []string
	add := func(limits []config.Limit) {
		for i := range limits {
			if limits[i].Identity != "" {
				identities = append(identities, limits[i].Identity)
			}
			if len(limits[i].Plans) > 0 {
				identities = append(identities, config.PlanIdentity)
			}
			if limits[i].RequestedRate != (config.RateBounds{}) {
				identities = append(identities, config.RateIdentity)
			}
			classes = append(classes, limits[i].Classes...)
		}
	}
	add(c.Defaults)
	for i := range c.Plans {
		add(c.Plans[i].Limits)
	}
	for i := range c.Tenants {
		add(c.Tenants[i].Limits)
	}
	unused = place(out.Identities[:], identities) + place(out.Classes[:], classes)
	return out, unused
}

// place puts different names in places, in their order, and returns how many found none.
func place(places, names []string) int {
	slices.Sort(names)
	names = slices.Compact(names)
	return len(names) - copy(places, names)
}
