#!/bin/sh
# Build a Debian package from a clean copy of the source in a folder, and print its name.
#
#   debian/build.sh SOURCE FOLDER [GRAMMAR]
#
# GRAMMAR is the folder that patcher/script/grammar.sh fills.
# Two builds of one commit give the same bytes: the times in the package are that of the last changelog entry.
set -eu
source=$(cd "$1" && pwd)
mkdir -p "$2"
folder=$(cd "$2" && pwd)
for tool in dh dpkg-buildpackage; do
    command -v $tool >/dev/null || {
        echo "make deb: $tool is missing: apt-get install debhelper dpkg-dev" >&2
        exit 1
    }
done
version=$(dpkg-parsechangelog -l "$source/debian/changelog" -S Version)
copy=$folder/trainspool-$version
rm -rf "$copy"
mkdir -p "$copy"
cp -a "$source/." "$copy/"
[ ! -d "${3-}" ] || cp -a "$3" "$copy/build-grammar"
cd "$copy"
umask 022
dpkg-buildpackage --build=binary --no-sign --jobs="${DEB_JOBS-auto}" >"../build.log" 2>&1 || {
    tail -30 ../build.log >&2
    echo "make deb: dpkg-buildpackage failed; see $folder/build.log" >&2
    exit 1
}
cd ..
rm -rf "trainspool-$version"
echo "$folder/trainspool_${version}_$(dpkg --print-architecture).deb"
