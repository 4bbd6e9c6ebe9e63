package activity

import (
	"fmt"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/titrate/titrate/control/exchange"
	controlv1 "github.com/titrate/titrate/proto/titrate/control/v1alpha1"
	quotav1 "github.com/titrate/titrate/proto/titrate/quota/v1alpha1"
	"github.com/titrate/titrate/services/toplist"
)

func ask(a *Activity, now time.Duration, s *quotav1.Selection) *controlv1.Answer {
	return a.Snapshot(now, &controlv1.Question{Id: 7, Selection: s}).Answer()
}

func report(tenant string, admitted, refused uint64) *exchange.Report {
	return &exchange.Report{
		Flows: []exchange.FlowReport{{Tenant: tenant, Pool: "api",
			Counts: exchange.Counts{Admitted: admitted, ClientLimit: refused, TenantShare: 1}}},
		Limits: []exchange.LimitCounts{{Tenant: tenant, Limit: "per-client", Counts: exchange.Counts{ClientLimit: refused}}},
	}
}

// The same requests summed by tenant, pool and gateway agree, and limits are kept apart.
func TestSums(t *testing.T) {
	a := New("eu")
	a.Add(0, "gw-1", report("acme", 20, 1180))
	a.Add(time.Second, "gw-2", report("acme", 5, 10))
	a.Add(time.Second, "gw-2", report("other", 7, 0))
	for by, want := range map[quotav1.Selection_By]string{
		quotav1.Selection_TENANT:  "acme////:25/1192 other////:7/1 ",
		quotav1.Selection_POOL:    "/api///:32/1193 ",
		quotav1.Selection_GATEWAY: "////gw-1:20/1181 ////gw-2:12/12 ",
		quotav1.Selection_LIMIT: "acme//per-client//:0/1190 acme/api/tenant-share//:25/2 " +
			"other/api/tenant-share//:7/1 ",
	} {
		got := ""
		for _, m := range ask(a, 2*time.Second, &quotav1.Selection{By: by}).Rows {
			got += fmt.Sprintf("%s/%s/%s/%s/%s:%d/%d ", m.Tenant, m.Pool, m.Limit, m.Client, m.Gateway, m.Admitted, m.Refused)
		}
		if got != want {
			t.Errorf("by %v\n got %s\nwant %s", by, got, want)
		}
	}
	bySite := ask(a, 2*time.Second, &quotav1.Selection{By: quotav1.Selection_SITE, Site: "eu"}).Rows
	if len(bySite) != 1 || bySite[0].Site != "eu" || bySite[0].Gateway != "" || bySite[0].Admitted != 32 {
		t.Errorf("by site: %v", bySite)
	}
	if rows := ask(a, 2*time.Second, &quotav1.Selection{Site: "us"}).Rows; len(rows) > 0 {
		t.Errorf("of another site: %v", rows)
	}
	r := ask(a, 2*time.Second, &quotav1.Selection{Most: 1})
	if len(r.Rows) != 1 || r.Other.GetAdmitted() != 7 || r.Id != 7 {
		t.Errorf("one row: %v", r)
	}
	one := a.Snapshot(2*time.Second,
		&controlv1.Question{Single: true, Selection: &quotav1.Selection{Tenant: "acme"}}).Answer()
	if len(one.Rows) != 4 {
		t.Errorf("single rows of acme: %v, want two of flows and two of limits", one.Rows)
	}
}

// What happened more than a minute ago counts no more; since when requests are limited is
// known until nothing was limited for a minute.
func TestWindow(t *testing.T) {
	a := New("")
	row := func(now time.Duration) *quotav1.Activity {
		r := ask(a, now, &quotav1.Selection{Tenant: "acme"})
		if len(r.Rows) == 0 {
			return nil
		}
		return r.Rows[0]
	}
	for s := range 90 {
		a.Add(time.Duration(s)*time.Second, "gw", report("acme", 1, 1))
	}
	m := row(90 * time.Second)
	if m.GetAdmitted() != 60 || m.Window.AsDuration() != time.Minute || m.Since.AsDuration() != 90*time.Second {
		t.Errorf("after 90 s: %v", m)
	}
	if m := row(170 * time.Second); m != nil {
		t.Errorf("80 s later: %v, want nothing", m)
	}
	a.Add(170*time.Second, "gw", report("acme", 1, 1))
	if m := row(171 * time.Second); m.GetAdmitted() != 1 || m.Since.AsDuration() != time.Second {
		t.Errorf("it begins anew: %v", m)
	}
	a.Sweep(20 * time.Minute)
	if a.Rows() != 0 {
		t.Errorf("%d rows after 20 minutes", a.Rows())
	}
}

