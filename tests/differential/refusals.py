#!/usr/bin/env python3
"""Compare what other trainers refuse with the errors of `trainspool check`, on random jobs.

    refusals.py [--jobs N] [--seed N] [--only NAME] [--minimize] TRAINSPOOL

The folder that TRAINSPOOL_PARSERS names holds one Python environment for each line of parsers.txt; those that are
missing are installed from the package index.  Each job is parsed by the real program (refusals_worker.py) of each
environment and checked by TRAINSPOOL with the same versions.  The script prints the jobs on which they disagree,
with the exception and our errors, and one line per environment; a disagreement makes the exit status 1.  The
status is 77 if TRAINSPOOL_PARSERS is not set.  The same seed gives the same jobs.
"""
import argparse
import json
import os
import random
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
PIP = ["-m", "pip"]
QUIET = ["-q", "--no-compile", "--disable-pip-version-check"]
COMMON = ["numpy<2", "pyyaml", "omegaconf", "packaging", "requests", "fire", "pydantic", "rich"]
OLD_NUMPY = ["pyarrow==17.0.0", "pandas==2.2.3"]  # the last ones for the numpy of torch 2.6

# Errors that do not come from the parser of the other program: what the machine lacks, and what fails later.
LATER = {
    "TS013",  # a string where the optimizer requires a number
    "TS107", "TS108", "TS116",  # formats of weights, fp8 on this card
    "TS313", "TS713", "TS301", "TS302",  # files, memory
    "TS702", "TS703",  # names
    "TS805",  # DeepSpeed's settings: the worker does not run DeepSpeed
    "TS803", "TS804", "TS806", "TS808", "TS809",  # packages
}
# These are errors whether or not the program notices: a string in place of false.
EITHER = {"TS014"}
# A script of the Trainer or TRL has evaluation data that the file does not name.
OF_KIND = {"transformers": {"TS507"}, "trl": {"TS507"}}

YES, SWITCH = ["true"], ["true", "true", "false", "'true'", "'False'"]
SETTINGS = {"z2.json": '{"zero_optimization": {"stage": 2}, "bf16": {"enabled": "auto"}}',
            "z3.json": '{"zero_optimization": {"stage": 3}, "bf16": {"enabled": "auto"}}'}

# Keys of TrainingArguments that its checks read, with values on both sides.
TRAINING = {
    "bf16": SWITCH, "fp16": SWITCH, "bf16_full_eval": SWITCH, "fp16_full_eval": SWITCH, "tf32": ["true", "false"],
    "eval_strategy": ["no", "steps", "epoch"], "save_strategy": ["no", "steps", "epoch"],
    "logging_strategy": ["no", "steps", "epoch"], "eval_steps": ["0", "50", "100", "0.1", "70.5"],
    "save_steps": ["100", "150", "0.2", "0.5"], "logging_steps": ["0", "10", "2.5", "0.1"],
    "load_best_model_at_end": SWITCH, "metric_for_best_model": ["loss", "eval_loss"],
    "lr_scheduler_type": ["linear", "cosine", "reduce_lr_on_plateau"],
    "warmup_ratio": ["0.1", "0", "1.5"], "max_steps": ["100", "-1"],
    "dataloader_num_workers": ["0", "4"], "dataloader_prefetch_factor": ["2"],
    "torch_empty_cache_steps": ["4", "0"], "group_by_length": ["true", "false"],
    "greater_is_better": ["true", "false"], "gradient_checkpointing": SWITCH, "seed": ["7"],
    "save_total_limit": ["3"], "num_train_epochs": ["2", "0.5"], "weight_decay": ["0.1"], "do_eval": SWITCH,
}

