package local

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/titrate/titrate/lab/dev/child"
)

// Programs are the files that a rig runs.
type Programs struct {
	// Titrate, Module and Envoy are the files of `make build` and `make envoy`. titrate-lab is beside Titrate.
	Titrate, Module, Envoy string
}

// Beside returns the path of a program in the directory of another one. A name without a directory stays one.
func Beside(program, other string) string {
	if filepath.Base(program) == program {
		return other
	}
	return filepath.Dir(program) + string(filepath.Separator) + other
}

// Rig is the place where servers run: a directory with their logs and configurations, and
// a group in which none outlives the rig.
type Rig struct {
	Programs
	Dir    string // short: the agents' sockets lie in it
	Env    []string
	group  *child.Group
	client *http.Client
}

// Server is a process that serves, as it is started.
type Server struct {
	child.Spec
	URL string // answers 2xx once it serves
}

// NewRig makes a rig in a directory. enter is run by the thread that starts processes,
// before the first one, such as to enter a network namespace; nil does nothing.
func NewRig(p Programs, dir string, enter func() error) (*Rig, error) {
	if err := os.MkdirAll(filepath.Join(dir, "modules"), 0o700); err != nil {
		return nil, err
	}
	if err := os.Symlink(p.Module, filepath.Join(dir, "modules", "libtitrate.so")); err != nil {
		return nil, err
	}
	return &Rig{Programs: p, Dir: dir, group: child.NewGroupOn(enter),
		client: &http.Client{Timeout: 2 * time.Second}}, nil
}

// Close kills every process.
func (r *Rig) Close() {
	r.group.Close()
	r.client.CloseIdleConnections()
}

// File is a path in the rig's directory.
func (r *Rig) File(name string) string { return filepath.Join(r.Dir, name) }

// Socket returns the path of an agent's socket.
func (r *Rig) Socket(agent string) string { return r.File(agent + ".sock") }

// Launch starts a server. Its log is in the rig's directory, under its name.
func (r *Rig) Launch(s child.Spec) (*child.Process, error) {
	s.Log = r.File(strings.ReplaceAll(s.Name, " ", "-") + ".log")
	s.Env = append(s.Env[:len(s.Env):len(s.Env)], r.Env...)
	return r.group.Start(s)
}

// Serving waits until a URL answers 2xx, or the process that is to answer has ended.
func (r *Rig) Serving(ctx context.Context, p *child.Process, url string) error {
	return p.Ready(ctx, func(ctx context.Context) error {
		_, err := r.Get(ctx, url)
		return err
	})
}

// Get fetches a URL and wants a 2xx.
func (r *Rig) Get(ctx context.Context, url string) (body string, err error) {
	return Get(ctx, r.client, url)
}

// Ask sends a request without a body and wants a 2xx.
func (r *Rig) Ask(ctx context.Context, method, url string) (body string, err error) {
	return Ask(ctx, r.client, method, url)
}

// Titrate is a server that runs one of titrate's commands, the first of the arguments.
func (r *Rig) Titrate(name, url string, args ...string) Server {
	return Server{child.Spec{Name: name, Path: r.Programs.Titrate, Args: args}, url}
}

// Lab is a server that runs one of titrate-lab's commands, the first of the arguments.
func (r *Rig) Lab(name, url string, args ...string) Server {
	return Server{child.Spec{Name: name, Path: Beside(r.Programs.Titrate, "titrate-lab"), Args: args}, url}
}

// Etcd is an etcd of one member, at an address for clients and one for peers.
func (r *Rig) Etcd(name, clients, peers string) Server {
	return r.Lab(name, "http://"+clients+"/health", "etcd", "--data-dir", r.File(name), "--listen", clients,
		"--listen-peer", peers)
}

// Coordinator is a coordinator with its API at an address and its admin page at another.
func (r *Rig) Coordinator(name, api, web, etcd string, more ...string) Server {
	return r.Titrate(name, "http://"+web+"/readyz", append([]string{"coordinator", "--name", name, "--listen", api,
		"--admin", web, "--etcd-endpoints", etcd}, more...)...)
}

// Agent is the agent of a gateway; peers are the gossip addresses that it joins, its own
// first.
func (r *Rig) Agent(gateway, coordinator, web string, peers []string, more ...string) Server {
	return r.Titrate("agent "+gateway, "http://"+web+"/readyz", append([]string{"agent", "--name", gateway,
		"--coordinator", coordinator, "--socket", r.Socket(gateway), "--gossip", peers[0],
		"--join", strings.Join(peers, ","), "--admin", web,
		"--snapshot-dir", r.File("snapshot-" + gateway)}, more...)...)
}

// Upstream is the HTTP server of `titrate-lab upstream`.
func (r *Rig) Upstream(address string, more ...string) Server {
	return r.Lab("upstream", "http://"+address+"/healthz",
		append([]string{"upstream", "--listen", address}, more...)...)
}

// Envoy writes an Envoy's configuration; its name is the name of its gateway.
func (r *Rig) Envoy(e Envoy) (Server, error) {
	if e.Socket == "" {
		e.Socket = r.Socket(e.Name)
	}
	text, err := e.Bootstrap()
	if err != nil {
		return Server{}, err
	}
	file := r.File(strings.ReplaceAll(e.Name, " ", "-") + ".yaml")
	args := append(e.Wrap[:len(e.Wrap):len(e.Wrap)], r.Programs.Envoy, "-c", file, "--concurrency", "1",
		"--log-level", "warning", "--drain-time-s", "1", "--parent-shutdown-time-s", "3")
	return Server{child.Spec{Name: "envoy " + e.Name, Path: args[0], Args: append(args[1:], (&e).Generation(0)...),
		Env: append([]string{"ENVOY_DYNAMIC_MODULES_SEARCH_PATH=" + r.File("modules")}, e.Env...), Born: e.Born},
		e.AdminURL() + "/ready"}, os.WriteFile(file, []byte(text), 0o600)
}
