package system

import (
	"time"

	"github.com/titrate/titrate/control/limiter"
	"github.com/titrate/titrate/lab/simulate/scenario"
	"github.com/titrate/titrate/lab/simulate/traffic"
)

// System is a rate limiting system. Times count from the scenario's start and never decrease.
type System interface {
	// Offer brings a request at r.At; id is larger than all before. The request is
	// the caller's: keep no pointer to it.
	Offer(id int, r *traffic.Request)
	// Happen plays an event at e.At. Stage's Scenario and Cast already have its numbers in force.
	Happen(e *scenario.Event)
	// Advance does the work that is due until now, inclusive.
	Advance(now time.Duration)
}

// Talker is a System whose agents report to each other what their gateways use.
type Talker interface {
	// Sent returns the traffic that each agent has sent since the scenario's start, by place in Cast.Gateways.
	Sent() []Sent
}

// Sent is the traffic that one agent has sent to other agents.
type Sent struct {
	Bytes, Packets, Records int           // without the headers of IP and UDP, and the seal
	Time                    time.Duration // that the agent ran
}

// Maker makes a system that stands at −Scenario.Lead.
type Maker func(Stage) (System, error)

// Stage is the surroundings of a system. It belongs to the caller: a system only reads it.
type Stage struct {
	Scenario *scenario.Scenario // its limits and capacities follow the events
	Cast     *traffic.Cast      // its keys' rates follow the events
	Up       []bool             // by place in Cast.Gateways: there at the start
	Answer   func(Answer)       // takes the outcomes of requests
}

// Fate is the outcome of a request.
type Fate uint8

// The fates.
const (
	Admitted  Fate = iota
	Rejected       // with a 429
	Abandoned      // its client was tired of waiting
	Lost           // it waited at a gateway that died
	Fates          // the number of fates; not a fate
)

var fateNames = [Fates]string{"admitted", "rejected", "abandoned", "lost"}

// String is the fate in lower case.
func (f Fate) String() string {
	if f < Fates {
		return fateNames[f]
	}
	return "unknown"
}

// Answer is the outcome of one request.
type Answer struct {
	ID     int
	At     time.Duration // when it was decided; later than the request if it waited
	Fate   Fate
	Reason limiter.Reason // of a Rejected one
	Limit  string         // that rejected it, if the system says so
	Mark   bool           // admitted with a congestion mark
}