LLAMAFACTORY = TRAINING | {
    "stage": ["sft", "pt", "rm", "ppo", "dpo", "kto"], "finetuning_type": ["full", "freeze", "lora"],
    "quantization_bit": ["4", "8"], "pissa_init": SWITCH, "resize_vocab": SWITCH, "use_rslora": SWITCH,
    "use_dora": SWITCH, "loraplus_lr_ratio": ["16.0"], "adapter_name_or_path": ["a", "a,b", "[a, b]"],
    "create_new_adapter": SWITCH, "use_galore": SWITCH, "use_badam": SWITCH, "galore_layerwise": SWITCH,
    "badam_mode": ["layer", "ratio"], "use_llama_pro": SWITCH, "use_unsloth": SWITCH, "shift_attn": SWITCH,
    "train_on_prompt": SWITCH, "mask_history": SWITCH, "neat_packing": SWITCH, "packing": ["true", "false"],
    "streaming": SWITCH, "val_size": ["0.1", "100", "0.0"], "max_samples": ["1000"], "eval_dataset": ["e"],
    "interleave_probs": ["'0.5,0.5'", "[0.5, 0.5]"], "mix_strategy": ["concat", "interleave_under"],
    "dataset": ["'d,e'"], "predict_with_generate": SWITCH, "do_predict": SWITCH, "compute_accuracy": SWITCH,
    "pref_loss": ["sigmoid", "orpo", "simpo", "hinge"], "dpo_label_smoothing": ["0.1"], "reward_model": ["r"],
    "reward_model_type": ["lora", "full"], "report_to": ["none", "wandb", "[wandb, mlflow]", "mlflow"],
    "deepspeed": ["z2.json", "z3.json"], "quantization_device_map": ["auto"], "infer_backend": ["huggingface"],
    "split_special_tokens": SWITCH, "use_fast_tokenizer": ["true", "false"], "pure_bf16": SWITCH,
    "export_quantization_bit": ["4"], "do_train": ["false", "true"], "template": ["null"],
    "ref_model_quantization_bit": ["4", "5"],
}

# Keys that only some releases know; others reject them, which other rules report.
SINCE = {
    "0.9.2": {"use_apollo": SWITCH, "apollo_layerwise": SWITCH},
    "0.9.3": {"early_stopping_steps": ["3"], "image_max_pixels": ["100"], "video_min_pixels": ["999999"]},
    "0.9.4": {"use_kt": SWITCH, "fp8": SWITCH},
    "0.9.5": {"project": ["p", "null"]},
}

TRL = {key: TRAINING[key] for key in TRAINING if key not in ("group_by_length",)} | {
    "load_in_4bit": SWITCH, "load_in_8bit": SWITCH, "use_peft": SWITCH,
}
TRL_SCRIPTS = {
    "sft": {"packing": SWITCH, "dataset_text_field": ["text"]},
    "dpo": {"precompute_ref_log_probs": SWITCH, "sync_ref_model": SWITCH},
    "gkd": {"lmbda": ["0.5", "1.5", "-0.1"], "beta": ["0.5", "2.0"]},
}

BASE = {
    "llamafactory": "model_name_or_path: org/model\noutput_dir: out\nlearning_rate: 1.0e-4\n",
    "transformers": "output_dir: out\nlearning_rate: 1.0e-4\n",
    "trl": "model_name_or_path: org/model\noutput_dir: out\nlearning_rate: 1.0e-4\n",
}
USUAL = {"llamafactory": {"stage": "sft", "do_train": "true", "finetuning_type": "lora", "dataset": "d",
                          "template": "qwen"},
         "transformers": {}, "trl": {}}


def release(text):
    return tuple(int(part) for part in text.split("."))


def read_parsers():
    """Yield name and packages of each environment."""
    with open(os.path.join(HERE, "parsers.txt"), encoding="utf-8") as file:
        for line in file:
            if line.strip() and not line.startswith("#"):
                name, *packages = line.split()
                yield name, packages


def run(*command):
    subprocess.run(command, check=True)


