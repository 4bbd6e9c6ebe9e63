#!/bin/sh
# Forgets the units. What the units have written goes with a purge only (dpkg); the user stays, as files may be its.
set -e
if [ "$1" = purge ]; then rm -rf /var/lib/titrate /var/log/titrate; fi
if [ -d /run/systemd/system ]; then systemctl daemon-reload; fi
