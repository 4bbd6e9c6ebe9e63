package settings

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// FieldError names the wrong field and describes a right value.
type FieldError struct {
	// Field is its path, e.g. "client[1].header"; "" is the whole document.
	Field  string
	Reason string
}

// Error is the path, then the reason.
func (e *FieldError) Error() string {
	if e.Field == "" {
		return "titrate: configuration " + e.Reason
	}
	return "titrate: field " + e.Field + " " + e.Reason
}

func wrong(field, format string, args ...any) error {
	return &FieldError{Field: field, Reason: fmt.Sprintf(format, args...)}
}

// object reads a JSON object whose keys are all among the known ones.
func object(field string, raw []byte, known ...string) (map[string]json.RawMessage, error) {
	var m map[string]json.RawMessage
	if err := json.Unmarshal(raw, &m); err != nil || m == nil {
		return nil, wrong(field, "is %s, an object is needed", brief(raw))
	}
	for _, key := range slices.Sorted(maps.Keys(m)) {
		if !slices.Contains(known, key) {
			return nil, wrong(join(field, key), "is unknown; known are %s", strings.Join(known, ", "))
		}
	}
	return m, nil
}

// value reads one field into v if it is there.
func value[T any](m map[string]json.RawMessage, parent, key, want string, v *T) error {
	raw, ok := m[key]
	if !ok {
		return nil
	}
	if bytes.Equal(bytes.TrimSpace(raw), []byte("null")) || json.Unmarshal(raw, v) != nil {
		return wrong(join(parent, key), "is %s, %s is needed", brief(raw), want)
	}
	return nil
}

func join(parent, key string) string {
	if parent == "" {
		return key
	}
	return parent + "." + key
}

// brief shows a value in an error without flooding the log.
func brief(raw []byte) string {
	const most = 60
	s := strings.TrimSpace(string(raw))
	if s == "" {
		return "empty"
	}
	if len(s) > most {
		s = s[:most] + "…"
	}
	return fmt.Sprintf("%q", s)
}
