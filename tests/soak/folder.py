"""A watched folder with small jobs, its watch, and what is left of the jobs afterward."""
import hashlib
import json
import os
import shutil
import signal
import subprocess
import tempfile
import time

PATIENCE = 180  # seconds for what takes one or two: the machine may be busy

JOB = """model_name_or_path: {model}
train_from_scratch: true
stage: pt
finetuning_type: full
dataset: text.txt
cutoff_len: 32
fp16: true
per_device_train_batch_size: 1
learning_rate: 1.0e-3
logging_steps: 10
save_steps: 20
save_total_limit: 2
max_steps: {steps}
seed: {seed}
trainspool:
  max_retries: 100
{more}...
"""
FINAL = ("done", "failed", "rejected", "stopped")


class Setting:
    """What all rows share: the programs, a temporary folder, a tiny model, a generator of random numbers."""

    def __init__(self, build, source, small, number, random):
        self.build, self.source = os.path.abspath(build), os.path.abspath(source)
        self.small, self.number, self.random = small, number, random
        self.top = tempfile.mkdtemp(prefix="trainspool-soak-")
        self.program = os.path.join(self.build, "trainspool")
        self.folders = 0
        self.open = []
        self.model = os.path.join(self.top, "model")
        self._make_model()

    def _make_model(self):
        """34,976 parameters: 100 steps and a checkpoint take milliseconds."""
        sample = os.path.join(self.source, "jobs/samples/models/units-1m")
        shutil.copytree(sample, self.model)
        os.chmod(self.model, 0o755)
        path = os.path.join(self.model, "config.json")
        os.chmod(path, 0o644)
        with open(path, encoding="utf-8") as file:
            config = json.load(file)
        config.update(hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=2,
                      num_key_value_heads=1, head_dim=16)
        with open(path, "w", encoding="utf-8") as file:
            json.dump(config, file)

    def size(self, small, full):
        return self.number or (small if self.small else full)

    def folder(self, program=None, path=None):
        self.folders += 1
        folder = Folder(self, path or os.path.join(self.top, f"folder-{self.folders}"), program or self.program)
        self.open.append(folder)
        return folder

    def copy_programs(self, trainer=None):
        """Return the path of a copy of trainspool, next to a copy of its trainer or of another one."""
        self.folders += 1
        bin_dir = os.path.join(self.top, f"bin-{self.folders}")
        os.mkdir(bin_dir)
        shutil.copy2(self.program, bin_dir)
        real = os.path.join(self.build, "trainspool-train")
        shutil.copy2(trainer or real, os.path.join(bin_dir, "trainspool-train"))
        if trainer:
            os.symlink(real, os.path.join(bin_dir, "trainspool-train.real"))
        return os.path.join(bin_dir, "trainspool")

    def idle_programs(self):
        return self.copy_programs(os.path.join(self.build, "tests/soak/idle_trainer"))

    def end_all(self):
        """End what a row has left running, however it ended."""
        for folder in self.open:
            folder.end_all()

    def close(self):
        shutil.rmtree(self.top, ignore_errors=True)


