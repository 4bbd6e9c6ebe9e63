package measure

// Result is the outcome of a scenario: the figures of each system.
type Result struct {
	Name            string   `json:"name,omitempty"`
	Seed            uint64   `json:"seed"`
	DurationSeconds float64  `json:"durationSeconds"`
	WarmupSeconds   float64  `json:"warmupSeconds"`
	Gateways        []string `json:"gateways"` // all that are ever there
	Events          []Event  `json:"events"`   // in order of time
	Systems         []System `json:"systems"`  // Titrate first, then baselines as asked for
}

// Event is something that happened.
type Event struct {
	AtSeconds float64 `json:"atSeconds"`
	What      string  `json:"what"` // such as "crash gw-2"
}

// System has the figures of one system.
type System struct {
	Name     string     `json:"name"`
	Requests Requests   `json:"requests"` // of the whole run
	Waits    Waits      `json:"waits"`    // of admitted requests after the warm-up
	Pools    []Pool     `json:"pools"`
	Flows    []Flow     `json:"flows"`
	Keys     []Key      `json:"keys"`
	InFlight []InFlight `json:"inFlight,omitempty"`
	Quotas   []Quota    `json:"quotas,omitempty"`
	Settling []Settling `json:"settling"`         // one per event that asks for it
	Gossip   *Gossip    `json:"gossip,omitempty"` // of a system with agents
	Series   *Series    `json:"series,omitempty"`
}

// Gossip are the rates at which an agent sends to other agents while it runs. They leave out the headers of
// IP and UDP, and the bytes that sealing adds to a packet.
type Gossip struct {
	Bytes   Figure `json:"bytesPerSecond"`
	Packets Figure `json:"packetsPerSecond"`
	Records Figure `json:"recordsPerSecond"` // claims and sums
}

// Figure is one of all agents.
type Figure struct {
	Mean float64 `json:"mean"` // of all agents
	Most float64 `json:"most"` // of one
}

// Requests counts requests. Offered = Admitted + Rejected + Abandoned + Lost + Waiting.
type Requests struct {
	Offered   int            `json:"offered"`
	Admitted  int            `json:"admitted"`
	Marked    int            `json:"marked"` // of the admitted
	Rejected  int            `json:"rejected"`
	Abandoned int            `json:"abandoned"`         // the client gave up waiting
	Lost      int            `json:"lost"`              // waited at a gateway that died
	Waiting   int            `json:"waiting"`           // at the end
	Reasons   map[string]int `json:"reasons,omitempty"` // of the rejected
}

// Waits are the waits of admitted requests, milliseconds. Requests that did not wait count as 0. P50 and P99
// are exact to 2 %.
type Waits struct {
	MeanMs float64 `json:"meanMs"`
	P50Ms  float64 `json:"p50Ms"`
	P99Ms  float64 `json:"p99Ms"`
	MaxMs  float64 `json:"maxMs"`
}

// Pool is the use of a pool.
type Pool struct {
	Pool          string  `json:"pool"`
	Capacity      float64 `json:"capacity"`      // mean after the warm-up, units/s
	Demand        float64 `json:"demand"`        // mean after the warm-up, within limits, units/s
	Admitted      float64 `json:"admitted"`      // mean after the warm-up, units/s
	Use           float64 `json:"use"`           // Admitted/Capacity
	WantedSeconds float64 `json:"wantedSeconds"` // after the warm-up, in phases with demand for the whole pool
	WantedUse     float64 `json:"wantedUse"`     // use in those phases; 0 without any
	HighestSecond float64 `json:"highestSecond"` // most admitted in any second of the run, units
	WorstExcess   float64 `json:"worstExcess"`   // over capacity·t, any window of the run, units
}

