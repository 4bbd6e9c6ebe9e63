package stream

import (
	"context"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	controlv1 "github.com/titrate/titrate/proto/titrate/control/v1alpha1"
)

const (
	// answerTimeout bounds the time for agents' answers, as does half of the time that the caller has. Longer: a person
	// waits longer for the gateways of an agent that hangs.
	answerTimeout = time.Second
	// mostQuestions are at most on their way to one agent.
	mostQuestions = 4
)

// Replies are the agents' answers to a question.
type Replies struct {
	Answers []*controlv1.Answer // by the agents' names
	Asked   int                 // agents
	Silent  []string            // the agents of Asked that did not answer
}

// questions are the questions without an answer yet.
type questions struct {
	mu   sync.Mutex
	last uint64
	open map[uint64]chan<- reply
}

type reply struct {
	agent  string
	answer *controlv1.Answer
}

// begin gives a question its ID. At most so many replies are awaited.
func (q *questions) begin(replies int) (id uint64, ch <-chan reply) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.open == nil {
		q.open = map[uint64]chan<- reply{}
	}
	q.last++
	c := make(chan reply, replies)
	q.open[q.last] = c
	return q.last, c
}

func (q *questions) end(id uint64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.open, id)
}

// answered passes an answer to the caller that asked, if it still waits.
func (q *questions) answered(agent string, a *controlv1.Answer) {
	q.mu.Lock()
	defer q.mu.Unlock()
	select {
	case q.open[a.GetId()] <- reply{agent, a}:
	default: // nobody waits, or the agent answers more often than it was asked
	}
}

// Ask asks all connected agents, and returns when all have answered, after answerTimeout, or when ctx ends.
func (s *Server) Ask(ctx context.Context, question *controlv1.Question) Replies {
	timeout := answerTimeout
	if deadline, ok := ctx.Deadline(); ok {
		timeout = min(timeout, time.Until(deadline)/2)
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	agents := s.Agents()
	id, replies := s.questions.begin(len(agents))
	defer s.questions.end(id)
	q := proto.CloneOf(question)
	q.Id = id
	waiting := s.send(q, agents)
	answers := map[string]*controlv1.Answer{}
	for len(waiting) > 0 {
		select {
		case r := <-replies:
			if waiting[r.agent] {
				delete(waiting, r.agent)
				answers[r.agent] = r.answer
			}
			continue
		case <-ctx.Done():
		}
		break
	}
	out := Replies{Asked: len(agents)}
	for _, name := range agents {
		if a := answers[name]; a != nil {
			out.Answers = append(out.Answers, a)
		} else {
			out.Silent = append(out.Silent, name)
		}
	}
	return out
}

// send gives a question to the senders of agents, and returns those whose answer may come.
func (s *Server) send(q *controlv1.Question, agents []string) map[string]bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	waiting := map[string]bool{}
	for _, name := range agents {
		one := s.sessions[name]
		if one == nil || !one.answers {
			continue
		}
		select {
		case one.questions <- q:
			waiting[name] = true
		default:
		}
	}
	return waiting
}
