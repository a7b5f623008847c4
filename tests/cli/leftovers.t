#!/bin/sh
# Temporary files and cut backups that killed processes left: the next attempt removes them.
. "${top_srcdir-.}/tests/cli/lib.sh"
cd "$T" || exit 99
if ! has_model; then
    echo "1..0 # SKIP no $model"
    exit 0
fi
mkdir spool
make_data .
make_data spool
dead=$(sh -c 'echo $$')
# DIR: print what is not complete, or was never renamed to its final name.
left() { find "$1" \( -name '*.tmp*' -o -name '*.new' \) -print; }

# By hand.
job 3 >a.yaml
mkdir -p a.run/.checkpoint-1.tmp
: >a.run/.checkpoint-1.tmp/model.safetensors
for name in .state.json .report.html .job.yaml; do echo half >a.run/$name.tmp-$dead; done
echo half >.a.yaml.tmp-$dead
echo half >a.run/state.json.new
echo half >a.run/cancel.new
touch -d '2 minutes ago' a.run/cancel.new
echo other >.b.yaml.tmp-$dead
echo mine >a.run/.report.html.tmp-$$
echo mine >a.run/notes.tmp-$dead
expect_status "a job runs next to leftovers" 0 "$trainspool" run -q a.yaml
left . | LC_ALL=C sort >left
expect "they are removed, but no other file" cmp -s left - <<END
./.b.yaml.tmp-$dead
./a.run/.report.html.tmp-$$
./a.run/notes.tmp-$dead
END
rm -r a.run .b.yaml.tmp-*

# A backup that was cut, and one that is whole.
patchable() { job 3 "fp16: true" "model_dtype: float16"; }
patchable >c.yaml
mkdir -p c.run/backups
: >c.run/backups/20260101T000000Z.01234567.yaml
echo whole >whole
mv whole "c.run/backups/20260101T000001Z.$(sha256sum whole | cut -c1-8).yaml"
"$trainspool" patch c.yaml >"$T/out" 2>"$T/err"
expect "a cut backup is removed" test ! -e c.run/backups/20260101T000000Z.01234567.yaml
expect "whole ones stay" test "$(find c.run/backups -type f | wc -l)" -eq 2

# Next to the jobs of a spool.
echo half >spool/.old.yaml.tmp-$dead
touch -d '1 hour ago' spool/.old.yaml.tmp-$dead
echo half >spool/.new.yaml.tmp-$dead
echo half >spool/.old.txt.tmp-$dead
touch -d '1 hour ago' spool/.old.txt.tmp-$dead
"$trainspool" watch --once spool >"$T/out" 2>&1
expect "a watch removes that of a job" test ! -e spool/.old.yaml.tmp-$dead
expect "but not one that is new" test -e spool/.new.yaml.tmp-$dead
expect "nor one of another file" test -e spool/.old.txt.tmp-$dead
rm spool/.*.tmp-*

# A kill at each call that completes or begins a temporary file.
if strace -f -qq -o /dev/null true 2>/dev/null; then
    patchable >k.yaml
    cp k.yaml k
    kills=0 remains=0
    for call in renameat,rename,renameat2 fsync; do
        for at in 1 2 3 4 6 8 11; do
            cp k k.yaml
            strace -f -qq -o /dev/null -e inject=$call:signal=KILL:when=$at \
                "$trainspool" run -q k.yaml >"$T/out" 2>&1 && continue
            kills=$((kills + 1))
            [ -z "$(left .)" ] || remains=$((remains + 1))
        done
    done
    echo "# $kills attempts were killed, $remains left files"
    expect "kills leave files" test $remains -gt 0
    cp k k.yaml
    expect_status "the last attempt runs" 0 "$trainspool" run -q k.yaml
    expect "nothing is left" test -z "$(left .)"
    whole() {
        for backup in k.run/backups/*; do
            digest=${backup%.yaml}
            [ "${digest##*.}" = "$(sha256sum <"$backup" | cut -c1-8)" ] || return 1
        done
    }
    expect "all backups are whole" whole
else
    skip "kills leave nothing" "no strace"
fi
plan
