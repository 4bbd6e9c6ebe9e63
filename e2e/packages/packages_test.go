package packages

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/titrate/titrate/e2e/guide"
)

const (
	page     = "../../docs/how-to/virtual-machine.md"
	byPage   = "apt-get install -y ./titrate_*_amd64.deb" // how the page installs
	image    = "titrate/machine:bookworm"
	patience = 2 * time.Minute // for a step
	// exposure is the most that systemd-analyze security may say of a unit, in tenths: 0 to 100.
	exposure = 17
)

var units = []string{"titrate-coordinator", "titrate-agent"}

// format has the commands for one kind of package.
type format struct {
	install, again, remove string
	purges                 bool
}

var formats = map[string]format{
	"deb": {install: byPage, again: "dpkg --install ./titrate_*_amd64.deb",
		remove: "apt-get remove -y titrate && apt-get purge -y titrate", purges: true},
	"rpm": {install: "rpm --force-debian --nodeps --install ./titrate-*.x86_64.rpm",
		again:  "rpm --force-debian --nodeps --upgrade --replacepkgs ./titrate-*.x86_64.rpm",
		remove: "rpm --force-debian --erase titrate"},
}

// Each package does what the page about it says, its units run with few rights, and it leaves nothing that runs.
func TestPackages(t *testing.T) {
	dir := os.Getenv("TITRATE_PACKAGES")
	if dir == "" {
		t.Skip("TITRATE_PACKAGES is not set: `make e2e-packages` makes the packages, and runs this")
	}
	if runtime.GOARCH != "amd64" {
		t.Skip("the page names the packages for amd64")
	}
	for name, f := range formats {
		t.Run(name, func(t *testing.T) {
			m := start(t, dir)
			t.Cleanup(func() { m.says(t) })
			guide.FollowBy(t, func(script string) string {
				return m.run(t, strings.Replace(script, byPage, f.install, 1))
			}, page)
			for _, unit := range units {
				m.isHardened(t, unit)
			}
			m.completes(t)
			m.opensToOthers(t)
			m.keepsSettings(t, f.again)
			m.isGone(t, f)
		})
	}
}

// machine is a container that runs systemd.
type machine struct{ name string }

// start starts a machine with the packages, an Envoy, and in its network etcd and an upstream.
func start(t *testing.T, dir string) machine {
	t.Helper()
	envoy, err := filepath.Abs(os.Getenv("ENVOY_BIN"))
	if _, missing := os.Stat(envoy); err != nil || missing != nil || os.Getenv("ENVOY_BIN") == "" {
		t.Fatalf("ENVOY_BIN is %q: want an Envoy's binary, such as `make envoy` fetches", os.Getenv("ENVOY_BIN"))
	}
	m := machine{name: fmt.Sprintf("titrate-packages-%d-%s", os.Getpid(), filepath.Base(t.Name()))}
	container := func(role string, args ...string) {
		name := m.name + role
		t.Cleanup(func() { _ = exec.Command("docker", "rm", "--force", "--volumes", name).Run() })
		docker(t, "", append([]string{"run", "--detach", "--name", name}, args...)...)
	}
	// systemd as the first process needs nearly all rights. Some hosts cannot give SYS_RESOURCE, and systemd runs without.
	container("", "--cap-add", "ALL", "--cap-drop", "SYS_RESOURCE", "--security-opt", "seccomp=unconfined",
		"--security-opt", "apparmor=unconfined", "--security-opt", "systempaths=unconfined", "--cgroupns", "host",
		"--volume", "/sys/fs/cgroup:/sys/fs/cgroup", "--tmpfs", "/run", "--tmpfs", "/tmp",
		"--volume", dir+":/packages:ro", "--volume", envoy+":/usr/local/bin/envoy:ro", image)
	here := "container:" + m.name
	container("-etcd", "--network", here, "quay.io/coreos/etcd:v3.7.3")
	container("-upstream", "--network", here, "titrate/lab:dev", "upstream", "--listen=127.0.0.1:8080")
	m.run(t, "until systemctl is-system-running | grep -qE 'running|degraded'; do sleep 0.2; done")
	return m
}

// run runs a script as root and returns its output.
func (m machine) run(t *testing.T, script string) string {
	t.Helper()
	return docker(t, script, "exec", "--interactive", m.name, "bash", "-euc", "mkdir -p /tmp/work && "+
		"cd /tmp/work && ln -sf /packages/*.deb /packages/*.rpm . && source /dev/stdin")
}

