package grant_test

import (
	"fmt"
	"reflect"
	"testing"

	"github.com/titrate/titrate/control/grant"
)

// numbersOf are the numbers and flags of a message by name.
func numbersOf(message any) map[string]reflect.Value {
	v, out := reflect.ValueOf(message).Elem(), map[string]reflect.Value{}
	for i := range v.NumField() {
		out[v.Type().Field(i).Name] = v.Field(i)
	}
	return out
}

// setTo sets a field to a number, cut to the type of the field.
func setTo(f reflect.Value, n int64) {
	switch f.Kind() {
	case reflect.Bool:
		f.SetBool(n&1 == 1)
	case reflect.Int64:
		f.SetInt(n)
	default:
		f.SetUint(uint64(n) & (1<<f.Type().Bits() - 1))
	}
}

// Grants of an owner that lies are void once the owner has gone: a gateway has a burst of
// them at most, and asks the next owner. Each field of its grants and recalls is at, below and beyond
// its bounds, always and in turns with the truth.
func TestALyingOwnerIsForgotten(t *testing.T) {
	if testing.Short() {
		t.Skip("a run for each value of each field")
	}
	const rate, burst, gone, end = 50., 10., second, 5 * second
	p := grant.Params{Rate: rate, Burst: burst * grant.Token}
	play := func(what string, lie func(n int, g *grant.Grant, r *grant.Recall)) {
		s, n := newSite(1, 50_000), 0
		s.lie = func(g *grant.Grant, r *grant.Recall) { n++; lie(n, g, r) }
		k := s.key(p, 4)
		k.poisson(3*rate, end)
		s.at(gone, func() {
			s.lie = nil
			for agent := range k.gates {
				k.believe(agent, 1)
			}
		})
		for at := gone; at < end; at += second / 10 {
			s.at(at, k.registered)
		}
		s.run(end + second)
		// 0.1 s until gateways know the next owner, and what each of them has then.
		if over, most := k.over(gone), float64(len(k.gates))*burst+rate*.1+2; over > most {
			t.Errorf("%s: %.1f over r·t + b once it has gone, at most %.1f", what, over, most)
		}
		if over := k.over(gone + listens + told); over > 2 {
			t.Errorf("%s: %.1f over r·t + b from 3 s after it has gone on", what, over)
		}
		late := 0
		for _, a := range k.admitted {
			if a.at > gone+2*second {
				late++
			}
		}
		if least := .9 * rate * float64(end-gone-2*second) / float64(second); float64(late) < least || k.waits > 0 {
			t.Errorf("%s: %d admitted from 2 s after it has gone on, at least %.0f; %d wait for ever", what, late, least,
				k.waits)
		}
	}
	numbers := []int64{0, 1, -1, 2*p.Burst + 1, second, 1 << 59, 3 << 60, 1<<63 - 1, -1 << 63}
	for _, message := range []any{&grant.Grant{}, &grant.Recall{}} {
		for name, field := range numbersOf(message) {
			for i, number := range numbers {
				if i > 1 && field.Kind() == reflect.Bool {
					break
				}
				for turns := range 2 {
					if turns == 0 && name != "Granted" {
						continue
					}
					play(fmt.Sprintf("%T.%s = %d, each %d.", message, name, number, turns+1),
						func(n int, g *grant.Grant, r *grant.Recall) {
							switch _, isGrant := message.(*grant.Grant); {
							case n%(turns+1) != 0:
							case isGrant && g != nil:
								setTo(numbersOf(g)[name], number)
							case !isGrant && r != nil:
								setTo(numbersOf(r)[name], number)
							}
						})
				}
			}
		}
	}
}
