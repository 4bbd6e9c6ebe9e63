package store

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	quotav1 "github.com/titrate/titrate/proto/titrate/quota/v1alpha1"
	"github.com/titrate/titrate/services/store/resource"
	"github.com/titrate/titrate/services/wording"
)

// mostListed is the number of names that an error lists.
const mostListed = 5

// view has the stored resources by name, as far as a decision needs them.
type view map[string]resource.Message

// plan is a decision: what to write, and how each change comes out.
type plan struct {
	changes  []Change
	before   view
	outcomes []Outcome
	// order lists the names to write; final holds what they become, nil = deleted.
	order []string
	final map[string]resource.Message
	// owner has the set of a name whose change says one.
	owner map[string]string
	// removed are deletions that nobody named.
	removed []string
	// usedBy has the names of what refers to a name, made when it is first asked for.
	usedBy map[string][]string
	// judges has the judge of a limit's overrides, made when it is first asked for.
	judges map[string]*resource.Judge
}

// decide turns changes into a plan. Or it returns ChangeErrors: all changes that cannot be made, and all changes that
// need a refused change. It is pure. The view must hold the stored resources that the changes name, what the changes
// refer to, and what refers to a deleted name.
func decide(stored view, changes []Change) (*plan, error) {
	refused := map[int]error{}
	for {
		p, more := try(stored, changes, refused)
		if len(refused) == 0 {
			return p, nil
		}
		if !more {
			return nil, inOrder(changes, refused)
		}
	}
}

// try plans the changes that are not refused yet. It adds to refused what cannot be made, and reports whether that is
// more than before.
func try(stored view, changes []Change, refused map[int]error) (*plan, bool) {
	before := len(refused)
	p := &plan{changes: changes, before: stored, owner: map[string]string{},
		final: make(map[string]resource.Message, len(changes))}
	for i, c := range changes {
		if refused[i] != nil {
			continue
		}
		outcome, err := p.admit(c)
		if err != nil {
			refused[i] = err
		}
		p.outcomes = append(p.outcomes, outcome)
	}
	for i, c := range changes {
		if refused[i] != nil {
			continue
		}
		step := p.resolve
		if c.Op == Delete {
			step = p.release
		}
		if err := step(c); err != nil {
			refused[i] = err
		}
	}
	return p, len(refused) > before
}

// inOrder is the error of the changes that are refused.
func inOrder(changes []Change, refused map[int]error) error {
	var all ChangeErrors
	for _, i := range slices.Sorted(maps.Keys(refused)) {
		all = append(all, &ChangeError{Index: i, Name: changes[i].name(), Err: refused[i]})
	}
	return all.OrNil()
}

func (p *plan) empty() bool { return len(p.order) == 0 }

// admit checks a change against what is stored under its own name and records it.
func (p *plan) admit(c Change) (Outcome, error) {
	old, exists := p.before[c.name()]
	c.keepResets(old)
	if err := c.possible(old, exists); err != nil {
		return 0, err
	}
	same := exists && c.Op != Delete && c.same(old)
	if same && c.Declared {
		return Unchanged, nil
	}
	if err := c.current(old, exists); err != nil {
		return 0, err
	}
	switch {
	case same, c.Op == Delete && !exists:
		return Unchanged, nil
	case c.Op == Delete:
		p.write(c.Name, nil)
		return Deleted, nil
	}
	if c.Set != nil {
		p.owner[c.name()] = *c.Set
	}
	p.write(c.name(), c.Resource)
	if exists {
		return Updated, nil
	}
	return Created, nil
}

// stamped is a resource as it is stored: with etag, time and owner.
func (p *plan) stamped(m resource.Message, etag string, updated *timestamppb.Timestamp) resource.Message {
	name := m.GetName()
	owner, said := p.owner[name]
	if old := p.before[name]; !said && old != nil {
		owner = old.GetSet()
	}
	m = resource.Spec(m)
	resource.SetOutput(m, etag, updated)
	resource.SetOwner(m, owner)
	return m
}

