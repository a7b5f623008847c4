#!/bin/sh
# clean, and watch with its limits: what goes, what stays, and that nothing else is touched.
. "${top_srcdir-.}/tests/cli/lib.sh"
cd "$T" || exit 99
mkdir spool

digest() { sha256sum | cut -d' ' -f1; } # of standard input
# DIR JOB-DIGEST [BEST]: make a checkpoint as trainspool does.
checkpoint() {
    mkdir -p "$1"
    echo "weights of $1" >"$1/model.safetensors"
    echo "moments" >"$1/trainspool_optimizer.safetensors"
    printf '{"best_model_checkpoint":%s}\n' "${3-null}" >"$1/trainer_state.json"
    {
        printf '{"schema":1,"job":"%s","files":{' "$2"
        for file in model.safetensors trainer_state.json trainspool_optimizer.safetensors; do
            [ $file = model.safetensors ] || printf ,
            printf '"%s":{"bytes":%d,"sha256":"%s"}' $file "$(wc -c <"$1/$file")" "$(digest <"$1/$file")"
        done
        printf '}}\n'
    } >"$1/trainspool_manifest.json"
}
# NAME TIME TEXT: make a backup.
backup() {
    mkdir -p -m 700 "spool/$1.run/backups"
    backup_digest=$(printf '%s\n' "$3" | digest)
    printf '%s\n' "$3" >"spool/$1.run/backups/$2.$(echo "$backup_digest" | cut -c1-8).yaml"
}
# NAME STATE: make a job that is in this state, with old files of each kind; set $frozen.
ended() {
    job 10 "# $1" >"spool/$1.yaml"
    mkdir -p "spool/$1.run"
    cp "spool/$1.yaml" "spool/$1.run/job.yaml"
    frozen=$(digest <"spool/$1.run/job.yaml")
    printf '{"schema":1,"state":"%s","reason":"","step":60,"total":60,"frozen":"%s","digest":"%s"}\n' \
        "$2" "$frozen" "$frozen" >"spool/$1.run/state.json"
    backup "$1" 20260101T000000.000001Z "first of $1"
    backup "$1" 20260102T000000.000001Z "second of $1"
    backup "$1" 20260103T000000.000001Z "third of $1"
    for step in 20 40 60; do checkpoint "spool/$1.run/checkpoint-$step" "$frozen"; done
    for second in 1700000001 1700000002; do
        echo events >"spool/$1.run/events.out.tfevents.$second.host.1.trainspool"
    done
    for file in model.safetensors config.json train.log metrics.jsonl train.tokens samples.jsonl; do
        echo "$file" >"spool/$1.run/$file"
    done
    age "spool/$1.run" 40
}
# FOLDER DAYS: let everything in it be that old.
age() { find "$1" -exec touch -h -d "$2 days ago" {} +; }
# Print all files of the spool with their contents, without what cleaning itself writes.
snapshot() {
    find spool -name lock -o -name patch.lock -o -name changes.jsonl -o -name train.log -o -name .trainspool -prune -o -print |
        LC_ALL=C sort | while read -r file; do
        if [ -L "$file" ]; then
            echo "$file -> $(readlink "$file")"
        elif [ -f "$file" ]; then
            echo "$file $(digest <"$file")"
        else
            echo "$file"
        fi
    done
}
# NAME: what goes of a job made by `ended`.
goes() {
    echo "spool/$1.run/backups/20260102T000000.000001Z.$(echo "second of $1" | digest | cut -c1-8).yaml"
    echo "spool/$1.run/checkpoint-20"
    echo "spool/$1.run/checkpoint-40"
    echo "spool/$1.run/events.out.tfevents.1700000001.host.1.trainspool"
}
# The paths that the last command printed.
listed() { sed -n 's/^\(would remove\|removed\) \(.*\) (.*)$/\2/p' out | LC_ALL=C sort; }
exists() { # PATH...: each does
    for exists_path; do [ -e "$exists_path" ] || [ -L "$exists_path" ] || return 1; done
}
gone() {
    for gone_path; do { [ ! -e "$gone_path" ] && [ ! -L "$gone_path" ]; } || return 1; done
}

