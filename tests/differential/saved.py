#!/usr/bin/env python3
"""Load what `trainspool run` saves with transformers and PEFT, and compare loss and greedy text.

    saved.py [--seed N] [--kind NAME] PROGRAM

PROGRAM is trainspool.  For each architecture, small random models are trained for some steps on chats,
once in full, once with LoRA, merged at the end, once with OFT, unless that would adapt experts or Conv1D,
and once with LoRA on the parameters that have all experts, if there are some.  The trained folder, the adapters and the merged folder are opened by transformers (an adapter
through PEFT): no tensor may be missing or unexpected, the loss of the evaluation data must be the one
that the run logged, and the greedy answers must be those of `trainspool generate`.  A difference makes
the exit status 1; the status is 77 if torch, transformers or peft is not installed.  The same seed gives the same models.
"""
import argparse
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import warnings

warnings.filterwarnings("ignore")
os.environ.update(TRANSFORMERS_VERBOSITY="error", TQDM_DISABLE="1")
try:
    import peft
    import tokenizers
    import torch
    import transformers
except ImportError as missing:
    print(f"saved: {missing}", file=sys.stderr)
    sys.exit(77)

import models

SPECIALS = ["<s>", "</s>", "<|im_start|>", "<|im_end|>"]
VOCABULARY = 264 # some rows of the embedding belong to no token
STEPS = 6
LOSS_TOLERANCE = 3e-6 # relative: both sides sum in fp32
# PEFT 0.21 with transformers 5 takes gate_proj for that of experts alone: dense blocks, and experts that
# all tokens pass through, lose their adapters when it loads them.  It does not know the names of Phi's.
ATTENTION_ALONE = {"qwen2_moe", "qwen2_moe-dense", "qwen3_moe-dense", "glm4_moe", "phimoe", "qwen3_next",
                   "qwen3_next-dense", "ernie4_5_moe", "hunyuan_v1_moe", "deepseek_v2", "deepseek_v3", "glm4_moe_lite", "lfm2_moe"}
TEMPLATES = ["chatml", "qwen3_nothink", "default", "alpaca"]


def write_tokenizer(folder):
    """A byte-level tokenizer without merges and without a chat template."""
    alphabet = sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE({c: i for i, c in enumerate(alphabet)}, []))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = tokenizers.decoders.ByteLevel()
    tokenizer.add_special_tokens(SPECIALS)
    transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token="<s>",
                                         eos_token="</s>").save_pretrained(folder)


def write_data(path, rng):
    words = "red green blue one two three".split()
    chats = [[{"role": "user", "content": " ".join(rng.choices(words, k=2))},
              {"role": "assistant", "content": rng.choice(words)}] for _ in range(12)]
    with open(path, "w", encoding="utf-8") as f:
        for chat in chats:
            print(json.dumps({"messages": chat}), file=f)
    return chats


def write_job(path, template, lines):
    job = {"model_name_or_path": "base", "stage": "sft", "template": template, "dataset": "chats.jsonl",
           "eval_dataset": "chats.jsonl", "cutoff_len": 512, "per_device_train_batch_size": 4,
           "per_device_eval_batch_size": 12, "learning_rate": 3e-3, "max_steps": STEPS,
           "eval_strategy": "steps", "eval_steps": STEPS, "save_strategy": "no", **lines}
    with open(path, "w", encoding="utf-8") as f:
        for key, value in job.items():
            print(f"{key}: {json.dumps(value)}", file=f)


def run(program, *arguments, cwd):
    done = subprocess.run([program, *arguments], cwd=cwd, capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"trainspool {' '.join(arguments)}: {(done.stdout + done.stderr)[-400:]}")
    return done.stdout


def logged_loss(folder, name):
    with open(os.path.join(folder, name + ".run", "metrics.jsonl"), encoding="utf-8") as f:
        return [json.loads(line)["eval_loss"] for line in f if "eval_loss" in line][-1]


