#!/usr/bin/env bash
# need.sh COMMAND...: sees that the commands exist; installs Debian packages for those that do not,
# saying so. go itself is not installed: its version matters.
set -euo pipefail
declare -A package=([gcc]=gcc [docker]=docker.io [dockerd]=docker.io [mmdebstrap]=mmdebstrap [unzip]=unzip
  [wrk]=wrk [hey]=hey [promtool]=prometheus [pip]=python3-pip [iptables]=iptables
  [ip]=iproute2 [kubectl]=kubernetes-client [ctr]=containerd [/usr/lib/cni/bridge]=containernetworking-plugins
  [aarch64-linux-gnu-gcc]='gcc-aarch64-linux-gnu libc6-dev-arm64-cross')
missing=()
for c in "$@"; do
  command -v "$c" >/dev/null 2>&1 && continue
  if [ "$c" = go ]; then
    echo "go is not in PATH: install Go 1.26 or later (https://go.dev/dl)" >&2
    exit 1
  fi
  missing+=("${package[$c]:-$c}")
done
[ ${#missing[@]} -eq 0 ] && exit 0
sudo=
[ "$(id -u)" -eq 0 ] || sudo=sudo
echo "installing Debian packages: ${missing[*]}"
# A machine that has just started may update its packages itself, and a mirror may fail for a moment.
# RUNLEVEL: what a package would start as a service, such as redis-server, stays off.
apt() {
  $sudo env DEBIAN_FRONTEND=noninteractive RUNLEVEL=1 \
    apt-get -qq -o DPkg::Lock::Timeout=300 -o Acquire::Retries=5 "$@" >/dev/null
}
apt update
apt install -y --no-install-recommends ${missing[@]}
