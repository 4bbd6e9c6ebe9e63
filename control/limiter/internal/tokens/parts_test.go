package tokens

import (
	"testing"

	"github.com/titrate/titrate/control/exchange"
	"github.com/titrate/titrate/control/grant"
)

// parted is a store whose agent has said at a time that it divides by so many, and again each second until another.
func parted(from, until int64, n uint32) *Store[int] {
	s := &Store[int]{}
	s.Init(1000, Hold, func() {}, nil)
	s.Link(0, true)
	divideFor(s, from, until, n)
	return s
}

func divideFor(s *Store[int], from, until int64, n uint32) {
	for now := from; now <= until; now += second {
		s.Answer(now, &exchange.TokenAnswers{Division: &exchange.Division{Gateways: n}}, nil)
	}
}

// slow is a key whose bucket fills in 100 s.
func slow(n uint64) *Key { return &Key{Hash: n << 40, Numbers: Numbers{Rate: 1, Burst: 100}} }

// take returns how many tokens a key's part has.
func take(s *Store[int], k *Key, now int64) (n int) {
	for {
		sh := s.shard(k.Hash)
		sh.mu.Lock()
		ok := s.takePart(sh, k, now, grant.Token)
		sh.mu.Unlock()
		if !ok {
			return n
		}
		n++
	}
}

// callPart has an owner call a key's part.
func callPart(s *Store[int], k *Key, now int64, lease int64) {
	c := grant.PartCall{Owner: 7, At: now, Lease: lease, Rate: k.Rate, Burst: int64(k.Burst) * grant.Token}
	s.Answer(now, &exchange.TokenAnswers{Calls: []exchange.PartCall{{Key: k.Hash, PartCall: c}}}, nil)
}

// A process that stood still finds what its agent said meanwhile. Others may have got its part: what it would have
// been refilled is not there, whether the ticker or the link comes first.
func TestPartsOfAProcessThatStoodStill(t *testing.T) {
	for _, ticks := range []bool{false, true} {
		s := parted(190*second, 300*second, 2)
		if n := take(s, slow(1), 300*second); n < 39 {
			t.Fatalf("a part has %d tokens, want 39 or 40", n)
		}
		now := 360 * second
		if ticks {
			s.Sweep(now)
		}
		divideFor(s, now, now, 2)
		if n := take(s, slow(1), now); n > 1 {
			t.Errorf("%d tokens after a minute that may have been others'", n)
		}
		if n := take(s, slow(2), now); n > 40-20 {
			t.Errorf("%d tokens of a key that nobody used here, want 17", n)
		}
	}
}

// An owner may have counted a gateway as gone that had no parts for a while. It does not pay for a part then that it
// has called before.
func TestACalledPartBesideAPause(t *testing.T) {
	const lease = 60 * second
	for _, c := range []struct {
		name         string
		end, back    int64 // of the pause
		at, from, to int64 // when the part is looked at, and the tokens it may have
	}{
		{"no pause", 0, 0, 362, 39, 40},
		{"before the call lapses", 310, 320, 362, 0, 1},
		{"while it lapses", 350, 370, 371, 0, 1},
		{"afterwards", 365, 370, 371, 0, 39},
	} {
		s := parted(190*second, 300*second, 2)
		callPart(s, slow(1), 300*second, lease)
		now := int64(301)
		if c.end != 0 {
			divideFor(s, 301*second, c.end*second, 2)
			s.Link(c.end*second, false)
			s.Link(c.back*second, true)
			now = c.back
		}
		divideFor(s, now*second, c.at*second, 2)
		if n := take(s, slow(1), c.at*second); int64(n) < c.from || int64(n) > c.to {
			t.Errorf("%s: %d tokens, want %d to %d", c.name, n, c.from, c.to)
		}
	}
}

// Full parts are forgotten, also if no request has used them since the number of gateways changed.
func TestOldPartsAreForgotten(t *testing.T) {
	s := parted(190*second, 300*second, 2)
	for i := range uint64(1000) {
		take(s, slow(i), 300*second)
	}
	divideFor(s, 301*second, 1200*second, 3)
	now := 1200 * second
	for range 2 * shards {
		now += sweepAll / shards
		divideFor(s, now, now, 3)
		s.Sweep(now)
	}
	for i := range s.shards {
		if n := len(s.shards[i].parts); n != 0 {
			t.Errorf("shard %d remembers %d parts", i, n)
		}
	}
	if n := take(s, slow(1), now); n != 26 {
		t.Errorf("%d tokens, want 26", n)
	}
}
