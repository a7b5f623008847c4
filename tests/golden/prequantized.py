#!/usr/bin/env python3
"""Make prequantized.json: base models that transformers and bitsandbytes saved in 4 bits, and
adapters by PEFT on them, for test_model_prequantized and test_golden_lora.

    python3 tests/golden/prequantized.py SHARED/data > tests/golden/prequantized.json

The file has the quantization_config, the quant_state of one matrix, the SHA-256 of that matrix after
dequantization to fp32 and of all tensors of one kind in the model file, in the order of names (codes,
factors, ...), and the results of lora.py for a run on the saved folder.  As in qlora.py, the 8-bit
codes of double quantization are the nearest.  There is no run on a bf16 base, because bitsandbytes
0.50 on a CPU rounds its weights to bf16 in the backward pass but not in the forward pass, where it
computes in fp32.
"""
import hashlib
import json
import os
import sys
import tempfile

os.environ["CUDA_VISIBLE_DEVICES"] = ""
import torch
from bitsandbytes import functional
from safetensors import safe_open
from transformers import AutoModelForCausalLM

import lora
import qlora

RUNS = {"llama": ("stories260K/hf", "float32", False),
        "llama twice": ("stories260K/hf", "float32", True),
        "llama bf16": ("stories260K/hf", "bfloat16", True)}
NAME = "model.layers.0.self_attn.k_proj.weight"
KINDS = ["absmax", "quant_map", "nested_absmax", "nested_quant_map"]
STATE = ".quant_state.bitsandbytes__nf4"


def digests(file):
    """Return the digest of each kind of tensor, and of the codes, which are those with a state."""
    names = sorted(file.keys())
    kinds = {"codes": [n[:-len(STATE)] for n in names if n.endswith(STATE)]}
    for kind in KINDS:
        kinds[kind] = [n for n in names if n.endswith(".weight." + kind)]
    return {kind: hashlib.sha256(b"".join(file.get_tensor(n).numpy().tobytes()
                                          for n in list)).hexdigest()
            for kind, list in kinds.items() if list}


def dequantized(folder):
    model = AutoModelForCausalLM.from_pretrained(folder, device_map="cpu")
    weight = model.get_parameter(NAME)
    whole = functional.dequantize_4bit(weight, weight.quant_state).float()
    return hashlib.sha256(whole.contiguous().numpy().tobytes()).hexdigest()


def saved(folder, dtype, twice, to):
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=getattr(torch, dtype),
                                                 device_map="cpu",
                                                 quantization_config=qlora.quantized(twice))
    model.save_pretrained(to)
    with open(os.path.join(to, "config.json"), encoding="utf-8") as file:
        config = json.load(file)["quantization_config"]
    with safe_open(os.path.join(to, "model.safetensors"), "pt") as file:
        state = file.get_tensor(NAME + STATE).numpy().tobytes().decode()
        return {"quantization_config": config, "state": state, "digests": digests(file),
                "widened": dequantized(to)}


def run(data, folder, dtype, twice):
    with tempfile.TemporaryDirectory() as to:
        kept = saved(os.path.join(data, folder), dtype, twice, to)
        kept = {"model": folder, "dtype": dtype, "double_quantization": twice, **kept}
        return kept if dtype != "float32" else {
            **kept, **lora.run(to, qlora.SETTINGS, device_map="cpu")}


def main(data):
    torch.set_num_threads(1)
    functional.quantize_blockwise = qlora.nearest(functional.quantize_blockwise)
    lora.write({name: run(data, *how) for name, how in RUNS.items()})


if __name__ == "__main__":
    main(sys.argv[1])
