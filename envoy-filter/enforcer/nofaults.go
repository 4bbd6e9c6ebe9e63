//go:build !titratefault

package enforcer

import "github.com/titrate/titrate/control/limiter"

// injectFaults: this build, the usual one, panics nowhere on request.
const injectFaults = false

func injectFault(string, *limiter.Request) {}
