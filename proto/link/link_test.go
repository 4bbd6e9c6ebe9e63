package link

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"math"
	"net"
	"os"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"pgregory.net/rapid"

	"github.com/titrate/titrate/control/config"
	"github.com/titrate/titrate/control/exchange"
)

func number() *rapid.Generator[float64] {
	return rapid.OneOf(rapid.Float64Range(-1e15, 1e15), rapid.Just(0.0), rapid.Just(math.Inf(1)))
}

func name() *rapid.Generator[string] { return rapid.StringN(0, 40, 200) }

// filled draws a value of a struct type field by field; lists are drawn nil
// rather than empty, as they come back from the wire.
func filled(t *rapid.T, v reflect.Value) {
	switch v.Kind() {
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[config.Override]() {
			v.Set(reflect.ValueOf(config.Override{Key: rapid.Uint64().Draw(t, "key"),
				Number: rapid.Float64Range(0, 1e9).Draw(t, "number"), Burst: 1, Until: config.Instant(rapid.IntRange(0, 9).Draw(t, "until"))}))
			return
		}
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				filled(t, v.Field(i))
			}
		}
	case reflect.Array:
		for i := range v.Len() {
			filled(t, v.Index(i))
		}
	case reflect.Pointer: // what is not known of a configuration: nothing
	case reflect.Slice:
		n := rapid.IntRange(0, 5).Draw(t, "len")
		if n == 0 {
			return
		}
		v.Set(reflect.MakeSlice(v.Type(), n, n))
		for i := range n {
			filled(t, v.Index(i))
		}
	case reflect.Map:
		if n := rapid.IntRange(0, 3).Draw(t, "entries"); n > 0 {
			positive := rapid.Float64Range(0, 1e9)
			v.Set(reflect.ValueOf(rapid.MapOfN(name(), rapid.Custom(func(t *rapid.T) config.RateBurst {
				return config.RateBurst{Rate: positive.Draw(t, "rate"), Burst: positive.Draw(t, "burst")}
			}), n, n).Draw(t, "map")))
		}
	case reflect.String:
		v.SetString(name().Draw(t, "string"))
	case reflect.Float64:
		v.SetFloat(number().Draw(t, "number"))
	case reflect.Bool:
		v.SetBool(rapid.Bool().Draw(t, "bool"))
	case reflect.Uint8:
		v.SetUint(uint64(rapid.IntRange(0, 2).Draw(t, "enum")))
	case reflect.Uint64, reflect.Uint32:
		v.SetUint(rapid.Uint64Range(0, 1<<(8*v.Type().Size()-1)).Draw(t, "uint"))
	default:
		v.SetInt(rapid.Int64().Draw(t, "int"))
	}
}

// finite takes the infinities out of a Config, which JSON cannot carry outside
// Quota.Max.
func finite(c *config.Config) {
	for i := range c.Pools {
		c.Pools[i].Capacity = 7
	}
	limits := func(list []config.Limit) {
		for j := range list {
			list[j].Rate, list[j].Burst = 1.25, 3
			list[j].Precision %= 3
			list[j].Scope %= 2
			if list[j].RequestedRate != (config.RateBounds{}) {
				list[j].RequestedRate = config.RateBounds{Least: 1, Most: 2.5, Per: 60}
			}
		}
	}
	limits(c.Defaults)
	for _, list := range [][]config.Tenant{c.Plans, c.Tenants} {
		for i := range list {
			list[i].Weight = 2.5
			limits(list[i].Limits)
			for j := range list[i].Quotas {
				list[i].Quotas[j].Guaranteed = 1e-3
			}
		}
	}
}

// newestWriter writes in the version that two builds of today agree on.
func newestWriter(to io.Writer) *Writer {
	w := NewWriter(to)
	w.SetVersion(Version)
	return w
}

