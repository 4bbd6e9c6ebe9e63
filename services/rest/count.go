package rest

import "fmt"

// maxDepth bounds the nesting of objects and lists. The API's messages need less than ten levels.
const maxDepth = 32

// jsonCounter counts the entries of a JSON text that comes in parts: objects, lists, and elements of lists.
// Package intake counts messages in a similar way.
type jsonCounter struct {
	most            int // entries
	entries, depth  int
	lists           [maxDepth]bool // which of the open ones are lists
	quoted, escaped bool           // within a string; behind a \ in it
	top             topFields
}

// add refuses a text that would make more entries than most, or that is nested too deep. Of a text that is not
// well-formed it counts some number.
func (j *jsonCounter) add(part []byte) error {
	for _, c := range part {
		if j.depth == 1 && !j.lists[0] {
			j.top.add(c, j.quoted)
		}
		switch {
		case j.escaped:
			j.escaped = false
		case j.quoted && c == '\\':
			j.escaped = true
		case c == '"':
			j.quoted = !j.quoted
		case !j.quoted:
			if err := j.mark(c); err != nil {
				return err
			}
		}
		if j.entries > j.most {
			return fmt.Errorf("the body has more than %d objects and elements of lists: send it in parts", j.most)
		}
	}
	return nil
}

// mark counts a character outside of strings.
func (j *jsonCounter) mark(c byte) error {
	switch c {
	case '{', '[':
		if j.depth == maxDepth {
			return fmt.Errorf("body: objects and lists lie in each other more than %d deep", maxDepth)
		}
		j.lists[j.depth] = c == '['
		j.depth++
		j.entries++
	case '}', ']':
		j.depth = max(0, j.depth-1)
	case ',':
		if j.depth > 0 && j.lists[j.depth-1] {
			j.entries++
		}
	}
	return nil
}
