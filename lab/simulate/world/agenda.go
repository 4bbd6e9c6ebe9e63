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
	takeBookings              // who: agent that sent it; load: *controlv1.Bookings
	takeBooked                // who: agent; load: *controlv1.Booked
	takePeriods               // who: agent; load: *periods
	connect                   // who: agent; its stream to the coordinator
	endAgent                  // who: agent
	runRound                  // of the coordinator
	losePatience              // load: *waiting
	pollTokens                // who: gateway
	tickTokens                // who: agent
	landFlight                // load: *flying
	endFlight                 // who: gateway; load: *limiter.Slots
	takeUp                    // who: gateway; its agent takes a message
	takeDown                  // who: gateway; load: *parcel, of its agent
)

// ofGateway reports whether a process of a gateway does it.
func (t task) ofGateway() bool {
	switch t {
	case tickGateway, sendClaims, linkGateway, unlinkGateway, pollTokens, takeUp, takeDown, endFlight:
		return true
	}
	return false
}

// item is a task with its time.
type item struct {
	at   time.Duration
	due  time.Duration // of a timer: at, if the process were not late
	load any           // a pointer, or nil
	who  int32
	life uint32 // of who, when it was planned: it is void for a later life
	task task
}

// add plans an item.
func (w *World) add(i item) { w.agenda.Add(i.at, i) }
