#!/bin/sh
# Stops the units when the package goes (dpkg: remove, rpm: 0), not when another version takes its place.
set -e
case "$1" in
remove | 0)
  if [ -d /run/systemd/system ]; then systemctl disable --now titrate-agent titrate-coordinator; fi
  ;;
esac
