#!/usr/bin/env bash
# compose.sh: brings docker-compose.yml up (with the pinned Compose, where the engine has none), waits
# until the coordinator reports shares for the load, and takes it down again; then the same with version 1.
set -euo pipefail
cd "$(dirname "$0")/../.."
top=$PWD
compose=(docker compose)
if ! docker compose version >/dev/null 2>&1; then
  version=$(sed -n 's#.*github.com/docker/compose/v2 \(v[0-9.]*\).*#\1#p' tools/compose/go.mod)
  bin=${XDG_CACHE_HOME:-$HOME/.cache}/titrate/compose-$version/docker-compose
  if [ ! -x "$bin" ]; then
    echo "building docker compose $version (once; some minutes)"
    mkdir -p "$(dirname "$bin")"
    (cd tools/compose && GOWORK=off go build -o "$bin.part" github.com/docker/compose/v2/cmd)
    mv "$bin.part" "$bin"
  fi
  compose=("$bin")
fi
make --no-print-directory images
down() { timeout 120 "${compose[@]}" --file "$top/docker-compose.yml" down --volumes --timeout 5 >/dev/null 2>&1; }
# brought: up, until the coordinator reports shares for the load, and down.
brought() {
  trap down EXIT
  timeout 300 "${compose[@]}" up --detach >/dev/null 2>&1 || timeout 300 "${compose[@]}" up --detach
  local said
  for _ in $(seq 60); do
    if said=$(bin/titrate why globex api 2>&1) && grep -q 'gateway-3' <<<"$said"; then
      echo "$said"
      echo "${compose[*]}: up, configured, sharing"
      down
      trap - EXIT
      return
    fi
    sleep 1
  done
  echo "${compose[*]}: after 60 s no share is reported: $said" >&2
  "${compose[@]}" ps >&2
  exit 1
}
brought
# The first version of Compose, which Debian 12 still has.
if tools/sh/need.sh docker-compose && [[ $(docker-compose version --short) == 1.* ]]; then
  compose=(docker-compose)
  brought
else
  echo "compose: version 1 is not to be had here, and was not tried"
fi
