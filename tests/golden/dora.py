#!/usr/bin/env python3
"""Make dora.json: weight-decomposed adapters (DoRA) by PEFT, for test_golden_lora.

    python3 tests/golden/dora.py SHARED/data > tests/golden/dora.json

Everything is as in lora.py and qlora.py, but magnitudes are 1 plus the formula.
"""
import os
import sys

import torch

import lora

LORA = {"r": 4, "lora_alpha": 12, "use_dora": True}
SOME = {"r": 3, "lora_alpha": 16, "use_rslora": True, "use_dora": True,
        "target_modules": ["q_proj", "v_proj", "down_proj"]}
RUNS = {"llama": ("stories260K/hf", LORA, None), "qwen2 some": ("made-here/qwen2", SOME, None),
        "llama twice": ("stories260K/hf", LORA, True)}


def filler(original):
    def fill(model):
        original(model)
        for name, p in model.named_parameters():
            if "lora_magnitude_vector" in name:
                p.data += 1
    return fill


def run(folder, settings, twice):
    loading = {}
    if twice is not None:
        import qlora
        from bitsandbytes import functional
        qlora.functional.quantize_blockwise = qlora.nearest(functional.quantize_blockwise)
        qlora.bitsandbytes.matmul_4bit = qlora.matmul
        loading = {"device_map": "cpu", "quantization_config": qlora.quantized(twice)}
    out = lora.run(folder, settings, **loading)
    out["gradients"] = {name.replace("_vector.weight", "_vector"): norm
                        for name, norm in out["gradients"].items()}
    return out if twice is None else {"double_quantization": twice, **out}


def main(data):
    torch.set_num_threads(1)
    lora.fill = filler(lora.fill)
    lora.write({name: {"model": folder, **run(os.path.join(data, folder), settings, twice)}
                for name, (folder, settings, twice) in RUNS.items()})


if __name__ == "__main__":
    main(sys.argv[1])
