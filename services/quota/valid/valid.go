// Package valid checks a resource or a request before anything is stored. It names each
// field that is wrong, so that a person can correct it.
//
// # Model
//
// A check has two layers. The first has the rules that the .proto declares (protovalidate): ranges, patterns, required
// fields. The second has the other rules. Examples: a rate reads as a rate, and a delay target is below the longest
// wait. Gateways take the resource, by the check that they make themselves (resource.LimitConfig and its likes). The
// second looks at the resource with its defaults filled in, for that is what will be in force. Both are
// made, so that all that is wrong is said at once. At a field the first layer counts, and gateways are asked about a
// resource only when nothing else is wrong with it.
//
// Fields are named by their path in proto spelling, such as resources[2].limit.overrides[0].rate.
package valid

import (
	"errors"
	"fmt"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"buf.build/go/protovalidate"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	quotav1 "github.com/titrate/titrate/proto/titrate/quota/v1alpha1"
	"github.com/titrate/titrate/services/store/resource"
	"github.com/titrate/titrate/services/wording"
)

// Violation is one thing wrong. Field may be empty: the whole is wrong. Beside are the other fields that it depends
// on, below the resource.
type Violation struct {
	Field, Message string
	Beside         []string
}

// Error is a refusal with at least one violation.
type Error struct{ Violations []Violation }

// Error names at most 20 violations and counts the rest.
func (e *Error) Error() string {
	const shown = 20
	parts := make([]string, min(len(e.Violations), shown), shown+1)
	for i, v := range e.Violations[:len(parts)] {
		parts[i] = v.Message
		if v.Field != "" {
			parts[i] = v.Field + ": " + v.Message
		}
	}
	if rest := len(e.Violations) - shown; rest > 0 {
		parts = append(parts, fmt.Sprintf("and %d more", rest))
	}
	return strings.Join(parts, "; ")
}

// Wrong returns an Error with one violation.
func Wrong(field, format string, args ...any) *Error {
	return &Error{Violations: []Violation{{Field: field, Message: fmt.Sprintf(format, args...)}}}
}

// Resource checks one resource. The error is an *Error.
func Resource(m resource.Message) error {
	return check(m, part{m: m})
}

// Request checks a request and the resource in its field (pool, plan, tenant, quota, limit). The error is an *Error.
func Request(request proto.Message, field string, m resource.Message) error {
	return check(request, part{prefix: field + ".", m: m})
}

// Message checks what the .proto of a request declares. The error is an *Error.
func Message(request proto.Message) error { return check(request) }

// Apply checks a request to apply several resources. The error is an *Error.
func Apply(r *quotav1.ApplyRequest) error {
	seen := make(map[string]bool, len(r.GetResources()))
	for i, envelope := range r.GetResources() {
		m := resource.Unwrap(envelope)
		if m == nil {
			continue // the .proto declares it required
		}
		if seen[m.GetName()] {
			return Wrong(fieldOf(i, m)+"name", "%s is named twice in one request", wording.Quote(m.GetName()))
		}
		seen[m.GetName()] = true
	}
	all := &Error{}
	if err := declared(r, protovalidate.WithFilter(outside)); err != nil && !errors.As(err, &all) {
		return err
	}
	for i, err := range each(r.GetResources()) {
		invalid := &Error{}
		if err != nil && !errors.As(err, &invalid) {
			return err
		}
		for _, v := range invalid.Violations {
			v.Field = strings.TrimSuffix(fieldOf(i, resource.Unwrap(r.Resources[i]))+v.Field, ".")
			all.Violations = append(all.Violations, v)
		}
	}
	return all.orNil()
}

// fieldOf is the path of a resource in a request, with a point behind it.
func fieldOf(i int, m resource.Message) string {
	return fmt.Sprintf("resources[%d].%s.", i, strings.ToLower(resource.KindOf(m).String()))
}

// outside leaves out the rules of resources in an envelope: each is checked by itself.
var outside = protovalidate.FilterFunc(func(m protoreflect.Message, _ protoreflect.Descriptor) bool {
	_, is := m.Interface().(resource.Message)
	return !is
})

// each checks resources on all cores, since there may be 500,000. It returns their errors in their order.
func each(envelopes []*quotav1.Resource) []error {
	errs := make([]error, len(envelopes))
	var next atomic.Int64
	var all sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), len(envelopes)) {
		all.Go(func() {
			for i := next.Add(1) - 1; i < int64(len(envelopes)); i = next.Add(1) - 1 {
				if m := resource.Unwrap(envelopes[i]); m != nil {
					errs[i] = Resource(m)
				}
			}
		})
	}
	all.Wait()
	return errs
}

// part is a resource within what is checked, and the path that leads to it.
type part struct {
	prefix string
	m      resource.Message
}

