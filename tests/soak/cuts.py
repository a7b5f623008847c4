"""Power cuts: the image of a file system is copied while jobs run, and the copy is mounted.

The processes stand still while it is copied, because a copy of an image that changes is none that a power cut could
leave.  What they have not flushed is missing from it."""
import os
import signal
import subprocess
import time

from folder import read, wait_until
from kills import JOBS, drop_jobs, uninterrupted
from result import Result, Skip, add, say

IMAGE_MIB = 96
NAMES = ["a", "b", "c"]


def run(*command):
    done = subprocess.run(command, check=False, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    if done.returncode != 0:
        raise OSError(f"{' '.join(command)}: {done.stderr.decode(errors='replace').strip()}")


def try_run(*command):
    try:
        run(*command)
    except OSError as err:
        raise Skip(str(err).replace("\n", " ")) from err


def stand_still(folder, number):
    for pid in [folder.watch.pid, *folder.trainers()]:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            pass


def cut(folder, image, copy):
    """Copy the image now.  Return the jobs whose end the watch has reported."""
    stand_still(folder, signal.SIGSTOP)
    try:
        done = [name for name in NAMES if f"job {name}: done at step" in read(folder.log)]
        run("cp", "--sparse=always", image, copy)
    finally:
        stand_still(folder, signal.SIGCONT)
    return done


def torn(folder, name):
    """Return what is wrong with the text of a job, which the watch patches."""
    original = folder.text(*JOBS[name])
    text = read(folder.file(name + ".yaml"))
    if text == original:
        return None
    if text != original.replace("fp16: true", "fp16: false"):
        return "the text is neither the original nor the patched one"
    backups = folder.file(name + ".run", "backups")
    names = os.listdir(backups) if os.path.isdir(backups) else []
    if not any(read(os.path.join(backups, backup)) == original for backup in names):
        return "the text is patched and has no whole backup"
    return None


def check_copy(copy, done, expected, total, details):
    counts = {"lost": 0, "torn": 0}
    for name in NAMES:
        if not os.path.exists(copy.file(name + ".yaml")):
            counts["lost"] += 1
            details.append(f"{copy.path}/{name}: the job is not there")
        elif torn(copy, name):
            counts["torn"] += 1
            details.append(f"{copy.path}/{name}: {torn(copy, name)}")
    for name in done:
        if copy.state(name) != "done" or copy.weights(name) != expected[name]:
            counts["lost"] += 1
            details.append(f"{copy.path}/{name}: was reported as done, and is {copy.record(name)}")
    status = copy.finish("--slots", "2")
    after, lines = copy.faults(NAMES, expected)
    for key, count in after.items():
        counts[key] = counts.get(key, 0) + count
    counts["lost"] += status != 0
    details += lines
    add(total, counts)
    return not any(counts.values())


def unmount(path):
    wait_until(lambda: subprocess.run(["umount", path], stderr=subprocess.DEVNULL, check=False).returncode == 0, 20)


def some_cuts(setting, disk, image, judge, most):
    """Run the jobs once and cut the power at up to `most` random instants; `judge` looks at a copy and returns whether
    it is as it should be.  Return how often."""
    folder = setting.folder(path=os.path.join(disk, "spool"))
    drop_jobs(folder, NAMES, durable=True)
    fd = os.open(disk, os.O_RDONLY)
    os.fsync(fd)
    os.close(fd)
    subprocess.run(["sync", "-f", disk], check=True)
    folder.start("--slots", "2")
    for number in range(most):
        if number and folder.all_ended(NAMES):
            break
        time.sleep(setting.random.uniform(0, 0.4))
        copied, mounted = f"{image}.{number}", f"{disk}.{number}"
        done = cut(folder, image, copied)
        os.makedirs(mounted, exist_ok=True)
        run("mount", "-o", "loop", copied, mounted)
        try:
            copy = setting.folder(path=os.path.join(mounted, "spool"))
            good = judge(copy, done)
            copy.end_all()
        finally:
            unmount(mounted)
        os.remove(copied)
        if not good:
            break
    folder.end_all()
    return number + 1


def power_cuts(setting):
    if os.geteuid() != 0:
        raise Skip("only root can mount images")
    size = setting.size(3, 300)
    expected = uninterrupted(setting, NAMES)
    disk, image = os.path.join(setting.top, "disk"), os.path.join(setting.top, "image")
    os.mkdir(disk)
    total, details, cuts = {}, [], 0
    while cuts < size and not any(total.values()):
        with open(image, "wb") as file:
            file.truncate(IMAGE_MIB << 20)
        try_run("mkfs.ext4", "-q", "-F", image)
        try_run("mount", "-o", "loop", image, disk)
        try:
            cuts += some_cuts(setting, disk, image, lambda copy, done: check_copy(copy, done, expected, total, details),
                              min(size - cuts, 4))
        finally:
            setting.end_all()
            unmount(disk)
        os.remove(image)
    yield Result("power cuts, then resumed from the copy of the disk", f"{cuts} cuts", say(total),
                 "0 lost, 0 torn, 0 other bits", cuts > 0 and not any(total.values()), details=details)
