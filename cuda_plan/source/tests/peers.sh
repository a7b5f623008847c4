#!/bin/sh
# Make FOLDER a Python that has the libraries of peers.txt, from the package index that pip knows.
# Does nothing where it is one already; status 1, and no folder, where it cannot be had.
#
#   tests/peers.sh FOLDER         then PYTHON=FOLDER/bin/python make check
set -eu
list=$(dirname "$0")/peers.txt
folder=$1

cmp -s "$list" "$folder/peers.txt" && exit 0
rm -rf "$folder"
python3 -m venv "$folder" &&
    "$folder/bin/pip" install -q --no-compile --disable-pip-version-check --retries 2 --timeout 20 -r "$list" &&
    cp "$list" "$folder/peers.txt" || { rm -rf "$folder"; exit 1; }
