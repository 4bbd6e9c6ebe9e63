package parsetest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/titrate/titrate/envoy-filter/settings"
)

// format returns the paths of a format of answers.
func format(t testing.TB, text string) []settings.UsagePath {
	t.Helper()
	f, err := settings.ParseRoute([]byte(`{"response_usage":` + text + `}`))
	if err != nil {
		t.Fatal(err)
	}
	return f.Usage
}

func known(t testing.TB, name string) []settings.UsagePath {
	t.Helper()
	return format(t, fmt.Sprintf(`{"format":%q}`, name))
}

// read reads a body in chunks, which end at the given places, and returns its numbers.
func read(paths []settings.UsagePath, events bool, body string, cuts ...int) string {
	u := NewUsage(paths, events)
	defer u.Free()
	u.readIn(body, cuts...)
	return numbers(u.Get)
}

// readIn reads a body in chunks.
func (u *Usage) readIn(body string, cuts ...int) {
	from := 0
	for _, cut := range append(cuts, len(body)) {
		for cut-from > 1<<18 { // what the guard has room for
			u.Read(body[from : from+1<<18])
			from += 1 << 18
		}
		u.Read(body[from:cut])
		from = cut
	}
}

// numbers are input, output and total; "-" for none.
func numbers(get func(settings.Usage) (float64, bool)) string {
	var found []string
	for _, counts := range []settings.Usage{settings.UsageInput, settings.UsageOutput, settings.UsageTotal} {
		text := "-"
		if n, ok := get(counts); ok {
			text = strconv.FormatFloat(n, 'g', -1, 64)
		}
		found = append(found, text)
	}
	return strings.Join(found, " ")
}

// What a complete answer does not say is 0 if it says the other number, and if the format has a place for it.
func TestUsageOfACompleteAnswer(t *testing.T) {
	const pointers = `{"format":"JSON_POINTER","input":"/in","output":"/out"}`
	for _, c := range []struct{ format, body, want string }{
		{`{"format":"OPENAI"}`, `{"usage":{"prompt_tokens":8,"total_tokens":8}}`, "8 0 8"},
		{`{"format":"OPENAI"}`, `{"usage":{"total_tokens":8}}`, "- - 8"},
		{`{"format":"OPENAI"}`, `{"object":"list"}`, "- - -"},
		{`{"format":"GEMINI"}`, `{"usageMetadata":{"promptTokenCount":5,"totalTokenCount":5}}`, "5 0 5"},
		{pointers, `{"out":3}`, "0 3 3"},
		{`{"format":"JSON_POINTER","input":"/in"}`, `{"in":3}`, "3 - 3"},
	} {
		u := NewUsage(format(t, c.format), false)
		u.Read(c.body)
		if got := numbers(u.Final); got != c.want {
			t.Errorf("%s of %s: %s, want %s", c.body, c.format, got, c.want)
		}
		u.Free()
	}
}

// Answers written after the documentation of each format, and what they say was used, whole, byte by byte, and cut in
// two anywhere.
func TestUsageOfRecordedAnswers(t *testing.T) {
	for file, want := range map[string]string{
		"openai-chat.json": "19 10 29", "openai-chat-stream.txt": "19 10 29", "openai-chat-stream-without.txt": "- - -",
		"openai-responses.json": "36 87 123", "openai-responses-stream.txt": "37 11 48",
		"openai-embeddings.json": "8 - 8", "openai-error.json": "- - -",
		"anthropic-message.json": "2095 503 2598", "anthropic-stream.txt": "2154 15 2169",
		"anthropic-stream-cut.txt": "2154 1 2155",
		"gemini.json":              "264 1318 1582", "gemini-stream.txt": "7 46 53", "gemini-stream-array.json": "7 46 53",
	} {
		body, err := os.ReadFile(filepath.Join("testdata", file))
		if err != nil {
			t.Fatal(err)
		}
		name, _, _ := strings.Cut(file, "-")
		name, _, _ = strings.Cut(name, ".")
		paths, events := known(t, strings.ToUpper(name)), strings.HasSuffix(file, ".txt")
		if got := read(paths, events, string(body)); got != want {
			t.Errorf("%s: %s, want %s", file, got, want)
		}
		each := make([]int, len(body))
		for i := range each {
			each[i] = i
			if got := read(paths, events, string(body), i); got != want {
				t.Fatalf("%s, cut at %d: %s, want %s", file, i, got, want)
			}
		}
		if got := read(paths, events, string(body), each...); got != want {
			t.Errorf("%s, byte by byte: %s, want %s", file, got, want)
		}
	}
}

