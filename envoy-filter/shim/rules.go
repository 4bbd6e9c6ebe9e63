package shim

/*
#include "rules.h"
*/
import "C"

import (
	"unsafe"

	"github.com/titrate/titrate/envoy-filter/settings"
	"github.com/titrate/titrate/envoy-filter/slots"
)

// newRules copies the settings into C's memory, where every request reads them.
func newRules(f *settings.Filter) (*C.struct_titrate_rules, error) {
	acquired, err := acquireSlots(f)
	if err != nil {
		return nil, err
	}
	b := builder{C.titrate_rules_new()}
	b.rules.identity_slots, b.rules.class_slots = C.uint32_t(acquired.IdentityBits), C.uint32_t(acquired.ClassBits)
	b.rules.cost_slots = C.uint32_t(acquired.CostBits)
	b.sources(&b.rules.tenant, f.Tenant)
	b.sources(&b.rules.client, f.Client)
	b.sources(&b.rules.pool, f.Pool)
	b.sources(&b.rules.cost, f.Cost)
	for i, slot := range acquired.Identities {
		b.sources(&b.rules.identities[slot], f.Identities[i].Sources)
	}
	for i, slot := range acquired.Classes {
		b.class(&b.rules.classes[slot], f.Classes[i].Matches)
	}
	b.rules.enabled = toggle(f.Enabled)
	b.answers(&b.rules.answers, &f.Answers)
	b.costs(&b.rules.costs, f.Costs, acquired.Costs)
	b.usage(&b.rules.usage, f.Usage)
	b.rules.priced = C.bool(f.Answers.Cost.From > settings.CostNowhere || len(f.Costs) > 0)
	return b.rules, nil
}

func acquireSlots(f *settings.Filter) (slots.Acquired, error) {
	var identities, classes, costs []string
	for _, identity := range f.Identities {
		identities = append(identities, identity.Name)
	}
	for _, class := range f.Classes {
		classes = append(classes, class.Name)
	}
	for _, cost := range f.Costs {
		costs = append(costs, cost.Name)
	}
	return names.Acquire(identities, classes, costs)
}

func toggle(on *bool) C.int {
	switch {
	case on == nil:
		return C.TITRATE_UNSET
	case *on:
		return C.TITRATE_ON
	}
	return C.TITRATE_OFF
}

// builder writes into the memory of rules.
type builder struct{ rules *C.struct_titrate_rules }

// array allocates n elements of C's memory; a null pointer for none.
func array[T any](b builder, n int) (first *T, all []T) {
	if n == 0 {
		return nil, nil
	}
	var element T
	first = (*T)(C.titrate_rules_allocate(b.rules, C.size_t(n)*C.size_t(unsafe.Sizeof(element))))
	return first, unsafe.Slice(first, n)
}

func (b builder) text(s string) C.abi_bytes {
	first, all := array[byte](b, len(s)+1)
	copy(all, s)
	return C.abi_bytes{ptr: (*C.char)(unsafe.Pointer(first)), length: C.size_t(len(s))}
}

func (b builder) texts(to *C.struct_titrate_texts, from []string) {
	first, all := array[C.abi_bytes](b, len(from))
	for i, s := range from {
		all[i] = b.text(s)
	}
	to.count, to.list = C.size_t(len(from)), first
}

// sourceKinds maps each kind of source to C's way of reading it. TestEachKindHasASource checks that no kind is
// missing.
var sourceKinds = [settings.Kinds]struct{ kind, attribute C.int }{
	settings.Header:        {kind: C.TITRATE_HEADER},
	settings.Literal:       {kind: C.TITRATE_LITERAL},
	settings.Route:         {C.TITRATE_ATTRIBUTE, C.ABI_ATTRIBUTE_ROUTE_NAME},
	settings.VirtualHost:   {C.TITRATE_ATTRIBUTE, C.ABI_ATTRIBUTE_VIRTUAL_HOST_NAME},
	settings.Cluster:       {kind: C.TITRATE_CLUSTER},
	settings.Cookie:        {kind: C.TITRATE_COOKIE},
	settings.Query:         {kind: C.TITRATE_QUERY},
	settings.Metadata:      {kind: C.TITRATE_METADATA},
	settings.FilterState:   {kind: C.TITRATE_FILTER_STATE},
	settings.Subject:       {C.TITRATE_ATTRIBUTE, C.ABI_ATTRIBUTE_PEER_SUBJECT},
	settings.URISAN:        {C.TITRATE_ATTRIBUTE, C.ABI_ATTRIBUTE_PEER_URI_SAN},
	settings.DNSSAN:        {C.TITRATE_ATTRIBUTE, C.ABI_ATTRIBUTE_PEER_DNS_SAN},
	settings.Digest:        {C.TITRATE_ATTRIBUTE, C.ABI_ATTRIBUTE_PEER_SHA256},
	settings.SourceAddress: {kind: C.TITRATE_ADDRESS},
}

