#!/usr/bin/env python3
"""Count the training files of other people that trainspool accepts, and list why it refuses the rest.

    coverage.py [--device NAME] [--names FILE] [--refused] TRAINSPOOL CORPUS

CORPUS holds folders named llamafactory, axolotl and torchtune with their files.  Axolotl, torchtune
and LLaMA-Factory v1 files are converted with `trainspool import` first.  A file is accepted if the conversion succeeds
and `trainspool check` of the job has no error; models and data that are not on this machine are no error.  --names FILE also counts the names of
models (OWNER/NAME, one per line) that are accepted in place of a file's.  --refused lists each refused file with its
first error.
"""
import argparse
import collections
import json
import os
import re
import subprocess
import sys
import tempfile

TOOLS = ("llamafactory", "axolotl", "torchtune")
# files that are no training: settings of launchers, inference, evaluation, merges, tests of the parsers
TRAINS = {
    "llamafactory": re.compile(r"^(do_train: true|train_dataset:)", re.M),
    "axolotl": re.compile(r"^base_model:", re.M),
    "torchtune": re.compile(r"^(optimizer|optim|model):", re.M),
}
OTHER = re.compile(r"generat|quantiz|eval|dummy_config|/inference")


def findings_of(program, device, job, folder):
    """Return the errors of a check."""
    done = subprocess.run([program, "check", "--json", "--device", device, job], capture_output=True, text=True,
                          check=False, cwd=folder)
    if done.returncode not in (0, 1, 2) or not done.stdout:
        return [{"rule": f"exit {done.returncode}", "message": done.stderr.strip()}]
    return [f for f in json.loads(done.stdout)["findings"] if f["severity"] == "error" and not f["fixed"]]


def check_file(program, device, tool, path):
    """Return the errors of a file."""
    with tempfile.TemporaryDirectory() as folder:
        job = os.path.join(folder, "job.yaml")
        with open(path, "rb") as source:
            text = source.read()
        if tool == "llamafactory" and not re.search(rb"^train_dataset:", text, re.M):
            with open(job, "wb") as target:
                target.write(text)
        else:
            done = subprocess.run([program, "import", "-o", job, path], capture_output=True, text=True, check=False)
            if done.returncode != 0:
                return [{"rule": "import", "message": done.stderr.strip()}]
        return findings_of(program, device, job, folder)


def check_name(program, device, name):
    with tempfile.TemporaryDirectory() as folder:
        job = os.path.join(folder, "job.yaml")
        with open(job, "w", encoding="utf-8") as out:
            out.write(f"model_name_or_path: {name}\ndataset: d.jsonl\nstage: sft\nfinetuning_type: lora\n")
        return [e for e in findings_of(program, device, job, folder) if e["rule"] == "TS716"]


def training_files(corpus, tool):
    for folder, _, names in sorted(os.walk(os.path.join(corpus, tool))):
        for name in sorted(names):
            path = os.path.join(folder, name)
            if not name.endswith((".yaml", ".yml")) or OTHER.search(path[len(corpus):]):
                continue
            with open(path, encoding="utf-8") as file:
                if TRAINS[tool].search(file.read()):
                    yield path


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="H100")
    parser.add_argument("--names")
    parser.add_argument("--refused", action="store_true")
    parser.add_argument("trainspool")
    parser.add_argument("corpus")
    args = parser.parse_args()
    program = os.path.abspath(args.trainspool)
    counts, reasons = {}, collections.Counter()
    for tool in TOOLS:
        accepted = total = 0
        for path in training_files(args.corpus, tool):
            errors = check_file(program, args.device, tool, path)
            total, accepted = total + 1, accepted + (not errors)
            if errors:
                first = errors[0]["message"].splitlines()[0] if errors[0]["message"] else ""
                reasons[errors[0]["rule"]] += 1
                if args.refused:
                    print(f"{os.path.relpath(path, args.corpus)}: {errors[0]['rule']}: {first}")
        counts[tool] = (accepted, total)
    if not any(total for _, total in counts.values()):
        print("coverage: the corpus has no training file")
        return 77
    print("| what | accepted | of | share |\n|---|---|---|---|")
    rows = {"all": [counts[t] for t in TOOLS], "without torchtune": [counts[t] for t in TOOLS if t != "torchtune"],
            "LLaMA-Factory": [counts["llamafactory"]], "Axolotl": [counts["axolotl"]],
            "torchtune": [counts["torchtune"]]}
    for what, parts in rows.items():
        accepted, total = map(sum, zip(*parts))
        print(f"| {what} | {accepted} | {total} | {100 * accepted / max(total, 1):.0f} % |")
    if args.names:
        with open(args.names, encoding="utf-8") as file:
            names = file.read().split()
        good = [name for name in names if not check_name(program, args.device, name)]
        print(f"| names of models | {len(good)} | {len(names)} | {100 * len(good) / max(len(names), 1):.0f} % |")
    print("refused:", ", ".join(f"{rule} {count}" for rule, count in reasons.most_common()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