// What a text may hold besides the numbers, and forms of numbers and keys.
func TestUsageInJSON(t *testing.T) {
	paths := format(t, `{"format":"JSON_POINTER","input":"/u/in","output":"/u/out","total":"/list/1/a~1b~0"}`)
	deep := strings.Repeat("[", 1e5) + strings.Repeat("]", 1e5)
	for body, want := range map[string]string{
		`{"u":{"in":3,"out":4}}`:                              "3 4 7",
		`{"u":{"out":4}}`:                                     "- 4 4",
		`{"u":{"in":3},"u":{"in":5}}`:                         "5 - 5",
		`{"u":{"in":3,"in":5,"in":"x"}}`:                      "5 - 5",
		`{"\u0075":{"\u0069\u006E":3}}`:                       "3 - 3",
		`{"u\u0000":{"in":3},"u\\":{"in":4},"u\"":{"in":5}}`:  "- - -",
		`{"text":"{\"u\":{\"in\":9}}","u":{"in":3}}`:          "3 - 3",
		`{"text":"\\","u":{"in":3}}`:                          "3 - 3",
		`{"text":"\\\"","x":{"u":{"in":9}},"u":{"in":3}}`:     "3 - 3",
		`{"x":{"in":9},"u":[{"in":9}]}`:                       "- - -",
		`{"u":{"x":{"in":9},"in":3}}`:                         "3 - 3",
		`[{"u":{"in":3}}]`:                                    "- - -",
		`{"deep":` + deep + `,"u":{"in":3}}`:                  "3 - 3",
		strings.Repeat(`{"u":`, 1e5) + `{"in":3}`:             "- - -",
		`{"u":{"in":-3,"out":null}}`:                          "- - -",
		`{"u":{"in":"3","out":true}}`:                         "- - -",
		`{"u":{"in":12.5e1,"out":1E+2}}`:                      "125 100 225",
		`{"u":{"in":5e-1,"out":0}}`:                           "0.5 0 0.5",
		`{"u":{"in":1e999,"out":1e-999}}`:                     "- 0 0",
		`{"u":{"in":` + strings.Repeat("9", 400) + `}}`:       "- - -",
		`{"u":{"in":1.2.3,"out":1e}}`:                         "- 1 1",
		`{"list":[{"a/b~":1},{"a/b~":7},{"a/b~":9}]}`:         "- - 7",
		`{"list":{"1":{"a/b~":7}}}`:                           "- - 7",
		` {"u":{"in":3}}` + "\n" + `{"u":{"in":4}}`:           "4 - 4",
		`{"u":{"in":3}`:                                       "3 - 3",
		`{"u":{"in":3`:                                        "- - -",
		`{"u":{"in":3]}}`:                                     "3 - 3",
		`{"` + strings.Repeat("u", 200) + `":1,"u":{"in":3}}`: "3 - 3",
		"\ufeff" + `{"u":{"in":3}}`:                           "3 - 3",
		"":                                                    "- - -", "{": "- - -", "}}}}": "- - -", `"`: "- - -", "7": "- - -", "\x00": "- - -",
	} {
		if got := read(paths, false, body); got != want {
			t.Errorf("%.80s: %s, want %s", body, got, want)
		}
	}
}

