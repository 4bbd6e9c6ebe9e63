package settings

import (
	"strconv"
	"strings"
)

// RestartEpoch is the value of --restart-epoch on Envoy's command line, 0 without it.
func RestartEpoch(arguments []string) int {
	const flag = "--restart-epoch"
	for i, a := range arguments {
		text, ok := strings.CutPrefix(a, flag+"=")
		if a == flag && i+1 < len(arguments) {
			text, ok = arguments[i+1], true
		}
		if n, err := strconv.Atoi(text); ok && err == nil && n > 0 {
			return n
		}
	}
	return 0
}
