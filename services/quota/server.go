// Package quota serves the admin API, titrate.quota.v1alpha1.QuotaService, on a store.
//
// # Model
//
// Every request goes the same way: checked (package valid), turned into changes of the store, and the store's answer
// turned into a gRPC status. The standard methods are one line each over five generic ones: get, list, create,
// update, remove. Defaults are filled in before anything is stored, so that what is shown is what is in force.
//
// What is configured comes from the store, and any coordinator can serve it. What is happening (status, why) comes from
// Live, which the coordinator that leads provides.
//
// # Errors
//
//	INVALID_ARGUMENT     a field is wrong; google.rpc.BadRequest names each
//	NOT_FOUND            with google.rpc.ResourceInfo
//	ALREADY_EXISTS       on create
//	ABORTED              the etag given is not the stored one: read again
//	FAILED_PRECONDITION  it names what does not exist, or others depend on it
//	UNAVAILABLE          the store or the leader is away: try again
//
// # Invariants
//
// A request that is refused changes nothing. validate_only answers as the real request would and writes nothing. An
// update with a mask is a read, a merge and a write guarded by the etag of the read, repeated when somebody was faster.
package quota

import (
	"cmp"
	"context"
	"log/slog"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"

	quotav1 "github.com/titrate/titrate/proto/titrate/quota/v1alpha1"
	"github.com/titrate/titrate/services/store"
	"github.com/titrate/titrate/services/store/resource"
)

// Live is the leading coordinator's present state. Names are full: pools/x, tenants/x, tenants/x/quotas/y. Calls come
// from many goroutines.
type Live interface {
	// States returns the state of pools and quotas by name, without unknown ones. A pool's InfeasibleGuarantees says
	// that the quotas' guarantees exceed the capacity, which is accepted and shown, not refused.
	States(ctx context.Context, pools, quotas []string) States
	// Explain says why a tenant has its share of a pool, or of every pool that it
	// uses when pool is "". Sentence is left empty: the server writes it. An error
	// says why this coordinator does not know, such as that another one leads.
	Explain(ctx context.Context, tenant, pool string) ([]*quotav1.Explanation, error)
	// Activity returns the outcomes of the latest requests over all gateways, summed as the selection says, or with
	// single as rows of one tenant, pool or limit, and gateway each. An error is as that of Explain.
	Activity(ctx context.Context, s *quotav1.Selection, single bool) (*quotav1.TopResponse, error)
	// Decisions returns what gateways decided about the requests of an ID, without sentences. An
	// error is as that of Explain.
	Decisions(ctx context.Context, request string) (*quotav1.FindDecisionsResponse, error)
	// Bucket returns the bucket of a client at a limit, tenants/x/limits/y, without sentence. Rate 0: no gateway has
	// such a limit. An error is as that of Explain.
	Bucket(ctx context.Context, limit, client string) (*quotav1.Bucket, error)
	// History returns the last hour of a pool, pools/x; nil if the pool is not known. An error is as that of Explain.
	History(ctx context.Context, pool string) (*quotav1.PoolHistory, error)
	// Rehearse says what would happen to shares if the resources were stored and the
	// names deleted, for the demand of now and what is supposed. An error says why this coordinator does not know.
	Rehearse(ctx context.Context, resources []*quotav1.Resource, deleted []string, suppose []*quotav1.SupposedDemand) (
		*Rehearsal, error)
	// Findings says what is right and wrong with the installation.
	Findings(ctx context.Context) []*quotav1.Finding
	// Doubts returns why a resource may not do what it says: names that gateways do not know, gateways that do not
	// enforce it. known is false if it names an identity or a class and no gateway has reported which ones it knows.
	Doubts(m resource.Message) (doubts []Doubt, known bool)
	// Unknown says of the first limits and pools that are kept, by name, which identity, class or cost in them a
	// gateway does not know.
	Unknown(most int, keep func(resource.Message) bool) (sentences []string)
	// InForce counts the gateways that agents report, and those of them with the stored version of a resource in force.
	InForce(m resource.Message) (inForce, gateways int)
	// Gateways returns the gateways that agents report, by name, without how far they are behind, and the revision of
	// the configuration that they should have. An error is as that of Explain.
	Gateways() (revision int64, gateways []*quotav1.Gateway, err error)
	// Usage returns a page of the use of calendar quotas, of a request that is valid. An error is as that of Explain.
	Usage(r *quotav1.ListUsageRequest) (*quotav1.ListUsageResponse, error)
	// Overrides is the number of overrides, lately, of a limit or a tenant, or of all for "".
	Overrides(parent string) int
	// Precision says how close gateways hold a limit now, and why. Unspecified: nobody has said.
	Precision(l *quotav1.Limit) (p quotav1.Precision, why string)
}

// States are the states of pools and quotas by name.
type States struct {
	Pools  map[string]*quotav1.PoolStatus
	Quotas map[string]*quotav1.QuotaStatus
}

// Doubt is a reason to think that a resource does not do what it says.
type Doubt struct {
	Field   string // such as identity or classes[1]; "" = it is not enforced somewhere
	Message string
}

// Server serves QuotaService.
type Server struct {
	quotav1.UnimplementedQuotaServiceServer
	store *store.Store
	live  Live
	audit *slog.Logger // nil: none
	who   func(context.Context) string
	// auditFirst: a request whose audit line cannot be written changes nothing.
	auditFirst bool
	// stored is called after changes, see Stored; nil = not called.
	stored func(action string, changes int, revision int64, began time.Time)
	// minor reports whether the caller is no administrator, see store.Note; nil = everybody is one.
	minor func(context.Context) bool
	// reads returns the tenants that a caller may read, if it may not read everything; nil = everybody may.
	reads func(context.Context) (tenants []string, only bool)
	// ceilings bound what the caller may write and delete; nil = nothing does.
	ceilings Ceilings
}

