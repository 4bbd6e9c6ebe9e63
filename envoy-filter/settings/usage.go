package settings

import (
	"encoding/json"
	"strings"
)

// Usage is a number of tokens that the answer of a language model says.
type Usage uint8

// The numbers.
const (
	UsageInput Usage = iota + 1
	UsageOutput
	UsageTotal // as the answer says it, else the sum of the others
)

var usages = map[string]Usage{"INPUT": UsageInput, "OUTPUT": UsageOutput, "TOTAL": UsageTotal}

// UsagePath is the way to a number in the JSON of an answer or of an event.
type UsagePath struct {
	// Keys of objects, or indices of arrays, from the outermost value on.
	Keys   []string
	Counts Usage
	// Field is the number that it leads to. Several paths may lead to one, of which the last that is read counts.
	// The fields that count the same add up.
	Field uint8
}

// AnyElement is a key that stands for each element of an array. No other key has this form.
const AnyElement = "\x00"

// Bounds of an answer's usage.
const (
	MaxUsagePaths = 16
	MaxUsageKeys  = 8
	maxUsageKey   = 128 // bytes
)

// usageFormat makes the paths of a known format: fields lists where each field is said, as paths without the
// slash in front.
func usageFormat(fields ...[]string) (paths []UsagePath) {
	for i, f := range fields {
		for _, path := range f[1:] {
			keys := strings.Split(path, "/")
			for j := range keys {
				if keys[j] == "*" {
					keys[j] = AnyElement
				}
			}
			paths = append(paths, UsagePath{Keys: keys, Counts: usages[f[0]], Field: uint8(i)})
		}
	}
	return paths
}

// usageFormats are the formats by name, as their documentation has them.
var usageFormats = map[string][]UsagePath{
	// Chat completions, embeddings, and responses; of a stream the last event.
	"OPENAI": usageFormat(
		[]string{"INPUT", "usage/prompt_tokens", "usage/input_tokens", "response/usage/input_tokens"},
		[]string{"OUTPUT", "usage/completion_tokens", "usage/output_tokens", "response/usage/output_tokens"},
		[]string{"TOTAL", "usage/total_tokens", "response/usage/total_tokens"}),
	// Messages; of a stream message_start says the input, and each message_delta the output so far. What is written
	// to a cache and read from one is input, too.
	"ANTHROPIC": usageFormat(
		[]string{"INPUT", "usage/input_tokens", "message/usage/input_tokens"},
		[]string{"INPUT", "usage/cache_creation_input_tokens", "message/usage/cache_creation_input_tokens"},
		[]string{"INPUT", "usage/cache_read_input_tokens", "message/usage/cache_read_input_tokens"},
		[]string{"OUTPUT", "usage/output_tokens", "message/usage/output_tokens"}),
	// generateContent, and streamGenerateContent as events or as one array.
	"GEMINI": usageFormat(
		[]string{"INPUT", "usageMetadata/promptTokenCount", "*/usageMetadata/promptTokenCount"},
		[]string{"INPUT", "usageMetadata/toolUsePromptTokenCount", "*/usageMetadata/toolUsePromptTokenCount"},
		[]string{"OUTPUT", "usageMetadata/candidatesTokenCount", "*/usageMetadata/candidatesTokenCount"},
		[]string{"OUTPUT", "usageMetadata/thoughtsTokenCount", "*/usageMetadata/thoughtsTokenCount"},
		[]string{"TOTAL", "usageMetadata/totalTokenCount", "*/usageMetadata/totalTokenCount"}),
}

const usageChoices = "OPENAI, ANTHROPIC, GEMINI or JSON_POINTER"

// responseUsage reads the format of answers' usage.
func responseUsage(field string, raw []byte) ([]UsagePath, error) {
	m, err := object(field, raw, "format", "input", "output", "total")
	if err != nil {
		return nil, err
	}
	var format string
	if err := value(m, field, "format", usageChoices, &format); err != nil {
		return nil, err
	}
	if format == "JSON_POINTER" {
		return usagePointers(field, m)
	}
	paths, ok := usageFormats[format]
	switch {
	case !ok:
		return nil, wrong(join(field, "format"), "is %q, %s is needed", format, usageChoices)
	case len(m) > 1:
		return nil, wrong(field, "has a place of its own, which only the format JSON_POINTER has")
	}
	return paths, nil
}

func usagePointers(field string, m map[string]json.RawMessage) (paths []UsagePath, err error) {
	for i, name := range []string{"input", "output", "total"} {
		var pointer string
		const what = "a JSON pointer such as /usage/tokens"
		if err := value(m, field, name, what, &pointer); err != nil {
			return nil, err
		}
		if _, ok := m[name]; !ok {
			continue
		}
		keys, ok := pointerKeys(pointer)
		if !ok {
			const text = "is %s, %s of at most %d keys of at most %d bytes is needed (RFC 6901)"
			return nil, wrong(join(field, name), text, brief([]byte(pointer)), what, MaxUsageKeys, maxUsageKey)
		}
		paths = append(paths, UsagePath{Keys: keys, Counts: Usage(i + 1), Field: uint8(i)})
	}
	if len(paths) == 0 {
		return nil, wrong(field, `needs one of input, output, total, e.g. "/usage/tokens"`)
	}
	return paths, nil
}

// pointerKeys are the keys of a JSON pointer.
func pointerKeys(pointer string) (keys []string, ok bool) {
	if pointer == "" || pointer[0] != '/' || strings.Contains(pointer, AnyElement) {
		return nil, false
	}
	for _, key := range strings.Split(pointer[1:], "/") {
		if strings.Contains(strings.NewReplacer("~0", "", "~1", "").Replace(key), "~") {
			return nil, false
		}
		key = strings.NewReplacer("~1", "/", "~0", "~").Replace(key)
		if len(key) > maxUsageKey {
			return nil, false
		}
		keys = append(keys, key)
	}
	return keys, len(keys) <= MaxUsageKeys
}
