package installation

import (
	_ "embed"
	"encoding/json"
	"net"
	"strconv"
	"strings"
	"text/template"
)

// Filter is the filter of an Envoy, before its router.
type Filter string

// The filters: none; Envoy's local_ratelimit with one bucket for all clients, or with a dynamic descriptor per
// client; Envoy's ratelimit filter; Titrate.
const (
	Plain   Filter = "plain"
	Local   Filter = "local"
	Dynamic Filter = "dynamic"
	Remote  Filter = "remote"
	Titrate Filter = "titrate"
)

// Limit is a limit of every client of a tenant, requests per second, with a
// burst of one second's worth, for the native filters. 0 refuses everything.
type Limit struct {
	Tenant string
	Rate   int
}

// Envoy is an Envoy with one worker, one listener and one filter. The headers x-tenant and x-client name the
// tenant and the client.
type Envoy struct {
	Name   string // unique within the rig; of a gateway, its agent's
	Filter Filter
	// Limits are the descriptors of Dynamic.
	Limits []Limit
	// Host is the address that Envoy listens on; "" is the rig's.
	Host string
	// Port takes requests; Admin is the port of Envoy's admin page. 0 is any that is free.
	Port, Admin int
	// Upstream is the port that requests are sent on to; 0 answers them.
	Upstream int
	// UpstreamHost is the address of Upstream; "" is 127.0.0.1.
	UpstreamHost string
	// Routes is a file with the routes, an RDS response that may be replaced while Envoy runs; "" has one
	// route, to Upstream.
	Routes string
	// AnyProtocol takes HTTP/2 besides HTTP/1.1.
	AnyProtocol bool
	// Sign adds the header x-gateway, with Name, to forwarded requests.
	Sign bool
	// Stamp adds the header x-at to answers: when the request arrived, in
	// microseconds of Unix time.
	Stamp bool
	// Keys is Titrate's key budget, Contended its budget of contended keys; 0 is the default.
	Keys, Contended int
	// PoolHeader takes Titrate's pool from the header x-pool; it is api otherwise.
	PoolHeader bool
	// Also is added to the configuration of Titrate's filter: YAML, indented as there.
	Also string
	// RateLimit is the port of Remote's service.
	RateLimit int
	// Spans is the port of an OTLP receiver, gRPC, that gets the spans of requests with the header
	// x-client-trace-id, with one span for each call of the upstream. It is 0 if there are no
	// spans.
	Spans int
	// Base is the base ID that the generations of a hot restart share, unique on this machine; 0 is any, and
	// the Envoy cannot be restarted hot. AdminPort is the number of its admin port.
	Base int
	// Socket is the socket of Titrate's agent; "" is the socket of the agent with this name.
	Socket string
	// Born is described at child.Spec.
	Born func(pid int) error
	// Env is added to the process's environment.
	Env []string
	// Wrap is a command line that Envoy's is appended to, such as valgrind's.
	Wrap []string
}

// AdminPort as Envoy.Base is the number of the admin port, which no other process gets while Envoy has it.
const AdminPort = -1

//go:embed envoy.yaml.tmpl
var envoyTemplate string

// A JSON string is a YAML string, with any contents.
var bootstrap = template.Must(template.New("envoy.yaml").Funcs(template.FuncMap{
	"json": func(s string) (string, error) {
		b, err := json.Marshal(s)
		return string(b), err
	},
}).Parse(envoyTemplate))

// Bootstrap is the Envoy's configuration.
func (e Envoy) Bootstrap() (string, error) {
	if e.Host == "" {
		e.Host = "127.0.0.1"
	}
	if e.UpstreamHost == "" {
		e.UpstreamHost = "127.0.0.1"
	}
	var b strings.Builder
	err := bootstrap.Execute(&b, e)
	return b.String(), err
}

func (e *Envoy) address(port int) string {
	host := e.Host
	if host == "" {
		host = "127.0.0.1"
	}
	return net.JoinHostPort(host, strconv.Itoa(port))
}

// Address returns the address for requests; URL returns it as a URL.
func (e *Envoy) Address() string { return e.address(e.Port) }

// URL is described at Address.
func (e *Envoy) URL() string { return "http://" + e.Address() + "/" }

// AdminURL returns the URL of Envoy's admin page.
func (e *Envoy) AdminURL() string { return "http://" + e.address(e.Admin) }
