#!/usr/bin/env python3
"""Make media_projector.json: the models of media_rows.py whose projectors are trained, too, from given rows
of an encoder's output, computed by transformers for tests/unit/test_model_projector.c, with the gradients of
these rows; and adapters with the projector in modules_to_save, trained by PEFT.

    python3 tests/golden/media_projector.py [NAME...]       (on a CPU; only these cases)
"""
import json
import os
import sys
import tempfile
from types import SimpleNamespace

import torch
import transformers
from peft import LoraConfig, PeftModel, get_peft_model
from safetensors.torch import load_file, save_file
from transformers.modeling_outputs import BaseModelOutputWithPooling, MoeCausalLMOutputWithPast

import architectures
import media_rows
import multimodal
from architectures import DECAY, LR, decayed_names, elements
from media_rows import ROWS, deep_count, records, rows_of, uses_grids

MoeCausalLMOutputWithPast.image_outputs = None # which Llama 4's class reads in 5.24
CASES = ("audioflamingo3", "gemma3", "glm4v", "internvl", "lfm2_vl", "llama4", "llava", "mistral3", "mllama", "paddleocr_vl",
         "qwen2_5_vl", "qwen2_audio", "qwen2_vl", "qwen3_5", "qwen3_vl", "voxtral")
ADAPTERS = {f"{base}-lora": base for base in ("gemma3", "glm4v", "llama4", "llava", "mistral3", "mllama",
                                          "paddleocr_vl", "qwen2_audio", "qwen3_vl")}


def load(base, folder):
    model = media_rows.load(base, folder)
    model.__dict__.pop("forward", None) # of text alone
    return model


def inner_of(model):
    """Return what a model with a head has besides that; Llama 4's has no model in it."""
    model = model.base_model.model if isinstance(model, PeftModel) else model
    return model if model.config.model_type == "llama4" else model.model


def projector_of(model):
    inner = inner_of(model)
    if hasattr(inner, "projector"):
        return inner.projector
    return inner.visual.merger if uses_grids(model) else inner.multi_modal_projector


def encoder_columns(model):
    """Return the columns of the encoder's rows, and how many of these are one row of features."""
    config = model.config
    if config.model_type == "glm4v": # a convolution has merged them
        return config.vision_config.out_hidden_size, 1
    if config.model_type == "llama4": # two layers of the encoder have
        return config.vision_config.vision_output_dim, 1
    if config.model_type == "mistral3":
        return config.vision_config.hidden_size, config.spatial_merge_size ** 2
    if uses_grids(model):
        return getattr(config.vision_config, "embed_dim", config.vision_config.hidden_size), 4
    if config.model_type == "mllama": # the outputs of several layers
        return config.vision_config.vision_output_dim, 1
    if config.model_type in ("internvl", "lfm2_vl"): # four side by side, before the norm
        return 4 * config.vision_config.hidden_size, 1
    if hasattr(config, "vision_config"):
        return config.vision_config.hidden_size, 1
    if config.model_type == "voxtral":
        return config.audio_config.intermediate_size, 1
    return getattr(config.audio_config, "d_model", None) or config.audio_config.hidden_size, 1


