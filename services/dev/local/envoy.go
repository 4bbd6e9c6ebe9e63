package local

import (
	_ "embed"
	"encoding/json"
	"net"
	"strconv"
	"strings"
	"text/template"
)

// Filter is what an Envoy has before its router.
type Filter string

// The filters: none; Envoy's local_ratelimit with one bucket for everybody, or
// with a dynamic descriptor per client; Envoy's ratelimit filter; Titrate.
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

// Envoy is an Envoy with one worker, one listener and one filter. What tells tenants and
// clients are the headers x-tenant and x-client.
type Envoy struct {
	Name   string // unique within the rig; of a gateway, its agent's
	Filter Filter
	// Limits are the descriptors of Dynamic.
	Limits []Limit
	// Host is the address that Envoy listens on; "" is 127.0.0.1.
	Host string
	// Port takes requests, Admin is that of Envoy's admin page.
	Port, Admin int
	// Upstream is the port that requests are sent on to; 0 answers them.
	Upstream int
	// UpstreamHost is the address of Upstream; "" is 127.0.0.1.
	UpstreamHost string
	// Routes is a file with the routes, an RDS response that may be replaced while
	// Envoy runs; "" has one route, as Upstream says.
	Routes string
	// AnyProtocol takes HTTP/2 besides HTTP/1.1.
	AnyProtocol bool
	// Sign adds the header x-gateway, with Name, to what is sent on.
	Sign bool
	// Stamp adds the header x-at to answers: when the request arrived, in
	// microseconds of Unix time.
	Stamp bool
	// Keys is Titrate's key budget, Contended that of contended keys; 0 is its default.
	Keys, Contended int
	// PoolHeader takes Titrate's pool from the header x-pool; it is api otherwise.
	PoolHeader bool
	// Also is added to the configuration of Titrate's filter: YAML, indented as there.
	Also string
	// RateLimit is the port of Remote's service.
	RateLimit int
	// Spans is the port of an OTLP receiver, gRPC, that gets the spans of requests with the header
	// x-client-trace-id, with one span for each call of the upstream; 0: there are no spans.
	Spans int
	// Base is what the generations of a hot restart have in common, and nobody else
	// on this machine; 0 is any, and the Envoy cannot be restarted hot.
	Base int
	// Socket is that of Titrate's agent; "" is that of the agent of this name.
	Socket string
	// Born is described at child.Spec.
	Born func(pid int) error
	// Env is added to the process's environment.
	Env []string
	// Wrap is a command line that Envoy's is appended to, such as valgrind's.
	Wrap []string
}

//go:embed envoy.yaml.tmpl
var envoyTemplate string

// A JSON string is a YAML string, whatever is in it.
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

// Generation are the arguments that say which Envoy of a hot restart it is.
func (e *Envoy) Generation(n int) []string {
	if e.Base == 0 {
		return []string{"--disable-hot-restart"}
	}
	return []string{"--base-id", strconv.Itoa(e.Base), "--restart-epoch", strconv.Itoa(n)}
}

func (e *Envoy) address(port int) string {
	host := e.Host
	if host == "" {
		host = "127.0.0.1"
	}
	return net.JoinHostPort(host, strconv.Itoa(port))
}

// Address is where requests go, URL the same as a URL.
func (e *Envoy) Address() string { return e.address(e.Port) }

// URL is described at Address.
func (e *Envoy) URL() string { return "http://" + e.Address() + "/" }

// AdminURL is that of Envoy's admin page.
func (e *Envoy) AdminURL() string { return "http://" + e.address(e.Admin) }
