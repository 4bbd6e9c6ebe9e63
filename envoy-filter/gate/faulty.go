//go:build titratefault

package gate

import "github.com/titrate/titrate/control/limiter"

// faulty builds panic where a test asks for it, by the client's name: envoytest
// shows with it what becomes of requests in a real Envoy.
const faulty = true

func fault(where string, r *limiter.Request) {
	switch r.Client {
	case "panic-in-" + where:
		panic("injected in " + where)
	case "nil-in-" + where: // a signal of the processor, in a process whose other half is C++
		var nobody *limiter.Request
		r.Client = nobody.Client
	}
}
