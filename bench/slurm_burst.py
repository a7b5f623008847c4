#!/usr/bin/env python3
"""Measure how a watch hands many jobs over to Slurm at once.

    bench/slurm_burst.py [--jobs N] [--sweep M] [--slurm] BUILD MODEL

Drops N jobs (1000) with `backend: slurm` into a watched folder, all at once, or sweeps of M jobs
each, and waits until sbatch has taken all of them. sbatch and squeue are scripts that answer at
once; with --slurm they are those of a Slurm of two nodes on this machine (tests/cli/slurm.sh),
whose partition is down, so that no job starts. Prints the time until all are submitted, the CPU
time and the memory of the watch and of the processes that follow the jobs, the CPU time that they
take in 60 s while the jobs wait, and that of all processes together, with the commands of Slurm
and the end of the watch.
"""
import argparse
import ctypes
import glob
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time

SOURCE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
JOB = """model_name_or_path: {model}
stage: pt
finetuning_type: full
dataset: text.txt
cutoff_len: 64
max_steps: 10
trainspool: {{backend: slurm, device: cpu, ranks: 2, nodes: 2{more}}}
"""
# what the scripts do: number the submissions, and say that all wait
FAKES = {
    "sbatch": """#!/bin/sh
case $1 in --test-only) exit 0 ;; esac
flock {dir}/count.lock sh -c 'n=$(($(cat {dir}/count) + 1)); echo $n >{dir}/count; echo $n'
echo . >>{dir}/calls.sbatch
""",
    "squeue": """#!/bin/sh
echo . >>{dir}/calls.squeue
for word; do case $word in --jobs=*) echo "${{word#--jobs=}}|PENDING|Priority|"; exit ;; esac; done
echo '1|PENDING|Priority|'
""",
    "scancel": "#!/bin/sh\nexit 0\n",
    "sacct": "#!/bin/sh\nexit 1\n",
    "sinfo": "#!/bin/sh\nexit 1\n",
}


def make_fakes(folder):
    programs = os.path.join(folder, "bin")
    os.mkdir(programs)
    for name, text in FAKES.items():
        path = os.path.join(programs, name)
        with open(path, "w") as file:
            file.write(text.format(dir=folder))
        os.chmod(path, 0o755)
    with open(os.path.join(folder, "count"), "w") as file:
        file.write("0\n")
    os.environ["PATH"] = programs + ":" + os.environ["PATH"]


def cluster(*words, **more):
    script = os.path.join(SOURCE, "tests", "cli", "slurm.sh")
    return subprocess.run(["bash", script, *words], env={**os.environ, **more}, check=True)


def start_slurm(folder):
    cluster("start", folder + "/c", "2", MAX_JOBS="10000")
    os.environ["SLURM_CONF"] = folder + "/c/slurm.conf"
    subprocess.run(["scontrol", "update", "PartitionName=main", "State=DOWN"], check=True)


def prepare(spool, staged, args):
    """Write the files next to the spool; return the names in it."""
    with open(os.path.join(spool, "text.txt"), "w") as file:
        file.writelines(f"Tom has {i} apples and gives {i % 7} away.\n" for i in range(2000))
    names = []
    count = args.jobs // args.sweep if args.sweep else args.jobs
    for i in range(count):
        seeds = ", ".join(str(k) for k in range(args.sweep))
        more = f", sweep: {{seed: [{seeds}]}}" if args.sweep else ""
        name = f"job{i:04d}.yaml"
        with open(os.path.join(staged, name), "w") as file:
            file.write(JOB.format(model=args.model, more=more))
        names.append(name)
    return names


def cpu_seconds(pid):
    """Of a process, without its children."""
    total = 0
    for path in glob.glob(f"/proc/{pid}/task/*/schedstat"):
        try:
            with open(path) as file:
                total += int(file.read().split()[0])
        except OSError:
            pass
    return total / 1e9


def memory_bytes(pid):
    try:
        with open(f"/proc/{pid}/smaps_rollup") as file:
            return sum(int(line.split()[1]) for line in file if line.startswith("Pss:")) << 10
    except OSError:
        return 0


def processes(root):
    """The process and all below it."""
    children = {}
    for path in glob.glob("/proc/[0-9]*/stat"):
        try:
            with open(path) as file:
                text = file.read()
        except OSError:
            continue
        children.setdefault(int(text.rsplit(")", 1)[1].split()[1]), []).append(int(path.split("/")[2]))
    found, left = [], [root]
    while left:
        pid = left.pop()
        found.append(pid)
        left += children.get(pid, [])
    return found


