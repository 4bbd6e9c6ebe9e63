package translate

import (
	"fmt"
	"regexp"
	"strings"
)

// defined are the names that the filter must define: of each meaning one, which no other meaning has.
type defined struct {
	all   []Name
	byOf  map[string]string // names by what they stand for
	names names
}

func newDefined() *defined { return &defined{byOf: map[string]string{}, names: newNames()} }

// name returns the name of a meaning; a new one resembles text.
func (d *defined) name(text, of string) string {
	if id, is := d.byOf[of]; is {
		return id
	}
	id := d.names.add(text)
	d.byOf[of] = id
	d.all = append(d.all, Name{id, of})
	return id
}

// names are the IDs that were given.
type names struct {
	given map[string]bool
	next  map[string]int // by slug: below this number, all its IDs with a number are given
}

func newNames() names { return names{map[string]bool{}, map[string]int{}} }

// add returns an ID for a text, which no other text has.
func (n names) add(text string) string {
	base := slug(text)
	id, i := base, max(2, n.next[base])
	for ; n.given[id]; i++ {
		suffix := fmt.Sprintf("-%d", i)
		id = base[:min(len(base), longestID-len(suffix))] + suffix
	}
	n.given[id], n.next[base] = true, i
	return id
}

const longestID = 63

var notID = regexp.MustCompile(`[^a-z0-9._]+`)

// slug makes an ID of a text.
func slug(text string) string {
	id := notID.ReplaceAllString(strings.ToLower(text), "-")
	id = strings.Trim(id, "._-")
	id = strings.Trim(id[:min(len(id), longestID)], "._-")
	if id == "" {
		return "any"
	}
	return id
}
