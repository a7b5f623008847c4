#!/bin/sh
# shellcheck disable=SC2086
# Hold the tree to its layers: an include points down or sideways, never up, and what only one
# place may know is known nowhere else.
cd "${top_srcdir-.}" || exit 99

layers='base precision kernels train patcher runner' # lowest first
below_runner='base precision kernels train patcher'
sources() { # FOLDERS
    find "$@" -name '*.[ch]' -o -name '*.cu' -o -name '*.cuh' | LC_ALL=C sort
}

# FILE:LINE:INCLUDED, with its quotes or angles
includes() { # FOLDERS
    # shellcheck disable=SC2046
    awk '/^[ \t]*#[ \t]*include/ { sub(/^[^<"]*/, ""); sub(/[>"].*/, "&"); print FILENAME ":" FNR ":" $0 }' \
        $(sources "$@") /dev/null
}

# FILE:LINE:CODE, without comments and strings
code() { # FOLDERS
    # shellcheck disable=SC2046
    awk 'FNR == 1 { inside = 0 }
         {
             line = $0
             gsub(/"([^"\\]|\\.)*"/, "\"\"", line)
             if (inside) { if (!sub(/^.*\*\//, "", line)) next; inside = 0 }
             gsub(/\/\*([^*]|\*+[^*\/])*\*+\//, "", line)
             if (sub(/\/\*.*/, "", line)) inside = 1
             sub(/\/\/.*/, "", line)
             print FILENAME ":" FNR ":" line
         }' $(sources "$@") /dev/null
}

outside() { # PATTERN of the places that may
    grep -vE "^($1)"
}

# A check prints what breaks it, and nothing when all is well.

points_up() {
    includes $layers | awk -F: -v layers="$layers" '
        BEGIN { count = split(layers, name, " "); for (i = 1; i <= count; i++) rank[name[i]] = i }
        {
            from = $1; sub(/\/.*/, "", from)
            to = $3; sub(/^"/, "", to); sub(/\/.*/, "", to)
            if (to in rank && rank[to] > rank[from]) print $0 " points up"
        }'
}

without_folder() {
    includes $layers tests | grep ':"' | grep -v '"config.h"' |
        while IFS=: read -r file line name; do
            name=${name#\"}
            name=${name%%\"*}
            [ -f "$name" ] || echo "$file:$line: \"$name\" is not named from the top"
        done
}

config_not_first() {
    for file in $(sources $layers tests | grep '\.c$'); do
        first=$(grep -m1 '^#include' "$file")
        [ "$first" = '#include "config.h"' ] || echo "$file: begins with $first"
    done
}

# Or a private one of the same parts: rules.c may begin with rules_table.h.
own_header_not_second() {
    for file in $(sources $layers | grep '\.c$'); do
        own=${file%.c}
        [ ! -f "$own.h" ] ||
            grep '^#include' "$file" | sed -n 2p | grep -q "\"${own}[._]" ||
            echo "$file: $own.h is not the second"
    done
}

knows_yaml() {
    includes $layers | grep -E '[<"]yaml\.h' | outside 'patcher/document/document\.c'
}

knows_cuda() {
    includes $layers | grep -E '[<"](cuda|cublas|cudnn|nvml|nccl|cub/|mma\.h)' | outside 'kernels/cuda/'
}

knows_onednn() {
    { includes $layers; code $layers; } | grep -E '\bdnnl_|[<"]oneapi|[<"]dnnl' | outside 'kernels/cpu/'
}

knows_inotify() {
    { includes $layers | grep 'sys/inotify'; code $layers | grep '\binotify_'; } |
        outside 'runner/spool/watch\.c'
}

speaks() {
    code $below_runner | grep -E '\b(v?printf|puts|putchar|perror|v?dprintf) *\(|\bstd(out|err)\b'
}

same_name() {
    sources $layers tests | sed 's|\(.*\)/\([^/]*\)\.[^.]*$|\2 \1|' | LC_ALL=C sort -u |
        awk '$1 == name { print name " is in " folder " and in " $2 } { name = $1; folder = $2 }'
}

# A header that is not named is not in the tarball.
not_built() {
    for file in $(sources $layers) $(sources tests | grep '\.h$'); do
        folder=${file%%/*}
        grep -qE "%D%${file#"$folder"}( |\$)" "$folder/local.mk" || echo "$file is not in $folder/local.mk"
    done
    for file in $(sources tests/unit tests/fuzz | grep -E '/(test|fuzz)_[^/]*\.c$'); do
        program=${file#tests}
        grep -q "%D%${program%.c}\$" tests/local.mk || echo "$file is not in tests/local.mk"
    done
    for file in tests/*.t tests/cli/*.t; do
        grep -q "%D%${file#tests}\$" tests/local.mk || echo "$file is not in tests/local.mk"
    done
}

# Where git knows what belongs to the tree.
stray_folder() {
    git ls-files 2>/dev/null | grep / | cut -d/ -f1 | sort -u |
        grep -vxE "$(echo $layers | tr ' ' '|')|bench|docs|jobs|m4|tests|\.ci"
}

machine_path() {
    { sources $layers tests
      find tests -name '*.t' -o -name '*.py' -o -name '*.sh' -o -name '*.mk'
      ls ./*.sh ./*.am configure.ac m4/*.m4 ./*/local.mk; } | grep -v aclocal |
        xargs grep -nE '(^|[^a-zA-Z0-9_.])/(hom[e]|roo[t]|wor[k]|User[s])/'
}

hides_nan() {
    grep -nE -e '-(ffast|ffinite|funsafe|fassociative|-use_fast)[-_]math' \
        configure.ac Makefile.am m4/*.m4 ./*/local.mk
}

stale_mutation() {
    PYTHONDONTWRITEBYTECODE=1 python3 tests/mutate.py . 2>&1
}

n=0
while read -r check promise; do
    n=$((n + 1))
    found=$($check)
    if [ -z "$found" ]; then
        echo "ok $n - $promise"
    else
        echo "not ok $n - $promise"
        echo "$found" | sed 's/^/# /'
    fi
done <<EOF
points_up             includes point down or sideways
without_folder        headers of the tree are named with their folder
config_not_first      config.h comes first
own_header_not_second the own header comes second
knows_yaml            only patcher/document/document.c knows YAML
knows_cuda            only kernels/cuda knows CUDA
knows_onednn          only kernels/cpu knows oneDNN
knows_inotify         only runner/spool/watch.c knows inotify
speaks                only the runner speaks to people
same_name             a name is in one folder only
not_built             every source and every test is in its local.mk
stray_folder          the top has the folders that are meant, and no other
machine_path          no path of one machine
hides_nan             no flag that hides NaN or infinity
stale_mutation        the text that a mutation breaks is in its file, once
EOF
echo "1..$n"
