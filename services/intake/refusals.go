package intake

import (
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Reason says why a message is refused: an index of Reasons.
type Reason int

// The reasons.
const (
	ByLength Reason = iota
	ByEntries
	ByCompression
	ByForm    // it is no message of its method
	byRoom    // the messages of other calls take all the room
	byTime    // it did not arrive in time
	byUnknown // the server has no such method; the last one, see Trouble
)

// Reasons name why messages are refused, for metrics.
var Reasons = [...]string{ByLength: "length", ByEntries: "entries", ByCompression: "compressed", ByForm: "malformed",
	byRoom: "busy", byTime: "late", byUnknown: "unknown_method"}

const (
	// logEvery is the least time between two log lines of one reason. Otherwise a stranger could fill the disk.
	logEvery = time.Minute
	// alarmFor is the time for which a refusal is an alarm. Most probes look once a minute.
	alarmFor = 2 * time.Minute
	// mostReason bounds what a log line and the alarm say of a refusal, bytes.
	mostReason = 500
)

// refusals are the messages that were refused.
type refusals struct {
	counts [len(Reasons)]atomic.Uint64
	logged [len(Reasons)]rate.Sometimes // Interval: logEvery
	last   [len(Reasons)]atomic.Pointer[refusal]
}

// refusal is one of them.
type refusal struct {
	at  time.Time
	why string
}

// Refuse notes that a message is refused before a handler has seen it, over gRPC or HTTP. The caller alone
// would know it otherwise, and Envoy lets requests pass whose call has failed.
func (i *Intake) Refuse(reason Reason, why error) {
	r, text := &i.refused, cut(why.Error(), mostReason)
	total := r.counts[reason].Add(1)
	r.last[reason].Store(&refusal{time.Now(), text})
	r.logged[reason].Do(func() {
		i.of.Log.Warn("a message was refused before its call was handled; such a line is written once a minute",
			"reason", Reasons[reason], "refused", total, "error", text)
	})
}

// Refused returns the number of refused messages for each of Reasons.
func (i *Intake) Refused() (out [len(Reasons)]uint64) {
	for reason := range out {
		out[reason] = i.refused.counts[reason].Load()
	}
	return out
}

// Trouble is an alarm: messages were refused within the last two minutes. It names each reason, unknown methods last:
// a stranger can call them all the time, and must not hide other reasons.
func (i *Intake) Trouble() error {
	var now []string
	for reason, total := range i.Refused() {
		last := i.refused.last[reason].Load()
		if last != nil && time.Since(last.at) < alarmFor {
			now = append(now, fmt.Sprintf("%s, %d since the start, the last one: %s", Reasons[reason], total,
				strconv.Quote(last.why)))
		}
	}
	if len(now) == 0 {
		return nil
	}
	return fmt.Errorf("messages are refused before their calls are handled: %s", strings.Join(now, "; "))
}

// unknown refuses calls of methods that the server does not have.
func (i *Intake) unknown(_ any, s grpc.ServerStream) error {
	method, _ := grpc.MethodFromServerStream(s)
	err := status.Errorf(codes.Unimplemented, "this server has no method %s", strconv.Quote(cut(method, mostReason)))
	i.Refuse(byUnknown, err)
	return err
}
