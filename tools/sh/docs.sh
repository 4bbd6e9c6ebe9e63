#!/usr/bin/env bash
# docs.sh DIR: the documents as a site with search, in DIR, by mkdocs-material (pinned by tools/docs, in the cache).
# A link or a heading that is not there fails it, and a page that the index leaves out. Nothing is published.
set -euo pipefail
SITE=$(realpath -m "$1")
cd "$(dirname "$0")/../.."
tools/sh/need.sh python3
venv=${XDG_CACHE_HOME:-$HOME/.cache}/titrate/docs-$(sha256sum tools/docs/requirements.txt | cut -c1-12)
if [ ! -d "$venv" ]; then
  python3 -c 'import ensurepip' 2>/dev/null || tools/sh/need.sh python3-venv
  echo "installing mkdocs-material (once)"
  rm -rf "$venv.part"
  python3 -m venv "$venv.part"
  "$venv.part/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps -r tools/docs/requirements.txt
  mv "$venv.part" "$venv"
fi
PAGES=$(mktemp -d)
trap 'rm -rf "$PAGES"' EXIT
git ls-files -z --cached --others --exclude-standard -- ':(glob)*.md' docs 'charts/*.md' | xargs -0 cp --parents -t "$PAGES"
export PAGES SITE NO_MKDOCS_2_WARNING=1
"$venv/bin/python" -m mkdocs build --strict --config-file tools/docs/mkdocs.yml # --quiet would count no warning
echo "$SITE/index.html"