func (p *plan) write(name string, m resource.Message) {
	if _, again := p.final[name]; !again {
		p.order = append(p.order, name)
	}
	p.final[name] = m
}

// after returns what a name holds once the plan is done, nil if nothing.
func (p *plan) after(name string) resource.Message {
	if m, written := p.final[name]; written {
		return m
	}
	if m, ok := p.before[name]; ok {
		return m
	}
	return nil
}

// resolve refuses a resource whose references do not hold after the plan.
func (p *plan) resolve(c Change) error {
	var missing []string
	for _, r := range resource.References(c.Resource) {
		if p.after(r.Name) == nil {
			missing = append(missing, r.Name)
		}
	}
	if len(missing) == 0 {
		return p.judge(c.Resource)
	}
	return fmt.Errorf("%w: %s; create it first or in the same change", ErrReference, strings.Join(missing, ", "))
}

// judge refuses an override that does not fit its limit, and a limit that does not fit its overrides.
func (p *plan) judge(m resource.Message) error {
	switch m := m.(type) {
	case *quotav1.Override:
		return refuses(p.judgeOf(resource.ParentOf(m.GetName())), m)
	case *quotav1.Limit:
		j := p.judgeOf(m.GetName())
		for _, name := range listedNames(m) {
			if o, is := p.after(name).(*quotav1.Override); is {
				return refuses(j, o)
			}
		}
		was, is := p.before[m.GetName()].(*quotav1.Limit)
		ref, err := resource.Parse(m.GetName())
		if err != nil || !is || resource.JudgeOf(was).Alike(j) {
			return err
		}
		if users := p.users(ref); len(users) > 0 {
			return fmt.Errorf("%w: with overrides such as %s a limit stays one with a rate, a concurrency or a quota, "+
				"and its key too; delete them first", ErrInUse, users[0])
		}
	}
	return nil
}

// judgeOf is the judge of the overrides of a limit, as it is after the plan.
func (p *plan) judgeOf(limit string) *resource.Judge {
	if p.judges[limit] == nil {
		if p.judges == nil {
			p.judges = map[string]*resource.Judge{}
		}
		l, _ := p.after(limit).(*quotav1.Limit)
		p.judges[limit] = resource.JudgeOf(l)
	}
	return p.judges[limit]
}

func refuses(j *resource.Judge, o *quotav1.Override) error {
	if err := j.Refuse(o); err != nil {
		return fmt.Errorf("%w: %w", ErrBadChange, err)
	}
	return nil
}

// release deals with what refers to a deleted name: refuses, or takes it along.
func (p *plan) release(c Change) error {
	ref, err := resource.Parse(c.Name)
	if err != nil || ref.Kind.Last() || p.after(c.Name) != nil {
		return err
	}
	// The tenant "-" goes on existing when its settings are deleted, and so may what belongs to it.
	implicit := ref.Kind == resource.Tenant && ref.ID == resource.AnyTenant
	if implicit && !c.Force {
		return nil
	}
	users := p.users(ref)
	if len(users) == 0 {
		return nil
	}
	if on := plannedOn(ref, users); len(on) > 0 {
		return fmt.Errorf("%w: on this plan are %s; give them another plan first, or none", ErrInUse,
			wording.Few(on, mostListed))
	}
	if !c.Force {
		return fmt.Errorf("%w: %s; delete them first, or force", ErrInUse, wording.Few(users, mostListed))
	}
	for _, name := range users {
		if old := p.before[name]; old != nil && c.forbidden(old) {
			return fmt.Errorf("%w: %s of set %s; %w", ErrInUse, name, old.GetSet(), c.NoTakeOver)
		}
		p.takeAlong(ref, name)
	}
	return nil
}

// plannedOn are the tenants among the users of a plan. They are not deleted with it.
func plannedOn(ref resource.Ref, users []string) []string {
	if ref.Kind != resource.Plan {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(users), func(name string) bool {
		return strings.HasPrefix(name, ref.String()+"/")
	})
}

