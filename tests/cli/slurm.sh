#!/bin/bash
# Slurm on this machine, for tests: slurm.sh check | start DIR [NODES] | stop DIR | ctld-kill DIR | ctld-start DIR |
# slurmd-kill DIR NODE | slurmd-start DIR NODE | status DIR
#
# munged, slurmctld and NODES slurmd (default 2, named n0, n1, ...), all of the caller's own user, with key, sockets, state,
# logs and pid files below DIR, listening on free ports of 127.0.0.1. No systemd, no cgroups, no files elsewhere, no root needed.
# After "start": `. DIR/env` (exports SLURM_CONF), then sbatch, srun, squeue, ... as usual.
# Exit status: 0, 77 = cannot run here (the reason in one line on stderr; nothing is left), 1 = failed.
# Options by environment: CPUS (4 per node), GPUS (2 per node, 0 = none), SLURMD_TIMEOUT (60 s: a loaded machine answers late), MIN_JOB_AGE (300 s),
# NETNS and ADDRS (one word per node: the network namespace, made before by `ip netns add`, and the address in it; the controller
# is in the first; run the clients there too: nsenter --net=/run/netns/NAME sbatch ...), MAX_JOBS (10000), SLURM_EXTRA (more lines of slurm.conf), NODE_EXTRA (more words of the NodeName lines).
set -u
export LC_ALL=C PATH="$PATH:/usr/sbin:/sbin"
say() { echo "slurm.sh: $*" >&2; }
skip() { say "cannot run here: $*"; exit 77; }

check() {
	local p
	for p in munged slurmctld slurmd sbatch scontrol; do
		command -v "$p" >/dev/null || skip "$p is not installed (apt-get install --no-install-recommends munge slurmctld slurmd slurm-client)"
	done
	[ -r /proc/net/tcp ] || skip "/proc/net/tcp is not readable"
	local n; n=$(hostname 2>/dev/null || cat /proc/sys/kernel/hostname)
	[ -n "$n" ] || skip "this host has no name"
	if command -v ip >/dev/null; then
		ip -o addr show dev lo 2>/dev/null | grep -q ' 127\.0\.0\.1/' || skip "the loopback interface is down"
	fi
	getent passwd "$(id -u)" >/dev/null || skip "user $(id -u) has no entry in passwd"
}

listening() { # is port $1 taken by any socket
	local h; h=$(printf ':%04X' "$1")
	cat /proc/net/tcp /proc/net/tcp6 2>/dev/null | awk -v h="$h" '{ if (substr($2, length($2)-4) == h) f = 1 } END { exit !f }'
}

ports() { # $1 free consecutive ports below the ephemeral range
	local base i try=0
	while [ $try -lt 200 ]; do
		base=$((20000 + (($$ * 37 + RANDOM) % 1000) * 10))
		for ((i = 0; i < $1; i++)); do listening $((base + i)) && break; done
		[ $i -eq "$1" ] && { echo $base; return 0; }
		try=$((try + 1))
	done
	return 1
}

alive() { [ -s "$1" ] && kill -0 "$(cat "$1")" 2>/dev/null; }

# pids of what belongs to DIR: daemons of Slurm (they work in DIR/log), tasks and their children (SLURM_CONF of DIR, in a job)
leftovers() {
	local f
	for f in $(grep -l '^slurm' /proc/[0-9]*/comm 2>/dev/null); do
		case $(readlink "${f%comm}cwd" 2>/dev/null)/ in "$1"/*) f=${f%/comm}; echo "${f#/proc/}" ;; esac
	done
	for f in $(grep -lzxF "SLURM_CONF=$1/slurm.conf" /proc/[0-9]*/environ 2>/dev/null); do
		grep -qz '^SLURM_JOB_ID=' "$f" 2>/dev/null && f=${f%/environ} && echo "${f#/proc/}"
	done
}

ns() { # DIR INDEX: the words before a command that put it in a node's namespace
	[ -s "$1/netns" ] && set -- $(sed -n "$(($2 + 1))p" "$1/netns") && echo "nsenter --net=/run/netns/$1"
}
ctld_start() { (cd "$1" && SLURM_CONF=$1/slurm.conf $(ns "$1" 0) slurmctld -f "$1/slurm.conf" >>"$1/log/slurmctld.out" 2>&1); }
slurmd_start() { (cd "$1" && SLURM_CONF=$1/slurm.conf $(ns "$1" "${2#n}") slurmd -f "$1/slurm.conf" -N "$2" >>"$1/log/slurmd.$2.out" 2>&1); }

