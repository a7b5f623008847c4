#!/usr/bin/env python3
"""Make preference.json: preference losses of pairs of answers and their gradients, by PyTorch.

    python3 tests/golden/preference.py SHARED/data > tests/golden/preference.json

The losses are those of LLaMA-Factory (src/llamafactory/train/dpo/trainer.py at ff6d4d12) with the
log-probabilities of its get_batch_logps: sums over the tokens of an answer; means for ipo, orpo and
simpo.  "operator" has them for given values; "tiny" for a model whose weights are in the file, as
are those of its reference; "full" for stories260K with all weights times 0.9 and stories260K as
reference; "lora" for stories260K with the adapter of lora.py and stories260K as reference.  Computed
on a CPU in double; the weights are exact in fp32.  Each gradient is first compared with finite
differences.
"""
import json
import os
import sys
from contextlib import nullcontext

import peft
import torch
import torch.nn.functional as F
import transformers
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM, LlamaConfig, LlamaForCausalLM
from transformers.models.llama import modeling_llama

from distill_curve import CONFIGS
from lora import LINEAR, SCALE, bits, fill, saved, short

RUNS = {
    "sigmoid": {"pref_loss": "sigmoid", "pref_beta": 0.1},
    "sigmoid smoothed": {"pref_loss": "sigmoid", "pref_beta": 0.1, "dpo_label_smoothing": 0.1},
    "sigmoid ftx": {"pref_loss": "sigmoid", "pref_beta": 0.1, "pref_ftx": 0.5},
    "sigmoid both": {"pref_loss": "sigmoid", "pref_beta": 0.5, "dpo_label_smoothing": 0.25,
                     "pref_ftx": 0.125},
    "hinge": {"pref_loss": "hinge", "pref_beta": 0.5},
    "ipo": {"pref_loss": "ipo", "pref_beta": 0.1},
    "orpo": {"pref_loss": "orpo", "pref_beta": 0.1},
    "orpo ftx": {"pref_loss": "orpo", "pref_beta": 0.5, "pref_ftx": 0.25},
    "simpo": {"pref_loss": "simpo", "pref_beta": 2.0, "simpo_gamma": 0.5},
}
DEFAULTS = {"pref_ftx": 0.0, "dpo_label_smoothing": 0.0, "simpo_gamma": 0.5}
MEANS, ALONE = ("ipo", "orpo", "simpo"), ("orpo", "simpo")
# Number of tokens of a prompt, of the chosen and of the rejected answer.
LENGTHS = ((5, 7, 4), (3, 2, 9), (11, 1, 6))
KEPT = 4


def preference(chosen, rejected, counts, settings):
    """Return the loss and both rewards of each pair.  chosen, rejected: sums of log-probabilities
    of [policy, reference]; counts: number of tokens of [chosen, rejected]."""
    kind, beta = settings["pref_loss"], settings["pref_beta"]
    chosen_mean = chosen[0] / counts[0]
    if kind in MEANS:
        chosen, rejected = [x / counts[0] for x in chosen], [x / counts[1] for x in rejected]
    if kind in ALONE:
        rewards = beta * chosen[0], beta * rejected[0]
    else:
        rewards = beta * (chosen[0] - chosen[1]), beta * (rejected[0] - rejected[1])
    apart = rewards[0] - rewards[1]
    if kind == "sigmoid":
        e = settings["dpo_label_smoothing"]
        loss = -(1 - e) * F.logsigmoid(apart) - e * F.logsigmoid(-apart)
    elif kind == "hinge":
        loss = torch.relu(1 - apart)
    elif kind == "ipo":
        loss = (apart / beta - 1 / (2 * beta)) ** 2
    elif kind == "orpo":
        odds = [x[0] - torch.log(-torch.expm1(x[0])) for x in (chosen, rejected)]
        loss = -chosen[0] - beta * F.logsigmoid(odds[0] - odds[1])
    else:
        loss = -F.logsigmoid(apart - settings["simpo_gamma"])
    return loss - settings["pref_ftx"] * chosen_mean, *rewards, chosen[0], rejected[0]


