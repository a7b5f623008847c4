#!/usr/bin/env python3
"""Make mrope.json: positions of text and images, and their angles, in transformers.

    python3 tests/golden/mrope.py > tests/golden/mrope.json

Made with transformers 5.24.0 and torch 2.15.0.  Each family has batches of sequences, which are
lists of groups: a number of tokens of text, or the grid of an image.  Its positions are those of
get_rope_index; its angles are cosines and sines of the class of its text model.
"""
import importlib
import json
import random
import sys
import types

import torch

FAMILIES = {  # model_type: prefix of the classes, of which only the text model's name differs
    "qwen2_vl": ("Qwen2VL", "Qwen2VLRotaryEmbedding", "Qwen2VLTextConfig"),
    "qwen2_5_vl": ("Qwen2_5_VL", "Qwen2_5_VLRotaryEmbedding", "Qwen2_5_VLTextConfig"),
    "qwen3_vl": ("Qwen3VL", "Qwen3VLTextRotaryEmbedding", "Qwen3VLTextConfig"),
    "qwen3_vl_moe": ("Qwen3VLMoe", "Qwen3VLMoeTextRotaryEmbedding", "Qwen3VLMoeTextConfig"),
    "qwen3_5": ("Qwen3_5", "Qwen3_5TextRotaryEmbedding", "Qwen3_5TextConfig"),
    "qwen3_5_moe": ("Qwen3_5Moe", "Qwen3_5MoeTextRotaryEmbedding", "Qwen3_5MoeTextConfig"),
}
# columns of a head that are rotated, and mrope_section; None: that of the class
ROTATIONS = [(128, None), (16, [4, 2, 2]), (16, [3, 3, 2]), (24, [2, 5, 5]), (8, [4, 0, 0])]
PARTIAL = [(64, None), (16, [4, 2, 2]), (24, [4, 4, 4]), (8, [2, 1, 1])]  # of 3.5, half of a head


def groups(rng, merge):
    """Draw the groups of a sequence; images have text between them."""
    out = [rng.randint(1, 7)] if rng.random() < 0.8 else []
    for _ in range(rng.choice([0, 1, 1, 2, 3])):
        if out and isinstance(out[-1], list):
            out.append(rng.randint(1, 5))
        out.append([1 if rng.random() < 0.8 else rng.randint(2, 4)]
                   + [merge * rng.randint(1, 5) for _ in range(2)])
    if not out or rng.random() < 0.8:
        out.append(rng.randint(1, 5))
    return out


def positions(model, merge, sequence):
    kinds, grids = [], []
    for group in sequence:
        if isinstance(group, list):
            kinds += [1] * (group[0] * group[1] * group[2] // merge ** 2)
            grids.append(group)
        else:
            kinds += [0] * group
    ids = torch.zeros(1, len(kinds), dtype=torch.long)
    more = {"image_grid_thw": torch.tensor(grids)} if grids else {}
    out, delta = model.get_rope_index(ids, mm_token_type_ids=torch.tensor([kinds]), **more)
    return {"groups": sequence, "next": int(delta[0]) + len(kinds),
            "positions": out[:, 0].T.reshape(-1).tolist()}


def batches(module, prefix, rng):
    for merge in (2, 2, 1, 3):
        model = types.SimpleNamespace(config=types.SimpleNamespace(vision_config=types.SimpleNamespace(
            spatial_merge_size=merge, tokens_per_second=4)))
        whole = getattr(module, prefix + "Model")
        for name in ("get_rope_index", "get_vision_position_ids"):
            setattr(model, name, types.MethodType(getattr(whole, name), model))
        yield {"merge": merge, "sequences": [positions(model, merge, groups(rng, merge))
                                             for _ in range(3)]}


def rotations(module, embedding, config, partial, rng):
    for columns, sections in PARTIAL if partial else ROTATIONS:
        rope = {"rope_type": "default", "rope_theta": 1000.0}
        if sections:
            rope["mrope_section"] = sections
        if partial:
            rope["partial_rotary_factor"] = 0.5
        text = config(head_dim=columns * (1 + partial), hidden_size=512, num_attention_heads=4,
                      rope_parameters=rope)
        at = torch.tensor([[rng.randint(0, 40) for _ in range(3)] for _ in range(3)] + [[9] * 3])
        # one sequence of four rows: (3, 1, 4)
        cos, sin = getattr(module, embedding)(text)(torch.zeros(1), at.T[:, None])
        half = columns // 2
        yield {"columns": columns, "rope": rope, "positions": at.reshape(-1).tolist(),
               "angles": [float(f"{x:.6g}") for x in torch.cat(
                   [cos[0, :, :half], sin[0, :, :half]], -1).reshape(-1).tolist()]}


def main():
    rng = random.Random(5)
    rows = []
    for family, (prefix, embedding, config) in FAMILIES.items():
        module = importlib.import_module(f"transformers.models.{family}.modeling_{family}")
        rows.append({"model_type": family, "batches": list(batches(module, prefix, rng)),
                     "rotations": list(rotations(module, embedding, getattr(module, config),
                                                 family.startswith("qwen3_5"), rng))})
    sys.stdout.write("[" + ",\n".join(json.dumps(row, separators=(",", ":")) for row in rows) + "]\n")


main()