def wait_until(condition, seconds=PATIENCE, every=0.02):
    """Return whether the condition became true in time."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(every)
    return True


def read(path, mode="r"):
    try:
        with open(path, mode, **({} if "b" in mode else {"encoding": "utf-8", "errors": "replace"})) as file:
            return file.read()
    except OSError:
        return b"" if "b" in mode else ""


class Folder:
    def __init__(self, setting, path, program):
        self.setting, self.path, self.program = setting, path, program
        self.watch = None
        self.number = 0
        os.makedirs(path, exist_ok=True)
        self.log = path.rstrip("/") + ".log"
        if not os.path.exists(self.file("text.txt")):
            with open(self.file("text.txt"), "w", encoding="utf-8") as text:
                for i in range(300):
                    text.write(f"Tom has {i} apples and gives {i % 7} away, so he has {i - i % 7} left.\n")

    def file(self, *names):
        return os.path.join(self.path, *names)

    def text(self, steps=60, seed=1, more=""):
        return JOB.format(model=self.setting.model, steps=steps, seed=seed, more=more)

    def drop(self, name, text, durable=False):
        """Rename a job into the folder, as a careful program does."""
        temporary = self.file(f".{name}.new")
        with open(temporary, "w", encoding="utf-8") as file:
            file.write(text)
            if durable:
                file.flush()
                os.fsync(file.fileno())
        os.rename(temporary, self.file(name + ".yaml"))
        if durable:
            fd = os.open(self.path, os.O_RDONLY)
            os.fsync(fd)
            os.close(fd)

    # ---- the watch ----

    def command(self, *options):
        return [self.program, "watch", *options, self.path]

    def start(self, *options, before=(), env=None):
        log = open(self.log, "ab")
        self.watch = subprocess.Popen([*before, *self.command(*options)], stdout=log, stderr=log,
                                      stdin=subprocess.DEVNULL, env=env)
        log.close()
        return self.watch

    def finish(self, *options, env=None):
        """Run `watch --once` until no job is left; return its status, 3 also if it takes too long."""
        self.start("--once", *options, env=env)
        try:
            return self.watch.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.kill()
            return 3

    def kill(self, number=signal.SIGKILL):
        if self.watch and self.watch.poll() is None:
            self.watch.send_signal(number)
        if self.watch:
            self.watch.wait(PATIENCE)

    def stop(self):
        self.kill(signal.SIGTERM)

    def trainers(self):
        """Return the ids of the processes of jobs of this folder; also of those that an earlier watch started."""
        found = []
        for pid in os.listdir("/proc"):
            try:
                if pid.isdigit() and os.readlink(f"/proc/{pid}/cwd") == self.path:
                    words = read(f"/proc/{pid}/cmdline").split("\0")
                    if os.path.basename(words[0]) == "trainspool-train" and "--lock-fd=3" in words:
                        found.append(int(pid))
            except OSError:
                continue
        return found

    def end_all(self):
        self.kill()
        for pid in self.trainers():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        wait_until(lambda: not self.trainers())

    def remove(self):
        self.end_all()
        shutil.rmtree(self.path, ignore_errors=True)

    def remove_jobs(self, names):
        for name in names:
            os.remove(self.file(name + ".yaml"))
            shutil.rmtree(self.file(name + ".run"))

    # ---- the jobs ----

    def record(self, name):
        try:
            return json.loads(read(self.file(name + ".run", "state.json")))
        except ValueError:
            return {}

    def state(self, name):
        return self.record(name).get("state", "new")

    def job_log(self, name):
        return read(self.file(name + ".run", "train.log"))

    def weights(self, name):
        return hashlib.sha256(read(self.file(name + ".run", "model.safetensors"), "rb")).hexdigest()

    def all_ended(self, names):
        return all(self.state(name) in FINAL for name in names)

    def faults(self, names, expected):
        """Count what must not be: `expected` has the digest of each job's weights."""
        counts = {"lost": 0, "failed": 0, "twice": 0, "other bits": 0}
        details = []
        for name in names:
            state = self.state(name)
            wrong = None
            if state in ("failed", "rejected", "stopped"):
                wrong = "failed"
            elif state != "done":
                wrong = "lost"
            elif expected and self.weights(name) != expected[name]:
                wrong = "other bits"
            elif self.ran_again(name):
                wrong = "twice"
            if wrong:
                counts[wrong] += 1
                details.append(f"{self.path}/{name}: {wrong}: {json.dumps(self.record(name))}")
        return counts, details

    def ran_again(self, name):
        """Return whether an attempt began after one had recorded its end."""
        log = self.job_log(name)
        end = log.find(f"job {name}: done at step")
        return end >= 0 and f"job {name}: attempt" in log[end:]
