#!/usr/bin/env python3
"""Print what trainspool, LLaMA-Factory and Axolotl report for the same planted mistakes, and how
long each takes to check one file. docs/comparison.md has the table.

    bench/peer_check.py TRAINSPOOL [llamafactory=PYTHON] [axolotl=PYTHON]
    make bench PEERS="llamafactory=PYTHON axolotl=PYTHON"

PYTHON is an interpreter that can import the package; a tool that is not named is left out. The
script runs the checks that the tools make before training: LLaMA-Factory's get_train_args on the
file, Axolotl's validate_config on the contents of the file, with a T4 as the device. Neither
loads a model or data for that, and no network is used.
"""
import json
import logging
import os
import subprocess
import sys
import tempfile
import time

TEXT = {
    "trainspool": """\
model_name_or_path: model
stage: sft
finetuning_type: lora
lora_rank: 8
dataset: data
template: default
output_dir: out
per_device_train_batch_size: 2
learning_rate: 1.0e-4
fp16: true
""",
    "axolotl": """\
base_model: model
adapter: lora
lora_r: 8
lora_alpha: 16
lora_target_linear: true
datasets:
  - path: data.jsonl
    type: alpaca
output_dir: out
sequence_len: 512
micro_batch_size: 2
gradient_accumulation_steps: 1
learning_rate: 1.0e-4
bf16: false
fp16: true
""",
}
TEXT["llamafactory"] = TEXT["trainspool"]

# A mistake: its name, and the replacements of the lines of keys ("+": a new line at the end), for
# a job (LLaMA-Factory's form) and for Axolotl. None: the tool has no such key.
MISTAKES = [
    ("none", {}, {}),
    ("a misspelled key", {"learning_rate": "learning_rte: 1.0e-4"},
     {"learning_rate": "learning_rte: 1.0e-4"}),
    ("a key with a capital letter", {"lora_rank": "Lora_rank: 8"}, {"lora_r": "Lora_r: 8"}),
    ("a key renamed by transformers", {"+": "evaluation_strategy: steps\nval_size: 0.1"},
     {"+": "evaluation_strategy: steps\nval_set_size: 0.1"}),
    ("a word instead of a number", {"+": "num_train_epochs: three"}, {"+": "num_epochs: three"}),
    ("`2e-5`, a string to PyYAML", {"learning_rate": "learning_rate: 2e-5"},
     {"learning_rate": "learning_rate: 2e-5"}),
    ("a negative learning rate", {"learning_rate": "learning_rate: -1.0e-4"},
     {"learning_rate": "learning_rate: -1.0e-4"}),
    ("a ratio above 1", {"+": "lora_dropout: 1.5"}, {"+": "lora_dropout: 1.5"}),
    ("a misspelled schedule", {"+": "lr_scheduler_type: cosin"}, {"+": "lr_scheduler: cosin"}),
    ("a duplicate key", {"+": "fp16: false"}, {"+": "fp16: false"}),
    ("a tab for indentation", {"+": "lr_scheduler_kwargs:\n\tmin_lr: 1.0e-6"},
     {"+": "lr_scheduler_kwargs:\n\tmin_lr: 1.0e-6"}),
    ("fp16 and bf16", {"+": "bf16: true"}, {"bf16": "bf16: true"}),
    ("bf16 on a T4", {"fp16": "bf16: true"}, {"bf16": "bf16: true", "fp16": "fp16: false"}),
    ("float16 weights trained with fp16",
     {"finetuning_type": "finetuning_type: full", "+": "model_dtype: float16"}, None),
    ("FlashAttention 2 on a T4", {"+": "flash_attn: fa2"}, {"+": "flash_attention: true"}),
    ("tf32 on a T4", {"+": "tf32: true"}, {"+": "tf32: true"}),
    ("max_grad_norm below 0", {"+": "max_grad_norm: -1.0"}, {"+": "max_grad_norm: -1.0"}),
    ("warmup_ratio and warmup_steps", {"+": "warmup_ratio: 0.1\nwarmup_steps: 20"},
     {"+": "warmup_ratio: 0.1\nwarmup_steps: 20"}),
    ("evaluation without data", {"+": "eval_strategy: steps\neval_steps: 10"},
     {"+": "eval_strategy: steps\neval_steps: 10\nval_set_size: 0"}),
    ("save_steps not a multiple of eval_steps",
     {"+": "load_best_model_at_end: true\neval_strategy: steps\neval_steps: 30\n"
           "save_strategy: steps\nsave_steps: 50\nval_size: 0.1"},
     {"+": "load_best_model_at_end: true\neval_strategy: steps\neval_steps: 30\n"
           "save_strategy: steps\nsave_steps: 50\nval_set_size: 0.1"}),
    ("checkpointing on and off", {"+": "gradient_checkpointing: true\n"
                                       "disable_gradient_checkpointing: true"}, None),
    ("a secret token in the file", {"+": "hf_hub_token: hf_abcdefghijklmnop"},
     {"+": "hub_token: hf_abcdefghijklmnop"}),
    ("a file of another tool", "axolotl", "llamafactory"),
]


