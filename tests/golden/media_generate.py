#!/usr/bin/env python3
"""Make media_generate.json: the tokens that transformers generates, most likely first, for prompts about the sounds
and images of media_curve.py, with its models as they are before training.

    python3 tests/golden/media_generate.py [NAME...]     (as media_curve.py; only these models)
"""
import json
import os
import sys
import tempfile

import torch
import transformers
from transformers.models.mllama.processing_mllama import (convert_sparse_cross_attention_mask_to_dense,
                                                          get_cross_attention_token_mask)

import media_curve as curve

NEW = 12
# A text with %s for each of the first media of the model.
PROMPTS = ["%sWhat is it?", "Compare %s with %s."]
# Models that have one medium in a prompt: of several sounds, transformers pads the shorter ones.
SINGLE = ("phi4_multimodal",)


def tokenizer_of(name):
    return curve.OWN_TOKENIZERS.get(name, curve.TOKENIZER)


def encode(name, folder, settings, items):
    """Return the batch of media_curve.py, or its first record if they are apart there."""
    batch = curve.encode(name, folder, settings, items)
    if isinstance(batch, dict):
        return batch
    return batch[0] | {"attention_mask": torch.ones_like(batch[0]["input_ids"])}


def prompt_of(name, batch, count, text):
    """Return the ids of a prompt: the tokens of media are those of the batch, between template and question."""
    before, between, _ = curve.TEMPLATES[name][1]
    encode = lambda part: tokenizer_of(name).encode(part).ids
    ids, start = encode(before), len(encode(before))
    for i, part in enumerate(text.split("%s")):
        ids += encode(part)
        if i < count:
            row = batch["input_ids"][i][batch["labels"][i] == -100]
            row = row[: int((batch["attention_mask"][i] * (batch["labels"][i] == -100)).sum())]
            ids += row[start: len(row) - len(encode(f"What is {i}?{between}"))].tolist()
    return ids + encode(between)


def crossed(model, batch, ids):
    """Return the inputs of cross-attention for a prompt with all images of a batch; rows before the first see nothing."""
    out = {key: batch[key].transpose(0, 1) for key in ("pixel_values", "aspect_ratio_ids", "aspect_ratio_mask")}
    tiles = out["aspect_ratio_mask"].sum(-1).tolist()
    out["cross_attention_mask"] = torch.tensor(convert_sparse_cross_attention_mask_to_dense(
        [get_cross_attention_token_mask(ids, model.config.image_token_id)], tiles, batch["aspect_ratio_mask"].shape[-1],
        len(ids)))
    return out


def generate(model, batch, ids):
    """Return the new tokens, and the least difference between a logit and the next."""
    inputs = {k: v for k, v in batch.items() if k not in ("labels", "token_type_ids", "mm_token_type_ids")}
    inputs["input_ids"] = torch.tensor([ids])
    inputs["attention_mask"] = torch.ones_like(inputs["input_ids"])
    hooks = []
    if "cross_attention_mask" in batch:
        inputs |= crossed(model, batch, ids)
        base = model.get_base_model() if hasattr(model, "get_base_model") else model
        hooks = curve.hide_early_rows(base, inputs["cross_attention_mask"])
    for key in ("token_type_ids", "mm_token_type_ids"):
        if key in batch:
            inputs[key] = (inputs["input_ids"] == model.config.image_token_id).to(batch[key].dtype)
    made = model.generate(**inputs, do_sample=False, max_new_tokens=NEW, pad_token_id=0, eos_token_id=None,
                          return_dict_in_generate=True, output_logits=True)
    for hook in hooks:
        hook.remove()
    best = [one[0].topk(2).values for one in made.logits]
    return made.sequences[0, len(ids):].tolist(), min(float(b[0] - b[1]) for b in best)


def main():
    torch.set_num_threads(1)
    curve.MORE.clear()  # a folder has no crop_to_patches, which is a key of jobs
    curve.WHOLE = () # labels show which tokens are the prompt's
    results = {"made_with": f"transformers {transformers.__version__}, torch {torch.__version__.split('+')[0]}"}
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "media_generate.json")
    if sys.argv[1:]:
        with open(path) as file:
            results = json.load(file) | results
    for name in sys.argv[1:] or curve.CASES:
        values, settings, items = curve.CASES[name]
        with tempfile.TemporaryDirectory() as folder:
            config, _, _ = curve.make(name, values, settings, folder)
            model, cases = curve.load(config, folder).eval(), []
            for text in PROMPTS[:1 if name in SINGLE else None]:
                count = text.count("%s")
                batch = encode(name, folder, settings, items[:count])
                ids = prompt_of(name, batch, count, text)
                out, margin = generate(model, batch, ids)
                print(name, len(ids), margin, out)
                cases.append({"prompt": text, "ids": out})
            results[name] = cases
    with open(path, "w") as file:
        json.dump(results, file, separators=(",", ":"), sort_keys=True)
        file.write("\n")


if __name__ == "__main__":
    main()
