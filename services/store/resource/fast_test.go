package resource

import (
	"regexp"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// What is read without a regexp is what the regexps of the API say.
func TestIDsAndNumbersAreThoseOfThePatterns(t *testing.T) {
	id := regexp.MustCompile(`^[a-z0-9]([a-z0-9._-]{0,61}[a-z0-9])?$`)
	number := regexp.MustCompile(`^[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?$`)
	client := regexp.MustCompile(`^[A-Za-z0-9._~@:-]+$`)
	rapid.Check(t, func(r *rapid.T) {
		s := rapid.StringMatching(`[a-z0-9A-Z._~@:%é-]{0,12}`).Draw(r, "id")
		if rapid.Bool().Draw(r, "long") {
			s = strings.Repeat("a", rapid.IntRange(55, 64).Draw(r, "length")) + s
		}
		if isID(s) != id.MatchString(s) || isPlain(s) != client.MatchString(s) {
			t.Fatalf("%q is an ID: %v, plain: %v", s, isID(s), isPlain(s))
		}
		n := rapid.StringMatching(`[0-9.eE+x-]{0,8}`).Draw(r, "number")
		if _, _, err := parseRate(n + "/s"); (err == nil) != number.MatchString(n) {
			t.Fatalf("%q is a number: %v", n, err)
		}
	})
}
