#!/usr/bin/env python3
"""Make media_rows.json: the models of multimodal.py with rows of features in place of the embeddings of
media tokens, computed by transformers, for tests/unit/test_model_media.c: logits, loss, the norm and the
projection of each gradient of the text model, and thirty steps of AdamW; and adapters, trained by PEFT.
The towers do not run: their projectors' output is given.

    python3 tests/golden/media_rows.py [NAME...]       (on a CPU; only these cases)
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
from transformers.modeling_outputs import BaseModelOutputWithPooling
from transformers.models.mllama.processing_mllama import (convert_sparse_cross_attention_mask_to_dense,
                                                          get_cross_attention_token_mask)

import architectures
import multimodal
from architectures import DECAY, LR, decayed_names, elements, rounded, tokens

STEPS, NEW = 30, 12
TEXT, MEDIA = 36, 39 # text tokens are below 36: the others are special in some models
# Positions of the records: a number of tokens of text, or a medium.
RECORDS = ((4, "a", 3, "b", 5), (2, "c", 6))
# Rows of the media; of images the patches in each direction, of which 2 x 2 make a row.
ROWS = {"a": 6, "b": 1, "c": 4}
GRIDS = {"a": (1, 4, 6), "b": (1, 2, 2), "c": (1, 8, 2)}
# Models whose media are not adjacent rows: a token of text follows every third.
BROKEN = ("llava-broken",)
# Cross-attention: an image is one token, which has no logits; its rows are those of whole tiles.
IMAGE, TILE, TILES = 40, 5, 4
CROSS_ROWS = {"a": 10, "b": 5, "c": 20}
CROSS_RECORDS = {"mllama": (("a", "b", 6, "c", 4), (5,)), "mllama-late": ((4, "a", 3, "b", "c", 2), (3,))}
CASES = {name: name for name in (
    "audioflamingo3", "gemma3", "gemma4_unified", "glm4v", "llama4", "llava", "mistral3", "paddleocr_vl", "phi4_multimodal",
    "qwen2_5_vl",
    "qwen2_audio", "qwen2_vl", "qwen3_5", "qwen3_5_moe", "qwen3_vl", "qwen3_vl_moe", "voxtral")} | {
        "llava-broken": "llava", "mllama": "mllama", "mllama-late": "mllama"}
ADAPTERS = {f"{base}-lora": base for base in ("gemma3", "mllama", "qwen2_audio", "qwen3_vl")}


def crosses(model):
    return model.config.model_type == "mllama"


def load(base, folder):
    """Rows before the first image of a text see nothing, as in torchtune: transformers masks only their MLP,
    and lets their attention see all rows of the batch, also of tiles that are not there."""
    model = multimodal.load(folder)
    if crosses(model):
        text = model.model.language_model
        for number in text.config.cross_attention_layers:
            text.layers[number].requires_grad_(True)
            text.layers[number].cross_attn.register_forward_hook(
                lambda _, __, out: (out[0] * model.seen.to(out[0].dtype)[None, :, None], out[1]))
    return model


def uses_grids(model):
    return ("qwen" in model.config.model_type and hasattr(model.config, "vision_config")
            or model.config.model_type in ("glm4v", "paddleocr_vl"))


def records(name):
    """Return each record's tokens, and the rows where media are: (medium, positions)."""
    out, stream = [], 0
    kind = name.removesuffix("-lora")
    for record in CROSS_RECORDS.get(kind, RECORDS):
        ids, media = [], []
        for part in record:
            if isinstance(part, int):
                ids += [t % TEXT for t in tokens(part, stream)]
                stream += 1
                continue
            at = []
            if kind in CROSS_RECORDS:
                media.append((part, [len(ids)] * CROSS_ROWS[part]))
                ids.append(IMAGE)
                continue
            for i in range(ROWS[part]):
                at.append(len(ids))
                ids.append(MEDIA)
                if name in BROKEN and i % 3 == 2:
                    ids.append(TEXT + 1)
            media.append((part, at))
        out.append((ids, media))
    return out


def rows_of(model, medium, deep=None):
    width = model.config.get_text_config().hidden_size
    name = f"rows.{medium}" if deep is None else f"rows.{medium}.deep{deep}"
    return elements(name, [(CROSS_ROWS if crosses(model) else ROWS)[medium], width], 0)


def deep_count(model):
    return len(getattr(getattr(model.config, "vision_config", None), "deepstack_visual_indexes", None) or [])