def planted(tool, edits):
    """Return the text of a file with a mistake; None: the tool has no such key."""
    if edits is None:
        return None
    if isinstance(edits, str):
        return TEXT[edits]
    lines = []
    for line in TEXT[tool].splitlines():
        lines.append(edits.get(line.split(":")[0], line))
    return "\n".join(lines + ([edits["+"]] if "+" in edits else [])) + "\n"


# ---- Runs in each tool's Python ----

class Messages(logging.Handler):
    def __init__(self):
        super().__init__(logging.WARNING)
        self.lines = []

    def emit(self, record):
        self.lines.append(record.getMessage())


def ask_llamafactory(path):
    from llamafactory.hparams import get_train_args

    sys.argv = ["llamafactory-cli", path]
    get_train_args()


def ask_axolotl(path):
    import yaml
    from axolotl.utils.config import validate_config
    from axolotl.utils.dict import DictDefault

    with open(path, encoding="utf-8") as file:
        config = DictDefault(yaml.safe_load(file))
    validate_config(config, capabilities={"bf16": False, "tf32": False, "fp8": False, "n_gpu": 1,
                                          "n_node": 1, "compute_capability": "sm_75"},
                    env_capabilities={"torch_version": "2.8.0"})


def ask_all(tool, paths):
    ask = {"llamafactory": ask_llamafactory, "axolotl": ask_axolotl}[tool]
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # their own output
    for path in paths:
        messages = Messages()
        for name in (None, "llamafactory", "axolotl", "transformers", "llamafactory.hparams.parser",
                     "axolotl.utils.schemas.validation"):
            logging.getLogger(name).addHandler(messages)
        began = time.perf_counter()
        try:
            ask(path)
            error = None
        except BaseException as exception:  # including SystemExit
            error = f"{type(exception).__name__}: {exception}"
        taken = time.perf_counter() - began
        warnings = list(dict.fromkeys(messages.lines))
        print(json.dumps({"error": error, "warnings": warnings, "seconds": taken}), file=out,
              flush=True)
        for name in list(logging.root.manager.loggerDict) + [None]:
            logging.getLogger(name).removeHandler(messages)


# ---- The table ----

def cell(text):
    text = " ".join(text.split()).replace("|", "\\|")
    return text if len(text) <= 160 else text[:157] + "..."


def of_peer(answer, plain):
    """Return the error, or the warnings that the correct file does not have."""
    if answer is None:
        return "(no such key)"
    if answer["error"]:
        return "error: " + cell(answer["error"])
    warnings = [line for line in answer["warnings"] if line not in plain]
    if warnings:
        return "warning: " + cell("; ".join(warnings))
    return "accepted"


