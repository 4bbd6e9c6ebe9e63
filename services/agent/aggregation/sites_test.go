package aggregation

import (
	"testing"
	"time"
)

// An agent that comes back under its name at this site is no agent of the other one any more.
func TestAgentMovesToThisSite(t *testing.T) {
	a := New(Options{Agent: "here", Incarnation: 1})
	a.SetSites(time.Second, []Site{{Name: "us", Agents: []string{"b", "c"}}}, nil, nil)
	a.SetOwners(2*time.Second, []string{"b"}, nil)
	a.SetSites(2*time.Second, []Site{{Name: "us", Agents: []string{"c"}}}, nil, nil)
	if a.siteOf["b"] != nil || a.siteOf["c"] == nil {
		t.Errorf("b is of site %v, c of %v", a.siteOf["b"], a.siteOf["c"])
	}
}
