#!/usr/bin/env python3
"""Make conversations.json: the tokens and targets that LLaMA-Factory makes of its demonstration sets.

    python3 tests/golden/conversations.py ../shared >tests/golden/conversations.json

Requires llamafactory (the current file was made with 0.9.5; DISABLE_VERSION_CHECK=1 lets it use a
newer transformers), transformers, datasets and tokenizers; packages that only images and audio need
may be missing.  The data are read by LLaMA-Factory's loader, converter and processor, as in its
trainer.  Each case has the number of samples, tokens and targets, and the SHA-256 of all rows: the
token, and the next token if it is trained, else -100, as little-endian 32-bit integers.  An empty
list of tools counts as no tools; LLaMA-Factory writes an empty system message for it.
"""
import hashlib
import importlib.machinery
import importlib.metadata
import json
import struct
import sys
import tempfile
import types

OUT, sys.stdout = sys.stdout, sys.stderr  # the loader writes its log here
for name in ("torchaudio",):  # imported but not used
    try:
        __import__(name)
    except ImportError:
        sys.modules[name] = types.ModuleType(name)
        sys.modules[name].__spec__ = importlib.machinery.ModuleSpec(name, None)

import datasets
from llamafactory.data.data_utils import split_dataset
from llamafactory.data.loader import _get_dataset_processor, _get_merged_dataset
from llamafactory.data.template import get_template_and_fix_tokenizer
from llamafactory.hparams import DataArguments
from transformers import PreTrainedTokenizerFast

ALPACA, ZH, TOOLS = "alpaca_en_demo", "alpaca_zh_demo", "glaive_toolcall_en_demo"
CASES = [
    dict(dataset="identity", template="default"),
    dict(dataset=ALPACA, template="default"),
    dict(dataset=ALPACA, template="alpaca", cutoff_len=200),
    dict(dataset=ALPACA, template="llama2", train_on_prompt=True),
    dict(dataset=ALPACA, template="vicuna", max_samples=100),
    dict(dataset=ZH, template="default", cutoff_len=300),
    dict(dataset=TOOLS, template="default"),
    dict(dataset=TOOLS, template="llama2", cutoff_len=300),
    dict(dataset=TOOLS, template="default", mask_history=True, cutoff_len=300),
    dict(dataset=f"identity,{ALPACA}", template="default", mix_strategy="interleave_over"),
    dict(dataset=f"identity,{ALPACA},{ZH}", template="default",
         mix_strategy="interleave_under", interleave_probs="0.5,0.3,0.2"),
    dict(dataset=ALPACA, template="default", val_size=0.1),
    dict(dataset=ALPACA, template="default", val_size=0.1, split="validation"),
    dict(dataset=f"identity,{ALPACA}", template="default", mix_strategy="interleave_once",
         val_size=7, split="validation"),
    dict(dataset="c4_demo", template="default", stage="pt", cutoff_len=128, packing=None,
         val_size=0.2),
    dict(dataset="c4_demo", template="default", stage="pt", cutoff_len=512, packing=None),
    dict(dataset="wiki_demo,c4_demo", template="default", stage="pt", cutoff_len=128,
         packing=None, mix_strategy="interleave_once"),
    dict(dataset="c4_demo", template="default", stage="pt", cutoff_len=64, packing=False),
]


def tokenizer_of(shared):
    folder = f"{shared}/data/tokenizers/llama2"
    with open(f"{folder}/tokenizer_config.json", encoding="utf-8") as file:
        config = json.load(file)
    names = {key: config[key] for key in ("bos_token", "eos_token", "unk_token")}
    names = {key: n if isinstance(n, str) else n["content"] for key, n in names.items()}
    tokenizer = PreTrainedTokenizerFast(tokenizer_file=f"{folder}/tokenizer.json", **names)
    tokenizer.add_bos_token = config.get("add_bos_token", True)
    return tokenizer


def rows_of(case, shared, cache):
    keys = dict(case)
    stage, packing = keys.pop("stage", "sft"), keys.pop("packing", False)
    split = keys.pop("split", "train")
    data = DataArguments(dataset_dir=f"{shared}/data/datasets/llamafactory",
                         preprocessing_num_workers=None, overwrite_cache=True,
                         cutoff_len=keys.pop("cutoff_len", 2048), **keys)
    data.packing = stage == "pt" if packing is None else packing
    model = types.SimpleNamespace(cache_dir=cache, hf_hub_token=None)
    training = types.SimpleNamespace(seed=42, local_process_index=0, dataloader_num_workers=0)
    merged = _get_merged_dataset(data.dataset, model, data, training, stage)
    parts, held_out = split_dataset(merged, None, data, seed=42)
    merged = {**parts, **held_out}[split]
    merged = merged.map(lambda row: dict(row, _tools="" if row["_tools"] == "[]"
                                         else row["_tools"]))
    tokenizer = tokenizer_of(shared)
    template = get_template_and_fix_tokenizer(tokenizer, data)
    processor = _get_dataset_processor(data, stage, template, tokenizer, None)
    return processor.preprocess_dataset(merged[:])  # all at once, because blocks join documents


def summary(case, shared, cache):
    rows = rows_of(case, shared, cache)
    digest, tokens, targets = hashlib.sha256(), 0, 0
    for i, ids in enumerate(rows["input_ids"]):
        labels = rows["labels"][i] if "labels" in rows else ids
        after = list(labels[1:]) + [-100]
        digest.update(struct.pack(f"<{2 * len(ids)}i", *(n for pair in zip(ids, after)
                                                         for n in pair)))
        tokens += len(ids)
        targets += sum(n != -100 for n in after)
    return dict(case, samples=len(rows["input_ids"]), tokens=tokens, targets=targets,
                sha256=digest.hexdigest())


def main():
    datasets.disable_progress_bars()
    with tempfile.TemporaryDirectory() as cache:
        rows = [json.dumps(summary(case, sys.argv[1], cache)) for case in CASES]
    print('{"llamafactory": "%s", "cases": [\n  %s\n]}' % (
        importlib.metadata.version("llamafactory"), ",\n  ".join(rows)), file=OUT)


main()
