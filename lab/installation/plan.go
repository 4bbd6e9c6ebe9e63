package installation

import "fmt"

// PortPlan is the ports of an installation on loopback. With a base port they follow each other in the order of these
// fields, those of each gateway last.
type PortPlan struct {
	gateways       []int // where requests go
	coordinator    int   // gRPC: admin API and control
	coordinatorWeb int   // metrics and health
	rest           int   // the admin API over HTTP
	console        int   // pages for a browser
	upstream       int
	etcd, etcdPeer int
	envoyAdmin     []int
	gossip         []int // UDP and TCP
	agentWeb       []int
}

// slot is one port to be filled in.
type slot struct {
	name string
	udp  bool
	port *int
}

func (p *PortPlan) slots() []slot {
	var all []slot
	for i := range p.gateways {
		all = append(all, slot{name: fmt.Sprintf("gateway %d", i+1), port: &p.gateways[i]})
	}
	all = append(all,
		slot{name: "coordinator", port: &p.coordinator},
		slot{name: "coordinator's metrics", port: &p.coordinatorWeb},
		slot{name: "coordinator's API over HTTP", port: &p.rest},
		slot{name: "console", port: &p.console},
		slot{name: "upstream", port: &p.upstream},
		slot{name: "etcd", port: &p.etcd},
		slot{name: "etcd's peers", port: &p.etcdPeer})
	for i := range p.gateways {
		all = append(all,
			slot{name: fmt.Sprintf("admin of Envoy %d", i+1), port: &p.envoyAdmin[i]},
			slot{name: fmt.Sprintf("gossip of agent %d", i+1), udp: true, port: &p.gossip[i]},
			slot{name: fmt.Sprintf("metrics of agent %d", i+1), port: &p.agentWeb[i]})
	}
	return all
}

const maxPort = 65535

// PlanPorts returns the ports from base on for so many gateways, or free ports if base is 0. Its error names a port
// that is taken, and titrate-lab's flag --base-port.
func PlanPorts(base, gateways int) (*PortPlan, error) {
	p := &PortPlan{
		gateways:   make([]int, gateways),
		envoyAdmin: make([]int, gateways),
		gossip:     make([]int, gateways),
		agentWeb:   make([]int, gateways),
	}
	slots := p.slots()
	if base != 0 {
		return p, given(slots, base)
	}
	return p, free(slots)
}

func given(slots []slot, base int) error {
	if base < 1 || base+len(slots)-1 > maxPort {
		return fmt.Errorf("--base-port %d: %d ports from there on are needed, so 1 to %d", base, len(slots),
			maxPort-len(slots)+1)
	}
	for i, s := range slots {
		*s.port = base + i
		if err := Try(*s.port, s.udp); err != nil {
			return fmt.Errorf("port %d, for the %s, %w: give another --base-port (%d to %d are needed), "+
				"or none for free ports", *s.port, s.name, err, base, base+len(slots)-1)
		}
	}
	return nil
}

func free(slots []slot) error {
	found, err := Ports(len(slots))
	if err != nil {
		return fmt.Errorf("%w: give --base-port", err)
	}
	for i, s := range slots {
		*s.port = found[i]
	}
	return nil
}
