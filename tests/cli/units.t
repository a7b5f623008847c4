#!/bin/sh
# The units for systemd: systemd accepts them, make installs them, and, as root, a service manager of its own runs one.
. "${top_srcdir-.}/tests/cli/lib.sh"
command -v systemd-analyze >/dev/null || { echo "1..0 # SKIP systemd is not installed"; exit 0; }
cd "$T" || exit 99
units=$top/service

# NAME UNIT: copy a unit that starts this build.
unit() { sed "s|^ExecStart=[^ ]*|ExecStart=$trainspool|" "$units/$1" >"$2"; }
unit trainspool@.service "$T/trainspool@box.service"
mkdir -m 700 user runtime
unit trainspool@.user.service "$T/user/trainspool@jobs.service"
expect_status "systemd accepts the unit of the system" 0 systemd-analyze verify --man=no "$T/trainspool@box.service"
expect "without a complaint" test ! -s err
unit trainspool-shared@.service "$T/trainspool-shared@box.service"
expect_status "and that for all users" 0 systemd-analyze verify --man=no "$T/trainspool-shared@box.service"
expect "without a complaint" test ! -s err
expect_status "and that of users" 0 env XDG_RUNTIME_DIR="$T/runtime" systemd-analyze --user verify --man=no "$T/user/trainspool@jobs.service"
expect "without a complaint" test ! -s err
if systemd-analyze --help | grep -q -e --offline; then
    expect_status "the unit is exposed to little" 0 \
        systemd-analyze security --offline=yes --no-pager --threshold=30 "$T/trainspool@box.service"
    expect_status "so is the one for all users, as root's" 0 \
        systemd-analyze security --offline=yes --no-pager --threshold=40 "$T/trainspool-shared@box.service"
else
    skip "exposure" "this systemd-analyze reads no files"
fi
# Each would hide a GPU, or keep its driver from working.
expect "the unit leaves GPUs usable" sh -c "! grep -E '^(PrivateDevices|ProtectClock|DeviceAllow|MemoryDenyWriteExecute)=' '$units/trainspool@.service' '$units/trainspool-shared@.service'"

try env -u MAKEFLAGS -u MAKELEVEL make -s -C "$top" install-data-local DESTDIR="$T/dest"
find dest -type f | sed 's|.*/lib/|lib/|' | LC_ALL=C sort >installed
printf '%s\n' lib/systemd/system/trainspool-shared@.service lib/systemd/system/trainspool@.service \
    lib/systemd/user/trainspool@.service >expected
cmp -s installed expected
ok $? "make install installs all"
try env -u MAKEFLAGS -u MAKELEVEL make -s -C "$top" uninstall-local DESTDIR="$T/dest"
expect "make uninstall removes them" test -z "$(find dest -type f)"

manager=/usr/lib/systemd/systemd
[ -x "$manager" ] || manager=/lib/systemd/systemd
if [ ! -x "$manager" ] || [ "$(id -u)" -ne 0 ] || ! unshare -m true 2>/dev/null; then
    skip "a manager runs the unit" "no root, no namespaces or no systemd"
    plan
    exit 0
fi

# In a mount namespace: a user manager, which then runs a script.  It requires to be in a control group of its own, so
# that what it kills is its own.
cat >namespace.sh <<'END'
group=trainspool-test-$$
for tree in /sys/fs/cgroup /sys/fs/cgroup/systemd /sys/fs/cgroup/unified; do
    [ ! -e $tree/cgroup.procs ] || { mkdir $tree/$group && echo $$ >$tree/$group/cgroup.procs; } || exit 77
done
mount --make-rprivate / && mount -t tmpfs tmpfs /run || exit 77
mkdir -p /run/systemd/system /run/user/0
chmod 700 /run/user/0
export XDG_RUNTIME_DIR=/run/user/0 HOME="$T/home" XDG_CONFIG_HOME="$T/home/.config"
"$1" --user --log-target=console >"$T/manager.log" 2>&1 &
manager=$!
for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
    systemctl --user list-units >/dev/null 2>&1 && break
    sleep 0.25
done
systemctl --user list-units >/dev/null 2>&1 && sh "$T/script.sh" "$2" || { kill $manager; exit 77; }
kill $manager
wait $manager
for tree in /sys/fs/cgroup /sys/fs/cgroup/systemd /sys/fs/cgroup/unified; do
    [ ! -e $tree/$group/cgroup.procs ] || { echo $$ >$tree/cgroup.procs; find $tree/$group -depth -type d -exec rmdir {} +; }
