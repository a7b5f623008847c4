#!/bin/sh
# What root's watch of a shared folder does for the jobs of its users, with their rights: it heals jobs, and removes
# old files.
. "${top_srcdir-.}/tests/cli/lib.sh"
. "$source/tests/cli/users.sh"
require_model

# Old files
mkdir s
chmod 1777 s
old=events.out.tfevents.1700000001.host.1.trainspool
new=events.out.tfevents.1700000002.host.1.trainspool
ended() { # USER NAME: a job with event files of two attempts
    job 2 | as "$1" tee "s/$2.yaml" >/dev/null
    as "$1" mkdir "s/$2.run"
    echo '{"schema":1,"state":"done","reason":""}' | as "$1" tee "s/$2.run/state.json" >/dev/null
    as "$1" touch -d '40 days ago' "s/$2.run/$old" "s/$2.run/$new"
}
ended $one a
ended $two b
ended 0 c
# a folder in which its owner may change nothing, and one that leads into another user's
ended $two d
chown 0 s/d.run
ended $one e
job 2 | as $two tee s/f.yaml >/dev/null
as $two ln -s e.run s/f.run
touch -d '40 days ago' s/e.run/events.out.tfevents.1700000000.host.1.trainspool
chown 0:0 s/e.run/state.json && chmod 600 s/e.run/state.json # its owner cannot see that it has ended
expect_status "clean shows the old files of all users" 0 "$trainspool" clean --dry-run --keep-days 5 s
for name in a b c; do expect_output "of $name" "would remove s/$name.run/$old"; done

timeout 60 "$trainspool" watch --once --keep-days 5 s >out 2>&1
for name in a b c; do
    expect "the watch removes that of $name" test ! -e s/$name.run/$old
    expect "and keeps the newest" test -e s/$name.run/$new
done
expect "the journal belongs to the owner" [ "$(stat -c %u s/a.run/changes.jsonl)" = $one ]
expect "where an owner may remove nothing, everything stays" test -e s/d.run/$old
expect "no link leads into the folder of another user" test -e s/e.run/$old -a -e s/e.run/events.out.tfevents.1700000000.host.1.trainspool

# Healing
mkdir bin h
chmod 1777 h
make_data h
cp "$trainspool" bin
mkdir -m 1777 faults
chmod 1777 faults
cat >bin/trainspool-train <<END
#!/bin/sh
case \$* in
*--frozen*) ! mkdir "$T/faults/\$\$" 2>/dev/null || [ "\$(ls "$T/faults" | wc -l)" -gt 1 ] || exit 77 ;;
esac
exec "$train" "\$@"
END
chmod +x bin/trainspool-train
{ job 2; echo ...; } | sed 's/^per_device_train_batch_size: 2/per_device_train_batch_size: 4/' | as $one tee h/a.yaml >/dev/null
expect_status "a job of a user that runs out of memory is healed" 0 timeout 120 bin/trainspool watch --once h
expect "it is done" state_is h/a.yaml done
expect "the text is patched" grep -qx 'per_device_train_batch_size: 2' h/a.yaml
expect "it still belongs to the user" [ "$(stat -c %u h/a.yaml)" = $one ]
expect "as do all files of the job" [ -z "$(find h/a.run ! -uid $one)" ]
expect "the user can undo the patch" as $one "$trainspool" undo -q h/a.yaml

# With no more rights than the unit leaves root
rights=$(sed -n 's/^CapabilityBoundingSet=CAP_//p' "$top/service/trainspool-shared@.service" | sed 's/ CAP_/,+/g' | tr A-Z a-z)
expect "the unit leaves root few rights" [ "$(echo "$rights" | tr , '\n' | wc -l)" -le 5 ]
watch_unit() { background setpriv --no-new-privs --bounding-set="-all,+$rights" "$trainspool" watch "$@"; }
trainer() { children "$daemon" | head -1; }
mkdir u
chmod 1777 u
make_data u
watch_unit --hang 4 u
job 100000 | as $one sh -c 'umask 077; cat >u/.new; mv u/.new u/a.yaml'
wait_until 60 has_reached u/a.yaml 25
ok $? "a private job of a user runs"
expect "as the user" [ "$(stat -c %u "/proc/$(trainer)")" = $one ]
stuck=$(trainer)
kill -STOP "$stuck"
wait_until 60 grep -q 'job a: ready: trainspool-train was killed: no sign of life' daemon.log
ok $? "it is killed if it hangs"
wait_until 60 grep -q 'resume: from' u/a.run/train.log && wait_until 60 has_reached u/a.yaml 1
ok $? "and continues"
kill -TERM "$daemon"
wait_until 60 has_exited "$daemon"
expect "when the watch ends, it waits" state_is u/a.yaml ready
grep -e 'ot permitted' -e 'ermission denied' -e 'cannot' daemon.log >out
expect "nothing was refused" [ $? -eq 1 ]
plan
