"""The wall clock jumps while jobs run, are dropped and are being written.  Only the processes of the row see it."""
import glob
import os
import time

from folder import read, wait_until
from kills import JOBS, long_text, uninterrupted
from result import Result, Skip, add, say

LIBRARIES = "/usr/lib/*/faketime/libfaketime.so.1"
# the offset of the clock, in seconds: a day forward, a day back, the year 1970
JUMPS = {"a day forward": lambda: 86400, "a day back": lambda: -86400, "to 1970": lambda: 86400 - int(time.time())}


def set_clock(path, seconds):
    with open(path + ".new", "w", encoding="utf-8") as file:
        file.write(f"{seconds:+d}\n")
    os.rename(path + ".new", path)


def write_slowly(folder, name, text, in_between):
    """Write the first lines, which are a valid job, and the rest after something else has happened."""
    lines = text.splitlines(True)
    at = next(i for i, line in enumerate(lines) if line.startswith("max_steps"))
    with open(folder.file(name + ".yaml"), "w", encoding="utf-8") as file:
        file.writelines(lines[:at])
    time.sleep(0.2)
    in_between()
    time.sleep(0.4)
    with open(folder.file(name + ".yaml"), "a", encoding="utf-8") as file:
        file.writelines(lines[at:])


def jump(setting, library, seconds, contained, expected):
    folder = setting.folder()
    clock = folder.path + ".clock"
    set_clock(clock, 0)
    env = dict(os.environ, LD_PRELOAD=library, FAKETIME_TIMESTAMP_FILE=clock, FAKETIME_NO_CACHE="1",
               FAKETIME_DONT_FAKE_MONOTONIC="1")
    # contained trainers have no LD_PRELOAD: their clock differs from that of the watch
    folder.start("--slots", "2", *([] if contained else ["--no-sandbox"]), env=env)
    wait_until(lambda: "info watch: " in read(folder.log))
    folder.drop("long", long_text(setting, 2).replace("max_retries", "timeout: 1h\n  max_retries"))
    wait_until(lambda: folder.state("long") != "new" and folder.record("long").get("step", 0) > 0)
    folder.drop("b", folder.text(*JOBS["b"]))
    write_slowly(folder, "c", folder.text(*JOBS["c"]), lambda: set_clock(clock, seconds))
    folder.drop("a", folder.text(*JOBS["a"]))
    wait_until(lambda: folder.all_ended(["a", "b", "c"]))
    set_clock(clock, 0)
    folder.drop("d", folder.text(*JOBS["d"]))
    wait_until(lambda: folder.all_ended(["long", *JOBS]))
    log = read(folder.log)
    folder.stop()
    counts, details = folder.faults(JOBS, expected)
    add(counts, folder.faults(["long"], None)[0])
    again = [name for name in ("long", *JOBS) if folder.record(name).get("attempt") != 1]
    add(counts, {"restarted": len(again)})
    # without this the row would prove nothing
    jumped = len({line[:4] for line in log.splitlines()} | {line[:10] for line in log.splitlines()}) > 2
    return counts, details + [f"{folder.path}: {name} was started more than once" for name in again], jumped


def is_sanitized(program):
    with open(program, "rb") as file:
        return b"__asan_init" in file.read()


def clocks(setting):
    libraries = glob.glob(LIBRARIES)
    if not libraries:
        raise Skip("no libfaketime (package faketime)")
    if is_sanitized(setting.program):
        raise Skip("libfaketime hangs in a program with AddressSanitizer")
    expected = uninterrupted(setting)
    total, details, jumps, seen = {}, [], [], True
    for name, seconds in JUMPS.items():
        for contained in (True, False):
            counts, lines, jumped = jump(setting, libraries[0], seconds(), contained, expected)
            add(total, counts)
            details += lines
            seen = seen and jumped
        jumps.append(name)
    if not seen:
        details.append("the watch did not see the other time")
    yield Result("the clock jumps and returns", ", ".join(jumps), say(total), "nothing started, killed or expired wrongly",
                 seen and not any(total.values()), details=details)
