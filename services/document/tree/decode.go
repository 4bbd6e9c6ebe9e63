package tree

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"unicode/utf16"

	"go.yaml.in/yaml/v3"
)

// Decoder reads YAML, and JSON where YAML by itself would not.
func Decoder(data []byte) *yaml.Decoder { return yaml.NewDecoder(bytes.NewReader(asYAML(data))) }

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