expect_status "a size that is none is refused" 2 "$trainspool" clean --max-bytes many spool
expect_status "and a folder that does not exist" 2 "$trainspool" clean --keep-days 1 nowhere

# what goes, and --dry-run says the same
for name in done failed stopped; do ended $name $name; done
for name in done failed stopped; do goes $name; done | LC_ALL=C sort >expected
snapshot >before
expect_status "--dry-run succeeds" 0 "$trainspool" clean --dry-run --keep-days 30 spool
listed >dry
cp out dry.out
cmp -s dry expected
ok $? "it lists exactly what is old and not needed"
snapshot | cmp -s - before
ok $? "it removes nothing"
expect "it writes nothing" gone spool/done.run/lock spool/done.run/patch.lock spool/done.run/changes.jsonl
expect_status "nothing is older than 50 days" 0 "$trainspool" clean --dry-run --keep-days 50 spool
expect "so nothing is listed" test -z "$(listed)"
expect_status "clean succeeds" 0 "$trainspool" clean --keep-days 30 spool
sed 's/^would remove /removed /; s/would be removed/removed/' dry.out | LC_ALL=C sort >dry.sorted
LC_ALL=C sort out | cmp -s - dry.sorted
ok $? "it removes what --dry-run lists"
snapshot >after
grep -v -F -f expected before | cmp -s - after
ok $? "everything else is as it was"
expect "the job's log says so" grep -q 'info clean: removed checkpoint-20$' spool/done.run/train.log
expect "and its journal" jq_accepts -e 'select(.action == "clean") | .removed | index("checkpoint-40")' spool/done.run/changes.jsonl
expect_status "a second pass succeeds" 0 "$trainspool" clean --keep-days 30 spool
expect "and finds nothing" test -z "$(listed)"
rm -rf spool
mkdir spool

# limits of jobs
# NAME STATE LINE: as `ended`, with a line of trainspool.
limited() {
    ended "$1" "$2"
    echo "trainspool: {$3}" >>"spool/$1.yaml"
    cp "spool/$1.yaml" "spool/$1.run/job.yaml"
    sed -i "s/$frozen/$(digest <"spool/$1.yaml")/g" "spool/$1.run/state.json"
}
limited none done 'priority: 1'
limited days done 'keep_days: 30'
limited longer failed 'keep_days: 50'
limited active running 'keep_days: 0'
limited size done 'max_bytes: 64KiB'
limited large done 'max_bytes: 65537'
# 66,000 bytes, of which the oldest has to go
truncate -s 66000 "spool/size.run/events.out.tfevents.1700000001.host.1.trainspool"
age spool/size.run 10
age spool/size.run/events.out.tfevents.1700000001.host.1.trainspool 20
limited broken done 'keep_days: 0'
echo 'keep_days: 0' >>spool/broken.run/job.yaml # not the text that was admitted
{
    goes days
    echo "spool/size.run/events.out.tfevents.1700000001.host.1.trainspool"
} | LC_ALL=C sort >expected
snapshot >before
expect_status "without a limit, those of jobs count" 0 "$trainspool" clean --dry-run spool
listed >dry
cmp -s dry expected
ok $? "each job has its own"
sed 's/^/# /' dry
try "$trainspool" clean --keep-days 45 spool
listed | cmp -s - expected
ok $? "those of the command apply as well"
snapshot >after
grep -v -F -f expected before | cmp -s - after
ok $? "everything else is as it was, the model and the last checkpoint too"
try "$trainspool" clean --keep-days 35 spool
{ goes none; goes longer; goes large; goes broken; } | LC_ALL=C sort >expected
listed | cmp -s - expected
ok $? "and can be stricter"
rm -rf spool
mkdir spool

