package simulate_test

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/titrate/titrate/lab/simulate"
	"github.com/titrate/titrate/lab/simulate/measure"
	"github.com/titrate/titrate/lab/simulate/read"
	"github.com/titrate/titrate/lab/simulate/scenario"
	"github.com/titrate/titrate/services/document"
)

const examples = "../../lab/examples/"

// claims are the checks of what each example promises in its comments.
var claims = map[string]func(c *claim){
	"simulate-1-one-client": func(c *claim) {
		c.key("alice", func(k *measure.Key) bool { return k.Wrongful <= 1 && k.AboveMean > 9.5 && k.AboveMean < 10.5 })
	},
	"simulate-2-small-limit": func(c *claim) {
		c.key("steady", func(k *measure.Key) bool { return k.Rejected == 0 })
		c.key("burst", func(k *measure.Key) bool { return k.Rejected == 0 })
		c.key("greedy", func(k *measure.Key) bool { return k.Admitted >= 145 && k.WorstExcess < 5 })
	},
	"simulate-3-greedy-tenant": func(c *claim) {
		c.flow("acme", func(f *measure.Flow) bool { return f.LeastServed > .95 && f.Wrongful < 100 })
		c.flow("bolt", func(f *measure.Flow) bool { return f.LeastServed > .95 && f.Wrongful < 100 })
		c.flow("greedy", func(f *measure.Flow) bool { return f.WorstDeviation < .05 })
	},
	"simulate-4-partition": func(c *claim) {
		c.key("alice", func(k *measure.Key) bool { return k.WorstExcess < 100 && k.AboveMean < 32.5 && k.AboveMean > 28 })
		p := c.played.Pools[0] // highest in the first second, in which both begin above the pool's capacity
		c.that(fmt.Sprintf("the pool holds: %.0f/s, %.0f in the highest second", p.Admitted, p.HighestSecond),
			p.HighestSecond < 200*1.25 && p.Admitted < 205)
	},
	"simulate-10-adaptive": func(c *claim) {
		c.that("the pool is used", c.played.Pools[0].WantedUse > .95 && c.played.Pools[0].WantedUse < 1.02)
		c.flow("acme", func(f *measure.Flow) bool { return f.WorstDeviation < .08 })
		c.flow("bolt", func(f *measure.Flow) bool { return f.WorstDeviation < .08 })
	},
	"simulate-5-join": func(c *claim) {
		c.settles("join gw-4", 0, 2)
		c.settles("leave gw-2", 0, 2)
		c.settles("crash gw-3", 17, 23)
	},
	"simulate-6-coordinator-lost": func(c *claim) {
		c.flow("bolt", func(f *measure.Flow) bool { return f.WorstDeviation > .4 })
		c.settles("coordinator back", 1, 5)
		c.that("no more than a few per cent over", c.played.Pools[0].Admitted < 312)
	},
	"simulate-7-on-off": func(c *claim) {
		c.flow("acme", func(f *measure.Flow) bool { return f.WorstDeviation < .15 })
		c.flow("bolt", func(f *measure.Flow) bool { return f.LeastServed > .9 && f.Wrongful > 0 })
		c.that("the pool is used", c.played.Pools[0].WantedUse > .97)
	},
	"simulate-8-moving-client": func(c *claim) {
		c.key("roamer", func(k *measure.Key) bool { return k.Rejected == 0 })
		c.key("hopper", func(k *measure.Key) bool { return k.Rejected == 0 })
		c.key("cheat", func(k *measure.Key) bool { return k.Admitted < 625 && k.WorstExcess < 10 })
	},
	"simulate-11-fleet": func(c *claim) {
		c.that("no request is refused wrongly", c.sum(func(k *measure.Key) int { return k.Wrongful }) == 0)
		admitted, central := c.sum(func(k *measure.Key) int { return k.Admitted }),
			c.sum(func(k *measure.Key) int { return k.Central })
		c.that(fmt.Sprintf("%d admitted, %d by central buckets", admitted, central),
			math.Abs(float64(admitted)/float64(central)-1) < .05)
		c.that(fmt.Sprintf("gossip: %+v", c.played.Gossip), c.played.Gossip.Records.Most > 0)
	},
	"simulate-12-large-fleet": func(c *claim) {
		c.that("no request is refused wrongly", c.sum(func(k *measure.Key) int { return k.Wrongful }) == 0)
		c.that(fmt.Sprintf("gossip: %+v", c.played.Gossip), c.played.Gossip.Records.Mean > 0 &&
			c.played.Gossip.Packets.Most < 2000)
	},
	"simulate-13-exact": func(c *claim) {
		c.that("no request is refused wrongly", c.sum(func(k *measure.Key) int { return k.Wrongful }) == 0)
		for i := range c.played.Keys {
			c.that("a side has no more than its own bucket", c.played.Keys[i].WorstExcess < 20*6+20)
		}
		c.settles("heal", 0, 5)
		c.settles("crash gw-2", 0, 5)
	},
	"simulate-16-sites": func(c *claim) {
		c.that("no request is refused wrongly", c.sum(func(k *measure.Key) int { return k.Wrongful }) == 0)
		c.key("home", func(k *measure.Key) bool { return k.WorstExcess < 1.5 })
		c.key("above", func(k *measure.Key) bool { return k.WorstExcess < 2*(100+.3*100) })
	},
	"simulate-14-concurrency": func(c *claim) {
		for _, k := range c.played.InFlight {
			c.that(fmt.Sprintf("%+v", k), k.Most <= 20 && float64(k.Wrongly) < .08*float64(k.Offered))
			if k.Client == "batch" {
				c.that(fmt.Sprintf("%+v", k), k.Mean > .9*20 && k.Most == 20)
			} else {
				c.that(fmt.Sprintf("%+v", k), float64(k.Refused) < .01*float64(k.Offered))
			}
		}
		c.that("two clients", len(c.played.InFlight) == 2)
	},
	"simulate-15-quota": func(c *claim) {
		for _, q := range c.played.Quotas {
			c.that(fmt.Sprintf("%+v", q), q.Admitted <= q.Amount && q.Admitted > min(q.Wanted, q.Amount)-20)
			c.that(fmt.Sprintf("%+v", q), (q.UsedUpSeconds != nil) == (q.Client == "batch"))
		}
		c.that("two clients", len(c.played.Quotas) == 2)
	},
	"simulate-9-baselines": func(c *claim) {
		c.key("alice", func(k *measure.Key) bool { return k.WrongfulShare < .01 })
		c.that("the pool is used", c.played.Pools[0].WantedUse > .97)
		static, central, fps := c.named("static"), c.named("central"), c.named("fps")
		c.that("static refuses alice", static.Keys[0].WrongfulShare > .1)
		c.that("static wastes the pool", static.Pools[0].WantedUse < .6)
		c.that("central is exact and late", central.Keys[0].Wrongful == 0 && central.Waits.P50Ms > 45)
		c.that("fps is better than static", fps.Keys[0].Wrongful < static.Keys[0].Wrongful)
	},
}

