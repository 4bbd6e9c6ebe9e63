package coordinator

import (
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/titrate/titrate/services/access"
	"github.com/titrate/titrate/services/intake"
)

// defineAccess makes the instruments of callers, of their messages and of the audit.
func (m *instruments) defineAccess() {
	m.calls = m.total("titrate_calls_refused",
		"Calls refused, by reason. It is no_credentials, certificate or token for callers that are not known: "+
			"theirs is missing or not good. It is role for known callers whose roles do not allow the call.", "reason")
	m.messages = m.total("titrate_messages_refused",
		"Messages refused before their calls were handled, by reason: length, entries, busy (no room beside other "+
			"calls). Of gRPC also compressed, malformed, late (more than a minute), unknown_method.", "reason")
	m.panics = m.total("titrate_handler_panics",
		"Calls that failed with INTERNAL because their handler panicked; the log has the stack. Each is a fault of "+
			"the coordinator.")
	m.auditLost = m.total("titrate_audit_lines_lost",
		"Lines about changes that could not be written to the file of --audit-log. Only with --audit-log.")
	m.accessStale = m.count("titrate_access_stale",
		"1 while the access policy, the token file or the key set cannot be read; what was read before is in force.")
}

// access observes the guard, if there is one, and the intake.
func (m *instruments) access(to metric.Observer) {
	for i, n := range m.o.intake.Refused() {
		to.ObserveInt64(m.messages, int64(n), metric.WithAttributes(attribute.String("reason", intake.Reasons[i])))
	}
	to.ObserveInt64(m.panics, int64(m.o.intake.Panics()))
	if m.o.audit != nil {
		to.ObserveInt64(m.auditLost, int64(m.o.audit.Lost()))
	}
	if m.o.guard == nil {
		return
	}
	for i, n := range m.o.guard.Refused() {
		to.ObserveInt64(m.calls, int64(n), metric.WithAttributes(attribute.String("reason", access.Reasons[i])))
	}
	to.ObserveInt64(m.accessStale, int64(indicator(m.o.guard.Trouble() != nil)))
}
