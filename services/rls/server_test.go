package rls

import (
	"context"
	"encoding/json"
	"log/slog"
	"math"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	api "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/titrate/titrate/control/config"
	"github.com/titrate/titrate/services/rls/ratelimitconfig"
)

// newServer is a server whose directory has one file.
func newServer(t testing.TB, file string, o Options) *Server {
	t.Helper()
	o.Dir, o.Name, o.Log = t.TempDir(), "gw", slog.New(slog.DiscardHandler)
	write(t, o.Dir, file)
	s, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func write(t testing.TB, dir, file string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, "f.yaml"), []byte(file), 0o600); err != nil {
		t.Fatal(err)
	}
}

// descriptor reads such as "tenant=acme path=/x".
func descriptor(text string) *ratelimitv3.RateLimitDescriptor {
	d := &ratelimitv3.RateLimitDescriptor{}
	for _, word := range strings.Fields(text) {
		key, value, _ := strings.Cut(word, "=")
		d.Entries = append(d.Entries, &ratelimitv3.RateLimitDescriptor_Entry{Key: key, Value: value})
	}
	return d
}

func withHits(text string, hits uint64) *ratelimitv3.RateLimitDescriptor {
	d := descriptor(text)
	d.HitsAddend = wrapperspb.UInt64(hits)
	return d
}

func ask(t *testing.T, s *Server, domain string, ds ...*ratelimitv3.RateLimitDescriptor) *api.RateLimitResponse {
	t.Helper()
	out, err := s.ShouldRateLimit(context.Background(), &api.RateLimitRequest{Domain: domain, Descriptors: ds})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// answers writes code and remaining of each descriptor, such as "OK 2".
func answers(r *api.RateLimitResponse) string {
	words := []string{r.GetOverallCode().String()}
	for _, s := range r.GetStatuses() {
		word := s.GetCode().String()
		if s.GetCurrentLimit() != nil {
			word += "/" + uintText(s.GetLimitRemaining())
		}
		words = append(words, word)
	}
	return strings.Join(words, " ")
}

func number(t *testing.T, text string) uint64 {
	t.Helper()
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func uintText(n uint32) string { return strconv.FormatUint(uint64(n), 10) }

const shop = `
domain: shop
descriptors:
  - key: tenant
    rate_limit: {unit: day, requests_per_unit: 3, name: each}
  - key: tenant
    value: vip
    rate_limit: {unlimited: true}
  - key: tenant
    value: blocked
    rate_limit: {unit: day, requests_per_unit: 0}
  - key: special
    rate_limit: {unit: day, requests_per_unit: 5, replaces: [{name: each}]}
  - key: shadow
    shadow_mode: true
    rate_limit: {unit: day, requests_per_unit: 1}
  - key: quota
    quota_mode: true
    rate_limit: {unit: day, requests_per_unit: 1}
`

func TestSequences(t *testing.T) {
	type step struct {
		descriptors []*ratelimitv3.RateLimitDescriptor
		want        string
	}
	one := func(text, want string) step { return step{[]*ratelimitv3.RateLimitDescriptor{descriptor(text)}, want} }
	hits := func(text string, n uint64, want string) step {
		return step{[]*ratelimitv3.RateLimitDescriptor{withHits(text, n)}, want}
	}
	for name, steps := range map[string][]step{
		"counted apart": {one("tenant=a", "OK OK/2"), one("tenant=a", "OK OK/1"), one("tenant=b", "OK OK/2"),
			one("tenant=a", "OK OK/0"), one("tenant=a", "OVER_LIMIT OVER_LIMIT/0")},
		"unlimited": {one("tenant=vip", "OK OK")},
		"blocked":   {one("tenant=blocked", "OVER_LIMIT OVER_LIMIT/0")},
		"no match":  {one("other=a", "OK OK"), one("tenant=a more=b", "OK OK")},
		"shadow":    {one("shadow=a", "OK OK/0"), one("shadow=a", "OK OK/0")},
		"quota": {one("quota=a", "OK OK/0"), one("quota=a", "OVER_LIMIT OVER_LIMIT/0"),
			{[]*ratelimitv3.RateLimitDescriptor{descriptor("quota=a"), descriptor("quota=b")}, "OK OVER_LIMIT/0 OK/0"},
			{[]*ratelimitv3.RateLimitDescriptor{descriptor("quota=a"), descriptor("quota=b")},
				"OVER_LIMIT OVER_LIMIT/0 OVER_LIMIT/0"},
			{[]*ratelimitv3.RateLimitDescriptor{descriptor("quota=c"), descriptor("tenant=blocked")},
				"OVER_LIMIT OK/0 OVER_LIMIT/0"}},
		"check only": {hits("tenant=a", 0, "OK OK/3"), hits("tenant=a", 2, "OK OK/1"), hits("tenant=a", 0, "OK OK/1")},
		"over uses up what was left": {hits("tenant=a", 2, "OK OK/1"), hits("tenant=a", 2, "OVER_LIMIT OVER_LIMIT/0"),
			one("tenant=a", "OVER_LIMIT OVER_LIMIT/0"), hits("tenant=a", 0, "OVER_LIMIT OVER_LIMIT/0")},
		"more than the limit": {hits("tenant=a", 4, "OVER_LIMIT OVER_LIMIT/0")},
		"replaced": {{[]*ratelimitv3.RateLimitDescriptor{descriptor("tenant=a"), descriptor("special=s")}, "OK OK OK/4"},
			one("tenant=a", "OK OK/2")},
		"each counts": {{[]*ratelimitv3.RateLimitDescriptor{descriptor("tenant=blocked"), descriptor("tenant=a")},
			"OVER_LIMIT OVER_LIMIT/0 OK/2"}, one("tenant=a", "OK OK/1")},
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer(t, shop, Options{})
			for i, step := range steps {
				if got := answers(ask(t, s, "shop", step.descriptors...)); got != step.want {
					t.Fatalf("step %d: %s, want %s", i, got, step.want)
				}
			}
		})
	}
}

