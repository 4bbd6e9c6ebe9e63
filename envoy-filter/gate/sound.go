//go:build !titratefault

package gate

import "github.com/titrate/titrate/control/limiter"

// faulty builds panic where a test asks for it; this one does not.
const faulty = false

func fault(string, *limiter.Request) {}
