// Package wording puts numbers and suggestions into words for people: what tables, sentences and errors have in common.
package wording

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/dustin/go-humanize/english"
)

// Count is a number with its noun: 1 request, 2 requests, 1 query, 0 queries. The noun is the singular, of one or
// more words; the last one takes the plural.
func Count[N int | int32 | int64 | uint32 | uint64](n N, noun string) string {
	return strconv.FormatInt(int64(n), 10) + " " + Plural(n, noun)
}

// Plural is the noun for a number of things.
func Plural[N int | int32 | int64 | uint32 | uint64](n N, noun string) string {
	return english.PluralWord(int(n), noun, "")
}

// Does is a number of things with what they do: 1 limit is, 2 limits are.
func Does[N int | int32 | int64 | uint32 | uint64](n N, noun, one, many string) string {
	if n == 1 {
		return Count(n, noun) + " " + one
	}
	return Count(n, noun) + " " + many
}

// Few names the first most of a list, and says how many more there are.
func Few(names []string, most int) string {
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
}

// Site names a site in a sentence. Agents without --site are of the site "" together.
func Site(name string) string {
	if name == "" {
		return "the site without a name"
	}
	return "site " + name
}

// Number is a number as a person writes it: 1000000000, not 1e+09. Only what has more than fifteen digits before the
// point, or six zeros behind it, has an exponent.
func Number(x float64) string {
	if size := math.Abs(x); size != 0 && (size < 1e-6 || size >= 1e15) {
		return strconv.FormatFloat(x, 'g', -1, 64)
	}
	return strconv.FormatFloat(x, 'f', -1, 64)
}

// Rough is a Number to so many digits, but no whole digit is lost: 1234, 12.3, 0.0123 with 3.
func Rough(x float64, digits int) string {
	if math.Abs(x) >= math.Pow10(digits-1) {
		return Number(math.Round(x))
	}
	short, _ := strconv.ParseFloat(strconv.FormatFloat(x, 'g', digits, 64), 64)
	return Number(short)
}

// units are the units of rates. A rate is shown in the first one in which it is at least 1.
var units = []struct {
	name    string
	seconds float64
}{{"s", 1}, {"min", 60}, {"h", 3600}, {"d", 86400}}

// Rate is a rate per second in the unit in which a person says it: 120/s, 5.7/min, 2/h. format writes the number.
func Rate(perSecond float64, format func(float64) string) string {
	unit := units[0]
	for _, u := range units {
		if unit = u; perSecond == 0 || math.Abs(perSecond)*u.seconds >= 1-1e-9 {
			break
		}
	}
	if perSecond == 0 {
		unit = units[0]
	}
	return format(perSecond*unit.seconds) + "/" + unit.name
}

// mostQuoted is the number of characters of a text from outside that a message repeats.
const mostQuoted = 80

// Cut is a text from outside as a message repeats it: at most 80 characters, with … behind them if there are more.
func Cut(text string) string {
	if short := First(text, mostQuoted); len(short) < len(text) {
		return short + "…"
	}
	return text
}

// Quote is Cut in quotes, by which the end of the text and odd characters can be seen.
func Quote(text string) string {
	if short := First(text, mostQuoted); len(short) < len(text) {
		return strconv.Quote(short) + "…"
	}
	return strconv.Quote(text)
}

// First is the first characters of a text, most of them at most. O(most).
func First(text string, most int) string {
	n := 0
	for at := range text {
		if n == most {
			return text[:at]
		}
		n++
	}
	return text
}

// mostLetters bounds the words that are compared.
const mostLetters = 64

// Near returns the known word that is the fewest slips away from word, "" if none is near. A slip is a letter that is
// wrong, missing, too much, or swapped with its neighbour. Upper and lower case are alike.
func Near(word string, known []string) string {
	given := []rune(strings.ToLower(word))
	if len(given) == 0 || len(given) > mostLetters {
		return ""
	}
	best, least := "", max(1, len(given)/3)+1
	for _, k := range known {
		letters := []rune(strings.ToLower(k))
		if k == word || len(letters) > mostLetters {
			continue
		}
		if n := slips(given, letters); n < min(least, len(given)) {
			best, least = k, n
		}
	}
	return best
}

// Meant is the end of a complaint about a word: "; did you mean Pool?", "" if no known word is near.
func Meant(word string, known []string) string {
	if near := Near(word, known); near != "" {
		return fmt.Sprintf("; did you mean %s?", near)
	}
	return ""
}

// slips is the distance of optimal string alignment. O(len(a)·len(b)).
func slips(a, b []rune) int {
	before, row := make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range a {
		next := make([]int, len(b)+1)
		next[0] = i + 1
		for j := range b {
			wrong := row[j]
			if a[i] != b[j] {
				wrong++
			}
			next[j+1] = min(wrong, row[j+1]+1, next[j]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				next[j+1] = min(next[j+1], before[j-1]+1)
			}
		}
		before, row = row, next
	}
	return row[len(b)]
}

// levels are the heights of the characters of a small line.
var levels = []rune("▁▂▃▄▅▆▇█")

// Spark is a course of numbers as a small line, a character each: the highest number has the highest character, 0 a
// point.
func Spark(values []float64) string {
	var b strings.Builder
	highest := 0.
	for _, x := range values {
		highest = max(highest, x)
	}
	for _, x := range values {
		if x <= 0 {
			b.WriteRune('·')
			continue
		}
		b.WriteRune(levels[min(int(x/highest*float64(len(levels))), len(levels)-1)])
	}
	return b.String()
}
