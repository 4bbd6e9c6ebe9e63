// Package fixed has the fixed point in which atomic words count costs: millionths of a
// cost unit.
package fixed

// Unit is one cost unit.
const Unit = 1_000_000

// Units converts fixed point to cost units.
func Units(micros int64) float64 { return float64(micros) / Unit }
