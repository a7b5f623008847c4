#!/usr/bin/env python3
"""Train each accepted training file of other people for one step, with a tiny model of its architecture.

    coverage_run.py [--device NAME] [--only WORD] TRAINSPOOL SOURCE SHARED

SOURCE is the source tree, whose table of names (train/model/model_names.c) gives the architecture of a model
that a file names, and whose tests/golden/ has a tiny model of each; a file whose model has no known name gets a Llama.  SHARED has the folders corpus and data.
The model, the data, the device and the sizes of a job are replaced, and it gets one step; everything else is
the file's.  The weights of the tiny models are random.  Counts runs by architecture and lists failures.
"""
import argparse
import collections
import fnmatch
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

from coverage import TOOLS, check_file, training_files

# Models of a folder with towers, where the text model is not the one that tests/golden/multimodal.json has.
TEXT_OF = {"gemma4_unified": "gemma4_text", "glm4v_text": "glm4", "llama4": "llama4_text",
           "mllama_text_model": "llama", "qwen2_5_vl_text": "qwen2", "qwen2_vl_text": "qwen2",
           "qwen3_vl_text": "qwen3", "qwen3_vl_moe_text": "qwen3_moe"}
# of all tiny models; the tokenizer has 512 tokens, and some files divide layers into groups
SIZES = {"vocab_size": 512, "max_position_embeddings": 512, "n_positions": 512, "seq_length": 512}
CHANGES = {"llama": {"num_hidden_layers": 8},
           "ministral3": {"rope_parameters": {"rope_type": "default", "rope_theta": 10000.0}}}
WITH_EXPERTS = "_moe"  # at the end of the type of models that may have none
SETTINGS = ("trainspool.device=cpu", "trainspool.threads=1", "max_steps=1", "per_device_train_batch_size=1",
            "gradient_accumulation_steps=1", "per_device_eval_batch_size=1", "cutoff_len=64", "max_samples=8",
            "eval_strategy=no", "eval_on_start=false", "load_best_model_at_end=false", "early_stopping_steps=null",
            "save_strategy=no", "val_size=0", "trainspool.preflight=no", "warmup_steps=0")
DATA = {
    "sft": [{"instruction": f"Say {i}.", "input": "", "output": f"It is {i}."} for i in range(8)],
    "pt": [{"text": f"There was a number, and it was {i}."} for i in range(64)],
    "dpo": [{"prompt": f"Say {i}.", "chosen": f"It is {i}.", "rejected": "No."} for i in range(8)],
}
DATA |= {"distill": DATA["sft"], "grpo": DATA["sft"], "rm": DATA["dpo"],
         "kto": [{"prompt": f"Say {i}.", "completion": f"It is {i}.", "label": i % 2 == 0} for i in range(8)]}


def tiny_models(source):
    """Return the configurations of tiny models by type, and the types of text models of folders with towers."""
    golden = {}
    for name in ("architectures", "multimodal"):
        with open(os.path.join(source, f"tests/golden/{name}.json"), encoding="utf-8") as file:
            golden[name] = [model["config"] for model in json.load(file)["models"]]
    configs, texts = {}, {}
    for config in golden["architectures"]:
        configs.setdefault(config["model_type"], config)
        if config.get("enable_moe_block"):
            configs.setdefault(config["model_type"] + WITH_EXPERTS, config)
    for config in golden["multimodal"]:
        kind = config.get("text_config", {}).get("model_type", config["model_type"])
        texts.setdefault(config["model_type"], TEXT_OF.get(kind, kind))
        if kind not in TEXT_OF and kind != config["model_type"]:
            configs.setdefault(kind, config["text_config"])
    return configs, texts | TEXT_OF


def name_table(source):
    with open(os.path.join(source, "train/model/model_names.c"), encoding="utf-8") as file:
        text = file.read()
    return re.findall(r'\{ "([^"]+)", "([^"]+)" \}', text.replace('" ACTIVE "', "-a[0-9]*b"))


def type_of(table, texts, name):
    name = name.strip("'\"/ ").split("/")[-1].lower()
    for pattern, kind in table:
        if fnmatch.fnmatchcase(name, pattern):
            return texts.get(kind, kind)
    return "llama"


def value_of(job, key):
    found = re.search(rf"^{key}:[ \t]*([^#\n]+)", job, re.M)
    return found.group(1).strip().strip("'\"") if found else ""


def run(program, *words, cwd):
    return subprocess.run([program, *words], capture_output=True, text=True, check=False, cwd=cwd, timeout=300)


