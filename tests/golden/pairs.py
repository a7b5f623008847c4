#!/usr/bin/env python3
"""Make pairs.json: the tokens and targets that LLaMA-Factory makes of preference data.

    python3 tests/golden/pairs.py LLAMAFACTORY ../shared >tests/golden/pairs.json

Requires tokenizers and a checkout of LLaMA-Factory (the current file was made with 0.9.6.dev0).  Its
parser, converter, templates and pairwise processor run unmodified; their imports for images, hubs
and logging are replaced by stubs.  `sets` are datasets whose records the test writes; the other one
is a demonstration set of LLaMA-Factory.  Each case has the number of pairs, tokens and targets, and
the SHA-256 of all rows, the chosen answer before the rejected one: the token, and the next token if
it is trained, else -100, as little-endian 32-bit integers.
"""
import hashlib
import importlib
import json
import struct
import sys
import tempfile
import types
from enum import StrEnum
from pathlib import Path
from typing import Union

import tokenizers

DEMO = "dpo_en_demo"
COLUMNS = dict(prompt="ask", query="more", system="sys", history="past", chosen="good",
               rejected="bad")
SETS = {
    "texts": {
        "info": dict(file_name="texts.json", ranking=True, columns=COLUMNS),
        "records": [
            dict(ask="Add these.", more="1, 2 and 3", sys="Be brief.",
                 past=[["Hi", "Hello."], ["Who are you?", "An adding machine."]],
                 good="6", bad="The sum of these numbers is five."),
            dict(ask="Name a colour.", more="", sys="", past=[], good="Red, or perhaps blue.",
                 bad="No."),
        ],
    },
    "tools": {
        "info": dict(file_name="tools.json", ranking=True, formatting="sharegpt",
                     columns=dict(messages="talk", chosen="good", rejected="bad",
                                  tools="tools")),
        "records": [
            dict(talk=[{"from": "human", "value": "How warm is it in Rome?"}],
                 good={"from": "function_call",
                       "value": '{"name": "warmth", "arguments": {"place": "Rome"}}'},
                 bad={"from": "gpt", "value": "Warm."},
                 tools='[{"name": "warmth", "description": "degrees of a place", '
                       '"parameters": {"type": "object", "properties": {"place": '
                       '{"type": "string", "description": "a town"}}, "required": '
                       '["place"]}}]'),
        ],
    },
}
CASES = [
    dict(dataset=DEMO, template="default"),
    dict(dataset=DEMO, template="default", cutoff_len=300),
    dict(dataset=DEMO, template="llama2", cutoff_len=128),
    dict(dataset=DEMO, template="alpaca"),
    dict(dataset=DEMO, template="alpaca", cutoff_len=200),
    dict(dataset=DEMO, template="vicuna", cutoff_len=64),
    dict(dataset=DEMO, template="qwen3", cutoff_len=512),
    dict(dataset=DEMO, template="qwen3", cutoff_len=400, enable_thinking=False),
    dict(dataset="texts", template="default"),
    dict(dataset="texts", template="alpaca", cutoff_len=40),
    dict(dataset="tools", template="default"),
    dict(dataset="tools", template="llama2", cutoff_len=100),
]


class Silence:
    """A stub whose attributes are functions that do nothing."""

    def __getattr__(self, name):
        return lambda *args, **keys: None


class MediaFree:
    def process_messages(self, messages, *rest):
        return messages

    def process_token_ids(self, ids, labels, *rest):
        return ids, labels


class Role(StrEnum):
    USER, ASSISTANT, SYSTEM = "user", "assistant", "system"
    FUNCTION, OBSERVATION = "function", "observation"


