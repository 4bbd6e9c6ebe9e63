// Package convert turns the link's frames into the engine's structures and back.
//
// The link's types have the field names of the engine's, but live in a module
// that knows no engine. Structs whose fields are the same types in the same
// order convert at no cost; the compiler checks that they still do. Names of
// enumerations are looked up, and one that this build does not know is an error.
//
// The simulator uses the same functions, so that what it plays passes through
// what ships.
package convert

import (
	"fmt"

	"github.com/titrate/titrate/control/limiter"
	"github.com/titrate/titrate/proto/link"
)

var laws = map[link.Law]limiter.Law{
	"": limiter.VariableStructure, link.VariableStructure: limiter.VariableStructure,
	link.DropTail: limiter.DropTail, link.Police: limiter.Police, link.CoDel: limiter.CoDel,
}

var modes = map[link.Mode]limiter.Mode{
	"": limiter.Enforce, link.Enforce: limiter.Enforce, link.Shadow: limiter.Shadow, link.Off: limiter.Off,
}

var losses = map[link.OnLoss]limiter.OnLoss{
	"": limiter.Freeze, link.Freeze: limiter.Freeze, link.SafeRate: limiter.SafeRate, link.Open: limiter.Open,
}

// named looks a name up and names the place of one that is unknown, which a
// newer agent may send.
func named[K ~string, V any](names map[K]V, place string, name K, err *error) V {
	v, ok := names[name]
	if !ok && *err == nil {
		*err = fmt.Errorf("convert: %s: %q is unknown to this filter", place, string(name))
	}
	return v
}

// Config converts a configuration. Limits and quotas that this build cannot read,
// because a newer agent gave them a field or a name of an enumeration that is
// unknown here, are left out and returned: to enforce them without it might limit
// what they do not mean. An unknown name in a pool is an error that names its place.
func Config(c *link.Config) (*limiter.Config, []limiter.LeftOut, error) {
	var err error
	out := &limiter.Config{Revision: c.Revision, Seed: c.Seed}
	for _, p := range c.Pools {
		place := "pool " + p.Name
		out.Pools = append(out.Pools, limiter.Pool{
			Name: p.Name, Capacity: p.Capacity, Queue: queue(place, p.Queue, &err),
			OnLoss: named(losses, place+".on_loss", p.OnLoss, &err), HardExpiry: p.HardExpiry, Adaptive: p.Adaptive,
		})
	}
	var left []limiter.LeftOut
	out.Defaults = limits(limiter.DefaultTenant, c.Defaults, &left)
	for _, t := range c.Tenants {
		out.Tenants = append(out.Tenants, tenant(t, &left))
	}
	return out, left, err
}

// limits converts the limits of a tenant that this build can read.
func limits(tenant string, list []link.Limit, left *[]limiter.LeftOut) (out []limiter.Limit) {
	for _, l := range list {
		err := known(l.Unknown)
		if converted := limit("tenant "+tenant+", limit "+l.Name, l, &err); err == nil {
			out = append(out, converted)
		} else {
			*left = append(*left, limiter.LeftOut{Tenant: tenant, Limit: l.Name, Why: err})
		}
	}
	return out
}

func tenant(t link.Tenant, left *[]limiter.LeftOut) limiter.Tenant {
	out := limiter.Tenant{Name: t.Name, Weight: t.Weight, Limits: limits(t.Name, t.Limits, left)}
	for _, q := range t.Quotas {
		err := known(q.Unknown)
		mode := named(modes, "tenant "+t.Name+", quota "+q.Pool+".mode", q.Mode, &err)
		if err == nil {
			out.Quotas = append(out.Quotas, limiter.Quota{Pool: q.Pool, Guaranteed: q.Guaranteed, Max: q.Max, Mode: mode})
		} else {
			*left = append(*left, limiter.LeftOut{Tenant: t.Name, Limit: "quotas/" + q.Pool, Why: err})
		}
	}
	return out
}

// known is an error that names a field which is not.
func known(unknown string) error {
	if unknown == "" {
		return nil
	}
	return fmt.Errorf("convert: field %q is unknown to this filter: upgrade the filter", unknown)
}

func limit(place string, l link.Limit, err *error) limiter.Limit {
	out := limiter.Limit{
		Name: l.Name, PerTenant: l.PerTenant, Rate: l.Rate, Burst: l.Burst, Pools: l.Pools,
		Queue: queue(place, l.Queue, err), Mode: named(modes, place+".mode", l.Mode, err), Strict: l.Strict,
		Identity: l.Identity, Classes: l.Classes,
	}
	if len(l.Overrides) > 0 {
		out.Overrides = make(map[string]limiter.RateBurst, len(l.Overrides))
		for client, rb := range l.Overrides {
			out.Overrides[client] = limiter.RateBurst(rb)
		}
	}
	return out
}

func queue(place string, q link.Queue, err *error) limiter.Queue {
	return limiter.Queue{
		Law:         named(laws, place+".queue.law", q.Law, err),
		DelayTarget: q.DelayTarget, MaxWait: q.MaxWait, MaxRequests: q.MaxRequests,
	}
}

// each converts a slice element by element.
func each[From, To any](in []From, f func(From) To) []To {
	if in == nil {
		return nil
	}
	out := make([]To, len(in))
	for i, v := range in {
		out[i] = f(v)
	}
	return out
}

// Shares converts shares.
func Shares(s *link.Shares) *limiter.Shares {
	return &limiter.Shares{
		Epoch: s.Epoch, Revision: s.Revision, Stale: s.Stale,
		Flows: each(s.Flows, func(f link.Share) limiter.Share { return limiter.Share(f) }),
		Pools: each(s.Pools, func(p link.PoolShare) limiter.PoolShare { return limiter.PoolShare(p) }),
	}
}

// Sums converts sums.
func Sums(s *link.Sums) *limiter.Sums {
	return &limiter.Sums{
		Replicas: s.Replicas, TotalWeight: s.TotalWeight, Weight: s.Weight, Lag: s.Lag, Absent: s.Absent,
		Isolation: limiter.Isolation(s.Isolation),
		Flows:     each(s.Flows, func(f link.FlowSum) limiter.FlowSum { return limiter.FlowSum(f) }),
		Keys:      each(s.Keys, func(k link.KeySum) limiter.KeySum { return limiter.KeySum(k) }),
	}
}

// Names converts the names that have a place.
func Names(n *limiter.Names) *link.Names {
	out := &link.Names{}
	given := func(names []string) (out []string) {
		for _, name := range names {
			if name != "" {
				out = append(out, name)
			}
		}
		return out
	}
	out.Identities, out.Classes = given(n.Identities[:]), given(n.Classes[:])
	return out
}

// Claims converts claims into out, whose memory is used again.
func Claims(c *limiter.Claims, out *link.Claims) {
	out.Flows, out.Keys = out.Flows[:0], out.Keys[:0]
	for _, f := range c.Flows {
		out.Flows = append(out.Flows, link.FlowClaim(f))
	}
	for _, k := range c.Keys {
		out.Keys = append(out.Keys, link.KeyClaim(k))
	}
	out.Withdrawn = c.Withdrawn
}

// Report converts a report into out, whose memory is used again.
func Report(r *limiter.Report, out *link.Report) {
	out.Interval, out.Flows = r.Interval, out.Flows[:0]
	for _, f := range r.Flows {
		out.Flows = append(out.Flows, link.FlowReport(f))
	}
}