func TestStopOverLimit(t *testing.T) {
	s := newServer(t, shop, Options{StopOverLimit: true})
	ask(t, s, "shop", withHits("tenant=a", 2))
	ask(t, s, "shop", withHits("tenant=a", 2))
	if got := answers(ask(t, s, "shop", descriptor("tenant=a"))); got != "OK OK/0" {
		t.Errorf("after a refusal that charged nothing: %s", got)
	}
}

func TestWhatTheStatusSays(t *testing.T) {
	s := newServer(t, shop, Options{Headers: true, Metadata: true})
	r := ask(t, s, "shop", descriptor("special=s"), descriptor("shadow=x"), descriptor("tenant=vip"))
	first := r.GetStatuses()[0]
	if l := first.GetCurrentLimit(); l.GetRequestsPerUnit() != 5 || l.GetUnit() != api.RateLimitResponse_RateLimit_DAY {
		t.Errorf("limit %v", l)
	}
	if reset := first.GetDurationUntilReset().AsDuration().Hours(); reset < 4.7 || reset > 24/5.+0.01 {
		t.Errorf("one of five per day is whole again after %v hours", reset)
	}
	if left := r.GetStatuses()[2].GetLimitRemaining(); left != math.MaxUint32 {
		t.Errorf("unlimited: %d left", left)
	}
	var headers []string
	for _, h := range r.GetResponseHeadersToAdd() {
		headers = append(headers, h.GetKey()+"="+h.GetValue())
	}
	if got := strings.Join(headers, " "); got != "RateLimit-Limit=1 RateLimit-Remaining=0 RateLimit-Reset=86400" {
		t.Errorf("headers of the tightest: %s", got)
	}
	ask(t, s, "shop", descriptor("quota=q"))
	text := ask(t, s, "shop", descriptor("tenant=a"), descriptor("quota=q")).GetDynamicMetadata().String()
	for _, want := range []string{"quota=q", "client_limit"} {
		if !strings.Contains(text, want) {
			t.Errorf("metadata without %s: %s", want, text)
		}
	}
}

const services = `
domain: shop
descriptors:
  - {key: service, value: a, quota_mode: true, rate_limit: {unit: day, requests_per_unit: 1},
     metadata: {service_with_quota: {name: a, a: 1}, list: [1]}}
  - {key: service, value: b, quota_mode: true, rate_limit: {unit: day, requests_per_unit: 2},
     metadata: {service_with_quota: {name: b, b: 1}, list: [2]}}
  - {key: any, rate_limit: {unit: day, requests_per_unit: 100}}
`