def submitted(spool):
    """The jobs whose submission has a number."""
    count = 0
    for path in glob.iglob(os.path.join(glob.escape(spool), "*.run", "slurm.json")):
        try:
            with open(path) as file:
                count += '"job": 0' not in file.read()
        except OSError:
            pass
    return count


def calls(folder, name):
    path = os.path.join(folder, "calls." + name)
    return os.path.getsize(path) // 2 if os.path.exists(path) else 0


def measure(args, folder, watch, spool, staged, names):
    before = time.monotonic()
    for name in names:
        os.rename(os.path.join(staged, name), os.path.join(spool, name))
    while submitted(spool) < args.jobs:
        if watch.poll() is not None or time.monotonic() - before > 1800:
            sys.exit(f"only {submitted(spool)} of {args.jobs} jobs were submitted")
        time.sleep(0.2)
    seconds = time.monotonic() - before
    alive = processes(watch.pid)[1:]
    trainers = [pid for pid in alive if is_follower(pid)]
    print(f"{args.jobs} jobs submitted in {seconds:.1f} s ({args.jobs / seconds:.0f} a second)")
    if not args.slurm:
        print(f"calls of sbatch {calls(folder, 'sbatch')}, of squeue {calls(folder, 'squeue')}")
    print(f"watch: {cpu_seconds(watch.pid):.1f} s of CPU time, {memory_bytes(watch.pid) / 2**20:.1f} MiB")
    cpu = sum(cpu_seconds(pid) for pid in trainers)
    memory = sum(memory_bytes(pid) for pid in trainers)
    print(f"{len(trainers)} processes that follow: {cpu:.1f} s of CPU time, "
          f"{memory / 2**20:.0f} MiB, {memory / max(len(trainers), 1) / 2**10:.0f} KiB each")
    asked = calls(folder, "squeue")
    own = cpu_seconds(watch.pid)
    time.sleep(args.wait)
    now = sum(cpu_seconds(pid) for pid in trainers)
    os.kill(watch.pid, signal.SIGTERM)
    print(f"in {args.wait} s of waiting: the watch {cpu_seconds(watch.pid) - own:.2f} s of CPU time, the others "
          f"{now - cpu:.2f} s" + ("" if args.slurm else f", {calls(folder, 'squeue') - asked} calls of squeue"))
    before = time.monotonic()
    watch.wait()
    reap()
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(f"all end in {time.monotonic() - before:.1f} s; together they took "
          f"{used.ru_utime + used.ru_stime:.1f} s of CPU time")


def reap():
    """Wait for the processes that the watch has left."""
    try:
        while True:
            os.wait()
    except ChildProcessError:
        pass


def is_follower(pid):
    try:
        with open(f"/proc/{pid}/cmdline") as file:
            return "--lock-fd=3" in file.read()
    except OSError:
        return False


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=1000)
    parser.add_argument("--sweep", type=int, default=0, help="jobs of each sweep; 0: none")
    parser.add_argument("--wait", type=int, default=60, help="seconds")
    parser.add_argument("--slurm", action="store_true")
    parser.add_argument("build")
    parser.add_argument("model")
    args = parser.parse_args()
    args.model = os.path.abspath(args.model)
    if args.sweep and args.jobs % args.sweep:
        parser.error("--jobs must be a multiple of --sweep")
    program = os.path.join(os.path.abspath(args.build), "trainspool")
    folder = tempfile.mkdtemp(prefix="burst-")
    spool, staged = os.path.join(folder, "spool"), os.path.join(folder, "staged")
    os.mkdir(spool)
    os.mkdir(staged)
    watch = None
    try:
        if args.slurm:
            start_slurm(folder)
        else:
            make_fakes(folder)
        ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER: not for the daemons
        names = prepare(spool, staged, args)
        with open(os.path.join(folder, "log"), "w") as log:
            watch = subprocess.Popen([program, "watch", spool], stdout=log, stderr=log)
        time.sleep(1)
        measure(args, folder, watch, spool, staged, names)
    finally:
        for pid in processes(os.getpid())[1:]:
            try:
                os.kill(pid, signal.SIGKILL)
            except OSError:
                pass
        reap()
        if args.slurm:
            cluster("stop", folder + "/c")
        shutil.rmtree(folder, ignore_errors=True)


main()
