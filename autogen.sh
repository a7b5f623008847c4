#!/bin/sh
# Generate ./configure from configure.ac.  Requires autoconf, automake and pkg-config.
set -e
cd "$(dirname "$0")"
exec autoreconf --install --force
