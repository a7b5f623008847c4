#!/usr/bin/env python3
"""Make trainer.json: 200 steps of transformers' own Trainer, for test_trainer_golden.

    python3 tests/golden/trainer.py SHARED/data > tests/golden/trainer.json

Each run fine-tunes a model on lines of a shared text, or on answers to shared questions: batches
of 2 in file order, windows of 2 (the last of an epoch is one batch of one line), warm-up, linear
decay, AdamW with decay, clipping.  The model is one of the shared ones or, for architectures that
these do not cover, one whose weights come from hashed names (architectures.py), as do those of every
adapter.  In fp32 every loss is recorded; in bf16 and fp16 (autocast, the latter with GradScaler) the
mean and largest distance of the curve from the one in fp32, which is the variation that PyTorch
itself has.  Because the rounding of a single run is random, there are several runs, which start with
weights that differ in their last bits.
The short runs are without clipping, and with windows of 1 and of 4.
Dropout is off, because PyTorch does not guarantee its random numbers.
"""
import json
import os
import sys
import tempfile

import torch
import transformers
from peft import LoraConfig, PeftModel, get_peft_model
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer
from transformers import AutoConfig, AutoModelForCausalLM, Trainer, TrainingArguments

from architectures import elements, make

STORIES = {"file": "datasets/tinystories/train-first-part.txt", "shortest": 40, "longest": 260}
SHAKESPEARE = {"file": "datasets/tinyshakespeare/input.txt", "shortest": 20, "longest": 120}
QUESTIONS = {"questions": "datasets/unit-conversion/rft.json", "longest": 90}
LINES, CUTOFF = 301, 96
DRAWS = {"bf16": 6, "fp16": 3}
# capp-gpt2 has no tokenizer: the id of a character is its position here; others are left out.
ALPHABET = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ "
SMALL = {"vocab_size": 56, "hidden_size": 48, "intermediate_size": 96, "num_hidden_layers": 2,
         "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 128}
MADE = {
    "mistral": ("mistral", dict(SMALL, sliding_window=24)),
    "qwen3": ("qwen3", dict(SMALL, head_dim=16, tie_word_embeddings=True)),
    "gemma3": ("gemma3_text", dict(SMALL, head_dim=16, sliding_window=24,
                                   query_pre_attn_scalar=16, sliding_window_pattern=2)),
}
LORA = {"r": 4, "lora_alpha": 1, "target_modules": "all-linear", "task_type": "CAUSAL_LM"}
# The folder of a shared model, or a name in MADE.
MODELS = {
    "mistral": ("mistral", SHAKESPEARE),
    "qwen3": ("qwen3", SHAKESPEARE),
    "gemma3": ("gemma3", SHAKESPEARE),
    "answers": ("stories260K/hf", QUESTIONS),
    "adapter": ("stories260K/hf", QUESTIONS),
    "llama": ("stories260K/hf", STORIES),
    "qwen2": ("made-here/qwen2", SHAKESPEARE),
    "gpt2": ("capp-gpt2/hf", SHAKESPEARE),
    "gpt_neox": ("made-here/gpt_neox", SHAKESPEARE),
    "gpt_neo": ("made-here/gpt_neo", SHAKESPEARE),
}
SETTINGS = {"learning_rate": 3e-4, "weight_decay": 0.01, "max_grad_norm": 1.0,
            "lr_scheduler_type": "linear", "warmup_steps": 20, "max_steps": 200,
            "per_device_train_batch_size": 2, "gradient_accumulation_steps": 2}
# Deviating settings of some runs, and which short runs they have.
OTHERWISE = {"adapter": {"learning_rate": 2e-3}}
FEWER = {"mistral": [], "qwen3": [], "gemma3": [], "answers": ["one batch of 4", "four batches of 1"],
         "adapter": ["unclipped"]}
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
    """Record the loss of each window, which the log may round, and the rest of the log."""

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
    """fp16 on a CPU, with the scaler and autocast that accelerate offers on GPUs only."""

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
    Return lists of tokens and labels as a batch, padded at the end.  The first token of a row has no
    label: a model ignores it, but for GPT-2 the Trainer would count it in its divisor.
    """
    longest = max(len(ids) for ids, _ in rows)
    batch = {"input_ids": torch.zeros(len(rows), longest, dtype=torch.long),
             "labels": torch.full((len(rows), longest), -100),
             "attention_mask": torch.zeros(len(rows), longest, dtype=torch.long)}
    for i, (ids, labels) in enumerate(rows):
        batch["input_ids"][i, : len(ids)] = torch.tensor(ids)
        batch["labels"][i, : len(ids)] = torch.tensor(labels)
        batch["labels"][i, 0] = -100
        batch["attention_mask"][i, : len(ids)] = 1
    return batch


def read_lines(data, text):
    with open(os.path.join(data, text["file"]), encoding="utf-8") as file:
        lines = file.read().split("\n")
    return [line for line in lines
            if text["shortest"] <= len(line.encode()) <= text["longest"]][:LINES]


def rows_of(folder, data, text):
    """Return the tokens and labels of each row."""
    if "questions" in text:
        return answers_of(folder, data, text)
    return [(ids, ids) for ids in tokens_of(folder, read_lines(data, text))]


def answers_of(folder, data, text):
    """Return the rows of a job of stage sft with template `default`: answer and EOS are trained."""
    tokenizer = Tokenizer.from_file(os.path.join(folder, "tokenizer.json"))
    end = tokenizer.token_to_id("</s>")

    def encode(piece):
        return tokenizer.encode(piece, add_special_tokens=False).ids

    with open(os.path.join(data, text["questions"]), encoding="utf-8") as file:
        pairs = [(question, answer) for question, _, answer in json.load(file)
                 if len(question.encode()) <= text["longest"] >= len(answer.encode())]
    rows = []
    for question, answer in pairs[:LINES]:
        asked = encode(f"Human: {question}") + [end] + encode("\nAssistant:")
        said = encode(answer) + [end] + encode("\n")
        rows.append((asked + said, [-100] * len(asked) + said))
    assert len(rows) == LINES
    return rows


def tokens_of(folder, lines):
    """Return the rows of a job of stage pt without packing: BOS, text, EOS, if the model has them."""
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


def make_adapter(folder, to):
    """Save an adapter by PEFT, with weights from hashed names; return the contents of its files."""
    base = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    get_peft_model(base, LoraConfig(**LORA)).save_pretrained(to)
    path = os.path.join(to, "adapter_model.safetensors")
    shapes = {n: list(t.shape) for n, t in sorted(load_file(path).items())}
    save_file({n: elements(n, s, 0) for n, s in shapes.items()}, path, {"format": "pt"})
    with open(os.path.join(to, "adapter_config.json"), encoding="utf-8") as file:
        config = json.load(file)
    config["target_modules"].sort()
    config["base_model_name_or_path"] = None
    return {"config": config, "tensors": shapes, "offset": 0}


def nudge(model, draw):
    """Change the weights by about an epsilon of fp32."""
    generator = torch.Generator().manual_seed(draw)
    with torch.no_grad():
        for p in (p for p in model.parameters() if p.dtype == torch.float32):
            p.mul_(1 + torch.randn(p.shape, generator=generator) * 2.0 ** -23)


def load(folder, adapter, compute):
    """Load a model without dropout.  The base of an adapter is in 16 bits, as in LLaMA-Factory."""
    config = AutoConfig.from_pretrained(folder)
    for key, value in NO_DROPOUT.items():
        if hasattr(config, key):
            setattr(config, key, value)
    kinds = {"bf16": torch.bfloat16, "fp16": torch.float16}
    model = AutoModelForCausalLM.from_pretrained(
        folder, config=config, attn_implementation="eager",
        dtype=kinds.get(compute, torch.float32) if adapter else torch.float32)
    return PeftModel.from_pretrained(model, adapter, is_trainable=True) if adapter else model


def train(subject, settings, compute="fp32", draw=0):
    model = load(subject["folder"], subject["adapter"], compute)
    if draw > 0:
        nudge(model, draw)
    with tempfile.TemporaryDirectory() as scratch:
        arguments = TrainingArguments(
            output_dir=scratch, use_cpu=True, report_to=[], save_strategy="no",
            logging_steps=1, disable_tqdm=True, train_sampling_strategy="sequential",
            remove_unused_columns=False, bf16=compute == "bf16", fp16=compute == "fp16",
            **settings)
        trainer = (HalfRecorder if compute == "fp16" else Recorder)(
            model=model, args=arguments, train_dataset=Lines(subject["rows"]), data_collator=pad)
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
    """Return the relative distances of the losses of a curve from those in fp32."""
    away = [abs(a[0] - b[0]) / b[0] for a, b in zip(curve, exact)]
    return [short(sum(away) / len(away)), short(max(away))]


def bands(subject, settings, exact):
    """Return [mean, maximum] for each draw."""
    return {kind: [band(train(subject, settings, kind, draw), exact)
                   for draw in range(draws)] for kind, draws in DRAWS.items()}


def run_of(name, data, scratch):
    model, text = MODELS[name]
    row = {"model": model, "text": text}
    folder = os.path.join(data, model)
    adapter = None
    if model in MADE:
        folder = os.path.join(scratch, "model")
        config, tensors, offset = make(*MADE[model], folder)
        row["made"] = {"config": config, "tensors": tensors, "offset": offset}
    if name == "adapter":
        adapter = os.path.join(scratch, "adapter")
        row["adapter"] = make_adapter(folder, adapter)
    rows = rows_of(folder, data, text)
    subject = {"folder": folder, "adapter": adapter, "rows": rows}
    settings = SETTINGS | OTHERWISE.get(name, {})
    exact = train(subject, settings)
    row |= {"tokens": sum(len(ids) for ids, _ in rows), "settings": settings,
            "cutoff": max(CUTOFF, *(len(ids) for ids, _ in rows)), "curve": columns(exact),
            "bands": bands(subject, settings, exact), "variants": {}}
    for variant in FEWER.get(name, VARIANTS):
        changed = settings | SHORT | VARIANTS[variant]
        row["variants"][variant] = {"settings": changed,
                                    "curve": columns(train(subject, changed))}
    print(name, row["bands"], file=sys.stderr)
    return row


def main(data, names):
    transformers.logging.set_verbosity_error()
    torch.set_num_threads(1)
    runs = {}
    for name in names or MODELS:
        with tempfile.TemporaryDirectory() as scratch:
            runs[name] = run_of(name, data, scratch)
    text = json.dumps({"torch": torch.__version__, "transformers": transformers.__version__,
                       "lines": LINES, "alphabet": ALPHABET, "runs": runs})
    # one line per list of values
    print(text.replace(', "', ',\n"').replace("}, ", "},\n"))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
