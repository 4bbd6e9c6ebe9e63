#!/usr/bin/env bash
# release.sh VERSION DIR [KEY]: everything that a release needs, in DIR, without publishing: programs and
# modules for amd64 and arm64, the laboratory in an archive of its own, packages, images, the chart, SBOMs, checksums,
# and, with KEY (a PEM file of an EC private key, which is only read), signatures of the images and of the checksums.
set -euo pipefail
version=$1 dir=$(realpath -m "$2") key=${3:+$(realpath "$3")}
cd "$(dirname "$0")/../.."
tools/sh/need.sh go gcc aarch64-linux-gnu-gcc openssl
[[ $version =~ ^v[0-9]+\.[0-9]+\.[0-9]+(-[0-9A-Za-z.-]+)?$ ]] ||
  { echo "VERSION is $version: want one such as v1.2.3 or v1.2.3-rc.1" >&2; exit 1; }
if [ -n "$key" ] && ! openssl pkey -passin pass: -in "$key" -noout -text 2>/dev/null | grep 'NIST CURVE: P-256' >/dev/null; then
  echo "KEY is $key: want a PEM file of an EC private key of the curve P-256, without a passphrase, such as" \
    "openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 makes" >&2
  exit 1
fi
revision=$(git rev-parse HEAD)
time=$(git log -1 --format=%ct)
[ -z "$(git status --porcelain -uno)" ] || revision+=-dirty
rm -rf "$dir"
mkdir -p "$dir"

compiler() { [ "$1" = "$(go env GOHOSTARCH)" ] && echo gcc || echo "$([ "$1" = arm64 ] && echo aarch64 || echo x86_64)-linux-gnu-gcc"; }

for arch in amd64 arm64; do
  echo "building for $arch"
  export GOOS=linux GOARCH=$arch
  built="-s -w -X github.com/titrate/titrate/services/command.built=$version"
  (cd services && CGO_ENABLED=0 go build -trimpath -tags=grpcnotrace -ldflags="$built" -o "$dir/titrate-linux-$arch" ./cmd/titrate)
  (cd lab && CGO_ENABLED=0 go build -trimpath -tags=grpcnotrace -ldflags="$built" -o "$dir/titrate-lab-linux-$arch" ./cmd/titrate-lab)
  (cd envoy-filter && CGO_ENABLED=0 go build -trimpath -ldflags='-s -w' -o "$dir/install-linux-$arch" ./install)
  (cd envoy-filter && CGO_ENABLED=1 CC=$(compiler $arch) go build -trimpath -ldflags='-s -w' -buildmode=c-shared \
    -o "$dir/libtitrate-linux-$arch.so" . && rm -f "$dir/libtitrate-linux-$arch.h")
done
unset GOOS GOARCH

(cd tools/release && GOWORK=off go build -o "$dir/.release" .)
about=(-version "$version" -time "$time" -revision "$revision")
echo "images and SBOMs"
"$dir/.release" image -o "$dir/titrate-image.tar" -name titrate/titrate "${about[@]}" -entrypoint /titrate \
  "amd64=/titrate=$dir/titrate-linux-amd64" "arm64=/titrate=$dir/titrate-linux-arm64"
"$dir/.release" image -o "$dir/module-image.tar" -name titrate/module "${about[@]}" \
  -entrypoint "/install /libtitrate.so" -command /titrate \
  "amd64=/install=$dir/install-linux-amd64" "amd64=/libtitrate.so=$dir/libtitrate-linux-amd64.so" \
  "arm64=/install=$dir/install-linux-arm64" "arm64=/libtitrate.so=$dir/libtitrate-linux-arm64.so"
for path in "$dir"/{titrate,titrate-lab,libtitrate}-linux-{amd64,arm64}*; do
  file=${path##*/}
  "$dir/.release" sbom -o "$path.spdx.json" -name "${file%%-linux-*}" "${about[@]}" "$path"
done
if [ -n "$key" ]; then
  echo "signatures of the images"
  openssl pkey -in "$key" -pubout >"$dir/titrate.pub"
  for image in titrate module; do
    "$dir/.release" sign -o "$dir/$image-image.signatures.tar" -name titrate/$image "${about[@]}" -key "$key" \
      "$dir/$image-image.tar"
    "$dir/.release" verify -key "$dir/titrate.pub" "$dir/$image-image.tar" "$dir/$image-image.signatures.tar"
  done
fi
rm "$dir/.release" "$dir"/install-linux-*

echo "laboratory"
for arch in amd64 arm64; do
  tar --create --directory "$dir" --transform "s/-linux-$arch\$//" --owner 0 --group 0 --numeric-owner --mtime "@$time" \
    --mode 0755 "titrate-lab-linux-$arch" | gzip -9n >"$dir/titrate-lab-linux-$arch.tar.gz"
  rm "$dir/titrate-lab-linux-$arch"
done

echo "packages"
tools/sh/packages.sh "$version" "$dir"

echo "chart"
(cd tools/helm && GOWORK=off go tool helm package ../../charts/titrate --version "${version#v}" --app-version "$version" \
  --destination "$dir" >/dev/null)

(cd "$dir" && sha256sum -- * >SHA256SUMS)
if [ -n "$key" ]; then
  openssl dgst -sha256 -sign "$key" "$dir/SHA256SUMS" | base64 -w0 >"$dir/SHA256SUMS.sig"
  openssl dgst -sha256 -verify "$dir/titrate.pub" -signature <(base64 -d "$dir/SHA256SUMS.sig") "$dir/SHA256SUMS" >/dev/null
else
  echo "not signed: no KEY was given"
fi
ls -l "$dir"
