#!/usr/bin/env python3
"""Make tower_training.json: 30 steps of AdamW in transformers that train encoders of sound and images: with the rest
of the model, alone, and by adapters (PEFT) on all linear layers, for tests/unit/test_tower_training.c; and of Llama 3.2
Vision with the projector and the layers of cross-attention, as torchtune's full recipes, or adapters on
these layers.  Models, data and templates are those of media_curve.py.

What is trained follows LLaMA-Factory: a parameter is frozen if its name contains a key of a frozen part, and
`lora_target: all` means the linear layers outside of projectors (model/model_utils/visual.py, misc.py).  Trainer chooses the
parameters that decay.

    python3 tests/golden/tower_training.py [NAME...]     (on a CPU, with torchvision and PEFT; only these models)
"""
import json
import os
import sys
import tempfile

import peft
import torch
import transformers
from peft import LoraConfig, PeftModel, get_peft_model
from torch import nn
from transformers import Trainer

from media_curve import (CASES, OWN_TOKENIZERS, RATE, STEPS, TEMPLATES, TOKENIZER, encode, hashed_file, hide_early_rows,
                         load, make)

DECAY = 0.5
# The adapters start large: at RATE, losses in fp32 and fp64 part after ten steps. At LORA_RATE, those of mllama part by
# 1e-5 in thirty, as they do after a change of the adapters by 1e-7: AdamW magnifies gradients as small as 1e-6.
LORA_RATE = 1e-4
# With 8, the forward pass of Mistral 3 is so steep that PyTorch's losses in bf16 are 0.037 of the first from those in
# fp32; with 2, 0.0013.
ALPHA = {"mistral3": 2}
# The keys of a model's encoder, its projector and its text model; and of layers that have no adapters.
VISION = ["vision_tower"], ["multi_modal_projector"], ["language_model", "lm_head"], []
QWEN = ["visual.patch_embed", "visual.blocks"], ["visual.merger"], ["language_model", "lm_head"], ["patch_embed"]
KEYS = {
    "qwen2_audio": (["audio_tower"],) + VISION[1:],
    "qwen2_5_vl": QWEN,
    "qwen3_vl": (QWEN[0] + ["visual.pos_embed", "visual.deepstack_merger_list"],) + QWEN[1:],
    "gemma3": VISION,
    "llava": VISION,
    "mistral3": VISION,
    "mllama": (["vision_model"],) + VISION[1:],
}


def contains(name, keys):
    return any(key in name for key in keys)


def targets(model, name):
    """Return the paths that get adapters with lora_target: all and freeze_vision_tower: false."""
    _, projector, _, conflicts = KEYS[name]
    last = {path.split(".")[-1] for path, module in model.named_modules()
            if isinstance(module, nn.Linear) and not contains(path, projector + ["lm_head"])}
    return sorted(path for path, _ in model.named_modules()
                  if contains(path, last) and not contains(path, projector + conflicts))


def crossing(model):
    """Return the keys of the layers of cross-attention, in the model and in its files."""
    return [f"{base}.layers.{i}." for i in model.config.text_config.cross_attention_layers
            for base in ("language_model", "language_model.model")]


def adapter(config, folder, name, to, fuses):
    """Make an adapter; fuses: of the text model, only on the layers of cross-attention."""
    model = load(config, folder)
    paths = [path for path in targets(model, name)
             if not fuses or "language_model" not in path or contains(path, crossing(model))]
    lora = LoraConfig(r=4, lora_alpha=ALPHA.get(name, 8), target_modules=paths, task_type="CAUSAL_LM")
    get_peft_model(model, lora).save_pretrained(to)
    shapes = hashed_file(os.path.join(to, "adapter_model.safetensors"))
    with open(os.path.join(to, "adapter_config.json")) as file:
        values = json.load(file)
    values = {k: values[k] for k in ("r", "lora_alpha", "target_modules", "fan_in_fan_out", "peft_type")}
    values["target_modules"].sort()
    return PeftModel.from_pretrained(load(config, folder), to, is_trainable=True), values, shapes


