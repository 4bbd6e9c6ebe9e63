package config_test

import (
	"encoding/json"
	"fmt"

	"github.com/titrate/titrate/control/config"
)

// A gateway reads a configuration, leaves out what is not valid and enforces the rest.
func ExampleConfig_LeaveOut() {
	var c config.Config
	err := json.Unmarshal([]byte(`{
		"revision": 7,
		"pools": [{"name": "api", "capacity": 300}],
		"tenants": [{"name": "acme", "weight": 1, "limits": [
			{"name": "each", "rate": 10, "burst": 20},
			{"name": "typo", "rate": -10},
			{"name": "newer", "rate": 10, "days": ["monday"]}
		]}]
	}`), &c)
	if err != nil {
		panic(err)
	}
	for _, left := range c.LeaveOut() {
		fmt.Println("-", left.Reason)
	}
	fmt.Println(c.Validate(), len(c.Tenants[0].Limits))
	// Output:
	// - tenants[acme].limits[typo].rate is -10, want a rate from 0 to 1e12
	// - tenants[acme].limits[newer].days is a field that this build does not know, want a newer gateway
	// <nil> 1
}
