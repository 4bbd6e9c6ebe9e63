// Package read reads scenarios: documents of the kind Scenario, with the resources in the same file.
// docs/simulate.md is the reference of the format.
//
// # Model
//
// Package document reads and checks the resources. One pass over the Scenario's tree fills
// a scenario.Scenario, an absent field with its default, and remembers at which line each
// field of the scenario stood. Then the scenario checks itself (scenario.Scenario.Check),
// and each mistake that it finds is noted with those lines. A field that could not be read
// is noted once.
//
// Rates have their unit (100/s, 10/min), as in a limit; times have a unit too (50ms).
// Where there is one pool or one tenant only, clients need not name it.
//
// # Invariants
//
//   - Parse never panics, refuses what it does not understand and lists all
//     mistakes, each a *tree.Error with file, line and field.
//   - What Parse returns has passed Check.
//   - Memory is linear in the input, of which document.MaxBytes are read, and MaxTrace of
//     each trace. Time is linear too, but for events that apply a resource: each compiles
//     all of them.
package read
