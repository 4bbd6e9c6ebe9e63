package grant

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
)

// liar sends an owner wrong messages, every 5 ms, in the name of one more gateway.
type liar struct {
	w    *world
	rng  *rand.Rand
	peer Peer
	q    Request // the last one
	lie  func(l *liar, q *Request)
}

// begin has the liar send until the given time; then it is gone, as a session that is lost.
func (l *liar) begin(until int64) {
	var next func()
	next = func() {
		if l.w.now >= until {
			l.w.owner.Lost(l.w.now, l.peer, l.w)
			return
		}
		l.q.Number++
		q := l.q
		l.lie(l, &q)
		l.w.owner.Request(l.w.now, l.peer, q, l.w)
		l.w.wakeOwner()
		l.w.after(5*millisecond, next)
	}
	l.w.after(500*millisecond, next)
}

// settable are the numbers and flags of a message, those of its arrays, too, by name.
func settable(v reflect.Value, name string, out map[string]reflect.Value) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			settable(v.Field(i), name+"."+v.Type().Field(i).Name, out)
		}
	case reflect.Array:
		for i := range v.Len() {
			settable(v.Index(i), fmt.Sprint(name, ".", i), out)
		}
	default:
		out[name] = v
	}
}

// set sets a field to a number, cut to the type of the field.
func set(f reflect.Value, n int64) {
	switch f.Kind() {
	case reflect.Bool:
		f.SetBool(n&1 == 1)
	case reflect.Int64:
		f.SetInt(n)
	case reflect.Uint32, reflect.Uint64:
		f.SetUint(uint64(n) & (1<<f.Type().Bits() - 1))
	default:
		panic("a field of another kind: " + f.Kind().String())
	}
}

// mostSaid is the largest number of a request that an agent accepts, see its inRange.
const mostSaid = int64(3) << 60

// lies returns values for a field: possible, negative and too large.
func lies(p Params) []int64 {
	return []int64{0, 1, -1, p.Burst, 2*p.Burst + 1, second, mostSaid, -p.Burst, -mostSaid}
}

// truth returns about what an honest gateway that needs a token would send.
func (l *liar) truth() Request {
	return Request{Session: 1, Owner: l.w.life, Number: l.q.Number, Seq: l.q.Number, Need: Token, Least: Token, Level: -1,
		Register: l.q.Number == 1}
}

// playLiar runs a liar and three honest gateways at 0.6 times the limit, and returns the world.
func playLiar(t *testing.T, seed uint64, lie func(l *liar, q *Request)) *world {
	t.Helper()
	p := Params{Rate: 100, Burst: 20 * Token}
	w := newWorld(p, 3, 50_000, seed)
	w.poisson(60, liarGone+2*second, func() int { return w.rng.IntN(3) })
	for i := range 2 { // processes of one agent
		l := &liar{w: w, rng: rand.New(rand.NewPCG(seed, uint64(i))), peer: Peer(len(w.gates)), lie: lie}
		w.gates = append(w.gates, &gate{w: w, id: l.peer, g: NewGateway(p, 1)}) // what it is sent is lost
		l.q = l.truth()
		l.begin(liarGone)
	}
	w.run(liarGone + 2*second)
	return w
}

const liarGone = 4 * second

// checkLiar checks the promises for a key of which one user sends wrong numbers.
func (w *world) checkLiar(t *testing.T, what string) {
	t.Helper()
	if over, bound := excess(w.p, w.admitted), creditBursts*float64(w.p.Burst)/Token+2; over > bound {
		t.Errorf("%s: %.1f admitted beyond r·t + b, at most %.1f", what, over, bound)
	}
	during, after, would := 0., 0., 0.
	for _, e := range w.admitted {
		if e.at > 1500*millisecond && e.at < liarGone {
			during++
		}
		if e.at > liarGone+second {
			after++
		}
	}
	for _, e := range w.central {
		if e.at > liarGone+second {
			would++
		}
	}
	// A token for each of three gateways in the longest wait and the time of five tokens; half of that.
	p := w.owner.p
	if least := .5 * 3 * 2.5 * second / float64(p.longest()+5*p.time(Token)); during < least {
		t.Errorf("%s: %v admitted while it lied, at least %.0f", what, during, least)
	}
	if after < would-3 {
		t.Errorf("%s: %v of %v admitted from a second after it has gone", what, after, would)
	}
}

// TestALiarInOneField sets each field of a request at, below and beyond its bounds, always and in turns
// with the truth, in questions, registrations and answers to recalls.
func TestALiarInOneField(t *testing.T) {
	if testing.Short() {
		t.Skip("a run for each value of each field; TestALiarInAllFields plays all of them")
	}
	fields := map[string]reflect.Value{}
	settable(reflect.ValueOf(&Request{}).Elem(), "", fields)
	for name := range fields {
		for i, n := range lies(Params{Burst: 20 * Token}) {
			if i > 1 && fields[name].Kind() == reflect.Bool {
				break
			}
			for _, as := range []struct {
				kind    string
				inTurns bool
			}{{"question", true}, {"question", false}, {"registers", true}, {"each a session", true}, {"answers", true}} {
				w := playLiar(t, 1, func(l *liar, q *Request) {
					*q = l.truth()
					switch as.kind {
					case "registers":
						q.Register, q.Exclusive, q.Level = true, true, 0
					case "each a session":
						q.Session, q.Register = uint64(q.Number), true
					case "answers":
						q.Recalled, q.Exclusive, q.Need = q.Number/8, true, 0
					}
					if !as.inTurns || q.Number%2 == 0 {
						all := map[string]reflect.Value{}
						settable(reflect.ValueOf(q).Elem(), "", all)
						set(all[name], n)
					}
				})
				w.checkLiar(t, fmt.Sprintf("%s = %d, %s, in turns %v", name, n, as.kind, as.inTurns))
			}
		}
	}
}

// TestALiarInAllFields plays requests whose fields are drawn from the same numbers.
func TestALiarInAllFields(t *testing.T) {
	for seed := range uint64(60) {
		w := playLiar(t, seed, func(l *liar, q *Request) {
			number, truth := q.Number, l.truth()
			numbers, all := lies(l.w.p), map[string]reflect.Value{}
			settable(reflect.ValueOf(q).Elem(), "", all)
			for _, f := range sortedFields(all) {
				if l.rng.IntN(3) == 0 {
					set(f, numbers[l.rng.IntN(len(numbers))])
				}
			}
			q.Number = number
			if l.rng.IntN(4) > 0 { // else the owner takes it for a stranger
				q.Session, q.Owner = truth.Session+uint64(number/64), truth.Owner
			}
		})
		w.checkLiar(t, fmt.Sprint("seed ", seed))
	}
}

// sortedFields are fields in the same order in each run.
func sortedFields(all map[string]reflect.Value) (out []reflect.Value) {
	for _, name := range slices.Sorted(maps.Keys(all)) {
		out = append(out, all[name])
	}
	return out
}
