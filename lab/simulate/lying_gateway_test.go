package simulate

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/titrate/titrate/control/exchange"
	"github.com/titrate/titrate/lab/simulate/system"
	"github.com/titrate/titrate/lab/simulate/world"
	"github.com/titrate/titrate/proto/liar"
	"github.com/titrate/titrate/proto/link"
)

// playGateway plays a gateway, gw-3, that sends its agent the result of falsify for each of its messages, until its
// lies are forgotten. Its agent does not lie.
func playGateway(t *testing.T, forgotten time.Duration,
	falsify func(n int, bad *liar.Gateway, m link.Message) []link.Message) *lied {
	t.Helper()
	s, report := liesScenario(forgotten), progress{passes: 2}
	reference, err := rehearse(t.Context(), s, &report)
	if err != nil {
		t.Fatal(err)
	}
	calm, n := map[uint64]bool{}, 0
	bad := &liar.Gateway{Spare: func(key uint64) bool { return calm[key] }}
	l := &lied{owned: map[string]bool{}, from: forgotten}
	_, err = perform(t.Context(), s, contender{Titrate, func(stage system.Stage) (system.System, error) {
		answer := stage.Answer
		stage.Answer = func(a system.Answer) {
			l.fates = append(l.fates, a)
			answer(a)
		}
		l.clients = stage.Cast.Clients
		made, err := world.New(stage)
		l.System = made
		w := made.(*world.World)
		w.TamperLink = func(gateway string, m link.Message) []link.Message {
			if asked, is := m.(*exchange.TokenRequests); is {
				for i := range asked.List {
					calm[asked.List[i].Key] = calm[asked.List[i].Key] || asked.List[i].Tenant == "calm"
				}
			}
			bad.Hear(m)
			if gateway != "gw-3" || w.Clock() < liesFrom || w.Clock() >= liesUntil {
				return []link.Message{m}
			}
			n++
			return falsify(n, bad, m)
		}
		return l, err
	}}, reference, false, &report)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// forgottenAfter is the time after which a lie in a field has no effect. An invented claim is charged as use until T2.
func forgottenAfter(path string) time.Duration {
	if path == "Claims.Keys.Admitted" || path == "Claims.Keys.Claim" {
		return late
	}
	return soon
}

// limiting are the fields that may change what is admitted: the agent's core test has the others, see
// core.TestAGatewayThatLiesHarmsNobody.
func limiting() (paths []string) {
	return slices.DeleteFunc(liar.GatewayFields(), func(path string) bool {
		message, _, _ := strings.Cut(path, ".")
		return !slices.Contains([]string{"Claims", "Spent", "TokenRequests", "Report"}, message) ||
			strings.Contains(path, "Counts") || strings.Contains(path, "Clients")
	})
}

// A gateway sets each field of its messages to values at, below and beyond its bounds, and to values that others have
// sent there. Each second message is correct. The others are admitted no more than beside an agent that lies.
func TestALiarInOneFieldOfItsLink(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("plays each field alone; TestALiarInManyFieldsOfItsLink plays all of them")
	}
	for _, path := range limiting() {
		l := playGateway(t, forgottenAfter(path), func(n int, bad *liar.Gateway, m link.Message) []link.Message {
			if n%2 == 0 {
				return []link.Message{m}
			}
			if _, beat := m.(*link.Heartbeat); beat { // also in messages that it has no reason to send
				made := liar.NewMessage(path)
				bad.Tell(made, path, n)
				return []link.Message{m, made}
			}
			if liar.Of(path, m) {
				bad.Tell(m, path, n/2)
			}
			return []link.Message{m}
		})
		l.check(t, path, strings.HasSuffix(path, ".Key"))
	}
}

// The same with several fields at once, drawn again for each message.
func TestALiarInManyFieldsOfItsLink(t *testing.T) {
	t.Parallel()
	paths := slices.DeleteFunc(limiting(), func(path string) bool { return strings.HasSuffix(path, ".Key") })
	for seed := range seedsOf(24) {
		random := rand.New(rand.NewPCG(seed, 8))
		l := playGateway(t, late, func(_ int, bad *liar.Gateway, m link.Message) []link.Message {
			if random.IntN(3) > 0 {
				bad.TellSome(m, paths, random)
			}
			return []link.Message{m}
		})
		l.check(t, fmt.Sprint("seed ", seed), false)
	}
}

// What a gateway has sent is played again at any time, to the same link: that admits nothing more, and refuses nobody.
func TestLinkPlayedAgain(t *testing.T) {
	t.Parallel()
	var recorded []link.Message
	l := playGateway(t, soon, func(n int, _ *liar.Gateway, m link.Message) []link.Message {
		recorded = append(recorded, m)
		return []link.Message{m, recorded[n*7919%len(recorded)]}
	})
	l.check(t, "played again", false)
}
