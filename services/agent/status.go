package agent

import (
	"cmp"
	"time"

	"github.com/titrate/titrate/control/config"
	"github.com/titrate/titrate/control/exchange"
	"github.com/titrate/titrate/services/agent/aggregation"
	"github.com/titrate/titrate/services/agent/core"
)

// Status is the agent's present state, as /status returns it. Ages and delays are in the unit of their name; −1 is the
// age of something that never was.
type Status struct {
	Name          string  `json:"name"`
	Site          string  `json:"site,omitempty"` // --site
	Version       string  `json:"version"`
	UptimeSeconds float64 `json:"uptimeSeconds"`
	Partitioned   bool    `json:"partitioned"` // by fault injection

	configStatus

	shareStatus

	reachStatus
	ContendedKeys int `json:"contendedKeys"`
	// DoubleReplicas are replica names that several living Envoys have, which are no parent and child of a hot restart.
	DoubleReplicas      []string `json:"doubleReplicas,omitempty"`
	DoubleReplicasTotal uint64   `json:"doubleReplicasTotal"`
	// SpentKeys are remembered for gateways that restart; SpentKeysLost found no room.
	SpentKeys     int     `json:"spentKeys"`
	SpentKeysLost uint64  `json:"spentKeysLost"`
	TotalWeight   float64 `json:"totalWeight"`

	// MissingPeers are agents that failed or became unreachable without leaving, and UnheardMembers gateways of the
	// membership without recent claims. Both are empty while the cluster is whole.
	MissingPeers   []string `json:"missingPeers"`
	UnheardMembers []string `json:"unheardMembers"`

	// Stream is all streams in one: connected if each is. Streams are those to the coordinators that
	// share the pools, or the one to the coordinator that leads.
	Stream   StreamStatus    `json:"stream"`
	Streams  []StreamStatus  `json:"streams"`
	Gateways []GatewayStatus `json:"gateways"`
	Peers    []PeerStatus    `json:"peers"`
	Replicas []ReplicaStatus `json:"replicas"`
	// QuotaService is the service of --rlqs.
	QuotaService *QuotaServiceStatus `json:"quotaService,omitempty"`
}

// configStatus says which configuration is in force.
type configStatus struct {
	ConfigRevision int64 `json:"configRevision"`
	Resources      int   `json:"resources"`
	// LimitsLeftOut of the configuration are not valid and not given to gateways; the first of them are LeftOut.
	LimitsLeftOut int              `json:"limitsLeftOut,omitempty"`
	LeftOut       []config.LeftOut `json:"leftOut,omitempty"`
}

// shareStatus says which shares are in force.
type shareStatus struct {
	Epoch            int64   `json:"epoch"`
	Leases           int     `json:"leases"`
	SharesAgeSeconds float64 `json:"sharesAgeSeconds"`
	SharesStale      bool    `json:"sharesStale"`
	SnapshotsSaved   int64   `json:"snapshotsSaved"`
	SnapshotFailures int64   `json:"snapshotFailures,omitempty"` // since one was written
}

// reachStatus says how far other agents are, and what follows.
type reachStatus struct {
	Isolation     string  `json:"isolation"` // CONNECTED, FROZEN or SPLIT
	LagMs         float64 `json:"lagMs"`
	GossipDelayMs float64 `json:"gossipDelayMs"`
	// WayMs is one way to the farthest other agent, in the median; −1 while it is not known of any.
	WayMs float64 `json:"wayMs"`
	// Exact says whether limits that state no precision are EXACT, ExactWhy why or why not.
	Exact    bool   `json:"exact"`
	ExactWhy string `json:"exactWhy"`
	// GlobalWhy says why ledgers decide for limits of the scope GLOBAL; absent while owners do.
	GlobalWhy string `json:"globalWhy,omitempty"`
	// Unasked are the EXACT limits that have asked about so many keys that new ones went by the ledger in
	// the last minute, the most first.
	Unasked []UnaskedLimit `json:"unasked"`
	// Sites are the other sites.
	Sites []aggregation.SiteStatus `json:"sites,omitempty"`
}

// UnaskedLimit is such a limit, and how many requests of its new keys a gateway left to the ledger.
type UnaskedLimit struct {
	Tenant   string `json:"tenant"`
	Limit    string `json:"limit"`
	Gateway  string `json:"gateway"`
	Requests uint64 `json:"requests"`
}

// StreamStatus is a control stream.
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
	// LimitsLeftOut of the configuration in force are not enforced there; the first of them are LeftOut.
	LimitsLeftOut int              `json:"limitsLeftOut,omitempty"`
	LeftOut       []config.LeftOut `json:"leftOut,omitempty"`
}

