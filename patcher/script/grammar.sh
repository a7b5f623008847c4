#!/bin/sh
# Put the parser of Python scripts, tree-sitter with its grammar of Python, into FOLDER, from pip's
# package index.  Each file must have the SHA-256 below.  Does nothing if FOLDER is up to date.  If
# the files are not available, removes FOLDER and exits with status 1.
#
#   patcher/script/grammar.sh FOLDER       then configure --with-tree-sitter-python=FOLDER
set -eu
folder=$1
list='tree-sitter==0.23.2 --hash=sha256:66bae8dd47f1fed7bdef816115146d3a41c39b5c482d7bad36d9ba1def088450
tree-sitter-python==0.23.6 --hash=sha256:354bfa0a2f9217431764a631516f85173e9711af2c13dbd796a8815acfe505d9'

[ "$list" != "$(cat "$folder/packages.txt" 2>/dev/null)" ] || exit 0
rm -rf "$folder"
work=$(mktemp -d "${TMPDIR:-/tmp}/grammar.XXXXXX")
trap 'rm -rf "$work"' EXIT

fetch() {
    echo "$list" >"$work/packages.txt"
    python3 -m venv "$work/venv" &&
        "$work/venv/bin/pip" download -q --disable-pip-version-check --retries 2 --timeout 20 \
            --no-deps --no-binary :all: --require-hashes -r "$work/packages.txt" -d "$work"
}

# Both packages are source archives; a grammar expects the headers of the library in tree_sitter/.
unpack() {
    for archive in "$work"/*.tar.gz; do
        tar -xzf "$archive" -C "$work" || return 1
    done
    mkdir -p "$work/out/headers/tree_sitter" &&
        mv "$work"/tree-sitter-*/tree_sitter/core/lib "$work/out/library" &&
        mv "$work"/tree-sitter-*/LICENSE "$work/out/library/" &&
        mv "$work"/tree_sitter_python-*/src "$work/out/grammar" &&
        mv "$work"/tree_sitter_python-*/LICENSE "$work/out/grammar/" &&
        for header in alloc array parser ts_assert; do
            cp "$work/out/library/src/$header.h" "$work/out/headers/tree_sitter/" || return 1
        done &&
        cp "$work/packages.txt" "$work/out/" && mv "$work/out" "$folder"
}

fetch && unpack || { rm -rf "$folder"; exit 1; }
