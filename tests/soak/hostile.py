"""Hostile files in the folder: each is refused quickly and in little memory, and the watch answers meanwhile."""
import gzip
import json
import os
import shutil
import struct
import subprocess
import threading
import time

from folder import read, wait_until
from result import Result

MIB = 1 << 20
REFUSED = ("rejected", "failed", "blocked")
INVALID = "stage: sft\nmodel_name_or_path: nowhere\nlearning_rate: -1\n...\n"


# ---- Job files ----

def alias_bomb(folder):
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    for level in range(1, 10):
        lines.append(f"a{level}: &a{level} [{', '.join([f'*a{level - 1}'] * 9)}]")
    return "\n".join(lines) + "\n"


def job_with(**settings):
    def write(folder):
        text = folder.text(steps=2)
        for key, value in settings.items():
            text = f"{key}: {value}\n" + "".join(line for line in text.splitlines(True)
                                                  if not line.startswith(key + ":"))
        return text
    return write


JOBS = {
    "alias bomb": alias_bomb,
    "100,000 open brackets": lambda folder: "a: " + "[" * 100000 + "\n",
    "100,000 open braces": lambda folder: "a: " + "{b: " * 100000 + "\n",
    "500,000 keys": lambda folder: "".join(f"k{i}: 1\n" for i in range(500000)),
    "60,000 keys": lambda folder: "".join(f"k{i}: 1\n" for i in range(60000)),
    "a scalar of 900,000 bytes": lambda folder: folder.text() + "run_name: " + "x" * 900000 + "\n",
    "a duplicate key": lambda folder: folder.text().replace("...\n", "") + "seed: 2\nseed: 3\n",
    "an anchor in itself": lambda folder: "a: &a [*a]\n",
    "a second document": lambda folder: folder.text().replace("...\n", "---\n") + folder.text(),
    "output_dir: /": job_with(output_dir="/"),
    "output_dir with ..": job_with(output_dir="../../../../etc"),
    "NUL bytes": lambda folder: folder.text().replace("...\n", "") + "run_name: a\0b\n",
    "not UTF-8": lambda folder: (folder.text().replace("...\n", "") + "run_name: ").encode() + b"\xff\xfe\n",
    "terminal escapes": lambda folder: folder.text().replace("...\n", "") + "x\x1b]0;owned\x07: 1\n",
}


# ---- Models ----

def safetensors(header, size):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + bytes(size)


def tensor(dtype, shape, begin, end):
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


WEIGHTS = {
    "a header length that wraps": lambda: struct.pack("<Q", 2**64 - 8) + b"{}",
    "a header longer than the file": lambda: struct.pack("<Q", 1 << 40) + b"{}",
    "a shape that overflows": lambda: safetensors({"a": tensor("F32", [2**33, 2**33], 0, 4)}, 4),
    "an end before its begin": lambda: safetensors({"a": tensor("F32", [1], 8, 4)}, 8),
    "overlapping tensors": lambda: safetensors({"a": tensor("F32", [2], 0, 8), "b": tensor("F32", [2], 4, 12)}, 12),
    "an unknown type": lambda: safetensors({"a": tensor("Z9", [1], 0, 4)}, 4),
    "a name twice": lambda: safetensors(b'{"a":' + json.dumps(tensor("F32", [1], 0, 4)).encode() + b',"a":'
                                + json.dumps(tensor("F32", [1], 4, 8)).encode() + b"}", 8),
    "a deep header": lambda: safetensors(b'{"a":' + b"[" * 1000000, 0),
    "79 MiB of header": lambda: safetensors(b"{" + b",".join(b'"l%d":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}' % i
                                                      for i in range(1450000)) + b"}", 4),
}


def model_with(folder, name, file, content):
    path = os.path.join(folder.setting.top, "hostile-" + name.replace(" ", "-"))
    shutil.copytree(folder.setting.model, path)
    with open(os.path.join(path, file), "wb") as out:
        out.write(content)
        out.flush()
        os.fsync(out.fileno())  # otherwise what the watch flushes waits for it
    return path


