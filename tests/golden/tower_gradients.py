#!/usr/bin/env python3
"""Make tower_gradients.safetensors: gradients of the tiny encoders of towers.py, for given gradients of the rows that
a projector reads and of those of DeepStack, for tests/unit/test_tower_backward.c.  Of each tensor it has the norm and
some elements.

    python3 tests/golden/tower_gradients.py     (on a CPU)
"""
import os

import torch
import transformers
from safetensors.torch import save_file
from transformers.vision_utils import get_vision_window_index

import towers
from towers import CASES, values_of

SAMPLES = 24
# In fp64: the gradient of a gate is a sum over all rows, whose terms cancel.
WIDE = ("mllama",)


def sample(gradient):
    """Return the norm, then elements that are spread over the tensor."""
    x = gradient.double().reshape(-1)
    n, k = len(x), torch.arange(SAMPLES)
    at = torch.arange(n) if n <= SAMPLES else k * n // SAMPLES + k * 7 % (n // SAMPLES)
    return torch.cat([x.norm()[None], x[at]]).float()


def in_item_order(model, name, item, read, rows):
    """Return the rows that count of what the projector reads, as tower_run orders them."""
    if name in ("qwen2_audio", "audioflamingo3"):
        kept = [((frames - 1) // 2 + 1) // 2 for frames in item]
        return torch.cat([read[i, :count] for i, count in enumerate(kept)])
    if name in ("mistral3", "paddleocr_vl"):
        read = read.reshape(item[0] // 2, 2, item[1] // 2, 2, -1).permute(0, 2, 1, 3, 4)
    if name.startswith("lfm2_vl"):
        read = model.model.multi_modal_projector.pixel_unshuffle(read)
    if name == "mllama": # the rows of the image's tiles
        return read[0, 0, :rows // read.shape[-2]].reshape(rows, -1)
    read = read.reshape(rows, -1)
    if name == "qwen2_5_vl":
        vision = model.config.vision_config
        order = get_vision_window_index(torch.tensor([[1, *item]]), vision.spatial_merge_size, vision.window_size,
                                        vision.patch_size)[0]
        read = read[torch.argsort(order)]
    return read


def given(name, i, part, rows):
    return towers.values_of(f"{name} {i}", part, *rows.shape)


def loss_of(model, name, i, item):
    sound = isinstance(item, list)
    inner = model.model
    part = getattr(inner, "projector", None) or (
        inner.visual.merger if hasattr(inner, "visual") else inner.multi_modal_projector)
    part = getattr(part, "mm_soft_emb_norm", part)
    kept = []
    hook = part.register_forward_pre_hook(lambda m, args: kept.append(args[0]))
    out = (towers.hear if sound else towers.see)(model, name, i, item)
    hook.remove()
    rows, deep = (out, []) if sound else out
    read = in_item_order(model, name, item, kept[0], len(rows))
    loss = (read * given(name, i, "read", read)).sum()
    for k, one in enumerate(deep):
        one = one if torch.is_tensor(one) else one[0]
        loss = loss + (one * given(name, i, f"deep{k}", one)).sum()
    return loss


def short(name):
    """Return a name without the prefix of the tower; None if it is no tensor of one."""
    for prefix in ("audio_tower.", "vision_tower.", "visual.", "vision_model."):
        if prefix in name:
            name = name.split(prefix, 1)[1].removeprefix("vision_model.")
            return None if name.startswith("merger.") else name
    return None


def main():
    torch.set_num_threads(1)
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "tower_gradients.safetensors")
    results = {}
    for name, (values, items) in CASES.items():
        if name.split("-")[0] in ("gemma4_unified", "glm4v", "internvl", "llama4", "phi4_multimodal", "phi4mm"): # frozen
            continue
        model, _, _ = towers.make(name.split("-")[0], values)
        kind = torch.float64 if name in WIDE else torch.float32
        model.to(kind)
        towers.values_of = lambda *of: values_of(*of).to(kind)
        if hasattr(model.model, "audio_tower"): # frozen by the class, but not after from_pretrained
            model.model.audio_tower.embed_positions.requires_grad_(True)
        sum(loss_of(model, name, i, item) for i, item in enumerate(items)).backward()
        for key, parameter in model.named_parameters():
            if short(key) and parameter.grad is not None:
                results[f"{name}.{short(key)}"] = sample(parameter.grad)
    save_file(results, path, {"made_with": f"transformers {transformers.__version__}, "
                                           f"torch {torch.__version__.split('+')[0]}"})


if __name__ == "__main__":
    main()
