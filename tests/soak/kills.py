"""Kills: of the watch and of trainers, at random instants and at each call of a kind; stops and upgrades."""
import os
import re
import shutil
import signal
import subprocess
import time

from folder import PATIENCE, read, wait_until
from result import Result, Skip, add, say

JOBS = {"a": (100, 1), "b": (160, 2), "c": (60, 3), "d": (400, 4)}  # steps and seed
DETACHED = "<detached ...>"  # strace(1) writes it for a call that it leaves
GOAL = "0 lost, 0 failed, 0 twice, 0 other bits"
CALLS = ("openat", "openat2", "mkdirat", "mkdir", "rename", "renameat", "renameat2", "write", "pwrite64", "fsync",
         "fdatasync", "unlink", "unlinkat", "ftruncate", "flock", "getdents64", "fchmod", "linkat", "newfstatat",
         "close")


def drop_jobs(folder, names=JOBS, durable=False):
    for name in names:
        steps, seed = JOBS[name]
        folder.drop(name, folder.text(steps, seed), durable)


def uninterrupted(setting, names=JOBS):
    """Return the digests of the weights of jobs that nothing disturbs."""
    folder = setting.folder()
    drop_jobs(folder, names)
    status = folder.finish("--slots", "2")
    expected = {name: folder.weights(name) for name in names}
    if status != 0 or not all(folder.state(name) == "done" for name in names):
        raise RuntimeError(f"the jobs do not run undisturbed: status {status}\n{read(folder.log)}")
    folder.remove()
    return expected


def end_round(folder, names, expected, total, details):
    """Let the jobs finish without more faults, and count what went wrong."""
    status = folder.finish("--slots", "2")
    counts, lines = folder.faults(names, expected)
    add(total, counts)
    details += lines
    if status != 0:
        details.append(f"{folder.path}: watch --once ended with {status}: see {folder.log}")
        add(total, {"lost": 1})
    if not lines and status == 0:
        folder.remove()


def kill_one(setting, folder):
    """Kill a trainer or the watch, which is then replaced.  Return what was killed."""
    trainers = folder.trainers()
    if trainers and setting.random.random() < 0.4:
        try:
            os.kill(setting.random.choice(trainers), signal.SIGKILL)
            return "trainer"
        except ProcessLookupError:
            return None
    if folder.watch.poll() is not None:
        return None
    folder.kill()
    folder.start("--slots", "2")
    return "watch"


def random_kills(setting):
    size = setting.size(10, 1000)
    expected = uninterrupted(setting)
    total, details = {}, []
    killed = {"watch": 0, "trainer": 0}
    while sum(killed.values()) < size:
        folder = setting.folder()
        folder.start("--slots", "2")
        drop_jobs(folder)
        trainers = 0
        # each crash of a trainer is followed by a longer pause
        while not folder.all_ended(JOBS) and sum(killed.values()) < size and trainers < 4:
            time.sleep(setting.random.uniform(0, 0.3))
            what = kill_one(setting, folder)
            if what:
                killed[what] += 1
            trainers += what == "trainer"
        folder.kill()
        end_round(folder, JOBS, expected, total, details)
    yield Result("kill -9 at random instants, 2 slots", f"{killed['watch']} of the watch, {killed['trainer']} of trainers",
                 say(total), GOAL, not any(total.values()), details=details)


# ---- kills at each call ----

def can_trace():
    return shutil.which("strace") and subprocess.run(
        ["strace", "-f", "-qq", "-o", "/dev/null", "true"], stderr=subprocess.DEVNULL, check=False).returncode == 0


def calls_of_once(setting, calls):
    """Return how often the process that makes most calls of a kind makes them, for each kind, in one job."""
    folder = setting.folder()
    drop_jobs(folder, ["c"])
    trace = folder.path + ".trace"
    folder.start("--once", before=("strace", "-f", "-qq", "-o", trace, "-e", "trace=?" + ",?".join(calls)))
    folder.watch.wait(PATIENCE)
    counts = {}
    for line in read(trace).splitlines():
        match = re.match(r"(\d+) +(\w+)\(", line)
        if match:
            key = match.group(2), match.group(1)
            counts[key] = counts.get(key, 0) + 1
    most = {}
    for (call, _), count in counts.items():
        most[call] = max(most.get(call, 0), count)
    folder.remove()
    return most


def start_traced(folder, *injection, options=("--once",)):
    """Start a watch under strace(1), from its first call.  Return the tracer and its output file.

    The tracer is attached, because one that starts a program cannot be detached from it."""
    trace = folder.path + ".trace"
    folder.start(*options, before=("sh", "-c", 'kill -STOP $$; exec "$@"', "sh"))
    status = f"/proc/{folder.watch.pid}/status"
    wait_until(lambda: "State:\tT" in read(status))
    arguments = ["strace", "-f", "-q", "-o", trace, *injection, "-p", str(folder.watch.pid)]
    tracer = subprocess.Popen(arguments, stderr=subprocess.DEVNULL)
    wait_until(lambda: "TracerPid:\t0" not in read(status) or tracer.poll() is not None)
    folder.watch.send_signal(signal.SIGCONT)
    return tracer, trace


def end_tracer(trace, tracer):
    """Detach the tracer.  If a process waits for a child of vfork(2) at that moment, as posix_spawn(3) does, the tracer
    and both processes wait for each other forever; killing the tracer frees them."""
    tracer.terminate()
    try:
        tracer.wait(5)
    except subprocess.TimeoutExpired:
        tracer.kill()
        tracer.wait(PATIENCE)
        with open(trace, "a", encoding="utf-8") as out:
            out.write(DETACHED + "\n")


