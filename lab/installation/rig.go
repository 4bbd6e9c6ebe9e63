package installation

import (
	"cmp"
	"context"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/titrate/titrate/lab/installation/child"
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
	Dir    string        // short: the agents' sockets lie in it
	Env    []string      // added to the environment of each process
	Host   string        // the address of Envoys that state none; "" is 127.0.0.1
	Grace  time.Duration // time that a process has to end after SIGTERM; 0 is 15 s
	Client *http.Client  // asks for pages
	// Died, if set, is called with the obituary of a process that ended without being asked to.
	Died  func(error)
	group *child.Group
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
		Client: &http.Client{Timeout: 2 * time.Second}}, nil
}

// grace returns the time that a process has to end after SIGTERM.
func (r *Rig) grace() time.Duration { return cmp.Or(r.Grace, 15*time.Second) }

// Close kills every process.
func (r *Rig) Close() {
	r.group.Close()
	r.Client.CloseIdleConnections()
}

// File is a path in the rig's directory.
func (r *Rig) File(name string) string { return filepath.Join(r.Dir, name) }

// Socket returns the path of an agent's socket.
func (r *Rig) Socket(agent string) string { return r.File(agent + ".sock") }

// log returns the path of a process's log.
func (r *Rig) log(name string) string { return r.File(strings.ReplaceAll(name, " ", "-") + ".log") }

// Launch starts a process. Its log is in the rig's directory, under its name.
func (r *Rig) Launch(s child.Spec) (*child.Process, error) {
	s.Log = r.log(s.Name)
	s.Env = append(s.Env[:len(s.Env):len(s.Env)], r.Env...)
	return r.group.Start(s)
}

// Get fetches a URL and wants a 2xx.
func (r *Rig) Get(ctx context.Context, url string) (body string, err error) {
	return Get(ctx, r.Client, url)
}

// Ask sends a request without a body and wants a 2xx.
func (r *Rig) Ask(ctx context.Context, method, url string) (body string, err error) {
	return Ask(ctx, r.Client, method, url)
}

// Server is a server that runs a program. probe is described at Server.Probe.
func (r *Rig) Server(s child.Spec, probe string) *Server {
	return &Server{Spec: s, Probe: probe, rig: r}
}

// Titrate is a server that runs one of titrate's commands, the first of the arguments.
func (r *Rig) Titrate(name, probe string, args ...string) *Server {
	return r.Server(child.Spec{Name: name, Path: r.Programs.Titrate, Args: args}, probe)
}

// Lab is a server that runs one of titrate-lab's commands, the first of the arguments.
func (r *Rig) Lab(name, probe string, args ...string) *Server {
	return r.Server(child.Spec{Name: name, Path: Beside(r.Programs.Titrate, "titrate-lab"), Args: args}, probe)
}

// Etcd is an etcd of one member, at an address for clients and one for peers.
func (r *Rig) Etcd(name, clients, peers string) *Server {
	return r.Lab(name, "http://"+clients+"/health", "etcd", "--data-dir", r.File(name), "--listen", clients,
		"--listen-peer", peers)
}

// Coordinator is a coordinator with its API at an address and its admin page at another.
func (r *Rig) Coordinator(name, api, web, etcd string, more ...string) *Server {
	return r.Titrate(name, "http://"+web+"/readyz", append([]string{"coordinator", "--name", name, "--listen", api,
		"--admin", web, "--etcd-endpoints", etcd}, more...)...)
}

// Agent is the agent of a gateway; peers are the gossip addresses that it joins, its own
// first.
func (r *Rig) Agent(gateway, coordinator, web string, peers []string, more ...string) *Server {
	return r.Titrate("agent "+gateway, "http://"+web+"/readyz", append([]string{"agent", "--name", gateway,
		"--coordinator", coordinator, "--socket", r.Socket(gateway), "--gossip", peers[0],
		"--join", strings.Join(peers, ","), "--admin", web,
		"--snapshot-dir", r.File("snapshot-" + gateway)}, more...)...)
}

// Upstream is the HTTP server of `titrate-lab upstream`.
func (r *Rig) Upstream(address string, more ...string) *Server {
	return r.Lab("upstream", "http://"+address+"/healthz",
		append([]string{"upstream", "--listen", address}, more...)...)
}
