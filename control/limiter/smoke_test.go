package limiter

import "testing"

func TestSmoke(t *testing.T) {
	e := New(Options{})
	err := e.Apply(&Config{Revision: 1, Pools: []Pool{{Name: "api", Capacity: 100}},
		Tenants: []Tenant{{Name: "a", Limits: []Limit{{Name: "l", Rate: 10, Burst: 5}}}}})
	if err != nil {
		t.Fatal(err)
	}
	n := map[Verdict]int{}
	for i := range 10 {
		n[e.Decide(int64(1e9+i), &Request{Tenant: "a", Client: "c", Pool: "api", Cost: 1}).Verdict]++
	}
	if n[Admit] != 5 || n[Reject] != 5 {
		t.Fatal(n)
	}
	held, admitted := 0, 0
	now := int64(2e9)
	for i := range 100 {
		r := &Request{Tenant: "a", Client: string(rune('A' + i)), Pool: "api", Cost: 1}
		switch e.Decide(now, r).Verdict {
		case Admit:
			admitted++
		case Wait:
			o, h := e.Enqueue(now, r, uint64(i))
			t.Log(o, h)
			if o.Verdict == Wait {
				held++
			}
		}
	}
	t.Log(admitted, held, e.Busy())
	for range 300 {
		now += 5e6
		for _, ev := range e.Tick(now, nil) {
			t.Log(now/1e6, ev)
			held--
		}
	}
	if held != 0 {
		t.Fatal(held)
	}
}
