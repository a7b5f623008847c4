"""Runs in an environment of parsers.txt: prints what the installed trainer's own parser knows.

The first line of the answer has the fields of each program's dataclasses with their defaults, as Python imports
them.  Then each request, a JSON list of keys, is parsed by the trainer's parser, each key with its default; the
answer has the list of keys that the parser does not know, or why it failed.
"""
import dataclasses
import enum
import importlib
import json
import os
import re
import sys
import tempfile
import warnings

os.environ.update(DISABLE_VERSION_CHECK="1", CUDA_VISIBLE_DEVICES="", HF_HUB_OFFLINE="1", WANDB_DISABLED="true",
                  TRANSFORMERS_VERBOSITY="critical")
warnings.simplefilter("ignore")
answers = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)  # what the programs print is not an answer

import transformers  # noqa: E402
import yaml  # noqa: E402


def text(value):
    """A default as make_profile.py writes it."""
    if isinstance(value, enum.Enum):
        value = value.value
    if value is None:
        return "null"
    if value == "" and isinstance(value, str):
        return "''"
    if isinstance(value, bool):
        return "true" if value else "false"
    return json.dumps(value) if isinstance(value, (list, tuple, dict)) else str(value)


def default_of(field):
    if field.default is not dataclasses.MISSING:
        return text(field.default)
    if field.default_factory is not dataclasses.MISSING:
        return text(field.default_factory())
    return None


def llamafactory():
    from llamafactory.hparams import parser
    return {"train": parser._TRAIN_ARGS}


def trainer():
    return {"Trainer": [transformers.TrainingArguments],
            "Seq2SeqTrainer": [transformers.Seq2SeqTrainingArguments]}


def trl_programs():
    """The dataclasses of each script with a parser."""
    found = {}
    for name in ("sft", "dpo", "reward", "kto", "grpo", "rloo"):
        try:
            module = importlib.import_module(f"trl.scripts.{name}")
        except ImportError:
            continue
        if hasattr(module, "make_parser"):
            found[name] = module.make_parser().dataclass_types
    return found


def parse_dict(types, job):
    """The keys that HfArgumentParser.parse_dict refuses."""
    try:
        transformers.HfArgumentParser(types).parse_dict(job)
    except ValueError as error:
        match = re.search(r"Some keys are not used by the HfArgumentParser: (\[.*\])", str(error))
        if not match:
            raise
        return yaml.safe_load(match.group(1))
    return []


def parse_config(types, job):
    """The keys that TrlParser leaves over and that `accelerate launch` does not take either."""
    import trl
    from accelerate.commands.launch import launch_command_parser
    taken = launch_command_parser()._option_string_actions
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
        yaml.safe_dump(job, file)
        file.flush()
        *_, left = trl.TrlParser(types).parse_args_and_config(["--config", file.name], return_remaining_strings=True)
    return [word[2:] for word in left[::2] if word not in taken]


def main():
    kind = sys.argv[1]
    programs = {"llamafactory": llamafactory, "transformers": trainer, "trl": trl_programs}[kind]()
    fields = {name: {field.name: field for cls in types for field in dataclasses.fields(cls) if field.init}
              for name, types in programs.items()}
    answers.write(json.dumps({name: {key: default_of(field) for key, field in rows.items()}
                              for name, rows in fields.items()}) + "\n")
    answers.flush()
    for line in sys.stdin:
        program, keys = json.loads(line)
        job = {"output_dir": "out", "bf16": False}  # this machine need not have bf16
        if kind != "transformers":
            job["model_name_or_path"] = "org/model"
        for key in keys:
            field = fields[program].get(key)
            default = default_of(field) if field else None
            job.setdefault(key, yaml.safe_load(default) if default is not None else "x")
        parse = parse_config if kind == "trl" else parse_dict
        try:
            answer = {"unknown": parse(programs[program], job)}
        except (Exception, SystemExit) as error:  # a value that this machine does not allow
            answer = {"failed": f"{type(error).__name__}: {error}"}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


main()
