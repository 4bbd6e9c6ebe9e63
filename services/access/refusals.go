package access

import (
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"github.com/titrate/titrate/services/wording"
)

// Why calls are refused, as indexes of Reasons.
const (
	byNothing     = iota // no credentials
	byCertificate        // a certificate that is no longer good
	byToken              // a token that is not good
	byRole               // a known caller, whose roles do not allow the call
)

// Reasons name why calls are refused, for metrics.
var Reasons = [...]string{byNothing: "no_credentials", byCertificate: "certificate", byToken: "token", byRole: "role"}

// refusals counts calls that were refused, by reason.
type refusals struct {
	counts [len(Reasons)]atomic.Uint64
	// sometimes bounds how often the log names a caller that is not known: any client that can reach
	// the port could fill the disk.
	sometimes rate.Sometimes
}

func (r *refusals) count(reason int) { r.counts[reason].Add(1) }

// Refused counts the refused calls, for each of Reasons.
func (g *Guard) Refused() (out [len(Reasons)]uint64) {
	for i := range out {
		out[i] = g.refusals.counts[i].Load()
	}
	return out
}

// logEvery is the least time between two log lines about callers that are not known.
const logEvery = time.Second

// missing says what would have to be there for a call that is refused.
func (g *Guard) missing(c *Caller) string {
	switch {
	case c.By == ByToken:
		return "the roles of its token (--tokens) do not allow it"
	case c.By == ByJWT:
		return "neither its claims nor a grant for its subject in the coordinator's access policy allow it" + c.lacks
	case g.policy != nil:
		return "no grant in the coordinator's access policy allows it"
	}
	return "the coordinator has no --access-policy, and then only agents (URI .../agent/NAME or " +
		"DNS name NAME.agent....) and the identities of --access-admin may call it"
}

// mostShown bounds the resources and the tenants that the sentence of a refusal names.
const mostShown = 5

// on names the resources that a call is refused for.
func on(names []string) string {
	if len(names) == 0 {
		return ""
	}
	return " on " + wording.Few(names, mostShown)
}

// named are the full names of tenants.
func named(tenants []string) (names []string) {
	for _, t := range tenants {
		names = append(names, "tenants/"+t)
	}
	return names
}

// may says what a caller with the grants may do.
func may(grants []Grant) string {
	var reads, connects bool
	var tenants, readable []string
	for _, g := range grants {
		switch g.Role {
		case Admin:
			return "as an admin it may read and change everything"
		case Agent:
			connects = true
		case TenantViewer:
			readable = append(readable, named(g.Tenants)...)
		default:
			reads = true
			tenants = append(tenants, named(g.Tenants)...)
		}
	}
	var can []string
	if len(tenants) > 0 {
		can = append(can, "change "+wording.Few(tenants, mostShown)+" with quotas and limits")
	}
	if reads {
		can = append(can, "read everything")
	} else if len(readable) > 0 {
		can = append(can, "read "+wording.Few(readable, mostShown)+
			" with quotas, limits and activity, if the call names one of them")
	}
	if connects {
		can = append(can, "connect as an agent")
	}
	if len(can) == 0 {
		return "it may do nothing"
	}
	return "it may " + strings.Join(can, ", and ")
}
