#!/usr/bin/env python3
"""Make saved_head.json: a head that PEFT trains apart from the embeddings that it is tied to, for
test_golden_lora.

    python3 tests/golden/saved_head.py SHARED/data > tests/golden/saved_head.json

Everything is as in lora.py; the weights of modules_to_save come from the formula, too.
"""
import os
import sys

import torch

import lora

RUNS = {"both": ["embed_tokens", "lm_head"], "head": ["lm_head"]}
SETTINGS = {"r": 4, "lora_alpha": 12, "target_modules": ["q_proj", "down_proj"]}


def run(folder, names):
    out = lora.run(folder, SETTINGS | {"modules_to_save": names})
    out["gradients"] = {
        name.removeprefix("base_model.model.").replace(".modules_to_save", "")
        if "modules_to_save" in name else name: norm for name, norm in out["gradients"].items()}
    del out["merged"] # PEFT keeps the tie, and with it loses the head
    return out


def main(data):
    torch.set_num_threads(1)
    lora.write({name: {"model": "stories260K/hf", **run(os.path.join(data, "stories260K/hf"), names)}
                for name, names in RUNS.items()})


if __name__ == "__main__":
    main(sys.argv[1])