def make_environment(folder, name, packages, base):
    """Create the environment unless it has these packages already."""
    path, note = os.path.join(folder, name), os.path.join(folder, name, "packages.txt")
    if os.path.exists(note) and open(note, encoding="utf-8").read() == " ".join(packages):
        return
    print(f"refusals: installing {name}", flush=True)
    run(sys.executable, "-m", "venv", "--clear", path)
    python = os.path.join(path, "bin", "python")
    if base:
        link_base(python, base)
        extra = COMMON + (OLD_NUMPY if any(package.startswith("datasets") for package in packages) else [])
        run(python, *PIP, "install", *QUIET, *extra, *packages[1:])
        if packages[0].startswith("transformers"):
            run(python, *PIP, "install", *QUIET, packages[0])
        else:  # the program itself: its interface's packages are not needed
            run(python, *PIP, "install", *QUIET, "--no-deps", packages[0])
    else:
        run(python, *PIP, "install", *QUIET, *packages)
    with open(note, "w", encoding="utf-8") as file:
        file.write(" ".join(packages))


def site_packages(python):
    return subprocess.run([python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"],
                          check=True, capture_output=True, text=True).stdout.strip()


def link_base(python, base):
    with open(os.path.join(site_packages(python), "base.pth"), "w", encoding="utf-8") as file:
        file.write(site_packages(os.path.join(base, "bin", "python")) + "\n")


class Parser:
    """The real program of one environment."""

    def __init__(self, folder, name, packages):
        self.name, self.kind = name, name.rsplit("-", 1)[0]
        self.versions = dict(package.split("==") for package in packages)
        self.release = release(self.versions[self.kind])
        self.process = subprocess.Popen(
            [os.path.join(folder, name, "bin", "python"), os.path.join(HERE, "refusals_worker.py"), self.kind],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)

    def parse(self, job):
        request = {"job": job.text(), "ranks": job.ranks, "script": job.script, "files": SETTINGS}
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"refusals: the worker of {self.name} exited with {self.process.wait()}")
        return json.loads(line)["error"]

    def close(self):
        self.process.stdin.close()
        self.process.wait()


class Job:
    """One random job: its keys, the script of TRL, and the number of processes."""

    def __init__(self, kind, keys, script, ranks):
        self.kind, self.keys, self.script, self.ranks = kind, keys, script, ranks

    def text(self):
        return BASE[self.kind] + "".join(f"{key}: {value}\n" for key, value in self.keys.items())

    def ours(self, versions):
        """Return the text with the block that check needs."""
        given = ", ".join(f"{name}: {value}" for name, value in versions.items() if name != "datasets")
        command = {"trl": f", command: trl {self.script} --config job.yaml", "transformers": ", command: python train.py"}
        ranks = f", ranks: {self.ranks}" if self.ranks > 1 else ""
        return self.text() + (f"trainspool: {{target: external{command.get(self.kind, '')}{ranks}, "
                              f"versions: {{{given}}}}}\n")

    def without(self, key):
        return Job(self.kind, {name: value for name, value in self.keys.items() if name != key}, self.script, self.ranks)


def vocabulary(parser, script):
    if parser.kind == "llamafactory":
        keys = dict(LLAMAFACTORY)
        for since, more in SINCE.items():
            if parser.release >= release(since):
                keys |= more
        return keys
    if parser.kind == "trl":
        return TRL | TRL_SCRIPTS[script]
    keys = dict(TRAINING)
    version = release(parser.versions["transformers"])
    if version < (4, 41):
        keys["evaluation_strategy"] = keys.pop("eval_strategy")
    if version < (4, 43):
        keys.pop("torch_empty_cache_steps")
    if version < (4, 38):
        keys.pop("dataloader_prefetch_factor")
    return keys


