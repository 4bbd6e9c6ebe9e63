// Package traffic turns the demand of a scenario's clients into requests, each
// with a time, a client and the gateway that it goes to.
//
// # Model
//
// A client is a unit-rate process, even or Poisson, in its own integrated demand Λ(t) = ∫ rate dt: its k-th
// request comes where Λ reaches the process's k-th point. So any shape of demand has exact arrivals, without
// steps. Each client has its own random source: one client's demand does not move another's requests.
//
// Every system that is simulated on a scenario gets the same requests. Each request has the answer of one
// central token bucket per limited key (Central); "wrongful" is relative to it.
//
// Next is O(log clients) per request.
package traffic
