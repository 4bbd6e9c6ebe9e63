#!/bin/sh
# Makes the units' user. Nothing is enabled, started or restarted: that is left to whoever installs.
set -e
getent group titrate >/dev/null || groupadd --system titrate
getent passwd titrate >/dev/null || useradd --system --gid titrate --home-dir /var/lib/titrate --no-create-home \
  --shell /usr/sbin/nologin --comment Titrate titrate
if [ -d /run/systemd/system ]; then systemctl daemon-reload; fi
