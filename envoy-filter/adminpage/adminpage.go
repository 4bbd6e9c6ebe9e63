// Package adminpage is the page /titrate on Envoy's admin port. It shows the configuration and leases in
// force in this gateway, the clients that are limited the most, and the limits of one client's requests.
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
//   - Each number says of which time it is: of now, since the start, since the gateway has
//     the lease, or of the window of the top clients, see heavyhitters.Window.
//   - A request for the page changes nothing: nothing is charged, counted or claimed,
//     see limiter.Explain.
//   - Names come from outside and are quoted, in text and in JSON.
//   - A parameter that is unknown, or has a wrong value, is an error that names it.
//
// Envoy asks for the page on its main thread, not on a worker. Requests are affected only by the short locks of
// the structures that it reads.
package adminpage

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/titrate/titrate/control/limiter"
	"github.com/titrate/titrate/envoy-filter/heavyhitters"
)

// Path is the page's path on Envoy's admin port.
const Path = "/titrate"

// Link is the state of the link to the agent.
type Link struct {
	Connected       bool   `json:"connected"`
	Sessions        uint64 `json:"sessions"`        // since the start
	Malformed       uint64 `json:"malformed"`       // since the start: sessions that ended by malformed bytes
	RefusedRevision int64  `json:"refusedRevision"` // the last refused configuration, 0: none, or replaced since
	RefusedReason   string `json:"refusedReason,omitempty"`
	// LimitsLeftOut is the number of limits of the configuration in force that are not
	// enforced, since this filter cannot read them. LeftOut lists the first of them,
	// with their reasons.
	LimitsLeftOut int64    `json:"limitsLeftOut"`
	LeftOut       []string `json:"leftOut,omitempty"`
}

// Source has the page's inputs. All fields are required.
type Source struct {
	Engine  *limiter.Engine
	Refused *heavyhitters.Sketch // requests refused
	Held    *heavyhitters.Sketch // seconds held
	Link    func() Link
	Names   func() limiter.Names
	Now     func() int64 // the engine's clock
	Panics  func() uint64
	Replica string
	Started time.Time
}

// Answer returns the HTTP status and the body for a path with its query.
func (s *Source) Answer(path string) (status int, body []byte) {
	q, err := parse(path)
	if err != nil {
		return http.StatusBadRequest, []byte(err.Error() + "\n")
	}
	if q == nil {
		return http.StatusNotFound, []byte("no such page; " + Path + " is one\n")
	}
	if q.oneClient {
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
		const text = "titrate: this page is no JSON; this is a bug, please report it: %v\n"
		return http.StatusInternalServerError, fmt.Appendf(nil, text, err)
	}
	return http.StatusOK, append(b, '\n')
}

// number is a quantity with 6 digits; in JSON it is null if it is not finite.
type number float64

// MarshalJSON writes a JSON number, or null.
func (n number) MarshalJSON() ([]byte, error) {
	if math.IsNaN(float64(n)) || math.IsInf(float64(n), 0) {
		return []byte("null"), nil
	}
	digits, err := strconv.ParseFloat(strconv.FormatFloat(float64(n), 'g', 6, 64), 64) // 6 digits
	if err != nil {
		return nil, err
	}
	return json.Marshal(digits)
}