start() {
	local d=$1 n=${2:-2} u h base i cpus=${CPUS:-4} gpus=${GPUS:-2}
	check
	mkdir -p "$d" || exit 1
	d=$(cd "$d" && pwd -P)
	[ ${#d} -le 70 ] || skip "the path $d is too long for a UNIX socket below it (over 70 bytes)"
	case $d in *[!A-Za-z0-9/._-]*) skip "the path $d has characters that slurm.conf does not take" ;; esac
	[ -e "$d/slurm.conf" ] && { say "$d is in use: stop it first"; exit 1; }
	u=$(id -un); h=$(hostname -s 2>/dev/null || cat /proc/sys/kernel/hostname)
	mkdir -p "$d"/{state,spool,log,run,munge} && chmod 755 "$d" "$d"/{state,spool,log,run} && chmod 711 "$d/munge" || exit 1
	for ((i = 0; i < n; i++)); do mkdir -p "$d/tmp/n$i" && chmod 1777 "$d/tmp/n$i" || exit 1; done # PMIx: one per node
	(umask 077; head -c 1024 /dev/urandom >"$d/munge/key")
	local -a addr=(${ADDRS:-}); local ctl=${addr[0]:-127.0.0.1}
	[ -n "${NETNS:-}" ] && printf '%s\n' $NETNS >"$d/netns"
	base=$(ports $((n + 1))) || skip "no free ports"
	{
		cat <<-X
			ClusterName=ts
			SlurmctldHost=$h($ctl)
			SlurmUser=$u
			SlurmdUser=$u
			SlurmctldPort=$base
			AuthType=auth/munge
			AuthInfo=socket=$d/munge/socket
			CredType=cred/munge
			StateSaveLocation=$d/state
			SlurmdSpoolDir=$d/spool/%n
			TmpFS=$d/tmp/%n
			SlurmctldPidFile=$d/run/slurmctld.pid
			SlurmdPidFile=$d/run/slurmd.%n.pid
			SlurmctldLogFile=$d/log/slurmctld.log
			SlurmdLogFile=$d/log/slurmd.%n.log
			ProctrackType=proctrack/linuxproc
			TaskPlugin=task/none
			SwitchType=switch/none
			MpiDefault=none
			SelectType=select/cons_tres
			SelectTypeParameters=CR_CPU
			JobAcctGatherType=jobacct_gather/none
			AccountingStorageType=accounting_storage/none
			AccountingStoreFlags=job_comment
			JobCompType=jobcomp/filetxt
			JobCompLoc=$d/log/jobcomp
			SchedulerType=sched/backfill
			SchedulerParameters=batch_sched_delay=0,sched_min_interval=0,bf_interval=1
			PriorityType=priority/basic
			PropagateResourceLimits=NONE
			ReturnToService=2
			SlurmdTimeout=${SLURMD_TIMEOUT:-60}
			SlurmctldTimeout=10
			InactiveLimit=0
			KillWait=2
			WaitTime=0
			MinJobAge=${MIN_JOB_AGE:-300}
			MaxJobCount=${MAX_JOBS:-10000}
			RequeueExit=75
			SlurmdParameters=config_overrides
		X
		# bind to 127.0.0.1 alone; these bind to what the host's name resolves to, which in some containers is another address
		[ -n "${ADDRS:-}" ] || case $(getent ahostsv4 "$h" 2>/dev/null | awk '{ print $1; exit }') in
		127.0.0.1) echo CommunicationParameters=NoCtldInAddrAny,NoInAddrAny ;;
		esac
		[ "$gpus" -gt 0 ] && echo GresTypes=gpu
		for ((i = 0; i < n; i++)); do
			echo "NodeName=n$i NodeHostname=$h NodeAddr=${addr[$i]:-127.0.0.1} Port=$((base + 1 + i)) CPUs=$cpus RealMemory=1024 Feature=cpu,ts,node$i" \
				"$([ "$gpus" -gt 0 ] && echo "Gres=gpu:fake:$gpus")" "${NODE_EXTRA:-}"
		done
		echo "PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP OverSubscribe=NO"
		[ -n "${SLURM_EXTRA:-}" ] && echo "$SLURM_EXTRA"
	} >"$d/slurm.conf"
	if [ "$gpus" -gt 0 ]; then # any character devices will do as stand-ins for /dev/nvidia0...
		: >"$d/gres.conf"
		for ((i = 0; i < gpus; i++)); do
			echo "Name=gpu Type=fake File=/dev/tty$i" >>"$d/gres.conf"
			[ -e "/dev/tty$i" ] || { mkdir -p "$d/dev"; : >"$d/dev/gpu$i"; sed -i "s#/dev/tty$i\$#$d/dev/gpu$i#" "$d/gres.conf"; }
		done
	fi
	cat >"$d/env" <<-X
		export SLURM_CONF=$d/slurm.conf
	X
	# munged holds no lock on stale sockets: DIR is new here
	if ! munged --key-file="$d/munge/key" --socket="$d/munge/socket" --pid-file="$d/munge/pid" --log-file="$d/munge/log" \
		--seed-file="$d/munge/seed" --num-threads=4 --force >"$d/munge/out" 2>&1; then
		say "munged: $(tail -1 "$d/munge/out")"; stop "$d"; exit 77
	fi
	if ! ctld_start "$d"; then say "slurmctld: $(tail -1 "$d/log/slurmctld.out")"; stop "$d"; exit 77; fi
	for ((i = 0; i < n; i++)); do
		if ! slurmd_start "$d" n$i; then say "slurmd n$i: $(tail -1 "$d/log/slurmd.n$i.out")"; stop "$d"; exit 77; fi
	done
	for ((i = 0; i < 100; i++)); do # at most 10 s
		alive "$d/run/slurmctld.pid" || [ $i -lt 10 ] || break
		[ "$(SLURM_CONF=$d/slurm.conf $(ns "$d" 0) timeout 2 sinfo -h -N -t idle -o %N 2>/dev/null | sort -u | wc -l)" -eq "$n" ] && return 0
		sleep 0.1
	done
	say "the nodes did not come up: $(grep -h -e fatal: -e error: "$d"/log/*.log | head -1)"
	stop "$d"
	exit 77
}

