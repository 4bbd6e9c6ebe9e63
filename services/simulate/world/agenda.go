package world

import "time"

// task is a kind of work that is due at a time.
type task uint8

const (
	tickGateway   task = iota // who: gateway
	sendClaims                // who: gateway; its messages to the agent
	linkGateway               // who: gateway
	unlinkGateway             // who: gateway; its agent is paused
	tickAgent                 // who: agent
	gossip                    // who: agent
	deliverPacket             // who: agent; load: *letter
	reportUp                  // who: agent; to the coordinator
	takeReport                // who: agent that sent it; load: *controlv1.Report
	takeLeases                // who: agent; load: *controlv1.Leases
	takeConfig                // who: agent; load: *config.Config
	connect                   // who: agent; its stream to the coordinator
	endAgent                  // who: agent
	runRound                  // of the coordinator
	losePatience              // load: *waiting
	pollTokens                // who: gateway
	tickTokens                // who: agent
	landFlight                // load: *flying
	takeUp                    // who: gateway; its agent takes a message
	takeDown                  // who: gateway; load: *parcel, of its agent
)

// ofGateway reports whether a process of a gateway does it.
func (t task) ofGateway() bool {
	switch t {
	case tickGateway, sendClaims, linkGateway, unlinkGateway, pollTokens, takeUp, takeDown:
		return true
	}
	return false
}

// item is a task with its time. Items of one time are done as they were planned.
type item struct {
	at   time.Duration
	due  time.Duration // of a timer: at, if the process were not late
	seq  uint64
	load any // a pointer, or nil
	who  int32
	life uint32 // of who, when it was planned: it is void for a later life
	task task
}

func (a *item) before(b *item) bool { return a.at < b.at || a.at == b.at && a.seq < b.seq }

// agenda is a binary heap of items by time.
type agenda struct {
	items []item
	seq   uint64
}

func (a *agenda) add(i item) {
	a.seq++
	i.seq = a.seq
	a.items = append(a.items, i)
	for n := len(a.items) - 1; n > 0; {
		up := (n - 1) / 2
		if !a.items[n].before(&a.items[up]) {
			break
		}
		a.items[n], a.items[up] = a.items[up], a.items[n]
		n = up
	}
}

// due reports whether there is something to do until now, that included.
func (a *agenda) due(now time.Duration) bool { return len(a.items) > 0 && a.items[0].at <= now }

// next takes the first item; there must be one.
func (a *agenda) next() item {
	first := a.items[0]
	last := len(a.items) - 1
	a.items[0] = a.items[last]
	a.items[last] = item{}
	a.items = a.items[:last]
	for n := 0; ; {
		least := n
		for down := 2*n + 1; down <= 2*n+2 && down < last; down++ {
			if a.items[down].before(&a.items[least]) {
				least = down
			}
		}
		if least == n {
			return first
		}
		a.items[n], a.items[least] = a.items[least], a.items[n]
		n = least
	}
}