func TestUsageInEventStreams(t *testing.T) {
	paths := format(t, `{"format":"JSON_POINTER","input":"/in","output":"/out"}`)
	for body, want := range map[string]string{
		"data: {\"in\":3}\n\n":                                     "3 - 3",
		"data:{\"in\":3}\r\n\r\ndata: {\"out\":4}\r\n\r\n":         "3 4 7",
		"data: {\"in\":3}\r\rdata: {\"in\":4}\r\r":                 "4 - 4",
		"event: x\nid: 7\n: comment\ndata: {\"in\":\ndata: 3}\n\n": "3 - 3",
		"data: {\"in\":3}\n\ndata: [DONE]\n\n":                     "3 - 3",
		"data: {\"in\n\ndata: {\"in\":4}\n\n":                      "4 - 4",
		"data: {\"in\":3\n\ndata: ,\"out\":4}\n\n":                 "3 - 3",
		"dat: {\"in\":3}\n\ndatax: {\"in\":3}\n\n":                 "- - -",
		"data\n\ndata:\n\ndata: \n\n":                              "- - -",
		"{\"in\":3}\n\n":                                           "- - -",
		"data: {\"in\":3}":                                         "3 - 3",
		"\ufeffdata: {\"in\":3}\n\ndata: {\"out\":4}\n\n":          "3 4 7",
		"\n\ufeffdata: {\"in\":3}\n\n":                             "- - -",
		"\xef\xbbdata: {\"in\":3}\n\n":                             "- - -",
		"":                                                         "- - -",
	} {
		if got := read(paths, true, body); got != want {
			t.Errorf("%q: %s, want %s", body, got, want)
		}
	}
	u := NewUsage(paths, true)
	defer u.Free()
	u.Read("data: a\n\nevent: ping\n\ndata:b\r\n\r\ndata: c\ndata: d\n\ndata: unfinished")
	if n := u.Events(); n != 3 {
		t.Errorf("%d events with data, want 3", n)
	}
}

// A client may go away as soon as it has all: when the JSON text is complete, or the event that ends the stream.
func TestUsageIsWholeBeforeTheBodyEnds(t *testing.T) {
	for body, last := range map[string]string{
		"{\"usage\":{\"prompt_tokens\":3}}": "}",
		"[{\"x\":{}}]":                      "]",
		"data: {\"usage\":{\"prompt_tokens\":3}}\n\ndata: [DONE]\n\n": "\n",
		"data:[DONE]\r\r": "\r",
		"event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n":               "\n",
		"event: response.completed\r\ndata: {\"response\":{\"usage\":{}}}\r\n\r\n": "\r\n",
	} {
		paths, events := known(t, "OPENAI"), !strings.ContainsAny(body[:1], "{[")
		if body[0] == '[' {
			paths = known(t, "GEMINI")
		}
		for cut := range len(body) + 1 {
			u := NewUsage(paths, events)
			u.Read(body[:cut])
			if want := cut > len(body)-len(last); u.Whole() != want {
				t.Errorf("%q: %v after %d bytes, want %v", body, u.Whole(), cut, want)
			}
			u.Free()
		}
	}
	for _, body := range []string{"data: [DONE]x\n\n", "data: [DONE\n\n", "data: [DONE]\x00\n\n",
		"event: message_start\n\n", "data: {}\n\n", ": data: [DONE]\n\n", "data: [DONE]\n",
		"{\"usage\":{}", "event: message_stop\n"} {
		u := NewUsage(known(t, "OPENAI"), body[0] != '{')
		u.Read(body)
		if u.Whole() {
			t.Errorf("%q has said all", body)
		}
		u.Free()
	}
}

// A body of 100 MB takes the reader's memory and no more, and usage at its end is found.
func TestUsageOfALargeAnswer(t *testing.T) {
	paths := known(t, "OPENAI")
	u := NewUsage(paths, false)
	defer u.Free()
	u.Read(`{"choices":[{"message":{"content":"`)
	chunk := strings.Repeat(`all work and no play \"makes\" Jack a dull boy `, 5000)
	for sent := 0; sent < 100e6; sent += len(chunk) {
		u.Read(chunk)
	}
	u.Read(`"}}],"usage":{"prompt_tokens":5,"completion_tokens":7}}`)
	if total, ok := u.Get(settings.UsageTotal); !ok || total != 12 {
		t.Errorf("%v, %v of a total of 12", total, ok)
	}
	if ReaderSize > 512 {
		t.Errorf("a reader has %d bytes, want at most 512", ReaderSize)
	}
}

// oracle reads a valid text with encoding/json.
func oracle(paths []settings.UsagePath, text []byte, found map[uint8]float64) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	for {
		if walk(d, paths, nil, found) != nil {
			return
		}
	}
}

