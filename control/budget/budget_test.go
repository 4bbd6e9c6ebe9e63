package budget

import (
	"testing"

	"pgregory.net/rapid"
)

func limitOf(tenant, limit int) ID { return ID(tenant)<<32 | ID(limit) }

// fill has limits take turns until none of them gets a place.
func fill(r *Room, ids ...ID) (got map[ID]int) {
	got = map[ID]int{}
	for more := true; more; {
		more = false
		for _, id := range ids {
			if r.Fits(id) {
				r.Take(id)
				got[id]++
				more = true
			}
		}
	}
	return got
}

func TestParts(t *testing.T) {
	a, b, c := limitOf(1, 1), limitOf(1, 2), limitOf(2, 1)
	r := NewRoom(7000)
	if got := fill(r, a)[a]; got != 3000 {
		t.Errorf("one limit has %d of 7000, want 3000", got)
	}
	if got := fill(r, b)[b]; got != 429 {
		t.Errorf("another limit of the tenant gets %d beside it, want 3/49 of 7000", got)
	}
	if got := fill(r, c)[c]; got < 1500 {
		t.Errorf("another tenant gets %d, want more than 1500", got)
	}
	for range 3000 {
		r.Free(a)
	}
	if got := fill(r, a)[a]; got < 500 || r.Keys() > 7000 {
		t.Errorf("it is back for %d keys, %d in all", got, r.Keys())
	}
}

// Whatever is taken and freed: never more than the room, each tenant leaves the half of what it
// found, and tenants and limits that have nothing are forgotten.
func TestPropertyRoom(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		size := rapid.IntRange(10, 2000).Draw(rt, "size")
		r, has := NewRoom(size), map[ID]int{}
		tenants := rapid.IntRange(1, 5).Draw(rt, "tenants")
		for range rapid.IntRange(1, 200).Draw(rt, "steps") {
			id := limitOf(rapid.IntRange(1, tenants).Draw(rt, "tenant"), rapid.IntRange(1, 3).Draw(rt, "limit"))
			if rapid.Bool().Draw(rt, "free") {
				for n := rapid.IntRange(0, has[id]).Draw(rt, "n"); n > 0; n-- {
					r.Free(id)
					has[id]--
				}
				continue
			}
			has[id] += fill(r, id)[id]
			if left := size - r.Keys(); left < size>>tenants-tenants {
				rt.Fatalf("%d tenants leave %d of %d", tenants, left, size)
			}
		}
		for id, n := range has {
			for range n {
				r.Free(id)
			}
		}
		if r.Keys() != 0 || len(r.has.limits)+len(r.has.tenants) != 0 {
			rt.Fatalf("something is left: %+v", r.has)
		}
	})
}

// A limit that asks without end has its part; questions that cannot be prevented take nothing from others.
func TestRate(t *testing.T) {
	const second, size = int64(1e9), 700
	a, b, c := limitOf(1, 1), limitOf(1, 2), limitOf(2, 1)
	r, asked := NewRate(size), 0
	for i := range int64(10_000) { // 1000/s for 10 s
		if now := i * second / 1000; r.Fits(now, a) {
			r.Ask(now, a)
			asked++
		}
	}
	if asked < 10*290 || asked > 11*300+1 {
		t.Errorf("%d questions in 10 s, want 300/s", asked)
	}
	for i := range int64(3000) {
		r.Ask(10*second+i*second/1000, a)
	}
	now := 13 * second
	if r.Fits(now, a) || !r.Fits(now, b) || !r.Fits(now, c) {
		t.Error("questions of one limit that cannot be prevented count for another")
	}
	if now += 2 * second; !r.Fits(now, a) || r.was.all+r.now.all != 0 {
		t.Errorf("2 s later: %+v %+v", r.was, r.now)
	}
	if r.Fits(now, a); r.from != now {
		t.Errorf("the second began at %d, now is %d", r.from, now)
	}
}
