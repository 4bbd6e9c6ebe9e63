package kubernetes

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/titrate/titrate/lab/installation/child"
)

// Addresses that tools/sh/node.sh gives the node.
const (
	nodeAddress = "10.200.0.1"
	dnsAddress  = "10.200.0.2"
)

// nodeDir returns the directory of a node in its own Linux namespaces. Without one it skips the test.
func nodeDir(t *testing.T) string {
	t.Helper()
	return given(t, "NODE_DIR", "the directory that tools/sh/node.sh makes")
}

// node starts a whole cluster of one node: API server, controllers, scheduler, containerd, kubelet, services
// and DNS. It holds the images that are named, which the container engine has.
func node(t *testing.T, images ...string) *cluster {
	t.Helper()
	dir, bin := nodeDir(t), programs(t)
	c := startAt(t, nodeAddress)
	c.runs = true
	c.containerd(t, dir, images)
	server := func(name string, args ...string) {
		run(t, child.Spec{Name: name, Path: filepath.Join(bin, name), Log: filepath.Join(dir, name+".log"),
			Args: args})
	}
	server("kube-controller-manager", "--kubeconfig="+c.kubeconfig, "--leader-elect=false", "--bind-address=127.0.0.1",
		"--service-account-private-key-file="+c.accounts, "--root-ca-file="+c.certificate, "--cert-dir="+dir,
		"--node-monitor-grace-period=10m") // a machine that is busy with other work is no lost node
	server("kube-scheduler", "--kubeconfig="+c.kubeconfig, "--leader-elect=false", "--bind-address=127.0.0.1",
		"--cert-dir="+dir)
	server("kube-proxy", "--kubeconfig="+c.kubeconfig, "--proxy-mode=iptables", "--hostname-override=node",
		"--conntrack-max-per-core=0", "--conntrack-min=0", "--bind-address="+nodeAddress, "--cluster-cidr=10.201.0.0/16")
	write(t, dir+"/Corefile", fmt.Sprintf(". {\n bind %s\n errors\n kubernetes cluster.local {\n  kubeconfig %s it\n "+
		" ttl 1\n }\n}\n", dnsAddress, c.kubeconfig))
	server("coredns", "-conf="+dir+"/Corefile")
	write(t, dir+"/resolv.conf", "")
	write(t, dir+"/kubelet.yaml", fmt.Sprintf(`apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
authentication: {anonymous: {enabled: true}, webhook: {enabled: false}}
authorization: {mode: AlwaysAllow}
address: %[1]s
cgroupDriver: cgroupfs
failCgroupV1: false
failSwapOn: false
clusterDNS: [%[2]s]
clusterDomain: cluster.local
resolvConf: %[3]s/resolv.conf
containerRuntimeEndpoint: unix://%[3]s/c.sock
volumePluginDir: %[3]s/plugins
podLogsDir: %[3]s/logs
imageGCHighThresholdPercent: 100
evictionHard: {memory.available: 1Mi}
`, nodeAddress, dnsAddress, dir))
	server("kubelet", "--kubeconfig="+c.kubeconfig, "--config="+dir+"/kubelet.yaml", "--root-dir="+dir+"/kubelet",
		"--node-ip="+nodeAddress, "--hostname-override=node", "--cert-dir="+dir+"/pki")
	retry(t, 2*time.Minute, func() error {
		var node struct {
			Status struct {
				Conditions []struct{ Type, Status, Message string }
			}
		}
		said := c.call(t, admin, http.MethodGet, "/api/v1/nodes/node", nil)
		if err := json.Unmarshal([]byte(said.text), &node); err != nil || said.code != http.StatusOK {
			return fmt.Errorf("%d %s", said.code, said.text)
		}
		for _, condition := range node.Status.Conditions {
			if condition.Type == "Ready" && condition.Status == "True" {
				return nil
			}
		}
		return fmt.Errorf("the node is not ready: %v", node.Status.Conditions)
	})
	return c
}

// containerd starts the runtime of the node's containers, with the images.
func (c *cluster) containerd(t *testing.T, dir string, images []string) {
	t.Helper()
	write(t, dir+"/containerd.toml", fmt.Sprintf(`version = 2
root = "%[1]s/containerd"
state = "%[1]s/state"
[grpc]
address = "%[1]s/c.sock"
[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = "titrate/pause:dev"
restrict_oom_score_adj = true
[plugins."io.containerd.grpc.v1.cri".cni]
bin_dir = "/usr/lib/cni"
conf_dir = "%[1]s/cni"
`, dir))
	if err := os.Mkdir(dir+"/cni", 0o700); err != nil {
		t.Fatal(err)
	}
	write(t, dir+"/cni/10-pods.conflist", fmt.Sprintf(`{"cniVersion": "1.0.0", "name": "pods", "plugins": [
{"type": "bridge", "bridge": "pods", "isGateway": true, "ipMasq": true, "hairpinMode": true, "ipam": {
  "type": "host-local", "ranges": [[{"subnet": "10.201.0.0/16"}]], "routes": [{"dst": "0.0.0.0/0"}],
  "dataDir": "%s/ipam"}},
{"type": "portmap", "capabilities": {"portMappings": true}}]}
`, dir))
	containerd := run(t, child.Spec{Name: "containerd", Path: "/usr/bin/containerd", Log: dir + "/containerd.log",
		Args: []string{"--config", dir + "/containerd.toml"}})
	ctr := func(ctx context.Context, args ...string) error {
		cmd := exec.CommandContext(ctx, "ctr", append([]string{"-a", dir + "/c.sock", "-n", "k8s.io"}, args...)...)
		if said, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("ctr %s: %w: %s", strings.Join(args, " "), err, said)
		}
		return nil
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := containerd.Ready(ctx, func(ctx context.Context) error { return ctr(ctx, "version") }); err != nil {
		t.Fatal(err)
	}
	for _, archive := range images {
		if err := ctr(t.Context(), "images", "import", archive); err != nil {
			t.Fatal(err)
		}
	}
}
