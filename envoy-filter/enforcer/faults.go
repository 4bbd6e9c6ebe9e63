//go:build titratefault

package enforcer

import "github.com/titrate/titrate/control/limiter"

// injectFaults: this build panics where a test asks for it by the client's name. envoytest uses it to check the
// outcome of requests in a real Envoy.
const injectFaults = true

func injectFault(where string, r *limiter.Request) {
	switch r.Client {
	case "panic-in-" + where:
		panic("injected in " + where)
	case "nil-in-" + where: // SIGSEGV, in a process that is C++ otherwise
		var none *limiter.Request
		r.Client = none.Client
	}
}
