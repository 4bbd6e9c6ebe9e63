package agent

import (
	"context"
	"fmt"

	"go.opentelemetry.io/otel/attribute"

	"github.com/titrate/titrate/services/intake"
	"github.com/titrate/titrate/services/rlqs"
	"github.com/titrate/titrate/services/telemetry"
)

// RLQS is the service of Envoy's rate limit quota API.
type RLQS struct {
	// Address is host:port of the gRPC server; "": there is none.
	Address string
	// Unknown says what becomes of requests of tenants that are not configured: "allow", the default, or "deny".
	Unknown string
}

// suffixRLQS makes the name of the service's gateway of the agent's.
const suffixRLQS = "-rlqs"

func (r RLQS) check() error {
	switch {
	case r.Unknown != "" && r.Unknown != "allow" && r.Unknown != "deny":
		return fmt.Errorf("--rlqs-unknown is %q: want allow or deny", r.Unknown)
	case r.Address == "" && r.Unknown == "deny":
		return fmt.Errorf("--rlqs-unknown deny is given and --rlqs is not: give --rlqs host:port to assign quotas")
	}
	return nil
}

// openRLQS makes the service and opens its port, if it is configured.
func (a *Agent) openRLQS(ctx context.Context) error {
	if a.c.RLQS.Address == "" {
		return nil
	}
	credentials, err := a.c.Security.ServerCredentials()
	if err != nil {
		return err
	}
	a.rlqs = rlqs.New(rlqs.Options{DenyUnknown: a.c.RLQS.Unknown == "deny", Socket: a.c.Socket,
		Name: a.c.Name + suffixRLQS, Alone: len(a.c.Coordinators) == 0, Credentials: credentials, Log: a.log})
	a.rlqsAt, err = a.c.Security.Listen(ctx, "--rlqs (gRPC)", a.c.RLQS.Address)
	return err
}

// RLQSAddress returns the address of the rate limit quota service, "" without one.
func (a *Agent) RLQSAddress() string {
	if a.rlqsAt == nil {
		return ""
	}
	return a.rlqsAt.Addr().String()
}

// QuotaServiceStatus is the state of the rate limit quota service.
type QuotaServiceStatus struct {
	Streams     int `json:"streams"`     // open ones, one for each Envoy and domain
	Buckets     int `json:"buckets"`     // different ones
	Assignments int `json:"assignments"` // of buckets to Envoys
	Unknown     int `json:"unknown"`     // assignments whose tenant or domain is not known
}

// quotaService returns the state of the service, nil without one.
func (a *Agent) quotaService() *QuotaServiceStatus {
	if a.rlqs == nil {
		return nil
	}
	s := a.rlqs.Stats()
	return &QuotaServiceStatus{s.Streams, s.Buckets, s.Members, s.Unknown}
}

// ofRLQS reads a number of the service, if there is one.
func ofRLQS(read func(*rlqs.Stats) float64) func(measurements, telemetry.Put) {
	return func(m measurements, put telemetry.Put) {
		if m.rlqs != nil {
			put(read(m.rlqs))
		}
	}
}

// rlqsInstruments are the metrics of the rate limit quota service.
var rlqsInstruments = []telemetry.Instrument[measurements]{
	{Name: "titrate.rlqs.streams", Help: "Streams of Envoys to the rate limit quota service.",
		Read: ofRLQS(func(s *rlqs.Stats) float64 { return float64(s.Streams) })},
	{Name: "titrate.rlqs.buckets", Help: "Different buckets that Envoys have reported.",
		Read: ofRLQS(func(s *rlqs.Stats) float64 { return float64(s.Buckets) })},
	{Name: "titrate.rlqs.assignments", Help: "Buckets times the Envoys that use them.",
		Read: ofRLQS(func(s *rlqs.Stats) float64 { return float64(s.Members) })},
	{Name: "titrate.rlqs.unknown",
		Help: "Assignments whose tenant or domain is not known: --rlqs-unknown decides.",
		Read: ofRLQS(func(s *rlqs.Stats) float64 { return float64(s.Unknown) })},
	{Name: "titrate.rlqs.reports", Counter: true, Help: "Messages with reports.",
		Read: ofRLQS(func(s *rlqs.Stats) float64 { return float64(s.Reports) })},
	{Name: "titrate.rlqs.requests", Counter: true, Labels: []string{"outcome"},
		Help: "Requests that Envoys have reported, allowed or denied.",
		Read: func(m measurements, put telemetry.Put) {
			if m.rlqs != nil {
				put(float64(m.rlqs.Allowed), attribute.String("outcome", "allowed"))
				put(float64(m.rlqs.Denied), attribute.String("outcome", "denied"))
			}
		}},
	{Name: "titrate.rlqs.sent", Counter: true, Labels: []string{"action"},
		Help: "Assignments that were sent: changed, renewed before they expire, or abandoned, as a bucket was idle " +
			"for a minute.",
		Read: func(m measurements, put telemetry.Put) {
			if m.rlqs != nil {
				put(float64(m.rlqs.Changed), attribute.String("action", "changed"))
				put(float64(m.rlqs.Renewed), attribute.String("action", "renewed"))
				put(float64(m.rlqs.Abandoned), attribute.String("action", "abandoned"))
			}
		}},
	{Name: "titrate.rlqs.refused", Counter: true, Labels: []string{"reason"},
		Help: "Streams and buckets without assignments, by reason: streams (more than 1024), domain (none, or a " +
			"second one), bucket_id (too long), buckets_of_stream (more than 10,000), buckets (more than 100,000).",
		Read: func(m measurements, put telemetry.Put) {
			if m.rlqs == nil {
				return
			}
			for i, n := range m.rlqs.Refused {
				put(float64(n), attribute.String("reason", rlqs.Reasons[i]))
			}
		}},
	{Name: "titrate.rlqs.capped", Counter: true,
		Help: "Reports of more than a million requests per second, which count as a million.",
		Read: ofRLQS(func(s *rlqs.Stats) float64 { return float64(s.Capped) })},
	{Name: "titrate.rlqs.names.unused",
		Help: "Identities and classes of limits that the service has no place for: their limits count all as one " +
			"client, or no request.",
		Read: ofRLQS(func(s *rlqs.Stats) float64 { return float64(s.NamesUnused) })},
	{Name: "titrate.rlqs.messages.refused", Counter: true, Labels: []string{"reason"},
		Help: "Messages to the service that were refused before they were read, by reason, as those of the rate " +
			"limit service. Their streams end.",
		Read: func(m measurements, put telemetry.Put) {
			if m.rlqs == nil {
				return
			}
			for reason, n := range m.rlqs.Messages {
				put(float64(n), attribute.String("reason", intake.Reasons[reason]))
			}
		}},
	{Name: "titrate.rlqs.panics", Counter: true, Help: "Panics recovered in the rate limit quota service: bugs.",
		Read: ofRLQS(func(s *rlqs.Stats) float64 { return float64(s.Panics) })},
}
