package main

import (
	"context"
	"syscall"
	"time"

	"github.com/titrate/titrate/e2e/bench/rig"
	"github.com/titrate/titrate/proto/link"
)

// gatewayPause and agentPause are how long a gateway and an agent are paused. A link ends after [link.DeadAfter]
// of silence, so the pause of a gateway may end its link, and the pause of an agent ends its gateway's link.
const (
	gatewayPause = 3 * time.Second
	agentPause   = 12 * time.Second
)

// exactPhases in their order.
var exactPhases = []phase{
	{name: steady, event: func(*fleet, context.Context) (time.Time, error) { return time.Now(), nil }},
	{name: "join", event: (*fleet).joinExact},
	{name: "leave", event: (*fleet).leaveExact},
	{name: "kill", event: (*fleet).killExact},
	{name: "restart", event: (*fleet).restartExact},
	{name: "rolling-update", event: (*fleet).updateExact},
	{name: "gateway-paused", event: (*fleet).pauseGateway},
	{name: "agent-paused", event: (*fleet).pauseAgent},
}

// joinExact starts an agent and its gateway, which has no clients.
func (f *fleet) joinExact(ctx context.Context) (time.Time, error) {
	before := len(f.members)
	if err := f.startAgents(ctx, 1, 0); err != nil {
		return time.Time{}, err
	}
	return time.Now(), f.attach(ctx, f.members[before:])
}

// leaveExact ends the gateway that has joined, and then its agent in order.
func (f *fleet) leaveExact(ctx context.Context) (time.Time, error) {
	m := f.members[len(f.members)-1]
	m.exact.Close()
	began := time.Now()
	return began, f.stopAgent(ctx, m)
}

// stopAgent ends an agent in order. Its gateway keeps running.
func (f *fleet) stopAgent(ctx context.Context, m *member) error {
	if err := f.goes(ctx, m); err != nil {
		return err
	}
	return m.agent.Stop()
}

// goes notes that an agent is about to end.
func (f *fleet) goes(ctx context.Context, m *member) error {
	a, err := f.agentUsage(ctx, m)
	f.tokens.note(&a)
	m.running = false
	m.exact.Alone(true)
	return err
}

// startAgain starts an agent that has ended.
func (f *fleet) startAgain(ctx context.Context, m *member) error {
	m.exact.ends++
	err := f.startAgent(ctx, m)
	m.exact.Alone(false)
	return err
}

// second is a member that has clients. It is neither the first nor the last.
func (f *fleet) second() *member { return f.members[1] }

// killExact kills an agent. Its gateway keeps running.
func (f *fleet) killExact(ctx context.Context) (time.Time, error) {
	m := f.second()
	if err := f.goes(ctx, m); err != nil {
		return time.Time{}, err
	}
	m.agent.Kill()
	return time.Now(), nil
}

// restartExact starts the agent that was killed.
func (f *fleet) restartExact(ctx context.Context) (time.Time, error) {
	if m := f.second(); !m.running {
		if err := f.startAgain(ctx, m); err != nil {
			return time.Time{}, err
		}
	}
	return time.Now(), nil
}

// updateExact ends and starts all agents, one after the other, each when all agree on the one before.
func (f *fleet) updateExact(ctx context.Context) (began time.Time, err error) {
	return f.update(ctx, f.running(false))
}

func (f *fleet) update(ctx context.Context, members []*member) (began time.Time, err error) {
	for i, m := range members {
		if i > 0 {
			if _, err := f.agreeExact(ctx, began); err != nil {
				return began, err
			}
		}
		if err := f.stopAgent(ctx, m); err != nil {
			return began, err
		}
		if err := f.startAgain(ctx, m); err != nil {
			return began, err
		}
		began = time.Now()
	}
	return began, nil
}

// pauseGateway pauses a gateway and its clients.
func (f *fleet) pauseGateway(context.Context) (time.Time, error) {
	g := f.second().exact
	if gatewayPause >= link.DeadAfter {
		g.ends++
	}
	g.Pause(gatewayPause)
	return time.Now(), nil
}

// pauseAgent stops an agent's process for a while (SIGSTOP). Its gateway keeps running, and is cut off until the agent
// knows the others again and the gateway is linked.
func (f *fleet) pauseAgent(ctx context.Context) (began time.Time, err error) {
	m := f.second()
	m.exact.ends++
	m.exact.Alone(true)
	defer m.exact.Alone(false)
	if err := syscall.Kill(m.agent.Process().PID(), syscall.SIGSTOP); err != nil {
		return time.Time{}, err
	}
	end := rig.Sleep(ctx, agentPause)
	if err := syscall.Kill(m.agent.Process().PID(), syscall.SIGCONT); err != nil {
		return time.Time{}, err
	}
	if began = time.Now(); end == nil {
		_, end = f.agreeExact(ctx, began)
	}
	for end == nil && !m.exact.Linked() && time.Since(began) < f.o.within {
		end = rig.Sleep(ctx, pause)
	}
	return began, end
}
