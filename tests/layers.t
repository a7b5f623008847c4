#!/bin/sh
# shellcheck disable=SC2086
# Check the structure of the source tree: includes point down or sideways, never up, and interfaces
# that only one folder may use are used nowhere else.
cd "${top_srcdir-.}" || exit 99

layers='base precision kernels train patcher runner' # lowest first
below_runner='base precision kernels train patcher'
sources() { # FOLDERS
    find "$@" -name '*.[ch]' -o -name '*.cu' -o -name '*.cuh' | LC_ALL=C sort
}

# Print FILE:LINE:INCLUDED, with its quotes or angle brackets.
includes() { # FOLDERS
    # shellcheck disable=SC2046
    awk '/^[ \t]*#[ \t]*include/ { sub(/^[^<"]*/, ""); sub(/[>"].*/, "&"); print FILENAME ":" FNR ":" $0 }' \
        $(sources "$@") /dev/null
}

# Print FILE:LINE:CODE, without comments and strings.
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

outside() { # PATTERN: drop the lines of files that match it
    grep -vE "^($1)"
}

# Each check prints its violations, or nothing.

# By the symbols of the program, if it is built.
links_trainer() {
    [ ! -x "$top_builddir/trainspool" ] || nm "$top_builddir/trainspool" 2>/dev/null |
        grep -E ' T (trainer_run|backend_open)$'
}

