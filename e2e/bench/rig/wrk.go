package rig

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"time"
)

// Closed is a closed load: each connection asks again as soon as it is answered.
type Closed struct {
	Tenant      string
	Keys        int // clients asked for in turn
	Connections int
	Duration    time.Duration // whole seconds
}

// Answered is the outcome of a load.
type Answered struct {
	Rate    float64 `json:"requestsPerSecond"`
	Count   float64 `json:"requests"`
	Refused float64 `json:"refused"` // answers that are not 2xx
	Broken  float64 `json:"broken"`  // connections and requests that failed
}

var (
	completed = regexp.MustCompile(`(?m)^\s*(\d+) requests in ([0-9.]+)(s|m)`)
	refused   = regexp.MustCompile(`Non-2xx or 3xx responses: (\d+)`)
	broken    = regexp.MustCompile(`Socket errors: connect (\d+), read (\d+), write (\d+), timeout (\d+)`)
)

// Wrk runs wrk on a URL.
func (r *Rig) Wrk(ctx context.Context, url string, c Closed) (Answered, error) {
	script := r.File(fmt.Sprintf("%s-%d.lua", c.Tenant, c.Keys))
	if _, err := os.Stat(script); err != nil {
		if err := os.WriteFile(script, []byte(wrkScript(c.Tenant, c.Keys)), 0o600); err != nil {
			return Answered{}, err
		}
	}
	out, err := exec.CommandContext(ctx, "wrk", "-t1", "-c", strconv.Itoa(c.Connections), "-d",
		fmt.Sprintf("%ds", int(c.Duration.Seconds())), "-s", script, url).CombinedOutput()
	if err != nil {
		return Answered{}, fmt.Errorf("wrk: %w (Debian package wrk): %s", err, out)
	}
	return answered(out)
}

func answered(out []byte) (a Answered, err error) {
	m := completed.FindSubmatch(out)
	if m == nil {
		return a, fmt.Errorf("wrk printed no result:\n%s", out)
	}
	seconds, _ := strconv.ParseFloat(string(m[2]), 64)
	if string(m[3]) == "m" {
		seconds *= 60
	}
	a.Count, _ = strconv.ParseFloat(string(m[1]), 64)
	a.Rate = a.Count / seconds
	if m := refused.FindSubmatch(out); m != nil {
		a.Refused, _ = strconv.ParseFloat(string(m[1]), 64)
	}
	if m := broken.FindSubmatch(out); m != nil {
		for _, text := range m[1:] {
			n, _ := strconv.ParseFloat(string(text), 64)
			a.Broken += n
		}
	}
	return a, nil
}

// wrkScript asks with n clients in turn.
func wrkScript(tenant string, n int) string {
	return fmt.Sprintf(`local requests, i = {}, 0
function init()
  for k = 1, %d do
    requests[k] = wrk.format("GET", "/", {["x-tenant"] = %q, ["x-client"] = "client-" .. k})
  end
end
function request()
  i = i %% #requests + 1
  return requests[i]
end
`, n, tenant)
}
