package leadership_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"syscall"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/titrate/titrate/control/exchange"
	controlv1 "github.com/titrate/titrate/proto/titrate/control/v1alpha1"
	"github.com/titrate/titrate/services/agent/applied"
	"github.com/titrate/titrate/services/agent/reports"
	"github.com/titrate/titrate/services/coordinator/allocation"
	"github.com/titrate/titrate/services/coordinator/delivery"
	"github.com/titrate/titrate/services/coordinator/leadership"
)

// station is a synthetic agent: its gateway's flows, what it reports of them, what it is sent.
type station struct {
	name     string
	flows    []int
	selector reports.Selector
	state    applied.State
	stream   *applied.Stream // of state
	receiver *delivery.Receiver
	seq      uint64
	report   []byte // of this round
}

// fleetRun is a leader with synthetic agents on virtual time. Each flow is used by three
// agents; of ten flows nine have a request per second at each, of a hundred nine have ten,
// one has a hundred. Half of the pools are offered twice their capacity.
type fleetRun struct {
	loop     *leadership.Loop
	epoch    int64
	config   *allocation.Config
	calm     bool // demands equal their means
	stations []*station
	now      time.Time
	random   *rand.Rand
	in, out  int // bytes
	took     time.Duration
}

const (
	benchPools = 10
	usedBy     = 3
)

func benchFlow(i int) allocation.Flow {
	return allocation.Flow{Tenant: fmt.Sprintf("tenant-%06d", i), Pool: fmt.Sprintf("pool-%d", i%benchPools)}
}

func benchRate(i int) float64 {
	switch {
	case i%100 == 99:
		return 100
	case i%10 == 9:
		return 10
	}
	return 1
}

func benchFull(i int) bool { return i%benchPools >= benchPools/2 }

func newFleetRun(flows, agents int) *fleetRun {
	r := &fleetRun{now: time.Unix(1_700_000_000, 0), random: rand.New(rand.NewPCG(3, 4))}
	c := &allocation.Config{Revision: 1, Tenants: map[string]float64{}}
	demand := [benchPools]float64{}
	users := min(usedBy, agents)
	for i := range flows {
		c.Tenants[benchFlow(i).Tenant] = 1
		demand[i%benchPools] += benchRate(i) * float64(users)
	}
	for i, d := range demand {
		capacity := 2 * d
		if benchFull(i) {
			capacity = d / 2
		}
		c.Pools = append(c.Pools, allocation.Pool{Name: benchFlow(i).Pool, Capacity: capacity})
	}
	r.config = c
	for i := range agents {
		r.stations = append(r.stations, &station{name: fmt.Sprintf("agent-%04d", i)})
	}
	r.elect()
	for i := range flows {
		for k := range users {
			s := r.stations[(i*7+k*(agents/usedBy+1))%agents]
			s.flows = append(s.flows, i)
		}
	}
	return r
}

// elect begins another leadership, which knows nothing but what agents say.
func (r *fleetRun) elect() {
	r.epoch++
	r.loop = leadership.New(leadership.Options{Params: allocation.Defaults(), Expiry: 10 * time.Second,
		Settle: 2 * time.Second})
	r.loop.Configure(r.config)
	r.loop.Begin(r.now, r.epoch, false)
	for _, s := range r.stations {
		r.hello(s)
	}
}

// hello opens an agent's stream.
func (r *fleetRun) hello(s *station) {
	s.selector.Reset()
	s.stream = s.state.Stream()
	status := s.state.Status(0)
	s.receiver = r.loop.Hello(r.now, &controlv1.Hello{Agent: s.name, Changes: true, Epoch: status.Epoch,
		Members: status.Version, Replicas: s.replicas(), Pools: status.Pools, Leases: s.state.LastLeases().GetLeases()})
}

func (s *station) replicas() []*controlv1.Replica {
	return []*controlv1.Replica{{Name: "gw-" + s.name, Weight: 1, Gossip: "10.20.30.40:7402"}}
}

func benchPoisson(random *rand.Rand, mean float64) float64 {
	n, p := -1.0, 1.0
	for limit := math.Exp(-mean); p > limit; n++ {
		p *= random.Float64()
	}
	return n
}

// write makes an agent's report of a round.
func (r *fleetRun) write(s *station) {
	h := exchange.ReportEvery.Seconds()
	rates := make([]*controlv1.FlowReport, 0, len(s.flows))
	for _, i := range s.flows {
		n := benchRate(i) * h
		if !r.calm {
			n = benchPoisson(r.random, n)
		}
		if n == 0 {
			continue
		}
		key := benchFlow(i)
		f := &controlv1.FlowReport{Tenant: key.Tenant, Pool: key.Pool, Gateway: "gw-" + s.name,
			Demand: n / h, Served: n / h}
		if benchFull(i) {
			f.Served, f.Limited = n/h/2, true
		}
		rates = append(rates, f)
	}
	s.seq++
	report := &controlv1.Report{Seq: s.seq, Interval: durationpb.New(exchange.ReportEvery), Replicas: s.replicas()}
	report.Flows, report.Changes = s.selector.Select(rates, exchange.ReportEvery, s.stream.ReportsChanges())
	s.report = encode(&controlv1.ConnectRequest{Message: &controlv1.ConnectRequest_Report{Report: report}})
}

