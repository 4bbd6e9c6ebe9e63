package openloop

import (
	"fmt"
	"time"
)

// Headers that identify a request.
const (
	TenantHeader = "x-tenant"
	ClientHeader = "x-client"
)

// Shot is a planned request.
type Shot struct {
	Due     time.Duration // since the start of the run
	Target  int32         // index into Generator.Targets
	Request int32         // index into Generator.Requests
}

// Steady is a schedule of evenly spaced shots to target 0 that takes n requests
// in turn, beginning with the given one.
func Steady(perSecond float64, d time.Duration, n, first int) []Shot {
	shots := make([]Shot, int(perSecond*d.Seconds()))
	for i := range shots {
		shots[i] = Shot{Due: time.Duration(float64(i) / perSecond * 1e9), Request: int32((first + i) % n)}
	}
	return shots
}

// Request is a request as it goes over the wire.
func Request(tenant, client string) []byte {
	return fmt.Appendf(nil, "GET / HTTP/1.1\r\nhost: bench\r\n%s: %s\r\n%s: %s\r\n\r\n", TenantHeader, tenant,
		ClientHeader, client)
}

// Requests returns the requests of n clients of a tenant: client-1, client-2, …
func Requests(tenant string, n int) [][]byte {
	all := make([][]byte, n)
	for i := range all {
		all[i] = Request(tenant, fmt.Sprintf("client-%d", i+1))
	}
	return all
}
