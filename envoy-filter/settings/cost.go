package settings

import (
	"encoding/json"
	"maps"
	"math"
	"slices"

	"github.com/titrate/titrate/control/limiter"
)

// CostFrom selects the place of a response's cost.
type CostFrom uint8

// The places.
const (
	CostNowhere CostFrom = iota + 1
	CostHeader
	CostTrailer
	CostMetadata
	CostDuration  // the seconds at the upstream
	CostUsage     // the tokens that the answer of a language model says
	CostKilobytes // of the response's body
)

// Cost is a cost with a name. Limits and pools count by it that name it.
type Cost struct {
	Name string
	// Sources of the request; none: the response says it, or the request has no such cost.
	Sources  []Source
	Response ResponseCost
}

// MaxCosts bounds the named costs of a request.
const MaxCosts = 4

// ResponseCost says where a response has a request's true cost, and how costs are estimated before.
type ResponseCost struct {
	// From is the place; 0 is unset. Name is the header, trailer or metadata key, Space the namespace, Usage the
	// number of CostUsage.
	From        CostFrom
	Usage       Usage
	Name, Space string
	Estimate    Estimate
}

// Estimate says how the cost of a request is estimated that no source of its cost gives: by the costs of recent
// responses, within [Least, Most], in cost units. Where Least is Most, it is that.
type Estimate struct {
	// First is the estimate before anything is known.
	First, Least, Most float64
	// Percentile of the recent costs, 1 to 99; 0 is their mean.
	Percentile int
}

// Defaults and bounds of an Estimate.
const (
	DefaultFirst      = 1.0
	DefaultPercentile = 90
	minPercentile     = 1
	maxPercentile     = 99
	leastEstimate     = 1e-6
)

var responseCostFields = []string{"header", "trailer", "metadata", "duration", "usage", "kilobytes", "estimate"}

// responseCost reads the place of a response's cost.
func responseCost(field string, raw []byte) (c ResponseCost, err error) {
	if c.From = CostNowhere; off(raw) {
		return c, nil
	}
	fields, err := object(field, raw, responseCostFields...)
	if err != nil {
		return c, err
	}
	estimated := fields["estimate"]
	delete(fields, "estimate")
	if len(fields) != 1 {
		const text = "needs exactly one of header, trailer, metadata, duration, usage, kilobytes; it has %d"
		return c, wrong(field, text, len(fields))
	}
	if err := c.readPlace(field, fields); err != nil {
		return c, err
	}
	c.Estimate, err = c.From.estimate(join(field, "estimate"), estimated)
	return c, err
}

// readPlace reads the only field.
func (c *ResponseCost) readPlace(field string, fields map[string]json.RawMessage) (err error) {
	switch {
	case fields["header"] != nil:
		c.From = CostHeader
		c.Name, err = headerIn(fields, field, "header")
	case fields["trailer"] != nil:
		c.From = CostTrailer
		c.Name, err = headerIn(fields, field, "trailer")
	case fields["metadata"] != nil:
		c.From = CostMetadata
		err = c.readMetadata(join(field, "metadata"), fields["metadata"])
	case fields["usage"] != nil:
		c.From = CostUsage
		err = c.readUsage(field, fields)
	case fields["kilobytes"] != nil:
		c.From = CostKilobytes
		err = isTrue(join(field, "kilobytes"), fields["kilobytes"])
	default:
		c.From = CostDuration
		err = isTrue(join(field, "duration"), fields["duration"])
	}
	return err
}

func (c *ResponseCost) readUsage(field string, fields map[string]json.RawMessage) error {
	const choices = "INPUT, OUTPUT or TOTAL"
	var name string
	if err := value(fields, field, "usage", choices, &name); err != nil {
		return err
	}
	if c.Usage = usages[name]; c.Usage == 0 {
		return wrong(join(field, "usage"), "is %q, %s is needed", name, choices)
	}
	return nil
}

func (c *ResponseCost) readMetadata(field string, raw []byte) error {
	m, err := object(field, raw, "namespace", "key")
	if err != nil {
		return err
	}
	for key, to := range map[string]*string{"namespace": &c.Space, "key": &c.Name} {
		if err := value(m, field, key, "a string", to); err != nil {
			return err
		}
		if *to == "" {
			return wrong(join(field, key), "is missing; dynamic metadata is found by namespace and key")
		}
	}
	return nil
}

