package limiter

import "testing"

// Two gateways could not reach the owner of a key for two seconds, and went on alone below its limit. Afterwards one
// of them receives what others did meanwhile before the other one has reported to the owner what it admitted. The owner
// gets the refill of those two seconds with that report, too, and refuses nothing.
func TestAHealLosesNoRefill(t *testing.T) {
	f := newExactFleet(t, 3, unstated(60, 60))
	f.lost = map[int]bool{}
	r := Request{Tenant: "a", Client: "c", Pool: "api", Cost: 1}
	now, refused, asked := sec, 0, 0
	ask := func(gateway int) {
		switch out, _ := f.ask(gateway, now, r, 9); out.Verdict {
		case Wait:
			f.waits++
		case Reject:
			refused++
		}
	}
	play := func(steps int) { // 40 requests/s, of which the first gateway gets five of six, the last one the rest
		for i := range steps {
			if i%10 == 0 {
				f.gossip(now, true)
			}
			if asked++; asked%5 == 0 {
				ask(map[bool]int{true: 2, false: 0}[asked%30 == 0])
			}
			before := f.waits
			admitted := f.advance(now, true, 1)[0]
			refused += before - f.waits - admitted
			now += 5 * ms
		}
	}
	play(400)
	f.lost[0], f.lost[2], refused = true, true, 0
	play(400)
	for range 40 {
		ask(0)
	}
	play(20)
	f.gap, f.lost[2], f.learned = 2, false, 0
	play(80)
	f.lost[0] = false
	play(80)
	if f.learned > 0 {
		t.Errorf("an owner was sent %d times what is spent, beside reports of the same", f.learned)
	}
	f.gap = 0
	play(200)
	if refused > 0 {
		t.Errorf("%d requests were refused of a client at two thirds of its limit", refused)
	}
}
