#!/usr/bin/env bash
# node.sh COMMAND...: runs a command where a Kubernetes node may run: in namespaces of its own for network,
# mounts and processes, with the address 10.200.0.1 for the node and 10.200.0.2 for its DNS. No packet
# leaves them. When the command ends, all that it has started ends, and NODE_DIR, a directory that it has
# for itself, is removed. For `go test -exec`. Needs root.
set -euo pipefail
NODE_DIR=$(mktemp -d /tmp/node-XXXXXX) # short: sockets lie in it
export NODE_DIR
cleanup() {
  find /sys/fs/cgroup/ -depth -type d -path '*/kubepods*' -exec rmdir {} + 2>/dev/null || true
  rm -rf "$NODE_DIR"
}
trap cleanup EXIT
unshare --net --mount --pid --fork --kill-child --mount-proc --propagation private bash -euc '
  ip link set lo up
  ip link add node type bridge
  ip addr add 10.200.0.1/24 dev node
  ip addr add 10.200.0.2/24 dev node
  ip link set node up
  ip route add default via 10.200.0.254
  echo 1 >/proc/sys/net/ipv4/ip_forward
  echo 1 2>/dev/null >/proc/sys/net/bridge/bridge-nf-call-iptables || true # not every kernel has it
  exec "$@"' node "$@"
