// Package read reads scenarios from YAML or JSON; docs/simulate.md is the reference
// of the format.
//
// # Model
//
// One pass over the file's tree fills a scenario.Scenario, an absent field with its
// default, and remembers at which line each field of the scenario stood. Then the
// scenario checks itself (scenario.Scenario.Check), and what it finds is told with
// those lines. A field that could not be read is told once.
//
// Words are those of the quota API: rates with their unit (100/s, 10/min), laws and
// policies by name (MAX_MIN, DROP_TAIL). Times have a unit too (50ms). Where there
// is one pool or one tenant only, clients need not name it.
//
// # Invariants
//
//   - Parse never panics, refuses what it does not understand and lists all
//     mistakes, each a *tree.Error with file, line and field.
//   - What Parse returns has passed Check.
//   - Time and memory are linear in the input, of which MaxBytes are read, and
//     MaxTrace of each trace.
package read
