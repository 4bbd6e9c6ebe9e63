package rest

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/titrate/titrate/services/wording"
)

// topFields keeps the fields of a body that the URL gives, too: the gateway puts the URL's value in their place.
type topFields struct {
	raw            []byte // of the string or number that is read, mostRaw bytes at most
	key            string
	isValue        bool
	name, revision string // "" if the body has none
}

// mostRaw is more than a name may have, each of its characters written as \u and four digits.
const mostRaw = 2048

// add takes one more byte of the object that the body is, without what is nested in it.
func (t *topFields) add(c byte, quoted bool) {
	switch {
	case !quoted && c == ':':
		t.key, t.isValue, t.raw = text(t.raw), true, t.raw[:0]
	case !quoted && (c == ',' || c == '}'):
		if t.isValue {
			t.keep(text(t.raw))
		}
		t.isValue, t.raw = false, t.raw[:0]
	case len(t.raw) < mostRaw:
		t.raw = append(t.raw, c)
	}
}

func (t *topFields) keep(value string) {
	switch t.key {
	case "name":
		t.name = value
	case "revision":
		t.revision = value
	}
}

// text is a string or a number of JSON as a text, "" for null.
func text(raw []byte) string {
	var s *string
	if trimmed := strings.TrimSpace(string(raw)); json.Unmarshal(raw, &s) != nil {
		return trimmed
	}
	if s == nil {
		return ""
	}
	return *s
}

// sameAsURL refuses a body that names another resource, or another revision, than the URL.
func sameAsURL(ctx context.Context, request proto.Message) error {
	r, is := ctx.Value(requestKey{}).(*http.Request)
	if !is {
		return nil
	}
	body, is := r.Body.(*limited)
	if !is {
		return nil
	}
	m := request.ProtoReflect()
	said, field, named := body.entries.top.name, "name", ""
	if d := first(m.Descriptor(), resource); d != nil && (r.Method == http.MethodPut || r.Method == http.MethodPatch) {
		named = m.Get(d).Message().Get(d.Message().Fields().ByName("name")).String()
	} else if d := m.Descriptor().Fields().ByName("revision"); d != nil {
		said, field, named = body.entries.top.revision, "revision", m.Get(d).String()
	}
	if said == "" || named == "" || said == named {
		return nil
	}
	return status.Errorf(codes.InvalidArgument, "body: %s: %s is not %s, which the URL names", field,
		wording.Quote(said), wording.Quote(named))
}

// first is the first field of a message for which something holds, nil if there is none.
func first(d protoreflect.MessageDescriptor, holds func(protoreflect.FieldDescriptor) bool,
) protoreflect.FieldDescriptor {
	for i := range d.Fields().Len() {
		if f := d.Fields().Get(i); !f.IsList() && holds(f) {
			return f
		}
	}
	return nil
}
