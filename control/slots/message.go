package slots

// Peer names a process of a gateway to an owner. A process that is started anew is another peer.
type Peer uint32

// Ask is a message of a gateway to the owner of a key. Counts are cumulative within the session.
type Ask struct {
	Owner    uint64 // life of the owner; 0: not known, which only a message that registers may say
	Session  uint64 // of this key at this process; never reused, a later one is greater
	Number   uint32 // of this message within the session, from 1 on
	Heard    uint32 // Number of the latest Reply received
	Register bool   // no Reply of this session was received yet
	Brought  int64  // slots that the gateway had when the session began
	Received int64  // Reply.Granted as last received
	Returned int64  // slots returned
	Want     int64  // requests that wait; 0: none
	Patience int64  // nanoseconds until the last of them gives up
	Rate     int64  // requests that come, per 1000 s
	Stay     int64  // nanoseconds for which a request is in flight, in the mean; 0: not known
	Confirm  bool   // the owner is to confirm this: it says something new
	Released bool   // the gateway forgets the key; it has returned all slots
}

// Reply is a message of an owner to a gateway about a key.
type Reply struct {
	Owner   uint64 // life of the owner
	Session uint64 // of the gateway
	Number  uint32 // of this message within the session, from 1 on
	Seen    uint32 // Number of the latest Ask taken in
	Granted int64  // slots granted in this session so far
	Short   int64  // nanoseconds for which idle slots are to be returned at once; 0: the owner has free slots
	Full    bool   // no gateway has an idle slot, as far as the owner knows: new requests are refused while short
	Answer  bool   // an Ask is to confirm this at once
	Keep    int64  // while short the gateway returns slots down to so many as requests end; −1: it need not
	Begin   bool   // the owner does not know the session: the gateway begins another one. No other field counts
}

// Outbox takes what an owner sends. It may not call the owner.
type Outbox interface {
	Reply(to Peer, m Reply)
}

const (
	microsecond = 1000
	millisecond = 1000 * microsecond
	second      = 1000 * millisecond
)

// Times of the protocol, nanoseconds.
const (
	// LeaseFor is the time for which a gateway may start requests after it sent the last message that was answered.
	LeaseFor = 3 * second
	// ExpireAfter is the time after its last message for which the owner keeps a gateway's slots. It is longer than
	// LeaseFor by more than clocks differ in that time.
	ExpireAfter = 3500 * millisecond
	// BeatEvery is the time between two messages of a gateway to an owner, at most.
	BeatEvery = 500 * millisecond
	// MaxWait is the longest time that a request waits for a slot if the limit has no queue. It should be eight times
	// the way between two agents or more.
	MaxWait = 20 * millisecond
)

const (
	shortLeast, shortMost = 50 * millisecond, second // how long an owner is short
	shortTurns            = 4                        // in the time between two ends of requests
	recallFor             = 5 * millisecond          // the owner waits so long for returns before it says no
	repeatFirst           = 20 * millisecond         // of a question; doubles
	repeatMost            = 500 * millisecond
	confirmWithin         = 100 * millisecond // of what need not be confirmed at once
	keepIdle              = second            // a slot that was idle for so long goes back
	lastNumber            = 1 << 31           // of a message in a session; another session begins then
	patienceMost          = second            // for which a question holds
	meanOver              = second            // time constant of the means
	grantParts            = 128               // of the free slots are granted one after the other
	starveFor             = second            // a gateway that waits has a slot after this
	far                   = .6                // of its part: a gateway with less has far less
)