func check(whole proto.Message, parts ...part) error {
	all := &Error{}
	if err := declared(whole, protovalidate.WithFilter(keepsPattern)); err != nil && !errors.As(err, &all) {
		return err
	}
	said := map[string]bool{} // fields with a violation, and all that they are within
	for _, v := range all.Violations {
		for i := range v.Field + "." {
			if i == len(v.Field) || v.Field[i] == '.' {
				said[v.Field[:i]] = true
			}
		}
		said[""] = true
	}
	for _, p := range parts {
		for _, v := range semantic(p.m, said[strings.TrimSuffix(p.prefix, ".")]) {
			if field := p.prefix + v.Field; v.Field == "" || !said[field] {
				all.Violations = append(all.Violations, Violation{field, v.Message, v.Beside})
			}
		}
	}
	return all.orNil()
}

func (e *Error) orNil() error {
	if len(e.Violations) == 0 {
		return nil
	}
	return e
}

// keepsPattern leaves out the patterns of names and rates that are read here: what can be read keeps its pattern, and
// a pattern takes longer than all the rest.
var keepsPattern = protovalidate.FilterFunc(func(m protoreflect.Message, d protoreflect.Descriptor) bool {
	stored, is := m.Interface().(resource.Message)
	if !is {
		return true
	}
	switch d.Name() {
	case "name":
		ref, err := resource.Parse(stored.GetName())
		return err != nil || ref.Kind != resource.KindOf(stored)
	case "rate":
		numbers, is := stored.(resource.Numbers)
		if !is {
			return true
		}
		_, err := resource.ParseRate(numbers.GetRate())
		return err != nil
	}
	return true
})

var validator = sync.OnceValues(func() (protovalidate.Validator, error) { return protovalidate.New() })

func declared(m proto.Message, options ...protovalidate.ValidationOption) error {
	v, err := validator()
	if err != nil {
		return fmt.Errorf("rules of the API do not compile: %w", err)
	}
	err = v.Validate(m, options...)
	var invalid *protovalidate.ValidationError
	if !errors.As(err, &invalid) {
		return err
	}
	e := &Error{}
	for _, one := range invalid.Violations {
		e.Violations = append(e.Violations, Violation{
			Field:   protovalidate.FieldPathString(one.Proto.GetField()),
			Message: message(one),
		})
	}
	return e
}

// exponent is a number as a person does not write it.
var exponent = regexp.MustCompile(`\b[0-9.]+e[-+][0-9]+\b`)

// ofNumber is the text of a violation that is not about a pattern.
func ofNumber(v *protovalidate.Violation) string {
	if d := v.FieldDescriptor; d != nil && d.Kind() == protoreflect.DoubleKind && v.FieldValue.Float() < 0 {
		if wrong := resource.GivenZero(d); wrong != "" { // what it says of 0 holds below 0
			return wording.Number(v.FieldValue.Float()) + " " + wrong
		}
	}
	return exponent.ReplaceAllStringFunc(strings.TrimPrefix(v.Proto.GetMessage(), "value "), func(s string) string {
		x, _ := strconv.ParseFloat(s, 64)
		return wording.Number(x)
	})
}

// message is the text of a violation. A pattern is replaced by what is expected.
func message(v *protovalidate.Violation) string {
	if v.Proto.GetRuleId() != "string.pattern" {
		return ofNumber(v)
	}
	given := v.FieldValue.String()
	shown := wording.Quote(given)
	if v.FieldDescriptor == nil { // an item of a list
		if path := v.Proto.GetField().GetElements(); len(path) > 0 && path[len(path)-1].GetFieldName() == "classes" {
			return notAName(shown)
		}
		return fmt.Sprintf("%s does not have the right form", shown)
	}
	switch v.FieldDescriptor.Name() {
	case "rate":
		if given == "" {
			return "must be a rate with its unit, such as 100/s, 10/min, 1000/h or 5000/d"
		}
		if _, err := resource.ParseRate(given); err != nil {
			return err.Error()
		}
	case "name":
		if _, err := resource.Parse(given); err != nil {
			return err.Error()
		}
		return fmt.Sprintf("%s names another kind than %s", shown, v.FieldDescriptor.Parent().Name())
	case "parent":
		return fmt.Sprintf("%s must be tenants/TENANT or plans/PLAN, or tenants/* or plans/* for all", shown)
	case "tenant":
		return fmt.Sprintf("%s must be tenants/TENANT", shown)
	case "request_id":
		return shown + " is not an ID of a request: want at most 128 of 0-9 A-Z a-z . _ -"
	case "set", "identity", "plan":
		return notAName(shown)
	}
	return fmt.Sprintf("%s does not match %s", shown, v.RuleValue.String())
}

func notAName(shown string) string {
	return fmt.Sprintf("%s is not a name: want %s", shown, resource.IDRule)
}
