#!/usr/bin/env python3
"""Make encoder_merge.json: what PEFT makes of adapters on all linear layers of models and their encoders, before they
are trained: the loss of the records, the tokens that are generated about the first file, and the norms of the
encoder's tensors after merge_and_unload, for tests/unit/test_encoder_merge.c.  Models, adapters and data are those of
tower_training.py.

    python3 tests/golden/encoder_merge.py     (on a CPU, with torchvision and PEFT)
"""
import json
import os
import tempfile

import peft
import torch
import transformers

import media_generate
from media_curve import CASES, encode, hide_early_rows, make
from tower_training import KEYS, adapter, contains, norms


def answer(model, batch):
    """Return the new tokens; their choice must not depend on rounding."""
    ids, margin = media_generate.generate(model, batch, batch["input_ids"][0][batch["labels"][0] == -100].tolist())
    assert margin > 1e-3, margin
    return ids


def measure(name, config, folder, to):
    model, _, _ = adapter(config, folder, name, to)
    batch, out = encode(name, folder, *CASES[name][1:3]), {}
    model.eval()
    if "cross_attention_mask" in batch:
        hide_early_rows(model.get_base_model(), batch["cross_attention_mask"])
    else:
        out["ids"] = answer(model, encode(name, folder, CASES[name][1], CASES[name][2][:1]))
    with torch.no_grad():
        out["loss"] = float(f"{model(**batch).loss.item():.8g}")
    with tempfile.TemporaryDirectory() as merged:
        model.merge_and_unload().save_pretrained(merged)
        now, was = norms(merged, "model.safetensors"), norms(folder, "model.safetensors")
    out["norms"] = {key: now[key] for key in now if contains(key, KEYS[name][0]) and now[key] != was[key]}
    return out


def main():
    torch.set_num_threads(1)
    results = {"made_with": f"transformers {transformers.__version__}, torch {torch.__version__.split('+')[0]}, "
                            f"peft {peft.__version__}"}
    for name in KEYS:
        with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as to:
            config, _, _ = make(name, *CASES[name][:2], folder)
            results[name] = measure(name, config, folder, to)
            print(name, results[name]["loss"], len(results[name]["norms"]), results[name].get("ids"))
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "encoder_merge.json"), "w") as file:
        json.dump(results, file, separators=(",", ":"), sort_keys=True)
        file.write("\n")


if __name__ == "__main__":
    main()
