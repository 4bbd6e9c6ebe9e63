package schedule

import "time"

// heap holds numbers by a time each, the earliest first: a binary heap in which a number's time
// can be changed. Numbers are small, 0 and up; of one time the smaller number comes first, so
// that two runs of a simulation agree.
type heap struct {
	times []time.Duration // by number
	place []int32         // by number: where it is in list, plus 1; 0: it is not
	list  []int32         // the heap
}

func (h *heap) before(a, b int32) bool {
	return h.times[a] < h.times[b] || h.times[a] == h.times[b] && a < b
}

// first is the number with the earliest time; ok is false if there is none.
func (h *heap) first() (n int32, at time.Duration, ok bool) {
	if len(h.list) == 0 {
		return 0, 0, false
	}
	return h.list[0], h.times[h.list[0]], true
}

// set gives a number its time, and puts it in if it is not there.
func (h *heap) set(n int32, at time.Duration) {
	for int(n) >= len(h.place) {
		h.times, h.place = append(h.times, 0), append(h.place, 0)
	}
	h.times[n] = at
	if h.place[n] == 0 {
		h.list = append(h.list, n)
		h.place[n] = int32(len(h.list))
	}
	h.down(h.up(int(h.place[n]) - 1))
}

// earlier is set, unless the number is there with an earlier time.
func (h *heap) earlier(n int32, at time.Duration) {
	if int(n) < len(h.place) && h.place[n] > 0 && h.times[n] <= at {
		return
	}
	h.set(n, at)
}

// remove takes a number out, if it is there.
func (h *heap) remove(n int32) {
	if int(n) >= len(h.place) || h.place[n] == 0 {
		return
	}
	i, last := int(h.place[n])-1, len(h.list)-1
	h.put(i, h.list[last])
	h.list, h.place[n] = h.list[:last], 0
	if i < last {
		h.down(h.up(i))
	}
}

func (h *heap) put(i int, n int32) { h.list[i], h.place[n] = n, int32(i+1) }

// up moves what is at i up to its place, and returns where that is.
func (h *heap) up(i int) int {
	n := h.list[i]
	for i > 0 && h.before(n, h.list[(i-1)/2]) {
		h.put(i, h.list[(i-1)/2])
		i = (i - 1) / 2
	}
	h.put(i, n)
	return i
}

// down moves what is at i down to its place.
func (h *heap) down(i int) {
	n := h.list[i]
	for {
		child := 2*i + 1
		if child+1 < len(h.list) && h.before(h.list[child+1], h.list[child]) {
			child++
		}
		if child >= len(h.list) || !h.before(h.list[child], n) {
			break
		}
		h.put(i, h.list[child])
		i = child
	}
	h.put(i, n)
}
