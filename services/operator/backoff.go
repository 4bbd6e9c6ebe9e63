package operator

import (
	"fmt"
	"hash/fnv"
	"maps"
	"time"
)

// refusals has the API's refusals in the last pass that asked for everything. While all objects
// stay as they are, the pause until everything is asked for again doubles, from RetryEvery up to the
// resync time. Passes in between leave the refused objects out.
type refusals struct {
	objects  uint64             // fingerprint of all objects at that pass
	verdicts map[string]verdict // by UID
	pause    time.Duration
	until    time.Time
}

// fingerprint changes when an object comes, goes, is edited or is deleted.
func fingerprint(all []*object) uint64 {
	h := fnv.New64a()
	for _, x := range all {
		fmt.Fprintln(h, x.Metadata.UID, x.Metadata.Generation, x.deleting())
	}
	return h.Sum64()
}

// waiting takes the objects that wait for their next try out of wanted. Each refused object keeps
// its verdict meanwhile.
func (p *pass) waiting(wanted []claim) (rest []claim) {
	r := &p.refused
	if p.waits = fingerprint(p.objects) == r.objects && time.Now().Before(r.until); !p.waits {
		return wanted
	}
	for _, x := range p.objects {
		if v, was := r.verdicts[x.Metadata.UID]; was {
			p.verdicts[x] = v
		}
	}
	for _, c := range wanted {
		if _, was := r.verdicts[c.Metadata.UID]; !was {
			rest = append(rest, c)
		}
	}
	return rest
}

// backOff notes the refused objects of a pass, and returns the time of the next pass.
func (p *pass) backOff() time.Time {
	r, now := &p.refused, time.Now()
	switch {
	case p.waits && len(p.denied) == 0:
		return r.until
	case p.waits:
		maps.Copy(p.denied, r.verdicts)
	}
	next := refusals{objects: fingerprint(p.objects), verdicts: p.denied, pause: min(RetryEvery, p.o.Resync)}
	if next.objects == r.objects && maps.Equal(next.verdicts, r.verdicts) {
		next.pause = min(2*r.pause, p.o.Resync)
	}
	if len(p.denied) == 0 {
		next.pause = p.o.Resync
	}
	next.until = now.Add(next.pause)
	*r = next
	return next.until
}
