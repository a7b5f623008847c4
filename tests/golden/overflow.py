#!/usr/bin/env python3
"""Make overflow.json: sixty fp16 steps in which gradients sometimes overflow, trained by
transformers' Trainer with autocast and GradScaler, for test_trainer_overflow.

    python3 tests/golden/overflow.py > tests/golden/overflow.json       (on a CPU)

A step is one text.  The loss of a text is the mean over its tokens, so the gradients of a text of two
characters, one of which is trained, are about a hundred times those of a long text: short texts
overflow at scales that are safe for long ones.  The scale grows after five good steps in a row.

Whether a step overflows depends on what is stored in fp16: PyTorch stores the gradients of weights in
fp16, trainspool in fp32.  So a case is written only if no step is near the limit: a step that is
applied would also be applied at three times its scale, including fp16 gradients of weights; a step
that is skipped would also be skipped at a third of its scale, because there the gradient of the
logits, which both store in fp16, overflows.
"""
import json
import math
import sys
import tempfile

import torch
import transformers
from transformers import TrainingArguments

from architectures import GPT2, LLAMA, hashed, load, make
from trainer import HalfRecorder, Lines, pad

ALPHABET = ("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
            "!#$%&()*+,-./:;<=>?@[]^_{|}~")
LONG, SHORT, INTERVAL, CLEAR, EDGE = 480, 2, 5, 3, 65504
PLAN = "LLLLLLLLLLSLLLLLSLLLLLSLLLLLLLSLLLLLLLLLLSSLLLLLLLLLLSLLSLLL"
SETTINGS = {"learning_rate": 2e-3, "weight_decay": 0.01, "max_grad_norm": 1.0,
            "lr_scheduler_type": "linear", "warmup_steps": 10, "max_steps": len(PLAN),
            "per_device_train_batch_size": 1, "gradient_accumulation_steps": 1}
# With a fused AdamW, GradScaler leaves skipping to the optimizer, so accelerate counts every step as
# applied and advances the schedule.
OPTIMIZER = "adamw_torch"
MODELS = {
    "llama": dict(LLAMA, vocab_size=len(ALPHABET), max_position_embeddings=512),
    "gpt2": dict(GPT2, vocab_size=len(ALPHABET), n_positions=512),
}


def text_of(step):
    count = LONG if PLAN[step] == "L" else SHORT
    return "".join(ALPHABET[int((x + 1) / 2 * len(ALPHABET))]
                   for x in hashed(f"text {step}", count))


class Traced(HalfRecorder):
    """Record the scale after each step, and check before each step how far it is from the limit."""

    def __init__(self, *args, **kwargs):
        self.scales, self.made = [], []
        super().__init__(*args, **kwargs)

    def create_accelerator_and_postprocess(self):
        super().create_accelerator_and_postprocess()
        self.accelerator.scaler = torch.amp.GradScaler("cpu", growth_interval=INTERVAL)

    def training_step(self, model, inputs, *args, **kwargs):
        scale = self.accelerator.scaler.get_scale()
        self.large = self.is_finite(model, inputs, scale * CLEAR)
        self.small = (not self.is_finite(model, inputs, scale / CLEAR)
                      and self.largest_of_logits(model, inputs) * scale / CLEAR > EDGE)
        return super().training_step(model, inputs, *args, **kwargs)

    def log(self, logs, *args, **kwargs):
        if "grad_norm" in logs:
            self.scales.append(self.accelerator.scaler.get_scale())
            self.made.append(not self.accelerator.optimizer_step_was_skipped)
            assert self.large if self.made[-1] else self.small, f"step {len(self.made)}"
        super().log(logs, *args, **kwargs)

    def is_finite(self, model, inputs, scale):
        """Return whether every gradient would be finite at this scale."""
        with torch.autocast("cpu", torch.float16):
            loss = self.compute_loss(model, inputs)
        (loss * scale).backward()
        finite = all(p.grad.isfinite().all() for p in model.parameters())
        model.zero_grad()
        return bool(finite)

    def largest_of_logits(self, model, inputs):
        """Return the largest gradient of a logit, unscaled, in fp32."""
        ids = inputs["input_ids"][0]
        with torch.no_grad():
            chances = model(input_ids=ids[None]).logits[0, :-1].softmax(-1)
        target = torch.nn.functional.one_hot(ids[1:], chances.shape[-1])
        return float((chances - target).abs().max()) / (len(ids) - 1)


def train(model, tokens):
    with tempfile.TemporaryDirectory() as scratch:
        arguments = TrainingArguments(
            output_dir=scratch, use_cpu=True, report_to=[], save_strategy="no",
            logging_steps=1, disable_tqdm=True, train_sampling_strategy="sequential",
            remove_unused_columns=False, fp16=True, logging_nan_inf_filter=False,
            optim=OPTIMIZER, **SETTINGS)
        trainer = Traced(model=model, args=arguments, train_dataset=Lines(tokens),
                         data_collator=pad)
        trainer.train()
    return trainer


def tokenizer():
    """Return a tokenizer whose tokens are single characters."""
    return {"added_tokens": [], "normalizer": None, "post_processor": None,
            "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False,
                              "trim_offsets": True, "use_regex": True},
            "decoder": {"type": "ByteLevel"},
            "model": {"type": "BPE", "merges": [],
                      "vocab": {c: i for i, c in enumerate(ALPHABET)}}}


def short(number):
    """Return None for values that JSON cannot represent."""
    return float(f"{number:.7g}") if math.isfinite(number) else None


def run(name, texts):
    with tempfile.TemporaryDirectory() as folder:
        config, shapes, offset = make(name, MODELS[name], folder)
        trainer = train(load(folder), [[ALPHABET.index(c) for c in text] for text in texts])
    loss, norm, rate = zip(*trainer.curve)
    print(name, len(texts) - sum(trainer.made), "steps skipped", file=sys.stderr)
    return {"name": name, "config": config, "offset": offset, "tensors": shapes,
            "loss": [short(x) for x in loss], "grad_norm": [short(x) for x in norm],
            "learning_rate": [float(f"{x:.12g}") for x in rate],
            "scale": trainer.scales, "made": trainer.made}


def main():
    transformers.logging.set_verbosity_error()
    torch.set_num_threads(1)
    texts = [text_of(step) for step in range(len(PLAN))]
    json.dump({"made_with": f"transformers {transformers.__version__}, torch "
                            f"{torch.__version__.split('+')[0]}",
               "settings": SETTINGS, "interval": INTERVAL, "tokenizer": tokenizer(),
               "texts": texts, "models": [run(name, texts) for name in MODELS]},
              sys.stdout, separators=(",", ":"))


if __name__ == "__main__":
    main()
