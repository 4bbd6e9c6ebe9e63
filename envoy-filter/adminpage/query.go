package adminpage

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/titrate/titrate/control/limiter"
)

// query has the parameters of a request for the page.
type query struct {
	oneClient            bool // explain one client
	tenant, client, pool string
	cost                 float64
	identities           map[string]string
	classes              []string
	rows                 int
	json                 bool
}

const (
	defaultRows = 20
	maxRows     = 1000
	// identity is the prefix of parameters for identities.
	identity = "identity."
	// longest bounds the query, bytes.
	longest = 8192
)

// parameters lists the known parameters, for errors.
const parameters = "tenant, client, pool, cost, class, identity.NAME, limit, format"

// parse reads a path with its query. It returns nil without an error for another path.
func parse(path string) (*query, error) {
	path, raw, _ := strings.Cut(path, "?")
	if strings.TrimSuffix(path, "/") != Path {
		return nil, nil
	}
	if len(raw) > longest {
		return nil, fmt.Errorf("the query has %d bytes, at most %d are read", len(raw), longest)
	}
	values, err := url.ParseQuery(raw)
	if err != nil {
		return nil, fmt.Errorf("the query is not readable: %w", err)
	}
	q := &query{cost: 1, rows: defaultRows, identities: map[string]string{}}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		for _, v := range values[name] {
			if err := q.set(name, v, len(values[name])); err != nil {
				return nil, err
			}
		}
	}
	slices.Sort(q.classes)
	if q.oneClient && q.tenant == "" {
		return nil, fmt.Errorf("tenant is missing: a client, pool, cost, class or identity is one tenant's")
	}
	return q, nil
}

// cost reads the parameter cost.
func cost(v string) (float64, error) {
	x, err := strconv.ParseFloat(v, 64)
	if err != nil || !(x > 0) || math.IsInf(x, 0) {
		return 0, fmt.Errorf("cost is %q, a number above 0 is needed", v)
	}
	return x, nil
}

// rows reads the parameter limit.
func rows(v string) (int, error) {
	n, err := strconv.Atoi(v)
	if err != nil || n < 1 || n > maxRows {
		return 0, fmt.Errorf("limit is %q, a whole number from 1 to %d is needed", v, maxRows)
	}
	return n, nil
}

// set reads one parameter; its name occurs times times.
func (q *query) set(name, v string, times int) (err error) {
	if times > 1 && name != "class" {
		return fmt.Errorf("%s is given %d times", name, times)
	}
	q.oneClient = q.oneClient || name != "limit" && name != "format"
	switch name {
	case "tenant":
		q.tenant = v
	case "client":
		q.client = v
	case "pool":
		q.pool = v
	case "class":
		q.classes = append(q.classes, v)
	case "cost":
		q.cost, err = cost(v)
		return err
	case "limit":
		q.rows, err = rows(v)
		return err
	case "format":
		if q.json = v == "json"; !q.json && v != "text" {
			return fmt.Errorf("format is %q, text or json is needed", v)
		}
	default:
		return q.setIdentity(name, v)
	}
	return nil
}

func (q *query) setIdentity(name, v string) error {
	called, is := strings.CutPrefix(name, identity)
	if !is || called == "" {
		return fmt.Errorf("%q is unknown; known are %s", name, parameters)
	}
	q.identities[called] = v
	return nil
}

// request builds the request to explain, at a pool. An error names an identity or a
// class that no filter of this Envoy knows.
func (q *query) request(pool string, names limiter.Names) (*limiter.Request, error) {
	r := &limiter.Request{Tenant: q.tenant, Client: q.client, Pool: pool, Cost: q.cost}
	for i, name := range names.Costs {
		if name != "" { // the question is about each of its costs
			r.Costs = cmp.Or(r.Costs, &limiter.Costs{})
			r.Costs[i] = q.cost
		}
	}
	for name, value := range q.identities {
		i := slices.Index(names.Identities[:], name)
		if i < 0 {
			return nil, fmt.Errorf("%s%s: no filter of this Envoy has an identity of that name", identity, name)
		}
		if r.Identities == nil {
			r.Identities = &limiter.Identities{}
		}
		r.Identities[i] = value
	}
	for _, name := range q.classes {
		i := slices.Index(names.Classes[:], name)
		if i < 0 || name == "" {
			return nil, fmt.Errorf("class %q: no filter of this Envoy has a class of that name", name)
		}
		r.Classes |= 1 << i
	}
	return r, nil
}