func encode(m proto.Message) []byte {
	b, err := proto.Marshal(m)
	if err != nil {
		panic(err)
	}
	return b
}

// round is one round with the reports before it; what the coordinator does of it is timed. Agents
// put in force what they are sent.
func (r *fleetRun) round(b testing.TB) {
	for _, s := range r.stations {
		r.write(s)
	}
	r.now = r.now.Add(exchange.ReportEvery)
	sent := make([][]delivery.Message, len(r.stations))
	began := cpuTime()
	for i, s := range r.stations {
		m := &controlv1.ConnectRequest{}
		if err := proto.Unmarshal(s.report, m); err != nil {
			b.Fatal(err)
		}
		r.in += len(s.report)
		if r.loop.Report(r.now, s.name, m.GetReport()) {
			sent[i] = r.send(s)
		}
	}
	r.loop.Step(r.now)
	for i, s := range r.stations {
		sent[i] = append(sent[i], r.send(s)...)
	}
	r.took += cpuTime() - began
	for i, s := range r.stations {
		for _, m := range sent[i] {
			if _, err := s.stream.Leases(time.Duration(r.now.UnixNano()), m.Leases()); err != nil {
				b.Fatal(err)
			}
		}
	}
}

// send encodes what an agent is sent, as the stream does.
func (r *fleetRun) send(s *station) []delivery.Message {
	messages := r.loop.Next(r.now, s.receiver)
	for _, m := range messages {
		response := &controlv1.ConnectResponse{}
		if m.Own != nil {
			response.Message = &controlv1.ConnectResponse_Leases{Leases: m.Own}
		}
		if m.Common != nil {
			response.ProtoReflect().SetUnknown(m.Common.Encoded)
		}
		r.out += len(encode(response))
	}
	return messages
}

// shares returns the shares that agents hold, by agent and flow.
func (r *fleetRun) shares() map[string]float64 {
	out := map[string]float64{}
	for _, s := range r.stations {
		for _, l := range s.state.LastLeases().GetLeases() {
			out[s.name+" "+l.GetTenant()] = l.GetShare()
		}
	}
	return out
}

// A new leader goes on from what agents hold: where demands stay, so do shares, to within the
// step by which leases follow them. It gives the first after Settle, and sends no member again.
func TestFailoverChangesNoShare(t *testing.T) {
	for _, flows := range []int{200, 1100} { // sent everywhere, and where they are used
		r := newFleetRun(flows, 20)
		r.calm = true
		for range 60 {
			r.round(t)
		}
		before := r.shares()
		r.elect()
		for range 9 {
			r.round(t)
		}
		if r.stations[0].state.Status(0).Epoch != r.epoch {
			t.Fatal("no leases 2.25 s after the election")
		}
		after := r.shares()
		worst := 0.0
		for flow, share := range before {
			worst = max(worst, math.Abs(after[flow]/share-1))
		}
		t.Logf("%d flows, %d leases: the share that moved farthest moved by %.4f", flows, len(before), worst)
		if worst > delivery.Step || len(after) != len(before) || len(before) < flows {
			t.Errorf("%d flows: a share moved by %.3f; %d leases before, %d after", flows, worst, len(before),
				len(after))
		}
	}
}

// reset begins a measurement.
func (r *fleetRun) reset() { r.in, r.out, r.took = 0, 0, 0 }

// cpuTime returns the CPU time that the process has used.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func heap() float64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc) / 1e6
}

// BenchmarkFleet measures a leader's work in a round of 250 ms, with reports read and messages encoded; without the
// system's work for the connections. Time is CPU time.
//
//	go test ./services/coordinator/leadership -run - -bench Fleet -benchtime 40x
func BenchmarkFleet(b *testing.B) {
	for _, flows := range []int{1e3, 1e4, 1e5} {
		for _, agents := range []int{10, 100, 1000} {
			b.Run(fmt.Sprintf("flows=%d/agents=%d", flows, agents), func(b *testing.B) { benchFleet(b, flows, agents) })
		}
	}
}

func benchFleet(b *testing.B, flows, agents int) {
	r := newFleetRun(flows, agents)
	for range 24 { // six seconds: demands are known
		r.round(b)
	}
	r.reset()
	rounds := 0
	for b.Loop() {
		r.round(b)
		rounds++
	}
	took, perSecond := r.took, func(bytes int) float64 { return float64(bytes) / float64(rounds) * 4 / 1e6 }
	used := heap()
	r.loop = nil
	for _, s := range r.stations {
		s.receiver = nil
	}
	b.ReportMetric(used-heap(), "MB")
	b.ReportMetric(float64(took.Microseconds())/1000/float64(rounds), "cpu-ms/round")
	b.ReportMetric(perSecond(r.in), "MB/s-in")
	b.ReportMetric(perSecond(r.out), "MB/s-out")
	b.ReportMetric(0, "ns/op")
}