// Parts of the clients replace the parts before, and vanish with their gateway.
func TestClients(t *testing.T) {
	a := New("")
	part := func(now time.Duration, gateway string, part uint8, n float64) {
		a.Add(now, gateway, &exchange.Report{Part: part, Parts: 3, Clients: []exchange.ClientCount{
			{Tenant: "acme", Client: fmt.Sprint("app-", part), Limit: "per-client", Effect: exchange.Refused, Count: n}}})
	}
	part(0, "gw-1", 0, 5)
	part(0, "gw-1", 2, 3)
	part(0, "gw-2", 2, 4)
	part(time.Second, "gw-1", 0, 6)
	s := &quotav1.Selection{By: quotav1.Selection_CLIENT, Tenant: "acme"}
	r := ask(a, time.Second, s)
	if len(r.Rows) != 2 || r.Rows[0].Client != "app-2" || r.Rows[0].Refused != 7 || r.Rows[1].Refused != 6 {
		t.Errorf("clients %v", r.Rows)
	}
	if r := ask(a, time.Second, &quotav1.Selection{By: quotav1.Selection_CLIENT, Client: "app-0"}); len(r.Rows) != 1 {
		t.Errorf("app-0: %v", r.Rows)
	}
	a.Add(time.Second, "gw-3", &exchange.Report{Part: 9, Parts: 3}) // impossible
	a.Add(time.Second, "gw-3", &exchange.Report{Part: 1, Parts: 3, Clients: []exchange.ClientCount{
		{Tenant: "\xff", Client: "\x80x", Pool: "\xfe", Effect: exchange.Refused, Count: 1}}})
	strange := ask(a, time.Second, &quotav1.Selection{By: quotav1.Selection_CLIENT, Gateway: "gw-3"})
	if _, err := proto.Marshal(strange); err != nil || strange.Rows[0].Client != "\ufffdx" {
		t.Errorf("names of any bytes: %v, %v", strange, err)
	}
	a.Sweep(time.Minute)
	if r := ask(a, time.Minute, s); len(r.Rows) != 0 {
		t.Errorf("a minute later: %v", r.Rows)
	}
}

// Names beyond the bound are counted together.
func TestBound(t *testing.T) {
	a := New("")
	for i := range MaxRows + 10 {
		a.Add(0, "gw", &exchange.Report{Limits: []exchange.LimitCounts{
			{Tenant: fmt.Sprint(i), Limit: "l", Counts: exchange.Counts{ClientLimit: 1}}}})
	}
	r := ask(a, time.Second, &quotav1.Selection{By: quotav1.Selection_LIMIT, Most: 1000})
	if a.Rows() != MaxRows || a.Lost() != 10 || len(r.Rows) != 1000 || r.Other.Refused != MaxRows-1000+10 {
		t.Errorf("%d rows, %d lost, %d told, %v", a.Rows(), a.Lost(), len(r.Rows), r.Other)
	}
}

