#!/usr/bin/env python3
"""Make oft.json: orthogonal adapters (OFT) by PEFT, for test_golden_lora.

    python3 tests/golden/oft.py SHARED/data > tests/golden/oft.json

Everything is as in lora.py and qlora.py.  172 inputs are no multiple of the sizes of blocks, which PEFT adjusts.
"""
import os
import sys

import torch
from peft import OFTConfig

import lora

SETTINGS = {"oft_block_size": 16}
EXACT = {"oft_block_size": 16, "use_cayley_neumann": False}
SOME = {"r": 4, "oft_block_size": 0, "num_cayley_neumann_terms": 4, "target_modules": ["q_proj", "v_proj", "down_proj"]}
RUNS = {"llama": ("stories260K/hf", SETTINGS, None), "llama exact": ("stories260K/hf", EXACT, None),
        "qwen2 some": ("made-here/qwen2", SOME, None), "llama twice": ("stories260K/hf", SETTINGS, True)}


def run(folder, settings, twice):
    loading = {}
    if twice is not None:
        import qlora
        from bitsandbytes import functional
        qlora.functional.quantize_blockwise = qlora.nearest(functional.quantize_blockwise)
        qlora.bitsandbytes.matmul_4bit = qlora.matmul
        loading = {"device_map": "cpu", "quantization_config": qlora.quantized(twice)}
    out = lora.run(folder, settings, **loading)
    return out if twice is None else {"double_quantization": twice, **out}


def main(data):
    torch.set_num_threads(1)
    lora.LoraConfig = OFTConfig
    lora.write({name: {"model": folder, **run(os.path.join(data, folder), settings, twice)}
                for name, (folder, settings, twice) in RUNS.items()})


if __name__ == "__main__":
    main(sys.argv[1])