def weights_job(folder, name):
    path = model_with(folder, name, "model.safetensors", WEIGHTS[name]())
    return folder.text(steps=2).replace(folder.setting.model, path).replace("train_from_scratch: true\n", "")


def tokenizer_of(folder, change):
    tokenizer = json.loads(read(os.path.join(folder.setting.model, "tokenizer.json")))
    change(tokenizer)
    return json.dumps(tokenizer).encode()


def ids_out_of_range(tokenizer):
    vocabulary = tokenizer["model"]["vocab"]
    vocabulary[next(iter(vocabulary))] = 2**40


def foreign_merges(tokenizer):
    tokenizer["model"]["merges"] = [["no such token", "none"]] * 1000


TOKENIZERS = {
    "a token id of 2^40": lambda folder: tokenizer_of(folder, ids_out_of_range),
    "merges of unknown tokens": lambda folder: tokenizer_of(folder, foreign_merges),
    "a deep tokenizer": lambda folder: b'{"a":' + b"[" * 1000000,
}


def tokenizer_job(folder, name):
    path = model_with(folder, name, "tokenizer.json", TOKENIZERS[name](folder))
    return folder.text(steps=2).replace(folder.setting.model, path)


# ---- Data ----

DATA = {
    "a gz bomb": ("bomb.jsonl.gz", lambda: gzip.compress(bytes(200 * MIB), 9)),
    "an endless line": ("line.jsonl", lambda: b'{"text": "' + b"x" * (64 * MIB)),
    "a deep record": ("deep.jsonl", lambda: b'{"text": ' + b"[" * 1000000 + b"\n"),
    "zeros": ("zeros.jsonl", lambda: bytes(64 * MIB)),
    "half a surrogate": ("lone.jsonl", lambda: b'{"text": "\\ud800"}\n' * 3),
}


def data_job(folder, name):
    file, content = DATA[name]
    with open(folder.file(file), "wb") as out:
        out.write(content())
        out.flush()
        os.fsync(out.fileno())
    return folder.text(steps=2).replace("dataset: text.txt", f"dataset: {file}")


# ---- Names ----

def link_outside(folder, path):
    os.symlink("/etc/passwd", path)


def hard_link(folder, path):
    other = path + ".other"
    with open(other, "w", encoding="utf-8") as out:
        out.write(folder.text(steps=2))
    os.link(other, path)


def sparse_file(folder, path):
    with open(path, "wb") as out:
        out.truncate(1 << 40)


NAMES = {
    "a link to /etc/passwd": link_outside,
    "a second hard link": hard_link,
    "a FIFO": lambda folder, path: os.mkfifo(path),
    "a folder": lambda folder, path: os.mkdir(path),
    "a sparse file of 1 TiB": sparse_file,
}


# ---- Measurements ----

def check_cost(folder, path):
    """Return the milliseconds of processor time, the MiB and the exit status of `check`."""
    with open(os.devnull, "wb") as null:
        # fork instead of vfork: the peak of this process would count as that of the child
        check = subprocess.Popen([folder.program, "check", path], stdout=null, stderr=null, preexec_fn=os.getpid)
        _, status, usage = os.wait4(check.pid, 0)
    check.returncode = os.waitstatus_to_exitcode(status)
    return 1e3 * (usage.ru_utime + usage.ru_stime), usage.ru_maxrss / 1024, check.returncode


class Neighbor(threading.Thread):
    """Drops small invalid jobs next to the hostile one, and notes how long each takes to be rejected."""

    def __init__(self, folder, number):
        super().__init__()
        self.folder, self.number, self.times, self.over = folder, number, [], threading.Event()

    def run(self):
        count = 0
        while not self.over.is_set() or not self.times:
            name = f"near-{self.number}-{count}"
            started = time.monotonic()
            self.folder.drop(name, INVALID)
            wait_until(lambda n=name: self.folder.state(n) == "rejected", 60, every=0.002)
            self.times.append(time.monotonic() - started)
            count += 1
            time.sleep(0.02)


