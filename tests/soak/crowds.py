"""Many jobs of a trainer that does nothing: each runs once; latency, rate and memory."""
import os
import subprocess
import time

from folder import PATIENCE, read, wait_until
from result import Result, percentile

IDLE = """model_name_or_path: {model}
train_from_scratch: true
stage: pt
finetuning_type: full
dataset: text.txt
cutoff_len: 32
{more}learning_rate: 1.0e-3
max_steps: 1
...
"""


def idle_text(folder, patch=False):
    return IDLE.format(model=folder.setting.model, more="fp16: true\n" if patch else "")


def runs(folder, what="end"):
    """Return (seconds, job) of each begin or end that the trainer recorded."""
    found = []
    for line in read(os.path.join(os.path.dirname(folder.program), "starts")).splitlines():
        words = line.split(" ", 2)
        if words[0] == what and len(words) == 3:
            found.append((float(words[1]), words[2]))
    return found


def drop_many(folder, count):
    text = idle_text(folder)
    names = [f"job-{number:05d}" for number in range(count)]
    for name in names:
        folder.drop(name, text)
    return names


def peak_mib(pid):
    for line in read(f"/proc/{pid}/status").splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 1024
    return 0


def crowd(setting, count, stopped):
    """Drop the jobs at once.  Return the folder, its names, seconds from the first drop to the last end, MiB."""
    folder = setting.folder(setting.idle_programs())
    folder.start("--slots", "2")
    wait_until(lambda: "info watch: " in read(folder.log))
    if stopped:
        os.kill(folder.watch.pid, 19)  # SIGSTOP
    started = time.clock_gettime(time.CLOCK_BOOTTIME)
    names = drop_many(folder, count)
    if stopped:
        os.kill(folder.watch.pid, 18)  # SIGCONT
    patience = PATIENCE + count / 20
    wait_until(lambda: len(runs(folder)) >= count, patience, every=0.5)
    wait_until(lambda: folder.all_ended(names[-1:]), 30)
    ends = runs(folder)
    seconds = max((at for at, _ in ends), default=started) - started
    peak = peak_mib(folder.watch.pid)
    folder.stop()
    return folder, names, seconds, peak


def each_once(folder, names):
    ends = [name for _, name in runs(folder)]
    missing = [name for name in names if name not in set(ends) or folder.state(name) != "done"]
    twice = len(ends) - len(set(ends))
    return len(missing), twice, [f"{folder.path}/{name}: {folder.record(name)}" for name in missing]


def crowd_rows(setting, count, stopped, goal):
    folder, names, seconds, peak = crowd(setting, count, stopped)
    missing, twice, details = each_once(folder, names)
    yield Result(goal, f"{count:,} jobs", f"{missing} lost, {twice} twice", "each exactly once",
                 missing == 0 and twice == 0, details=details)
    yield Result(goal + ": peak memory of the watch", f"{count:,} jobs", f"{peak:.1f} MiB", "64 MiB", peak <= 64,
                 measured=True)


def at_once(setting):
    yield from crowd_rows(setting, setting.size(150, 10000), False, "jobs dropped at once")


def while_stopped(setting):
    yield from crowd_rows(setting, setting.size(150, 20000), True, "jobs dropped while the watch is stopped")


def rate(setting):
    count = setting.size(200, 1000)
    _, _, seconds, _ = crowd(setting, count, False)
    per_second = count / seconds if seconds > 0 else 0
    yield Result("jobs that do nothing, 2 slots", f"{count:,} jobs", f"{per_second:.0f} per second", "800 per second",
                 per_second >= 800, measured=True)


# ---- latency ----

def bare_starts(folder, count):
    trainer = folder.program + "-train"
    times = []
    for _ in range(count):
        started = time.clock_gettime(time.CLOCK_BOOTTIME)
        pid = os.posix_spawn(trainer, [trainer, "--begin"], os.environ)
        os.waitpid(pid, 0)
        times.append(runs(folder, "begin")[-1][0] - started)
    return times


def drop_times(folder, count, patch):
    text = idle_text(folder, patch)
    times = []
    for number in range(count):
        name = f"{'patch' if patch else 'plain'}-{number:04d}"
        temporary = folder.file("." + name)
        with open(temporary, "w", encoding="utf-8") as file:
            file.write(text)
        started = time.clock_gettime(time.CLOCK_BOOTTIME)
        os.rename(temporary, folder.file(name + ".yaml"))
        if not wait_until(lambda: folder.state(name) == "done", every=0.005):
            break
        times += [at - started for at, job in runs(folder, "begin")[-1:] if job == name]
        time.sleep(0.05)  # let the watch notice the end
    return times


def start_latency(setting):
    count = setting.size(20, 500)
    folder = setting.folder(setting.idle_programs())
    folder.start("--slots", "2")
    drop_times(folder, 3, False)
    bare = bare_starts(folder, count)
    bare50 = 1e3 * percentile(bare, 0.5)
    yield Result("bare fork and exec", f"{count} starts",
                 f"p50 {bare50:.2f} ms, p99 {1e3 * percentile(bare, 0.99):.2f} ms", "reference", True, measured=True)
    for patch, most50, most99 in ((False, 2, 5), (True, 4, None)):
        folder = setting.folder(setting.idle_programs())
        folder.start("--slots", "2")
        wait_until(lambda: "info watch: " in read(folder.log))
        times = drop_times(folder, count, patch)
        p50, p99 = 1e3 * percentile(times, 0.5), 1e3 * percentile(times, 0.99)
        yield Result(f"from drop to start{', with patch and backup' if patch else ''}, idle", f"{len(times)} jobs",
                     f"p50 {p50:.2f} ms ({p50 / bare50:.1f} x fork and exec), p99 {p99:.2f} ms",
                     f"p50 {most50} ms" + (f", p99 {most99} ms" if most99 else ""),
                     p50 <= most50 and (not most99 or p99 <= most99), measured=True)
        folder.stop()


def status(setting):
    count = setting.size(150, 10000)
    folder, names, _, _ = crowd(setting, count, False)
    times = []
    listed = 0
    for _ in range(7):
        started = time.monotonic()
        out = subprocess.run([folder.program, "status", "--json", folder.path], stdout=subprocess.PIPE, check=False)
        times.append(time.monotonic() - started)
        listed = out.stdout.count(b'"state":"done"')
    yield Result("status --json lists finished jobs", f"{count:,} jobs", f"{listed:,} listed", "all", listed == len(names))
    took = 1e3 * percentile(times, 0.5)
    yield Result("status --json", f"{count:,} jobs", f"{took:.0f} ms", "50 ms", took <= 50, measured=True)
    before = len(runs(folder, "begin"))
    folder.drop("new", idle_text(folder))
    started = time.clock_gettime(time.CLOCK_BOOTTIME)
    folder.start("--slots", "2")
    found = wait_until(lambda: folder.state("new") == "done")
    begins = [at for at, job in runs(folder, "begin") if job == "new"]
    again = len(runs(folder, "begin")) - before - len(begins)
    folder.stop()
    yield Result("a watch starts over finished jobs", f"{count:,} jobs", f"{again} run again", "0",
                 found and again == 0)
    took = begins[0] - started if begins else PATIENCE
    yield Result("start of a watch to start of a new job", f"{count:,} jobs", f"{took:.2f} s", "1 s", took <= 1,
                 measured=True)
