#!/usr/bin/env python3
"""Make trainer.json: what transformers' own Trainer has in 200 steps, for test_trainer_golden.

    python3 tests/golden/trainer.py SHARED/data > tests/golden/trainer.json

Each run fine-tunes one of the shared models on lines of a shared text: batches of 2 in file
order, windows of 2 (the last of an epoch is one batch of one line), warm-up, linear decay,
AdamW with decay, clipping.  In fp32 every loss is kept; in bf16 and fp16 (autocast, the
latter with GradScaler) how far the curve is from the one in fp32, on average and at most: the
band that PyTorch allows itself.  As the rounding of one run is one draw of chance, there are
three in bf16, which begin with weights that differ in their last bits; fp16 is slow on a CPU.
The short runs are without clipping, and in windows of 1 and of 4.
Dropout is off, as its draws are no promise of PyTorch's.
"""
import copy
import json
import os
import sys
import tempfile

import torch
import transformers
from tokenizers import Tokenizer
from transformers import AutoConfig, AutoModelForCausalLM, Trainer, TrainingArguments

STORIES = {"file": "datasets/tinystories/train-first-part.txt", "shortest": 40, "longest": 260}
SHAKESPEARE = {"file": "datasets/tinyshakespeare/input.txt", "shortest": 20, "longest": 120}
LINES, CUTOFF = 301, 96
DRAWS = {"bf16": 3, "fp16": 1}
# capp-gpt2 has no tokenizer: a character of this is the id of its place, others are left out.
ALPHABET = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ "
MODELS = {
    "llama": ("stories260K/hf", STORIES),
    "qwen2": ("made-here/qwen2", SHAKESPEARE),
    "gpt2": ("capp-gpt2/hf", SHAKESPEARE),
    "gpt_neox": ("made-here/gpt_neox", SHAKESPEARE),
    "gpt_neo": ("made-here/gpt_neo", SHAKESPEARE),
}
SETTINGS = {"learning_rate": 3e-4, "weight_decay": 0.01, "max_grad_norm": 1.0,
            "lr_scheduler_type": "linear", "warmup_steps": 20, "max_steps": 200,
            "per_device_train_batch_size": 2, "gradient_accumulation_steps": 2}
SHORT = {"max_steps": 20, "warmup_steps": 4}
VARIANTS = {
    "unclipped": {"max_grad_norm": 0.0, "label_smoothing_factor": 0.1},
    "one batch of 4": {"per_device_train_batch_size": 4, "gradient_accumulation_steps": 1},
    "four batches of 1": {"per_device_train_batch_size": 1, "gradient_accumulation_steps": 4},
}
NO_DROPOUT = {key: 0.0 for key in (
    "attn_pdrop", "embd_pdrop", "resid_pdrop", "attention_dropout", "embed_dropout",
    "resid_dropout", "hidden_dropout")}


class Recorder(Trainer):
    """Keeps each window's loss, which the log may round, and the rest of the log."""

    def __init__(self, *args, **kwargs):
        self.curve, self.loss = [], 0.0
        super().__init__(*args, **kwargs)

    def training_step(self, *args, **kwargs):
        loss = super().training_step(*args, **kwargs)
        self.loss += loss.item()
        return loss

    def log(self, logs, *args, **kwargs):
        if "grad_norm" in logs:
            self.curve.append((self.loss, float(logs["grad_norm"]), logs["learning_rate"]))
            self.loss = 0.0


class HalfRecorder(Recorder):
    """fp16 on a CPU, which accelerate has for GPUs only: the same scaler and autocast."""

    def create_accelerator_and_postprocess(self):
        super().create_accelerator_and_postprocess()
        self.accelerator.native_amp = True
        self.accelerator.scaler = torch.amp.GradScaler("cpu")


class Lines(torch.utils.data.Dataset):
    def __init__(self, rows):
        self.rows = rows

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, index):
        return self.rows[index]


def pad(rows):
    """
    Token lists as a batch, padded behind.  No row's first token is to be learnt: a model
    leaves it out, but for GPT-2 the Trainer would count it in what it divides by.
    """
    longest = max(map(len, rows))
    batch = {"input_ids": torch.zeros(len(rows), longest, dtype=torch.long),
             "labels": torch.full((len(rows), longest), -100),
             "attention_mask": torch.zeros(len(rows), longest, dtype=torch.long)}
    for i, row in enumerate(rows):
        batch["input_ids"][i, : len(row)] = batch["labels"][i, : len(row)] = torch.tensor(row)
        batch["labels"][i, 0] = -100
        batch["attention_mask"][i, : len(row)] = 1
    return batch


