package agent

import (
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/titrate/titrate/proto/link"
	"github.com/titrate/titrate/services/telemetry"
)

func security(cert, key string) telemetry.Security { return telemetry.Security{Cert: cert, Key: key} }

func TestReports(t *testing.T) {
	r := newReports()
	add := func(now time.Duration, p process, interval time.Duration, demand float64) {
		r.add(now, p, &link.Report{Interval: interval, Flows: []link.FlowReport{{Tenant: "t", Pool: "p", Demand: demand, Waiting: demand}}})
	}
	parent, child := process{"gw", 1}, process{"gw", 2}
	add(0, parent, 0, 99) // covers no time
	if got := r.take(0); len(got) != 0 {
		t.Fatalf("%v", got)
	}
	add(0, parent, 250*time.Millisecond, 10)
	add(0, parent, 250*time.Millisecond, 20)
	if got := r.take(0); len(got) != 1 || got[0].Demand != 60 || got[0].Waiting != 20 {
		t.Fatalf("two reports in one: %v, want 30 in half a second, and what waits now", got)
	}
	if got := r.take(900 * time.Millisecond); len(got) != 1 || got[0].Demand != 60 {
		t.Fatalf("nothing new yet: %v, want the same rates", got)
	}
	add(950*time.Millisecond, child, time.Second, 5)
	if got := r.take(960 * time.Millisecond); len(got) != 1 || got[0].Demand != 65 || got[0].Gateway != "gw" {
		t.Fatalf("a hot restart: %v, want the sum", got)
	}
	if got := r.take(1200 * time.Millisecond); len(got) != 1 || got[0].Demand != 5 {
		t.Fatalf("the parent is silent: %v", got)
	}
	r.add(1200*time.Millisecond, child, &link.Report{Interval: time.Second})
	if got := r.take(1200 * time.Millisecond); len(got) != 0 {
		t.Fatalf("nothing happened in the last second: %v", got)
	}
}

func TestExited(t *testing.T) {
	if exited(os.Getpid()) {
		t.Error("this process is gone")
	}
	c := exec.Command("true")
	if err := c.Start(); err != nil {
		t.Skip(err)
	}
	for end := time.Now().Add(5 * time.Second); !exited(c.Process.Pid); { // a zombie first
		if time.Now().After(end) {
			t.Fatal("an ended process is not seen as gone")
		}
	}
	if err := c.Wait(); err != nil {
		t.Error(err)
	}
	if !exited(c.Process.Pid) {
		t.Error("a reaped process is not seen as gone")
	}
}
