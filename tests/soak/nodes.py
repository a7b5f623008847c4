"""Three nodes share a folder: watches, trainers and whole nodes are killed or stand still while jobs arrive."""
import os
import signal
import subprocess
import time

from folder import PATIENCE, read, wait_until
from result import Result, add, say

NODES = ("boxa", "boxb", "boxc")
KINDS = ((20, 1), (60, 2), (120, 3), (240, 4))  # steps and seed
GOAL = "0 lost, 0 failed, 0 twice, 0 other bits; several nodes ran some"
OPTIONS = ("--slots", "2")


class Nodes:
    """The watches of a folder, one for each name."""

    def __init__(self, folder):
        self.folder = folder
        self.watches = {}

    def start(self, name):
        with open(f"{self.folder.path}.{name}.log", "ab") as log:
            self.watches[name] = subprocess.Popen(self.folder.command("--node", name, *OPTIONS), stdout=log, stderr=log,
                                                  stdin=subprocess.DEVNULL)

    def signal(self, name, number):
        if self.watches[name].poll() is None:
            self.watches[name].send_signal(number)

    def end(self, name, number):
        self.signal(name, number)
        self.watches[name].wait(PATIENCE)

    def trainers(self, node):
        """Return the processes of the jobs that the node started."""
        found = []
        for pid in self.folder.trainers():
            job = read(f"/proc/{pid}/cmdline").rstrip("\0").split("\0")[-1]
            if self.folder.record(os.path.basename(job).removesuffix(".yaml")).get("node") == node:
                found.append(pid)
        return found


def kill_all(pids):
    for pid in pids:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass


def disturb(nodes, random):
    """Do something to one node; return what."""
    name = random.choice(NODES)
    what = random.choices(("watch", "node", "trainer", "frozen", "ended"), (4, 2, 3, 2, 1))[0]
    if what == "watch":
        nodes.end(name, signal.SIGKILL)
    elif what == "node":
        nodes.signal(name, signal.SIGSTOP)  # it must not see its trainers end
        kill_all(nodes.trainers(name))
        nodes.end(name, signal.SIGKILL)
    elif what == "trainer":
        kill_all(nodes.trainers(name)[:1])
    elif what == "frozen":
        nodes.signal(name, signal.SIGSTOP)
        time.sleep(random.uniform(0, 2))
        nodes.signal(name, signal.SIGCONT)
    else:
        nodes.end(name, signal.SIGTERM)
    if nodes.watches[name].poll() is not None:
        time.sleep(random.uniform(0, 1))
        nodes.start(name)
    return what


def undisturbed(setting):
    """Return the digests of the weights of the kinds of jobs."""
    folder = setting.folder()
    for i, (steps, seed) in enumerate(KINDS):
        folder.drop(f"k{i}", folder.text(steps, seed))
    if folder.finish(*OPTIONS) != 0:
        raise RuntimeError(f"the jobs do not run undisturbed\n{read(folder.log)}")
    expected = [folder.weights(f"k{i}") for i in range(len(KINDS))]
    folder.remove()
    return expected


def several_nodes(setting):
    count = setting.size(24, 500)
    digests = undisturbed(setting)
    folder, random = setting.folder(), setting.random
    nodes = Nodes(folder)
    names = [f"n{i:04}" for i in range(count)]
    expected = {name: digests[i % len(KINDS)] for i, name in enumerate(names)}
    done, events, began = 0, {}, time.monotonic()
    for name in NODES:
        nodes.start(name)
    try:
        while done < count:
            for name in names[done:done + random.randint(1, 12)]:
                folder.drop(name, folder.text(*KINDS[names.index(name) % len(KINDS)], more="  device: cpu\n  threads: 1\n"))
                done += 1
            add(events, {disturb(nodes, random): 1})
            time.sleep(random.uniform(0, 0.5))
        wait_until(lambda: folder.all_ended(names), PATIENCE + 2 * count, 0.2)
    finally:
        for name in NODES:
            nodes.end(name, signal.SIGKILL)
    total, details = folder.faults(names, expected)
    ran = {node: sum(folder.record(name).get("node") == node for name in names) for node in NODES}
    ok = sum(total.values()) == 0 and sum(number > 0 for number in ran.values()) > 1
    yield Result("three nodes are killed, end, and stand still", f"{count} jobs, {say(events)}",
                 f"{say(total)}; {say(ran)} in {time.monotonic() - began:.0f} s", GOAL, ok, details=details)
    if ok:
        folder.remove()
