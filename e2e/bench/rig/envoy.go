package rig

import (
	"context"
	_ "embed"
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"text/template"
	"time"

	"github.com/titrate/titrate/services/dev/child"
	"github.com/titrate/titrate/services/dev/local"
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

// Spec is an Envoy to be started.
type Spec struct {
	Name   string // unique within the rig
	Filter Filter
	// Limits are the descriptors of Dynamic.
	Limits []Limit
	// Port takes requests; 0 is any that is free.
	Port int
	// Upstream is the port that requests are sent on to; 0 answers them.
	Upstream int
	// UpstreamHost is the address of Upstream; "" is 127.0.0.1.
	UpstreamHost string
	// Routes is a file with the routes, an RDS response that may be replaced while
	// Envoy runs; "" has one route, as Upstream says.
	Routes string
	// Stamp adds the header x-at to answers: when the request arrived, in
	// microseconds of Unix time.
	Stamp bool
	// Keys is Titrate's key budget; 0 is its default.
	Keys int
	// PoolHeader takes Titrate's pool from the header x-pool; it is api otherwise.
	PoolHeader bool
	// RateLimit is the port of Remote's service.
	RateLimit int
	// Base is what the generations of a hot restart have in common, and nobody else
	// on this machine; 0 is any, and the Envoy cannot be restarted hot.
	Base int
	// Socket is that of Titrate's agent; Installation.Gateway sets it.
	Socket string
	// Born is described at child.Spec.
	Born func(pid int) error
	// Env is added to the process's environment.
	Env []string
	// Wrap is a command line that Envoy's is appended to, such as valgrind's.
	Wrap []string
}

// Envoy is a running one.
type Envoy struct {
	Spec
	*child.Process
	// Admin is the port of Envoy's admin page.
	Admin int
	// Host is the address that Envoy listens on.
	Host string
}

//go:embed envoy.yaml.tmpl
var envoyTemplate string

var bootstrap = template.Must(template.New("envoy.yaml").Parse(envoyTemplate))

// Envoy starts an Envoy with one worker and waits until it serves.
func (r *Rig) Envoy(ctx context.Context, s Spec) (*Envoy, error) {
	found, err := local.Ports(2)
	if err != nil {
		return nil, err
	}
	if s.Port == 0 {
		s.Port = found[0]
	}
	if s.UpstreamHost == "" {
		s.UpstreamHost = "127.0.0.1"
	}
	e := &Envoy{Spec: s, Admin: found[1], Host: r.o.Host}
	file := r.File(strings.ReplaceAll(s.Name, " ", "-") + ".yaml")
	if err := e.write(file); err != nil {
		return nil, err
	}
	command := append(slices.Clone(s.Wrap), r.o.Envoy, "-c", file, "--concurrency", "1",
		"--log-level", "warning", "--drain-time-s", "1", "--parent-shutdown-time-s", "3")
	e.Process, err = r.Start(ctx, child.Spec{
		Name: "envoy " + s.Name, Path: command[0], Args: append(command[1:], e.generation(0)...),
		Env:  append([]string{r.modules}, s.Env...),
		Born: s.Born,
	}, e.ReadyURL())
	return e, err
}

// generation are the arguments that tell which Envoy of a hot restart it is.
func (e *Envoy) generation(n int) []string {
	if e.Base == 0 {
		return []string{"--use-dynamic-base-id"}
	}
	return []string{"--base-id", strconv.Itoa(e.Base), "--restart-epoch", strconv.Itoa(n)}
}

// ReadyURL is a URL that answers 2xx once the Envoy serves.
func (e *Envoy) ReadyURL() string { return "http://" + e.address(e.Admin) + "/ready" }

// Generation starts the n-th Envoy of a hot restart beside its parent, which ends
// by itself; n is 1 and up, and Base is not 0. The parent stays e's Process.
func (r *Rig) Generation(ctx context.Context, e *Envoy, n int) (*child.Process, error) {
	s := e.Process.Spec
	s.Args = append(slices.Clone(s.Args[:len(s.Args)-len(e.generation(n))]), e.generation(n)...)
	return r.Start(ctx, s, e.ReadyURL())
}

func (e *Envoy) address(port int) string { return net.JoinHostPort(e.Host, strconv.Itoa(port)) }

func (e *Envoy) write(file string) error {
	f, err := os.OpenFile(file, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	err = bootstrap.Execute(f, e)
	if closed := f.Close(); err == nil {
		err = closed
	}
	return err
}

// Address is where requests go, URL the same as a URL.
func (e *Envoy) Address() string { return e.address(e.Port) }

// URL is described at Address.
func (e *Envoy) URL() string { return "http://" + e.Address() + "/" }

// stopGrace is how long a process may take to end by itself.
const stopGrace = 15 * time.Second

// Stop ends the Envoy as an operator would.
func (e *Envoy) Stop() error { return child.Stop(stopGrace, e.Process) }

// Metric reads a counter or gauge of an Envoy. What stands before the name (Envoy
// may put a prefix there) does not matter.
func (r *Rig) Metric(ctx context.Context, e *Envoy, name string) (float64, error) {
	page, err := r.Get(ctx, "http://"+e.address(e.Admin)+"/stats?filter="+name+"$")
	if err != nil {
		return 0, err
	}
	_, value, found := strings.Cut(page, name+": ")
	if !found {
		return 0, fmt.Errorf("%s has no metric %s: %q", e.Name, name, page)
	}
	return strconv.ParseFloat(strings.TrimSpace(value), 64)
}
