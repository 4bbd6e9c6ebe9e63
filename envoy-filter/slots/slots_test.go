package slots

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/titrate/titrate/control/limiter"
)

func TestAcquireAllOrNone(t *testing.T) {
	published := 0
	r := New(func(limiter.Names) { published++ })
	if _, err := r.Acquire([]string{"a"}, nil, nil); err != nil || published != 1 {
		t.Fatalf("%v, published %d times", err, published)
	}
	many := make([]string, limiter.MaxClasses+1)
	for i := range many {
		many[i] = fmt.Sprint("c", i)
	}
	if _, err := r.Acquire([]string{"b"}, many, []string{"c"}); err == nil || !strings.Contains(err.Error(), "32 classes") {
		t.Fatalf("one class too many: %v", err)
	}
	if _, err := r.Acquire([]string{"a", "b"}, many[:limiter.MaxClasses], nil); err != nil {
		t.Fatalf("after that was released: %v", err)
	}
	before := published
	r.Release(3, ^uint32(0), 0)
	if _, err := r.Acquire([]string{"b", "a"}, many[:limiter.MaxClasses], nil); err != nil || published != before {
		t.Fatalf("the same names again: %v, published %d times", err, published-before)
	}
}

// Configurations come and go. At any time the published names have the name of each slot
// that a configuration uses, and names that fit are not refused.
func TestConfigurationsComeAndGo(t *testing.T) {
	for seed := range uint64(200) {
		comeAndGo(t, rand.New(rand.NewPCG(seed, 1)))
	}
}

type configuration struct {
	names []string
	slots Acquired
}

func comeAndGo(t *testing.T, random *rand.Rand) {
	var known limiter.Names
	r := New(func(n limiter.Names) { known = n })
	var live []configuration
	for range 60 {
		c := configuration{names: some(random)}
		var err error
		if c.slots, err = r.Acquire(c.names, nil, nil); err == nil {
			live = append(live, c)
		} else if n := distinct(append(live, c)); n <= limiter.MaxIdentities {
			t.Fatalf("%d names do not fit: %v", n, err)
		}
		for len(live) > 0 && random.IntN(2) == 0 {
			i := random.IntN(len(live))
			r.Release(live[i].slots.IdentityBits, 0, 0)
			live = append(live[:i], live[i+1:]...)
		}
		for _, c := range live {
			for i, at := range c.slots.Identities {
				if known.Identities[at] != c.names[i] || c.slots.IdentityBits>>at&1 == 0 {
					t.Fatalf("slot %d is published as %q, a configuration calls it %q", at, known.Identities[at],
						c.names[i])
				}
			}
		}
	}
}

// some returns one to five distinct names of twelve.
func some(random *rand.Rand) (names []string) {
	for _, i := range random.Perm(12)[:1+random.IntN(5)] {
		names = append(names, fmt.Sprint("name-", i))
	}
	return names
}

func distinct(list []configuration) int {
	all := map[string]bool{}
	for _, c := range list {
		for _, name := range c.names {
			all[name] = true
		}
	}
	return len(all)
}
