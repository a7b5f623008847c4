"""A week of one job per second, as fast as it goes: what the watch holds must not grow."""
import os
import signal
import time

from crowds import idle_text, runs
from folder import read, wait_until
from result import Result

ROUND = 100  # jobs; their files are removed afterward, as people do


def resident_kib(pid):
    for line in read(f"/proc/{pid}/status").splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1])
    return 0


def held(folder):
    """Return the descriptors of the watch, the entries of its folder without jobs, and its resident KiB."""
    entries = [name for name in os.listdir(folder.path) if not name.endswith((".yaml", ".run"))]
    return (len(os.listdir(f"/proc/{folder.watch.pid}/fd")), len(entries) + len(os.listdir(folder.file(".trainspool"))),
            resident_kib(folder.watch.pid))


def links(folder):
    """Return what the descriptors of the watch are."""
    found = []
    for name in os.listdir(f"/proc/{folder.watch.pid}/fd"):
        try:
            found.append(f"{name}: " + os.readlink(f"/proc/{folder.watch.pid}/fd/{name}"))
        except FileNotFoundError:
            pass
    return found


def held_at_rest(folder, descriptors):
    """Return what it holds when it has no more descriptors than these, or after 60 s: it may still look at the files
    that were removed, for long on a busy machine."""
    now = held(folder)
    for _ in range(600):
        if now[0] <= descriptors:
            break
        time.sleep(0.1)
        now = held(folder)
    return now


def one_round(setting, folder, number, kills):
    """Drop jobs, one of them slow enough to be killed, and remove them once they are done.  Return the lost ones."""
    text = idle_text(folder)
    names = [f"job-{number}-{i}" for i in range(ROUND - 1)] + [f"slow-{number}"]
    for name in names:
        folder.drop(name, text)
    wait_until(lambda: any(job == names[-1] for _, job in runs(folder, "begin")), every=0.01)
    if setting.random.random() < 0.5:
        for pid in folder.trainers()[:1]:
            try:
                os.kill(pid, signal.SIGKILL)
                kills["trainers"] += 1
            except ProcessLookupError:
                pass
    wait_until(lambda: all(folder.state(name) == "done" for name in names), every=0.05)
    lost = [name for name in names if folder.state(name) != "done"]
    folder.remove_jobs(names)
    return lost


def week(setting):
    rounds = max(3, setting.size(300, 604800) // ROUND)
    folder = setting.folder(setting.idle_programs())
    folder.start("--slots", "2")
    wait_until(lambda: "info watch: " in read(folder.log))
    samples, lost, kills = [], [], {"trainers": 0, "watches": 0}
    for number in range(rounds):
        lost += one_round(setting, folder, number, kills)
        time.sleep(0.2)
        samples.append(held_at_rest(folder, samples[0][0]) if samples else held(folder))
    open_at_end = links(folder)
    # the entries that kills of the watch leave
    for number in range(rounds, rounds + max(2, rounds // 20)):
        folder.kill()
        kills["watches"] += 1
        folder.start("--slots", "2")
        lost += one_round(setting, folder, number, kills)
    entries = held(folder)[1]
    folder.stop()
    settled, last = samples[len(samples) // 3], samples[-1]
    growth = last[2] - settled[2]
    size = f"{len(samples) * ROUND:,} jobs, {kills['trainers']} kills of trainers, {kills['watches']} of the watch"
    yield Result("a simulated week: descriptors and entries of the folder", size,
                 f"descriptors {settled[0]} to {last[0]}, entries {settled[1]} to {last[1]}, {entries} after kills of the "
                 f"watch; {len(lost)} lost", "flat, 0 lost",
                 last[0] <= settled[0] + 2 and last[1] <= settled[1] and entries <= settled[1] and not lost,
                 details=lost + open_at_end)
    yield Result("a simulated week: resident memory of the watch", size, f"{settled[2]} KiB to {last[2]} KiB",
                 "flat: at most 1 MiB more", growth <= 1024, measured=True)