def read_lines(data, text):
    with open(os.path.join(data, text["file"]), encoding="utf-8") as file:
        lines = file.read().split("\n")
    return [line for line in lines
            if text["shortest"] <= len(line.encode()) <= text["longest"]][:LINES]


def tokens_of(folder, lines):
    """As a job of stage pt has them without packing: begin, text, end, where there are such."""
    name = os.path.join(folder, "tokenizer.json")
    if not os.path.exists(name):
        return [[ALPHABET.index(c) for c in line if c in ALPHABET][:CUTOFF] for line in lines]
    tokenizer = Tokenizer.from_file(name)
    with open(os.path.join(folder, "tokenizer_config.json"), encoding="utf-8") as file:
        config = json.load(file)
    first = [tokenizer.token_to_id(config["bos_token"])] if config.get("add_bos_token") else []
    last = [tokenizer.token_to_id(config["eos_token"])] if config.get("eos_token") else []
    return [(first + tokenizer.encode(line, add_special_tokens=False).ids + last)[:CUTOFF]
            for line in lines]


def nudge(model, draw):
    """Change weights by about an epsilon of fp32."""
    generator = torch.Generator().manual_seed(draw)
    with torch.no_grad():
        for p in model.parameters():
            p.mul_(1 + torch.randn(p.shape, generator=generator) * 2.0 ** -23)


def train(folder, tokens, settings, compute="fp32", draw=0):
    config = AutoConfig.from_pretrained(folder)
    for key, value in NO_DROPOUT.items():
        if hasattr(config, key):
            setattr(config, key, value)
    model = AutoModelForCausalLM.from_pretrained(
        folder, config=config, dtype=torch.float32, attn_implementation="eager")
    if draw > 0:
        nudge(model, draw)
    with tempfile.TemporaryDirectory() as scratch:
        arguments = TrainingArguments(
            output_dir=scratch, use_cpu=True, report_to=[], save_strategy="no",
            logging_steps=1, disable_tqdm=True, train_sampling_strategy="sequential",
            remove_unused_columns=False, bf16=compute == "bf16", fp16=compute == "fp16",
            **settings)
        trainer = (HalfRecorder if compute == "fp16" else Recorder)(
            model=model, args=arguments, train_dataset=Lines(tokens), data_collator=pad)
        trainer.train()
    assert len(trainer.curve) == settings["max_steps"]
    return trainer.curve


def short(number):
    return float(f"{number:.7g}")


def columns(curve):
    loss, norm, rate = zip(*curve)
    return {"loss": [short(x) for x in loss], "grad_norm": [short(x) for x in norm],
            "learning_rate": [float(f"{x:.12g}") for x in rate]}


def band(curve, exact):
    """Relative distance of a curve's losses from those in fp32."""
    away = [abs(a[0] - b[0]) / b[0] for a, b in zip(curve, exact)]
    return [short(sum(away) / len(away)), short(max(away))]


def bands(folder, tokens, exact):
    """[mean, most] of each draw."""
    return {kind: [band(train(folder, tokens, SETTINGS, kind, draw), exact)
                   for draw in range(draws)] for kind, draws in DRAWS.items()}


def runs_of(name, data):
    folder, text = os.path.join(data, MODELS[name][0]), MODELS[name][1]
    tokens = tokens_of(folder, read_lines(data, text))
    exact = train(folder, tokens, SETTINGS)
    row = {"model": MODELS[name][0], "text": text, "tokens": sum(map(len, tokens)),
           "settings": SETTINGS, "curve": columns(exact),
           "bands": bands(folder, tokens, exact), "variants": {}}
    for variant, changes in VARIANTS.items():
        settings = copy.copy(SETTINGS) | SHORT | changes
        row["variants"][variant] = {"settings": settings,
                                    "curve": columns(train(folder, tokens, settings))}
    print(name, row["bands"], file=sys.stderr)
    return row


def main(data, names):
    transformers.logging.set_verbosity_error()
    torch.set_num_threads(1)
    runs = {name: runs_of(name, data) for name in names or MODELS}
    text = json.dumps({"torch": torch.__version__, "transformers": transformers.__version__,
                       "lines": LINES, "cutoff": CUTOFF, "alphabet": ALPHABET, "runs": runs})
    # a line a list of numbers
    print(text.replace(', "', ',\n"').replace("}, ", "},\n"))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
