package link_test

import (
	"bytes"
	"fmt"

	"github.com/titrate/titrate/control/exchange"
	"github.com/titrate/titrate/proto/link"
)

// An agent grants a share to its gateway.
func Example() {
	var wire bytes.Buffer // a Unix socket
	shares := &exchange.Shares{Epoch: 3, Flows: []exchange.Share{{Tenant: "acme", Pool: "api", Share: 120}}}
	if err := link.NewWriter(&wire).Write(shares); err != nil {
		panic(err)
	}
	message, err := link.NewReader(&wire).Next()
	if err != nil {
		panic(err)
	}
	fmt.Printf("%+v\n", message.(*exchange.Shares).Flows[0])
	// Output: {Tenant:acme Pool:api Share:120 Demand:0}
}