def of_trainspool(program, path, plain):
    """Return the findings that the correct file does not have, and their edits."""
    run = subprocess.run([program, "check", "--json", "--device", "T4", path],
                         capture_output=True, text=True, check=False)
    messages = []
    for finding in json.loads(run.stdout)["findings"]:
        if (finding["rule"], finding["message"]) in plain:
            continue
        edit = ""
        if finding.get("new") is not None:
            kind = "" if finding["applicability"] == "safe" else "unsafe "
            edit = f" ({kind}edit: `{finding['old']}` to `{finding['new'].strip()}`)"
        messages.append(f"{finding['line']}:{finding['column']} {finding['severity']} "
                        f"{finding['rule']}: {finding['message']}{edit}")
    return messages


def write(folder, tool, mistakes):
    """Write one file per mistake; None where the tool has no such key."""
    paths = []
    for number, edits in enumerate(mistakes):
        text = planted(tool, edits)
        path = os.path.join(folder, f"{tool}-{number:02}.yaml") if text is not None else None
        if path:
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
        paths.append(path)
    return paths


def ask_peer(tool, python, paths):
    there = [path for path in paths if path]
    environment = dict(os.environ, HF_HUB_OFFLINE="1", TRANSFORMERS_OFFLINE="1",
                       AXOLOTL_DO_NOT_TRACK="1", DO_NOT_TRACK="1")
    command = [python, os.path.abspath(__file__), "--ask", tool]
    began = time.perf_counter()
    subprocess.run(command + there[:1], capture_output=True, env=environment, check=True)
    cold = time.perf_counter() - began
    run = subprocess.run(command + there, capture_output=True, text=True, env=environment,
                         check=True)
    answers = iter([json.loads(line) for line in run.stdout.splitlines()])
    return cold, [next(answers) if path else None for path in paths]


def time_trainspool(program, path):
    taken = []
    for _ in range(20):
        began = time.perf_counter()
        subprocess.run([program, "check", "--device", "T4", path], capture_output=True,
                       check=False)
        taken.append(time.perf_counter() - began)
    return sorted(taken)[len(taken) // 2]


def main(program, pythons):
    with tempfile.TemporaryDirectory() as folder:
        ours = write(folder, "trainspool", [mistake[1] for mistake in MISTAKES])
        plain = {(finding["rule"], finding["message"]) for finding in json.loads(
            subprocess.run([program, "check", "--json", "--device", "T4", ours[0]],
                           capture_output=True, text=True, check=False).stdout)["findings"]}
        peers = {}
        for tool, python in pythons.items():
            column = 2 if tool == "axolotl" else 1
            paths = write(folder, tool, [mistake[column] for mistake in MISTAKES])
            peers[tool] = ask_peer(tool, python, paths)
        print("| planted mistake | trainspool |" + "".join(f" {tool} |" for tool in peers))
        print("|---|---|" + "---|" * len(peers))
        for number, mistake in enumerate(MISTAKES):
            messages = of_trainspool(program, ours[number], plain if number else set())
            cells = ["; ".join(cell(line) for line in messages) or "nothing"]
            for _, answers in peers.values():
                cells.append(of_peer(answers[number], answers[0]["warnings"] if number else []))
            print(f"| {mistake[0]} | " + " | ".join(cells) + " |")
        print()
        once = time_trainspool(program, ours[0])
        print(f"one file, from the start of the program: trainspool {1e3 * once:.1f} ms")
        for tool, (cold, answers) in peers.items():
            inside = sorted(answer["seconds"] for answer in answers if answer)
            print(f"    {tool} {cold:.2f} s, {cold / once:.0f} times as long; of that the file "
                  f"itself {1e3 * inside[len(inside) // 2]:.1f} ms")


if __name__ == "__main__":
    if len(sys.argv) > 2 and sys.argv[1] == "--ask":
        ask_all(sys.argv[2], sys.argv[3:])
    elif len(sys.argv) > 1:
        main(os.path.abspath(sys.argv[1]), dict(word.split("=", 1) for word in sys.argv[2:]))
    else:
        print(__doc__)
        sys.exit(2)
