package quota

import (
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

	"github.com/titrate/titrate/services/quota/valid"
	"github.com/titrate/titrate/services/store/resource"
	"github.com/titrate/titrate/services/wording"
)

// outputOnly fields are allowed in a mask and are ignored (AIP-161).
var outputOnly = []string{"update_time", "status", "set"}

// checkMask refuses paths that lead nowhere or to what no update changes.
func checkMask(m resource.Message, paths []string) error {
	for _, path := range paths {
		switch path {
		case "*":
			return valid.Wrong("update_mask", "* means all fields: it stands alone or not at all")
		case "name", "etag":
			return valid.Wrong("update_mask", "%s cannot be changed by an update", wording.Quote(path))
		}
		if _, err := fieldmaskpb.New(m, path); err != nil {
			return valid.Wrong("update_mask", "%s is not a field of a %s", wording.Quote(path), resource.KindOf(m))
		}
	}
	return nil
}

// allPaths are all fields of a resource that an update may change.
func allPaths(m resource.Message) (paths []string) {
	fields := m.ProtoReflect().Descriptor().Fields()
	for i := range fields.Len() {
		name := string(fields.Get(i).Name())
		if name != "name" && name != "etag" && !slices.Contains(outputOnly, name) {
			paths = append(paths, name)
		}
	}
	return paths
}

// merged returns old with the fields at the paths taken from m, unset where m has none. Lists are taken whole.
func merged(old, m resource.Message, paths []string) resource.Message {
	out := proto.Clone(old).(resource.Message)
	for _, path := range paths {
		steps := strings.Split(path, ".")
		if !slices.Contains(outputOnly, steps[0]) {
			copyPath(out.ProtoReflect(), m.ProtoReflect(), steps)
		}
	}
	return out
}

func copyPath(dst, src protoreflect.Message, steps []string) {
	field := dst.Descriptor().Fields().ByName(protoreflect.Name(steps[0]))
	switch {
	case len(steps) == 1 && src.Has(field):
		dst.Set(field, src.Get(field))
	case len(steps) == 1:
		dst.Clear(field)
	case src.Has(field) || dst.Has(field):
		copyPath(dst.Mutable(field).Message(), src.Get(field).Message(), steps[1:])
	}
}

// dropped refuses an update with a list that lacks entries of the stored one: its caller may have meant to add some.
func dropped(old, m resource.Message, paths []string) error {
	for _, path := range paths {
		field := m.ProtoReflect().Descriptor().Fields().ByName(protoreflect.Name(path))
		if field == nil || !field.IsList() {
			continue
		}
		given := map[string]bool{}
		for _, entry := range entries(m, field) {
			given[entry] = true
		}
		stored := entries(old, field)
		lacking := slices.DeleteFunc(slices.Clone(stored), func(entry string) bool { return given[entry] })
		if n := len(lacking); n > 0 {
			return valid.Wrong(fieldOf(m)+"."+path, "the list replaces the stored one as a whole, and would drop "+
				"%d of its %s, such as %s: give all that shall stay, or drop_entries if this is meant", n,
				wording.Count(len(stored), "entry"), wording.Quote(lacking[0]))
		}
	}
	return nil
}

// entries name what a list of a resource has: overrides by their client, plans by theirs, resets by limit and client,
// names as they are.
func entries(m resource.Message, field protoreflect.FieldDescriptor) (names []string) {
	list := m.ProtoReflect().Get(field).List()
	for i := range list.Len() {
		if o, is := list.Get(i).Interface().(protoreflect.Message); is {
			var parts []string
			for _, key := range []protoreflect.Name{"limit", "client", "plan"} {
				if f := o.Descriptor().Fields().ByName(key); f != nil {
					parts = append(parts, o.Get(f).String())
				}
			}
			names = append(names, strings.Join(parts, "/"))
		} else {
			names = append(names, list.Get(i).String())
		}
	}
	return names
}
