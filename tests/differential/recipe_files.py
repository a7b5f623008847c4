#!/usr/bin/env python3
"""Compare what Lightning, torchtune and Unsloth refuse with the errors of `trainspool check`, on random files.

    recipe_files.py [--jobs N] [--seed N] [--only NAME] TRAINSPOOL

Python must have at least one of them, or PYTHONPATH its files: `lightning` with `jsonargparse[signatures]`; torchtune
0.4 or later with omegaconf and torch; and Unsloth's unsloth_cli.config with pydantic.  The last needs no GPU,
unlike the package `unsloth`.  Lightning parses the file as LightningCLI does and constructs the Trainer, on the CPU.
Of torchtune, the constructors of the recipes run, as on a card with bf16.  The script prints the files on which
the two disagree.  The status is 77 where none can be imported.
"""
import argparse
import contextlib
import importlib.metadata
import importlib.util
import io
import logging
import os
import pathlib
import random
import re
import sys
import tempfile
import unittest.mock
import warnings

from axolotl_files import Stubs, check
from profiles import table

REFUSED = re.compile("TS70[0-9]|TS81[236]")
# what may follow a key, by the type of the table
VALUES = [(1, ["true", "false"]), (2, ["1", "4", "100"]), (4, ["0.5", "1.0", "2e-4"]), (8, ["word"]),
          (16, ["[a, b]"]), (64, ["null"])]
WRONG = ["true", "3", "-1", "0", "0.5", "1e-4", "word", "[1]", "{a: 1}", "null", "'3'", "'true'", "yes"]


def load_file(package, name):
    """A module of a package whose __init__ cannot be imported."""
    found = importlib.util.find_spec(package)
    if not found:
        raise ImportError(f"no package {package}")
    path = pathlib.Path(found.submodule_search_locations[0], f"{name}.py")
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def values_of(types):
    return sum((values for bit, values in VALUES if types & bit), []) or ["word"]


def misspell(pick, key):
    at = pick.randrange(1, len(key))
    return pick.choice([key[:at] + key[at + 1:], key + "s", key[:at] + key[at:at + 1] * 2 + key[at + 1:]])


def types_of(trainer, version):
    """{key: type bits} of the version's table."""
    return {key: row[0] for key, rows in table(trainer)[version].items() for row in rows}


class Trainer:
    """One program: `words` are values that its checks read, `plain` keys get no value of the wrong type."""
    words, plain = {}, set()

    def make(self, pick):
        keys = {}
        names = sorted(set(self.types) - self.skipped)
        for key in pick.sample(names, pick.randint(1, 4)) + pick.sample(sorted(self.words), pick.randint(0, 2)):
            keys[key] = pick.choice(self.words.get(key) or values_of(self.types[key]))
            if pick.random() < 0.1 and key not in self.plain:
                keys[key] = pick.choice(WRONG)
        if pick.random() < 0.1:
            name = misspell(pick, pick.choice(names).rsplit(".", 1)[-1])
            keys[f"{self.block}{name}"] = pick.choice(WRONG)
        return self.write(keys)

    @staticmethod
    def write(keys):
        """The text of a file with one level of blocks."""
        lines = [f"{key}: {value}" for key, value in keys.items() if "." not in key]
        for block in sorted({key.split(".")[0] for key in keys if "." in key}):
            lines.append(f"{block}:")
            lines += [f"  {key.split('.', 1)[1]}: {value}" for key, value in keys.items() if key.startswith(block + ".")]
        return "\n".join(lines) + "\n"