func drawMessage(t *rapid.T) Message {
	m := blanks[rapid.IntRange(int(kindHello), int(kindQuotaReplies)).Draw(t, "kind")]()
	filled(t, reflect.ValueOf(m).Elem())
	switch m := m.(type) {
	case *Hello:
		m.Version, m.Replica, m.Weight, m.Generation = Version, "r"+m.Replica, 1.5, m.Generation>>1
	case *config.Config:
		finite(m)
	case *config.Delta:
		c := config.Config{Tenants: m.Tenants, Plans: m.Plans}
		if rapid.Bool().Draw(t, "shared") {
			m.Shared = &config.Shared{}
			filled(t, reflect.ValueOf(m.Shared).Elem())
			c.Pools, c.Defaults = m.Shared.Pools, m.Shared.Defaults
			finite(&config.Config{Plans: m.Shared.Plans})
		}
		finite(&c)
	case *Refused:
		m.Total = len(m.Limits) + int(uint8(m.Total))
	}
	return m
}

// Decode(Encode(m)) == m, however the stream cuts the bytes.
func TestRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sent := rapid.SliceOfN(rapid.Custom(drawMessage), 1, 6).Draw(t, "messages")
		var wire bytes.Buffer
		w := newestWriter(&wire)
		for _, m := range sent {
			if err := w.Write(m); err != nil {
				t.Fatalf("write %T: %v", m, err)
			}
		}
		var src io.Reader = &wire
		if rapid.Bool().Draw(t, "byte by byte") {
			src = iotest.OneByteReader(src)
		}
		r := NewReader(src)
		for _, want := range sent {
			got, err := r.Next()
			if err != nil {
				t.Fatalf("read %T: %v", want, err)
			}
			if !reflect.DeepEqual(got, want) {
				t.Fatalf("got %+v, sent %+v", got, want)
			}
		}
		if _, err := r.Next(); err != io.EOF {
			t.Fatalf("after the last message: %v, want io.EOF", err)
		}
	})
}

// A message of several MiB travels in several frames and comes out whole.
func TestChunks(t *testing.T) {
	c := &config.Config{Revision: 9}
	for range 30000 {
		c.Tenants = append(c.Tenants, config.Tenant{Name: strings.Repeat("t", 80), Weight: 1,
			Quotas: []config.Quota{{Pool: "api", Max: math.Inf(1)}}})
	}
	s := &exchange.Sums{Replicas: 3, Keys: make([]exchange.KeySum, 50000)}
	for i := range s.Keys {
		s.Keys[i] = exchange.KeySum{Key: uint64(i), Admitted: -float64(i)}
	}
	var wire bytes.Buffer
	w := newestWriter(&wire)
	for _, m := range []Message{c, s} {
		if err := w.Write(m); err != nil {
			t.Fatal(err)
		}
	}
	if wire.Len() < 4*MaxPayload {
		t.Fatalf("%d bytes do not need several frames", wire.Len())
	}
	r := NewReader(&wire)
	for _, want := range []Message{c, s} {
		if got, err := r.Next(); err != nil || !reflect.DeepEqual(got, want) {
			t.Fatalf("%T did not come back whole: %v", want, err)
		}
	}
}

// raw is one frame written by hand.
func raw(k kind, flags byte, payload ...byte) []byte {
	b := header{length: len(payload), version: Version, kind: k}.append(nil)
	b[6] = flags
	return append(b, payload...)
}