// Flow is a tenant's use of a pool. In a scenario without pools Pool is "" and
// there is no entitlement.
type Flow struct {
	Tenant   string   `json:"tenant"`
	Pool     string   `json:"pool"`
	Weight   float64  `json:"weight"`
	Requests Requests `json:"requests"`
	Waits    Waits    `json:"waits"`

	// Means after the warm-up, units/s. Wanted is the whole demand, Demand the part that one central bucket per
	// limit admits, Entitlement the exact weighted max-min share of Demand.
	Wanted      float64 `json:"wanted"`
	Demand      float64 `json:"demand"`
	Entitlement float64 `json:"entitlement"`
	Served      float64 `json:"served"`

	// WorstDeviation is the largest |served/fair − 1| over the phases in which the flow wants more than its
	// share. SaturatedSeconds is the total length of these phases, WorstAtSeconds the beginning of the worst. 0
	// without any.
	WorstDeviation   float64 `json:"worstDeviation"`
	WorstAtSeconds   float64 `json:"worstAtSeconds"`
	SaturatedSeconds float64 `json:"saturatedSeconds"`
	// LeastServed is the least served/entitlement of any phase after the warm-up,
	// saturated or not, first seconds included; 1 if there is none to judge.
	LeastServed float64 `json:"leastServed"`
	// Wrongful counts requests rejected for the tenant's share in phases in which
	// the flow wants less than its share.
	Wrongful int `json:"wrongful"`
}

// Key is a key of a limit: one client, or a whole tenant. Figures cover the whole run.
type Key struct {
	Tenant string  `json:"tenant"`
	Limit  string  `json:"limit"`
	Client string  `json:"client,omitempty"` // "" for a tenant's
	Rate   float64 `json:"rate"`             // at the end, units/s
	Burst  float64 `json:"burst"`            // at the end, units

	Offered       int     `json:"offered"`       // requests
	Admitted      int     `json:"admitted"`      // requests
	Central       int     `json:"central"`       // requests that one central bucket admits
	Rejected      int     `json:"rejected"`      // requests, for any reason
	WorstExcess   float64 `json:"worstExcess"`   // over rate·t + burst, any window, units; below 0: room left
	HighestSecond float64 `json:"highestSecond"` // units

	// Above are the phases in which the demand is above the rate: their length, the admitted rate, and the
	// central bucket's admitted rate in them, units/s.
	AboveSeconds float64 `json:"aboveSeconds"`
	AboveMean    float64 `json:"aboveMean"`
	AboveCentral float64 `json:"aboveCentral"`

	// Within counts requests that keep the client within rate and burst. Wrongful counts the requests of Within
	// that a limit rejected; WrongfulShare = Wrongful/Within.
	Within        int     `json:"within"`
	Wrongful      int     `json:"wrongful"`
	WrongfulShare float64 `json:"wrongfulShare"`
}

// Settling is the settling time after an event.
type Settling struct {
	AtSeconds float64 `json:"atSeconds"`
	What      string  `json:"what"`
	// Seconds until all pools, saturated flows and limits stayed within 5 % until
	// the next event; null if they did not.
	Seconds *float64 `json:"seconds"`
	// By names the last part to settle, such as "pool api", "flow acme/api" or "limit acme/per-client"; "" if
	// nothing was off.
	By string `json:"by,omitempty"`
}

// Series are rates over time for a plot, units/s. Point i is the mean from
// i·StepSeconds on; all have the same length.
type Series struct {
	StepSeconds float64         `json:"stepSeconds"`
	Pools       []PoolSeries    `json:"pools"`
	Flows       []FlowSeries    `json:"flows"`
	Limits      []LimitSeries   `json:"limits"`
	Gateways    []GatewaySeries `json:"gateways"`
}

// PoolSeries is one pool over time.
type PoolSeries struct {
	Pool     string    `json:"pool"`
	Capacity []float64 `json:"capacity"`
	Demand   []float64 `json:"demand"` // within limits
	Admitted []float64 `json:"admitted"`
}

// FlowSeries is one flow over time.
type FlowSeries struct {
	Tenant   string    `json:"tenant"`
	Pool     string    `json:"pool"`
	Demand   []float64 `json:"demand"` // within limits
	Fair     []float64 `json:"fair"`   // entitlement; empty without a pool
	Admitted []float64 `json:"admitted"`
}

// LimitSeries is one limit over time, all its keys together.
type LimitSeries struct {
	Tenant   string    `json:"tenant"`
	Limit    string    `json:"limit"`
	Rate     []float64 `json:"rate"` // sum over keys
	Offered  []float64 `json:"offered"`
	Central  []float64 `json:"central"` // admitted by one central bucket per key
	Admitted []float64 `json:"admitted"`
}

// GatewaySeries is one gateway over time.
type GatewaySeries struct {
	Gateway  string    `json:"gateway"`
	Offered  []float64 `json:"offered"`
	Admitted []float64 `json:"admitted"`
}
