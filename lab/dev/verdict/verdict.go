package verdict

// Verdict is the outcome of a run. Rates are requests per second.
type Verdict struct {
	// Pass: not void and every check passed.
	Pass bool `json:"pass"`
	// Void: the load was not the scenario's, or the machine was starved, see VoidReasons.
	Void        bool     `json:"void"`
	VoidReasons []string `json:"voidReasons,omitempty"`
	Load        Load     `json:"load"`
	Phases      []Phase  `json:"phases"`
	Checks      []Check  `json:"checks"`
}

// Load has the figures of how well the machine kept up.
type Load struct {
	Planned   int     `json:"planned"`
	Recorded  int     `json:"recorded"`
	Dropped   int     `json:"dropped"`
	LateP99Ms float64 `json:"lateP99Ms"`
	LateMaxMs float64 `json:"lateMaxMs"`
	// PathP99Ms is the 99th percentile of the time from a request's start until the upstream
	// received it, of the requests that no client limit and no queue held.
	PathP99Ms float64 `json:"pathP99Ms"`
}

// Phase has the figures of one phase of the scenario.
type Phase struct {
	Name string `json:"name"`
	// Start, End and MeasuredFrom are seconds of the run. Means are over
	// [MeasuredFrom, End).
	Start        float64  `json:"start"`
	End          float64  `json:"end"`
	MeasuredFrom float64  `json:"measuredFrom"`
	Pool         Pool     `json:"pool"`
	Tenants      []Tenant `json:"tenants"`
	Clients      []Client `json:"clients"` // limited clients
	// Failed counts the requests of the phase that ended in anything but 2xx
	// and 429.
	Failed int `json:"failed"`
}

// Pool is the upstream in one phase.
type Pool struct {
	Capacity float64 `json:"capacity"`
	Offered  float64 `json:"offered"`
	Demand   float64 `json:"demand"` // offered, less the ideal client limits
	Admitted float64 `json:"admitted"`
	// MaxSliding1s is the largest number admitted in any second that ends in
	// the phase.
	MaxSliding1s float64 `json:"maxSliding1s"`
}

// Tenant in one phase.
type Tenant struct {
	Name       string  `json:"name"`
	Weight     float64 `json:"weight"`
	Offered    float64 `json:"offered"`
	Demand     float64 `json:"demand"` // offered, less the ideal client limits
	Admitted   float64 `json:"admitted"`
	FairShare  float64 `json:"fairShare"`
	Saturated  bool    `json:"saturated"` // wants more than its fair share
	Rejected   float64 `json:"rejected"`
	Marked     float64 `json:"marked"`
	WaitMeanMs float64 `json:"waitMeanMs"`
	WaitP99Ms  float64 `json:"waitP99Ms"`
}

// Client is a limited client in one phase.
type Client struct {
	Name     string  `json:"name"`
	Rate     float64 `json:"rate"`
	Burst    float64 `json:"burst"`
	Exact    bool    `json:"exact,omitempty"` // precision EXACT, otherwise LOCAL
	Offered  float64 `json:"offered"`
	Admitted float64 `json:"admitted"`
	// WorstExcess over rate·t + burst, requests, of the windows that end in
	// the phase and start anywhere in the run; 0 when nothing was admitted.
	WorstExcess float64 `json:"worstExcess"`
	Wrongful429 int     `json:"wrongful429"`
}

// Check is one figure and its bound.
type Check struct {
	Name  string `json:"name"`
	Phase string `json:"phase"` // of several, joined by "+"
	// Subject is the tenant or client that it is about, if any.
	Subject string  `json:"subject,omitempty"`
	Value   float64 `json:"value"`
	// Bound is the most that Value may be, or the least if AtLeast.
	Bound   float64 `json:"bound"`
	AtLeast bool    `json:"atLeast,omitempty"`
	Pass    bool    `json:"pass"`
}
