// Package page is what /titrate on Envoy's admin port says: what this gateway has
// in force, who is limited the most, and what bears on one request. It answers the
// one on call: who is limited, by what, why.
//
//	/titrate                                what is in force, leases, top clients
//	/titrate?tenant=acme&client=alice       one client, at each pool
//	    &pool=api&cost=3                    at one pool, for a request of that cost
//	    &identity.user=u1&class=write       by another identity, in a class (may repeat)
//	    &limit=50                           rows of lists, 1 to 1000, default 20
//	    &format=json                        for programs; else text
//
// # Invariants
//
//   - Asking changes nothing: nothing is charged, counted or claimed, see
//     limiter.Explain.
//   - Names come from outside and are quoted, in text as in JSON.
//   - A parameter that is unknown, or has a wrong value, is an error that names it.
//
// Envoy calls it on its main thread, not on a worker: a page costs requests nothing
// but the short locks of what it looks at.
package page

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/titrate/titrate/control/limiter"
	"github.com/titrate/titrate/envoy-filter/top"
)

// Path is where Envoy's admin port has the page.
const Path = "/titrate"

// Link is what is known of the link to the agent.
type Link struct {
	Connected       bool   `json:"connected"`
	Sessions        uint64 `json:"sessions"`
	Malformed       uint64 `json:"malformed"`       // sessions that malformed bytes ended
	RefusedRevision int64  `json:"refusedRevision"` // configuration refused last and not replaced since, 0: none
	RefusedReason   string `json:"refusedReason,omitempty"`
	// LimitsLeftOut of the configuration in force are not enforced, since this
	// filter cannot read them; LeftOut lists the first of them, each with its reason.
	LimitsLeftOut int64    `json:"limitsLeftOut"`
	LeftOut       []string `json:"leftOut,omitempty"`
}

// Source is what the page reads. All fields are needed.
type Source struct {
	Engine  *limiter.Engine
	Refused *top.Sketch // requests refused
	Held    *top.Sketch // seconds held
	Link    func() Link
	Names   func() limiter.Names
	Now     func() int64 // the engine's clock
	Panics  func() uint64
	Replica string
	Started time.Time
}

// Answer answers a request for a path with its query: an HTTP status and a body.
func (s *Source) Answer(path string) (status int, body []byte) {
	q, err := parse(path)
	if err != nil {
		return http.StatusBadRequest, []byte(err.Error() + "\n")
	}
	if q == nil {
		return http.StatusNotFound, []byte("no such page; " + Path + " is one\n")
	}
	if q.about {
		return render(q, s.explain(q))
	}
	return render(q, s.overview(q))
}

// view is a page's content: it marshals to JSON and writes itself as text.
type view interface{ text(w *writer) }

func render(q *query, v view) (int, []byte) {
	if !q.json {
		return http.StatusOK, asText(v)
	}
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return http.StatusInternalServerError, fmt.Appendf(nil, "titrate: this page is no JSON; this is a bug, please report it: %v\n", err)
	}
	return http.StatusOK, append(b, '\n')
}

// number is a quantity that JSON can have: infinite and undefined ones are left out.
type number float64

// MarshalJSON writes null for what is not a finite number.
func (n number) MarshalJSON() ([]byte, error) {
	if math.IsNaN(float64(n)) || math.IsInf(float64(n), 0) {
		return []byte("null"), nil
	}
	digits, err := strconv.ParseFloat(strconv.FormatFloat(float64(n), 'g', 6, 64), 64) // more would be noise
	if err != nil {
		return nil, err
	}
	return json.Marshal(digits)
}