def load(checkout):
    """Load the packages of the checkout without the imports in their __init__.py."""
    root = Path(checkout) / "src" / "llamafactory"
    for name in ("", ".data", ".data.processor", ".extras"):
        package = types.ModuleType("llamafactory" + name)
        package.__path__ = [str(root.joinpath(*name.split(".")))]
        sys.modules["llamafactory" + name] = package
    stand_ins = {
        "llamafactory.extras.logging": dict(get_logger=lambda name: Silence()),
        "llamafactory.extras.constants": dict(IGNORE_INDEX=-100,
                                              DATA_CONFIG="dataset_info.json"),
        "llamafactory.extras.misc": dict(use_modelscope=bool, use_openmind=bool),
        "llamafactory.data.data_utils": dict(Role=Role,
                                             SLOTS=list[Union[str, set[str], dict]]),
        "llamafactory.data.mm_plugin": dict(get_mm_plugin=lambda *args, **keys: MediaFree()),
        "huggingface_hub": dict(hf_hub_download=None),
    }
    for name, members in stand_ins.items():
        sys.modules[name] = types.ModuleType(name)
        vars(sys.modules[name]).update(members)
        package, _, member = name.rpartition(".")
        if package:
            setattr(sys.modules[package], member, sys.modules[name])
    return [importlib.import_module("llamafactory.data." + name)
            for name in ("parser", "converter", "template", "processor.pairwise")]


class Tokenizer:
    def __init__(self, folder):
        with open(f"{folder}/tokenizer_config.json", encoding="utf-8") as file:
            config = json.load(file)
        self.inner = tokenizers.Tokenizer.from_file(f"{folder}/tokenizer.json")
        for key in ("bos_token", "eos_token"):
            name = config[key] if isinstance(config[key], str) else config[key]["content"]
            setattr(self, key + "_id", self.inner.token_to_id(name))

    def encode(self, text, add_special_tokens):
        return self.inner.encode(text, add_special_tokens=add_special_tokens).ids

    def convert_tokens_to_ids(self, token):
        return self.inner.token_to_id(token)


def pairs_of(case, modules, tokenizer, folder):
    parser, converter, template, pairwise = modules
    attr = parser.get_dataset_list([case["dataset"]], folder)[0]
    args = types.SimpleNamespace(cutoff_len=case.get("cutoff_len", 2048), media_dir=".")
    convert = converter.get_dataset_converter(attr.formatting, attr, args)
    with open(f"{folder}/{attr.dataset_name}", encoding="utf-8") as file:
        rows = [convert(record) for record in json.load(file)]
    chat = template.TEMPLATES[case["template"]]
    chat.enable_thinking = case.get("enable_thinking", True)
    processor = pairwise.PairwiseDatasetProcessor(template=chat, tokenizer=tokenizer,
                                                  processor=None, data_args=args)
    return processor.preprocess_dataset({key: [row[key] for row in rows] for key in rows[0]})


def summary(case, pairs):
    digest, tokens, targets = hashlib.sha256(), 0, 0
    samples = len(pairs["chosen_input_ids"])
    for i in range(samples):
        for half in ("chosen", "rejected"):
            ids = pairs[half + "_input_ids"][i]
            after = list(pairs[half + "_labels"][i][1:]) + [-100]
            digest.update(struct.pack(f"<{2 * len(ids)}i", *(n for pair in zip(ids, after)
                                                             for n in pair)))
            tokens += len(ids)
            targets += sum(n != -100 for n in after)
    return dict(case, stage="dpo", samples=samples, tokens=tokens, targets=targets,
                sha256=digest.hexdigest())


def main():
    modules = load(sys.argv[1])
    shared = f"{sys.argv[2]}/data"
    tokenizer = Tokenizer(f"{shared}/tokenizers/llama2")
    rows = []
    with tempfile.TemporaryDirectory() as own:
        info = {name: one["info"] for name, one in SETS.items()}
        Path(own, "dataset_info.json").write_text(json.dumps(info), encoding="utf-8")
        for one in SETS.values():
            Path(own, one["info"]["file_name"]).write_text(json.dumps(one["records"]),
                                                           encoding="utf-8")
        for case in CASES:
            folder = own if case["dataset"] in SETS else f"{shared}/datasets/llamafactory"
            rows.append(json.dumps(summary(case, pairs_of(case, modules, tokenizer, folder))))
    print('{"sets": %s,\n"cases": [\n  %s\n]}' % (json.dumps(SETS), ",\n  ".join(rows)))


main()