func TestMalformed(t *testing.T) {
	heartbeat := func(edit func([]byte) []byte) []byte {
		b, err := encode(nil, &Heartbeat{Reason: "why"})
		if err != nil {
			t.Fatal(err)
		}
		return raw(kindHeartbeat, 0, edit(b)...)
	}
	nan, err := encode(nil, &exchange.Sums{TotalWeight: math.NaN()})
	if err != nil {
		t.Fatal(err)
	}
	long := raw(kindSums, 0)
	binary.LittleEndian.PutUint32(long, MaxPayload+1)
	future := raw(kindSums, 0)
	future[4] = Version + 1
	cases := map[string]struct {
		in   []byte
		want string
	}{
		"oversized frame":     {long, "frame.length"},
		"future version":      {future, "frame.version"},
		"version zero":        {make([]byte, 8), "frame.version"},
		"unknown kind":        {raw(99, 0), "frame.kind"},
		"kind zero":           {raw(0, 0), "frame.kind"},
		"unknown flag":        {raw(kindSums, 4), "frame.flags"},
		"empty continuation":  {raw(kindSums, flagMore), "frame.length"},
		"other kind in chunk": {append(raw(kindSums, flagMore, 1), raw(kindShares, 0, 1)...), "Sums at byte 1"},
		"empty sums":          {raw(kindSums, 0), "Sums.sums"},
		"record past the end": {raw(kindReport, 0, 200, 0, 1, 2), "Report.report"},
		"record too short":    {raw(kindReport, 0, 1, 0, 1), "at least 8"},
		"huge list":           {raw(kindClaims, 0, 255, 255, 255, 255), "Claims.flows"},
		"not a number":        {raw(kindSums, 0, nan...), "Sums.total_weight"},
		"trailing bytes":      {heartbeat(func(b []byte) []byte { return append(b, 0) }), "1 bytes too many"},
		"string past the end": {heartbeat(func(b []byte) []byte { b[26] = 99; return b }), "Heartbeat.reason"},
		"bad JSON":            {raw(kindConfig, 0, '{'), "Config"},
		"wrong type":          {raw(kindConfig, 0, []byte(`{"pools":3}`)...), "pools"},
		"nameless hello":      {raw(kindHello, 0, []byte(`{"version":1}`)...), "Hello.replica"},
		"negative weight": {raw(kindHello, 0, []byte(`{"version":1,"replica":"a","weight":-1}`)...),
			"Hello.weight"},
		"generation beyond all times": {raw(kindHello, 0,
			[]byte(`{"version":1,"replica":"a","generation":18446744073709551615}`)...), "Hello.generation"},
		"versionless hello": {raw(kindHello, 0, []byte(`{"replica":"a"}`)...), "Hello.version"},
		"long hello":        {raw(kindHello, 0, make([]byte, 5000)...), "longer than 4096"},
	}
	for what, c := range cases {
		_, err := NewReader(bytes.NewReader(c.in)).Next()
		var format *FormatError
		if !errors.As(err, &format) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want a FormatError with %q", what, err, c.want)
		}
	}
}

// A stream that ends inside a message is not a clean end.
func TestTruncated(t *testing.T) {
	var wire bytes.Buffer
	if err := newestWriter(&wire).Write(&exchange.Sums{Replicas: 2, Flows: []exchange.FlowSum{{Key: 1}}}); err != nil {
		t.Fatal(err)
	}
	whole := wire.Bytes()
	for n := 1; n < len(whole); n++ {
		if _, err := NewReader(bytes.NewReader(whole[:n])).Next(); err != io.ErrUnexpectedEOF {
			t.Fatalf("cut at %d of %d: %v, want %v", n, len(whole), err, io.ErrUnexpectedEOF)
		}
	}
	cut := raw(kindSums, flagMore, 1)
	if _, err := NewReader(bytes.NewReader(cut)).Next(); err != io.ErrUnexpectedEOF {
		t.Fatalf("cut between two frames of a message: %v", err)
	}
}

// A claimed length costs nothing before its bytes arrive.
func TestBoundedMemory(t *testing.T) {
	claim := raw(kindConfig, 0)
	binary.LittleEndian.PutUint32(claim, MaxPayload)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range 16 {
		if _, err := NewReader(bytes.NewReader(claim)).Next(); err == nil {
			t.Fatal("a frame without its payload was read")
		}
	}
	runtime.ReadMemStats(&after)
	if grown := after.TotalAlloc - before.TotalAlloc; grown > 16*(256<<10) {
		t.Fatalf("16 readers allocated %d bytes for payloads that never came", grown)
	}
	endless := io.MultiReader(bytes.NewReader(nil), &repeat{frame: raw(kindSums, flagMore, make([]byte, 1<<19)...)})
	if _, err := NewReader(endless).Next(); err == nil || !strings.Contains(err.Error(), "longer than") {
		t.Fatalf("an endless message ended with %v", err)
	}
}