func (b builder) sources(to *C.struct_titrate_sources, from []settings.Source) {
	first, all := array[C.struct_titrate_source](b, len(from))
	for i, s := range from {
		k := sourceKinds[s.Kind]
		all[i] = C.struct_titrate_source{
			kind: k.kind, attribute: k.attribute, text: b.text(s.Text), space: b.text(s.Namespace),
			prefix: b.text(s.Prefix), number: C.double(s.Number),
			envoys: C.bool(s.Address.Envoys), hops: C.int(s.Address.TrustedHops),
			v4: C.int(s.Address.IPv4Prefix), v6: C.int(s.Address.IPv6Prefix),
		}
	}
	to.count, to.list = C.size_t(len(from)), first
}

func (b builder) class(to *C.struct_titrate_class, from []settings.Match) {
	first, all := array[C.struct_titrate_match](b, len(from))
	for i, m := range from {
		b.texts(&all[i].methods, m.Methods)
		b.texts(&all[i].paths, m.Paths)
		b.texts(&all[i].prefixes, m.PathPrefixes)
		header, headers := array[C.struct_titrate_header_match](b, len(m.Headers))
		for j, h := range m.Headers {
			headers[j] = C.struct_titrate_header_match{
				name: b.text(h.Name), text: b.text(h.Text), how: C.int(h.How), invert: C.bool(h.Invert),
			}
		}
		all[i].headers, all[i].header = C.size_t(len(m.Headers)), header
	}
	to.count, to.list = C.size_t(len(from)), first
}

// answers copies the operator's selection of answers. The numbers of the choices are the same in C
// (constants.go).
func (b builder) answers(to *C.struct_titrate_answer_options, from *settings.Answers) {
	if from.Mode != nil {
		to.mode = C.int(*from.Mode) + 1
	}
	to.status, to.body = C.uint32_t(from.Status), C.int(from.Body)
	to.rate_limit, to.log = C.int(from.RateLimit), C.int(from.Log)
	to.log_to, to.log_client = C.int(from.LogTo), C.int(from.LogClient)
	if from.LogKey != nil {
		to.log_key.set = true
		to.log_key.k = [2]C.uint64_t{C.uint64_t(from.LogKey[0]), C.uint64_t(from.LogKey[1])}
	}
	to.mark_upstream, to.rate_limit_policy = toggle(from.MarkUpstream), toggle(from.RateLimitPolicy)
	for _, name := range []struct {
		from settings.HeaderName
		to   *C.struct_titrate_name
	}{{from.Reason, &to.reason}, {from.RequestID, &to.request_id}, {from.Limited, &to.limited},
		{from.Wait, &to.wait}, {from.Congestion, &to.congestion}, {from.Peek, &to.peek}} {
		if name.from != nil {
			name.to.set, name.to.text = true, b.text(*name.from)
		}
	}
	b.responseCost(&to.cost, &from.Cost)
}

func (b builder) responseCost(to *C.struct_titrate_response_cost, from *settings.ResponseCost) {
	to.from, to.usage, to.name, to.space = C.int(from.From), C.int(from.Usage), b.text(from.Name), b.text(from.Space)
	e := &from.Estimate
	to.first, to.least, to.most = C.double(e.First), C.double(e.Least), C.double(e.Most)
	to.percentile = C.int(e.Percentile)
}

// costs copies the costs with names; from is nil where they are unset.
func (b builder) costs(to *C.struct_titrate_named_costs, from []settings.Cost, slots []int) {
	first, all := array[C.struct_titrate_named_cost](b, len(from))
	for i := range from {
		all[i].slot = C.int(slots[i])
		b.sources(&all[i].request, from[i].Sources)
		b.responseCost(&all[i].response, &from[i].Response)
	}
	to.set, to.count, to.list = C.bool(from != nil), C.size_t(len(from)), first
}

func (b builder) usage(to *C.struct_titrate_usage_format, from []settings.UsagePath) {
	first, all := array[C.struct_titrate_usage_path](b, len(from))
	for i, p := range from {
		all[i].field, all[i].counts, all[i].length = C.uint8_t(p.Field), C.uint8_t(p.Counts), C.uint8_t(len(p.Keys))
		for j, key := range p.Keys {
			if key != settings.AnyElement {
				all[i].key[j] = b.text(key)
			}
		}
	}
	to.count, to.path = C.size_t(len(from)), first
}