def token_loss(model, tokenizer, chats):
    """The mean loss of the answers' tokens, whose prompts are context."""
    total, count = 0.0, 0
    for chat in chats:
        prompt = tokenizer.apply_chat_template(chat[:1], add_generation_prompt=True, tokenize=False)
        whole = tokenizer.apply_chat_template(chat, tokenize=False)
        ids = tokenizer(whole, add_special_tokens=False)["input_ids"]
        start = len(tokenizer(prompt, add_special_tokens=False)["input_ids"])
        with torch.no_grad():
            logits = model(input_ids=torch.tensor([ids])).logits[0, start - 1:-1].double()
        total += torch.nn.functional.cross_entropy(logits, torch.tensor(ids[start:]), reduction="sum").item()
        count += len(ids) - start
    return total / count


def greedy(model, tokenizer, chats):
    """The base model of an adapter does not know the token that ends an answer; its tokenizer does."""
    ends = model.generation_config.eos_token_id
    ends = {tokenizer.eos_token_id, *(ends if isinstance(ends, list) else [ends])}
    texts = []
    for chat in chats:
        inputs = tokenizer.apply_chat_template(chat[:1], add_generation_prompt=True, return_tensors="pt",
                                               return_dict=True)
        out = model.generate(**inputs, max_new_tokens=12, do_sample=False,
                             eos_token_id=sorted(ends))
        texts.append(tokenizer.decode(out[0][inputs["input_ids"].shape[1]:], skip_special_tokens=True))
    return texts


def our_greedy(program, where, folder, chats):
    arguments = [x for chat in chats for x in ("--prompt", chat[0]["content"])]
    out = run(program, "generate", "--json", "--device", "cpu", "--max-new-tokens", "12", "--temperature", "0",
              *arguments, folder, cwd=where)
    return [json.loads(line)["completion"] for line in out.splitlines()]


def class_of(folder):
    with open(os.path.join(folder, "config.json"), encoding="utf-8") as f:
        return models.class_of(json.load(f)["model_type"])


def drop_padding(folder):
    """transformers 5.24 sets the embedding of the padding token of a Youtu to 0 when it loads it."""
    path = os.path.join(folder, "config.json")
    with open(path, encoding="utf-8") as f:
        config = json.load(f)
    if config["model_type"] == "youtu":
        with open(path, "w", encoding="utf-8") as f:
            json.dump(config | {"pad_token_id": None}, f)


def open_whole(folder):
    drop_padding(folder)
    model, info = class_of(folder).from_pretrained(
        folder, dtype=torch.float32, attn_implementation="eager", output_loading_info=True)
    surplus = {k: v for k, v in info.items() if v}
    if surplus:
        raise RuntimeError(f"transformers reports {surplus}")
    return model


def open_adapter(folder):
    with open(os.path.join(folder, "adapter_config.json"), encoding="utf-8") as f:
        base = json.load(f)["base_model_name_or_path"]
    model = class_of(base).from_pretrained(base, dtype=torch.float32, attn_implementation="eager")
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message=".*adapter keys.*")
        peft.PeftModel.from_pretrained(model, folder)
    # the way of users who do not know that it is an adapter
    return class_of(base).from_pretrained(folder, dtype=torch.float32, attn_implementation="eager")


def expert_parameters(folder):
    """Return the ends of the names of parameters that have all experts of a block, as PEFT adapts them."""
    with torch.device("meta"):
        model = class_of(folder).from_config(transformers.AutoConfig.from_pretrained(folder))
    names = [name.split(".") for name, _ in model.named_parameters()]
    return sorted({".".join(name[-2:]) for name in names
                   if name[-2] == "experts" and name[-1] in ("gate_up_proj", "down_proj")})


def open_joined(folder):
    """Return the merged model, whose weights must be those that PEFT merges."""
    ours = open_whole(folder)
    adapter = os.path.join(os.path.dirname(folder), "joined")
    with open(os.path.join(adapter, "adapter_config.json"), encoding="utf-8") as f:
        base = json.load(f)["base_model_name_or_path"]
    model = class_of(base).from_pretrained(base, dtype=torch.float32, attn_implementation="eager")
    theirs = peft.PeftModel.from_pretrained(model, adapter).merge_and_unload()
    for (name, a), (_, b) in zip(ours.named_parameters(), theirs.named_parameters(), strict=True):
        apart = (a - b).abs().max()
        if not apart <= 1e-6 * b.abs().max():
            raise RuntimeError(f"{name}: merged weights differ by {apart:.2g}")
    return ours


