// Package storetest gives tests a real etcd. It is the server itself, a child process of the test, in a directory of
// its own, on a free loopback port. There is no mock of etcd, and a test can kill it.
//
// One server per test binary is started at the first use and ended by Main; tests keep apart by a prefix each:
//
//	func TestMain(m *testing.M) { os.Exit(storetest.Main(m)) }
//	func TestX(t *testing.T)    { s := storetest.Open(t); … }
//
// A test that kills etcd starts a separate server with Start. A child ends when its standard input closes, so that it
// cannot outlive the test.
package storetest

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/titrate/titrate/services/store"
)

const (
	ready = "etcd ready at "
	// startTimeout is generous: a loaded machine must not fail a test.
	startTimeout = 30 * time.Second
)

// Etcd is a running server.
type Etcd struct {
	// Endpoint is its client address, host:port.
	Endpoint string
	// Dir is its data directory.
	Dir     string
	process *exec.Cmd
	stdin   io.Closer
	once    sync.Once
}

var mainCalled bool

// Main runs a package's tests and ends the shared server. It returns the exit status.
func Main(m *testing.M) int {
	mainCalled = true
	status := m.Run()
	if shared.etcd != nil {
		shared.etcd.Kill()
	}
	if shared.dir != "" {
		_ = os.RemoveAll(shared.dir)
	}
	return status
}

// startedIn is the folder of the package that is tested.
var startedIn, _ = os.Getwd()

// labFolder finds lab/ beside the module of the package that is tested. The files of this package have no path in
// programs that are built with -trimpath.
func labFolder() (string, error) {
	for dir := startedIn; dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		lab := filepath.Join(dir, "lab")
		if _, err := os.Stat(filepath.Join(lab, "go.mod")); err == nil {
			return lab, nil
		}
	}
	return "", fmt.Errorf("no folder above %s has lab/go.mod: run tests in the repository", startedIn)
}

// program builds the server, lab/cmd/testetcd, and returns its path. The server is a program of its own, so that no
// package of services needs etcd's server. It is in the user's cache; without a change the build takes a moment.
var program = sync.OnceValues(func() (string, error) {
	lab, err := labFolder()
	if err != nil {
		return "", err
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		cache = os.TempDir()
	}
	path := filepath.Join(cache, "titrate", "testetcd")
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return "", err
	}
	lock, err := os.Create(path + ".lock") // tests of several packages build it at once
	if err != nil {
		return "", err
	}
	defer lock.Close()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return "", err
	}
	build := exec.Command("go", "build", "-C", lab, "-buildvcs=false", "-o", path, "./cmd/testetcd")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building testetcd: %w\n%s", err, out)
	}
	return path, nil
})

// Start runs a server on the data directory, at host:port for clients. "" is a free port of a loopback address that
// nothing else uses: 127.0.0.1's may be another connection's when a killed server is to come back. The caller kills it.
func Start(dir, listen string) (*Etcd, error) {
	if !mainCalled {
		return nil, errors.New("storetest: TestMain must call storetest.Main, which ends the shared server")
	}
	path, err := program()
	if err != nil {
		return nil, err
	}
	if listen == "" {
		listen = fmt.Sprintf("127.%d.%d.%d:0", 1+rand.N(254), rand.N(256), 1+rand.N(254))
	}
	process := exec.Command(path, dir, listen)
	process.Stderr = os.Stderr
	stdin, err := process.StdinPipe()
	if err != nil {
		return nil, err
	}
	stdout, err := process.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := process.Start(); err != nil {
		return nil, err
	}
	e := &Etcd{Dir: dir, process: process, stdin: stdin}
	giveUp := time.AfterFunc(startTimeout, func() { _ = process.Process.Kill() })
	defer giveUp.Stop()
	line, err := bufio.NewReader(stdout).ReadString('\n')
	endpoint, ok := strings.CutPrefix(strings.TrimSpace(line), ready)
	if err != nil || !ok {
		e.Kill()
		return nil, fmt.Errorf("etcd did not start within %s: it said %q", startTimeout, line)
	}
	e.Endpoint = endpoint
	return e, nil
}

// Kill ends the server with SIGKILL; its data stays for another Start. Doing it again does nothing.
func (e *Etcd) Kill() {
	e.once.Do(func() {
		_ = e.process.Process.Kill()
		_ = e.stdin.Close()
		_ = e.process.Wait()
	})
}

// Client connects to the server; the test closes it at its end.
func (e *Etcd) Client(t testing.TB) *clientv3.Client {
	t.Helper()
	c, err := store.Dial(store.Access{Endpoints: []string{e.Endpoint}})
	if err != nil {
		t.Fatalf("etcd client: %v", err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

var shared struct {
	once sync.Once
	etcd *Etcd
	dir  string
	err  error
}

// Shared returns the server of this test binary.
func Shared(t testing.TB) *Etcd {
	t.Helper()
	shared.once.Do(func() {
		if shared.dir, shared.err = os.MkdirTemp("", "titrate-etcd-"); shared.err == nil {
			shared.etcd, shared.err = Start(shared.dir, "")
		}
	})
	if shared.err != nil {
		t.Fatalf("etcd: %v", shared.err)
	}
	return shared.etcd
}

// Prefix returns a key prefix for this test alone.
func Prefix(t testing.TB) string {
	return fmt.Sprintf("/test/%s/%d/", strings.ReplaceAll(t.Name(), "/", "-"), time.Now().UnixNano())
}

// Open returns a store on the shared server, under a prefix of this test alone.
func Open(t testing.TB) *store.Store {
	t.Helper()
	return store.Open(Shared(t).Client(t), Prefix(t))
}