def detach_after(trace, tracer, pattern):
    """End the tracer once its output shows the injected event, so that later processes do not meet it too."""
    wait_until(lambda: tracer.poll() is not None or pattern in read(trace), every=0.005)
    if tracer.poll() is None:
        end_tracer(trace, tracer)
    return pattern in read(trace)


def was_cut(trace):
    """Return whether the tracer was detached within a call that it injects an error into: it then fails with another
    one, of a call that does not exist."""
    return DETACHED in read(trace)


def kills_at_calls(setting):
    if not can_trace():
        raise Skip("no strace(1), or it may not trace")
    expected = uninterrupted(setting, ["c"])
    points = [(call, n) for call, count in sorted(calls_of_once(setting, CALLS).items()) for n in range(1, count + 1)]
    size = setting.size(8, len(points))
    chosen = setting.random.sample(points, min(size, len(points)))
    total, details, met = {}, [], 0
    for call, number in chosen:
        folder = setting.folder()
        drop_jobs(folder, ["c"])
        tracer, trace = start_traced(folder, "-e", f"trace={call}", "-e", f"inject={call}:signal=KILL:when={number}")
        met += detach_after(trace, tracer, "killed by SIGKILL")
        folder.watch.wait(PATIENCE)
        before = len(details)
        end_round(folder, ["c"], expected, total, details)
        if len(details) > before:
            details.append(f"  after a kill at call {number} of {call}")
    yield Result("kill -9 of the process that makes the N-th call of a kind", f"{met} of {len(points)} calls", say(total),
                 GOAL, not any(total.values()) and met > 0, details=details)


# ---- absence, upgrade, stop ----

def long_text(setting, seconds):
    """Return a job that takes about this long, without the time to start."""
    folder = setting.folder()
    folder.drop("timing", folder.text(2000).replace("save_steps: 20", "save_steps: 2000"))
    folder.finish()
    took = folder.record("timing").get("seconds") or 1
    folder.remove()
    return folder.text(max(2000, int(2000 / took * seconds)), 5).replace("save_steps: 20", "save_steps: 1000000")


def dead_watch(setting):
    seconds = 2 if setting.small else 60
    folder = setting.folder()
    folder.drop("long", long_text(setting, seconds + 3))
    folder.drop("next", folder.text(60, 3))
    folder.start("--slots", "1")
    began = wait_until(lambda: folder.record("long").get("step", 0) > 0)
    folder.kill()
    at = folder.record("long").get("step", 0)
    time.sleep(seconds)
    later = folder.record("long").get("step", 0)
    running = folder.state("long") == "running"
    status = folder.finish("--slots", "1")
    counts, details = folder.faults(["long", "next"], None)
    once = folder.record("long").get("attempt") == 1
    ok = began and later > at and once and status == 0 and not any(counts.values())
    where = "still ran" if running else "had ended"
    yield Result("the watch is dead while a job runs", f"{seconds} s",
                 f"the job continued from step {at} to {later} ({where}), {folder.record('long').get('attempt')} attempt; "
                 + say(counts), "continues, is adopted, 1 attempt", ok, details=details)


def upgrade(setting):
    program = setting.copy_programs()
    folder = setting.folder(program)
    folder.drop("long", long_text(setting, 4))
    folder.start("--slots", "2")
    began = wait_until(lambda: folder.record("long").get("step", 0) > 0)
    for name in (program, program + "-train"):  # as a package manager does
        shutil.copy2(name, name + ".new")
        os.rename(name + ".new", name)
    folder.drop("new", folder.text(60, 3))
    runs_new = wait_until(lambda: folder.state("new") == "done")
    folder.kill()
    folder.drop("later", folder.text(60, 3))
    status = folder.finish("--slots", "2")
    counts, details = folder.faults(["long", "new", "later"], None)
    once = folder.record("long").get("attempt") == 1
    ok = began and runs_new and once and status == 0 and not any(counts.values())
    yield Result("both programs are replaced while a job runs, then the watch", "1",
                 f"{folder.record('long').get('attempt')} attempt; " + say(counts), "continues, is adopted, 1 attempt", ok,
                 details=details)


def stop_requests(setting):
    size = setting.size(4, 200)
    worst, total, details, stops = 0, {}, [], 0
    text = long_text(setting, 2)
    whole = setting.folder()
    whole.drop("a", text)
    whole.finish()
    expected = {"a": whole.weights("a")}
    whole.remove()
    for _ in range(size):
        folder = setting.folder()
        folder.drop("a", text)
        folder.start()
        wait_until(lambda: folder.record("a").get("step", 0) > 0 or folder.state("a") == "done")
        time.sleep(setting.random.uniform(0, 0.2))
        folder.stop()
        elsewhere = setting.folder(path=folder.path + "-elsewhere")
        shutil.copytree(folder.path, elsewhere.path, dirs_exist_ok=True, ignore=shutil.ignore_patterns(".trainspool"))
        before = len(details)
        status = elsewhere.finish()
        counts, lines = elsewhere.faults(["a"], expected)
        add(total, counts)
        details += lines
        log = elsewhere.job_log("a")
        stopped, resumed = re.search(r"stopped by SIGTERM.* at step (\d+)", log), re.search(r"resume: .*checkpoint-(\d+)", log)
        if stopped and resumed:
            stops += 1
            worst = max(worst, int(stopped.group(1)) - int(resumed.group(1)))
        if status != 0:
            details.append(f"{elsewhere.path}: watch --once ended with {status}")
            add(total, {"lost": 1})
        if len(details) == before:
            elsewhere.remove()
            folder.remove()
    yield Result("SIGTERM, then resumed in another folder", f"{stops} stops", f"{worst} steps repeated; {say(total)}",
                 "at most 1 step repeated, " + GOAL, stops > 0 and worst <= 1 and not any(total.values()), details=details)
