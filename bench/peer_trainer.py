#!/usr/bin/env python3
"""Compare trainspool with transformers: packing, preferences, and the time to the first step.

    bench/peer_trainer.py packing BUILD DATA
    bench/peer_trainer.py preferences BUILD DATA
    bench/peer_trainer.py start BUILD DATA

BUILD has the programs, DATA the folders `tokenizers/llama2`, `datasets/llamafactory` and
`stories260K/hf`. The Python that runs this needs torch, transformers and tokenizers, and peft for
preferences.

packing: a Llama of stories15M's shape with random weights, fp32, on alpaca_en_demo (999 questions
and answers of very different lengths), template `default`. transformers takes 8 samples per step,
padded to the longest, as its Trainer's collator does; trainspool takes packed rows of 1024 tokens.
Unit: trained tokens (answers) per second.

preferences: stage dpo of a model of that shape and the same weights on dpo_en_demo, the first pairs
in their order, four per step, fp32, all weights and LoRA of rank 8. transformers takes chosen and
rejected answers as one padded batch, with the loss and reference of LLaMA-Factory
(train/dpo/trainer.py). Unit: pairs per second.

start: stories260K on identity.json.  trainspool: a running `watch`, from the rename of the job
into the folder to the first line of metrics.jsonl.  transformers: from the start of Python to the
end of the first step of its Trainer, reading and tokenizing the text in a typical script.
"""
import json
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

STORIES_15M = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 288,
    "intermediate_size": 768, "num_hidden_layers": 6, "num_attention_heads": 6,
    "num_key_value_heads": 6, "vocab_size": 32000, "max_position_embeddings": 2048,
    "rms_norm_eps": 1e-5, "tie_word_embeddings": True, "hidden_act": "silu",
}
SAMPLES, ROOM, PEER_STEPS, OUR_STEPS = 8, 1024, 6, 14
JOB = """model_name_or_path: {model}
stage: sft
finetuning_type: full
template: default
dataset_dir: {data}
dataset: {dataset}
cutoff_len: {room}
max_steps: {steps}
logging_steps: 1
save_strategy: 'no'
learning_rate: 1e-4
gradient_accumulation_steps: 1
"""


# ---- packing ----

def alpaca(data, tokenizer):
    """Return (ids, labels) of each record, by the template."""
    with open(f"{data}/datasets/llamafactory/alpaca_en_demo.json", encoding="utf-8") as file:
        records = json.load(file)
    end = tokenizer.token_to_id("</s>")
    samples = []
    for record in records:
        question = "\n".join(filter(None, (record["instruction"], record["input"])))
        asked = tokenizer.encode("Human: " + question, add_special_tokens=False).ids + [end]
        asked += tokenizer.encode("\nAssistant:", add_special_tokens=False).ids
        said = tokenizer.encode(record["output"], add_special_tokens=False).ids + [end]
        ids, labels = asked + said, [-100] * len(asked) + said
        samples.append((ids[:ROOM], labels[:ROOM]))
    return samples


def peer_packing(data):
    """Return trained tokens per second of transformers, the share of tokens that are trained, and
    the share of its rows that are padding."""
    import torch
    from tokenizers import Tokenizer
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.set_num_threads(len(os.sched_getaffinity(0)))
    samples = alpaca(data, Tokenizer.from_file(f"{data}/tokenizers/llama2/tokenizer.json"))
    model = LlamaForCausalLM(LlamaConfig(**STORIES_15M))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=0.0)
    random.Random(1).shuffle(samples)
    trained, filled, rows, seconds = 0, 0, 0, 0.0
    for step in range(PEER_STEPS + 1):
        batch = samples[SAMPLES * step:SAMPLES * (step + 1)]
        longest = max(len(ids) for ids, _ in batch)
        longest += -longest % 8  # pad_to_multiple_of of LLaMA-Factory
        ids = torch.tensor([i + [0] * (longest - len(i)) for i, _ in batch])
        mask = torch.tensor([[1] * len(i) + [0] * (longest - len(i)) for i, _ in batch])
        labels = torch.tensor([n + [-100] * (longest - len(n)) for _, n in batch])
        start = time.perf_counter()
        optimizer.zero_grad()
        model(input_ids=ids, attention_mask=mask, labels=labels).loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if step > 0:  # the first step is a warm-up
            seconds += time.perf_counter() - start
            trained += int((labels[:, 1:] >= 0).sum())
            filled += int(mask.sum())
            rows += mask.numel()
    every = sum(len(ids) for ids, _ in samples)
    learned = sum(sum(n >= 0 for n in labels) for _, labels in samples)
    return trained / seconds, learned / every, 1 - filled / rows