class Lightning(Trainer):
    name, block = "lightning", "trainer."
    # These need other devices and packages, or take objects of the project.
    skipped = {"trainer.callbacks", "trainer.plugins", "trainer.logger", "trainer.default_root_dir"}
    plain = {"trainer.accelerator", "trainer.devices", "trainer.strategy", "trainer.num_nodes", "trainer.max_time",
             "trainer.precision", "trainer.val_check_interval"}
    words = {
        "trainer.precision": ["16", "32", "64", "'16'", "'32'", "'64'", "bf16", "16-mixed", "bf16-mixed", "16-true",
                              "bf16-true", "32-true", "64-true", "fp16", "fp32", "float16", "bfloat16", "bf16_mixed",
                              "BF16", "16-Mixed", "mixed", "8", "fp8", "int8", "16.0", "null", "true", "[16]", "32-mixed"],
        "trainer.gradient_clip_algorithm": ["norm", "value", "l2", "NORM", "null"],
        "trainer.gradient_clip_val": ["1.0", "0", "null", "1", "'1.0'", "word"],
        "trainer.accelerator": ["auto", "cpu"], "trainer.devices": ["1", "auto", "2"],
        "trainer.strategy": ["auto", "ddp"], "trainer.num_nodes": ["1", "2"],
        "trainer.val_check_interval": ["0.25", "1.0", "1.5", "100", "-1", "null", "'00:01:00:00'"],
        "trainer.check_val_every_n_epoch": ["1", "null", "2"], "trainer.barebones": ["true", "true", "false"],
        "trainer.max_steps": ["-1", "-2", "10", "null", "1e3"], "trainer.max_epochs": ["-1", "-2", "3", "null"],
        "trainer.limit_train_batches": ["0.5", "1.5", "2.0", "10", "-1"],
        "trainer.overfit_batches": ["0.0", "null", "1.5", "10", "-1"], "trainer.fast_dev_run": ["true", "false", "-1", "2"],
        "trainer.max_time": ["null", "00:12:00:00"],
        "trainer.profiler": ["null", "simple", "advanced", "fast", "Simple"],
    }

    def load(self):
        from lightning.pytorch import Trainer as Class
        from lightning.pytorch.cli import LightningArgumentParser

        self.version, self.trainer = importlib.metadata.version("lightning"), Class
        self.parser = LightningArgumentParser(exit_on_error=False)
        self.parser.add_lightning_class_args(Class, "trainer")
        self.types = types_of(self.name, self.version)

    def run(self, text):
        values = self.parser.parse_string(text)
        with unittest.mock.patch("torch.cuda.is_available", lambda: False):
            self.trainer(**self.parser.instantiate_classes(values).trainer)


class Torchtune(Trainer):
    name, block, skipped = "torchtune", "", set()
    base = {"device": "cuda", "dtype": "bf16", "output_dir": "out", "resume_from_checkpoint": "false", "seed": "1",
            "epochs": "1", "max_steps_per_epoch": "null", "gradient_accumulation_steps": "1",
            "optimizer_in_bwd": "false", "log_every_n_steps": "1", "enable_activation_checkpointing": "true",
            "checkpointer.model_type": "LLAMA3", "optimizer._component_": "torch.optim.AdamW"}
    words = {
        "dtype": ["bf16", "fp16", "fp32", "fp64", "float16", "bfloat16", "float32", "half", "BF16", "16", "tf32", "null",
                  "fp8", "true", "32"],
        "optimizer_in_bwd": ["true", "false"], "gradient_accumulation_steps": ["1", "8", "0"],
        "clip_grad_norm": ["1.0", "null", "0"], "enable_activation_checkpointing": ["true", "false"],
        "enable_activation_offloading": ["true", "false"], "device": ["cuda", "cpu"],
        "compile": ["true", "false"], "log_peak_memory_stats": ["true", "false"],
    }

    def load(self):
        sys.meta_path.append(Stubs({"torchao", "torchdata", "kagglehub", "blobfile", "sentencepiece", "tiktoken",
                                    "datasets", "lm_eval"}))
        import torchtune.training.precision as precision
        import torchtune.utils

        self.version = importlib.metadata.version("torchtune")
        self.recipes = (load_file("recipes", "full_finetune_single_device").FullFinetuneRecipeSingleDevice,
                        load_file("recipes", "lora_finetune_single_device").LoRAFinetuneRecipeSingleDevice)
        precision.verify_bf16_support = lambda: True
        torchtune.utils.get_device = self.device
        self.types = types_of(self.name, self.version)

    @staticmethod
    def device(device=None):
        import torch

        return torch.device(device)

    def make(self, pick):
        keys = dict(self.base)
        if pick.random() < 0.5:
            keys["model.lora_rank"] = "8"
        keys["model._component_"] = "torchtune.models.llama3.llama3_8b"
        for key in pick.sample(sorted(self.words), pick.randint(1, 5)):
            keys[key] = pick.choice(self.words[key])
        return self.write(keys)

    def run(self, text):
        from omegaconf import OmegaConf

        config = OmegaConf.create(text)
        self.recipes["lora_rank" in config.model](config)


