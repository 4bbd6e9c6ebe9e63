// Package view shows a run in progress: a live table in a terminal, one line every other second elsewhere.
//
// # Model
//
// A [Sample] has the figures of one moment. [Table] and [Line] turn a sample into text, as pure functions;
// [Run] asks for a sample at fixed times and prints it. The package measures nothing itself.
package view

import "time"

// Sample is a moment of a run. Rates are requests per second.
type Sample struct {
	Phase     string
	Elapsed   time.Duration
	Total     time.Duration
	PhaseLeft time.Duration
	Pool      Pool
	Tenants   []Tenant
	Clients   []Client
	Gateways  []Gateway
	Failed    int     // so far
	LateMs    float64 // worst lateness of a start in the last interval
	Notes     []Note  // what was done to the system, oldest first
}

// Pool is the shared upstream.
type Pool struct {
	Capacity, Wants, Gets float64
	Price                 float64
	Known                 bool // Price is the coordinator's present one
}

// Tenant of the pool.
type Tenant struct {
	Name      string
	Weight    float64
	Wants     float64
	Gets      float64
	FairShare float64 // exact, for the scenario's demand
	WaitMs    float64 // p99
	Marks     float64
	Rejects   float64
	Share     float64 // the coordinator's
	State     string
}

// Client is a client with its own limit.
type Client struct {
	Name                     string
	Rate, Burst, Wants, Gets float64
	Rejects                  float64
	Exact                    bool // precision EXACT, otherwise LOCAL
}

// Gateway is an Envoy with its agent.
type Gateway struct {
	Name                 string
	Wants, Gets, Rejects float64
	State                string
}

// Note is something that was done at a time of the run.
type Note struct {
	At   time.Duration
	Text string
}
