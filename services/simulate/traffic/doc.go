// Package traffic turns the demand of a scenario's clients into requests, each
// with a time, a client and the gateway that it goes to.
//
// # Model
//
// A client is a unit-rate process, even or Poisson, in its own integrated demand
// Λ(t) = ∫ rate dt: its k-th request comes where Λ reaches the process's k-th
// point. So any shape of demand has exact arrivals, without steps. Each client has
// random numbers of its own: one client's demand does not move another's requests.
//
// Every system that is simulated on a scenario gets the same requests. Each says
// what one central token bucket per limited key would have answered (Central),
// which is what "wrongful" is measured against.
//
// Next is O(log clients) per request.
package traffic