// takeAlong removes what needs a deleted resource. A limit on several pools only loses the mention of a deleted one:
// emptying its list would make it a limit on every pool.
func (p *plan) takeAlong(gone resource.Ref, name string) {
	if l, ok := p.after(name).(*quotav1.Limit); ok && gone.Kind == resource.Pool && len(l.Pools) > 1 {
		l = proto.Clone(l).(*quotav1.Limit)
		l.Pools = slices.DeleteFunc(l.Pools, func(pool string) bool { return pool == gone.ID })
		if len(l.Pools) > 0 {
			p.write(name, l)
			return
		}
	}
	p.write(name, nil)
	p.removed = append(p.removed, name)
}

// users returns the sorted names of what still refers to a resource.
func (p *plan) users(ref resource.Ref) []string {
	if p.usedBy == nil {
		p.usedBy = usedBy(p.before)
	}
	var names []string
	for _, name := range p.usedBy[ref.String()] {
		if m := p.after(name); m != nil && refers(m, ref) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// usedBy has, for each name, the names of what refers to it.
func usedBy(v view) map[string][]string {
	out := map[string][]string{}
	for name, m := range v {
		for _, to := range needs(m) {
			out[to] = append(out[to], name)
		}
	}
	return out
}

// needs are the names that a resource refers to, and the tenant that it belongs to.
func needs(m resource.Message) (names []string) {
	for _, r := range resource.References(m) {
		names = append(names, r.Name)
	}
	switch ref, err := resource.Parse(m.GetName()); {
	case err != nil:
	case ref.Tenant == resource.AnyTenant:
		names = append(names, ref.Parent())
	case ref.Kind == resource.Override:
		names = append(names, "tenants/"+ref.Tenant)
	}
	return names
}

func refers(m resource.Message, to resource.Ref) bool {
	if to.Kind == resource.Tenant {
		return strings.HasPrefix(m.GetName(), to.String()+"/")
	}
	named := func(r resource.Reference) bool { return r.Name == to.String() }
	return slices.ContainsFunc(resource.References(m), named)
}

// set returns the writes of the plan: resources as they are stored, with etag and time. The plan has these from then
// on.
func (p *plan) set(revision int64, now *timestamppb.Timestamp) changeSet {
	var set changeSet
	etag := Etag(revision) // all have the same, and the same time
	for _, name := range p.order {
		m := p.final[name]
		if m == nil {
			set.Deleted = append(set.Deleted, name)
			continue
		}
		p.final[name] = p.stamped(m, etag, now)
		set.Resources = append(set.Resources, resource.Of(p.final[name]))
	}
	return set
}

// growth is the number of resources by which the plan makes the configuration larger.
func (p *plan) growth() int {
	n := 0
	for _, name := range p.order {
		_, was := p.before[name]
		switch is := p.final[name] != nil; {
		case is && !was:
			n++
		case was && !is:
			n--
		}
	}
	return n
}

// result returns the result of the plan: with revision and time of the commit, or, when nothing was written, the head's
// revision and nil.
func (p *plan) result(revision int64, now *timestamppb.Timestamp) Result {
	r := Result{Revision: revision, Outcomes: p.outcomes, Removed: p.removed}
	for _, c := range p.changes {
		r.Resources = append(r.Resources, p.stored(c, now))
		r.Before = append(r.Before, p.before[c.name()])
	}
	return r
}

func (p *plan) stored(c Change, now *timestamppb.Timestamp) resource.Message {
	if c.Op == Delete {
		return nil
	}
	m, written := p.final[c.name()]
	old := p.before[c.name()]
	switch {
	case !written:
		return proto.Clone(old).(resource.Message)
	case now != nil: // see set; a Watch of this process may have delivered m
		return proto.Clone(m).(resource.Message)
	case old != nil:
		return p.stamped(m, old.GetEtag(), old.GetUpdateTime())
	}
	return p.stamped(m, "", nil)
}
