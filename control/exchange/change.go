package exchange

import "slices"

// How sums and claims travel as changes: two changes that follow each other are one, and a
// long message is several.

// Add takes in the Sums that come after s, so that s alone says the same as both. It may
// keep the slices of next.
func (s *Sums) Add(next *Sums) {
	if next.Full {
		*s = *next
		return
	}
	named := make(map[uint64]bool, len(next.Flows)+len(next.Keys)+len(next.Gone))
	for _, f := range next.Flows {
		named[f.Key] = true
	}
	for _, k := range next.Keys {
		named[k.Key] = true
	}
	for _, k := range next.Gone {
		named[k] = true
	}
	sum := *next
	sum.Full, sum.More = s.Full, s.More
	sum.Flows = append(without(s.Flows, named, func(f FlowSum) uint64 { return f.Key }), next.Flows...)
	sum.Keys = append(without(s.Keys, named, func(k KeySum) uint64 { return k.Key }), next.Keys...)
	sum.Gone = append(without(s.Gone, named, func(k uint64) uint64 { return k }), next.Gone...)
	*s = sum
}

// without returns the records whose keys are not named, in the memory of list.
func without[T any](list []T, named map[uint64]bool, key func(T) uint64) []T {
	return slices.DeleteFunc(list, func(x T) bool { return named[key(x)] })
}

// Parts cuts s into messages of at most so many records each, which say the same one after
// the other. They share the memory of s.
func (s *Sums) Parts(most int) []*Sums {
	flows, keys, gone := s.Flows, s.Keys, s.Gone
	var parts []*Sums
	for {
		p := *s
		room := most
		p.Flows, flows, room = cut(flows, room)
		p.Keys, keys, room = cut(keys, room)
		p.Gone, gone, _ = cut(gone, room)
		rest := len(flows)+len(keys)+len(gone) > 0
		p.Full, p.More = s.Full && len(parts) == 0, s.More || s.Full && rest
		if parts = append(parts, &p); !rest {
			return parts
		}
	}
}

// Parts is the same for claims.
func (c *Claims) Parts(most int) []*Claims {
	flows, keys, withdrawn := c.Flows, c.Keys, c.Withdrawn
	var parts []*Claims
	for {
		p, room := &Claims{}, most
		p.Flows, flows, room = cut(flows, room)
		p.Keys, keys, room = cut(keys, room)
		p.Withdrawn, withdrawn, _ = cut(withdrawn, room)
		if parts = append(parts, p); len(flows)+len(keys)+len(withdrawn) == 0 {
			return parts
		}
	}
}

// cut returns the first records of a list, as many as there is room for, the rest, and the
// room that is left.
func cut[T any](list []T, room int) (first, rest []T, left int) {
	n := min(room, len(list))
	if n == 0 {
		return nil, list, room
	}
	return list[:n:n], list[n:], room - n
}

// split cuts a list into parts of at most so many bytes, or of one record. There is one part at least.
func split[T any](list []T, bytes int, size func(*T) int) (parts [][]T) {
	first, room := 0, bytes
	for i := range list {
		n := size(&list[i])
		if room -= n; room < 0 && i > first {
			parts = append(parts, list[first:i:i])
			first, room = i, bytes-n
		}
	}
	return append(parts, list[first:])
}
