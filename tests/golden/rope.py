#!/usr/bin/env python3
"""Make rope.json: tiny models with each type of rotary scaling, computed by transformers, for
tests/unit/test_rope_models.c: loss, logits, the norm of each gradient, and the tokens that greedy
decoding adds to the first sequence.

    python3 tests/golden/rope.py >tests/golden/rope.json       (on a CPU)

The models are made as in architectures.py.  Sequences have 13 and 9 tokens: they exceed 8
positions, and 16 with the generated tokens.
"""
import json
import sys
import tempfile

import torch
import transformers

import architectures
from architectures import GEMMA, LLAMA, NEOX, make, load, tokens

GENERATED = 12
PHI3 = dict(LLAMA, hidden_size=32, pad_token_id=0, rope_parameters={
    "rope_type": "longrope", "rope_theta": 100.0, "partial_rotary_factor": 0.5,
    "short_factor": [1.0, 1.25], "long_factor": [1.5, 6.0]})


def scaled(base, kind, **more):
    return dict(base, rope_parameters={"rope_type": kind, "rope_theta": 50.0, **more})


CASES = {
    "llama-linear": ("llama", scaled(LLAMA, "linear", factor=4.0)),
    "llama-dynamic": ("llama", dict(scaled(LLAMA, "dynamic", factor=2.0),
                                    max_position_embeddings=8)),
    "llama-yarn": ("llama", scaled(LLAMA, "yarn", factor=4.0,
                                   original_max_position_embeddings=16)),
    "llama-yarn-scaled": ("llama", scaled(LLAMA, "yarn", factor=8.0, mscale=0.7,
                                          mscale_all_dim=1.3, beta_fast=2.0, beta_slow=0.5,
                                          original_max_position_embeddings=16)),
    "qwen2-yarn": ("qwen2", scaled(LLAMA, "yarn", factor=4.0, attention_factor=0.8, beta_fast=3.0,
                                   truncate=False, original_max_position_embeddings=16)),
    "llama3": ("llama", scaled(LLAMA, "llama3", factor=4.0, low_freq_factor=1.0,
                               high_freq_factor=4.0, original_max_position_embeddings=16)),
    "phi3-short": ("phi3", dict(PHI3, original_max_position_embeddings=16)),
    "phi3-long": ("phi3", dict(PHI3, original_max_position_embeddings=8)),
    "gpt_neox-dynamic": ("gpt_neox", dict(
        scaled(NEOX, "dynamic", factor=3.0, partial_rotary_factor=0.5),
        max_position_embeddings=8)),
    "gemma3-linear": ("gemma3_text", dict(
        GEMMA, sliding_window=4, query_pre_attn_scalar=12, sliding_window_pattern=2,
        rope_parameters={"full_attention": {"rope_type": "linear", "rope_theta": 100.0,
                                            "factor": 8.0},
                         "sliding_attention": {"rope_type": "default", "rope_theta": 20.0}})),
}


def generated(model_type, values, prompt):
    with tempfile.TemporaryDirectory() as folder:
        make(model_type, values, folder)
        model = load(folder).eval()
    model.generation_config.eos_token_id = None
    ids = model.generate(torch.tensor([prompt]), do_sample=False, max_new_tokens=GENERATED,
                         min_new_tokens=GENERATED, pad_token_id=0)
    return ids[0, len(prompt):].tolist()


def main():
    torch.set_num_threads(1)
    batch = [tokens(count, i) for i, count in enumerate(architectures.LENGTHS)]
    models = []
    for name, (model_type, values) in CASES.items():
        one = architectures.case(name, model_type, values, batch)
        one = {key: one[key] for key in ("name", "config", "offset", "tensors", "logits", "norms")
               } | {"loss": one["losses"][0], "tokens": generated(model_type, values, batch[0])}
        models.append(one)
    text = json.dumps({"made_with": f"transformers {transformers.__version__}, torch "
                                    f"{torch.__version__.split('+')[0]}",
                       "batch": batch, "models": models}, separators=(",", ":"))
    sys.stdout.write(text.replace('{"name"', '\n{"name"') + "\n")


main()
