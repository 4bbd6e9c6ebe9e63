// Package simulate plays a scenario on virtual time: Titrate as it ships, and baselines on the same requests.
//
//	scenario   the input                  traffic   its requests, one by one
//	system     the interface of a system  world     Titrate as such a system
//	measure    the figures                baseline  the systems to compare with
//
// A run is a pure function of the scenario: the same scenario gives the same
// result, byte for byte, on machines of one architecture.
package simulate