// PeerStatus is another agent.
type PeerStatus struct {
	Name    string  `json:"name"`
	Address string  `json:"address"`
	Alive   bool    `json:"alive"`
	AgeMs   float64 `json:"ageMs"`
	DelayMs float64 `json:"delayMs"` // decaying maximum
	WayMs   float64 `json:"wayMs"`   // in the median; −1: not known yet
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

// maxLeftOut bounds the left-out limits that a status lists for the agent.
const maxLeftOut = 64

// Status describes the agent now.
func (a *Agent) Status() Status { return a.status(a.coreStatus()) }

func (a *Agent) coreStatus() core.Status {
	return ask(a, func(now time.Duration, c *core.Core) core.Status { return c.Status(now) })
}

func (a *Agent) status(k core.Status) Status {
	o, t, stream := k.Applied, k.Aggregation, a.stream.Status()
	s := Status{Name: a.c.Name, Site: a.c.Site, Version: a.c.Version, UptimeSeconds: a.now().Seconds(),
		Partitioned: a.cut.Load(),
		configStatus: configStatus{ConfigRevision: o.Revision, Resources: o.Resources,
			LimitsLeftOut: len(o.LeftOut), LeftOut: o.LeftOut[:min(len(o.LeftOut), maxLeftOut)]},
		shareStatus: shareStatus{Epoch: o.Epoch, Leases: o.Leases, SharesAgeSeconds: -1, SharesStale: o.Stale,
			SnapshotsSaved: a.saved.Load(), SnapshotFailures: a.saveFailures.Load()},
		reachStatus: reachStatus{Isolation: isolation(t.Isolation), LagMs: ms(t.Lag), GossipDelayMs: ms(k.GossipDelay),
			WayMs: -1, Exact: k.Exact, ExactWhy: k.ExactWhy, GlobalWhy: k.GlobalWhy, Unasked: []UnaskedLimit{}},
		ContendedKeys: t.Keys, DoubleReplicas: k.DoubleNames, DoubleReplicasTotal: k.Doubles,
		SpentKeys: k.SpentKeys, SpentKeysLost: k.SpentKeysLost, TotalWeight: t.TotalWeight,
		MissingPeers: k.MissingPeers, UnheardMembers: t.Unheard,
		Stream:   StreamStatus{stream.Connected, stream.Address, stream.Error},
		Gateways: gatewayStatus(k.Gateways), Peers: []PeerStatus{}, Replicas: []ReplicaStatus{},
		QuotaService: a.quotaService()}
	for _, u := range k.Unasked {
		s.Unasked = append(s.Unasked, UnaskedLimit(u))
	}
	s.Sites = t.Sites
	for _, one := range a.stream.All() {
		s.Streams = append(s.Streams, StreamStatus{one.Connected, one.Address, one.Error})
	}
	if o.Age >= 0 {
		s.SharesAgeSeconds = o.Age.Seconds()
	}
	if k.Way.To != "" {
		s.WayMs = ms(k.Way.Longest)
	}
	for _, p := range k.Peers {
		age, way := -1.0, -1.0
		if p.Age >= 0 {
			age = ms(p.Age)
		}
		if p.Way >= 0 {
			way = ms(p.Way)
		}
		s.Peers = append(s.Peers, PeerStatus{p.Name, p.Address, p.Alive, age, ms(p.Delay), way})
	}
	for _, r := range t.Replicas {
		s.Replicas = append(s.Replicas, ReplicaStatus{r.Name, cmp.Or(r.Agent, a.c.Name), r.Generation, r.Weight,
			ms(r.Age), r.Heard, r.Member, r.Drained})
	}
	return s
}

func gatewayStatus(gateways []core.GatewayStatus) []GatewayStatus {
	all := []GatewayStatus{}
	for _, g := range gateways {
		all = append(all, GatewayStatus{Name: g.Gateway, Generation: g.Generation, Weight: g.Hello.Weight, PID: g.PID,
			Envoy: g.Hello.Envoy, ConnectedSeconds: g.Age.Seconds(), ConfigRevision: g.InForce.Revision,
			RefusedRevision: g.InForce.Refused, RefusedReason: g.InForce.Reason,
			LimitsLeftOut: g.LeftOut.Total, LeftOut: g.LeftOut.Limits})
	}
	return all
}

func isolation(i exchange.Isolation) string {
	switch i {
	case exchange.Frozen:
		return "FROZEN"
	case exchange.Split:
		return "SPLIT"
	}
	return "CONNECTED"
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
