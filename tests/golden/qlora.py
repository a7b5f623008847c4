#!/usr/bin/env python3
"""Make qlora.json: adapters by PEFT over bases that bitsandbytes holds in 4 bits, for
test_golden_lora.

    python3 tests/golden/qlora.py SHARED/data > tests/golden/qlora.json

All is as in lora.py, but that nothing is merged.  The 8 bits of double quantisation come from the
way of bitsandbytes that nf4.py tells of.  Models with rows that are a multiple of 16 but not of 64
numbers are none to compare with: the library for CPUs begins a new block with each of them.
"""
import os
import sys

os.environ["CUDA_VISIBLE_DEVICES"] = ""
import torch
from bitsandbytes import functional
from transformers import BitsAndBytesConfig

import lora

RUNS = {"llama": ("stories260K/hf", False), "llama twice": ("stories260K/hf", True)}
SETTINGS = {"r": 4, "lora_alpha": 12}


def nearest(original):
    """8-bit numbers that are the nearest, as on a GPU."""
    def quantize(x, *rest, **more):
        _, state = original(x, *rest, **more)
        codes, _ = torch.ops.bitsandbytes.quantize_blockwise.default(x.double(), state.code,
                                                                     state.blocksize)
        return codes, state
    return quantize


def quantised(twice):
    return BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_quant_type="nf4",
                              bnb_4bit_use_double_quant=twice,
                              bnb_4bit_compute_dtype=torch.float32)


def main(data):
    torch.set_num_threads(1)
    functional.quantize_blockwise = nearest(functional.quantize_blockwise)
    lora.write({name: {"model": folder, "double_quantization": twice,
                       **lora.run(os.path.join(data, folder), SETTINGS, device_map="cpu",
                                  quantization_config=quantised(twice))}
                for name, (folder, twice) in RUNS.items()})


main(sys.argv[1])
