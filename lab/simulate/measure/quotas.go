package measure

import (
	"github.com/titrate/titrate/control/limiter"
	"github.com/titrate/titrate/lab/simulate/system"
	"github.com/titrate/titrate/lab/simulate/traffic"
)

// Quota is a key of a limit with a calendar quota: one client, or a whole tenant. It counts costs of the whole run.
type Quota struct {
	Tenant string  `json:"tenant"`
	Limit  string  `json:"limit"`
	Client string  `json:"client,omitempty"` // "" for a tenant's
	Amount float64 `json:"amount"`           // of a period, at the end

	Wanted   float64 `json:"wanted"`
	Admitted float64 `json:"admitted"`
	Refused  float64 `json:"refused"` // by this limit
	// UsedUpSeconds is the time of the first refusal by the limit, absent without one.
	UsedUpSeconds *float64 `json:"usedUpSeconds,omitempty"`
}

// note takes in an answer to a request of a key.
func (q *Quota) note(a system.Answer, cost float64, by *traffic.Quota) {
	switch {
	case a.Fate == system.Admitted:
		q.Admitted += cost
	case a.Fate == system.Rejected && a.Reason == limiter.ClientLimit && a.Limit == by.Limit:
		if q.Refused += cost; q.UsedUpSeconds == nil {
			at := a.At.Seconds()
			q.UsedUpSeconds = &at
		}
	}
}

// quotaResult returns the figures at the end of the run.
func (p *Recorder) quotaResult() []Quota {
	for i := range p.quotas {
		of := &p.cast.Quotas[i]
		p.quotas[i].Tenant, p.quotas[i].Limit, p.quotas[i].Client, p.quotas[i].Amount = of.Tenant, of.Limit, of.Client,
			of.Amount
	}
	return p.quotas
}
