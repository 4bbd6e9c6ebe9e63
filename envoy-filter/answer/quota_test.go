package answer

import (
	"testing"
	"time"

	"github.com/titrate/titrate/control/config"
	"github.com/titrate/titrate/control/limiter"
)

func TestQuota(t *testing.T) {
	a := limiter.Allowance{Limit: "monthly", Amount: 1000, Per: config.Week, Cost: 1, Remaining: 12.5,
		Reset: 90 * time.Second, Next: 90 * time.Second}
	const policy, field = `"monthly";q=1000`, `"monthly";r=12;t=90`
	const peek = `{"verdict":"admit","limit":"monthly","period":"WEEK","amount":1000,"used":987.5,"remaining":12.5,` +
		`"reset":90,"wait":0}` + "\n"
	if got := string(AppendPolicy(nil, a)); got != policy {
		t.Errorf("%s, want %s", got, policy)
	}
	if got := string(AppendRateLimit(nil, a)); got != field {
		t.Errorf("%s, want %s", got, field)
	}
	if got := string(AppendPeek(nil, limiter.Outcome{}, a)); got != peek {
		t.Errorf("%s, want %s", got, peek)
	}
}