def project(model, rows, medium):
    projector = projector_of(model)
    if model.config.model_type == "mistral3": # patches of a row are adjacent; it reads an image row by row
        (_, height, width), patch = media_rows.GRIDS[medium], model.config.vision_config.patch_size
        image = rows.reshape(height // 2, width // 2, 2, 2, -1).transpose(1, 2).reshape(height * width, -1)
        return projector(image, torch.tensor([[height * patch, width * patch]]))
    if model.config.model_type == "gemma3": # without its mean of patches
        return projector.mm_soft_emb_norm(rows) @ projector.mm_input_projection_weight
    if model.config.model_type == "lfm2_vl": # without its first step
        return projector.linear_2(projector.act(projector.linear_1(projector.layer_norm(rows))))
    if model.config.model_type == "paddleocr_vl": # rows that become one follow each other
        rows = projector.pre_norm(rows).reshape(len(rows) // 4, -1)
        return projector.linear_2(projector.act(projector.linear_1(rows)))
    return projector(rows)


LEAVES = {} # of the medium that a model has read last: the encoder's rows, and those of DeepStack


def leaf(tensor, medium):
    LEAVES.setdefault(medium, []).append(tensor.requires_grad_(True))
    return tensor


def given(model, media):
    inner = inner_of(model)
    columns, times = encoder_columns(model)
    for m, _ in media:
        LEAVES.pop(m, None)
    counts = media_rows.CROSS_ROWS if media_rows.crosses(model) else ROWS
    towers = [leaf(elements(f"encoder.{m}", [counts[m] * times, columns], 0), m) for m, _ in media]
    if inner.config.model_type == "qwen2_audio":
        frames = torch.tensor([4 * len(r) for r in towers])
        padded = torch.zeros(len(towers), int(max(frames)) // 4, columns)
        for i, r in enumerate(towers):
            padded[i, :len(r)] = r
        inner.audio_tower.forward = lambda *_, **__: SimpleNamespace(last_hidden_state=padded)
        mask = torch.arange(int(max(frames)))[None] < frames[:, None]
        return {"input_features": torch.zeros(len(towers), 4, int(max(frames))),
                "feature_attention_mask": mask.long()}
    if inner.config.model_type == "llama4": # the model projects them itself
        inner.get_image_features = lambda *_, **__: SimpleNamespace(last_hidden_state=torch.cat(towers))
        return {"pixel_values": torch.zeros(1, 3, 8, 8)}
    rows = [project(model, r, m) for r, (m, _) in zip(towers, media)]
    if media_rows.crosses(model):
        return rows
    if hasattr(inner, "audio_tower"):
        inner.get_audio_features = lambda *_, **__: SimpleNamespace(pooler_output=torch.cat(rows))
        return {"input_features": torch.zeros(1, 4, 16)}
    pooled = torch.cat(rows) if inner.config.model_type in ("gemma3", "internvl") else tuple(rows)
    if inner.config.model_type == "internvl": # rows of tiles
        pooled = pooled[None]
    out = BaseModelOutputWithPooling(pooler_output=pooled)
    out.deepstack_features = [tuple(leaf(rows_of(model, m, k), m) for m, _ in media)
                              for k in range(deep_count(model))]
    inner.get_image_features = lambda *_, **__: out
    inputs = {"pixel_values": torch.zeros(1, 3, 8, 8)}
    if uses_grids(model):
        inputs["image_grid_thw"] = torch.tensor([media_rows.GRIDS[m] for m, _ in media])
    return inputs


media_rows.given = media_rows.crossed_rows = given


def encoder_gradients(model, batch):
    """Return the probes of the gradients of each medium's rows."""
    model.train()
    media_rows.loss_of(model, batch).backward()
    model.zero_grad()
    return {m: [media_rows.probe(f"encoder.{m}.{i}", leaf.grad) for i, leaf in enumerate(leaves)]
            for m, leaves in sorted(LEAVES.items())}


def result(model, name, base, label):
    batch = records(name)
    if not isinstance(model, PeftModel):
        for parameter in projector_of(model).parameters():
            parameter.requires_grad_(True)
    columns, times = encoder_columns(model)
    logits = media_rows.logits_of(model, batch)
    rows = {} if isinstance(model, PeftModel) else {"rows": encoder_gradients(model, batch)}
    losses, probes = media_rows.train(model, batch, decayed_names(model, label), label)
    return {"name": name, "base": "towers-" + base, "batch": media_rows.written(batch), "deep": deep_count(model),
            "grids": media_rows.GRIDS if uses_grids(model) else None, "encoder": [columns, times],
            "image": media_rows.IMAGE if media_rows.crosses(model) else None,
            "logits": logits, "losses": losses, "probes": probes} | rows


def case(name):
    with tempfile.TemporaryDirectory() as folder:
        multimodal.make(name, folder)
        model = load(name, folder)
    return result(model, name, name, str)


def targets(base):
    found = media_rows.targets(base)
    return found.replace(r"model\.language_model\.", r"language_model\.model\.") if base == "llama4" else found


def adapter(name, base):
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as to:
        multimodal.make(base, folder)
        plain = load(base, folder)
        saved = ("projector" if hasattr(inner_of(plain), "projector") else
                 "merger" if uses_grids(plain) else "multi_modal_projector")
        fresh = get_peft_model(plain, LoraConfig(r=4, lora_alpha=6, target_modules=targets(base),
                                                 modules_to_save=[saved], task_type="CAUSAL_LM"))
        fresh.save_pretrained(to)
        path = os.path.join(to, "adapter_model.safetensors")
        shapes = {n: list(t.shape) for n, t in sorted(load_file(path).items())}
        offset = 1 if base == "gemma3" else 0
        save_file({n: elements(n, s, offset) for n, s in shapes.items()}, path, {"format": "pt"})
        with open(os.path.join(to, "adapter_config.json")) as file:
            config = json.load(file)
        model = PeftModel.from_pretrained(load(base, folder), to, is_trainable=True).train()
    def label(n):
        n = n.replace(".default", "")
        return n.replace("base_model.model.", "").replace(".modules_to_save", "") if "modules_to_save" in n else n
    kept = ("r", "lora_alpha", "use_rslora", "target_modules", "modules_to_save", "fan_in_fan_out", "peft_type")
    return result(model, name, base, label) | {
        "config": {key: config[key] for key in kept}, "tensors": shapes, "offset": offset}


def main():
    torch.set_num_threads(1)
    path = os.path.join(os.path.dirname(__file__), "media_projector.json")
    names = sys.argv[1:] or [*CASES, *ADAPTERS]
    results = {"made_with": f"transformers {transformers.__version__}, torch "
                            f"{torch.__version__.split('+')[0]}",
               "lr": LR, "weight_decay": DECAY, "models": [], "adapters": []}
    if sys.argv[1:]:
        with open(path) as file:
            results = json.load(file)
    for key in ("models", "adapters"):
        results[key] = [one for one in results[key] if one["name"] not in names]
    for name in names:
        if name in ADAPTERS:
            results["adapters"].append(adapter(name, ADAPTERS[name]))
        else:
            results["models"].append(case(name))
    architectures.write(results, path)


if __name__ == "__main__":
    main()
