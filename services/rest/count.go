package rest

import "fmt"

// maxDepth bounds the nesting of objects and lists. The API's messages need less than ten levels.
const maxDepth = 32

// countJSON refuses a well-formed text that would make more entries than most, or that is nested too deep.
// An entry is an object, a list or an element of a list. Package intake counts messages in a similar way.
func countJSON(text []byte, most int) error {
	var lists [maxDepth]bool // which of the open ones are lists
	depth, entries, quoted := 0, 0, false
	for i := 0; i < len(text); i++ {
		c := text[i]
		switch {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{' || c == '[':
			if depth == maxDepth {
				return fmt.Errorf("body: objects and lists lie in each other more than %d deep", maxDepth)
			}
			lists[depth] = c == '['
			depth++
			entries++
		case c == '}' || c == ']':
			depth--
		case c == ',' && depth > 0 && lists[depth-1]:
			entries++
		}
		if entries > most {
			return fmt.Errorf("the body has more than %d objects and elements of lists: send it in parts", most)
		}
	}
	return nil
}