stop() {
	local d p i f
	d=$(cd "$1" 2>/dev/null && pwd -P) || return 0
	[ -e "$d/slurm.conf" ] || { say "$d is not ours"; return 1; }
	local pids=
	for f in "$d"/run/slurmctld.pid "$d"/run/slurmd.*.pid; do [ -s "$f" ] && pids="$pids $(cat "$f")"; done
	for p in $pids; do # a pid file may be stale: only a daemon of this DIR
		tr '\0' ' ' 2>/dev/null <"/proc/$p/cmdline" | grep -qF -- "$d/slurm.conf" && kill -KILL "$p" 2>/dev/null
	done
	for i in 1 2 3; do # twice, since a dying step daemon may still start a task
		p=$(leftovers "$d") ; [ -n "$p" ] || break
		kill -KILL $p 2>/dev/null
		sleep 0.05
	done
	[ -s "$d/munge/pid" ] && p=$(cat "$d/munge/pid") && tr '\0' ' ' 2>/dev/null <"/proc/$p/cmdline" | grep -qF -- "$d/munge" && kill -TERM "$p"
	[ -n "${KEEP:-}" ] || rm -rf "$d"
}

case ${1:-} in
check) check ;;
start) [ $# -ge 2 ] || exit 2; start "$2" "${3:-2}" ;;
stop) [ $# -ge 2 ] || exit 2; stop "$2" ;;
ctld-kill) kill "-${3:-KILL}" "$(cat "$2/run/slurmctld.pid")" ;;
ctld-start) ctld_start "$(cd "$2" && pwd -P)" ;;
slurmd-kill) kill "-${4:-KILL}" "$(cat "$2/run/slurmd.$3.pid")" ;;
slurmd-start) slurmd_start "$(cd "$2" && pwd -P)" "$3" ;;
status) . "$2/env"; $(ns "$2" 0) timeout 5 sinfo -N -h -o '%N %t %f %G'; $(ns "$2" 0) timeout 5 squeue ;;
*) echo "usage: slurm.sh check | start DIR [NODES] | stop DIR | ctld-kill DIR [SIGNAL] | ctld-start DIR | slurmd-kill DIR NODE [SIGNAL] | slurmd-start DIR NODE | status DIR" >&2; exit 2 ;;
esac
