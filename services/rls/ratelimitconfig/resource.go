package ratelimitconfig

import (
	"bytes"
	"cmp"
	"fmt"

	rlsconfig "github.com/envoyproxy/go-control-plane/ratelimit/config/ratelimit/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

// AddResource adds a domain as the xDS protocol has it. It has the fields of a file, by the same names, and is read as
// a file, so that what is wrong in a file is wrong here, too. Errors have the resource's name, and every line is 1.
// After an error the configuration must not be used.
func (c *Config) AddResource(r *rlsconfig.RateLimitConfig, o Options) error {
	name := cmp.Or(r.GetName(), r.GetDomain(), "a resource without a name")
	file := proto.CloneOf(r)
	file.Name = "" // a file has none inside
	text, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(file)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return c.Add(name, bytes.NewReader(text), o)
}
