package slots

import "container/heap"

// Agenda has the next time of each key at which there is something to do. The zero Agenda is empty.
type Agenda struct {
	list appointments
	at   map[uint64]int64
}

// Set gives a key another time; 0: never. O(log of the times set lately).
func (a *Agenda) Set(key uint64, at int64) {
	if a.at == nil {
		a.at = map[uint64]int64{}
	}
	switch {
	case a.at[key] == at:
	case at == 0:
		delete(a.at, key)
	default:
		a.at[key] = at
		heap.Push(&a.list, appointment{at, key})
	}
}

// Next returns the first time; 0: there is none.
func (a *Agenda) Next() int64 {
	for len(a.list) > 0 {
		if first := a.list[0]; a.at[first.key] == first.at {
			return first.at
		}
		heap.Pop(&a.list)
	}
	return 0
}

// Take returns a key whose time has come, and takes the key out; not ok: there is none.
func (a *Agenda) Take(now int64) (key uint64, ok bool) {
	if at := a.Next(); at == 0 || at > now {
		return 0, false
	}
	key = heap.Pop(&a.list).(appointment).key
	delete(a.at, key)
	return key, true
}

type appointment struct {
	at  int64
	key uint64
}

type appointments []appointment

// Len, Less, Swap, Push and Pop are of heap.Interface.
func (a appointments) Len() int { return len(a) }
func (a appointments) Less(i, j int) bool {
	return a[i].at < a[j].at || a[i].at == a[j].at && a[i].key < a[j].key
}
func (a appointments) Swap(i, j int) { a[i], a[j] = a[j], a[i] }
func (a *appointments) Push(x any)   { *a = append(*a, x.(appointment)) }
func (a *appointments) Pop() any {
	last := (*a)[len(*a)-1]
	*a = (*a)[:len(*a)-1]
	return last
}
