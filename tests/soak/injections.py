"""Faults of the machine: an error of one call, once or for a while."""
import time
from concurrent.futures import ThreadPoolExecutor

from folder import PATIENCE, read, wait_until
from kills import calls_of_once, can_trace, detach_after, end_tracer, start_traced, uninterrupted, was_cut
from result import Result, Skip, add, say

DISK = ("ENOSPC", "EIO", "EROFS", "EDQUOT")
ERRORS = {
    "openat": DISK + ("EMFILE", "EINTR"),
    "openat2": DISK + ("EMFILE", "EINTR"),
    "mkdirat": DISK,
    "mkdir": DISK,
    "renameat": DISK,
    "rename": DISK,
    "unlinkat": ("EIO", "EROFS"),
    "linkat": DISK,
    "write": ("ENOSPC", "EIO", "EDQUOT", "EINTR"),
    "read": ("EIO", "EINTR"),
    "pread64": ("EIO", "EINTR"),
    "ftruncate": ("EIO", "EINTR"),
    "fsync": ("ENOSPC", "EIO", "EDQUOT", "EINTR"),
    "fdatasync": ("ENOSPC", "EIO", "EDQUOT", "EINTR"),
    "getdents64": ("EIO", "EINTR"),
    "newfstatat": ("EIO",),
    "flock": ("EINTR",),
    "pipe2": ("EMFILE",),
    "pidfd_open": ("EMFILE",),
    "socketpair": ("EMFILE",),
}
GOAL = "0 crashes, 0 lost, 0 rejected or failed"


def judge(folder, crashed, expected):
    """Return the counts of what must not be, and how to find it."""
    state, record = folder.state("c"), folder.record("c")
    counts = {"crashes": int(crashed or record.get("crashes", 0) > 0),
              "lost": int(state in ("new", "ready", "running", "blocked")),
              "rejected or failed": int(state in ("rejected", "failed", "stopped")),
              "other bits": int(state == "done" and folder.weights("c") != expected["c"])}
    return counts, [f"{folder.path}: {record}"] if any(counts.values()) else []


def once(folder, call, error, number, expected):
    """Return counts, details, whether the fault was met, whether the watch ended, seconds until the job was done."""
    folder.drop("c", folder.text(60, 3))
    tracer, trace = start_traced(folder, "-e", f"trace={call}", "-e", f"inject={call}:error={error}:when={number}")
    met = detach_after(trace, tracer, "(INJECTED)")
    since = time.monotonic()
    status = folder.watch.wait(PATIENCE)
    crashed, ended = status < 0, status not in (0, 3)
    if status != 0:  # as a service manager does
        crashed = folder.finish() < 0 or crashed
    seconds = time.monotonic() - since
    counts, details = judge(folder, crashed, expected)
    if details:
        details.append(f"  after {error} of call {number} of {call}; the watch ended with {status}")
    else:
        folder.remove()
    return counts, details, met, ended, seconds


def lasting(folder, call, error, number, expected):
    """The same, for a fault of all calls from the N-th on that ends three seconds after it was met."""
    tracer, trace = start_traced(folder, "-e", f"trace={call}", "-e", f"inject={call}:error={error}:when={number}+",
                                 options=())
    wait_until(lambda: "info watch: " in read(folder.log) or folder.watch.poll() is not None, 10)
    folder.drop("c", folder.text(60, 3))
    met = wait_until(lambda: "(INJECTED)" in read(trace) or folder.all_ended(["c"]), every=0.1)
    met = met and "(INJECTED)" in read(trace)
    if met:
        time.sleep(3)
    end_tracer(trace, tracer)
    since = time.monotonic()
    ended = folder.watch.poll() is not None
    crashed = ended and folder.watch.returncode < 0
    if ended:
        folder.start()
    wait_until(lambda: folder.all_ended(["c"]))
    seconds = time.monotonic() - since
    folder.stop()
    counts, details = judge(folder, crashed, expected)
    if details:
        details.append(f"  after {error} from call {number} of {call} on, for 3 s")
    else:
        folder.remove()
    return counts, details, met, ended, seconds


def try_one(setting, trial, point, expected):
    """Return what the trial does; without anything wrong if its tracer was detached within a call, which then failed
    with an error that no machine has."""
    for _ in range(3):
        folder = setting.folder()
        result = trial(folder, *point, expected)
        if not result[1] or not was_cut(folder.path + ".trace"):
            return result
        folder.remove()
    return {}, [], False, False, 0


def try_all(setting, trial, size):
    expected = uninterrupted(setting, ["c"])
    counts = calls_of_once(setting, ERRORS)
    points = [(call, error, number) for call, errors in ERRORS.items() for error in errors
              for number in range(1, counts.get(call, 0) + 1)]
    chosen = setting.random.sample(points, min(size, len(points)))
    with ThreadPoolExecutor(4) as pool:  # each mostly waits
        return list(pool.map(lambda point: try_one(setting, trial, point, expected), chosen))


def rows(setting, trial, size, goal):
    if not can_trace():
        raise Skip("no strace(1), or it may not trace")
    total, details, met, ended, slowest = {}, [], 0, 0, 0
    for counts, lines, was_met, has_ended, seconds in try_all(setting, trial, size):
        add(total, counts)
        details += lines
        met += was_met
        ended += was_met and has_ended
        slowest = max(slowest, seconds)
    yield Result(goal, f"{met} faults met in {size} trials", f"{say(total)}; {ended} times the watch could not start", GOAL,
                 met > 0 and not any(total.values()), details=details)
    yield Result(goal + ": the job is done after the fault", f"{size} trials", f"within {slowest:.1f} s", "10 s",
                 slowest <= 10, measured=True)


def faults_once(setting):
    yield from rows(setting, once, setting.size(8, 2000), "one failing call")


def faults_lasting(setting):
    yield from rows(setting, lasting, setting.size(6, 400), "a call fails for 3 s")
