package compile

import (
	"cmp"
	"fmt"
	"math"

	"github.com/titrate/titrate/proto/link"
	quotav1 "github.com/titrate/titrate/proto/titrate/quota/v1alpha1"
	"github.com/titrate/titrate/services/store/resource"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"
)

func (c *compiler) addLimit(l *quotav1.Limit) error {
	id, err := parts(l.GetName(), "tenants", "limits")
	if err != nil {
		return err
	}
	out, err := limit(l)
	if err != nil {
		return fmt.Errorf("%s: %w", l.GetName(), err)
	}
	out.Name = id[1]
	t := c.tenant(id[0])
	t.Limits = append(t.Limits, out)
	return nil
}

func limit(l *quotav1.Limit) (link.Limit, error) {
	rb, err := rateBurst(l.GetRate(), l.GetBurst())
	if err != nil {
		return link.Limit{}, err
	}
	out := link.Limit{Rate: rb.Rate, Burst: rb.Burst, Pools: l.GetPools(), Strict: l.GetStrict(),
		Identity: l.GetIdentity(), Classes: l.GetClasses()}
	switch l.GetKey() {
	case quotav1.Key_KEY_UNSPECIFIED, quotav1.Key_CLIENT:
	case quotav1.Key_TENANT:
		out.PerTenant = true
	default:
		return out, unknown("key", l.GetKey())
	}
	if out.Mode, err = mode(l.GetMode()); err != nil {
		return out, err
	}
	out.Queue = link.Queue{Law: link.Police}
	if l.GetQueue() != nil {
		if out.Queue, err = queue(l.GetQueue()); err != nil {
			return out, fmt.Errorf("queue: %w", err)
		}
	}
	out.Overrides, err = overrides(l.GetOverrides())
	return out, err
}

func overrides(list []*quotav1.Override) (map[string]link.RateBurst, error) {
	if len(list) == 0 {
		return nil, nil
	}
	out := make(map[string]link.RateBurst, len(list))
	for i, o := range list {
		rb, err := rateBurst(o.GetRate(), o.GetBurst())
		if err != nil {
			return nil, fmt.Errorf("overrides[%d] of client %q: %w", i, o.GetClient(), err)
		}
		if _, twice := out[o.GetClient()]; twice {
			return nil, fmt.Errorf("overrides[%d]: client %q is there twice", i, o.GetClient())
		}
		out[o.GetClient()] = rb
	}
	return out, nil
}

func rateBurst(rate string, b float64) (link.RateBurst, error) {
	r, err := resource.ParseRate(rate)
	if err != nil {
		return link.RateBurst{}, err
	}
	if !(b >= 0) || math.IsInf(b, 0) {
		return link.RateBurst{}, fmt.Errorf("burst is %v, want a finite number >= 0", b)
	}
	return link.RateBurst{Rate: r, Burst: resource.Burst(r, b)}, nil
}

// queue fills in the defaults, nil being all of them.
func queue(q *quotav1.Queue) (link.Queue, error) {
	out := link.Queue{
		DelayTarget: q.GetDelayTarget().AsDuration(),
		MaxWait:     q.GetMaxWait().AsDuration(),
		MaxRequests: int(q.GetMaxRequests()),
	}
	switch q.GetAqm() {
	case quotav1.Aqm_AQM_UNSPECIFIED, quotav1.Aqm_VARIABLE_STRUCTURE:
		out.Law = link.VariableStructure
	case quotav1.Aqm_DROP_TAIL:
		out.Law = link.DropTail
	case quotav1.Aqm_CODEL:
		out.Law = link.CoDel
	case quotav1.Aqm_POLICE:
		return link.Queue{Law: link.Police}, nil
	default:
		return out, unknown("aqm", q.GetAqm())
	}
	out.DelayTarget = cmp.Or(out.DelayTarget, delayTarget)
	out.MaxWait = cmp.Or(out.MaxWait, maxWait)
	out.MaxRequests = cmp.Or(out.MaxRequests, maxRequests)
	return out, nil
}

func mode(m quotav1.Mode) (link.Mode, error) {
	switch m {
	case quotav1.Mode_MODE_UNSPECIFIED, quotav1.Mode_ENFORCE:
		return link.Enforce, nil
	case quotav1.Mode_SHADOW:
		return link.Shadow, nil
	case quotav1.Mode_OFF:
		return link.Off, nil
	}
	return "", unknown("mode", m)
}

func onLoss(o quotav1.OnLoss) (link.OnLoss, error) {
	switch o {
	case quotav1.OnLoss_ON_LOSS_UNSPECIFIED, quotav1.OnLoss_FREEZE:
		return link.Freeze, nil
	case quotav1.OnLoss_SAFE_RATE:
		return link.SafeRate, nil
	case quotav1.OnLoss_OPEN:
		return link.Open, nil
	}
	return "", unknown("on_loss", o)
}

// known refuses a message with a field that this build does not know, itself or
// within: what it means is not known, so it must not be enforced without it.
func known(m protoreflect.Message) (err error) {
	if b := m.GetUnknown(); len(b) > 0 {
		number, _, _ := protowire.ConsumeTag(b)
		return fmt.Errorf("%s: field %d is not known to this build: upgrade the agent", m.Descriptor().Name(), number)
	}
	m.Range(func(d protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case d.Message() == nil:
		case d.IsList():
			for i := 0; i < v.List().Len() && err == nil; i++ {
				err = known(v.List().Get(i).Message())
			}
		default:
			err = known(v.Message())
		}
		return err == nil
	})
	return err
}

func unknown(field string, v fmt.Stringer) error {
	return fmt.Errorf("%s %v is not known to this build: upgrade the agent", field, v)
}