def compare(program, where, folder, opened, loss, chats):
    tokenizer = transformers.AutoTokenizer.from_pretrained(os.path.join(where, folder))
    model = opened(os.path.join(where, folder)).eval()
    theirs = token_loss(model, tokenizer, chats)
    if not abs(theirs - loss) <= LOSS_TOLERANCE * abs(loss):
        raise RuntimeError(f"loss {theirs:.9g}, and the run logged {loss:.9g}")
    ours, texts = our_greedy(program, where, folder, chats[:3]), greedy(model, tokenizer, chats[:3])
    if ours != texts:
        raise RuntimeError(f"greedy texts {texts}, and trainspool's are {ours}")


def train(program, where, name, template, lines, saved):
    """Run a job; yield its folders with the functions that open them, and its last loss."""
    write_job(os.path.join(where, name + ".yaml"), template, {**lines, "output_dir": name})
    run(program, "run", "-q", name + ".yaml", cwd=where)
    for folder, opened in saved:
        yield folder, opened, logged_loss(where, name)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--kind", choices=[*models.KINDS, *models.TOWERS])
    parser.add_argument("program")
    options = parser.parse_args()
    program, failures, count = os.path.abspath(options.program), 0, 0
    kinds = models.KINDS | models.TOWERS
    for kind in [options.kind] if options.kind else kinds:
        rng = random.Random(f"{options.seed} {kind}")
        values = kinds[kind](rng)
        text = values.get("text_config", values)
        text |= {"vocab_size": VOCABULARY, "bos_token_id": 256, "eos_token_id": 257, "pad_token_id": 256}
        text |= {key: 512 for key in ("max_position_embeddings", "n_positions") if key in text}
        template = rng.choice(TEMPLATES)
        with tempfile.TemporaryDirectory() as where:
            models.write(os.path.join(where, "base"), kind, values, options.seed)
            write_tokenizer(os.path.join(where, "base"))
            chats = write_data(os.path.join(where, "chats.jsonl"), rng)
            dense = "-dense" if values.get("decoder_sparse_step", 1) > 1 else ""
            attention = "kv_a_proj_with_mqa,kv_b_proj,o_proj" if "kv_lora_rank" in values else "q_proj,k_proj,v_proj"
            target = attention if kind + dense in ATTENTION_ALONE else "all"
            jobs = [("full", {"finetuning_type": "full"}, [("full", open_whole)]),
                    ("lora", {"finetuning_type": "lora", "lora_rank": 4, "lora_target": target,
                              "export_dir": "merged"}, [("lora", open_adapter), ("merged", open_whole)])]
            jobs.append(("oft", {"finetuning_type": "oft", "oft_block_size": rng.choice([2, 4, 7]), "oft_target": target},
                         [("oft", open_adapter)]))
            if parameters := expert_parameters(os.path.join(where, "base")):
                jobs.append(("joined", {"finetuning_type": "lora", "lora_rank": 4, "lora_target": attention,
                                        "lora_target_parameters": parameters, "export_dir": "merged"},
                             [("joined", open_adapter), ("merged", open_joined)]))
            for name, lines, saved in jobs:
                folder = name
                try:
                    for folder, opened, loss in train(program, where, name, template, lines, saved):
                        compare(program, where, folder, opened, loss, chats)
                        count += 1
                except Exception as failure: # pylint: disable=broad-except
                    if name == "oft" and re.search("adapters of experts|are Conv1D", str(failure)):
                        continue
                    failures += 1
                    print(f"{kind}, {folder}, template {template}: {failure}\n    {values}")
    print(f"saved: {count} folders agree, {failures} differ (transformers {transformers.__version__}, "
          f"peft {peft.__version__})")
    sys.exit(failures > 0)


if __name__ == "__main__":
    main()