# jobs that have not ended, and what they use
ended running running
ended ready ready
ended source done
sed -i "s|^model_name_or_path: .*|model_name_or_path: source.run/checkpoint-20|" spool/ready.yaml
mkdir shared
ended one done
echo "output_dir: $T/shared" >>spool/one.yaml
cp spool/one.yaml spool/one.run/job.yaml
frozen=$(digest <spool/one.yaml)
sed -i "s/\"frozen\":\"[0-9a-f]*\"/\"frozen\":\"$frozen\"/" spool/one.run/state.json
for step in 20 40 60; do checkpoint shared/checkpoint-$step "$frozen"; done
checkpoint shared/checkpoint-10 "$(echo another | digest)"
age shared 40
flock -F spool/running.run/lock sleep 600 &
pids="$pids $!"
wait_until 10 sh -c '! flock -n spool/running.run/lock true'
try "$trainspool" clean --keep-days 30 spool
goes source | grep -v checkpoint-20 >expected
goes one >>expected
echo "$T/shared/checkpoint-20" >>expected
echo "$T/shared/checkpoint-40" >>expected
LC_ALL=C sort -o expected expected
listed | cmp -s - expected
ok $? "a job that runs or waits keeps all, and the model that it reads"
expect "a folder of output keeps the checkpoints of other jobs" exists shared/checkpoint-10 shared/checkpoint-60
ended two ready
cp spool/one.yaml spool/two.yaml
for step in 20 40; do checkpoint shared/checkpoint-$step "$frozen"; done
age shared 40
try "$trainspool" clean --keep-days 30 spool
expect "and all, if a job that has not ended saves there" exists shared/checkpoint-20 shared/checkpoint-40
rm -rf spool shared
mkdir spool

# the best checkpoint; an earlier text; a last one that is damaged
ended best done
checkpoint spool/best.run/checkpoint-60 "$frozen" '"checkpoint-20"'
ended earlier done
for step in 20 40 60; do checkpoint spool/earlier.run/checkpoint-$step "$(echo another | digest)"; done
checkpoint spool/earlier.run/checkpoint-20.old-1 "$(echo another | digest)"
age spool/best.run 40
age spool/earlier.run 40
age spool/earlier.run/checkpoint-60 39
ended damaged failed
truncate -s 3 spool/damaged.run/checkpoint-60/model.safetensors
age spool/damaged.run 40
try "$trainspool" clean --keep-days 30 spool
expect "the best checkpoint stays, and the last" exists spool/best.run/checkpoint-20 spool/best.run/checkpoint-60
expect "one between them goes" gone spool/best.run/checkpoint-40
expect "without one of the current text, the newest stays" exists spool/earlier.run/checkpoint-60
expect "the others go" gone spool/earlier.run/checkpoint-20 spool/earlier.run/checkpoint-40 spool/earlier.run/checkpoint-20.old-1
expect "the last whole checkpoint stays if a later one is damaged" exists spool/damaged.run/checkpoint-40
expect "so does the damaged one" exists spool/damaged.run/checkpoint-60
rm -rf spool
mkdir spool

# a folder that cannot be read is not an empty one: each of its listings fails once
if strace -f -qq -o /dev/null true 2>/dev/null; then
    ended best done
    checkpoint spool/best.run/checkpoint-60 "$frozen" '"checkpoint-20"'
    age spool/best.run 40
    snapshot >before
    # FOLDER CALL: run clean while this call that lists the folder fails
    fails() {
        # LeakSanitizer does not work under strace
        try env ASAN_OPTIONS="${ASAN_OPTIONS:+$ASAN_OPTIONS:}detect_leaks=0" \
            strace -f -qq -o trace -P "$T/$1" -e inject=getdents64:error=EIO:when="$2" \
            "$trainspool" clean --keep-days 30 spool
        [ "$status" -eq 3 ] && snapshot | cmp -s - before
    }
    for call in 1 3 5; do
        expect "a fault of listing $call removes nothing" fails spool/best.run $call
        expect_error "it is reported" 'spool/best.yaml: removing nothing: cannot read .*Input/output error'
    done
    expect "nor does one of the backups" fails spool/best.run/backups 1
    expect "or of the folder of jobs" fails spool 1
    rm -rf spool
    mkdir spool
else
    skip "a folder that cannot be read" "no strace"
fi

