package command

import (
	"math"
	"strconv"

	"github.com/titrate/titrate/services/wording"
)

// None is the text of an empty cell.
const None = "-"

// PerSecond writes a rate of cost units per second in the unit in which a person says it.
func PerSecond(x float64) string { return wording.Rate(x, Number) }

// Number writes at most one decimal of large and three digits of small numbers.
func Number(x float64) string {
	if x == 0 || math.Abs(x) >= 1 {
		return strconv.FormatFloat(math.Round(x*10)/10, 'f', -1, 64)
	}
	return strconv.FormatFloat(x, 'g', 3, 64)
}
