#!/usr/bin/env bash
# console.sh: makes services/console/site of services/console/app. esbuild is a Go module, pinned by tools/console: no
# node is needed, and its output is the same on each machine.
# console.sh check: checks the types with TypeScript. console.sh axe: prints where axe is, which checks what screen
# readers get. npm installs both into the cache, pinned by tools/console; nothing of them is shipped.
set -euo pipefail
cd "$(dirname "$0")/../.."
app=services/console/app

# checks prints the folder with the npm packages.
checks() {
  local at
  at=${XDG_CACHE_HOME:-$HOME/.cache}/titrate/console-$(sha256sum <tools/console/package-lock.json | cut -c1-12)
  if [ ! -e "$at/node_modules" ]; then
    tools/sh/need.sh npm >&2
    rm -rf "$at.part" && mkdir -p "$at.part"
    cp tools/console/package.json tools/console/package-lock.json "$at.part"
    (cd "$at.part" && npm ci --ignore-scripts --no-audit --no-fund --loglevel=error >&2)
    rm -rf "$at" && mv "$at.part" "$at"
  fi
  echo "$at/node_modules"
}

case ${1:-} in
  check)
    at=$(checks)
    exec "$at/.bin/tsc" -p tools/console ;;
  axe)
    at=$(checks)
    echo "$at/axe-core/axe.min.js"
    exit ;;
esac
site=services/console/site
rm -rf $site && mkdir -p $site
esbuild() { (cd tools/console && GOWORK=off go tool esbuild --log-level=warning --minify --charset=utf8 "$@"); }
esbuild --bundle --format=esm --target=es2022 "../../$app/main.ts" --outfile="../../$site/app.js"
esbuild --target=chrome123,firefox120,safari17.5 "../../$app/app.css" --outfile="../../$site/app.css"
cp $app/index.html $app/icon.svg $site