type repeat struct {
	frame []byte
	at    int
}

func (r *repeat) Read(b []byte) (int, error) {
	n := copy(b, r.frame[r.at:])
	r.at = (r.at + n) % len(r.frame)
	return n, nil
}

// What a newer build appends to a record is skipped; what an older one did not
// send is zero.
func TestAppendedFields(t *testing.T) {
	newer := []byte{14, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 77, 77, 0, 0, 0, 0}
	m, err := decode(kindReport, newer)
	if err != nil || m.(*exchange.Report).Interval != 1 {
		t.Fatalf("a record with two more bytes: %+v, %v", m, err)
	}
	c := coder{buf: []byte{8, 0, 5, 0, 0, 0, 0, 0, 0, 0}, reading: true}
	var known, appended uint64 = 0, 9
	var word string
	c.record("r", 8, func() {
		c.u64("known", &known)
		c.u64("appended", &appended)
		c.str("word", &word)
	})
	if c.err != nil || known != 5 || appended != 0 {
		t.Fatalf("a record of an older writer: %d, %d, %v", known, appended, c.err)
	}
}

func TestNegotiate(t *testing.T) {
	cases := []struct{ ours, theirs, want uint8 }{
		{1, 1, 1}, {2, 1, 1}, {1, 2, 1}, {3, 2, 2}, {2, 3, 2}, {3, 3, 3},
		{3, 1, 0}, {1, 3, 0}, {1, 0, 0}, {0, 1, 0},
	}
	for _, c := range cases {
		got, err := negotiate(c.ours, c.theirs)
		if got != c.want || (err == nil) != (c.want > 0) {
			t.Errorf("negotiate(%d, %d) = %d, %v; want %d", c.ours, c.theirs, got, err, c.want)
		}
	}
	if v, err := Negotiate(Version); v != Version || err != nil {
		t.Errorf("a build does not understand itself: %d, %v", v, err)
	}
	if _, err := Negotiate(Version + 2); err == nil || !strings.Contains(err.Error(), "upgrade") {
		t.Errorf("two versions apart: %v", err)
	}
}

// Two builds one version apart read each other's frames, either way round.
func TestNeighbouringVersions(t *testing.T) {
	for _, v := range []struct{ ours, theirs uint8 }{{2, 3}, {3, 2}, {3, 3}} {
		agreed, err := negotiate(v.ours, v.theirs)
		if err != nil {
			t.Fatal(err)
		}
		var wire bytes.Buffer
		w := NewWriter(&wire)
		w.SetVersion(agreed)
		if err := w.Write(&Heartbeat{Sequence: 4}); err != nil {
			t.Fatal(err)
		}
		r := NewReader(&wire)
		r.oldest, r.newest = v.theirs-1, v.theirs
		if m, err := r.Next(); err != nil || m.(*Heartbeat).Sequence != 4 {
			t.Errorf("version %d to version %d: %+v, %v", v.ours, v.theirs, m, err)
		}
	}
}

// MaxRecords of the longest records fit into a message.
func TestLongestPartsFit(t *testing.T) {
	for _, m := range []Message{
		&exchange.Sums{Keys: make([]exchange.KeySum, MaxRecords)},
		&exchange.Claims{Keys: make([]exchange.KeyClaim, MaxRecords)},
	} {
		if err := newestWriter(io.Discard).Write(m); err != nil {
			t.Error(err)
		}
	}
}