def our_packing(build, data, share, packing):
    with tempfile.TemporaryDirectory() as folder:
        model = f"{folder}/model"
        shutil.copytree(f"{data}/tokenizers/llama2", model)
        os.chmod(model, 0o755)
        with open(f"{model}/config.json", "w", encoding="utf-8") as file:
            json.dump(STORIES_15M, file)
        with open(f"{folder}/job.yaml", "w", encoding="utf-8") as file:
            file.write(JOB.format(model=model, data=f"{data}/datasets/llamafactory",
                                  dataset="alpaca_en_demo", room=ROOM, steps=OUR_STEPS))
            file.write(f"train_from_scratch: true\npacking: {str(packing).lower()}\n"
                       f"per_device_train_batch_size: {2 if packing else SAMPLES}\n")
        subprocess.run([f"{build}/trainspool", "run", f"{folder}/job.yaml"], check=True,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        with open(f"{folder}/job.run/metrics.jsonl", encoding="utf-8") as file:
            rows = [json.loads(line) for line in file]
    rows = [row for row in rows if "tokens_per_second" in row]
    tokens = [b["tokens"] - a["tokens"] for a, b in zip(rows, rows[1:])]
    seconds = [n / row["tokens_per_second"] for n, row in zip(tokens, rows[1:])]
    return share * sum(tokens[1:]) / sum(seconds[1:])


def packing(build, data):
    import torch
    import transformers

    theirs, share, padding = peer_packing(data)
    packed, plain = (our_packing(build, data, share, how) for how in (True, False))
    print(f"transformers {transformers.__version__}, PyTorch {torch.__version__}, "
          f"{len(os.sched_getaffinity(0))} cores; {100 * share:.0f} % of the tokens are trained; "
          f"{100 * padding:.0f} % of transformers' rows are padding\n")
    print("| alpaca_en_demo, stories15M's shape, fp32 | trained tokens/s "
          "| relative to transformers |\n"
          "|---|---|---|")
    print(f"| transformers, {SAMPLES} samples per step, padded | {theirs:.0f} | 1.00 |")
    print(f"| trainspool, {SAMPLES} samples per step | {plain:.0f} | {plain / theirs:.2f} |")
    print(f"| trainspool, packing, 2 rows of {ROOM} | {packed:.0f} | {packed / theirs:.2f} |")


# ---- preferences ----

PAIRS, PAIR_STEPS, PAIR_ROOM, BETA = 4, 8, 2048, 0.1
PAIR_JOB = """model_name_or_path: {model}
stage: dpo
finetuning_type: {method}
lora_rank: 8
template: default
dataset_dir: {data}
dataset: dpo_en_demo
cutoff_len: {room}
disable_shuffling: true
per_device_train_batch_size: {size}
max_steps: {steps}
logging_steps: 1
save_strategy: 'no'
learning_rate: 1e-4
"""


def pairs(data, tokenizer):
    """Return (ids, labels) of the chosen and the rejected answer of each record."""
    def encode(text):
        return tokenizer.encode(text, add_special_tokens=False).ids

    with open(f"{data}/datasets/llamafactory/dpo_en_demo.json", encoding="utf-8") as file:
        records = json.load(file)[:PAIRS * PAIR_STEPS]
    end, out = tokenizer.token_to_id("</s>"), []
    for record in records:
        asked = []
        for turn in record["conversations"]:
            if turn["from"] == "human":
                asked += encode("Human: " + turn["value"]) + [end] + encode("\nAssistant:")
            elif turn["from"] == "gpt":
                asked += encode(turn["value"]) + [end] + encode("\n")
            else:
                asked += encode("System: " + turn["value"]) + [end] + encode("\n")
        said = [encode(record[which]["value"]) + [end] + encode("\n")
                for which in ("chosen", "rejected")]
        assert len(asked) + max(map(len, said)) <= PAIR_ROOM
        out.append([(asked + one, [-100] * len(asked) + one) for one in said])
    return out


def answer_logps(model, ids, mask, labels):
    import torch

    logits = model(input_ids=ids, attention_mask=mask, use_cache=False).logits.float()[:, :-1]
    labels = labels[:, 1:].clone()
    there = labels != -100
    labels[~there] = 0
    each = torch.gather(logits.log_softmax(-1), 2, labels.unsqueeze(2)).squeeze(2)
    return (each * there).sum(-1).chunk(2)


def peer_pairs(data, folder, method):
    """Return pairs per second of transformers."""
    import torch
    from peft import LoraConfig, get_peft_model
    from tokenizers import Tokenizer
    from transformers import LlamaForCausalLM

    torch.set_num_threads(len(os.sched_getaffinity(0)))
    all_pairs = pairs(data, Tokenizer.from_file(f"{folder}/tokenizer.json"))
    model = LlamaForCausalLM.from_pretrained(folder)
    reference = None
    if method == "lora":
        model = get_peft_model(model, LoraConfig(
            r=8, lora_alpha=16, target_modules="all-linear", task_type="CAUSAL_LM"))
    else:
        reference = LlamaForCausalLM.from_pretrained(folder).eval()
    trained = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=1e-4, weight_decay=0.0)
    seconds = 0.0
    for step in range(PAIR_STEPS):
        batch = all_pairs[PAIRS * step:PAIRS * (step + 1)]
        rows = [chosen for chosen, _ in batch] + [rejected for _, rejected in batch]
        longest = max(len(ids) for ids, _ in rows)
        longest += -longest % 8  # pad_to_multiple_of of LLaMA-Factory
        ids = torch.tensor([i + [0] * (longest - len(i)) for i, _ in rows])
        mask = torch.tensor([[1] * len(i) + [0] * (longest - len(i)) for i, _ in rows])
        labels = torch.tensor([n + [-100] * (longest - len(n)) for _, n in rows])
        start = time.perf_counter()
        optimizer.zero_grad()
        chosen, rejected = answer_logps(model, ids, mask, labels)
        with torch.no_grad():
            if reference is None:
                with model.disable_adapter():
                    held = answer_logps(model, ids, mask, labels)
            else:
                held = answer_logps(reference, ids, mask, labels)
        apart = (chosen - rejected) - (held[0] - held[1])
        (-torch.nn.functional.logsigmoid(BETA * apart)).mean().backward()
        torch.nn.utils.clip_grad_norm_(trained, 1.0)
        optimizer.step()
        if step > 0:  # the first step is a warm-up
            seconds += time.perf_counter() - start
    return PAIRS * (PAIR_STEPS - 1) / seconds


