package read

import (
	"bufio"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/titrate/titrate/lab/simulate/scenario"
	"github.com/titrate/titrate/services/wording"
)

// MaxTrace is the longest trace that is read, in bytes, and mostRequests the most
// requests in it.
const (
	MaxTrace     = 64 << 20
	mostRequests = 2_000_000
)

// trace reads the requests of a trace file. A mistake is noted at the field that names the file, with the line
// of the trace.
func (p *parser) trace(n *yaml.Node, path string) []scenario.Arrival {
	name := p.Text(n, n.Line, path)
	if name == "" {
		return nil
	}
	if p.open == nil {
		p.Wrong(n.Line, path, "no other file can be read here; want another shape of demand")
		return nil
	}
	in, err := p.open(p.File(), name)
	if err != nil {
		p.Wrong(n.Line, path, "cannot read the trace: %v", err)
		return nil
	}
	defer func() { _ = in.Close() }()
	arrivals, err := Trace(in)
	if err != nil {
		p.Wrong(n.Line, path, "%s:%v", name, err)
	}
	return arrivals
}

// Trace reads lines "t client cost", separated by commas or white space: seconds from the start, the client's
// name, cost units (absent: 1). Times must not decrease. Empty lines, text after # and a first line that begins
// with t are skipped. Errors begin with the line's number.
func Trace(in io.Reader) ([]scenario.Arrival, error) {
	limited := &io.LimitedReader{R: in, N: MaxTrace + 1}
	lines := bufio.NewScanner(limited)
	var out []scenario.Arrival
	number := 0
	for lines.Scan() {
		number++
		text, _, _ := strings.Cut(lines.Text(), "#")
		parts := strings.FieldsFunc(text, func(c rune) bool {
			return c == ',' || c == ' ' || c == '\t' || c == '\r' ||
				c == ';'
		})
		if len(parts) == 0 || len(out) == 0 && parts[0] == "t" {
			continue
		}
		a, err := arrival(parts)
		switch {
		case err != nil:
			return nil, fmt.Errorf("%d: %w", number, err)
		case len(out) > 0 && a.At < out[len(out)-1].At:
			return nil, fmt.Errorf("%d: time %s is before the line above; want times that do not run back", number,
				parts[0])
		case len(out) == mostRequests:
			return nil, fmt.Errorf("%d: more than %d requests", number, mostRequests)
		}
		out = append(out, a)
	}
	switch err := lines.Err(); {
	case err != nil:
		return nil, fmt.Errorf("%d: %w", number+1, err)
	case limited.N == 0:
		return nil, fmt.Errorf("%d: the trace is longer than %d MiB", number, MaxTrace>>20)
	case len(out) == 0:
		return nil, fmt.Errorf("%d: no request in it; want lines such as 0.25 alice 1", max(number, 1))
	}
	return out, nil
}

// arrival reads the parts of one line.
func arrival(parts []string) (a scenario.Arrival, err error) {
	if len(parts) < 2 || len(parts) > 3 {
		return a, fmt.Errorf("%s; want seconds, client and, if it is not 1, cost", wording.Count(len(parts), "column"))
	}
	t, err := strconv.ParseFloat(parts[0], 64)
	if most := scenario.MaxDuration.Seconds(); err != nil || !(t >= 0 && t <= most) {
		return a, fmt.Errorf("time %q; want 0 to %s seconds", parts[0], wording.Number(most))
	}
	a = scenario.Arrival{At: time.Duration(math.Round(t * 1e9)), Client: parts[1], Cost: 1}
	if len(parts) == 3 {
		if a.Cost, err = strconv.ParseFloat(parts[2], 64); err != nil || !(a.Cost >= 1e-6 && a.Cost <= 1e6) {
			return a, fmt.Errorf("cost %q; want 0.000001 to 1000000", parts[2])
		}
	}
	return a, nil
}
