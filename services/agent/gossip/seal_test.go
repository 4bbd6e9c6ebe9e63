package gossip

import (
	"bytes"
	"errors"
	"testing"
	"time"

	gossipv1 "github.com/titrate/titrate/proto/titrate/gossip/v1alpha1"
	"github.com/titrate/titrate/services/agent/gossip/schedule"
	"google.golang.org/protobuf/proto"
)

func identityFor(t *testing.T) identity {
	t.Helper()
	i, err := newIdentity(current)
	if err != nil {
		t.Fatal(err)
	}
	return i
}

// meet is the session with another agent, by gossip keys.
func (i identity) meet(t *testing.T, other identity, keys ...string) *session {
	t.Helper()
	version, public := i.agree(other.meta())
	s, err := i.with(version, public, asKeys(keys))
	if err != nil || version != current {
		t.Fatalf("version %d: %v", version, err)
	}
	return s
}

func asKeys(texts []string) (keys [][]byte) {
	for _, text := range texts {
		keys = append(keys, []byte(text))
	}
	return keys
}

// Only the two agents of a session, in the one cluster, make and read its frames.
func TestSeal(t *testing.T) {
	a, b, c := identityFor(t), identityFor(t), identityFor(t)
	text := []byte("state")
	frame := a.meet(t, b, "cluster").seal(nil, text)
	if got, err := b.meet(t, a, "cluster").open(nil, frame); err != nil || !bytes.Equal(got, text) {
		t.Errorf("got %q, %v", got, err)
	}
	if from, err := frameFrom(frame); err != nil || from != senderOf(a.private.PublicKey().Bytes()) {
		t.Errorf("the sender is %x, %v", from, err)
	}
	for name, open := range map[string]*session{
		"a third agent":          c.meet(t, a, "cluster"),
		"of another sender":      b.meet(t, c, "cluster"),
		"its own maker":          a.meet(t, b, "cluster"),
		"with another's cluster": b.meet(t, a, "another cluster"),
	} {
		if got, err := open.open(nil, frame); err == nil {
			t.Errorf("%s reads %q", name, got)
		}
	}
	for i := range frame {
		changed := bytes.Clone(frame)
		changed[i] ^= 1
		if got, err := b.meet(t, a, "cluster").open(nil, changed); err == nil {
			t.Errorf("byte %d changed: reads %q", i, got)
		}
	}
}

// A public key with which nobody shares a secret makes no session.
func TestUnusablePublicKey(t *testing.T) {
	if s, err := identityFor(t).with(current, make([]byte, keyBytes), nil); s != nil || err == nil {
		t.Errorf("session %v, %v", s, err)
	}
}

func TestVersions(t *testing.T) {
	key := bytes.Repeat([]byte{1}, keyBytes)
	key[0] = 9
	i := identityFor(t)
	for name, c := range map[string]struct {
		meta   []byte
		want   uint8
		public bool
	}{
		"no meta":              {nil, 0, false},
		"this build":           {append([]byte{oldest, current}, key...), current, true},
		"the next one":         {append([]byte{current, current + 1}, key...), current, true},
		"two versions later":   {append([]byte{current + 1, current + 2}, key...), 0, false},
		"no key":               {[]byte{oldest, current}, 0, false},
		"none at all":          {[]byte{0, 0}, 0, false},
		"an extension of ours": {append(append([]byte{oldest, current}, key...), 7, 7), current, true},
	} {
		if v, public := i.agree(c.meta); v != c.want || (public != nil) != c.public {
			t.Errorf("%s: version %d, key %v, want %d, %v", name, v, public != nil, c.want, c.public)
		}
	}
	frame := make([]byte, frameExtra)
	frame[0], frame[1] = frameMark, current+1
	if _, err := frameFrom(frame); dropOf(err) != schedule.UnknownVersion {
		t.Errorf("a frame of a later version: %v", err)
	}
}

