package installation

import (
	"fmt"
	"net"
	"strings"
	"testing"
)

func TestATakenPortIsNamedWithItsFlag(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	taken := l.Addr().(*net.TCPAddr).Port
	_, err = PlanPorts(taken, 3)
	if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("port %d, for the gateway 1, is taken", taken)) ||
		!strings.Contains(err.Error(), "--base-port") {
		t.Errorf("err = %v", err)
	}
}

func TestFreePortsAreDifferentAndFree(t *testing.T) {
	p, err := PlanPorts(0, 7)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[int]bool{}
	for _, s := range p.slots() {
		if seen[*s.port] || *s.port < Lowest || *s.port >= Highest {
			t.Errorf("%s: port %d", s.name, *s.port)
		}
		seen[*s.port] = true
	}
	if len(seen) != 7+4*7 {
		t.Errorf("%d ports", len(seen))
	}
}