// walk reads one value, to which the keys lead.
func walk(d *json.Decoder, paths []settings.UsagePath, keys []string, found map[uint8]float64) error {
	token, err := d.Token()
	if err != nil {
		return err
	}
	switch v := token.(type) {
	case json.Delim:
		for i := 0; d.More(); i++ {
			key := strconv.Itoa(i)
			if v == '{' {
				name, err := d.Token()
				if err != nil {
					return err
				}
				key = name.(string)
			}
			if err := walk(d, paths, append(keys[:len(keys):len(keys)], key), found); err != nil {
				return err
			}
		}
		_, err := d.Token()
		return err
	case json.Number:
		n, err := strconv.ParseFloat(string(v), 64)
		for _, p := range paths {
			if err == nil && v[0] != '-' && n < 1e300 && len(v) <= 128 && strings.Join(p.Keys, "\x00") == strings.Join(keys, "\x00") {
				found[p.Field] = n
			}
		}
	}
	return nil
}

// The reader reads nothing outside of a body, and chunks change nothing. In valid JSON it finds the numbers that
// encoding/json finds.
func FuzzUsage(f *testing.F) {
	for _, s := range []string{`{"u":{"in":3,"out":4.5e1},"x":[{"u":{"in":1}}]}`, `{"\u0075":{"in":1e2},"u":{"in":"\ud83d\ude00"}}`,
		`[[[{"u":1}]],"\\",-1]`, "data: {\"u\":{\"in\":3}}\r\n\r\ndata: [DONE]\n\n", `{"list":[1,{"a":2}],"u":{"in":1},"u":{"in":2}}`,
		"data:{\"u\":\ndata:{\"in\":3}}\n\n: c\nevent: e\r\r", "\ufeffdata: {}\n\ndata: [DONE]\r\n\r\n",
		"event: message_stop\ndata: {}\n\n"} {
		f.Add([]byte(s), uint64(1))
	}
	paths := format(f, `{"format":"JSON_POINTER","input":"/u/in","output":"/u/out","total":"/list/1/a"}`)
	f.Fuzz(func(t *testing.T, body []byte, seed uint64) {
		if len(body) > 1<<16 {
			return
		}
		r := rand.New(rand.NewPCG(seed, 0))
		var cuts []int
		for at := 0; at < len(body); {
			cuts = append(cuts, at)
			at += r.IntN(12)
		}
		for _, events := range []bool{false, true} {
			found := func(cuts ...int) string {
				u := NewUsage(paths, events)
				defer u.Free()
				u.readIn(string(body), cuts...)
				return fmt.Sprint(numbers(u.Get), ", all said: ", u.Whole(), ", events: ", u.Events())
			}
			if whole, cut := found(), found(cuts...); whole != cut {
				t.Fatalf("%q, events %v: %s, in chunks that end at %v %s", body, events, whole, cuts, cut)
			}
		}
		if !json.Valid(body) {
			return
		}
		found := map[uint8]float64{}
		oracle(paths, body, found)
		u := NewUsage(paths, false)
		defer u.Free()
		u.Read(string(body))
		u.Read("\n") // ends a number
		for field, counts := range []settings.Usage{settings.UsageInput, settings.UsageOutput} {
			want, there := found[uint8(field)]
			got, ok := u.Get(counts)
			if there != ok || math.Abs(got-want) > 1e-9*want {
				t.Fatalf("%s: %v %v of field %d, want %v %v", body, got, ok, field, want, there)
			}
		}
	})
}

func BenchmarkUsage(b *testing.B) {
	paths := known(b, "OPENAI")
	text := strings.Repeat("The quick brown fox jumps over the lazy dog. ", 400)
	event := `data: {"id":"c","choices":[{"index":0,"delta":{"content":" word"},"finish_reason":null}],"usage":null}` + "\n\n"
	for name, c := range map[string]struct {
		body   string
		events bool
	}{"string": {`{"choices":[{"message":{"content":"` + text + `"}}]}`, false},
		"events": {strings.Repeat(event, 100), true}} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(c.body)))
			u := NewUsage(paths, c.events)
			defer u.Free()
			for b.Loop() {
				u.Read(c.body)
			}
		})
	}
}
