#!/usr/bin/env python3
"""Make preference_curve.json: preference jobs trained by PyTorch and transformers, step by step.

    python3 tests/golden/preference_curve.py SHARED/data > tests/golden/preference_curve.json

Each run has its job without the model, the data and the adapter, which are stories260K, the records
as a file, and the adapter with the weights of lora.py.  The tokens are those of LLaMA-Factory's
template `default`, truncated as in its PairwiseDatasetProcessor; the losses are those of
preference.py; the loss of a step is the mean over its batches of the mean over their pairs, as in
LLaMA-Factory's trainer.  The reference is the initial model, or the model without its adapter.  AdamW
and the schedule are those of curve.py.  Computed on a CPU in double; the initial weights are exact in
fp32.
"""
import json
import os
import sys
from contextlib import nullcontext

import peft
import torch
import transformers
from tokenizers import Tokenizer
from transformers import get_cosine_schedule_with_warmup
from transformers.models.llama import modeling_llama

from preference import DEFAULTS, adapted, counts_of, load, logps, norm_in_double, preference

FOLDER, END, CUTOFF, BATCH, WINDOW = "stories260K/hf", 2, 64, 2, 2
DECAY, BETAS, EPSILON, CLIP = 0.1, (0.9, 0.95), 1e-8, 1.0
JOB = """\
stage: dpo
template: default
disable_shuffling: true
cutoff_len: 64
per_device_train_batch_size: 2
gradient_accumulation_steps: 2
lr_scheduler_type: cosine
warmup_ratio: 0.1
weight_decay: 0.1
adam_beta2: 0.95
max_grad_norm: 1.0
logging_steps: 1
save_strategy: "no"
"""
RUNS = {
    "full": {"finetuning_type": "full", "max_steps": 30, "learning_rate": 3e-4},
    "lora": {"finetuning_type": "lora", "max_steps": 30, "learning_rate": 2e-3},
    "full orpo": {"finetuning_type": "full", "max_steps": 10, "learning_rate": 1e-3,
                  "pref_loss": "orpo"},
    "lora orpo": {"finetuning_type": "lora", "max_steps": 10, "learning_rate": 2e-3,
                  "pref_loss": "orpo"},
    # 11 pairs: the last window has a batch of two pairs and one of one pair.
    "ragged": {"finetuning_type": "full", "max_steps": 6, "learning_rate": 3e-4,
               "max_samples": 11, "pref_ftx": 0.5, "dpo_label_smoothing": 0.1},
}
# 13 pairs: 7 batches, the last with one pair; 4 windows, the last with one batch.  The prompt of the
# fourth record is too long, the answers of the seventh are, and both are in the tenth.
RECORDS = [
    ("What did the kettle do?", "It sang on the stove all day.", "It was red."),
    ("Tell me about Tom.", "Tom had a red boat. It was small, but it was fast.",
     "I do not know who that is, and I do not care."),
    ("Where is my hat?", "It is on the chair.", "No."),
    ("Rain fell on the roof of the barn, and the hens came in to stay dry. The moon was big and "
     "round, so the cat went out to look at it from the wall. Who came in?", "The hens.",
     "The cat and the moon came in."),
    ("Count.", "One, two, three.", "One, three, nine, two."),
    ("Mia had ten stones. Ben took four. How many?", "Now she had six.", "Now she had a big dog."),
    ("How was the lake?", "In winter the lake was ice, and in summer it was full of ducks and "
     "green weed. They were cold and tired, but the lamp in the window told them they were home.",
     "The lake was a lake, and the sun was a sun, and the big tree was a very big tree."),
    ("Stop!", "The road is wet, so I stop.", "I run and run."),
    ("Who made soup?", "Grandma made soup with beans.", "Soup is hot and I like the red ball."),
    ("He ran, he fell, he got up, and he ran again until he saw the blue gate. Then he sat down "
     "and cried for a while. Why?",
     "He was sad because he had lost his toy on the way and he could not find it in the "
     "park, so his mom gave him a hug.", "A bee sat on a flower. It was yellow and "
     "black. It said hello to the bird and they were best friends."),
    ("What did the bee do?", "It sat on a flower.", "It made a cake for the dog."),
    ("Was Lily happy?", "Yes, she smiled and said thank you.", "Lily"),
    ("Good night.", "Good night, and sleep well.", "It is day!"),
]


def lengths_kept(source, target):
    """Do the same as infer_seqlen of LLaMA-Factory: return the kept lengths of prompt and answer."""
    if 2 * target < CUTOFF:
        most = CUTOFF
    elif 2 * source < CUTOFF:
        most = CUTOFF - source
    else:
        most = int(CUTOFF * (target / (source + target)))
    target = min(most, target)
    return min(max(CUTOFF - target, 0), source), target


