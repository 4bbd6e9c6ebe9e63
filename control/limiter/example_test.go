package limiter_test

import (
	"fmt"
	"time"

	"github.com/titrate/titrate/control/config"
	"github.com/titrate/titrate/control/limiter"
)

// A gateway that nobody shares a limit with: each client of a tenant has 10 requests/s and a
// burst of 2. The engine reads no clock; times are nanoseconds that the caller passes in.
func ExampleEngine_Decide() {
	e := limiter.New(limiter.Options{Keys: 1024})
	err := e.Apply(&config.Config{
		Pools:   []config.Pool{{Name: "api", Capacity: 1000}},
		Tenants: []config.Tenant{{Name: "acme", Limits: []config.Limit{{Name: "each", Rate: 10, Burst: 2}}}},
	})
	if err != nil {
		fmt.Println(err)
	}
	alice := limiter.Request{Tenant: "acme", Client: "alice", Pool: "api", Cost: 1}
	for range 3 {
		o := e.Decide(0, &alice)
		fmt.Println(o.Verdict, "again after", o.RetryAfter.Round(time.Millisecond))
	}
	o := e.Decide(100_000_000, &alice)
	fmt.Println("after 100 ms:", o.Verdict)
	// Output:
	// admit again after 0s
	// admit again after 0s
	// reject again after 100ms
	// after 100 ms: admit
}
