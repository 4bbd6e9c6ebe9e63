package aggregation

import "github.com/titrate/titrate/control/claims"

// A replica's records are merged by the generation of its process and by a sequence
// within that generation. Both numbers come from other processes, whose clocks may step
// back and which may restart. So they are mapped to numbers of this aggregator's own.
//
// A process keeps its number for as long as the replica is known, whichever agent
// reports it. A process that was not known before is newer than all known processes.
// One exception: within one life of one agent that agent's order holds, since the parent
// in a hot restart may be reported after its child.
//
//	local generation   2, 4, 6 … in the order of arrival; one less for a late parent
//	local sequence     begins above the highest one, with each life of an agent

// lives is the number of processes of one replica that are kept apart: a parent and a child, and as many from before.
const lives = 4

// replica is the state of a named replica: its identity in the table, and its processes.
type replica struct {
	id         claims.Peer
	generation uint64 // local, of the newest process
	order      uint64 // of the newest, as the agent has it, within the life
	life       agentLife
	processes  []processState // the newest last
}

// agentLife is one process of an agent, as the gossip counts them; the zero value is this agent.
type agentLife struct {
	agent string
	count uint64
}

// processState is one process of a replica.
type processState struct {
	process    uint64    // its name
	generation uint64    // local
	life       agentLife // in which it was last received
	shift      uint64    // from the agent's sequence to the local one
	top        uint64    // the highest local sequence
}

// find returns the state of a process, and adds a process that is not known. It fails for
// an unknown process that is older than the newest.
func (r *replica) find(of agentLife, process, order uint64) (*processState, bool) {
	for i := range r.processes {
		if r.processes[i].process == process {
			return &r.processes[i], true
		}
	}
	local := r.generation + 2
	late := len(r.processes) > 0 && of == r.life && order < r.order
	switch {
	case late && len(r.processes) > 1:
		return nil, false
	case late:
		local = r.generation - 1
	}
	p := processState{process: process, generation: local, life: of}
	if late {
		r.processes = append([]processState{p}, r.processes...)
		return &r.processes[0], true
	}
	r.generation, r.order, r.life = local, order, of
	if len(r.processes) == lives {
		r.processes = append(r.processes[:0], r.processes[1:]...)
	}
	r.processes = append(r.processes, p)
	return &r.processes[len(r.processes)-1], true
}

// mostLate is the number of sequences by which a record may be older than the first that is received.
const mostLate = 1 << 20

// sequence is the local one for an agent's. What is older than the first by more than mostLate is as old as can be.
func (p *processState) sequence(of agentLife, seq uint64) uint64 {
	if p.life != of || p.top == 0 {
		p.life, p.shift = of, p.top+mostLate-seq
	}
	local := seq + p.shift
	if int64(local) < 0 {
		return 0
	}
	p.top = max(p.top, local)
	return local
}

// process names the newest, 0 if there is none.
func (r *replica) process() uint64 {
	if len(r.processes) == 0 {
		return 0
	}
	return r.processes[len(r.processes)-1].process
}

// noteSequence keeps the highest local sequence of a process that is connected here. If
// the process connects to another agent, that agent's sequences are mapped above it.
func (r *replica) noteSequence(process, seq uint64) {
	for i := range r.processes {
		if p := &r.processes[i]; p.process == process {
			p.life, p.top = agentLife{}, max(p.top, seq)
		}
	}
}
