package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"buf.build/gen/go/bufbuild/protovalidate/protocolbuffers/go/buf/validate"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"
)

// span says what a field may be: what its comment says, or else the rule that the server checks.
func (r *reader) span(d protoreflect.FieldDescriptor, s said) string {
	rules, _ := proto.GetExtension(d.Options(), validate.E_Field).(*validate.FieldRules)
	switch {
	case s.span != "":
		return s.span
	case d.Kind() == protoreflect.EnumKind:
		r.enums.add(d.Enum())
		return values(d.Enum())
	case d.IsList():
		return listSpan(d, rules.GetRepeated())
	case isDuration(d):
		return durationSpan(rules.GetDuration())
	case isTime(d):
		return "a time from 1970 to 2200"
	case d.Kind() == protoreflect.DoubleKind:
		return doubleSpan(rules.GetDouble())
	case d.Kind() == protoreflect.Uint32Kind:
		return grouped(float64(rules.GetUint32().GetGte())) + " to " + grouped(float64(rules.GetUint32().GetLte()))
	case d.Kind() == protoreflect.StringKind:
		return textSpan(d, rules.GetString())
	case d.Kind() == protoreflect.BoolKind:
		return "`true`, `false`"
	}
	return ""
}

func values(e protoreflect.EnumDescriptor) string {
	var names []string
	for i := 1; i < e.Values().Len(); i++ {
		names = append(names, "`"+string(e.Values().Get(i).Name())+"`")
	}
	return strings.Join(names, ", ")
}

func listSpan(d protoreflect.FieldDescriptor, rules *validate.RepeatedRules) string {
	if most := rules.GetMaxItems(); most > 0 {
		return fmt.Sprintf("list, at most %d", most)
	}
	return "list"
}

func doubleSpan(rules *validate.DoubleRules) string {
	most := grouped(rules.GetLte())
	if rules.HasGt() {
		return "above " + grouped(rules.GetGt()) + " to " + most
	}
	return grouped(rules.GetGte()) + " to " + most
}

func durationSpan(rules *validate.DurationRules) string {
	if !rules.HasLte() {
		return rules.GetGte().AsDuration().String() + " or more"
	}
	return rules.GetGte().AsDuration().String() + " to " + rules.GetLte().AsDuration().String()
}

func textSpan(d protoreflect.FieldDescriptor, rules *validate.StringRules) string {
	if most := rules.GetMaxLen(); most > 0 {
		return fmt.Sprintf("text of %d to %d characters", rules.GetMinLen(), most)
	}
	if d.Name() == "name" {
		return nameForms[d.Parent().Name()]
	}
	return "a [name](#names)"
}

// nameForms are the names of resources; each part is a name.
var nameForms = map[protoreflect.Name]string{
	"Pool":     "`pools/`[name](#names)",
	"Plan":     "`plans/`[name](#names)",
	"Tenant":   "`tenants/`[name](#names), or `tenants/-`",
	"Quota":    "that of a Tenant or a Plan`/quotas/`[pool](#names)",
	"Limit":    "that of a Tenant or a Plan`/limits/`[name](#names)",
	"Override": "that of a tenant's Limit`/overrides/` and the client, escaped",
}

// grouped writes a number with commas between thousands.
func grouped(x float64) string {
	whole, fraction, _ := strings.Cut(strconv.FormatFloat(x, 'f', -1, 64), ".")
	for i := len(whole) - 3; i > 0; i -= 3 {
		whole = whole[:i] + "," + whole[i:]
	}
	if fraction == "" {
		return whole
	}
	return whole + "." + fraction
}

const durationName = "google.protobuf.Duration"

func isDuration(d protoreflect.FieldDescriptor) bool {
	return d.Kind() == protoreflect.MessageKind && d.Message().FullName() == durationName
}

// isScalar reports whether documents write a field's value as one text or number.
func isScalar(d protoreflect.FieldDescriptor) bool {
	return d.Kind() != protoreflect.MessageKind || isDuration(d) || isTime(d)
}

func isTime(d protoreflect.FieldDescriptor) bool {
	return d.Kind() == protoreflect.MessageKind && d.Message().FullName() == "google.protobuf.Timestamp"
}

// durationText is a duration as documents write it.
func durationText(m protoreflect.Message) string {
	if d, is := m.Interface().(*durationpb.Duration); is {
		return d.AsDuration().Round(time.Millisecond).String()
	}
	return m.Interface().(fmt.Stringer).String()
}