// Stored makes the server report each change that was stored: what was asked for, of how many resources, the revision
// that it became, and when storing it began.
func (s *Server) Stored(tell func(action string, changes int, revision int64, began time.Time)) *Server {
	s.stored = tell
	return s
}

// Ceilings bound what callers may give. An error is a status for the caller.
type Ceilings interface {
	// Bounded reports whether the others may refuse something of a resource.
	Bounded(ctx context.Context, name string) bool
	// Write is asked about each resource, with its defaults, and what it replaces, nil for nothing. What it refuses may
	// be written if it is stored already.
	Write(ctx context.Context, m, old resource.Message) error
	Delete(ctx context.Context, name string, old resource.Message) error
	// TakeOver is asked about each resource that may be taken from another set.
	TakeOver(ctx context.Context, name string) error
}

// Minor makes the history distinguish changes of administrators from other changes.
func (s *Server) Minor(minor func(context.Context) bool) *Server {
	s.minor = minor
	return s
}

// Reads has ListTenants and FindDecisions leave out tenants that the caller may not read. Of other calls the guard has
// decided before.
func (s *Server) Reads(only func(context.Context) (tenants []string, only bool)) *Server {
	s.reads = only
	return s
}

// readsOnly returns the tenants that the caller may read, if it may not read everything.
func (s *Server) readsOnly(ctx context.Context) (tenants []string, only bool) {
	if s.reads == nil {
		return nil, false
	}
	return s.reads(ctx)
}

// Bound makes the server ask before it writes or deletes.
func (s *Server) Bound(by Ceilings) *Server {
	s.ceilings = by
	return s
}

// New returns a server on the store. With live nil there is no status and Why is UNAVAILABLE.
func New(s *store.Store, live Live) *Server { return &Server{store: s, live: live} }

// Register adds the service to a gRPC server.
func (s *Server) Register(r grpc.ServiceRegistrar) { quotav1.RegisterQuotaServiceServer(r, s) }

// asked returns why a question about the present is not answered, nil if it is: the question is invalid, or no
// coordinator here knows anything of the present.
func (s *Server) asked(invalid error, unknown string) error {
	if invalid == nil && s.live == nil {
		return grpcstatus.Error(codes.Unavailable, "no coordinator leads here: "+unknown)
	}
	return status(invalid)
}

// withStatus adds what is known of the present. It writes into the resources.
func (s *Server) withStatus(ctx context.Context, ms ...resource.Message) {
	if s.live == nil {
		return
	}
	var pools, quotas []string
	for _, m := range ms {
		switch m := m.(type) {
		case *quotav1.Pool:
			pools = append(pools, m.Name)
		case *quotav1.Quota:
			if strings.HasPrefix(m.Name, "tenants/") { // a plan's quota is of many flows
				quotas = append(quotas, m.Name)
			}
		}
	}
	var states States
	if len(pools)+len(quotas) > 0 {
		states = s.live.States(ctx, pools, quotas)
	}
	for _, m := range ms {
		s.addStatus(m, &states)
	}
}

func (s *Server) addStatus(m resource.Message, states *States) {
	words, in, of := s.warnings(m), int32(0), int32(0)
	if inForce, gateways := s.live.InForce(m); gateways > 0 {
		in, of = int32(inForce), int32(gateways)
	}
	said := words != nil || of > 0
	switch m := m.(type) {
	case *quotav1.Pool:
		if m.Status = states.Pools[m.Name]; m.Status != nil {
			m.Status.InForce, m.Status.Gateways = in, of
		}
	case *quotav1.Plan:
		m.Status = orNil(said, &quotav1.TenantStatus{Warnings: words, InForce: in, Gateways: of})
	case *quotav1.Tenant:
		m.Status = orNil(said, &quotav1.TenantStatus{Warnings: words, InForce: in, Gateways: of})
	case *quotav1.Override:
		m.Status = orNil(said, &quotav1.TenantStatus{Warnings: words, InForce: in, Gateways: of})
	case *quotav1.Quota:
		m.Status = cmp.Or(states.Quotas[m.Name], orNil(words != nil, &quotav1.QuotaStatus{}))
		if m.Status != nil {
			m.Status.Warnings, m.Status.InForce, m.Status.Gateways = words, in, of
		}
	case *quotav1.Limit:
		p, why := s.live.Precision(m)
		said = said || p != quotav1.Precision_PRECISION_UNSPECIFIED
		m.Status = orNil(said, &quotav1.LimitStatus{Warnings: words, InForce: in, Gateways: of, Precision: p,
			PrecisionWhy: why})
	}
}

// orNil is the status if there is something to say.
func orNil[T any](said bool, status *T) *T {
	if said {
		return status
	}
	return nil
}

// warnings are the doubts about a resource in words, and what of it has lapsed; nil if there is nothing to say.
func (s *Server) warnings(m resource.Message) (words []string) {
	doubts, _ := s.live.Doubts(m)
	for _, d := range doubts {
		words = append(words, d.Message)
	}
	if _, sentence := resource.Lapsed(m, time.Now()); sentence != "" {
		words = append(words, sentence)
	}
	return words
}

// as gives a generic method's answer its type, and its error a gRPC status.
func as[T resource.Message](m resource.Message, err error) (T, error) {
	var none T
	if err != nil {
		return none, status(err)
	}
	return m.(T), nil
}
