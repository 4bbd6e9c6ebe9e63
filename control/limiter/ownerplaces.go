package limiter

import (
	"github.com/titrate/titrate/control/limiter/internal/lock"
)

// tokenFlow stands for a flow's id in the handles of requests that wait for an owner.
const tokenFlow = 1<<24 - 1

// tokenPlaces has the requests that wait for an owner, by their handles. moved are requests that
// went on to the queue of their flow.
type tokenPlaces struct {
	mu    lock.Mutex[lock.Leaf]
	all   []tokenPlace
	empty []int32
	moved []*tokenWait
}

type tokenPlace struct {
	w          *tokenWait
	generation uint32
}

// take gives a request a place.
func (p *tokenPlaces) take(w *tokenWait) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var i int32
	if n := len(p.empty); n > 0 {
		i, p.empty = p.empty[n-1], p.empty[:n-1]
	} else {
		i = int32(len(p.all))
		p.all = append(p.all, tokenPlace{})
	}
	at := &p.all[i]
	at.w, at.generation = w, at.generation%(1<<generationBits-1)+1
	w.handle = newHandle(tokenFlow, i, at.generation)
}

// of returns the request that has a handle; nil: none has it now.
func (p *tokenPlaces) of(h Handle) *tokenWait {
	p.mu.Lock()
	defer p.mu.Unlock()
	if int(h.place()) >= len(p.all) {
		return nil
	}
	if w := p.all[h.place()].w; w != nil && w.handle == h {
		return w
	}
	return nil
}

func (p *tokenPlaces) free(w *tokenWait) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if at := &p.all[w.handle.place()]; at.w == w {
		at.w = nil
		p.empty = append(p.empty, w.handle.place())
	}
}

// move notes that a request waits in the queue of its flow now.
func (p *tokenPlaces) move(w *tokenWait) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.moved = append(p.moved, w)
}

// sweep frees the places of requests that do not wait in the queue of their flow any more.
func (p *tokenPlaces) sweep(e *Engine) {
	for _, w := range p.takeMoved() {
		switch moved := Handle(w.moved.Load()); {
		case moved == 0: // it waits for a slot, and its place is freed after that
		case e.waits(moved):
			p.move(w)
		default:
			p.free(w)
		}
	}
}

func (p *tokenPlaces) takeMoved() (moved []*tokenWait) {
	p.mu.Lock()
	defer p.mu.Unlock()
	moved, p.moved = p.moved, nil
	return moved
}

// waits reports whether the request of a handle waits in the queue of a flow.
func (e *Engine) waits(h Handle) bool {
	f := e.flowBy(h)
	if f == nil {
		return false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.queue != nil && f.queue.Waits(h.place(), h.generation())
}
