package link

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Config is one whole configuration. The filter's engine validates it; the link
// only carries it.
type Config struct {
	Revision int64 `json:"revision"`
	// Seed of the keys' hash; all replicas must share it.
	Seed  uint64 `json:"seed"`
	Pools []Pool `json:"pools,omitempty"`
	// Defaults are limits of every tenant that has none of the same name, the tenant
	// "-" included. Since version 2: see [Config.Inherited].
	Defaults []Limit  `json:"defaults,omitempty"`
	Tenants  []Tenant `json:"tenants,omitempty"`
}

// Inherited is the configuration with the defaults copied into each tenant, as
// version 1 has it. It is as large as tenants times defaults. c stays as it is.
func (c *Config) Inherited() *Config {
	if len(c.Defaults) == 0 {
		return c
	}
	out := *c
	out.Defaults, out.Tenants = nil, slices.Clone(c.Tenants)
	for i := range out.Tenants {
		t := &out.Tenants[i]
		own := t.Limits
		t.Limits = slices.Clone(own)
		for _, l := range c.Defaults {
			if !slices.ContainsFunc(own, func(o Limit) bool { return o.Name == l.Name }) {
				t.Limits = append(t.Limits, l)
			}
		}
		slices.SortFunc(t.Limits, func(a, b Limit) int { return strings.Compare(a.Name, b.Name) })
	}
	return &out
}

// Fits returns an error if the configuration cannot be sent: it cannot be encoded,
// or takes more than MaxMessage. It costs as much as sending it.
func (c *Config) Fits() error {
	b, err := json.Marshal(c)
	if err != nil {
		return fmt.Errorf("link: encode Config: %w", err)
	}
	if most := maxMessage(kindConfig); len(b) > most {
		return fmt.Errorf("link: the configuration takes %d bytes, gateways take at most %d: "+
			"it has too many tenants, quotas, limits or overrides", len(b), most)
	}
	return nil
}

// Pool is an upstream with a capacity in cost units per second.
type Pool struct {
	Name     string  `json:"name"`
	Capacity float64 `json:"capacity"`
	Queue    Queue   `json:"queue"`
	OnLoss   OnLoss  `json:"on_loss,omitempty"`
	// HardExpiry of shares, used by OnLossSafeRate; 0 = never.
	HardExpiry time.Duration `json:"hard_expiry_ns,omitempty"`
	// Adaptive asks for reports of what the upstream has finished.
	Adaptive bool `json:"adaptive,omitempty"`
}

// Queue says how requests wait. Zero values mean the engine's defaults.
type Queue struct {
	Law         Law           `json:"law,omitempty"`
	DelayTarget time.Duration `json:"delay_target_ns,omitempty"`
	MaxWait     time.Duration `json:"max_wait_ns,omitempty"`
	MaxRequests int           `json:"max_requests,omitempty"`
}

// Tenant is a customer or team; the one named "-" stands for unknown ones.
type Tenant struct {
	Name   string  `json:"name"`
	Weight float64 `json:"weight"`
	Limits []Limit `json:"limits,omitempty"`
	Quotas []Quota `json:"quotas,omitempty"`
}

// Quota is a tenant's claim on one pool, in cost units per second. Max is +Inf
// where there is none (absent on the wire).
type Quota struct {
	Pool       string
	Guaranteed float64
	Max        float64
	Mode       Mode
	// Unknown is as in [Limit].
	Unknown string
}

// Limit is a rate per client, or per tenant, in cost units per second.
type Limit struct {
	Name string `json:"name"`
	// PerTenant counts all clients of the tenant together.
	PerTenant bool    `json:"per_tenant,omitempty"`
	Rate      float64 `json:"rate"`
	Burst     float64 `json:"burst"`
	// Pools that it applies to; empty = all.
	Pools []string `json:"pools,omitempty"`
	// Overrides by client name.
	Overrides map[string]RateBurst `json:"overrides,omitempty"`
	Queue     Queue                `json:"queue"`
	Mode      Mode                 `json:"mode,omitempty"`
	Strict    bool                 `json:"strict,omitempty"`
	// Identity tells clients apart, by its name in the filter's settings; "" is
	// the client.
	Identity string `json:"identity,omitempty"`
	// Classes of requests that it applies to, by their names in the filter's
	// settings; empty = all.
	Classes []string `json:"classes,omitempty"`
	// Unknown is a field of the limit that this build does not know, "" if it
	// knows all of them. It is set when a limit is read: what such a limit means
	// is not known, so it must not be enforced.
	Unknown string `json:"-"`
}

// RateBurst is a rate in units/s with the burst that goes with it.
type RateBurst struct {
	Rate  float64 `json:"rate"`
	Burst float64 `json:"burst"`
}

// Law names the queue management law.
type Law string

// The laws. An empty Law means VariableStructure.
const (
	VariableStructure Law = "VARIABLE_STRUCTURE"
	DropTail          Law = "DROP_TAIL"
	Police            Law = "POLICE"
	CoDel             Law = "CODEL"
)

// Mode tells what the limiter does with its decisions.
type Mode string

// The modes. An empty Mode means Enforce.
const (
	Enforce Mode = "ENFORCE"
	Shadow  Mode = "SHADOW"
	Off     Mode = "OFF"
)

// OnLoss tells what becomes of a pool whose shares have expired.
type OnLoss string

// The policies. An empty OnLoss means Freeze.
const (
	Freeze   OnLoss = "FREEZE"
	SafeRate OnLoss = "SAFE_RATE"
	Open     OnLoss = "OPEN"
)

// quotaJSON is Quota with an optional Max, since JSON has no infinity.
type quotaJSON struct {
	Pool       string   `json:"pool"`
	Guaranteed float64  `json:"guaranteed,omitempty"`
	Max        *float64 `json:"max,omitempty"`
	Mode       Mode     `json:"mode,omitempty"`
}

// MarshalJSON leaves max out when it is +Inf.
func (q Quota) MarshalJSON() ([]byte, error) {
	w := quotaJSON{Pool: q.Pool, Guaranteed: q.Guaranteed, Mode: q.Mode}
	if !math.IsInf(q.Max, 1) {
		w.Max = &q.Max
	}
	return json.Marshal(w)
}

// UnmarshalJSON notes a field that is not known. Fields of the limit's own objects
// count too.
func (l *Limit) UnmarshalJSON(b []byte) error {
	type plain Limit // without this method
	var p plain
	unknown, err := decodeKnown(b, &p)
	if err == nil {
		*l = Limit(p)
		l.Unknown = unknown
	}
	return err
}

// decodeKnown reads v and returns the name of the first field that v does not have.
func decodeKnown(b []byte, v any) (unknown string, err error) {
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err = d.Decode(v); err == nil {
		return "", nil
	}
	quoted, ok := strings.CutPrefix(err.Error(), "json: unknown field ")
	if !ok {
		return "", err
	}
	if unknown, err = strconv.Unquote(quoted); err != nil {
		return "", err
	}
	return unknown, json.Unmarshal(b, v)
}

// UnmarshalJSON reads an absent max as +Inf, and notes a field that is not known.
func (q *Quota) UnmarshalJSON(b []byte) error {
	var w quotaJSON
	unknown, err := decodeKnown(b, &w)
	if err != nil {
		return err
	}
	*q = Quota{Pool: w.Pool, Guaranteed: w.Guaranteed, Max: math.Inf(1), Mode: w.Mode, Unknown: unknown}
	if w.Max != nil {
		q.Max = *w.Max
	}
	return nil
}
