package agent

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/titrate/titrate/control/config"
	"github.com/titrate/titrate/services/agent/gateways"
)

// Status is what /status tells: the agent as it is now. Ages and delays are in
// the unit of their name; an age of something that never was is −1.
type Status struct {
	Name          string  `json:"name"`
	Version       string  `json:"version"`
	UptimeSeconds float64 `json:"uptimeSeconds"`
	Partitioned   bool    `json:"partitioned"` // by fault injection

	ConfigRevision int64 `json:"configRevision"`
	Resources      int   `json:"resources"`
	// LimitsLeftOut of the configuration are not valid and not given to gateways;
	// the first of them are LeftOut.
	LimitsLeftOut int              `json:"limitsLeftOut,omitempty"`
	LeftOut       []config.LeftOut `json:"leftOut,omitempty"`

	Epoch            int64   `json:"epoch"`
	Leases           int     `json:"leases"`
	SharesAgeSeconds float64 `json:"sharesAgeSeconds"`
	SharesStale      bool    `json:"sharesStale"`
	SnapshotsSaved   int64   `json:"snapshotsSaved"`

	Isolation     string  `json:"isolation"` // CONNECTED, FROZEN or SPLIT
	LagMs         float64 `json:"lagMs"`
	GossipDelayMs float64 `json:"gossipDelayMs"`
	ContendedKeys int     `json:"contendedKeys"`
	// DoubleReplicas are replica names that several living Envoys have, which are no
	// parent and child of a hot restart.
	DoubleReplicas      []string `json:"doubleReplicas,omitempty"`
	DoubleReplicasTotal uint64   `json:"doubleReplicasTotal"`
	// SpentKeys are remembered for gateways that start anew; SpentKeysLost found no
	// room.
	SpentKeys     int     `json:"spentKeys"`
	SpentKeysLost uint64  `json:"spentKeysLost"`
	TotalWeight   float64 `json:"totalWeight"`

	// MissingPeers are agents that failed or fell silent without a word, and
	// UnheardMembers gateways of the membership whose claims are not heard. Both are
	// empty while the mesh is whole.
	MissingPeers   []string `json:"missingPeers"`
	UnheardMembers []string `json:"unheardMembers"`

	Stream   StreamStatus    `json:"stream"`
	Gateways []GatewayStatus `json:"gateways"`
	Peers    []PeerStatus    `json:"peers"`
	Replicas []ReplicaStatus `json:"replicas"`
}

// StreamStatus is the control stream.
type StreamStatus struct {
	Connected bool   `json:"connected"`
	Address   string `json:"address"`
	Error     string `json:"error,omitempty"`
}

// GatewayStatus is a filter that is linked.
type GatewayStatus struct {
	Name             string  `json:"name"`
	Generation       uint64  `json:"generation"`
	Weight           float64 `json:"weight"`
	PID              int     `json:"pid"`
	Envoy            string  `json:"envoy"`
	ConnectedSeconds float64 `json:"connectedSeconds"`
	ConfigRevision   int64   `json:"configRevision"` // in force there
	RefusedRevision  int64   `json:"refusedRevision,omitempty"`
	RefusedReason    string  `json:"refusedReason,omitempty"`
	// LimitsLeftOut of the configuration in force are not enforced there; the
	// first of them are LeftOut.
	LimitsLeftOut int              `json:"limitsLeftOut,omitempty"`
	LeftOut       []config.LeftOut `json:"leftOut,omitempty"`
}

// PeerStatus is another agent.
type PeerStatus struct {
	Name    string  `json:"name"`
	Address string  `json:"address"`
	Alive   bool    `json:"alive"`
	AgeMs   float64 `json:"ageMs"`
	DelayMs float64 `json:"delayMs"`
}

// ReplicaStatus is a filter process anywhere.
type ReplicaStatus struct {
	Name       string  `json:"name"`
	Agent      string  `json:"agent"`
	Generation uint64  `json:"generation"`
	Weight     float64 `json:"weight"`
	AgeMs      float64 `json:"ageMs"`
	Heard      bool    `json:"heard"`
	Member     bool    `json:"member"`
	Drained    bool    `json:"drained,omitempty"`
}

// Status describes the agent now.
func (a *Agent) Status() Status {
	now := a.now()
	o, t, stream := a.orders.Status(now), a.tally.Status(now), a.stream.Status()
	s := Status{Name: a.c.Name, Version: a.c.Version, UptimeSeconds: now.Seconds(), Partitioned: a.cut.Load(),
		ConfigRevision: o.Revision, Resources: o.Resources,
		LimitsLeftOut: len(o.LeftOut), LeftOut: o.LeftOut[:min(len(o.LeftOut), mostLeftOut)],
		Epoch: o.Epoch, Leases: o.Leases,
		SharesAgeSeconds: -1, SharesStale: o.Stale, SnapshotsSaved: a.saved.Load(),
		Isolation: strings.ToUpper(t.Isolation.String()), LagMs: ms(t.Lag), GossipDelayMs: ms(a.mesh.Delay()),
		ContendedKeys: t.Keys, TotalWeight: t.TotalWeight, MissingPeers: a.mesh.Missing(), UnheardMembers: t.Unheard,
		Stream:   StreamStatus{stream.Connected, stream.Address, stream.Error},
		Gateways: a.gatewayStatus(), Peers: []PeerStatus{}, Replicas: []ReplicaStatus{}}
	s.DoubleReplicas, s.DoubleReplicasTotal = a.desk.doubles()
	s.SpentKeys, s.SpentKeysLost = a.spent.Status()
	if o.Age >= 0 {
		s.SharesAgeSeconds = o.Age.Seconds()
	}
	for _, p := range a.mesh.Peers() {
		age := -1.0
		if p.Age >= 0 {
			age = ms(p.Age)
		}
		s.Peers = append(s.Peers, PeerStatus{p.Name, p.Address, p.Alive, age, ms(p.Delay)})
	}
	for _, r := range t.Replicas {
		s.Replicas = append(s.Replicas, ReplicaStatus{r.Name, cmp.Or(r.Agent, a.c.Name), r.Generation, r.Weight, ms(r.Age), r.Heard, r.Member, r.Drained})
	}
	return s
}

func (a *Agent) gatewayStatus() []GatewayStatus {
	all := []GatewayStatus{}
	a.server.Each(func(g *gateways.Gateway) {
		in, out := g.InForce(), g.LeftOut()
		all = append(all, GatewayStatus{Name: g.Replica(), Generation: g.Generation(), Weight: g.Weight(), PID: g.PID(),
			Envoy: g.Envoy(), ConnectedSeconds: time.Since(g.Since()).Seconds(), ConfigRevision: in.Revision,
			RefusedRevision: in.Refused, RefusedReason: in.Reason,
			LimitsLeftOut: out.Total, LeftOut: out.Limits})
	})
	slices.SortFunc(all, func(a, b GatewayStatus) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Generation, b.Generation))
	})
	return all
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
