//go:build !amd64

package clock

import (
	"errors"
	"time"
)

// Bend is for amd64 only.
func Bend(int) (*Clock, error) { return nil, errors.New("clocks can be stepped on amd64 only") }

// Step is described for amd64.
func (c *Clock) Step(time.Duration) error { return errors.New("clocks can be stepped on amd64 only") }
