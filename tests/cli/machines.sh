# tests/cli/machines.sh - "machines" that share a folder by sshfs, which shows neither locks nor events of one to
# the other.  Each is a host name and a mount of its own, of the folder $T/disk at $T/s.  Source it after lib.sh.
cd "$T" || exit 99
mkdir disk s

# sshfs talks to the server of sftp through a pipe: no network, no key.
sftp_server=
for sftp_path in /usr/lib/openssh/sftp-server /usr/libexec/openssh/sftp-server; do
    [ ! -x "$sftp_path" ] || sftp_server=$sftp_path
done
cat >connect <<END
#!/bin/sh
echo \$\$ >$T/server.\$(hostname)
exec $sftp_server
END
chmod +x connect

# NAME: start a machine; its process is $host_NAME.
start_host() {
    unshare -u -m --propagation private sh -c '
        hostname "$1" && cd / &&
            sshfs -o ssh_command="$2/connect",dir_cache=no,attr_timeout=0,entry_timeout=0,negative_timeout=0 \
                -o direct_io "x:$2/disk" "$2/s" && touch "$2/up.$1" && exec sleep 1000' \
        host "$1" "$T" >"host.$1.out" 2>&1 </dev/null &
    eval "host_$1=$!"
    pids="$pids $!"
    wait_until 10 test -e "up.$1" -o ! -e "/proc/$!"
    [ -e "up.$1" ]
}
on() { # NAME COMMAND...: run it on this machine
    eval "on_pid=\$host_$1"
    shift
    nsenter -t "$on_pid" -u -m sh -c 'cd "$0" && exec "$@"' "$T" "$@"
}
# NAME: print the process ids of all programs of trainspool on a machine.
programs_on() {
    programs_space=$(eval "readlink /proc/\$host_$1/ns/uts")
    for programs_pid in $(grep -ls '^trainspool' /proc/[0-9]*/comm | cut -d/ -f3); do
        [ "$(readlink "/proc/$programs_pid/ns/uts")" != "$programs_space" ] || echo "$programs_pid"
    done
}
signal_host() { # NAME SIGNAL: send it to all of them
    for signal_pid in $(programs_on "$1"); do kill "-$2" "$signal_pid"; done
}
is_idle() { [ -z "$(programs_on "$1")" ]; }
# Print why machines cannot be made here; nothing if they can.
why_no_hosts() {
    [ "$(id -u)" -eq 0 ] || { echo 'only root can make machines'; return; }
    [ -c /dev/fuse ] || { echo 'there is no /dev/fuse'; return; }
    [ -n "$sftp_server" ] && command -v sshfs nsenter unshare >/dev/null || { echo 'sshfs or sftp-server is missing'; return; }
    start_host probe || { echo "sshfs does not mount: $(tail -n 1 host.probe.out)"; return; }
    kill "$host_probe"
}
job() { # STEPS SAVE: steps that are slow enough to be disturbed
    cat <<END
model_name_or_path: $T/units-1m
train_from_scratch: true
stage: pt
finetuning_type: full
dataset: $T/units-text.jsonl
cutoff_len: 64
max_samples: 40
per_device_train_batch_size: 4
max_steps: $1
learning_rate: 1.0e-3
logging_steps: 20
save_strategy: steps
save_steps: $2
save_total_limit: 2
trainspool:
  device: cpu
  threads: 1
  max_retries: 9
...
END
}
sum() { sha256sum <"$1/model.safetensors"; } # FOLDER: of the model in it
