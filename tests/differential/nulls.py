#!/usr/bin/env python3
"""Set each key of config.json to null, and compare the loss with transformers.

    nulls.py [--only NAME] OURS

OURS is tests/differential/ours.  The models are the tiny ones of tests/golden/architectures.py, each key of
which is set to null in turn, and each key of older files that they do not have.  Where transformers loads such a
model, we must load it and compute the same loss; where it reports an error, we may use a default.  A difference
makes the exit status 1; the status is 77 if torch or transformers is not installed.
"""
import argparse
import copy
import json
import logging
import os
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../golden"))
try:
    import architectures as golden
    import torch
    import transformers
except ImportError as missing:
    print(f"nulls: {missing}", file=sys.stderr)
    sys.exit(77)

from differential import Ours

TOLERANCE = 1e-4 # relative
KEPT = {"architectures", "model_type", "transformers_version", "dtype"}
OLD = """rope_scaling rope_theta head_dim num_key_value_heads sliding_window layer_types quantization_config n_inner
attention_bias mlp_bias pad_token_id partial_rotary_factor attn_logit_softcapping final_logit_softcapping
query_pre_attn_scalar max_window_layers use_sliding_window mlp_only_layers num_nextn_predict_layers
original_max_position_embeddings embedding_multiplier logit_scale clip_qkv shared_expert_intermediate_size
no_rope_layers attention_chunk_size bos_token_id eos_token_id hidden_act hidden_activation bias qkv_bias lm_head_bias
router_jitter_noise output_router_logits rope_parameters rotary_dim alibi torch_dtype""".split()
# Cases and keys for which we use a default or report an error on purpose.
KNOWN = {
    ("dbrx", "rope_parameters"), # that of attn_config applies: docs/models.md
    ("glm4_moe-plain", "rope_parameters"), # half of a head of six columns is not rotated
    ("hunyuan", "rope_parameters.factor"), ("hunyuan_v1_moe", "rope_parameters.factor"), # required, though not used
}


def is_compared(name):
    """Draws would differ, and transformers does not have the code of some."""
    kind, values = golden.CASES[name]
    return not (kind in ("minicpm", "phimoe") or "dropping" in name or "jittered" in name or
                values.get("attention_dropout") or values.get("output_router_logits"))


def paths_of(config):
    for key, value in config.items():
        if key not in KEPT and value is not None:
            yield (key,)
            if isinstance(value, dict):
                yield from ((key, inner) for inner in value)
    yield from ((key,) for key in OLD if key not in config)


def theirs(folder, batch):
    """Return the loss, or None if transformers rejects the model."""
    try:
        model = golden.load(folder)
        with torch.no_grad():
            losses = [model(input_ids=torch.tensor([ids]), labels=torch.tensor([ids])).loss for ids in batch]
    except Exception: # pylint: disable=broad-except
        return None
    return (sum(loss * (len(ids) - 1) for loss, ids in zip(losses, batch)) / sum(len(ids) - 1 for ids in batch)).item()


def check(ours, name, folder, batch):
    """Return the number of models that both loaded, and what differs."""
    config, _, _ = golden.make(*golden.CASES[name], folder)
    count, found = 0, []
    for path in [(), *paths_of(config)]:
        if (name.partition("-")[0], ".".join(path)) in KNOWN or (name, ".".join(path)) in KNOWN:
            continue
        changed = copy.deepcopy(config)
        at = changed
        for key in path[:-1]:
            at = at[key]
        if path:
            at[path[-1]] = None
        with open(os.path.join(folder, "config.json"), "w", encoding="utf-8") as out:
            json.dump(changed, out)
        loss = theirs(folder, batch)
        if loss is None:
            continue
        mine = ours.ask(model=folder, sequences=batch)
        count += 1
        if not abs(mine.get("loss", float("inf")) - loss) <= TOLERANCE * loss:
            found.append(f"{name}: {'.'.join(path)}: {mine.get('loss', mine)}, and transformers computes {loss}")
    return count, found


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", choices=list(golden.CASES))
    parser.add_argument("ours")
    options = parser.parse_args()
    logging.disable(logging.CRITICAL)
    transformers.utils.logging.disable_progress_bar()
    torch.set_num_threads(1)
    ours = Ours(os.path.abspath(options.ours))
    batch = [golden.tokens(count, i) for i, count in enumerate(golden.LENGTHS)]
    total, failures = 0, []
    for name in [options.only] if options.only else filter(is_compared, golden.CASES):
        with tempfile.TemporaryDirectory() as folder:
            count, found = check(ours, name, folder, batch)
        total += count
        failures += found
        print(*found, sep="\n", end="\n" if found else "", flush=True)
    print(f"nulls: {total} models, {len(failures)} differ (transformers {transformers.__version__})")
    sys.exit(len(failures) > 0)


if __name__ == "__main__":
    main()
