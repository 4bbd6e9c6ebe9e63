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
$sudo apt-get update -qq >/dev/null
# RUNLEVEL: what a package would start as a service, such as redis-server, stays off.
$sudo env DEBIAN_FRONTEND=noninteractive RUNLEVEL=1 apt-get install -y -qq --no-install-recommends ${missing[@]} >/dev/null