// estimate reads how costs are estimated; raw nil is all defaults. Durations are estimated by their mean: a
// percentile would let fewer requests pass than the capacity has room for. What an upstream says in a field of its own
// may be a count of failures, mostly 0: an estimate by that would let any number pass at once. So it is always the
// default, unless the operator writes estimate.
func (from CostFrom) estimate(field string, raw []byte) (e Estimate, err error) {
	e = Estimate{First: DefaultFirst, Least: leastEstimate, Most: limiter.MaxCost, Percentile: DefaultPercentile}
	names := []string{"first", "least", "most", "percentile"}
	if from == CostDuration {
		e.Percentile, names = 0, names[:3]
	}
	if raw == nil {
		if from == CostHeader || from == CostTrailer || from == CostMetadata {
			e.Least, e.Most = e.First, e.First
		}
		return e, nil
	}
	m, err := object(field, raw, names...)
	if err != nil {
		return e, err
	}
	for key, to := range map[string]*float64{"first": &e.First, "least": &e.Least, "most": &e.Most} {
		if err := value(m, field, key, "a number of cost units", to); err != nil {
			return e, err
		}
		if !(*to >= leastEstimate && *to <= limiter.MaxCost) {
			return e, wrong(join(field, key), "is %v, a number from 0.000001 to 1000000 is needed", *to)
		}
	}
	if e.Least > e.Most {
		return e, wrong(join(field, "least"), "is %v, more than most, which is %v", e.Least, e.Most)
	}
	if _, ok := m["percentile"]; ok {
		e.Percentile, err = percentile(m, field)
	}
	return e, err
}

func percentile(m map[string]json.RawMessage, field string) (int, error) {
	var p float64
	if err := value(m, field, "percentile", "a number", &p); err != nil {
		return 0, err
	}
	if p != math.Trunc(p) || p < minPercentile || p > maxPercentile {
		return 0, wrong(join(field, "percentile"), "is %v, a whole number from 1 to 99 is needed", p)
	}
	return int(p), nil
}

// isTrue reads a field whose only value is true.
func isTrue(field string, raw json.RawMessage) error {
	on := false
	if json.Unmarshal(raw, &on) != nil || !on {
		return wrong(field, "is %s, true is needed", brief(raw))
	}
	return nil
}

// costs reads an object of costs by name: a number, or what the request and the response say. false is none.
func costs(field string, raw []byte) ([]Cost, error) {
	out := []Cost{}
	if off(raw) {
		return out, nil
	}
	var m map[string]json.RawMessage
	if json.Unmarshal(raw, &m) != nil || len(m) == 0 || len(m) > MaxCosts {
		return nil, wrong(field, "is %s, an object of 1 to %d costs by name is needed", brief(raw), MaxCosts)
	}
	for _, name := range slices.Sorted(maps.Keys(m)) {
		at := join(field, name)
		if err := checkName(at, name); err != nil {
			return nil, err
		}
		c, err := namedCost(at, m[name])
		if err != nil {
			return nil, err
		}
		c.Name = name
		out = append(out, c)
	}
	return out, nil
}

func namedCost(field string, raw []byte) (c Cost, err error) {
	if json.Unmarshal(raw, new(float64)) == nil {
		s := Source{}
		if err := literalCost(field, raw, &s); err != nil {
			return c, err
		}
		c.Sources = []Source{s}
		return c, nil
	}
	m, err := object(field, raw, "cost", "response_cost")
	if err != nil {
		return c, err
	}
	if len(m) == 0 {
		const text = `is empty; say where the request or the response has it, e.g. {"cost": {"header": "x-cost"}}`
		return c, wrong(field, text)
	}
	if of, ok := m["cost"]; ok {
		if c.Sources, err = sources(join(field, "cost"), of, cost); err != nil {
			return c, err
		}
	}
	if of, ok := m["response_cost"]; ok {
		c.Response, err = responseCost(join(field, "response_cost"), of)
	}
	return c, err
}

// countsUsage reports whether a cost is the usage of a language model.
func (f *Filter) countsUsage() bool {
	return f.Answers.Cost.From == CostUsage ||
		slices.ContainsFunc(f.Costs, func(c Cost) bool { return c.Response.From == CostUsage })
}
