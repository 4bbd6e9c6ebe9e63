// Package cli is the titrate command.
//
// # Model
//
// One binary holds everything that runs in production. The commands of the admin API (get, apply, delete, why) talk to
// a coordinator by gRPC; coordinator, agent and operator are daemons. Each command is one file with one constructor,
// listed in Root. titrate-lab has the demo, the simulation and the calculator.
//
// # Exit status
//
// 0 done; 1 failed, with one error on standard error; 2 wrong usage, before
// anything was done. Errors say what failed, where, and what to try.
//
// # Output
//
// What was asked for goes to standard output and nothing else does, so that
// -o json and -o yaml can be piped. What get prints in YAML or JSON can be edited
// and applied.
package cli