// says logs what the units have said, if the test has failed.
func (m machine) says(t *testing.T) {
	if t.Failed() {
		said, err := exec.Command("docker", "exec", m.name, "journalctl", "--no-pager", "--lines", "60", "--unit",
			"titrate-*", "--unit", "envoy").CombinedOutput()
		t.Logf("%s%v", said, err)
	}
}

// isHardened checks what the kernel and systemd say of a unit that runs.
func (m machine) isHardened(t *testing.T, unit string) {
	t.Helper()
	said := m.run(t, fmt.Sprintf(`
pid=$(systemctl show --property MainPID --value %[1]s)
stat --format 'runs as %%U' /proc/$pid
grep -E '^(NoNewPrivs|CapBnd|Seccomp):' /proc/$pid/status | tr '\t' ' '
systemd-analyze verify %[1]s.service 2>&1
systemd-analyze security --threshold=%[2]d --no-pager %[1]s >exposure.txt || tail -1 exposure.txt
journalctl --unit %[1]s --grep 'not permitted|ermission denied|ead-only file system' || true`, unit, exposure))
	const want = "runs as titrate\nCapBnd: 0000000000000000\nNoNewPrivs: 1\nSeccomp: 2\n-- No entries --\n"
	if said != want {
		t.Errorf("%s:\n%s\nwant\n%s", unit, said, want)
	}
}

// completes checks the manual page and the completion.
func (m machine) completes(t *testing.T) {
	t.Helper()
	said := m.run(t, `
man --where titrate-agent
bash -c 'source /usr/share/bash-completion/completions/titrate && complete -p titrate'`)
	const want = "/usr/share/man/man1/titrate-agent.1.gz\ncomplete -o default -F __start_titrate titrate\n"
	if said != want {
		t.Errorf("%s\nwant\n%s", said, want)
	}
}

// opensToOthers gives the agent flags on several lines and gossip on all addresses. Envoy finds it again.
func (m machine) opensToOthers(t *testing.T) {
	t.Helper()
	m.run(t, `
cat >/etc/titrate/agent.env <<'ENV'
FLAGS="--coordinator=127.0.0.1:7400 --socket-group=envoy
  --gossip=0.0.0.0:7500 --insecure"
ENV
systemctl restart titrate-agent
until titrate check | grep -q '1 gateway'; do sleep 0.2; done
systemctl show --property NRestarts --value titrate-agent | grep -qx 0`)
}

// keepsSettings installs the package once more, as an upgrade does: what was changed stays, and nothing restarts.
func (m machine) keepsSettings(t *testing.T, again string) {
	t.Helper()
	const state = `
systemctl show --property MainPID --value titrate-agent titrate-coordinator
systemctl is-enabled titrate-agent
sha256sum /etc/titrate/agent.env
`
	said := m.run(t, state+again+" >again.log 2>&1\necho then"+state)
	if before, after, _ := strings.Cut(said, "then\n"); before != after {
		t.Errorf("before the second installation\n%s\nafter it\n%s", before, after)
	}
}

// isGone removes the package and looks for what is left: what the page has written, and what a package may leave.
func (m machine) isGone(t *testing.T, f format) {
	t.Helper()
	said := m.run(t, "{ "+f.remove+`; } >remove.log 2>&1
systemctl list-units --all --no-legend 'titrate-*'
grep -lx titrate /proc/[0-9]*/comm || true
find / -xdev -path /tmp -prune -o -path /packages -prune -o -path /proc -prune -o -path /var/cache/man -prune -o \
  -name '*titrate*' -print | sort
ls /etc/titrate 2>/dev/null || true
id --name --user titrate`)
	want := []string{"/etc/systemd/system/titrate-agent.service.d"}
	if !f.purges {
		want = append(want, "/etc/titrate", "/var/lib/titrate", "/var/log/titrate", "agent.env.rpmsave")
	}
	if got := strings.Fields(said); strings.Join(got, " ") != strings.Join(append(want, "titrate"), " ") {
		t.Errorf("left after %s:\n%s\nwant %v", f.remove, said, want)
	}
}

// docker runs a command of the container engine with an input, and returns its output.
func docker(t *testing.T, stdin string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, "docker", args...)
	cmd.Stdin = strings.NewReader(stdin)
	said, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("docker %s: %v\n%s", strings.Join(args, " "), err, said)
	}
	return string(said)
}
