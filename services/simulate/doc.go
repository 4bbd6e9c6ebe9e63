// Package simulate plays a scenario on virtual time: Titrate as it ships, and
// baselines beside it, on the same requests.
//
//	scenario   what is played             traffic   its requests, one by one
//	system     what plays (an interface)  world     Titrate as such a system
//	measure    the figures                baseline  what it is compared with
//
// A run is a pure function of the scenario: the same scenario gives the same
// result, byte for byte, on machines of one architecture.
package simulate