includes_up() {
    includes $layers | awk -F: -v layers="$layers" '
        BEGIN { count = split(layers, name, " "); for (i = 1; i <= count; i++) rank[name[i]] = i }
        {
            from = $1; sub(/\/.*/, "", from)
            to = $3; sub(/^"/, "", to); sub(/\/.*/, "", to)
            if (to in rank && rank[to] > rank[from]) print $0 " points up"
        }'
}

# The rooms of a layer, lowest first; files in the layer's own folder come last and may use all.
# train/plan.h is plain values, which every room reads.
rooms='train text files tables tokenizer jinja media chat dataset model tower checkpoint teacher generation
patcher document findings profiles schema script history rules import
runner options cluster output job generation spool page commands'

# Read lines `USER USED WHAT` and print those in which USED is in a higher room than USER.
room_points_up() {
    awk -v rooms="$rooms" '
        BEGIN {
            count = split(rooms, line, "\n")
            for (i = 1; i <= count; i++) {
                many = split(line[i], name, " ")
                for (j = 2; j <= many; j++) rank[name[1] "/" name[j]] = j
                layer[name[1]] = 1
            }
        }
        function level(path, part) {
            if (split(path, part, "/") < 3) return 1000
            if (!((part[1] "/" part[2]) in rank)) { print path ": the room is not in the list of tests/layers.t"; return 0 }
            return rank[part[1] "/" part[2]]
        }
        {
            from = $1; to = $2
            split(from, a, "/"); split(to, b, "/")
            if (a[1] == b[1] && a[1] in layer && to != "train/plan.h" && level(to) > level(from))
                print from " uses " to " " $3 ", which is in a higher room"
        }'
}

includes_room_above() {
    includes train patcher runner | sed 's/^\([^:]*\):[0-9]*:"\([^"]*\)"/\1 \2/' | room_points_up
}

# By the symbols of the object files, so that no prototype outside a header hides a call.
calls_room_above() {
    for layer in train patcher runner; do
        [ ! -d "$top_builddir/$layer" ] || find "$top_builddir/$layer" -name '*.o'
    done | while read -r object; do
        nm -P -g "$object" | sed "s|^|${object#"$top_builddir/"} |"
    done | awk '
        $3 ~ /[TRDBC]/ { where[$2] = $1 }
        $3 == "U" { uses[$1 " " $2] }
        END { for (use in uses) { split(use, u, " "); if (u[2] in where) print u[1], where[u[2]], u[2] } }' |
        room_points_up
}

# With the version of clang-format that Debian 12 has; other versions format differently.
unformatted() {
    clang-format --version 2>/dev/null | grep -q 'version 14\.' || return 0
    # shellcheck disable=SC2046
    clang-format --dry-run $(sources $layers bench tests; find tests -name '*.cc') 2>&1 |
        grep 'warning: code should be'
}

includes_without_folder() {
    includes $layers tests | grep ':"' | grep -v '"config.h"' |
        while IFS=: read -r file line name; do
            name=${name#\"}
            name=${name%%\"*}
            [ -f "$name" ] || echo "$file:$line: \"$name\" must be included with its folder"
        done
}

config_not_first() {
    for file in $(sources $layers tests | grep '\.c$'); do
        first=$(grep -m1 '^#include' "$file")
        [ "$first" = '#include "config.h"' ] || echo "$file: the first include must be config.h, not $first"
    done
}

# A private header of the same module also counts: rules.c may start with rules_table.h.
own_header_not_second() {
    for file in $(sources $layers | grep '\.c$'); do
        own=${file%.c}
        [ ! -f "$own.h" ] ||
            grep '^#include' "$file" | sed -n 2p | grep -q "\"${own}[._]" ||
            echo "$file: the second include must be $own.h"
    done
}

# A file that is needed with other flags is built again with them.
includes_source() {
    includes $layers tests bench | grep -E '\.(c|cc|cu)[">]$'
}

uses_yaml() {
    includes $layers | grep -E '[<"]yaml\.h' | outside 'patcher/document/document\.c'
}

uses_tree_sitter() {
    includes $layers | grep '[<"]tree_sitter/' | outside 'patcher/script/script_tree\.c'
}

uses_cuda() {
    includes $layers | grep -E '[<"](cuda|cublas|cudnn|nvml|nccl|cub/|mma\.h)' | outside 'kernels/cuda/'
}

uses_onednn() {
    { includes $layers; code $layers; } | grep -E '\bdnnl_|[<"]oneapi|[<"]dnnl' | outside 'kernels/cpu/'
}

uses_sndfile() {
    { includes $layers; code $layers; } | grep -E '\bsf_|[<"]sndfile' | outside 'train/media/audio_sndfile\.c'
}

uses_image_libraries() {
    { includes $layers; code $layers; } | grep -E '\bjpeg_[a-z_]+\(|[<"]jpeglib' | outside 'train/media/image_jpeg\.c'
    { includes $layers; code $layers; } | grep -E '\bpng_[a-z_]+\(|[<"]png\.h' | outside 'train/media/image_png\.c'
    { includes $layers; code $layers; } | grep -E '\bWebP[A-Z]|[<"]webp/' | outside 'train/media/image_webp\.c'
}

uses_inotify() {
    { includes $layers | grep 'sys/inotify'; code $layers | grep '\binotify_'; } |
        outside 'runner/spool/watch\.c'
}

prints_outside_runner() {
    code $below_runner | grep -E '\b(v?printf|puts|putchar|perror|v?dprintf) *\(|\bstd(out|err)\b'
}

duplicate_name() {
    sources $layers tests | sed 's|\(.*\)/\([^/]*\)\.[^.]*$|\2 \1|' | LC_ALL=C sort -u |
        awk '$1 == name { print name " is in both " folder " and " $2 } { name = $1; folder = $2 }'
}

# A header that is not listed is missing from the tarball.
not_listed() {
    for file in $(sources $layers) $(sources tests | grep '\.h$'); do
        folder=${file%%/*}
        grep -qE "%D%${file#"$folder"}( |\$)" "$folder/local.mk" || echo "$file is not in $folder/local.mk"
    done
    for file in $(sources tests/unit tests/fuzz | grep -E '/(test|fuzz)_[^/]*\.c$'); do
        program=${file#tests}
        grep -q "%D%${program%.c}\$" tests/local.mk tests/operations.mk ||
            echo "$file is not in tests/local.mk or tests/operations.mk"
    done
    for file in tests/*.t tests/cli/*.t; do
        grep -q "%D%${file#tests}\$" tests/local.mk || echo "$file is not in tests/local.mk"
    done
}

# Without git, this finds nothing.
stray_folder() {
    git ls-files 2>/dev/null | grep / | cut -d/ -f1 | sort -u |
        grep -vxE "$(echo $layers | tr ' ' '|')|bench|debian|docs|jobs|m4|service|tests|\.ci"
}

absolute_path() {
    { sources $layers tests
      find tests -name '*.t' -o -name '*.py' -o -name '*.sh' -o -name '*.mk'
      ls ./*.sh ./*.am configure.ac m4/*.m4 ./*/local.mk; } | grep -v aclocal |
        xargs grep -nE '(^|[^a-zA-Z0-9_.])/(hom[e]|roo[t]|wor[k]|User[s])/'
}

hides_nan() {
    grep -nE -e '-(ffast|ffinite|funsafe|fassociative|-use_fast)[-_]math' \
        configure.ac Makefile.am m4/*.m4 ./*/local.mk
}

# An unnamed file (O_TMPFILE), or its replacement, holds nothing that another user can reach.
# base/spawn.c opens /dev/null.
writes_by_path() {
    code $layers | grep -E '[^_a-z](open|openat|creat|mkdir|rename|unlink|rmdir|symlink|link|truncate)\(' |
        grep -vE '[^_a-z]open(at)?\(.*O_(RDONLY|PATH|TMPFILE|DIRECTORY)|->open\(|= open\(plan|how\.flags' |
        outside 'base/walk\.c|base/spawn\.c|train/model/model_snapshot\.c'
}

stale_mutation() {
    PYTHONDONTWRITEBYTECODE=1 python3 tests/mutate.py . 2>&1
}

n=0
while read -r check description; do
    n=$((n + 1))
    found=$($check)
    if [ -z "$found" ]; then
        echo "ok $n - $description"
    else
        echo "not ok $n - $description"
        echo "$found" | sed 's/^/# /'
    fi
done <<EOF
includes_up             includes point down or sideways
includes_room_above     includes inside a layer point down or sideways
calls_room_above        calls inside a layer point down or sideways
unformatted             every source file is formatted by clang-format
includes_without_folder includes of the tree's headers name the folder
config_not_first        a source file includes config.h first
own_header_not_second   a source file includes its own header second
includes_source         no file includes a .c, .cc or .cu file
uses_yaml               only patcher/document/document.c uses libyaml
uses_tree_sitter        only patcher/script/script_tree.c uses tree-sitter
uses_cuda               only kernels/cuda uses CUDA
uses_onednn             only kernels/cpu uses oneDNN
writes_by_path          only base/walk.c creates, renames and removes files by their path
uses_sndfile            only train/media/audio_sndfile.c uses libsndfile
uses_image_libraries    one file each of train/media uses libjpeg, libpng and libwebp
uses_inotify            only runner/spool/watch.c uses inotify
prints_outside_runner   only the runner prints
duplicate_name          file names are unique in the tree
not_listed              every source and every test is in its local.mk
links_trainer           trainspool has no trainer and no kernels
stray_folder            the top folder has only the expected folders
absolute_path           no file contains a path of one machine
hides_nan               no compiler flag hides NaN or infinity
stale_mutation          the text that each mutation replaces occurs once in its file
EOF
echo "1..$n"