def tokens_of(tokenizer):
    """Return for each record the tokens of the prompt, of the chosen and of the rejected answer."""
    def ids(text):
        return tokenizer.encode(text, add_special_tokens=False).ids
    tokens = []
    for prompt, *answers in RECORDS:
        prompt = [*ids("Human: " + prompt), END, *ids("\nAssistant:")]
        answers = [[*ids(answer), END, *ids("\n")] for answer in answers]
        source, target = lengths_kept(len(prompt), max(map(len, answers)))
        tokens.append([prompt[:source]] + [answer[:target] for answer in answers])
    return tokens


def metrics_of(model, reference, batch, settings):
    """Return the loss of a batch and the metrics that LLaMA-Factory logs."""
    rows = [prompt + answer for prompt, *answers in batch for answer in answers]
    prompts = [len(prompt) for prompt, *_ in batch]
    with torch.no_grad(), nullcontext() if reference else model.disable_adapter():
        reference_logps = logps(reference or model, rows, prompts)
    counts = counts_of(rows, prompts)
    sums = logps(model, rows, prompts)
    losses, *rest = preference(*map(list, zip(sums, reference_logps)), counts, settings)
    chosen, rejected, logp_chosen, logp_rejected = [x.detach() for x in rest]
    metrics = {"rewards/chosen": chosen, "rewards/rejected": rejected,
               "rewards/accuracies": (chosen > rejected).double(),
               "rewards/margins": chosen - rejected, "logps/chosen": logp_chosen,
               "logps/rejected": logp_rejected}
    if settings["pref_loss"] == "orpo":
        sft = -(sums[0] / counts[0]).detach()
        metrics |= {"sft_loss": sft,
                    "odds_ratio_loss": (losses.detach() - sft) / settings["pref_beta"]}
    metrics["loss"] = losses.detach()
    return losses.mean(), {key: each.mean().item() for key, each in metrics.items()}


def windows_of(tokens):
    batches = [tokens[i : i + BATCH] for i in range(0, len(tokens), BATCH)]
    return [batches[i : i + WINDOW] for i in range(0, len(batches), WINDOW)]


def train(model, reference, tokens, settings):
    steps, rate = settings["max_steps"], settings["learning_rate"]
    trained = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(
        [{"params": [p for p in trained if p.dim() > 1], "weight_decay": DECAY},
         {"params": [p for p in trained if p.dim() == 1], "weight_decay": 0.0}],
        lr=rate, betas=BETAS, eps=EPSILON)
    schedule = get_cosine_schedule_with_warmup(optimizer, -(-steps // 10), steps)
    windows, curve = windows_of(tokens), []
    for step in range(steps):
        window = windows[step % len(windows)]
        sums = {}
        for batch in window:
            loss, metrics = metrics_of(model, reference, batch, settings)
            (loss / len(window)).backward()
            sums = {key: sums.get(key, 0) + metrics[key] / len(window) for key in metrics}
        norm = torch.nn.utils.clip_grad_norm_(trained, CLIP).item()
        curve.append(sums | {"grad_norm": norm,
                             "learning_rate": optimizer.param_groups[0]["lr"]})
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
    return [{key: float(f"{x:.9g}") for key, x in row.items()} for row in curve]


def run(where, tokens, settings):
    said = {key: f"{x:.1e}" if key == "learning_rate" else x for key, x in settings.items()}
    job = JOB + "".join(f"{key}: {x}\n" for key, x in said.items())
    settings = DEFAULTS | {"pref_loss": "sigmoid", "pref_beta": 0.1} | settings
    if settings["finetuning_type"] == "lora":
        model, reference = adapted(where, {"r": 8, "lora_alpha": 16})[0], None
    else:
        model, reference = load(where), load(where)
    tokens = tokens[: settings.get("max_samples", len(tokens))]
    return {"job": job, "curve": train(model, reference, tokens, settings)}


def main(data):
    torch.set_num_threads(1)
    modeling_llama.LlamaRMSNorm.forward = norm_in_double
    where = os.path.join(data, FOLDER)
    tokens = tokens_of(Tokenizer.from_file(os.path.join(where, "tokenizer.json")))
    records = [dict(zip(("prompt", "chosen", "rejected"), record)) for record in RECORDS]
    adapter = adapted(where, {"r": 8, "lora_alpha": 16})[1]
    text = json.dumps({"torch": torch.__version__, "transformers": transformers.__version__,
                       "peft": peft.__version__, "model": FOLDER, "records": records,
                       "tokens": tokens, "adapter": adapter,
                       "runs": {name: run(where, tokens, settings)
                                for name, settings in RUNS.items()}})
    print(text.replace('], "', '],\n"').replace("}, ", "},\n").replace("]], [", "]],\n["))


if __name__ == "__main__":
    main(sys.argv[1])