def our_pairs(build, data, folder, method):
    """Return pairs per second of trainspool; check the loss of the first step."""
    with tempfile.TemporaryDirectory() as work:
        with open(f"{work}/job.yaml", "w", encoding="utf-8") as file:
            file.write(PAIR_JOB.format(model=folder, method=method, room=PAIR_ROOM, size=PAIRS,
                                       data=f"{data}/datasets/llamafactory", steps=PAIR_STEPS))
        subprocess.run([f"{build}/trainspool", "run", f"{work}/job.yaml"], check=True,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        with open(f"{work}/job.run/metrics.jsonl", encoding="utf-8") as file:
            rows = [json.loads(line) for line in file]
    assert abs(rows[0]["loss"] - 0.693147) < 1e-5 and len(rows) == PAIR_STEPS
    tokens = [b["tokens"] - a["tokens"] for a, b in zip(rows, rows[1:])]
    seconds = sum(n / row["tokens_per_second"] for n, row in zip(tokens, rows[1:]))
    return PAIRS * (PAIR_STEPS - 1) / seconds


def preferences(build, data):
    import peft
    import torch
    import transformers

    torch.manual_seed(1)
    with tempfile.TemporaryDirectory() as work:
        folder = f"{work}/model"
        shutil.copytree(f"{data}/tokenizers/llama2", folder)
        os.chmod(folder, 0o755)
        transformers.LlamaForCausalLM(
            transformers.LlamaConfig(**STORIES_15M)).save_pretrained(folder)
        print(f"transformers {transformers.__version__}, PyTorch {torch.__version__}, "
              f"peft {peft.__version__}, {len(os.sched_getaffinity(0))} cores\n")
        print("| dpo_en_demo, stories15M's shape, fp32, pairs/s | trainspool | transformers | "
              "ratio |\n|---|---|---|---|")
        for method in ("full", "lora"):
            ours = our_pairs(build, data, folder, method)
            theirs = peer_pairs(data, folder, method)
            ours = min(ours, our_pairs(build, data, folder, method))
            print(f"| {method} | {ours:.2f} | {theirs:.2f} | {ours / theirs:.2f} |", flush=True)


# ---- start ----

SCRIPT = """
import json, sys, time
from transformers import (AutoModelForCausalLM, AutoTokenizer, DataCollatorForSeq2Seq, Trainer,
                          TrainerCallback, TrainingArguments)
data, out = sys.argv[1:]
tokenizer = AutoTokenizer.from_pretrained(data + "/stories260K/hf")
tokenizer.pad_token = tokenizer.pad_token or "<unk>"
model = AutoModelForCausalLM.from_pretrained(data + "/stories260K/hf")
rows = []
for record in json.load(open(data + "/datasets/llamafactory/identity.json")):
    asked = tokenizer("Human: " + record["instruction"] + "</s>\\nAssistant:",
                      add_special_tokens=False).input_ids
    said = tokenizer(record["output"] + "</s>\\n", add_special_tokens=False).input_ids
    rows.append({"input_ids": asked + said, "labels": [-100] * len(asked) + said})
class First(TrainerCallback):
    def on_step_end(self, args, state, control, **kwargs):
        print("first", time.clock_gettime(time.CLOCK_BOOTTIME), flush=True)
arguments = TrainingArguments(out, max_steps=1, per_device_train_batch_size=1, report_to="none",
                              save_strategy="no", use_cpu=True)
Trainer(model=model, args=arguments, train_dataset=rows, callbacks=[First()],
        data_collator=DataCollatorForSeq2Seq(tokenizer)).train()
"""


def now():
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def peer_start(data):
    with tempfile.TemporaryDirectory() as folder:
        begun = now()
        done = subprocess.run([sys.executable, "-c", SCRIPT, data, folder], check=True,
                              capture_output=True, text=True)
    line = next(row for row in done.stdout.splitlines() if row.startswith("first"))
    return float(line.split()[1]) - begun


def wait_for(path, patience=20):
    until = now() + patience
    while not (os.path.exists(path) and os.path.getsize(path) > 0):
        if now() > until:
            sys.exit(f"peer_trainer: timeout waiting for {path}")
        time.sleep(0.0002)
    return now()


def our_start(build, data, drops):
    taken = []
    with tempfile.TemporaryDirectory() as folder:
        spool = f"{folder}/jobs"
        os.mkdir(spool)
        watch = subprocess.Popen([f"{build}/trainspool", "watch", spool],
                                 stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(1)
        try:
            for i in range(drops):
                job = f"{folder}/drop{i}.yaml"
                with open(job, "w", encoding="utf-8") as file:
                    file.write(JOB.format(model=f"{data}/stories260K/hf",
                                          data=f"{data}/datasets/llamafactory",
                                          dataset="identity", room=512, steps=1))
                    file.write("per_device_train_batch_size: 1\nmax_grad_norm: 1.0\n")
                begun = now()
                os.rename(job, f"{spool}/drop{i}.yaml")
                taken.append(wait_for(f"{spool}/drop{i}.run/metrics.jsonl") - begun)
                time.sleep(0.3)
        finally:
            watch.terminate()
            watch.wait()
    return taken


def start(build, data):
    import torch
    import transformers

    ours = our_start(build, data, 7)
    theirs = min(peer_start(data) for _ in range(2))  # the second run finds its files in the cache
    print(f"transformers {transformers.__version__}, PyTorch {torch.__version__}, "
          f"{len(os.sched_getaffinity(0))} cores\n")
    print("| stories260K on identity.json, to the end of the first step | seconds |\n|---|---|")
    print(f"| transformers' Trainer, from the start of Python | {theirs:.2f} |")
    print(f"| trainspool, from the drop into a watched folder: median of {len(ours)} | "
          f"{statistics.median(ours):.3f} |")
    print(f"| the slowest of them | {max(ours):.3f} |")
    print(f"| ratio | {theirs / statistics.median(ours):.0f} |")


def main():
    runs = {"packing": packing, "preferences": preferences, "start": start}
    if len(sys.argv) != 4 or sys.argv[1] not in runs:
        sys.exit(__doc__)
    try:
        import torch  # noqa: F401
        import transformers  # noqa: F401
    except ImportError:
        print("peer_trainer: transformers is not installed, nothing to compare with")
        return
    runs[sys.argv[1]](os.path.abspath(sys.argv[2]), os.path.abspath(sys.argv[3]))


main()
