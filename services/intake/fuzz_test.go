package intake

import (
	"errors"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	controlv1 "github.com/titrate/titrate/proto/titrate/control/v1alpha1"
	quotav1 "github.com/titrate/titrate/proto/titrate/quota/v1alpha1"
)

// entriesOf counts the entries of a decoded message.
func entriesOf(m protoreflect.Message) (n int) {
	m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case f.IsList():
			n += v.List().Len()
			for i := 0; f.Message() != nil && i < v.List().Len(); i++ {
				n += entriesOf(v.List().Get(i).Message())
			}
		case f.IsMap():
			n += v.Map().Len()
		case f.Message() != nil:
			n += 1 + entriesOf(v.Message())
		}
		return true
	})
	return n
}

// No bytes make a message with more entries than the bound that they were held to.
func FuzzCount(f *testing.F) {
	pool := &quotav1.Resource{Kind: &quotav1.Resource_Pool{Pool: &quotav1.Pool{Name: "pools/x"}}}
	for _, seed := range []proto.Message{&quotav1.ApplyRequest{Resources: []*quotav1.Resource{pool, pool}},
		&controlv1.ConnectRequest{Message: &controlv1.ConnectRequest_Hello{Hello: &controlv1.Hello{Agent: "a"}}}} {
		b, err := proto.Marshal(seed)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b, 3)
	}
	f.Add([]byte{0x0a, 0x02, 0x0a, 0x00}, 1)
	f.Fuzz(func(t *testing.T, b []byte, most int) {
		for _, m := range []proto.Message{&quotav1.ApplyRequest{}, &controlv1.ConnectRequest{}} {
			if err := count(b, m.ProtoReflect().Descriptor(), most); err != nil {
				if !errors.Is(err, errTooMany) && !errors.Is(err, errTooDeep) && proto.Unmarshal(b, m) == nil {
					t.Errorf("refused as malformed (%v), and it is well-formed", err)
				}
				continue
			}
			if err := proto.Unmarshal(b, m); err == nil && entriesOf(m.ProtoReflect()) > max(most, 0) {
				t.Errorf("%d entries, more than %d", entriesOf(m.ProtoReflect()), most)
			}
		}
	})
}
