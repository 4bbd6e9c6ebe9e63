package reaction_test

import (
	"fmt"

	"github.com/titrate/titrate/papers/reaction"
)

// A limit of 100/s as a network: requests S that wait bind free tokens E and are released;
// the spent tokens ET recharge at k4. Three times as much arrives as the limit lets pass.
func ExampleKit() {
	var k reaction.Kit
	s, e, spent := k.Species("S"), k.Species("E"), k.Species("ET")
	bind := k.React("bind", 10, []reaction.Species{s, e}, []reaction.Species{spent})
	k.React("recharge", 10, []reaction.Species{spent}, []reaction.Species{e})
	arrivals := k.Input("arrivals", s)
	network, err := k.Build()
	if err != nil {
		panic(err)
	}
	v := reaction.NewVessel(network)
	v.SetAmount(e, 10) // tokens; 10 tokens that recharge at 10/s each are a limit of 100/s
	v.SetInput(arrivals, 300)
	for range 1000 {
		if err := v.Step(0.01); err != nil { // seconds
			panic(err)
		}
	}
	fmt.Printf("released: %.0f/s, conserved: %v\n", v.Flux(bind), network.Conserved())
	// Output: released: 100/s, conserved: [[0 1 1]]
}

// Four of the published controllers share one limit; their reports to each other are late. From which delay on
// do they oscillate?
func ExampleCoupled() {
	constants := reaction.Table1()
	controller, err := reaction.NewAdaptive(constants)
	if err != nil {
		panic(err)
	}
	const nodes = 4
	share := constants.Enzyme * constants.K4 / (nodes + constants.K4/constants.K2)
	v := controller.NewVessel(constants)
	v.SetInput(controller.Int, share*(1-1e-4))
	v.SetInput(controller.Ext, share*(nodes-1))
	if err := v.Settle(); err != nil {
		panic(err)
	}
	total, _ := reaction.Coupled(v.Linearize().ToFlux(controller.Ext, controller.Out), nodes)
	fmt.Printf("critical delay: %.0f ms\n", 1000*total)
	// Output: critical delay: 660 ms
}
