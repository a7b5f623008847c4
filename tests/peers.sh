#!/bin/sh
# Create a Python environment in FOLDER with the libraries of peers.txt, from pip's package index.
# Does nothing if the environment is up to date.  If the libraries are not available, removes FOLDER
# and exits with status 1.
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
