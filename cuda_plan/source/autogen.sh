#!/bin/sh
# Make ./configure from configure.ac.  Needs autoconf, automake and pkg-config.
set -e
cd "$(dirname "$0")"
exec autoreconf --install --force