class Case:
    """A job, or anything else under the name of one.  Jobs whose models and data are hostile may fail instead of being
    rejected: their trainer reads them."""

    def __init__(self, name, text=None, make=None, may_fail=False):
        self.name, self.text, self.make, self.may_fail = name, text, make, may_fail


LARGE = ("79 MiB of header",)  # takes a while to write


def cases():
    for name, text in JOBS.items():
        yield Case(name, lambda folder, text=text: text(folder))
    for name in WEIGHTS:
        yield Case(name, lambda folder, name=name: weights_job(folder, name), may_fail=True)
    for name in TOKENIZERS:
        yield Case(name, lambda folder, name=name: tokenizer_job(folder, name), may_fail=True)
    for name in DATA:
        yield Case(name, lambda folder, name=name: data_job(folder, name), may_fail=True)
    for name, make in NAMES.items():
        yield Case(name, make=make)


def drop(folder, case, name):
    if case.make:
        case.make(folder, folder.file(name + ".new"))
        os.rename(folder.file(name + ".new"), folder.file(name + ".yaml"))
    else:
        text = case.text(folder)
        with open(folder.file(name + ".new"), "wb") as out:
            out.write(text if isinstance(text, bytes) else text.encode())
        os.rename(folder.file(name + ".new"), folder.file(name + ".yaml"))


def try_case(folder, case, number):
    """Return what is wrong, milliseconds and MiB of `check`, and the neighbor's longest seconds."""
    name = f"hostile-{number:02d}"
    neighbor = Neighbor(folder, number)
    drop(folder, case, name)
    neighbor.start()
    refused = wait_until(lambda: folder.state(name) in REFUSED + ("done",), 3 if case.make else 60)
    neighbor.over.set()
    neighbor.join()
    state = folder.state(name)
    wrong = None
    if state in ("done", "running", "ready") or not (refused or case.make):
        wrong = f"{case.name}: {state}, {folder.record(name).get('reason')}"
    elif state == "failed" and not case.may_fail:
        wrong = f"{case.name}: was started, {folder.record(name).get('reason')}"
    elif folder.record(name).get("crashes"):
        wrong = f"{case.name}: the trainer crashed, {folder.record(name).get('reason')}"
    ms, mib, status = check_cost(folder, folder.file(name + ".yaml"))
    if status < 0:
        wrong = f"{case.name}: check was killed by signal {-status}"
    return wrong, ms, mib, max(neighbor.times)


def hostile(setting):
    folder = setting.folder()
    folder.start("--slots", "2")
    wait_until(lambda: "info watch: " in read(folder.log))
    wrong, slow, large, deaf, worst = [], [], [], [], [0, 0, 0]
    chosen = [case for case in cases() if not setting.small or case.name not in LARGE]
    if setting.number:
        chosen = setting.random.sample(chosen, min(setting.number, len(chosen)))
    for number, case in enumerate(chosen):
        problem, ms, mib, near = try_case(folder, case, number)
        wrong += [problem] if problem else []
        slow += [f"{case.name} {ms:.0f} ms"] if ms > 50 else []
        large += [f"{case.name} {mib:.0f} MiB"] if mib > 64 else []
        deaf += [f"{case.name} {1e3 * near:.0f} ms"] if near > 0.1 else []
        worst = [max(pair) for pair in zip(worst, (ms, mib, near))]
    ended = folder.watch.poll()
    folder.stop()
    if ended is not None:
        wrong.append(f"the watch ended with {ended}")
    size = f"{len(chosen)} files"
    yield Result("hostile files", size, f"{len(wrong)} not refused", "each refused", not wrong, details=wrong)
    for goal, found, most, value in (
            ("processor time of check", slow, f"at most {worst[0]:.0f} ms", "50 ms"),
            ("memory of check", large, f"at most {worst[1]:.0f} MiB", "64 MiB"),
            ("a small job next to one is rejected", deaf, f"within {1e3 * worst[2]:.0f} ms", "100 ms")):
        yield Result("hostile files: " + goal, size, "; ".join([most, *found]), value, not found, measured=True)