# files of the user, links, and other names
ended user done
echo mine >spool/user.run/checkpoint-20/notes.txt
ended hidden done
echo mine >spool/hidden.run/checkpoint-20/.notes
ended folder done
mkdir spool/folder.run/checkpoint-20/mine
ended changed done
echo 'weights OF spool/changed.run/checkpoint-20' >spool/changed.run/checkpoint-20/model.safetensors
ended linked done
mv spool/linked.run/checkpoint-20 elsewhere
ln -s "$T/elsewhere" spool/linked.run/checkpoint-20
mv spool/linked.run/backups backups
ln -s "$T/backups" spool/linked.run/backups
rm "spool/linked.run/events.out.tfevents.1700000001.host.1.trainspool"
echo precious >precious
ln -s "$T/precious" "spool/linked.run/events.out.tfevents.1700000001.host.1.trainspool"
ended inner done
mv spool/inner.run/checkpoint-20/model.safetensors weights
ln -s "$T/weights" spool/inner.run/checkpoint-20/model.safetensors
ended names done
mkdir spool/names.run/checkpoint-best spool/names.run/checkpoint-5.copy spool/names.run/checkpoint-
echo mine >"spool/names.run/backups/20260102T000000.000002Z.00000000.yaml"
echo mine >spool/names.run/events.out.tfevents.1.mine
ended whole done
mv spool/whole.run away.run
ln -s "$T/away.run" spool/whole.run
for folder in spool/*.run elsewhere backups away.run; do
    find "$folder" -name model.safetensors -path '*changed*' -o -exec touch -h -d '40 days ago' {} +
done
snapshot >before
find elsewhere backups away.run precious weights -type f | LC_ALL=C sort >outside
try "$trainspool" clean --keep-days 30 spool
{
    for name in user hidden folder changed inner; do goes $name | grep -v checkpoint-20; done
    goes linked | grep -e checkpoint-40
    goes names
} | LC_ALL=C sort >expected
listed | diff - expected >difference
ok $? "what a user changed or linked stays"
sed 's/^/# /' difference
snapshot >after
grep -v -F -f expected before | cmp -s - after
ok $? "nothing else is touched"
find elsewhere backups away.run precious weights -type f | LC_ALL=C sort | cmp -s - outside
ok $? "nothing is removed through a link"
rm -rf spool
mkdir spool

# a removal that was cut short
ended cut done
mv spool/cut.run/checkpoint-20 spool/cut.run/.checkpoint-20.removed
rm spool/cut.run/.checkpoint-20.removed/model.safetensors
expect_status "a removal that was cut short is finished" 0 "$trainspool" clean --keep-days 30 spool
expect "nothing is left of it" gone spool/cut.run/.checkpoint-20.removed

# by size: the oldest first
ended size done
for days in 20:50 40:45; do age "spool/size.run/checkpoint-${days%:*}" "${days#*:}"; done
age spool/size.run/backups 10
age spool/size.run/events.out.tfevents.1700000001.host.1.trainspool 10
total=$(du -b --apparent-size -c spool/size.run/checkpoint-20/* spool/size.run/checkpoint-40/* \
    spool/size.run/events.out.tfevents.1700000001.host.1.trainspool "$(goes size | head -1)" | tail -1 | cut -f1)
expect_status "what fits stays" 0 "$trainspool" clean --dry-run --max-bytes "$total" spool/size.yaml
expect "all of it" test -z "$(listed)"
expect_status "a byte less" 0 "$trainspool" clean --max-bytes $((total - 1)) spool/size.yaml
expect "lets the oldest go" test "$(listed)" = spool/size.run/checkpoint-20
expect_status "zero keeps nothing" 0 "$trainspool" clean --max-bytes 0 spool/size.yaml
expect "of what may go" test "$(listed | wc -l)" -eq 3
rm -rf spool
mkdir spool

# The watch cleans when it starts, in a process of its own, and at SIGHUP.
ended old done
expect_status "watch --once cleans" 0 "$trainspool" watch --once --keep-days 30 spool
expect_output "it logs what it removes" 'info clean: removed .*old.run/checkpoint-20 (.*, 40 days old)$'
{ goes old | sed 's|.*/||'; } | LC_ALL=C sort >expected
sed -n 's/.* clean: removed .*\/\(.*\) (.*/\1/p' out | LC_ALL=C sort | cmp -s - expected
ok $? "all of it"
expect "and it is gone" gone spool/old.run/checkpoint-20 spool/old.run/checkpoint-40
ended new done
background "$trainspool" watch --log watch.log --max-bytes 1TB spool
wait_until 10 grep -qs 'watch: spool, pid' watch.log
kill -TERM "$daemon"
wait "$daemon"
expect "a limit that is not reached removes nothing" exists spool/new.run/checkpoint-20
rm -f watch.log
mv spool/new.yaml spool/new.run . # without its folder, the watch would run the job
background "$trainspool" watch --log watch.log --keep-days 30 spool
wait_until 10 grep -qs 'watch: spool, pid' watch.log
mv new.run spool
mv new.yaml spool
kill -HUP "$daemon"
expect "SIGHUP starts another pass" wait_until 20 gone spool/new.run/checkpoint-20 spool/new.run/checkpoint-40
kill -TERM "$daemon"
expect "the watch ends as usual" exited_with "$daemon" 143
expect_status "a limit that cannot be read is refused" 2 "$trainspool" watch --once --max-bytes lots spool
rm -rf spool watch.log
mkdir spool
limited own done 'keep_days: 30'
limited other done 'priority: 1'
background "$trainspool" watch --log watch.log spool
wait_until 10 grep -qs 'watch: spool, pid' watch.log
kill -HUP "$daemon"
expect "a watch without limits keeps to those of jobs" wait_until 20 gone spool/own.run/checkpoint-20 spool/own.run/checkpoint-40
expect "and to no other" exists spool/own.run/checkpoint-60 spool/other.run/checkpoint-20
kill -TERM "$daemon"
expect "it ends as usual" exited_with "$daemon" 143

