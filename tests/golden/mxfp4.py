#!/usr/bin/env python3
"""Make mxfp4.json: a tiny gpt-oss whose experts are in MXFP4, for tests/unit/test_mxfp4.c: the bytes
of its blocks and scales, what transformers dequantizes them to, and the logits and the loss that it
then computes.  One more tensor has every scale but that of NaN.

    python3 tests/golden/mxfp4.py >tests/golden/mxfp4.json       (on a CPU)
"""
import json
import os
import sys
import tempfile

import torch
import transformers
from safetensors.torch import load_file, save_file
from transformers.integrations.mxfp4 import convert_moe_packed_tensors

import architectures
from architectures import LLAMA, elements, hashed, rounded, tokens

EXPERTS, HIDDEN, SIZE = 3, 64, 32
VALUES = dict(LLAMA, hidden_size=HIDDEN, intermediate_size=SIZE, head_dim=8, num_local_experts=EXPERTS,
              num_experts_per_tok=2, sliding_window=4,
              rope_parameters={"rope_type": "default", "rope_theta": 100.0})


def bytes_of(name, shape, low, high):
    count = torch.Size(shape).numel()
    return torch.tensor([low + int((x + 1) / 2 * (high - low)) for x in hashed(name, count)],
                        dtype=torch.uint8).reshape(shape)


def packed(name, rows, cols):
    """Return blocks and scales; the values are about those of other matrices."""
    return {f"{name}_blocks": bytes_of(f"{name}_blocks", (EXPERTS, rows, cols // 32, 16), 0, 256),
            f"{name}_scales": bytes_of(f"{name}_scales", (EXPERTS, rows, cols // 32), 122, 125)}


def folder_of(folder):
    """Write the folder as OpenAI publishes it; return its config and the shapes of its tensors."""
    config = transformers.GptOssConfig(**VALUES)
    transformers.AutoModelForCausalLM.from_config(config).save_pretrained(folder)
    path = os.path.join(folder, "model.safetensors")
    tensors, shapes, codes = {}, {}, {}
    for name, tensor in load_file(path).items():
        if name.endswith(("gate_up_proj", "down_proj")):
            codes |= packed(name, tensor.shape[2], tensor.shape[1])
            continue
        shapes[name] = list(tensor.shape)
        tensors[name] = elements(name, shapes[name], 0)
    save_file(tensors | codes, path, {"format": "pt"})
    path = os.path.join(folder, "config.json")
    with open(path) as file:
        saved = json.load(file)
    saved["quantization_config"] = {"quant_method": "mxfp4", "modules_to_not_convert": ["lm_head"]}
    with open(path, "w") as file:
        json.dump(saved, file)
    return saved, shapes, codes


def all_scales():
    """Return the blocks of one matrix with each scale, and what they stand for in bf16."""
    blocks = bytes_of("blocks", (1, 255, 1, 16), 0, 256)
    scales = torch.arange(255, dtype=torch.uint8).reshape(1, 255, 1)
    out = convert_moe_packed_tensors(blocks, scales)[0].T.contiguous()
    return {"blocks": blocks.numpy().tobytes().hex(), "scales": scales.numpy().tobytes().hex(),
            "values": out.view(torch.int16).numpy().tobytes().hex()}


def main():
    torch.set_num_threads(1)
    batch = [tokens(count, i) for i, count in enumerate(architectures.LENGTHS)]
    with tempfile.TemporaryDirectory() as folder:
        config, shapes, codes = folder_of(folder)
        model = transformers.AutoModelForCausalLM.from_pretrained(
            folder, dtype=torch.float32, attn_implementation="eager",
            quantization_config=transformers.Mxfp4Config(dequantize=True))
    logits = architectures.logits_of(model, batch)
    loss = architectures.loss_of(model.train(), batch)
    experts = {f"{n}.{i}": rounded(row.double().norm())
               for n, p in model.named_parameters() if n.endswith(("gate_up_proj", "down_proj"))
               for i, row in enumerate(p)}
    json.dump({"made_with": f"transformers {transformers.__version__}, torch "
                            f"{torch.__version__.split('+')[0]}",
               "batch": batch, "lr": architectures.LR, "weight_decay": architectures.DECAY,
               "scales": all_scales(),
               "models": [{"name": "mxfp4", "config": config, "offset": 0, "tensors": shapes,
                           "bytes": {n: {"dtype": "U8", "shape": list(t.shape), "hex": t.numpy().tobytes().hex()}
                                     for n, t in codes.items()},
                           "norms": experts, "logits": logits,
                           "losses": [rounded(loss.detach())]}]},
              sys.stdout, separators=(",", ":"))
    sys.stdout.write("\n")


main()