NUMBERS = ("losses", "rewards_chosen", "rewards_rejected", "logps_chosen", "logps_rejected")


def listed(x):
    return [float(f"{float(v):.10g}") for v in x.detach().flatten()]


# ---- The operator ----

def operator(seed, name, largest):
    """Make three pairs of sequences of 4 to 8 rows, then two rows; losses up to `largest`."""
    lengths = [(seed + 3 * r) % 5 + 4 for r in range(6)]
    offsets = [sum(lengths[:r]) for r in range(7)]
    rows = offsets[-1] + 2
    there = torch.zeros(rows, dtype=torch.bool)
    for r in range(6):
        there[offsets[r] + (seed + r) % 3 : offsets[r + 1] - 1] = True
    made = [torch.tensor((bits(seed + k, rows) % 4096).astype(float) / 4096 * largest) * there
            for k in (0, 50)]
    losses, reference = made[0].requires_grad_(), made[1]
    settings = DEFAULTS | RUNS[name]
    sums = [torch.stack([-x[offsets[r] : offsets[r + 1]].sum() for r in range(6)]).reshape(3, 2)
            for x in (losses, reference)]
    counts = torch.tensor([there[offsets[r] : offsets[r + 1]].sum() for r in range(6)])
    out = preference(*[[x[:, k] for x in sums] for k in (0, 1)], [counts[::2], counts[1::2]],
                     settings)
    out[0].sum().backward()
    return dict(settings, offsets=offsets, targets=[1 if t else -100 for t in there.tolist()],
                losses=made[0].tolist(), reference=reference.tolist(),
                pairs=[listed(x) for x in torch.stack(out).T], weights=listed(losses.grad * there))


# ---- Models ----

def norm_in_double(self, x):
    return self.weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.variance_epsilon))


def ids_of(seed, count, vocab):
    return [int(x % vocab) for x in bits(seed, count)]


def rows_of(vocab):
    """Return the rows chosen, rejected, chosen, ..., each of which starts with its prompt."""
    rows = []
    for p, lengths in enumerate(LENGTHS):
        prompt = ids_of(200 + p, lengths[0], vocab)
        rows += [prompt + ids_of(300 + 2 * p + k, lengths[1 + k], vocab) for k in (0, 1)]
    return rows


