package agent

import "testing"

// Wrong settings of the quota service are refused with the way out.
func TestRLQSSettings(t *testing.T) {
	for _, c := range []struct {
		r    RLQS
		fine bool
	}{{RLQS{}, true}, {RLQS{"127.0.0.1:1", "deny"}, true}, {RLQS{"127.0.0.1:1", "maybe"}, false}, {RLQS{"", "deny"}, false}} {
		if err := c.r.check(); (err == nil) != c.fine {
			t.Errorf("%+v: %v", c.r, err)
		}
	}
}
