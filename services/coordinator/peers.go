package coordinator

import (
	"context"
	"crypto/subtle"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	controlv1 "github.com/titrate/titrate/proto/titrate/control/v1alpha1"
	quotav1 "github.com/titrate/titrate/proto/titrate/quota/v1alpha1"
	"github.com/titrate/titrate/services/coordinator/election"
)

const (
	// peerTimeout bounds the time for another coordinator's answer, as does half of the time that the caller has.
	// stateTimeout does so where the answer is only an addition to the one asked for.
	peerTimeout, stateTimeout = 2 * time.Second, 500 * time.Millisecond
	// keyMetadata has the secret of the coordinator that is asked.
	keyMetadata = "titrate-coordinator-key-bin"
)

// peers asks the coordinators that share the pools, and answers them.
type peers struct {
	controlv1.UnimplementedPeerServiceServer
	live    *live
	options []grpc.DialOption

	mu    sync.Mutex
	conns map[string]*grpc.ClientConn // by address
}

func newPeers(l *live, secure credentials.TransportCredentials) *peers {
	return &peers{live: l, conns: map[string]*grpc.ClientConn{}, options: []grpc.DialOption{
		grpc.WithTransportCredentials(secure), grpc.WithDisableServiceConfig(),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessage))}}
}

func (p *peers) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, conn := range p.conns {
		conn.Close()
	}
}

// conn is the connection to an address. Those to coordinators that do not share any more are closed.
func (p *peers) conn(s *election.Sharing, address string) (*grpc.ClientConn, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for at, conn := range p.conns {
		shares := false
		for i := range s.Sharers {
			shares = shares || s.Sharers[i].Address == at
		}
		if !shares {
			conn.Close()
			delete(p.conns, at)
		}
	}
	if conn := p.conns[address]; conn != nil {
		return conn, nil
	}
	conn, err := grpc.NewClient(address, p.options...)
	if err == nil {
		p.conns[address] = conn
	}
	return conn, err
}

// ask asks one of the coordinators that share the pools. An error is a status that names it.
func (p *peers) ask(ctx context.Context, s *election.Sharing, one *election.Sharer, timeout time.Duration,
	question *controlv1.AskRequest) (*controlv1.AskResponse, error) {
	if deadline, ok := ctx.Deadline(); ok {
		timeout = min(timeout, time.Until(deadline)/2)
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	conn, err := p.conn(s, one.Address)
	if err == nil {
		var answer *controlv1.AskResponse
		answer, err = controlv1.NewPeerServiceClient(conn).Ask(
			metadata.NewOutgoingContext(ctx, metadata.Pairs(keyMetadata, string(one.Key))), question)
		if err == nil {
			return answer, nil
		}
	}
	return nil, status.Errorf(codes.Unavailable,
		"coordinator %s at %s, which leads some of the pools, does not answer: %s", one.Name, one.Address,
		status.Convert(err).Message())
}

// each asks all other coordinators that share the pools, at once, and passes the answers on in the
// order of their names. The first error is returned.
func (p *peers) each(ctx context.Context, s *election.Sharing, question *controlv1.AskRequest,
	take func(*election.Sharer, *controlv1.AskResponse)) error {
	answers, errs := make([]*controlv1.AskResponse, len(s.Sharers)), make([]error, len(s.Sharers))
	var group sync.WaitGroup
	for i := range s.Sharers {
		if one := &s.Sharers[i]; !s.IsSelf(one) {
			group.Go(func() { answers[i], errs[i] = p.ask(ctx, s, one, peerTimeout, question) })
		}
	}
	group.Wait()
	var first error
	for i, answer := range answers {
		if answer != nil {
			take(&s.Sharers[i], answer)
		}
		if first == nil {
			first = errs[i]
		}
	}
	return first
}

// known is nil if another coordinator asks: it knows the secret of this one.
func (p *peers) known(ctx context.Context) error {
	given := metadata.ValueFromIncomingContext(ctx, keyMetadata)
	if len(given) == 1 && subtle.ConstantTimeCompare([]byte(given[0]), p.live.coordinator.elector.Key()) == 1 {
		return nil
	}
	return status.Error(codes.Unauthenticated,
		"only coordinators that share the pools may ask this: the secret of this one is missing or not right")
}

// Ask answers another coordinator, whom admit has let in.
func (p *peers) Ask(_ context.Context, r *controlv1.AskRequest) (*controlv1.AskResponse, error) {
	l := p.live
	switch q := r.GetQuestion().(type) {
	case *controlv1.AskRequest_State:
		return &controlv1.AskResponse{Answer: &controlv1.AskResponse_State{
			State: stateAnswer(q.State, l.ownStates(q.State.GetPools(), q.State.GetQuotas()))}}, nil
	case *controlv1.AskRequest_Explain:
		out, err := l.ownExplain(q.Explain.GetTenant(), q.Explain.GetPool())
		return &controlv1.AskResponse{Answer: &controlv1.AskResponse_Explain{
			Explain: &controlv1.ExplainAnswer{Explanations: out}}}, unavailable(err)
	case *controlv1.AskRequest_Rehearse:
		out, err := l.ownRehearse(q.Rehearse)
		if err != nil {
			return nil, unavailable(err)
		}
		return &controlv1.AskResponse{Answer: &controlv1.AskResponse_Rehearse{
			Rehearse: &controlv1.RehearseAnswer{Pools: out.Pools, Flows: out.Flows}}}, nil
	case *controlv1.AskRequest_History:
		out, err := l.ownHistory(q.History.GetPool())
		if err != nil {
			return nil, unavailable(err)
		}
		return &controlv1.AskResponse{Answer: &controlv1.AskResponse_History{History: out}}, nil
	case *controlv1.AskRequest_Findings:
		return &controlv1.AskResponse{Answer: &controlv1.AskResponse_Findings{Findings: l.ownPools()}}, nil
	}
	return nil, status.Error(codes.Unimplemented, "this coordinator is of a release that does not know the question")
}

// unavailable gives an error without a status one.
func unavailable(err error) error {
	if _, is := status.FromError(err); is {
		return err
	}
	return status.Error(codes.Unavailable, err.Error())
}

func stateAnswer(q *controlv1.StateQuestion, s states) *controlv1.StateAnswer {
	out := &controlv1.StateAnswer{}
	for _, name := range q.GetPools() {
		if status := s.Pools[name]; status != nil {
			out.Pools = append(out.Pools, &controlv1.PoolState{Pool: name, Status: status})
		}
	}
	for _, name := range q.GetQuotas() {
		if status := s.Quotas[name]; status != nil {
			out.Quotas = append(out.Quotas, &controlv1.QuotaState{Quota: name, Status: status})
		}
	}
	return out
}

// addStates adds an answer to what is known.
func addStates(s states, a *controlv1.StateAnswer) {
	for _, p := range a.GetPools() {
		s.Pools[p.GetPool()] = p.GetStatus()
	}
	for _, q := range a.GetQuotas() {
		s.Quotas[q.GetQuota()] = q.GetStatus()
	}
}

// newStates has room for states.
func newStates() states {
	return states{Pools: map[string]*quotav1.PoolStatus{}, Quotas: map[string]*quotav1.QuotaStatus{}}
}
