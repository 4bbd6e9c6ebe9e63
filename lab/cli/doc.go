// Package cli has the commands of titrate-lab, the program of the laboratory: the demo and its parts, the simulation,
// the calculator, and the figures of the papers. Package command has what they share with titrate.
package cli