def make_model(program, shared, kind, config, folder):
    """Write a random model of an architecture, by a step of almost no size; return the error."""
    where = os.path.join(folder, kind)
    start = where + "-start"
    if os.path.isdir(where):
        return ""
    if os.path.isdir(start):
        return "no tiny model of this architecture"
    shutil.copytree(os.path.join(shared, "data/stories260K/hf"), start,
                    ignore=shutil.ignore_patterns("*.safetensors", "config.json", "generation_config.json"))
    with open(os.path.join(start, "config.json"), "w", encoding="utf-8") as out:
        json.dump(config | SIZES | CHANGES.get(config["model_type"], {}), out)
    with open(os.path.join(folder, f"{kind}.yaml"), "w", encoding="utf-8") as out:
        out.write(f"model_name_or_path: {start}\nstage: pt\nfinetuning_type: full\ntrain_from_scratch: true\n"
                  f"dataset: pt.jsonl\nlearning_rate: 1.0e-30\nmax_steps: 1\ncutoff_len: 32\nsave_strategy: 'no'\n"
                  f"output_dir: {where}\ntrainspool:\n  device: cpu\n  threads: 1\n")
    done = run(program, "run", "--no-patch", f"{kind}.yaml", cwd=folder)
    return "" if done.returncode == 0 else "tiny model: " + last_line(done)


def last_line(done):
    lines = [line for line in (done.stdout + "\n" + done.stderr).splitlines() if line.strip()]
    errors = [line for line in lines if re.search(r"error\[|error:", line)]
    return (errors[:1] or lines[-1:] or [""])[0][:300]


def train(program, shared, names, tool, path, folder):
    """Return the architecture and the error of one file."""
    job = os.path.join(folder, "job.yaml")
    shutil.rmtree(os.path.join(folder, "job.run"), ignore_errors=True)
    if os.path.exists(job):
        os.remove(job)  # an import replaces no file
    with open(path, "rb") as source:
        text = source.read()
    if tool == "llamafactory" and not re.search(rb"^train_dataset:", text, re.M):
        with open(job, "wb") as out:
            out.write(text)
    else:
        done = run(program, "import", "-o", job, path, cwd=folder)
        if done.returncode != 0:
            return "none", "import: " + last_line(done)
    with open(job, encoding="utf-8") as file:
        text = file.read()
    table, configs, texts = names
    kind = type_of(table, texts, value_of(text, "model_name_or_path"))
    if value_of(text, "lora_target_parameters") and kind + WITH_EXPERTS in configs:
        kind += WITH_EXPERTS
    if kind not in configs:
        return kind, "tests/golden/architectures.json has no model of this type"
    error = make_model(program, shared, kind, configs[kind], folder)
    if error:
        return kind, error
    stage = value_of(text, "stage") or "sft"
    sets = [*SETTINGS, f"model_name_or_path={os.path.join(folder, kind)}", f"dataset={stage}.jsonl",
            f"output_dir={os.path.join(folder, 'out')}"]
    for key, value in (("teacher_model_name_or_path", kind), ("ref_model", kind)):
        if value_of(text, key):
            sets.append(f"{key}={os.path.join(folder, value)}")
    target = value_of(text, "lora_target")
    if "language_model" in target:  # a pattern of names in a folder with towers, which the tiny model has not
        target = re.sub(r"(model\.)?language_model\.(model\.)?", "model.", target)
        sets.append(f"lora_target={json.dumps(target)}")
    if "train_cross_attention: true" in text:  # the tiny model reads text alone
        sets += ["trainspool.train_cross_attention=false", "freeze_language_model=false"]
    words = [word for one in sets for word in ("--set", one)]
    shutil.rmtree(os.path.join(folder, "out"), ignore_errors=True)
    done = run(program, "run", *words, "job.yaml", cwd=folder)
    return kind, "" if done.returncode == 0 else last_line(done)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", default="")
    parser.add_argument("--device", default="H100")
    parser.add_argument("trainspool")
    parser.add_argument("source")
    parser.add_argument("shared")
    args = parser.parse_args()
    program, shared = os.path.abspath(args.trainspool), os.path.abspath(args.shared)
    corpus, names = os.path.join(shared, "corpus"), (name_table(args.source), *tiny_models(args.source))
    good, total = collections.Counter(), collections.Counter()
    with tempfile.TemporaryDirectory() as folder:
        for stage, records in DATA.items():
            with open(os.path.join(folder, f"{stage}.jsonl"), "w", encoding="utf-8") as out:
                out.writelines(json.dumps(record) + "\n" for record in records)
        for tool in TOOLS:
            for path in training_files(corpus, tool):
                if args.only not in path or check_file(program, args.device, tool, path):
                    continue
                kind, error = train(program, shared, names, tool, path, folder)
                total[kind] += 1
                good[kind] += not error
                if error:
                    print(f"{os.path.relpath(path, corpus)}: {kind}: {error}", flush=True)
    if not total:
        print("coverage: the corpus has no accepted file")
        return 77
    print("| architecture | ran | of |\n|---|---|---|")
    for kind, count in sorted(total.items()):
        print(f"| {kind} | {good[kind]} | {count} |")
    print(f"| all | {good.total()} | {total.total()} |")
    return 0 if good == total else 1


if __name__ == "__main__":
    sys.exit(main())