class Unsloth(Trainer):
    # The table has no type for a Path, and none for the elements of a list.
    name, block, skipped = "unsloth", "training.", {"training.output_dir"}
    plain = {"data.local_dataset"}
    words = {
        "training.gradient_checkpointing": ["unsloth", "true", "none", "false", "'yes'", "''", "0", "off", "offload", "ON",
                                            "'True'", "null", "Unsloth", "1"],
        "training.training_type": ["lora", "full", "LoRA", "qlora", "null", "' full '"],
        "data.format_type": ["auto", "alpaca", "ChatML", "sharegpt", "raw", "jsonl", "null"],
        "training.load_in_4bit": ["true", "false", "1", "2", "yes", "'on'", "null", "4"],
        "data.local_dataset": ["[a.json]", "a.json", "null"],
    }

    def load(self):
        self.version = importlib.metadata.version("unsloth")
        self.config = load_file("unsloth_cli", "config")
        self.types = types_of(self.name, self.version)

    def run(self, text):
        path = pathlib.Path("job.yaml")
        path.write_text(text, encoding="utf-8")
        self.config.load_config(path)


def refusal(trainer, text):
    """The exception of the program, or None."""
    try:
        with contextlib.redirect_stderr(io.StringIO()), contextlib.redirect_stdout(io.StringIO()):
            trainer.run(text)
    except ModuleNotFoundError:  # an optional package
        return None
    except (Exception, SystemExit) as error:
        return " | ".join(str(error).splitlines()[:4]) or repr(error)
    return None


def compare(trainer, arguments):
    """The number of files on which the two disagree."""
    pick = random.Random(f"{arguments.seed} {trainer.name} {trainer.version}")
    jobs = [trainer.make(pick) for _ in range(arguments.jobs)]
    agreed = refused = shown = 0
    for job, findings in zip(jobs, check(arguments.program, jobs, trainer.version, trainer.name)):
        error = refusal(trainer, job)
        ours = [f["message"] for f in findings if REFUSED.match(f["rule"]) and f["severity"] == "error"]
        refused += bool(error)
        agreed += bool(error) == bool(ours)
        if bool(error) != bool(ours) and shown < arguments.show:
            shown += 1
            print(f"--- {trainer.name} {trainer.version}\n{job}    the program: {error}\n    ours: {ours}")
    print(f"{trainer.name} {trainer.version}: {agreed} of {len(jobs)} files agree; the program refuses {refused}")
    return len(jobs) - agreed


def main():
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--jobs", type=int, default=200)
    options.add_argument("--seed", default="1")
    options.add_argument("--show", type=int, default=20)
    options.add_argument("--only")
    options.add_argument("program", type=os.path.abspath)
    arguments = options.parse_args()
    wrong, ran = 0, 0
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        for trainer in (Lightning(), Torchtune(), Unsloth()):
            if arguments.only not in (None, trainer.name):
                continue
            try:
                trainer.load()
            except ImportError as error:
                print(f"{trainer.name}: cannot import it: {error}", file=sys.stderr)
                continue
            logging.disable(logging.CRITICAL)
            wrong += compare(trainer, arguments)
            ran += 1
        os.chdir("/")
    return 77 if not ran else 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
