#!/usr/bin/env python3
"""Compare what Axolotl refuses with the errors of `trainspool check --target axolotl`, on random files, and the
keys of the table with the fields of its model.

    axolotl_files.py [--jobs N] [--seed N] [--version V] TRAINSPOOL

Python must have Axolotl's package, or PYTHONPATH its sources, with pydantic, transformers and torch; other
packages that it imports are replaced by stubs.  V is needed where there is no metadata.  The script prints the
files on which the two disagree.  The status is 77 where Axolotl cannot be imported.
"""
import argparse
import importlib.abc
import importlib.machinery
import importlib.metadata
import json
import logging
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import unittest.mock

NEEDED = ("pydantic", "transformers", "torch", "yaml")
STUBBED = {"accelerate", "addict", "bitsandbytes", "colorama", "datasets", "deepspeed", "optimum", "peft", "PIL", "trl"}
UNKNOWN = {"TS701", "TS702", "TS703", "TS813"}
SWITCH, TEXT = ["true", "true", "false"], ["x"]

# Keys that the validators read, with values on both sides.
WORDS = {
    "adapter": ["lora", "qlora"], "load_in_8bit": SWITCH, "load_in_4bit": SWITCH, "gptq": SWITCH,
    "merge_lora": SWITCH, "warmup_steps": ["10", "0"], "warmup_ratio": ["0.1", "0"],
    "save_steps": ["100"], "saves_per_epoch": ["2"], "save_strategy": ["steps", "epoch", "no"],
    "eval_steps": ["50"], "evals_per_epoch": ["4"], "eval_strategy": ["steps", "epoch", "no"],
    "val_set_size": ["0", "0.1", "0.0"], "test_datasets": ["[{path: x, type: alpaca}]"],
    "batch_size": ["8"], "micro_batch_size": ["2", "0"], "gradient_accumulation_steps": ["4"],
    "sample_packing": SWITCH, "eval_sample_packing": SWITCH, "eval_table_size": ["5"],
    "rl": ["dpo", "kto", "orpo"], "remove_unused_columns": ["true", "false"], "lr_groups": ["[]"],
    "loraplus_lr_ratio": ["16"], "do_causal_lm_eval": SWITCH, "do_bench_eval": SWITCH,
    "push_dataset_to_hub": TEXT, "hf_use_auth_token": SWITCH, "noisy_embedding_alpha": ["5"],
    "neftune_noise_alpha": ["5"], "flash_attn_fuse_mlp": SWITCH, "peft_layers_pattern": ["[layers]"],
    "peft_layers_to_transform": ["[1, 2]"], "unfrozen_parameters": ["[x]"], "optimizer": ["muon", "adamw_torch"],
    "deepspeed": ["z.json"], "include_tokens_per_second": SWITCH, "pretraining_dataset": TEXT,
    "rope_scaling": ["{type: linear}"], "max_packed_sequence_len": ["2048", "0"], "bf16": SWITCH + ["auto", "full"],
    "fp16": SWITCH, "tf32": SWITCH, "inference": SWITCH, "datasets": ["null"], "lora_r": ["8"], "lora_alpha": ["16"],
}
BASE = {"base_model": "org/model", "learning_rate": "2e-4", "micro_batch_size": "2",
        "gradient_accumulation_steps": "1", "datasets": "[{path: x, type: alpaca}]"}


class Stubs(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Replaces packages that are not installed: the checks do not use them."""

    def __init__(self, names):
        self.names = names

    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] not in self.names:
            return None
        return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec):
        module = unittest.mock.MagicMock(name=spec.name)
        module.__path__, module.__spec__ = [], spec
        return module

    def exec_module(self, module):
        pass


def import_model():
    try:
        for name in NEEDED:
            importlib.import_module(name)
        sys.meta_path.append(Stubs(STUBBED))
        try:
            from axolotl.utils.schemas.config import AxolotlInputConfig
        except ModuleNotFoundError:
            from axolotl.utils.config.models.input.v0_4_1 import AxolotlInputConfig
    except ImportError as error:
        print(f"axolotl: cannot import Axolotl: {error}", file=sys.stderr)
        return None
    logging.disable(logging.CRITICAL)
    return AxolotlInputConfig


def make_job(pick):
    keys = dict(BASE)
    for key in pick.sample(sorted(WORDS), pick.randint(1, 6)):
        keys[key] = pick.choice(WORDS[key])
    return "".join(f"{key}: {value}\n" for key, value in keys.items() if value != "null")


def check(program, jobs, version, target="axolotl"):
    """The findings of `trainspool check` for each text."""
    with tempfile.TemporaryDirectory() as folder:
        names = [f"{at:04}.yaml" for at in range(len(jobs))]
        for name, job in zip(names, jobs):
            pathlib.Path(folder, name).write_text(job, encoding="utf-8")
        done = subprocess.run([program, "check", "--json", "--device", "A100 80GB", "--target", target, "--versions",
                               f"{target}={version}", *names], cwd=folder, capture_output=True, text=True)
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(lines) == len(jobs), done.stderr
    return [line["findings"] for line in lines]


def refusal(model, job):
    """The exception of the model, or None."""
    import yaml

    try:
        model(**yaml.safe_load(job))
    except Exception as error:  # pydantic's, and DeprecationWarning
        return " | ".join(str(error).splitlines()[:3])
    return None


def compare_keys(model, program, version):
    """The number of keys of the model that check does not know."""
    names = set(model.model_fields)
    names |= {field.alias for field in model.model_fields.values() if field.alias}
    job = "".join(f"{name}:\n" for name in sorted(names)) + "".join(
        f"{key}: {value}\n" for key, value in BASE.items() if key not in names)
    unknown = [finding for finding in check(program, [job], version)[0] if finding["rule"] in UNKNOWN]
    for finding in unknown:
        print(f"axolotl {version}: {finding['message']}")
    return len(unknown)


def main():
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--jobs", type=int, default=200)
    options.add_argument("--seed", default="1")
    options.add_argument("--show", type=int, default=20)
    options.add_argument("--version")
    options.add_argument("program")
    arguments = options.parse_args()
    program = os.path.abspath(arguments.program)
    model = import_model()
    if not model:
        return 77
    version = arguments.version or importlib.metadata.version("axolotl")
    wrong = compare_keys(model, program, version)
    pick = random.Random(f"{arguments.seed} {version}")
    jobs = [make_job(pick) for _ in range(arguments.jobs)]
    agreed = refused = shown = 0
    for job, findings in zip(jobs, check(program, jobs, version)):
        error = refusal(model, job)
        ours = [f["message"] for f in findings if f["rule"] == "TS812" and f["severity"] == "error"]
        refused += bool(error)
        agreed += bool(error) == bool(ours)
        if bool(error) != bool(ours) and shown < arguments.show:
            shown += 1
            print(f"--- Axolotl {version}\n{job}    the program: {error}\n    ours: {ours}")
    print(f"axolotl {version}: {agreed} of {len(jobs)} files agree; the program refuses {refused}")
    return 0 if agreed == len(jobs) and not wrong else 1


if __name__ == "__main__":
    sys.exit(main())
