package grant

import "testing"

// A client that asks for exactly its limit is refused nothing, wherever it goes. It stays at one
// gateway, asks all of them in turn, or moves each two seconds, in single requests and in full
// bursts. Its requests wait for an owner now and then, and are charged when they came.
func TestExactlyTheLimit(t *testing.T) {
	for _, p := range []Params{{Rate: .5, Burst: Token}, {Rate: 5, Burst: Token}, {Rate: 5, Burst: 5 * Token},
		{Rate: 100, Burst: Token}, {Rate: 100, Burst: 20 * Token}} {
		for _, stay := range []int64{1, second, 2 * second, 60 * second} {
			w := newWorld(p, 3, millisecond, 5)
			every, until := p.time(p.Burst)+1000, int64(60*second)
			for at := int64(second); at < until; at += every {
				w.at(at, func() {
					i := int(w.now/stay) % 3
					if stay == 1 {
						i = int(w.now/every) % 3
					}
					for range p.Burst / Token {
						w.request(i, Token)
					}
				})
			}
			w.run(until + second)
			over := excess(p, w.admitted)
			if w.wrongful > 0 || over > 1+8*p.Rate/1000 {
				t.Errorf("%v/s, burst %v, %d ms at each gateway: %d of %d refused, excess %.2f", p.Rate, p.Burst/Token,
					stay/millisecond, w.wrongful, w.offered, over)
			}
		}
	}
}
