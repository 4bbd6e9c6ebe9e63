package stream

import (
	"fmt"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Domain and reasons of the google.rpc.ErrorInfo in a stream's end.
const (
	Domain     = "titrate.dev"
	NotLeading = "NOT_LEADER"
	StaleEpoch = "STALE_EPOCH"
	NameInUse  = "NAME_IN_USE"
	// LeaderKey is the metadata key of the leader's address.
	LeaderKey = "leader"
)

// NotLeader is the status of a coordinator that does not lead; leader is the address of the leader, "" while there is
// none.
func NotLeader(leader string) error {
	text := "this coordinator does not lead, and no leader is known: try again"
	if leader != "" {
		text = "this coordinator does not lead; the leader is at " + leader
	}
	return informed(codes.FailedPrecondition, text, NotLeading, map[string]string{LeaderKey: leader})
}

// stale is the status for an agent that has obeyed a higher epoch.
func stale(obeyed, ours int64) error {
	text := fmt.Sprintf("the agent has obeyed epoch %d and this coordinator's is %d: it is out of date, "+
		"or its etcd was restored from an old backup (then start agents anew)", obeyed, ours)
	return informed(codes.Aborted, text, StaleEpoch, nil)
}

// nameInUse is the status for an agent whose name another process has, which is at an address.
func nameInUse(agent, address string) error {
	text := fmt.Sprintf("the name %q is in use by another agent, which is connected from %s: give each agent its own "+
		"--name (default: the host's name)", agent, address)
	return informed(codes.AlreadyExists, text, NameInUse, nil)
}

func informed(code codes.Code, text, reason string, metadata map[string]string) error {
	s, err := status.New(code, text).WithDetails(&errdetails.ErrorInfo{Reason: reason, Domain: Domain,
		Metadata: metadata})
	if err != nil {
		return status.Error(code, text)
	}
	return s.Err()
}