def make_job(parser, pick):
    script = pick.choice(list(TRL_SCRIPTS)) if parser.kind == "trl" else ""
    if script == "gkd" and not (0, 11, 0) <= parser.release < (0, 29, 0):
        script = "sft"  # trl.experimental has it since 0.29
    words = vocabulary(parser, script)
    version = release(parser.versions["transformers"])
    if version >= (5, 0, 0):
        words["warmup_ratio"] = ["0.1"]  # above 1 it is a number of steps
    if version >= (5, 2, 0):
        words.pop("group_by_length", None)
    keys = dict(USUAL[parser.kind])
    for key in pick.sample(sorted(words), pick.randint(1, 5)):
        keys[key] = pick.choice(words[key])
    for key in [name for name, value in keys.items() if value == "null"]:
        del keys[key]
    ranks = 2 if keys.get("deepspeed") or pick.random() < 0.2 else 1
    return Job(parser.kind, keys, script, ranks if parser.kind == "llamafactory" else 1)


def check(program, jobs, versions):
    """Return the errors of `trainspool check` for each job."""
    with tempfile.TemporaryDirectory() as folder:
        names = []
        for name, text in SETTINGS.items():
            with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
                file.write(text)
        for at, job in enumerate(jobs):
            names.append(f"{at:04}.yaml")
            with open(os.path.join(folder, names[-1]), "w", encoding="utf-8") as file:
                file.write(job.ours(versions))
        done = subprocess.run([program, "check", "--json", "--device", "A100 80GB", *names], cwd=folder,
                              capture_output=True, text=True)
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(lines) == len(jobs), done.stderr
    ignored = LATER | OF_KIND.get(jobs[0].kind, set())
    return [[finding for finding in line["findings"]
             if finding["severity"] == "error" and finding["rule"] not in ignored] for line in lines]


def agrees(error, findings):
    """Return whether the program and check agree on a job."""
    return bool(error) == bool(findings) or (findings and all(finding["rule"] in EITHER for finding in findings))


def describe(findings):
    return [f"{finding['rule']} {finding.get('key')}: {finding['message']}" for finding in findings]


def minimize(parser, program, job):
    """Remove keys while the two still disagree."""
    again = True
    while again:
        again = False
        for key in list(job.keys):
            less = job.without(key)
            if not agrees(parser.parse(less), check(program, [less], parser.versions)[0]):
                job, again = less, True
    return job


def report(parser, program, job):
    job = minimize(parser, program, job)
    print(f"--- {parser.name} {job.script} ranks {job.ranks}")
    print("".join(f"    {key}: {value}\n" for key, value in job.keys.items()), end="")
    print(f"    the program: {parser.parse(job)}")
    print(f"    ours: {describe(check(program, [job], parser.versions)[0])}", flush=True)


def compare(parser, arguments):
    """Return the number of jobs on which both agree, and how many the program refuses."""
    pick = random.Random(f"{arguments.seed} {parser.name}")
    jobs = [make_job(parser, pick) for _ in range(arguments.jobs)]
    findings = check(arguments.program, jobs, parser.versions)
    agreed = refused = shown = 0
    for job, ours in zip(jobs, findings):
        error = parser.parse(job)
        refused += bool(error)
        if agrees(error, ours):
            agreed += 1
        elif shown < arguments.show:
            shown += 1
            report(parser, arguments.program, job)
    return agreed, refused


def main():
    options = argparse.ArgumentParser()
    options.add_argument("--jobs", type=int, default=200)
    options.add_argument("--seed", default="1")
    options.add_argument("--only", default="")
    options.add_argument("--show", type=int, default=20)
    options.add_argument("program")
    arguments = options.parse_args()
    arguments.program = os.path.abspath(arguments.program)
    folder = os.environ.get("TRAINSPOOL_PARSERS")
    if not folder:
        print("refusals: TRAINSPOOL_PARSERS names no folder for the environments", file=sys.stderr)
        return 77
    good = True
    for name, packages in read_parsers():
        if name != "base" and not name.startswith(arguments.only):
            continue
        make_environment(folder, name, packages, None if name == "base" else os.path.join(folder, "base"))
        if name == "base":
            continue
        parser = Parser(folder, name, packages)
        agreed, refused = compare(parser, arguments)
        parser.close()
        good = good and agreed == arguments.jobs
        print(f"{name}: {agreed} of {arguments.jobs} jobs agree; the program refuses {refused}", flush=True)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
