#!/usr/bin/env python3
"""Make distill_curve.json: students distilled from a teacher by PyTorch and transformers, for
tests/unit/test_model_distill.c.

    python3 tests/golden/distill_curve.py FOLDER/data > tests/golden/distill_curve.json

The file has the weights of a small student and of a larger teacher with a padded vocabulary, a few
tokens, and the results of some AdamW steps for several divergences, which are those of distill.py;
"stories" has the same for stories260K as teacher and its weights times 0.9 as student, on real
texts; "across" for a Qwen2 with a GPT-NeoX as teacher.
"""
import json
import sys

import torch
import torch.nn.functional as F
from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaConfig, LlamaForCausalLM

from distill import distance

torch.set_default_dtype(torch.float32)

CONFIGS = {
    "student": {"model_type": "llama", "vocab_size": 11, "hidden_size": 8,
                "intermediate_size": 12, "num_hidden_layers": 1, "num_attention_heads": 2,
                "num_key_value_heads": 1, "max_position_embeddings": 32,
                "rms_norm_eps": 1e-5, "tie_word_embeddings": True},
    "teacher": {"model_type": "llama", "vocab_size": 13, "hidden_size": 12,
                "intermediate_size": 16, "num_hidden_layers": 2, "num_attention_heads": 3,
                "num_key_value_heads": 3, "max_position_embeddings": 32,
                "rms_norm_eps": 1e-5, "tie_word_embeddings": False},
}
# Two windows of two micro-batches of two sequences; a label is the next token if that is above 2.
WINDOWS = [[[[3, 1, 4, 1, 5, 9, 2, 6], [5, 3, 5]], [[8, 9, 7, 9, 3], [2, 3, 8, 4]]],
           [[[6, 2, 6, 4, 3, 3, 8], [3, 2, 7]], [[9, 5, 0, 2, 8, 8, 4], [1, 9, 7, 1, 6]]]]
RUNS = [{"kd_ratio": 0.5, "kd_temperature": 1.0, "kd_beta": 0.0, "kd_topk": 0},
        {"kd_ratio": 0.75, "kd_temperature": 2.0, "kd_beta": 0.5, "kd_topk": 0},
        {"kd_ratio": 1.0, "kd_temperature": 2.0, "kd_beta": 1.0, "kd_topk": 0},
        {"kd_ratio": 0.5, "kd_temperature": 1.5, "kd_beta": 0.0, "kd_topk": 3},
        {"kd_ratio": 0.9, "kd_temperature": 0.5, "kd_beta": 0.25, "kd_topk": 4}]
STEPS, RATE = 6, 1e-2


def tiny_weights(config, seed):
    torch.manual_seed(seed)
    model = LlamaForCausalLM(LlamaConfig(**config, attn_implementation="eager"))
    with torch.no_grad():
        for name, p in model.named_parameters():
            p.copy_((torch.randn(p.shape) * 0.3 + (1 if "norm" in name else 0)).mul(1e3).round() / 1e3)
    return model.eval()


def parts_of(student, teacher, run, labels, options):
    """Return the sums of both losses over the labeled positions of one sequence."""
    ids = torch.tensor([run])
    z = student(input_ids=ids).logits[0, :-1].float()
    with torch.no_grad():
        t = teacher(input_ids=ids).logits[0, :-1].float()
    there = labels >= 0
    shared = min(z.shape[-1], t.shape[-1])
    ce = F.cross_entropy(z[there], labels[there], reduction="sum")
    warm = options["kd_temperature"]
    kd = warm**2 * distance(z[there][:, :shared], t[there][:, :shared], warm, options["kd_beta"],
                            options["kd_topk"]).sum()
    return ce, kd


def train(student, teacher, options, windows=WINDOWS, rate=RATE):
    optimizer = torch.optim.AdamW(student.parameters(), lr=rate, weight_decay=0.0)
    ratio, curve = options["kd_ratio"], []
    for step in range(STEPS):
        runs = [run for batch in windows[step % len(windows)] for run in batch]
        labels = [torch.tensor([t if t > 2 else -100 for t in run[1:]]) for run in runs]
        count = sum(int((each >= 0).sum()) for each in labels)
        sums = [0.0, 0.0]
        for run, each in zip(runs, labels):
            ce, kd = parts_of(student, teacher, run, each, options)
            (((1 - ratio) * ce + ratio * kd) / count).backward()
            sums = [sums[0] + ce.item() / count, sums[1] + kd.item() / count]
        norm = torch.nn.utils.clip_grad_norm_(student.parameters(), float("inf")).item()
        curve.append({"loss": (1 - ratio) * sums[0] + ratio * sums[1], "ce_loss": sums[0],
                      "kd_loss": sums[1], "grad_norm": norm})
        optimizer.step()
        optimizer.zero_grad()
    return curve


def tiny():
    teacher = tiny_weights(CONFIGS["teacher"], 1)
    start = {name: p.detach().clone() for name, p in
             tiny_weights(CONFIGS["student"], 2).named_parameters()}
    runs = []
    for options in RUNS:
        student = tiny_weights(CONFIGS["student"], 2)
        runs.append(dict(options, curve=train(student, teacher, options)))
    return {"configs": {k: json.dumps(v) for k, v in CONFIGS.items()},
            "student": {k: [round(x, 3) for x in v.flatten().tolist()] for k, v in start.items()},
            "teacher": {k: [round(x, 3) for x in v.detach().flatten().tolist()]
                        for k, v in teacher.named_parameters()},
            "windows": WINDOWS, "rate": RATE, "runs": runs}


STORIES = [
    [["Once upon a time, there was a little girl named Lily.", "Tom had a red boat."],
     ["The cat looked up at the tree and saw a big bird.", "It was sad."]],
    [["One day, a dog went to the park to play with his friends.", "They had fun."],
     ["Mom said, do not run! But Ben ran and fell.", "He was very happy."]],
]


def load(folder):
    return AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32,
                                                attn_implementation="eager").eval()


def stories(folder):
    tokenizer = AutoTokenizer.from_pretrained(folder)
    windows = [[[[1] + tokenizer(text, add_special_tokens=False).input_ids for text in batch]
                for batch in window] for window in STORIES]
    runs = []
    for options in (RUNS[0], RUNS[1], RUNS[3]):
        student = load(folder)
        with torch.no_grad():
            for p in student.parameters():
                p.mul_(0.9)
        runs.append(dict(options, curve=train(student, load(folder), options, windows, 1e-3)))
    return {"windows": windows, "rate": 1e-3, "runs": runs}


def across(student, teacher):
    windows = [[[[(7 * i * i + 3 * i + 5 * k) % 65 for i in range(9 + k)] for k in (w, w + 4)]
                for w in (v, v + 2)] for v in (0, 1)]
    runs = [dict(options, curve=train(load(student), load(teacher), options, windows, 1e-3))
            for options in (RUNS[0], RUNS[4])]
    return {"windows": windows, "rate": 1e-3, "runs": runs}


if __name__ == "__main__":
    data = sys.argv[1]
    json.dump(dict(tiny(), stories=stories(data + "/stories260K/hf"),
                   across=across(data + "/made-here/qwen2", data + "/made-here/gpt_neox")),
              sys.stdout)
    print()
