#!/usr/bin/env python3
"""Make lora.json: adapters by PEFT on a shared model, for test_golden_lora.

    python3 tests/golden/lora.py SHARED/data > tests/golden/lora.json

The weights of the adapter come from a formula that the test also has, so that B is not zero and no
gradient vanishes.  The file has PEFT's adapter_config.json, the names and shapes in its file, the
loss, the gradient norm of each tensor, twenty losses of AdamW, and logits of the merged model.
"""
import json
import os
import sys
import tempfile

import numpy
import peft
import torch
from peft import LoraConfig, get_peft_model
from safetensors import safe_open
from transformers import AutoModelForCausalLM

STEPS, RATE, SCALE = 20, 1e-3, 1 / 64
RUNS = {
    "llama": ("stories260K/hf", {"r": 4, "lora_alpha": 12}),
    "llama some": ("stories260K/hf", {"r": 3, "lora_alpha": 16, "use_rslora": True,
                                      "target_modules": ["q_proj", "v_proj", "down_proj"]}),
    "qwen2": ("made-here/qwen2", {"r": 8, "lora_alpha": 8}),
}
LINEAR = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]


def bits(seed, count):
    """Return 32-bit hashes of index and seed."""
    x = numpy.arange(count, dtype=numpy.uint64) * 2654435761 + seed * 2246822519
    x &= 0xFFFFFFFF
    x ^= x >> numpy.uint64(16)
    x = x * numpy.uint64(0x45D9F3B) & numpy.uint64(0xFFFFFFFF)
    return x ^ x >> numpy.uint64(16)


def fill(model):
    """Fill the adapter: the i-th tensor in the order of names has seed i in the formula."""
    names = sorted(name for name, p in model.named_parameters() if p.requires_grad)
    own = dict(model.named_parameters())
    for seed, name in enumerate(names):
        values = ((bits(seed, own[name].numel()) % numpy.uint64(129)).astype(float) - 64) / 32
        own[name].data = torch.tensor(values * SCALE).float().reshape(own[name].shape)


def saved(model):
    """Return adapter_config.json, and the names and shapes, sorted by name, that PEFT writes."""
    with tempfile.TemporaryDirectory() as to:
        model.save_pretrained(to)
        with open(os.path.join(to, "adapter_config.json"), encoding="utf-8") as file:
            config = json.load(file)
        with safe_open(os.path.join(to, "adapter_model.safetensors"), "pt") as file:
            tensors = [[name, list(file.get_slice(name).get_shape())]
                       for name in sorted(file.keys())]
    config["base_model_name_or_path"] = None
    config["target_modules"] = sorted(config["target_modules"])
    return config, tensors


def short(x):
    return float(f"{float(x):.8g}")


def run(folder, settings, **loading):
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32,
                                                 attn_implementation="eager", **loading)
    vocab = model.config.vocab_size
    rows = [[int(x) for x in bits(row + 100, length) % numpy.uint64(vocab)]
            for row, length in enumerate((40, 23))]
    settings = {"target_modules": LINEAR, "task_type": "CAUSAL_LM"} | settings
    model = get_peft_model(model, LoraConfig(**settings))
    fill(model)
    model.train()
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=RATE,
                                  weight_decay=0.0)
    config, tensors = saved(model)
    trained, losses, gradients = sum(len(row) - 1 for row in rows), [], {}
    for step in range(STEPS):
        optimizer.zero_grad()
        loss = sum(torch.nn.functional.cross_entropy(
            model(torch.tensor([row])).logits[0, :-1], torch.tensor(row[1:]), reduction="sum")
            for row in rows) / trained
        loss.backward()
        losses.append(short(loss))
        if step == 0:
            gradients = {name.replace(".default", ""): short(p.grad.norm())
                         for name, p in model.named_parameters() if p.requires_grad}
        optimizer.step()
    if loading:
        return {"config": config, "tensors": tensors, "rows": rows, "losses": losses,
                "gradients": gradients}
    with torch.no_grad():
        logits = model.merge_and_unload()(torch.tensor([rows[0]])).logits[0, -1]
    return {"config": config, "tensors": tensors, "rows": rows, "losses": losses,
            "gradients": gradients, "merged": [short(x) for x in logits[:32]]}


def main(data):
    torch.set_num_threads(1)
    runs = {name: {"model": folder, **run(os.path.join(data, folder), settings)}
            for name, (folder, settings) in RUNS.items()}
    write(runs)


def write(runs):
    text = json.dumps({"peft": peft.__version__, "learning_rate": RATE, "scale": SCALE,
                       "runs": runs})
    print(text.replace('], "', '],\n"').replace("]], [", "]],\n[").replace("]], \"", "]],\n\""))


if __name__ == "__main__":
    main(sys.argv[1])
