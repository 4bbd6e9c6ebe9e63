package settings

import (
	"encoding/json"

	"github.com/titrate/titrate/control/config"
)

// Filter is the configuration of one HTTP filter or of a per-route override.
// Empty lists are unset: the override's are filled from the filter's.
type Filter struct {
	// Tenant, Client and Pool are the sources of a request's tenant, client and pool. Without a client all
	// requests of a tenant belong to one client.
	Tenant, Client, Pool []Source
	// Cost in units; 1 if no source gives one. A header that is not a number
	// above 0 counts as absent.
	Cost []Source
	// Costs are further costs, sorted by name; an override's replace the filter's. Nil is unset.
	Costs []Cost
	// Usage says where answers of language models say their usage; nil is unset.
	Usage []UsagePath
	// Identities are the identities that limits may count by, instead of the client, sorted by name. An
	// override adds identities to the filter's, or replaces the filter's of the same name. The sources of a request's
	// plan and rate are among them, named config.PlanIdentity and config.RateIdentity, after all others.
	Identities []Identity
	// Classes are the classes of requests, sorted and overridden in the same way.
	Classes []Class
	// Enabled is nil if it is unset.
	Enabled *bool
	// Answers selects the parts of a decision that clients, upstreams and access logs see.
	Answers Answers
}

// FilterFields are the fields of a filter's or route's configuration.
var FilterFields = []string{"tenant", "client", "pool", "plan", "requested_rate", "cost", "costs", "response_usage",
	"identities", "classes", "enabled", "mode", "reject_status", "reject_body", "rate_limit_headers",
	"rate_limit_policy", "reason_header", "request_id_header", "limited_header", "wait_header", "congestion_header",
	"mark_upstream", "peek", "response_cost", "access_log", "access_log_to", "access_log_client", "access_log_key"}

// On reports whether the filter limits requests; it does by default.
func (f *Filter) On() bool { return f.Enabled == nil || *f.Enabled }

// ParseFilter reads the configuration of an HTTP filter. It must have the sources of tenant and pool.
func ParseFilter(raw []byte) (*Filter, error) {
	f, err := ParseRoute(raw)
	if err != nil {
		return nil, err
	}
	if f.On() && len(f.Tenant) == 0 {
		return nil, wrong("tenant", `is missing; say where it comes from, e.g. {"header": "x-tenant"}`)
	}
	if f.On() && len(f.Pool) == 0 {
		return nil, wrong("pool", `is missing; say which upstream it is, e.g. {"literal": "api"}`)
	}
	if f.countsUsage() && f.Usage == nil {
		const text = `is missing; a cost is the usage of answers: say their form, e.g. {"format": "OPENAI"}`
		return nil, wrong("response_usage", text)
	}
	f.Answers.SetDefaults()
	return f, nil
}

// ParseRoute reads a per-route override, in which everything is optional. Raw is JSON or
// a serialized google.protobuf.Struct.
func ParseRoute(raw []byte) (*Filter, error) {
	m, err := object("", toJSON(raw), FilterFields...)
	if err != nil {
		return nil, err
	}
	f := &Filter{}
	for _, field := range []struct {
		name string
		to   *[]Source
		of   use
	}{
		{"tenant", &f.Tenant, resource}, {"client", &f.Client, client},
		{"pool", &f.Pool, resource}, {"cost", &f.Cost, cost},
	} {
		if raw, ok := m[field.name]; ok {
			if *field.to, err = sources(field.name, raw, field.of); err != nil {
				return nil, err
			}
		}
	}
	if err := f.costs(m); err != nil {
		return nil, err
	}
	if err := f.names(m); err != nil {
		return nil, err
	}
	if err := f.Answers.read(m); err != nil {
		return nil, err
	}
	if _, ok := m["enabled"]; ok {
		f.Enabled = new(bool)
		err = value(m, "", "enabled", "true or false", f.Enabled)
	}
	return f, err
}

// costs reads the costs with names, and where answers say their usage.
func (f *Filter) costs(m map[string]json.RawMessage) (err error) {
	if raw, ok := m["costs"]; ok {
		if f.Costs, err = costs("costs", raw); err != nil {
			return err
		}
	}
	if raw, ok := m["response_usage"]; ok {
		f.Usage, err = responseUsage("response_usage", raw)
	}
	return err
}

func (f *Filter) names(m map[string]json.RawMessage) (err error) {
	if raw, ok := m["identities"]; ok {
		if f.Identities, err = identities("identities", raw); err != nil {
			return err
		}
	}
	for _, of := range trusted {
		raw, ok := m[of.field]
		if !ok {
			continue
		}
		from, err := sources(of.field, raw, numbers)
		if err != nil {
			return err
		}
		f.Identities = append(f.Identities, Identity{of.identity, from})
	}
	if raw, ok := m["classes"]; ok {
		f.Classes, err = classes("classes", raw)
	}
	return err
}

// trusted are the fields whose values decide the numbers of limits, and the identities that have the values.
var trusted = []struct{ field, identity string }{
	{"plan", config.PlanIdentity}, {"requested_rate", config.RateIdentity},
}

// CheckBefore140 returns an error that names the first field that Envoys before 1.40 cannot
// serve: they show modules neither a connection's other end nor a virtual host's name.
func (f *Filter) CheckBefore140() error {
	lists := []Identity{{"tenant", f.Tenant}, {"client", f.Client}, {"pool", f.Pool}}
	for _, identity := range f.Identities {
		field := join("identities", identity.Name)
		for _, of := range trusted {
			if identity.Name == of.identity {
				field = of.field
			}
		}
		lists = append(lists, Identity{field, identity.Sources})
	}
	for _, list := range lists {
		for i, s := range list.Sources {
			field := list.Name
			if len(list.Sources) > 1 {
				field = index(field, i)
			}
			switch {
			case s.Kind == SourceAddress && !s.Address.Envoys:
				return wrong(join(field, "source_address"), "has from: PEER, the default, which needs Envoy 1.40; "+
					"this one is older. Write from: ENVOY, and use_remote_address: true in the connection manager, "+
					"or clients can forge their addresses")
			case s.Kind == VirtualHost:
				return wrong(join(field, "virtual_host"), "needs Envoy 1.40; this one is older. Write a literal in an "+
					"override of each virtual host")
			}
		}
	}
	return nil
}
