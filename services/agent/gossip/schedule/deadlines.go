package schedule

import (
	"container/heap"
	"time"
)

// deadlines holds numbers by a time each, the earliest first; a number's time can be changed. Numbers are small, 0 and
// up; of one time the smaller number comes first, so that two runs of a simulation agree.
type deadlines struct{ at order }

// order is the heap in deadlines.
type order struct {
	times []time.Duration // by number
	place []int32         // by number: where it is in list, plus 1; 0: it is not
	list  []int32         // the heap
}

// first is the number with the earliest time; ok is false if there is none.
func (d *deadlines) first() (n int32, at time.Duration, ok bool) {
	if d.at.Len() == 0 {
		return 0, 0, false
	}
	return d.at.list[0], d.at.times[d.at.list[0]], true
}

// set gives a number its time, and puts it in if it is not there.
func (d *deadlines) set(n int32, at time.Duration) {
	o := &d.at
	if o.has(n) && o.times[n] == at {
		return
	}
	for int(n) >= len(o.place) {
		o.times, o.place = append(o.times, 0), append(o.place, 0)
	}
	o.times[n] = at
	if o.place[n] == 0 {
		heap.Push(o, n)
		return
	}
	heap.Fix(o, int(o.place[n])-1)
}

// earlier is set, unless the number is there with an earlier time.
func (d *deadlines) earlier(n int32, at time.Duration) {
	if o := &d.at; o.has(n) && o.times[n] <= at {
		return
	}
	d.set(n, at)
}

// remove takes a number out, if it is there.
func (d *deadlines) remove(n int32) {
	if o := &d.at; o.has(n) {
		heap.Remove(o, int(o.place[n])-1)
	}
}

func (o *order) has(n int32) bool { return int(n) < len(o.place) && o.place[n] > 0 }

func (o *order) Len() int { return len(o.list) }

func (o *order) Less(i, j int) bool {
	a, b := o.list[i], o.list[j]
	return o.times[a] < o.times[b] || o.times[a] == o.times[b] && a < b
}

func (o *order) Swap(i, j int) {
	o.list[i], o.list[j] = o.list[j], o.list[i]
	o.place[o.list[i]], o.place[o.list[j]] = int32(i+1), int32(j+1)
}

func (o *order) Push(n any) {
	o.list = append(o.list, n.(int32))
	o.place[n.(int32)] = int32(len(o.list))
}

func (o *order) Pop() any {
	last := len(o.list) - 1
	n := o.list[last]
	o.list, o.place[n] = o.list[:last], 0
	return n
}
