#!/usr/bin/env python3
"""Make pissa.json: adapters that PEFT initializes with exact singular values (PiSSA), for
test_golden_lora.

    python3 tests/golden/pissa.py SHARED/data > tests/golden/pissa.json

Everything is as in lora.py, but the adapters keep their initial values.  "start" has the norm of each
tensor's product B A at the start.
"""
import os
import sys

import torch

import lora

SOME = {"r": 3, "lora_alpha": 16, "use_rslora": True, "target_modules": ["q_proj", "v_proj", "down_proj"]}
RUNS = {"llama": ("stories260K/hf", {"r": 4, "lora_alpha": 12}),
        "llama dora": ("stories260K/hf", {"r": 4, "lora_alpha": 8, "use_dora": True}),
        "qwen2 some": ("made-here/qwen2", SOME)}
STARTS = {}


def keep(model):
    """Keep the initial values, and note the norms of the products."""
    STARTS.clear()
    for name, module in model.named_modules():
        if hasattr(module, "lora_A") and module.lora_A:
            product = module.lora_B.default.weight @ module.lora_A.default.weight
            STARTS[name.removeprefix("base_model.model.")] = lora.short(product.double().norm())


def run(folder, settings):
    out = lora.run(folder, settings | {"init_lora_weights": "pissa"})
    out["gradients"] = {name.replace("_vector.weight", "_vector"): norm
                        for name, norm in out["gradients"].items()}
    return out | {"start": dict(STARTS)}


def main(data):
    torch.set_num_threads(1)
    lora.fill = keep
    lora.write({name: {"model": folder, **run(os.path.join(data, folder), settings)}
                for name, (folder, settings) in RUNS.items()})


if __name__ == "__main__":
    main(sys.argv[1])