def given(model, media):
    """Let the model use the rows of these media; return the inputs that it has in their place."""
    inner = model.base_model.model.model if isinstance(model, PeftModel) else model.model
    rows = [rows_of(model, m) for m, _ in media]
    deep = [[rows_of(model, m, k) for m, _ in media] for k in range(deep_count(model))]
    if inner.config.model_type == "qwen2_audio":
        frames = torch.tensor([4 * len(r) for r in rows])
        padded = torch.zeros(len(rows), int(max(frames)) // 4, rows[0].shape[1])
        for i, r in enumerate(rows):
            padded[i, :len(r)] = r
        inner.audio_tower.forward = lambda *_, **__: SimpleNamespace(last_hidden_state=padded)
        inner.multi_modal_projector.forward = lambda x: x
        mask = torch.arange(int(max(frames)))[None] < frames[:, None]
        return {"input_features": torch.zeros(len(rows), 4, int(max(frames))),
                "feature_attention_mask": mask.long()}
    if model.config.model_type == "gemma4_unified":
        inner.get_image_features = lambda *_, **__: BaseModelOutputWithPooling(pooler_output=tuple(rows))
        return {"pixel_values": torch.zeros(1, 3, 8, 8)}
    if hasattr(inner, "embed_tokens_extend"):
        inner.embed_tokens_extend.forward = lambda ids, embeddings, **_: embeddings.masked_scatter(
            (ids == MEDIA)[..., None].expand_as(embeddings), torch.cat(rows))
        return {}
    if hasattr(inner, "audio_tower"):
        inner.get_audio_features = lambda *_, **__: SimpleNamespace(pooler_output=torch.cat(rows))
        return {"input_features": torch.zeros(1, 4, 16)}
    pooled = torch.cat(rows) if inner.config.model_type == "gemma3" else tuple(rows)
    out = BaseModelOutputWithPooling(pooler_output=pooled)
    out.deepstack_features = [tuple(d) for d in deep]
    inner.get_image_features = lambda *_, **__: out
    inputs = {"pixel_values": torch.zeros(1, 3, 8, 8)}
    if uses_grids(model):
        inputs["image_grid_thw"] = torch.tensor([GRIDS[m] for m, _ in media])
    return inputs


def crossed_rows(model, media):
    return [rows_of(model, m) for m, _ in media]


def crossed(model, record):
    """Return the inputs of cross-attention; the rows of tiles that an image has not are large."""
    ids, media = record
    images, mask = [], torch.zeros(len(ids), len(media), TILES)
    for i, ((medium, at), rows) in enumerate(zip(media, crossed_rows(model, media))):
        images.append(torch.cat([rows, torch.full((TILES * TILE - len(rows), rows.shape[1]), 1e4)]))
        later = [b[0] for _, b in media[i + 1:]] + [len(ids)]
        group = [b for b in range(len(later)) if later[b] != at[0] + b + 1][0]  # the next image that is not adjacent
        mask[at[0]:later[group], i, :len(rows) // TILE] = 1
    expected = get_cross_attention_token_mask(ids, IMAGE)
    dense = convert_sparse_cross_attention_mask_to_dense([expected], [[len(at) // TILE for _, at in media]], TILES, len(ids))
    assert (torch.tensor(dense)[0] == mask).all()
    (model if not isinstance(model, PeftModel) else model.base_model.model).seen = mask.amax((1, 2))
    return {"cross_attention_states": torch.stack(images).reshape(1, -1, images[0].shape[1]),
            "cross_attention_mask": mask[None]}


def run(model, record, labels=True):
    ids, media = record
    if crosses(model):
        inputs = crossed(model, record) if media else {}
        labeled = torch.tensor([[-100 if i == IMAGE else i for i in ids]]) if labels else None
        return model(input_ids=torch.tensor([ids]), labels=labeled, **inputs)
    ids = torch.tensor([ids])
    if model.config.model_type == "llama4": # multimodal.load leaves its text model alone
        embeddings = model.get_input_embeddings()(ids)
        if media:
            embeddings = embeddings.masked_scatter((ids == MEDIA)[..., None], torch.cat([rows_of(model, m) for m, _ in media]))
        return model(inputs_embeds=embeddings, labels=ids if labels else None)
    types = (ids == MEDIA).long()
    inputs = given(model, media)
    if uses_grids(model):
        inputs["mm_token_type_ids"] = types.int()
    if model.config.model_type == "gemma3":
        inputs["token_type_ids"] = types
    if model.config.model_type == "gemma4_unified":
        inputs["mm_token_type_ids"] = types
    return model(input_ids=ids, attention_mask=torch.ones_like(ids), labels=ids if labels else None, **inputs)


def generated(model, batch):
    """Return the tokens of text that follow each record, chosen greedily; without a cache."""
    model.eval()
    out = []
    for ids, media in batch:
        all = list(ids)
        with torch.no_grad():
            for _ in range(NEW):
                all.append(int(run(model, (all, media), labels=False).logits[0, -1, :TEXT].argmax()))
        out.append(all[len(ids):])
    return out


def loss_of(model, batch):
    counts = [len([i for i in ids[1:] if i != IMAGE]) for ids, _ in batch]
    return sum(run(model, record).loss * count for record, count in zip(batch, counts)) / sum(counts)


def logits_of(model, batch):
    model.eval()
    with torch.no_grad():
        return [[rounded(x) for x in run(model, r, labels=False).logits[0, -1]] for r in batch]


def probe(name, grad):
    """Return the norm of a gradient, and its projection on a vector that its name makes."""
    along = elements("probe." + name, [1, grad.numel()], 0).double().reshape(grad.shape)
    return [rounded(grad.double().norm()), rounded((grad.double() * along).sum())]


def train(model, batch, decayed, label):
    trained = [(label(n), p) for n, p in model.named_parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(
        [{"params": [p for n, p in trained if n in decayed], "weight_decay": DECAY},
         {"params": [p for n, p in trained if n not in decayed], "weight_decay": 0.0}],
        lr=LR, betas=(0.9, 0.999), eps=1e-8)
    losses, probes = [], {}
    model.train()
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = loss_of(model, batch)
        loss.backward()
        probes = probes or {n: probe(n, grad) for name, p in trained for n, grad in architectures.by_expert(
            name, p.grad, architectures.expert_names(model.config.model_type)).items()}
        losses.append(rounded(loss.detach()))
        optimizer.step()
    return losses, probes


def written(batch):
    """Return the batch: tokens, the rows of media, and the media, in order."""
    at, first, media = [], 0, []
    for ids, parts in batch:
        for medium, rows in parts:
            media.append([medium, len(rows)])
            at += [first + row for row in rows]
        first += len(ids)
    return {"tokens": [ids for ids, _ in batch], "media": media, "at": at}


def case(name, base):
    batch = records(name)
    with tempfile.TemporaryDirectory() as folder:
        multimodal.make(base, folder)
        model = load(base, folder)
    logits, continued = logits_of(model, batch), generated(model, batch)
    losses, probes = train(model, batch, decayed_names(model, str), str)
    return {"name": name, "base": "towers-" + base, "batch": written(batch), "deep": deep_count(model),
            "grids": GRIDS if uses_grids(model) else None, "image": IMAGE if crosses(model) else None, "logits": logits, "generated": continued, "losses": losses, "probes": probes}


def targets(base):
    return multimodal.TARGETS.replace(r"self_attn\.", r"(?:self|cross)_attn\.") if base == "mllama" else multimodal.TARGETS


def adapter(name, base):
    batch = records(name)
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as to:
        multimodal.make(base, folder)
        fresh = get_peft_model(load(base, folder), LoraConfig(
            r=4, lora_alpha=6, target_modules=targets(base), task_type="CAUSAL_LM"))
        fresh.save_pretrained(to)
        path = os.path.join(to, "adapter_model.safetensors")
        shapes = {n: list(t.shape) for n, t in sorted(load_file(path).items())}
        save_file({n: elements(n, s, 0) for n, s in shapes.items()}, path, {"format": "pt"})
        with open(os.path.join(to, "adapter_config.json")) as file:
            config = json.load(file)
        model = PeftModel.from_pretrained(load(base, folder), to, is_trainable=True).train()
    label = lambda n: n.replace(".default", "")
    logits = logits_of(model, batch)
    losses, probes = train(model, batch, decayed_names(model, label), label)
    kept = ("r", "lora_alpha", "use_rslora", "target_modules", "fan_in_fan_out", "peft_type")
    return {"name": name, "base": "towers-" + base, "batch": written(batch), "deep": deep_count(model),
            "grids": GRIDS if uses_grids(model) else None, "image": IMAGE if crosses(model) else None,
            "config": {key: config[key] for key in kept}, "tensors": shapes,
            "logits": logits, "losses": losses, "probes": probes}


def main():
    torch.set_num_threads(1)
    path = os.path.join(os.path.dirname(__file__), "media_rows.json")
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
            results["models"].append(case(name, CASES[name]))
    architectures.write(results, path)


if __name__ == "__main__":
    main()