// A message that cannot be sent is refused before a byte of it is out.
func TestRefusedMessages(t *testing.T) {
	var wire bytes.Buffer
	w := NewWriter(&wire)
	refused := []Message{
		&config.Config{Pools: []config.Pool{{Capacity: math.NaN()}}},
		&exchange.Shares{Flows: []exchange.Share{{Tenant: strings.Repeat("x", 1<<16)}}},
		&exchange.Shares{Flows: []exchange.Share{{Tenant: strings.Repeat("x", 40000),
			Pool: strings.Repeat("x", 40000)}}},
		&Heartbeat{Reason: strings.Repeat("x", 5000)},
		config.Config{}, nil,
		&exchange.Claims{Keys: make([]exchange.KeyClaim, 400000)},
	}
	for _, m := range refused {
		if err := w.Write(m); err == nil || wire.Len() > 0 {
			t.Errorf("%T: error %v, %d bytes written", m, err, wire.Len())
		}
	}
	if err := w.Write(&Heartbeat{}); err != nil {
		t.Errorf("the writer does not recover: %v", err)
	}
}

func TestQuotaWithoutMax(t *testing.T) {
	b, err := encode(nil, &config.Config{Tenants: []config.Tenant{
		{Name: "a", Quotas: []config.Quota{{Pool: "p", Max: math.Inf(1)}}}}})
	if err != nil || bytes.Contains(b, []byte("max\"")) {
		t.Fatalf("%s, %v", b, err)
	}
}

// A field that a newer build has added to a limit or a quota is noted there; one
// elsewhere is not.
func TestUnknownFields(t *testing.T) {
	in := `{"revision":1,"zone":2,"pools":[{"name":"api","colour":1}],"tenants":[{"name":"a","tier":1,"limits":[
		{"name":"known","rate":1},{"name":"new","rate":2,"days":["monday"]},
		{"name":"deep","queue":{"law":"CODEL","ecn":true}}],
		"quotas":[{"pool":"api","max":3},{"pool":"db","mean":4}]}]}`
	m, err := decode(kindConfig, []byte(in))
	if err != nil {
		t.Fatal(err)
	}
	a := m.(*config.Config).Tenants[0]
	for i, want := range []string{"", "days", "ecn"} {
		if l := a.Limits[i]; field(l.Unknown) != want || l.Name == "" {
			t.Errorf("limit %q has the unknown field %v, want %q", l.Name, l.Unknown, want)
		}
	}
	if l := a.Limits[1]; l.Rate != 2 {
		t.Errorf("the known fields beside an unknown one: %+v", l)
	}
	for i, want := range []string{"", "mean"} {
		if q := a.Quotas[i]; field(q.Unknown) != want || q.Pool == "" || i == 1 && !math.IsInf(q.Max, 1) {
			t.Errorf("quota %+v, want the unknown field %q", q, want)
		}
	}
}

// field is the field that an error names, "" if there is none.
func field(e *config.FieldError) string {
	if e == nil {
		return ""
	}
	return e.Field
}

func TestAliveNoticesSilence(t *testing.T) {
	a, b := net.Pipe()
	defer a.Close()
	defer b.Close()
	if _, err := NewReader(Alive(a, time.Millisecond)).Next(); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("a silent peer: %v", err)
	}
}

