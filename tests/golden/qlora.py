#!/usr/bin/env python3
"""Make qlora.json: adapters by PEFT on base models that bitsandbytes quantizes to 4 bits, for
test_golden_lora.

    python3 tests/golden/qlora.py SHARED/data > tests/golden/qlora.json

Everything is as in lora.py, except that nothing is merged.  The 8-bit codes of double quantization
come from the implementation in bitsandbytes that nf4.py describes.  Weights are dequantized by its
default implementation for any device, because its CPU library uses wrong scales for rows whose
length is a multiple of 16 but not of 64 elements, as in qwen2, and the same scales for others.
"""
import os
import sys

os.environ["CUDA_VISIBLE_DEVICES"] = ""
import bitsandbytes
import torch
from bitsandbytes import functional
from bitsandbytes.backends.default import ops
from transformers import BitsAndBytesConfig

import lora

RUNS = {"llama": ("stories260K/hf", False), "llama twice": ("stories260K/hf", True),
        "qwen2": ("made-here/qwen2", False), "qwen2 twice": ("made-here/qwen2", True)}
SETTINGS = {"r": 4, "lora_alpha": 12}


def nearest(original):
    """Return a quantizer to the nearest 8-bit codes, as on a GPU."""
    def quantize(x, *rest, **more):
        _, state = original(x, *rest, **more)
        codes, _ = torch.ops.bitsandbytes.quantize_blockwise.default(x.double(), state.code,
                                                                     state.blocksize)
        return codes, state
    return quantize


def matmul(x, packed, quant_state, out=None, bias=None):
    """Replace matmul_4bit: dequantize the weights by the implementation for any device."""
    absmax = quant_state.absmax
    if quant_state.nested:
        absmax = functional.dequantize_blockwise(absmax, quant_state.state2) + quant_state.offset
    weight = ops._dequantize_4bit_compute(packed.reshape(-1), absmax.float(), quant_state.code,
                                          quant_state.blocksize, quant_state.shape, x.dtype)
    return torch.nn.functional.linear(x, weight.reshape(quant_state.shape), bias)


def quantized(twice):
    return BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_quant_type="nf4",
                              bnb_4bit_use_double_quant=twice,
                              bnb_4bit_compute_dtype=torch.float32)


def main(data):
    torch.set_num_threads(1)
    functional.quantize_blockwise = nearest(functional.quantize_blockwise)
    bitsandbytes.matmul_4bit = matmul
    lora.write({name: {"model": folder, "double_quantization": twice,
                       **lora.run(os.path.join(data, folder), SETTINGS, device_map="cpu",
                                  quantization_config=quantized(twice))}
                for name, (folder, twice) in RUNS.items()})


if __name__ == "__main__":
    main(sys.argv[1])