def train(model, batch, rate):
    """Return the losses, the number of trained elements, and the norm of every trained tensor at the end."""
    decays = set(Trainer.get_decay_parameter_names(None, model))
    trained = [(key, p) for key, p in model.named_parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW([{"params": [p for key, p in trained if (key in decays) == on],
                                    "weight_decay": DECAY if on else 0.0} for on in (True, False)], lr=rate)
    losses = []
    if "cross_attention_mask" in batch:
        hide_early_rows(model.get_base_model() if isinstance(model, PeftModel) else model, batch["cross_attention_mask"])
    for _ in range(STEPS):
        loss = model(**batch).loss
        losses.append(float(f"{loss.item():.8g}"))
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_([p for _, p in trained], 1.0)
        optimizer.step()
    # layers whose output is not read have no gradients
    return losses, sum(p.numel() for _, p in trained if p.grad is not None)


def norms(folder, file):
    """Return the norms of the tensors of a saved file, by the names that it has."""
    return {key: float(f"{t.norm().item():.7g}") for key, t in
            sorted(transformers.modeling_utils.load_state_dict(os.path.join(folder, file)).items())}


def run(name, config, folder, case):
    """Train one case; return its results."""
    encoder, projector, language, _ = KEYS[name]
    free = []
    with tempfile.TemporaryDirectory() as to, tempfile.TemporaryDirectory() as saved:
        adapts = case.endswith("lora")
        if adapts:
            model, values, shapes = adapter(config, folder, name, to, case == "fusion-lora")
            out = {"adapter_config": values, "adapter": shapes}
        else:
            model, out = load(config, folder), {}
            free = projector + crossing(model) if case == "fusion" else []
            for key, p in model.named_parameters():
                p.requires_grad_(case == "full" or contains(key, free) or not contains(key, projector + language))
        out["rate"] = LORA_RATE if adapts else RATE
        out["losses"], out["trained"] = train(model, encode(name, folder, *CASES[name][1:3]), out["rate"])
        model.save_pretrained(saved)
        now = norms(saved, "adapter_model.safetensors" if adapts else "model.safetensors")
        was = norms(to, "adapter_model.safetensors") if adapts else norms(folder, "model.safetensors")
        parts = encoder + free + (projector if case == "full" else []) + (["language"] if case == "fusion-lora" else [])
        # in full, the text model is compared by the losses
        out["norms"] = {key: now[key] for key in now if contains(key, parts) and now[key] != was[key]}
        return out


def main():
    torch.set_num_threads(1)
    made = f"transformers {transformers.__version__}, torch {torch.__version__.split('+')[0]}, peft {peft.__version__}"
    results = {"made_with": made, "tokenizer": json.loads(TOKENIZER.to_str()), "decay": DECAY,
               "models": []}
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "tower_training.json")
    if sys.argv[1:]:
        with open(path) as file:
            results["models"] = [one for one in json.load(file)["models"] if one["name"] not in sys.argv[1:]]
    for name in sys.argv[1:] or KEYS:
        values, settings, items = CASES[name][:3]
        with tempfile.TemporaryDirectory() as folder:
            config, saved, shapes = make(name, values, settings, folder)
            one = {"name": name, "config": saved, "tensors": shapes, "processor": settings, "items": items,
                   "template": TEMPLATES[name][0], "cases": {}}
            if name in OWN_TOKENIZERS:
                one["tokenizer"] = json.loads(OWN_TOKENIZERS[name].to_str())
            for case in ("full", "encoder", "lora") + (("fusion", "fusion-lora") if name == "mllama" else ()):
                one["cases"][case] = run(name, config, folder, case)
                print(name, case, one["cases"][case]["losses"][::29], one["cases"][case]["trained"],
                      len(one["cases"][case]["norms"]))
            results["models"].append(one)
    with open(path, "w") as file:
        json.dump(results, file, separators=(",", ":"), sort_keys=True)
        file.write("\n")


if __name__ == "__main__":
    main()
