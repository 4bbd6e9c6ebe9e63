// Package trace is the record of a run: one NDJSON line per request, written
// by the load generator, from which the verdict can be computed again.
//
// # Form
//
//	{"t":1.204512,"gateway":"gw-1","tenant":"acme","client":"acme-3","status":200,
//	 "waitMs":12.4,"late":0.000113,"latency":0.071,"at":1.217}
//
// Every line is a request. The first line also has the run's scenario (key "scenario"), so that a trace is
// complete. Times are seconds since the start of the load.
//
// Lines are in the order in which requests ended, not in which they began.
package trace

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/titrate/titrate/lab/dev/scenario"
)

// Record is one request, seen from its client.
type Record struct {
	// T is the time of the request in the schedule, s.
	T       float64 `json:"t"`
	Gateway string  `json:"gateway"`
	Tenant  string  `json:"tenant"`
	Client  string  `json:"client"`
	// Status is the HTTP status; 0 = no answer, see Error.
	Status int `json:"status"`
	// WaitMs is the time that the gateway held the request, ms, as the gateway reports it.
	WaitMs float64 `json:"waitMs"`
	// Late is the time from T until the request was really sent, s.
	Late float64 `json:"late"`
	// Latency is from T to the end of the answer, s.
	Latency float64 `json:"latency"`
	// At is the time at which the upstream received the request, s; 0: never.
	At float64 `json:"at,omitempty"`
	// Mark: the answer carried a congestion mark.
	Mark bool `json:"mark,omitempty"`
	// Reason of a 429, from the gateway.
	Reason string `json:"reason,omitempty"`
	// Error is the reason why there was no answer; Dropped and Aborted are the generator's own.
	Error string `json:"error,omitempty"`
}

// Dropped is the Error of a request that the generator did not start because
// too many were in flight.
const Dropped = "dropped by the load generator: too many in flight"

// Aborted is the Error of a request that had no answer yet when the generator ended.
const Aborted = "aborted by the load generator: it has ended"

// Sent returns the time at which the request was really sent, s since the start.
func (r *Record) Sent() float64 { return r.T + r.Late }

// Admitted reports whether it got past the gateway.
func (r *Record) Admitted() bool { return r.At > 0 || r.Status/100 == 2 }

// AdmittedAt returns the time at which the request passed the gateway: the upstream's time of receipt, or
// otherwise the time of sending plus the gateway's wait.
func (r *Record) AdmittedAt() float64 {
	if r.At > 0 {
		return r.At
	}
	return r.Sent() + r.WaitMs/1e3
}

// Failed reports any end but an answer 2xx or 429.
func (r *Record) Failed() bool { return r.Status/100 != 2 && r.Status != 429 }

type line struct {
	Scenario *scenario.Scenario `json:"scenario,omitempty"`
	Record
}

// Write writes a whole trace. Without records it writes nothing.
func Write(w io.Writer, s *scenario.Scenario, records []Record) error {
	b := bufio.NewWriterSize(w, 1<<16)
	enc := json.NewEncoder(b)
	for i := range records {
		l := line{Record: records[i]}
		if i == 0 {
			l.Scenario = s
		}
		if err := enc.Encode(l); err != nil {
			return fmt.Errorf("trace: line %d: %w", i+1, err)
		}
	}
	return b.Flush()
}

// maxLine bounds a line; the longest carries the scenario.
const maxLine = 1 << 20

// Read reads a whole trace.
func Read(r io.Reader) (*scenario.Scenario, []Record, error) {
	in := bufio.NewScanner(r)
	in.Buffer(make([]byte, 0, 1<<16), maxLine)
	var s *scenario.Scenario
	var records []Record
	for in.Scan() {
		var l line
		if err := json.Unmarshal(in.Bytes(), &l); err != nil {
			return nil, nil, fmt.Errorf("trace: line %d: %w", len(records)+1, err)
		}
		if l.Scenario != nil {
			if s != nil {
				return nil, nil, fmt.Errorf("trace: line %d: a second scenario", len(records)+1)
			}
			s = l.Scenario
		}
		records = append(records, l.Record)
	}
	if err := in.Err(); err != nil {
		return nil, nil, fmt.Errorf("trace: line %d: %w", len(records)+1, err)
	}
	if s == nil {
		return nil, nil, errors.New("trace: no scenario in its first line: " +
			`was it written by "titrate-lab dev --trace"?`)
	}
	return s, records, s.Validate()
}