// A packet changes nothing if it names another agent than its sealer, or if no agent sealed it; either is counted.
func TestForged(t *testing.T) {
	t.Parallel()
	a, b, c := trio(t, nil)
	b.claim(2, 1)
	a.eventually("hears b", func() bool { return a.claims() == 2 })
	forged, err := proto.Marshal(&gossipv1.Packet{Agent: "agent-b", Incarnation: 1<<64 - 1, Seq: 1 << 62,
		PromiseMs: 1 << 31,
		Replicas: []*gossipv1.Replica{{Name: "b", Generation: 1<<64 - 1, Seq: 1 << 62, Weight: 1e308,
			Keys: []*gossipv1.KeyClaim{{Key: 7, Claim: 1e12, Admitted: 1e12}}}}})
	if err != nil {
		t.Fatal(err)
	}
	c.gossip.mu.Lock()
	to := c.gossip.contacts["agent-a"]
	sealed, node := to.session.seal(nil, forged), to.node
	c.gossip.mu.Unlock()
	at := addressOf(node.Addr, node.Port)
	for _, send := range []func() error{
		func() error { return c.gossip.wire.send(sealed, at) },
		func() error { return c.gossip.list.SendBestEffort(&node, forged) },
	} {
		before := a.gossip.Stats().Dropped[schedule.Forged]
		if err := send(); err != nil {
			t.Fatal(err)
		}
		a.eventually("counts it", func() bool { return a.gossip.Stats().Dropped[schedule.Forged] == before+1 })
	}
	b.claim(5, 1)
	a.eventually("hears b as before", func() bool { return a.claims() == 5 })
	if s := a.sums(); s.TotalWeight != 3 || s.Replicas != 3 {
		t.Errorf("membership %+v", s)
	}
}

// An agent that starts again after its clock stepped back is received, by its new life.
func TestClockSteppedBack(t *testing.T) {
	t.Parallel()
	a, b, _ := trio(t, nil)
	b.claim(2, 1)
	a.eventually("hears b", func() bool { return a.claims() == 2 })
	incarnation := b.incarnation
	b.stop()
	b.gossip.Close()
	again := openAt(t, "b", incarnation-uint64(time.Hour), nil, a.gossip.Address())
	again.claim(5, 1)
	a.eventually("hears the new life", func() bool { return a.claims() == 5 })
}

// A frame opens once, in any order while it is one of the latest. A session with a peer that was forgotten
// and is back has the same key, and goes on with higher numbers.
func TestAFrameOpensOnce(t *testing.T) {
	a, b := identityFor(t), identityFor(t)
	out, in := a.meet(t, b, "cluster"), b.meet(t, a, "cluster")
	var frames [][]byte
	for range 3 * windowFrames {
		frames = append(frames, out.seal(nil, []byte("state")))
	}
	opens := func(i int, want bool) {
		t.Helper()
		if _, err := in.open(nil, frames[i]); (err == nil) != want || !want && !errors.Is(err, errReplayed) {
			t.Errorf("frame %d: %v, want it opened: %v", i, err, want)
		}
	}
	last := len(frames) - 1
	for _, i := range []int{5, 3, 9, 0, last, last - windowFrames + 1, last - 1} {
		opens(i, true)
		opens(i, false)
	}
	for _, i := range []int{5, 3, last - windowFrames} {
		opens(i, false)
	}
	frames = append(frames, a.meet(t, b, "cluster").seal(nil, []byte("state")))
	opens(last+1, true)
	opens(last, false)
}

// FuzzOpen opens frames of any content: nothing panics, and only what was sealed opens, once.
func FuzzOpen(f *testing.F) {
	a, err := newIdentity(current)
	if err != nil {
		f.Fatal(err)
	}
	b, err := newIdentity(current)
	if err != nil {
		f.Fatal(err)
	}
	_, public := a.agree(b.meta())
	out, _ := a.with(current, public, nil)
	_, public = b.agree(a.meta())
	seed := out.seal(nil, []byte("state"))
	seed[len(seed)-1]++
	f.Add(seed, uint16(3), byte(1))
	f.Add([]byte{}, uint16(0), byte(0))
	f.Fuzz(func(t *testing.T, frame []byte, at uint16, flip byte) {
		in, err := b.with(current, public, nil)
		if err != nil {
			t.Fatal(err)
		}
		sealed := out.seal(nil, frame)
		if flip != 0 {
			changed := bytes.Clone(sealed)
			changed[int(at)%len(changed)] ^= flip
			if got, err := in.open(nil, changed); err == nil && int(at)%len(changed) > 0 && !bytes.Equal(got, frame) {
				t.Fatalf("a changed frame opens: %q", got)
			}
		}
		if _, err := frameFrom(frame); err == nil {
			if got, err := in.open(nil, frame); err == nil {
				t.Fatalf("what nobody has sealed opens: %q", got)
			}
		}
		if got, err := in.open(nil, sealed); err != nil || !bytes.Equal(got, frame) {
			t.Fatalf("got %q, %v", got, err)
		}
		if _, err := in.open(nil, sealed); err == nil {
			t.Fatal("it opens twice")
		}
	})
}
