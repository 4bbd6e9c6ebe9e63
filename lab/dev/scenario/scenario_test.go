package scenario

import (
	"math"
	"strings"
	"testing"
	"time"
)

func TestDemoIsValidAtEveryLengthAndWidth(t *testing.T) {
	for _, d := range []time.Duration{MinDuration, 30 * time.Second, time.Minute, time.Hour} {
		for n := 1; n <= MaxGateways; n++ {
			s, err := Demo(d, n, 1)
			if err != nil {
				t.Fatal(err)
			}
			if got := s.Duration(); math.Abs(got-d.Seconds()) > 1e-9 || len(s.Gateways) != n {
				t.Errorf("%v, %d: lasts %v s on %d gateways", d, n, got, len(s.Gateways))
			}
			for i, p := range s.Phases {
				for _, e := range p.Events {
					if s.PhaseAt(e.At) != i {
						t.Errorf("%v: %s at %v s lies outside of its phase", d, e.Fault, e.At)
					}
				}
			}
		}
	}
}

func TestDemoRefusesWhatItCannotShow(t *testing.T) {
	for _, c := range []struct {
		d time.Duration
		n int
	}{{MinDuration - 1, 3}, {time.Minute, 0}, {time.Minute, MaxGateways + 1}} {
		if _, err := Demo(c.d, c.n, 1); err == nil {
			t.Errorf("%v on %d gateways: no error", c.d, c.n)
		}
	}
}

func TestValidateNamesWhatIsWrong(t *testing.T) {
	for want, change := range map[string]func(*Scenario){
		"version":       func(s *Scenario) { s.Version = 9 },
		"capacity":      func(s *Scenario) { s.Pool.Capacity = 0 },
		"needs phases":  func(s *Scenario) { s.Phases = nil },
		"must start":    func(s *Scenario) { s.Phases[1].Start++ },
		"gw-1":          func(s *Scenario) { s.Gateways[0].Weight = -1 },
		"acme":          func(s *Scenario) { s.Tenants[0].Weight = math.Inf(1) },
		"guaranteed":    func(s *Scenario) { s.Tenants[2].Guaranteed = -1 },
		"5 phases":      func(s *Scenario) { s.Tenants[0].Clients[0].Rates = []float64{1} },
		"NaN":           func(s *Scenario) { s.Tenants[0].Clients[0].Rates[0] = math.NaN() },
		"process":       func(s *Scenario) { s.Tenants[0].Clients[0].Process = "bursty" },
		"needs a limit": func(s *Scenario) { s.Tenants[0].Clients[0].Process = Hop },
		"limit":         func(s *Scenario) { s.Tenants[2].Clients[2].Limit.Rate = 0 },
		"twice":         func(s *Scenario) { s.Tenants[1].Clients[0].Name = "acme-1" },
	} {
		s, err := Demo(time.Minute, 3, 1)
		if err != nil {
			t.Fatal(err)
		}
		change(s)
		if err := s.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want an error about %q, got %v", want, err)
		}
	}
}