// The response has the metadata of the limits that let the request pass, the first one's where several have a field.
func TestMetadataOfLimits(t *testing.T) {
	s := newServer(t, services, Options{Metadata: true})
	for i, want := range []string{`{"list":[1],"service_with_quota":{"a":1,"b":1,"name":"a"}}`,
		`{"list":[2],"service_with_quota":{"b":1,"name":"b"}}`, `null`} {
		out := ask(t, s, "shop", descriptor("service=a"), descriptor("service=b"), descriptor("any=x"))
		got, err := json.Marshal(out.GetDynamicMetadata().AsMap()["metadata"])
		if err != nil || string(got) != want || (out.GetOverallCode() == api.RateLimitResponse_OVER_LIMIT) != (i == 2) {
			t.Errorf("request %d: %v %s, want %s", i, out.GetOverallCode(), got, want)
		}
	}
}

// With --rls-quota every limit is a quota, and what no limit applies to has room.
func TestAllLimitsAreQuotas(t *testing.T) {
	s := newServer(t, shop, Options{Quota: true})
	for _, want := range []string{"OK OK/0", "OVER_LIMIT OVER_LIMIT/0"} {
		if got := answers(ask(t, s, "shop", withHits("tenant=a", 3))); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	for text, want := range map[string]string{"none=x": "OK OVER_LIMIT/0 OK", "tenant=vip": "OVER_LIMIT OVER_LIMIT/0 OK"} {
		if got := answers(ask(t, s, "shop", descriptor("tenant=a"), descriptor(text))); got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
}

func TestOwnLimitOfADescriptor(t *testing.T) {
	s := newServer(t, shop, Options{})
	own := func(unit typev3.RateLimitUnit) *ratelimitv3.RateLimitDescriptor {
		d := descriptor("shadow=a")
		d.Limit = &ratelimitv3.RateLimitDescriptor_RateLimitOverride{RequestsPerUnit: 2, Unit: unit}
		return d
	}
	for _, want := range []string{"OK OK/1", "OK OK/0", "OVER_LIMIT OVER_LIMIT/0"} {
		if got := answers(ask(t, s, "shop", own(typev3.RateLimitUnit_DAY))); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	if got := answers(ask(t, s, "mall", own(typev3.RateLimitUnit_DAY))); got != "OK OK" {
		t.Errorf("in a domain that is not there: %s", got)
	}
	_, err := s.ShouldRateLimit(t.Context(), &api.RateLimitRequest{Domain: "shop",
		Descriptors: []*ratelimitv3.RateLimitDescriptor{own(typev3.RateLimitUnit_UNKNOWN)}})
	if status.Code(err) != codes.InvalidArgument {
		t.Errorf("an unknown unit: %v", err)
	}
	for i := range uint32(maxOverrides) {
		s.composer.overrides[uintText(i)] = config.Tenant{}
	}
	d := own(typev3.RateLimitUnit_YEAR)
	if got := answers(ask(t, s, "shop", d)); got != "OK OK" || s.Stats().OverridesRefused != 1 {
		t.Errorf("one too many: %s, %d counted", got, s.Stats().OverridesRefused)
	}
}

func TestErrors(t *testing.T) {
	s := newServer(t, shop, Options{})
	for _, r := range []*api.RateLimitRequest{{}, {Domain: "shop"},
		{Descriptors: []*ratelimitv3.RateLimitDescriptor{descriptor("a=b")}}} {
		if _, err := s.ShouldRateLimit(t.Context(), r); status.Code(err) != codes.InvalidArgument {
			t.Errorf("%v: %v", r, err)
		}
	}
	if got := answers(ask(t, s, "mall", descriptor("a=b"))); got != "OK OK" || s.Stats().UnknownDomain != 1 ||
		s.Stats().Invalid != 3 {
		t.Errorf("an unknown domain: %s, %+v", got, s.Stats())
	}
	if got := answers(ask(t, newServer(t, shop, Options{Shadow: true}), "shop", descriptor("tenant=blocked"))); got !=
		"OK OVER_LIMIT/0" {
		t.Errorf("global shadow mode: %s", got)
	}
}

func TestFilesAreWatched(t *testing.T) {
	s := newServer(t, shop, Options{})
	ask(t, s, "shop", withHits("tenant=a", 2))
	write(t, s.o.Dir, "domain: shop\ndescriptors: [{key: tenant, rate_limit: {unit: day}, x: 1}]")
	s.watch.look()
	s.watch.look()
	if st := s.Stats(); st.FilesRefused != 1 || !strings.Contains(st.FilesTrouble, "f.yaml:2: ") {
		t.Errorf("a mistake: %+v", st)
	}
	if got := answers(ask(t, s, "shop", descriptor("tenant=a"))); got != "OK OK/0" {
		t.Errorf("the limits before: %s", got)
	}
	write(t, s.o.Dir, "domain: shop\ndescriptors: [{key: tenant, rate_limit: {unit: day, requests_per_unit: 10}}]")
	s.watch.look()
	if got := answers(ask(t, s, "shop", descriptor("tenant=b"))); got != "OK OK/9" || s.Stats().FilesTrouble != "" {
		t.Errorf("the limit was raised from 3 to 10: %s, %+v", got, s.Stats())
	}
	path := filepath.Join(s.o.Dir, "f.yaml")
	before, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	write(t, s.o.Dir, "domain: shop\ndescriptors: [{key: tenant, rate_limit: {unit: day, requests_per_unit: 20}}]")
	if err := os.Chtimes(path, before.ModTime(), before.ModTime()); err != nil {
		t.Fatal(err)
	}
	s.watch.look()
	if got := answers(ask(t, s, "shop", descriptor("tenant=c"))); got != "OK OK/19" {
		t.Errorf("a file of equal size and time, with a limit of 20: %s", got)
	}
	write(t, s.o.Dir, "domain: titrate\ndescriptors: []")
	s.watch.look()
	if why := s.Stats().FilesTrouble; !strings.Contains(why, `a file has the domain "titrate"`) {
		t.Errorf("a file for Titrate's own tenants: %q", why)
	}
	if _, err := New(Options{Dir: "/absent", Log: slog.New(slog.DiscardHandler)}); err == nil {
		t.Error("a directory that is not there is taken")
	}
}

func TestDirectly(t *testing.T) {
	s := newServer(t, shop, Options{})
	if got := answers(ask(t, s, Domain, descriptor("tenant=acme"))); got != "OK OK" || s.Stats().Undecided != 1 {
		t.Errorf("before the configuration: %s", got)
	}
	day := 1.0 / 86400
	err := s.composer.configure(&config.Config{Seed: 4, Pools: []config.Pool{{Name: "api", Capacity: 1e6}},
		Defaults: []config.Limit{{Name: "each", Rate: 3 * day, Burst: 3}},
		Tenants: []config.Tenant{{Name: config.DefaultTenant}, {Name: "acme", Limits: []config.Limit{
			{Name: "writes", Rate: day, Burst: 1, Classes: []string{"write"}, Identity: "address"}}}}})
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range [][2]string{
		{"tenant=acme client=a pool=api", "OK OK/2"},
		{"tenant=acme client=a pool=api class=write address=1", "OK OK/0"},
		{"tenant=acme client=b pool=api class=write address=1", "OVER_LIMIT OVER_LIMIT/0"},
		{"tenant=acme client=b pool=api class=write address=2", "OK OK/0"},
		{"tenant=other client=a", "OK OK/2"},
	} {
		if got := answers(ask(t, s, Domain, descriptor(step[0]))); got != step[1] {
			t.Errorf("%s: %s, want %s", step[0], got, step[1])
		}
	}
	r := ask(t, s, Domain, descriptor("tenant=other client=a"))
	if l := r.GetStatuses()[0].GetCurrentLimit(); l.GetName() != "each" || l.GetRequestsPerUnit() != 3 ||
		l.GetUnit() != api.RateLimitResponse_RateLimit_DAY {
		t.Errorf("limit %v", l)
	}
	if err := s.composer.change(&config.Delta{Base: 1, Revision: 2}); err == nil {
		t.Error("a change of another revision is taken")
	}
	if err := s.composer.change(&config.Delta{Revision: 2, Tenants: []config.Tenant{{Name: "new", Limits: []config.Limit{
		{Name: "own", Rate: 2 * day, Burst: 2}}}}}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"OK OK/1", "OK OK/0", "OVER_LIMIT OVER_LIMIT/0"} {
		if got := answers(ask(t, s, Domain, descriptor("tenant=new client=a"))); got != want {
			t.Errorf("of a tenant that a change has made: %s, want %s", got, want)
		}
	}
	if got := answers(ask(t, s, "shop", descriptor("special=a"))); got != "OK OK/4" {
		t.Errorf("the defaults of Titrate's tenants hold for the files: %s", got)
	}
}

func TestMetricNamesAreBounded(t *testing.T) {
	var h hits
	for i := range uint32(maxMetrics + 3) {
		d := &decision{limited: true, metric: uintText(i)}
		d.numbers = numbers{requests: 1, unit: ratelimitconfig.Day}
		h.add(d, 2)
	}
	if n := len(h.all); n != maxMetrics+1 || h.other.Load() != 3 || h.all["other"].by[Near].Load() != 6 {
		t.Errorf("%d names, %d others, %d hits", n, h.other.Load(), h.all["other"].by[Near].Load())
	}
}

// A server whose listener fails ends, with the reason.
func TestServeEndsWithItsListener(t *testing.T) {
	s := newServer(t, shop, Options{Alone: true, Socket: filepath.Join(t.TempDir(), "nobody")})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	listener.Close()
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(t.Context(), listener) }()
	select {
	case err := <-ended:
		if err == nil {
			t.Error("no reason")
		}
	case <-time.After(20 * time.Second):
		t.Error("it does not end")
	}
}

// A connection that says nothing, such as a port scanner's, does not hold a stop for long.
func TestStopBesideASilentConnection(t *testing.T) {
	s := newServer(t, shop, Options{Alone: true, Socket: filepath.Join(t.TempDir(), "nobody")})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ctx, listener) }()
	silent, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	if _, err := silent.Read(make([]byte, 1)); err != nil { // the server's first settings: it serves
		t.Fatal(err)
	}
	stop()
	select {
	case err := <-ended:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(6 * handshakeWait):
		t.Error("it does not end")
	}
}

