package delivery

// queue is first in, first out.
type queue struct {
	list []int32
	head int
}

func (q *queue) len() int { return len(q.list) - q.head }

func (q *queue) peek() int32 { return q.list[q.head] }

// push puts an item last.
func (q *queue) push(i int32) {
	if q.head > 64 && q.head > len(q.list)/2 {
		q.list = append(q.list[:0], q.list[q.head:]...)
		q.head = 0
	}
	q.list = append(q.list, i)
}
