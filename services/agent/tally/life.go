package tally

import "github.com/titrate/titrate/control/claims"

// A replica's records are merged by the generation of its process and by a sequence
// within it. Both come from elsewhere, from clocks that may step back and from agents
// that start again. So neither is taken as it comes: this file gives them numbers of
// this tally's own.
//
// A process keeps its number for as long as the replica is known, whichever agent
// speaks for it. A process that was not known before is newer than all that were,
// with one exception: within one life of one agent the agent's own order holds, since
// a parent may be heard of after its child in a hot restart.
//
//	local generation   2, 4, 6 … in the order of news; one less for a late parent
//	local sequence     begins above the highest one, with each life of an agent

// lives is how many processes of one replica are told apart: a parent and a child, and
// as many from before.
const lives = 4

// replica is what is known of a name: its identity in the table, and its processes.
type replica struct {
	id         claims.Peer
	generation uint64 // local, of the newest process
	order      uint64 // of the newest, as the agent has it, within the life
	life       life
	processes  []place // the newest last
	turn       int     // of Sums for it
}

// life is one process of an agent, as told by the mesh; the zero value is this agent.
type life struct {
	agent string
	count uint64
}

// place is one process of a replica.
type place struct {
	process    uint64 // its name
	generation uint64 // local
	life       life   // in which it was heard last
	shift      uint64 // from the agent's sequence to the local one
	top        uint64 // the highest local sequence
}

// find returns the place of a process, making one if it is news. It fails for a
// process that is older than the newest and was not known.
func (r *replica) find(of life, process, order uint64) (*place, bool) {
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
	p := place{process: process, generation: local, life: of}
	if late {
		r.processes = append([]place{p}, r.processes...)
		return &r.processes[0], true
	}
	r.generation, r.order, r.life = local, order, of
	if len(r.processes) == lives {
		r.processes = append(r.processes[:0], r.processes[1:]...)
	}
	r.processes = append(r.processes, p)
	return &r.processes[len(r.processes)-1], true
}

// sequence is the local one for an agent's.
func (p *place) sequence(of life, seq uint64) uint64 {
	if p.life != of || p.top == 0 {
		p.life, p.shift = of, p.top+1-seq
	}
	local := seq + p.shift
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

// reached notes the highest local sequence of a process that is linked here: an agent
// that it goes to begins above it.
func (r *replica) reached(process, seq uint64) {
	for i := range r.processes {
		if p := &r.processes[i]; p.process == process {
			p.life, p.top = life{}, max(p.top, seq)
		}
	}
}
