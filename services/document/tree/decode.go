package tree

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"unicode/utf16"

	"go.yaml.in/yaml/v3"
)

// Roots reads YAML, and JSON where YAML by itself would not: what stands between two
// --- lines each, as far as the syntax is right.
func (r *Reader) Roots(data []byte) (all []*yaml.Node) {
	decoder := yaml.NewDecoder(bytes.NewReader(asYAML(data)))
	for {
		root := new(yaml.Node)
		err := decoder.Decode(root)
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			line, message := syntax(err, data)
			r.Wrong(line, "", "%s", message)
			return all
		}
		all = append(all, root.Content...)
	}
}

var escaped = regexp.MustCompile(`\\\\|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}`)

// asYAML rewrites what only JSON has: \ud83d\ude00, which in YAML is \U0001f600, and
// tabs between tokens, of which YAML refuses some. Lines stay where they are.
// Anything but JSON is left alone.
func asYAML(data []byte) []byte {
	if !json.Valid(data) {
		return data
	}
	data = bytes.ReplaceAll(data, []byte{'\t'}, []byte{' '})
	return escaped.ReplaceAllFunc(data, func(found []byte) []byte {
		if len(found) == 2 {
			return found
		}
		high, _ := strconv.ParseUint(string(found[2:6]), 16, 32)
		low, _ := strconv.ParseUint(string(found[8:12]), 16, 32)
		return fmt.Appendf(nil, `\U%08x`, utf16.DecodeRune(rune(high), rune(low)))
	})
}
