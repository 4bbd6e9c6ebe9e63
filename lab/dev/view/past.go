package view

import (
	"time"

	"github.com/titrate/titrate/services/wording"
)

// A tenant's last minute has a character for each pastStep.
const (
	pastStep   = 2 * time.Second
	pastLength = 30
)

// Past keeps the rates of tenants and clients in the last minute. The zero value is empty. A nil Past keeps
// nothing.
type Past struct {
	at   time.Duration // of the latest numbers
	gets map[string][]float64
}

// Add adds a sample, if the one before is old enough.
func (p *Past) Add(s *Sample) {
	if p.gets == nil {
		p.gets = map[string][]float64{}
	} else if s.Elapsed-p.at < pastStep {
		return
	}
	p.at = s.Elapsed
	add := func(name string, gets float64) {
		all := append(p.gets[name], gets)
		p.gets[name] = all[max(0, len(all)-pastLength):]
	}
	for _, t := range s.Tenants {
		add(t.Name, t.Gets)
	}
	for _, c := range s.Clients {
		add(c.Name, c.Gets)
	}
}

// line is the last minute of a tenant or client.
func (p *Past) line(name string) string {
	if p == nil {
		return ""
	}
	return wording.Spark(p.gets[name])
}
