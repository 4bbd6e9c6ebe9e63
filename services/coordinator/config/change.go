package config

import (
	"sync"

	"google.golang.org/protobuf/proto"

	controlv1 "github.com/titrate/titrate/proto/titrate/control/v1alpha1"
	quotav1 "github.com/titrate/titrate/proto/titrate/quota/v1alpha1"
)

// Change is a configuration, or the difference to an older one. Receivers share it.
type Change struct {
	Revision  int64
	Full      bool // replaces everything
	Resources []*quotav1.Resource
	Deleted   []string
	// Unreadable, with Full, names resources whose stored value cannot be read: the
	// receiver keeps its values of these resources.
	Unreadable []string

	encode sync.Once
	parts  [][]byte
	err    error
}

// partBytes is about how large one part of a change gets, well below gRPC's default limit of 4 MiB.
const partBytes = 512 << 10

// Parts are the messages of the change, each an encoded controlv1.ConnectResponse, without what
// differs between receivers and leaders: nonce, seed and epoch. They are encoded once.
func (c *Change) Parts() ([][]byte, error) {
	c.encode.Do(func() { c.parts, c.err = c.encoded() })
	return c.parts, c.err
}

func (c *Change) encoded() (parts [][]byte, err error) {
	for rest, last := c.Resources, false; !last; {
		m := &controlv1.Configuration{Revision: c.Revision, Full: c.Full}
		m.Resources, rest = nextPart(rest)
		if last = len(rest) == 0; last {
			m.Last, m.Deleted, m.Unreadable = true, c.Deleted, c.Unreadable
		}
		b, err := proto.Marshal(&controlv1.ConnectResponse{
			Message: &controlv1.ConnectResponse_Configuration{Configuration: m}})
		if err != nil {
			return nil, err
		}
		parts = append(parts, b)
	}
	return parts, nil
}

// nextPart returns the resources of one part, and the rest.
func nextPart(resources []*quotav1.Resource) (part, rest []*quotav1.Resource) {
	size := 0
	for i, r := range resources {
		if size += proto.Size(r); size > partBytes && i > 0 {
			return resources[:i], resources[i:]
		}
	}
	return resources, nil
}
