package exchange

// Counts are requests, not cost, by outcome.
type Counts struct {
	Admitted uint64 // also requests that waited, were marked or shadowed
	Waited   uint64 // held for a limit or for the share, whatever came then
	Marked   uint64
	Shadowed uint64 // a SHADOW mode let them pass: enforced, they would have been refused or held
	// Refused, by reason. Of a flow ClientLimit has what any limit refused, at once or after a
	// wait. Of a limit it has what it refused at once, and QueueTimeout has what waited in
	// vain.
	ClientLimit, TenantShare, QueueFull, QueueTimeout uint64
	// Of a flow: the part of Waited and Shadowed that a limit held, or would not have let pass.
	LimitWaited, LimitShadowed uint64
	// Of an EXACT limit: requests that waited for the owner of their key, and for how long together.
	// The ledger decided OwnerSilent requests because the owner did not answer, and OwnerUnasked
	// requests because the limit had asked about too many new keys.
	OwnerWaited, OwnerMicros, OwnerSilent, OwnerUnasked uint64
}

// Fields are the counts in the order of their declaration.
func (c *Counts) Fields() [14]*uint64 {
	return [...]*uint64{&c.Admitted, &c.Waited, &c.Marked, &c.Shadowed,
		&c.ClientLimit, &c.TenantShare, &c.QueueFull, &c.QueueTimeout, &c.LimitWaited, &c.LimitShadowed,
		&c.OwnerWaited, &c.OwnerMicros, &c.OwnerSilent, &c.OwnerUnasked}
}

// Refused is the number of refused requests.
func (c *Counts) Refused() uint64 {
	return c.ClientLimit + c.TenantShare + c.QueueFull + c.QueueTimeout
}

// Add adds other counts.
func (c *Counts) Add(other Counts) {
	of := other.Fields()
	for i, n := range c.Fields() {
		*n += *of[i]
	}
}

// Since returns what was counted after an earlier reading of the same counts.
func (c Counts) Since(earlier Counts) Counts {
	was := earlier.Fields()
	for i, n := range c.Fields() {
		*n -= *was[i]
	}
	return c
}

// LimitCounts counts the requests of one limit of a tenant, over all its pools, since the report before.
type LimitCounts struct {
	Tenant, Limit string
	Counts        Counts
}

// Effect is the effect of a limit or share on the requests of a client.
type Effect uint8

// The effects.
const (
	Refused  Effect = iota // counted in requests
	Held                   // counted in seconds
	Shadowed               // counted in requests
	Effects                // their number
)

// MaxClientParts bounds the parts in which a gateway reports clients, MaxPartClients the clients of one part.
const MaxClientParts, MaxPartClients = 24, 256

// ClientCount is a client to which one of the effects happened, as a sketch has it: of the
// last one to two minutes, and too high by at most Error.
type ClientCount struct {
	Tenant, Pool, Limit, Client string
	Effect                      Effect
	Count, Error                float64
}