// Series never fall: a row counts in its own series from when it was limited first.
func TestSeries(t *testing.T) {
	a := New("")
	for i := range MaxSeries + 20 {
		tenant := fmt.Sprint("t-", i)
		a.Add(0, "gw", &exchange.Report{Flows: []exchange.FlowReport{
			{Tenant: tenant, Pool: "api", Counts: exchange.Counts{Admitted: 5}}}})
		a.Add(0, "gw", &exchange.Report{Flows: []exchange.FlowReport{
			{Tenant: tenant, Pool: "api", Counts: exchange.Counts{Admitted: 1, TenantShare: 2}}}})
	}
	var sum exchange.Counts
	own := 0
	for _, s := range a.Series() {
		sum.Add(s.Counts)
		if s.Tenant != Other {
			own++
			if (s.Counts != exchange.Counts{Admitted: 1, TenantShare: 2}) {
				t.Fatalf("%+v", s)
			}
		}
	}
	want := exchange.Counts{Admitted: 6 * (MaxSeries + 20), TenantShare: 2 * (MaxSeries + 20)}
	if own != MaxSeries || sum != want {
		t.Errorf("%d series of their own, %+v in all, want %+v", own, sum, want)
	}
	a.Sweep(time.Hour)
	if len(a.Series()) != 2 || a.series != 0 {
		t.Errorf("an hour later: %v", a.Series())
	}
}

// BenchmarkAdd measures an agent's cost of a report of 1,000 tenants, each with a limit.
func BenchmarkAdd(b *testing.B) {
	a, r := New(""), &exchange.Report{}
	for i := range 1000 {
		one := report(fmt.Sprint("tenant-", i), 10, 1)
		r.Flows, r.Limits = append(r.Flows, one.Flows...), append(r.Limits, one.Limits...)
	}
	for i := 0; b.Loop(); i++ {
		a.Add(time.Duration(i)*exchange.ReportEvery, "gw", r)
	}
}

// BenchmarkAnswer is one question to an agent with 20,000 rows: all of it, and the part for which
// the agent does nothing else.
func BenchmarkAnswer(b *testing.B) {
	a := New("")
	for i := range 10_000 {
		a.Add(0, "gw", report(fmt.Sprint("tenant-", i), 10, 1))
	}
	b.Run("whole", func(b *testing.B) {
		for b.Loop() {
			ask(a, time.Second, &quotav1.Selection{})
		}
	})
	b.Run("locked", func(b *testing.B) {
		for b.Loop() {
			a.Snapshot(time.Second, &controlv1.Question{Selection: &quotav1.Selection{}})
		}
	})
}

// The last minute is known in parts of ten seconds, the newest last, over all gateways.
func TestParts(t *testing.T) {
	a := New("")
	for s := range 36 {
		a.Add(time.Duration(s)*time.Second, "gw-1", report("acme", 1, uint64(s/10)))
	}
	a.Add(34*time.Second, "gw-2", report("acme", 7, 0)) // a row that began late
	m := ask(a, 36*time.Second, &quotav1.Selection{Tenant: "acme"}).Rows[0]
	if fmt.Sprint(m.AdmittedParts, m.RefusedParts) != "[10 10 10 13] [10 20 30 25]" || m.NewestPart.AsDuration() !=
		6*time.Second {
		t.Errorf("%v", m)
	}
	if admitted, refused, window := toplist.Recent(m); admitted != 23 || refused != 55 || window != 16*time.Second {
		t.Errorf("%d %d %v", admitted, refused, window)
	}
	m = ask(a, 75*time.Second, &quotav1.Selection{Tenant: "acme"}).Rows[0]
	if fmt.Sprint(m.AdmittedParts) != "[10 10 13 0 0 0 0]" {
		t.Errorf("40 s later: %v", m)
	}
}

// A gateway that invents names leaves other gateways their parts of the rows.
func TestTheGatewayWithTheMostRowsGivesRoom(t *testing.T) {
	a := New("")
	add := func(gateway string, n int) {
		for i := range n {
			a.Add(0, gateway, &exchange.Report{Limits: []exchange.LimitCounts{
				{Tenant: fmt.Sprint(i), Limit: "l", Counts: exchange.Counts{ClientLimit: 1}}}})
		}
	}
	add("bad", MaxRows+10)
	add("good", 100)
	r := ask(a, time.Second, &quotav1.Selection{By: quotav1.Selection_LIMIT, Gateway: "good", Most: 1000})
	if a.Rows() != MaxRows || len(r.Rows) != 100 {
		t.Errorf("%d rows, %d of the other gateway, want %d and 100", a.Rows(), len(r.Rows), MaxRows)
	}
}