def logps(model, rows, prompts):
    """Return the sum of log-probabilities of the answer in each row, as [chosen, rejected]."""
    sums = []
    for r, row in enumerate(rows):
        ids, first = torch.tensor(row), prompts[r // 2]
        each = model(input_ids=ids[None]).logits[0].log_softmax(-1)
        sums.append(each[:-1].gather(1, ids[1:, None])[first - 1 :].sum())
    return torch.stack(sums[::2]), torch.stack(sums[1::2])


def counts_of(rows, prompts):
    lengths = torch.tensor([len(row) - prompts[r // 2] for r, row in enumerate(rows)])
    return lengths[::2], lengths[1::2]


def outcome(model, reference_logps, rows, prompts, settings):
    """Return the results; reference_logps: sums of log-probabilities of the reference model."""
    both = zip(logps(model, rows, prompts), reference_logps)
    return preference(*map(list, both), counts_of(rows, prompts), settings)


def compare(model, lose, gradients):
    """Compare some elements of each gradient with finite differences; lose: function of the loss."""
    own, step = dict(model.named_parameters()), 1e-5
    for k, (name, gradient) in enumerate(gradients.items()):
        if len(gradients) > 20 and k % 9:
            continue
        flat, at = own[name].data.view(-1), gradient.abs().argmax()
        for i in {int(at), k % flat.numel()}:
            was = flat[i].item()
            ends = []
            for sign in (1, -1):
                flat[i] = was + sign * step
                with torch.no_grad():
                    ends.append(lose().item())
            flat[i] = was
            slope = (ends[0] - ends[1]) / 2 / step
            assert abs(slope - gradient.view(-1)[i]) < 1e-6 * gradient.abs().max() + 1e-9, name


def runs_of(model, reference_logps, rows, prompts, keep):
    """Return results and gradients for each loss; keep: function that summarizes a gradient."""
    runs = {}
    for name, settings in RUNS.items():
        settings = DEFAULTS | settings
        model.zero_grad()
        out = outcome(model, reference_logps, rows, prompts, settings)
        out[0].mean().backward()
        gradients = {n: p.grad.clone() for n, p in model.named_parameters() if p.requires_grad}
        compare(model, lambda: outcome(model, reference_logps, rows, prompts, settings)[0].mean(),
                gradients)
        norm = sum(float(g.square().sum()) for g in gradients.values()) ** 0.5
        runs[name] = dict(settings, loss=short(out[0].mean().detach()), grad_norm=short(norm),
                          **{key: listed(x) for key, x in zip(NUMBERS, out)},
                          gradients={n.replace(".default", ""): keep(n, g)
                                     for n, g in sorted(gradients.items()) if keep(n, g)})
    return runs


def every(name, gradient):
    return [float(f"{x:.7g}") for x in gradient.flatten().tolist()]


def some(name, gradient):
    """Return the norm and the first elements, except of the blocks in the middle."""
    if any(f".layers.{n}." in name for n in (1, 2, 3)):
        return None
    return every(name, torch.cat([gradient.norm()[None], gradient.flatten()[:KEPT]]))


def part(model, reference, rows, keep):
    """Return the results; reference: another model, or None for the model without its adapter."""
    prompts = [lengths[0] for lengths in LENGTHS]
    with torch.no_grad(), nullcontext() if reference else model.disable_adapter():
        reference_logps = logps(reference or model, rows, prompts)
    return {"rows": rows, "prompts": prompts, "reference_chosen": listed(reference_logps[0]),
            "reference_rejected": listed(reference_logps[1]),
            "runs": runs_of(model, reference_logps, rows, prompts, keep)}


def made(seed):
    model = LlamaForCausalLM(LlamaConfig(**CONFIGS["student"], attn_implementation="sdpa")).double()
    for k, (name, p) in enumerate(sorted(model.named_parameters())):
        values = ((bits(seed + k, p.numel()) % 129).astype(float) - 64) / 128
        p.data = torch.tensor(values + ("norm" in name)).reshape(p.shape)
    return model


def tiny():
    policy, reference = made(0), made(100)
    weights = [{n: p.flatten().tolist() for n, p in sorted(m.named_parameters())}
               for m in (policy, reference)]
    rows = rows_of(policy.config.vocab_size)
    return dict(part(policy, reference, rows, every),
                config=json.dumps(CONFIGS["student"]), policy=weights[0], reference=weights[1])


def load(folder, factor=1):
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32,
                                                 attn_implementation="sdpa")
    with torch.no_grad():
        for p in model.parameters():
            p.mul_(factor)
    return model.double()


def adapted(folder, settings):
    """Return the model with the adapter of the formula, and what PEFT saves of it."""
    model = get_peft_model(load(folder), LoraConfig(target_modules=LINEAR, task_type="CAUSAL_LM",
                                                    **settings))
    fill(model)
    config, tensors = saved(model)
    return model.double(), {"config": config, "tensors": tensors, "scale": SCALE}


def main(data):
    torch.set_num_threads(1)
    modeling_llama.LlamaRMSNorm.forward = norm_in_double
    cases = [operator(k, name, 0.5 if k % 2 else 6.0) for k, name in enumerate(2 * list(RUNS))]
    folder = "stories260K/hf"
    where = os.path.join(data, folder)
    rows = rows_of(512)
    model, adapter = adapted(where, {"r": 4, "lora_alpha": 12})
    full = part(load(where, 0.9), load(where), rows, some)
    parts = {"full": dict(full, model=folder, factor=0.9),
             "lora": dict(part(model, None, rows, some), model=folder, **adapter)}
    text = json.dumps({"torch": torch.__version__, "transformers": transformers.__version__,
                       "peft": peft.__version__, "operator": cases, "tiny": tiny(), **parts})
    print(text.replace('], "', '],\n"').replace('}, "', '},\n"').replace("]], [", "]],\n["))


if __name__ == "__main__":
    main(sys.argv[1])