// cut makes a fleet small enough for a test: a twentieth of the gateways and of the clients, for
// some seconds.
func cut(s *scenario.Scenario) {
	const by = 20
	s.Replicas = s.Replicas[:len(s.Replicas)/by]
	for i := range s.Clients {
		s.Clients[i].Count /= by
	}
	s.Duration, s.Warmup = 4*time.Second, time.Second
}

// claim looks into an outcome.
type claim struct {
	t      *testing.T
	result *simulate.Result
	played *measure.System // Titrate
}

func (c *claim) that(what string, holds bool) {
	c.t.Helper()
	if !holds {
		c.t.Errorf("not so: %s", what)
	}
}

func (c *claim) key(client string, holds func(*measure.Key) bool) {
	c.t.Helper()
	for i := range c.played.Keys {
		if k := &c.played.Keys[i]; k.Client == client {
			c.that(fmt.Sprintf("%+v", *k), holds(k))
			return
		}
	}
	c.t.Errorf("no key %s", client)
}

func (c *claim) sum(of func(*measure.Key) int) (sum int) {
	for i := range c.played.Keys {
		sum += of(&c.played.Keys[i])
	}
	return sum
}

func (c *claim) flow(tenant string, holds func(*measure.Flow) bool) {
	c.t.Helper()
	for i := range c.played.Flows {
		if f := &c.played.Flows[i]; f.Tenant == tenant {
			c.that(fmt.Sprintf("%+v", *f), holds(f))
			return
		}
	}
	c.t.Errorf("no flow of %s", tenant)
}

func (c *claim) settles(event string, least, most float64) {
	c.t.Helper()
	for _, e := range c.played.Settling {
		if e.What == event {
			c.that(fmt.Sprintf("%s settles in %g to %g s: %+v", event, least, most, e), e.Seconds != nil &&
				*e.Seconds >= least && *e.Seconds <= most)
			return
		}
	}
	c.t.Errorf("no event %s", event)
}

func (c *claim) named(system string) *measure.System {
	for i := range c.result.Systems {
		if c.result.Systems[i].Name == system {
			return &c.result.Systems[i]
		}
	}
	c.t.Fatalf("no system %s", system)
	return nil
}

// Every example of the lab keeps its promises. All baselines run the same requests, except those of the large
// fleet, which is also cut short.
func TestExamplesTeachWhatIsSo(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("plays every example with all baselines")
	}
	files, err := filepath.Glob(examples + "simulate-*.yaml")
	if err != nil || len(files) != len(claims) {
		t.Fatalf("%d examples, %d with claims: %v", len(files), len(claims), err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".yaml")
		t.Run(name, func(t *testing.T) {
			in, err := os.Open(file)
			if err != nil {
				t.Fatal(err)
			}
			defer in.Close()
			s, err := read.Parse([]*document.File{document.Open(file, in)}, nil)
			if err != nil {
				t.Fatal(err)
			}
			beside := simulate.Baselines()
			if len(s.Replicas) > 100 {
				cut(s)
				beside = nil
			}
			r, err := simulate.Run(t.Context(), s, simulate.Options{Baselines: beside})
			if err != nil {
				t.Fatal(err)
			}
			claims[name](&claim{t, r, &r.Systems[0]})
		})
	}
}