# A patch, a patch and an undo: the journal of what was removed does not disturb them.
job 10 "fp16: true" "model_dtype: float16" >edited.yaml
try "$trainspool" patch --device "TITAN RTX" edited.yaml
cp edited.yaml patched
printf '{"schema":1,"state":"done","reason":"","step":1,"total":1}\n' >edited.run/state.json
cp "$(ls edited.run/backups/*)" first
echo "# second" >>edited.yaml
backup_name() { echo "edited.run/backups/2099010${1}T000000.000001Z.$(digest <"$2" | cut -c1-8).yaml"; }
cp edited.yaml "$(backup_name 1 edited.yaml)"
echo "# third" >>edited.yaml
cp edited.yaml "$(backup_name 2 edited.yaml)"
cp patched edited.yaml
expect_status "clean removes one of three backups" 0 "$trainspool" clean --keep-days 0 --max-bytes 0 edited.yaml
expect "the middle one" test "$(listed | wc -l)" -eq 1 -a "$(ls edited.run/backups | wc -l)" -eq 2
expect_status "review still shows the patch" 0 "$trainspool" review edited.yaml
expect_output "with its rule" 'TS'
expect_status "undo restores the text from before it" 0 "$trainspool" undo edited.yaml
cmp -s edited.yaml first
ok $? "byte for byte"

# checkpoints of a real run
if has_model; then
    make_data .
    job 30 "save_steps: 10" | grep -v -e save_total_limit -e 'save_steps: 20' >real.yaml
    expect_status "a job trains" 0 "$trainspool" run -q real.yaml
    find real.run -type f | grep -v -e checkpoint-10 -e checkpoint-20 -e patch.lock | LC_ALL=C sort >expected
    expect_status "clean removes its old checkpoints" 0 "$trainspool" clean --max-bytes 0 real.yaml
    printf '%s\n' real.run/checkpoint-10 real.run/checkpoint-20 >both
    listed | cmp -s - both
    ok $? "those of steps 10 and 20"
    find real.run -type f | grep -v -e changes.jsonl -e patch.lock | LC_ALL=C sort | cmp -s - expected
    ok $? "the model, the last checkpoint and everything else stay"
else
    skip "checkpoints of a real run" "no model"
fi
plan
