#!/bin/sh
# The files of the Debian package agree with the rest of the tree.  Building it takes minutes: `make deb`.
. "${top_srcdir-.}/tests/cli/lib.sh"
cd "$source" || exit 99

version=$(sed -n 's/^AC_INIT(\[trainspool\], \[\(.*\)\])$/\1/p' configure.ac)
expect "configure.ac has a version" test -n "$version"
expect "the changelog begins with this version" test "$(sed -n '1s/^trainspool (\(.*\)) .*/\1/p' debian/changelog)" = "$version"

# From the permission on, without the indentation and the dots that the format requires.
sed -n '5,$p' COPYING >"$T/license"
sed -n '/^License: Expat$/,$p' debian/copyright | sed -n '/^ Permission/,$s/^ //p' | sed 's/^\.$//' >"$T/copied"
cmp "$T/license" "$T/copied" >"$T/out" 2>&1
ok $? "the license is that of COPYING"

# Libraries that configure needs are build dependencies.
sed -n "/^needed='/,/'\$/p" install-deps.sh | tr " '=" '\n\n\n' | grep -e '-dev$' |
    grep -v -e '^libc6-dev$' -e '^libcmocka-dev$' >"$T/libraries"
expect "install-deps.sh lists libraries" test -s "$T/libraries"
tr ', ' '\n\n' <debian/control >"$T/words"
grep -vxFf "$T/words" "$T/libraries" >"$T/out"
expect "each is a build dependency" test ! -s "$T/out"

sed -n '/^EXTRA_DIST += debian/,/[^\\]$/p' Makefile.am | tr ' \t\\' '\n\n\n' | grep '^debian/' | LC_ALL=C sort >"$T/listed"
if [ -d .git ] || [ -f .git ]; then
    git ls-files debian 2>/dev/null | LC_ALL=C sort >"$T/files"
else
    find debian -type f | LC_ALL=C sort >"$T/files"
fi
diff "$T/files" "$T/listed" >"$T/out"
ok $? "a release has all files of debian/"
expect "the rules and the script are executable" test -x debian/rules -a -x debian/build.sh
plan
