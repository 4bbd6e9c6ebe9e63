#!/usr/bin/env bash
# prose.sh [FILE...]: Vale (pinned by tools/prose, cached by version) on the files, or on all documents, comments, help
# texts and errors of the repository; first the rules' own tests. What is generated from other files of the repository
# for programs is left out.
set -euo pipefail
top=$(cd "$(dirname "$0")/../.." && pwd)
cache=${XDG_CACHE_HOME:-$HOME/.cache}/titrate
version=$(sed -n 's#.*github.com/vale-cli/vale/v3 \(v[0-9.]*\).*#\1#p' "$top/tools/prose/go.mod")
bin=$cache/vale-$version-$(go env GOVERSION)/vale
if [ ! -x "$bin" ]; then
  "$top/tools/sh/need.sh" gcc g++
  echo "building vale $version (once; two minutes)"
  mkdir -p "$(dirname "$bin")"
  (cd "$top/tools/prose" && GOWORK=off CGO_ENABLED=1 go build -ldflags="-s -w -X main.version=$version" \
    -o "$bin.part" github.com/vale-cli/vale/v3/cmd/vale 2>"$bin.log") || { cat "$bin.log" >&2; exit 1; }
  mv "$bin.part" "$bin"
fi
vale=("$bin" --config "$top/.vale.ini" --no-global --output line)
[ $# -eq 0 ] || exec "${vale[@]}" "$@"

cd "$top"
"${vale[@]}" test tools/prose
git ls-files -z --cached --others --exclude-standard -- '*.md' '*.go' '*.c' '*.h' '*.proto' |
  while IFS= read -r -d '' f; do
    case $f in *.pb.go | *.pb.gw.go | */testdata/*) continue ;; esac
    [ ! -f "$f" ] || [ -L "$f" ] || printf '%s\0' "$f"
  done | xargs -0 "${vale[@]}"