// Each such descriptor is counted, whether it is admitted or refused.
func TestHitsBeyondTheMostAreCounted(t *testing.T) {
	const file = "domain: shop\ndescriptors:\n- {key: big, rate_limit: {unit: day, requests_per_unit: 3000000}}\n" +
		"- {key: small, rate_limit: {unit: day, requests_per_unit: 3}}\n"
	for _, c := range []struct{ domain, text, want string }{
		{"shop", "big=a", "OK OK/2000000"},
		{"shop", "small=a", "OVER_LIMIT OVER_LIMIT/0"},
		{Domain, "tenant=acme client=a", "OVER_LIMIT OVER_LIMIT/0"},
	} {
		s := newServer(t, file, Options{})
		err := s.composer.configure(&config.Config{Seed: 4, Defaults: []config.Limit{{Name: "each", Rate: 1, Burst: 3}},
			Tenants: []config.Tenant{{Name: config.DefaultTenant}, {Name: "acme"}}})
		if err != nil {
			t.Fatal(err)
		}
		got := answers(ask(t, s, c.domain, withHits(c.text, 2_000_000)))
		if got != c.want || s.Stats().Capped != 1 {
			t.Errorf("%s %s: %s, %d counted, want %s and 1", c.domain, c.text, got, s.Stats().Capped, c.want)
		}
	}
	s := newServer(t, file, Options{})
	for _, want := range []string{"OK", "OK", "OK", "OVER_LIMIT"} { // the last one finds no room
		got := answers(ask(t, s, "shop", withHits("big=b", 1_000_001)))
		if !strings.HasPrefix(got, want) {
			t.Errorf("a million of what is left: %s, want %s", got, want)
		}
	}
	if n := s.Stats().Capped; n != 4 {
		t.Errorf("%d counted, want 4", n)
	}
}
