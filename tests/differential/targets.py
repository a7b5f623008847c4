#!/usr/bin/env python3
"""Compare the layers that `lora_target: all` adapts with those that LLaMA-Factory gives to PEFT.

    targets.py [--seed N] [--kind NAME] PROGRAM

PROGRAM is trainspool.  For each architecture, a small random model gets adapters on all layers, by `trainspool
run` and by PEFT; the names of the tensors of both adapters must be equal.  As in LLaMA-Factory
(find_all_linear_modules), those are the names of all modules of a class with "Linear" in its name, without the
head.  Matrices of experts are left out: transformers 5 keeps those of all experts in one parameter, which is no
layer, while trainspool adapts the matrices that are layers in the files, as with transformers 4.  A difference
makes the exit status 1; the status is 77 if torch, transformers or peft is not installed.
"""
import argparse
import os
import random
import re
import sys
import tempfile

import saved # first: it ends with status 77 without the packages
import models
import peft
import torch
from peft.utils import transformers_weight_conversion
from safetensors import safe_open
from transformers.pytorch_utils import Conv1D

# PEFT refuses out_proj, which the fused code of transformers does not call.
EXCLUDED = {"falcon_h1": "out_proj"}


def names_of(folder):
    with safe_open(os.path.join(folder, "adapter_model.safetensors"), "np") as file:
        return {re.sub(r"\.default\b", "", name) for name in file.keys()}


def theirs(where, kind):
    """PEFT must not translate the names, of which it takes gate_proj for that of experts alone."""
    transformers_weight_conversion.convert_peft_config_for_transformers = lambda *_, **__: None
    model = models.class_of(kind).from_pretrained(os.path.join(where, "base"), dtype=torch.float32)
    targets = {name.rpartition(".")[2] for name, module in model.named_modules()
               if "Linear" in type(module).__name__ or isinstance(module, Conv1D)}
    targets -= {"lm_head", "embed_out", EXCLUDED.get(kind)}
    model = peft.get_peft_model(model, peft.LoraConfig(r=2, target_modules=targets, task_type="CAUSAL_LM"))
    return {re.sub(r"\.default\b", "", models.name_in_files(kind, name))
            for name, p in model.named_parameters() if p.requires_grad}


def ours(program, where):
    saved.write_job(os.path.join(where, "lora.yaml"), "chatml", {
        "finetuning_type": "lora", "lora_rank": 2, "lora_target": "all", "max_steps": 1, "cutoff_len": 32, "eval_strategy": "no",
        "output_dir": "lora"})
    saved.run(program, "run", "-q", "lora.yaml", cwd=where)
    return {name for name in names_of(os.path.join(where, "lora")) if ".experts." not in name}


def check(program, kind, seed):
    rng = random.Random(f"{seed} {kind}")
    values = models.KINDS[kind](rng)
    values |= {"vocab_size": saved.VOCABULARY, "bos_token_id": 256, "eos_token_id": 257, "pad_token_id": 256}
    with tempfile.TemporaryDirectory() as where:
        models.write(os.path.join(where, "base"), kind, values, seed)
        saved.write_tokenizer(os.path.join(where, "base"))
        saved.write_data(os.path.join(where, "chats.jsonl"), rng)
        theirs_all, ours_all = theirs(where, kind), ours(program, where)
    return sorted(theirs_all - ours_all), sorted(ours_all - theirs_all)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--kind", choices=list(models.KINDS))
    parser.add_argument("program")
    options = parser.parse_args()
    program, failures = os.path.abspath(options.program), 0
    kinds = [options.kind] if options.kind else list(models.KINDS)
    for kind in kinds:
        try:
            missing, more = check(program, kind, options.seed)
        except Exception as failure: # pylint: disable=broad-except
            failures += 1
            print(f"{kind}: {failure}")
            continue
        failures += bool(missing or more)
        for word, names in (("missing", missing), ("PEFT lacks", more)):
            if names:
                print(f"{kind}: {word} {', '.join(names[:6])}{' and others' if len(names) > 6 else ''}")
    print(f"targets: {len(kinds) - failures} of {len(kinds)} architectures agree (peft {peft.__version__})")
    sys.exit(failures > 0)


if __name__ == "__main__":
    main()