done 2>/dev/null
exit 0
END
mkdir -p home/jobs home/.config/systemd/user home/.config/trainspool
unit trainspool@.user.service "home/.config/systemd/user/trainspool@.service"
echo "OPTIONS=--log=$T/box.log" >home/.config/trainspool/jobs.conf
printf 'SPOOL=%s\n' "$T/home/jobs" >home/.config/trainspool/second.conf
# The unit of the system, as far as this manager can run it: it is root's, and makes none of the nodes that hide parts of
# the kernel.
mkdir home/hard
unit trainspool@.service hard.unit
sed -e '/^User=/d; /^Group=/d; /^StateDirectory/d; /^LogsDirectory/d; /^ProtectKernel/d' \
    -e "s|^Environment=SPOOL=.*|Environment=SPOOL=$T/home/hard|" hard.unit >home/.config/systemd/user/trainspool-hard@.service
if has_model; then
    make_data home/jobs
    make_data home/hard
    job 20 >home/hard/short.yaml
fi
invalid_job >bad.yaml
job 100000 >long.yaml
cat >script.sh <<'END'
# Write what happens as lines NAME VALUE to $T/facts.
unit=trainspool@jobs.service
fact() { echo "$*" >>"$T/facts"; }
show() { systemctl --user show -P "$1" ${2-$unit}; }
wait_for() { # COMMAND...: up to 20 s
    for i in $(seq 200); do
        "$@" && return
        sleep 0.1
    done
    return 1
}
is_active() { [ "$(show ActiveState)" = active ]; }
has_new_process() { is_active && [ "$(show MainPID)" != "$old" ]; }
fact start $(systemctl --user start $unit 2>&1 && echo ok)
fact state $(show ActiveState)
fact described $(wait_for sh -c "systemctl --user show -P StatusText $unit | grep -q '0 queued'" && echo ok)
systemctl --user start trainspool@second.service 2>/dev/null
wait_for sh -c '[ "$(systemctl --user show -P ActiveState trainspool@second.service)" = failed ]'
fact second $(show Result trainspool@second.service) $(show ExecMainStatus trainspool@second.service) \
    $(show NRestarts trainspool@second.service)
fact reload $(systemctl --user reload $unit 2>&1 && echo ok)
fact reloaded $(wait_for grep -q 'watch: reloaded' "$T/box.log" && echo ok)
old=$(show MainPID)
kill -KILL "$old"
fact restarted $(wait_for has_new_process && echo ok)
mkdir -p "$XDG_CONFIG_HOME/systemd/user/$unit.d"
printf '[Service]\nWatchdogSec=3\nRestartSec=0\n' >"$XDG_CONFIG_HOME/systemd/user/$unit.d/fast.conf"
systemctl --user daemon-reload
systemctl --user restart $unit
old=$(show MainPID)
sleep 4
fact lives $(show MainPID | grep -qx "$old" && echo ok)
kill -STOP "$old"
fact watchdog $(wait_for has_new_process && echo ok)
if [ "$1" = model ]; then
    cp "$T/long.yaml" "$HOME/jobs/.long" && mv "$HOME/jobs/.long" "$HOME/jobs/long.yaml"
    fact trains $(wait_for grep -q '"state":"running".*"step":[1-9]' "$HOME/jobs/long.run/state.json" && echo ok)
fi
if [ "$1" = model ]; then
    fact restricted $(systemctl --user start trainspool-hard@box 2>&1 && echo ok)
    fact works $(wait_for grep -q '"state":"done"' "$HOME/hard/short.run/state.json" && echo ok)
    systemctl --user stop trainspool-hard@box
fi
fact stop $(systemctl --user stop $unit 2>&1 && echo ok)
fact result $(show ActiveState) $(show Result)
END
: >facts
export T
try timeout 300 unshare -m sh namespace.sh "$manager" "$(has_model && echo model)"
if [ "$status" -eq 77 ]; then
    skip "a manager runs the unit" "systemd does not run here"
    plan
    exit 0
fi
is() { # NAME LINE: the facts have this line
    grep -qx -e "$2" facts
    ok $? "$1"
}
cp facts out
is "the unit starts" "start ok"
is "it is active" "state active"
is "it has a status" "described ok"
is "a second watch of the folder fails, and is not started again" "second exit-code 75 0"
is "the unit reloads" "reload ok"
is "which opens the log again" "reloaded ok"
is "a watch that is killed is started again" "restarted ok"
is "one that sends signs of life stays" "lives ok"
is "one that hangs is started again" "watchdog ok"
if has_model; then
    is "a job trains" "trains ok"
    expect "it is saved and ready to resume when the unit stops" state_is home/jobs/long.yaml ready
    is "the unit of the system starts" "restricted ok"
    is "a job trains within its restrictions" "works ok"
    expect "it is contained there, too" grep -q '"contained":".*seccomp' home/hard/short.run/state.json
    expect "nothing is left of the other" flock -n home/jobs/long.run/lock true
else
    skip "a job trains" "no model"
fi
is "the unit stops" "stop ok"
is "that is a success" "result inactive success"
plan
