package quota

import (
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

	"github.com/titrate/titrate/services/quota/valid"
	"github.com/titrate/titrate/services/store/resource"
)

// outputOnly fields may stand in a mask and are ignored (AIP-161).
var outputOnly = []string{"update_time", "status", "set"}

// checkMask refuses paths that lead nowhere or to what no update changes.
func checkMask(m resource.Message, paths []string) error {
	for _, path := range paths {
		switch path {
		case "*":
			return valid.Wrong("update_mask", "* means all fields: it stands alone or not at all")
		case "name", "etag":
			return valid.Wrong("update_mask", "%q cannot be changed by an update", path)
		}
		if _, err := fieldmaskpb.New(m, path); err != nil {
			return valid.Wrong("update_mask", "%q is not a field of a %s", path, resource.KindOf(m))
		}
	}
	return nil
}

// merged returns old with the fields at the paths taken from m, unset where m has
// none. Lists are taken whole.
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
