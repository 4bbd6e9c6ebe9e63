package config

import (
	"fmt"
	"strings"
)

// Law says how a queue is managed.
type Law uint8

// The laws.
const (
	VariableStructure Law = iota // marks and early rejects hold the delay target
	DropTail                     // a queue of DelayTarget at the share, no early action
	Police                       // no queue: what may not pass at once is rejected
	CoDel                        // controlled delay: marks, then rejects, at the head of the queue
)

// OnLoss says what happens to a pool when its shares are stale for too long.
type OnLoss uint8

// The policies.
const (
	Freeze   OnLoss = iota // the last shares hold without end
	SafeRate               // after HardExpiry at most share·w/W of the last membership
	Open                   // after HardExpiry everything passes the tenant stage
)

// Mode says whether decisions act.
type Mode uint8

// The modes.
const (
	Enforce Mode = iota
	Shadow       // decided and counted, never acted on
	Off          // not decided; traffic is measured only
)

// Precision says how close a limit is held over all replicas.
type Precision uint8

// The precisions.
const (
	Unstated Precision = iota // Exact while the agents say that they are near enough to each other, else Local
	Local                     // each replica decides by a ledger of the others' claims; no request waits
	Exact                     // the owner of a key has its one bucket; requests wait for its answer where needed
)

// Scope says among which agents a key of an Exact limit has its owner.
type Scope uint8

// The scopes.
const (
	SiteScope   Scope = iota // of each site; the sites' owners share the limit by a ledger
	GlobalScope              // of all sites: one owner
)

// Per says what a period of a quota is.
type Per uint8

// The periods.
const (
	Month Per = iota
	Week
	Day
	Year
)

// QuotaLoss says what the owner of a key of a quota does while nobody answers its bookings.
type QuotaLoss uint8

// The policies.
const (
	AdmitOwn    QuotaLoss = iota // admits up to the amount by its own count
	RefuseOwing                  // admits what is booked
)

// Names of the values, in their order, as the API, documents and the filter's settings
// spell them. field is the place of a value in a pool, a quota or a limit.
var (
	laws       = enumeration{"queue.law", []string{"VARIABLE_STRUCTURE", "DROP_TAIL", "POLICE", "CODEL"}}
	onLosses   = enumeration{"on_loss", []string{"FREEZE", "SAFE_RATE", "OPEN"}}
	precisions = enumeration{"precision", []string{"UNSTATED", "LOCAL", "EXACT"}}
	scopes     = enumeration{"scope", []string{"SITE", "GLOBAL"}}
	pers       = enumeration{"quota.per", []string{"MONTH", "WEEK", "DAY", "YEAR"}}
	losses     = enumeration{"quota.on_loss", []string{"OPEN", "CLOSED"}}
	modes      = enumeration{"mode", []string{"ENFORCE", "SHADOW", "OFF"}}
)

// Laws returns all laws.
func Laws() []Law { return all[Law](laws) }

// OnLosses returns all policies for lost shares.
func OnLosses() []OnLoss { return all[OnLoss](onLosses) }

// Modes returns all modes.
func Modes() []Mode { return all[Mode](modes) }

// Precisions returns all precisions.
func Precisions() []Precision { return all[Precision](precisions) }

// String is the precision's name.
func (p Precision) String() string { return precisions.name(uint8(p)) }

// MarshalText is the precision's name.
func (p Precision) MarshalText() ([]byte, error) { return precisions.write(uint8(p)) }

// UnmarshalText reads a precision's name; "" is Unstated. The error is a *FieldError.
func (p *Precision) UnmarshalText(name []byte) error {
	return precisions.read(string(name), (*uint8)(p))
}

// String is the scope's name.
func (s Scope) String() string { return scopes.name(uint8(s)) }

// MarshalText is the scope's name.
func (s Scope) MarshalText() ([]byte, error) { return scopes.write(uint8(s)) }

// UnmarshalText reads a scope's name; "" is SiteScope. The error is a *FieldError.
func (s *Scope) UnmarshalText(name []byte) error { return scopes.read(string(name), (*uint8)(s)) }

// String is the period's name.
func (p Per) String() string { return pers.name(uint8(p)) }

// MarshalText is the period's name.
func (p Per) MarshalText() ([]byte, error) { return pers.write(uint8(p)) }

// UnmarshalText reads a period's name; "" is Month. The error is a *FieldError.
func (p *Per) UnmarshalText(name []byte) error { return pers.read(string(name), (*uint8)(p)) }

// String is the policy's name.
func (l QuotaLoss) String() string { return losses.name(uint8(l)) }

// MarshalText is the policy's name.
func (l QuotaLoss) MarshalText() ([]byte, error) { return losses.write(uint8(l)) }

// UnmarshalText reads a policy's name; "" is AdmitOwn. The error is a *FieldError.
func (l *QuotaLoss) UnmarshalText(name []byte) error { return losses.read(string(name), (*uint8)(l)) }

// String is the law's name.
func (l Law) String() string { return laws.name(uint8(l)) }

// String is the policy's name.
func (o OnLoss) String() string { return onLosses.name(uint8(o)) }

// String is the mode's name.
func (m Mode) String() string { return modes.name(uint8(m)) }

// MarshalText is the law's name.
func (l Law) MarshalText() ([]byte, error) { return laws.write(uint8(l)) }

// MarshalText is the policy's name.
func (o OnLoss) MarshalText() ([]byte, error) { return onLosses.write(uint8(o)) }

// MarshalText is the mode's name.
func (m Mode) MarshalText() ([]byte, error) { return modes.write(uint8(m)) }

// UnmarshalText reads a law's name; "" is VariableStructure. The error is a *FieldError.
func (l *Law) UnmarshalText(name []byte) error { return laws.read(string(name), (*uint8)(l)) }

// UnmarshalText reads a policy's name; "" is Freeze. The error is a *FieldError.
func (o *OnLoss) UnmarshalText(name []byte) error { return onLosses.read(string(name), (*uint8)(o)) }

// UnmarshalText reads a mode's name; "" is Enforce. The error is a *FieldError.
func (m *Mode) UnmarshalText(name []byte) error { return modes.read(string(name), (*uint8)(m)) }

type enumeration struct {
	field string
	names []string
}

func (e enumeration) name(v uint8) string {
	if int(v) < len(e.names) {
		return e.names[v]
	}
	return "unknown"
}

func (e enumeration) write(v uint8) ([]byte, error) {
	if err := e.check("", v); err != nil {
		return nil, err
	}
	return []byte(e.names[v]), nil
}

func (e enumeration) read(name string, v *uint8) error {
	if name == "" {
		*v = 0
		return nil
	}
	for i := range e.names {
		if e.names[i] == name {
			*v = uint8(i)
			return nil
		}
	}
	return &FieldError{Field: e.field, Value: fmt.Sprintf("%q", name), Want: e.choice()}
}

// check refuses a value without a name. path leads to what has the field.
func (e enumeration) check(path string, v uint8) error {
	if int(v) < len(e.names) {
		return nil
	}
	return &FieldError{Field: join(path, e.field), Value: v, Want: e.choice()}
}

// choice joins the names as "A, B or C".
func (e enumeration) choice() string {
	last := len(e.names) - 1
	return strings.Join(e.names[:last], ", ") + " or " + e.names[last]
}

func all[T ~uint8](e enumeration) []T {
	out := make([]T, len(e.names))
	for i := range out {
		out[i] = T(i)
	}
	return out
}
