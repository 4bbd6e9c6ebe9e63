package gate

import (
	"math"
	"strconv"
	"strings"
)

// ParseCost reads a cost that a response told: a finite number ≥ 0, in cost units,
// blanks around it left out. An empty text tells nothing: the estimate stands. What
// is no such number tells nothing either, and is counted.
func (g *Gate) ParseCost(said string) (cost float64, ok bool) {
	if said = strings.TrimSpace(said); said == "" {
		return 0, false
	}
	cost, err := strconv.ParseFloat(said, 64)
	if err != nil {
		cost = math.NaN()
	}
	return g.CheckCost(cost)
}

// CheckCost is ParseCost of a number.
func (g *Gate) CheckCost(said float64) (cost float64, ok bool) {
	if !(said >= 0) || math.IsInf(said, 1) {
		g.badCosts.Add(1)
		return 0, false
	}
	return said, true
}

// BadCosts is the number of costs told by responses that were no finite number ≥ 0.
func (g *Gate) BadCosts() uint64 { return g.badCosts.Load() }