// Whatever comes in: no panic, and what is accepted can be sent again and
// means the same.
func FuzzReader(f *testing.F) {
	for _, m := range []Message{
		&Hello{Version: Version, Replica: "gw-1", Weight: 1},
		&config.Config{Revision: 3, Pools: []config.Pool{{Name: "api", Capacity: 100}}},
		&exchange.Shares{Epoch: 2, Flows: []exchange.Share{{Tenant: "a", Pool: "api", Share: 3, Demand: 2}},
			Pools: []exchange.PoolShare{{Pool: "api", Price: .1, IdleShare: 2, GuaranteeScale: .5, Unused: 7}}},
		&exchange.Sums{Replicas: 2, Keys: []exchange.KeySum{{Key: 1, Own: 2, Gap: -3}},
			Flows: []exchange.FlowSum{{Key: 2}},
			Gone:  []uint64{3}},
		&exchange.Claims{Flows: []exchange.FlowClaim{{Key: 1}}, Keys: []exchange.KeyClaim{{Key: 2, Own: 3}},
			Withdrawn: []uint64{4}},
		&exchange.Report{Flows: []exchange.FlowReport{{Tenant: "a", Pool: "api"}}},
		&exchange.Report{Limits: []exchange.LimitCounts{{Tenant: "a", Limit: "l"}}, Part: 1, Parts: 2,
			Clients: []exchange.ClientCount{{Tenant: "a", Client: "c", Count: 2}}},
		&Heartbeat{Reason: "x"},
		&exchange.Names{Identities: []string{"ip"}, Classes: []string{"writes"}, Costs: []string{"output"}},
		&exchange.Spent{Keys: []exchange.KeySpent{{Key: 1, Ahead: 2, Named: true}}},
		&config.Delta{Base: 3, Revision: 4, Shared: &config.Shared{}, Removed: []string{"b"},
			Tenants: []config.Tenant{{Name: "a", Limits: []config.Limit{{Name: "l", Rate: 1}}}}},
		&Refused{Revision: 3, Total: 2, Limits: []config.LeftOut{{Tenant: "a", Limit: "l", Reason: "unknown field"}}},
		&exchange.Decisions{List: []exchange.Decision{{Client: "c", Limits: []exchange.LimitStep{{Name: "l", Client: "c"},
			{Name: "m", Client: "d"}, {Name: "n"}}, HeldBy: "l"}}},
	} {
		var wire bytes.Buffer
		if err := newestWriter(&wire).Write(m); err != nil {
			f.Fatal(err)
		}
		f.Add(wire.Bytes())
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		r := NewReader(bytes.NewReader(in))
		for {
			m, err := r.Next()
			if err != nil {
				return
			}
			var wire bytes.Buffer
			if err := newestWriter(&wire).Write(m); err != nil {
				t.Fatalf("%T was read but cannot be written: %v", m, err)
			}
			sent := bytes.Clone(wire.Bytes())
			again, err := NewReader(&wire).Next()
			if err != nil {
				t.Fatalf("%+v was read and written, but not read again: %v", m, err)
			}
			if err := newestWriter(&wire).Write(again); err != nil || !bytes.Equal(wire.Bytes(), sent) {
				t.Fatalf("read %+v, then %+v, %v", m, again, err)
			}
		}
	})
}

// The name of a client is long, and several limits count it: it is sent once.
func TestTheClientOfADecisionIsToldOnce(t *testing.T) {
	client := strings.Repeat("c", 128)
	m := &exchange.Decisions{List: []exchange.Decision{{Client: client,
		Limits: []exchange.LimitStep{{Name: "a", Client: client}, {Name: "b", Client: client}, {Name: "tenant"}}}}}
	var wire bytes.Buffer
	if err := newestWriter(&wire).Write(m); err != nil {
		t.Fatal(err)
	}
	if n := bytes.Count(wire.Bytes(), []byte(client)); n != 1 {
		t.Errorf("the client is told %d times", n)
	}
	got, err := NewReader(&wire).Next()
	if err != nil || !reflect.DeepEqual(got, m) {
		t.Errorf("%+v, %v; want %+v", got, err, m)
	}
}

func BenchmarkSums(b *testing.B) {
	m := &exchange.Sums{Keys: make([]exchange.KeySum, 1000)}
	var wire bytes.Buffer
	w := newestWriter(&wire)
	b.ReportAllocs()
	for b.Loop() {
		wire.Reset()
		if err := w.Write(m); err != nil {
			b.Fatal(err)
		}
		if _, err := NewReader(&wire).Next(); err != nil {
			b.Fatal(err)
		}
	}
}
