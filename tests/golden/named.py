#!/usr/bin/env python3
"""Make named.json: conversations rendered by LLaMA-Factory's named templates, for
tests/unit/test_template_golden.c: the complete text, and the part of it that is trained.  A template
that gives the same as an earlier one in every case only names it.

    python3 tests/golden/named.py >tests/golden/named.json      (with llamafactory at ff6d4d12, which
                                                                  gives the values of 0.9.5 for its templates)

The tokens of this tokenizer are the texts that it encodes, so that the result is text.
"""
import datetime
import importlib.util
import json
import pathlib
import re
import sys
import types


def load():
    """Load template.py and its imports, without the rest of the package and its dependencies."""
    root = pathlib.Path(importlib.util.find_spec("llamafactory").submodule_search_locations[0])
    for name in ("llamafactory", "llamafactory.data", "llamafactory.extras"):
        package = types.ModuleType(name)
        package.__path__ = [str(root.joinpath(*name.split(".")[1:]))]
        sys.modules[name] = package
    plugin = types.ModuleType("llamafactory.data.mm_plugin")
    plugin.get_mm_plugin = lambda *args, **kwargs: None
    plugin.BasePlugin = object
    logging = types.ModuleType("llamafactory.extras.logging")
    logging.get_logger = lambda name: None
    sys.modules["llamafactory.extras"].logging = logging
    utils = types.ModuleType("llamafactory.data.data_utils")
    utils.SLOTS = list
    source = (root / "data" / "data_utils.py").read_text()
    role = re.search(r"^@unique\nclass Role.*?(?=\n\n\n|\Z)", source, re.S | re.M).group(0)
    exec("from enum import StrEnum, Enum, unique\n" + role, utils.__dict__)
    sys.modules.update({"llamafactory.data.mm_plugin": plugin, "llamafactory.extras.logging": logging,
                        "llamafactory.data.data_utils": utils})
    from llamafactory.data import template, tool_utils

    class Clock(datetime.datetime):
        @classmethod
        def now(cls, tz=None):
            return cls(2024, 7, 26)

    tool_utils.datetime = Clock
    return template


class Tokenizer:
    bos_token_id, eos_token_id = "<s>", "</s>"

    def encode(self, text, add_special_tokens=False):
        return [text]

    def convert_tokens_to_ids(self, token):
        return token


NAMES = """default alpaca breeze chatml chatml_de cohere deepseek deepseek3 deepseekcoder deepseekr1 empty fewshot gemma
gemma2 gemma3 granite3 granite4 llama2 llama2_zh llama3 ministral mistral mistral_small openchat openchat-3.6
opencoder phi phi4 phi4_mini qwen qwen3 qwen3_nothink sailor seed_coder smollm smollm2 solar vicuna xuanyuan yi
zephyr
aeva bailing bailing_v2 chatglm3 cpm4 dbrx ernie ernie_nothink exaone falcon falcon_h1 glm4 glm4_7 glm4_moe glmz1
gpt_oss hunyuan hunyuan_small hy3 hy_dense_1_8b hy_dense_7b index intern2 lfm2 mimo mimo_v2 minimax1 minimax2
moonlight olmo phi_small seed_oss starchat telechat2 youtu yuan
dots_ocr ernie_vl gemma3n gemma4 gemma4n glm4_5v glm4v glm_ocr granite3_vision intern_s1 intern_vl keye_vl kimi_vl lfm2_vl llama4
llava llava_next llava_next_llama3 llava_next_mistral llava_next_qwen llava_next_video llava_next_video_mistral
llava_next_video_yi llava_next_yi mimo_vl minicpm_o minicpm_v minicpm_v_4_6 ministral3 mllama moss_vl
paligemma
paligemma_chat pixtral qwen2_audio qwen2_omni qwen2_vl qwen3_5 qwen3_5_nothink qwen3_6 qwen3_omni
qwen3_omni_nothink qwen3_vl qwen3_vl_nothink video_llava yi_vl youtu_vl""".split()

TOOLS = [{"name": "get_weather", "description": "The weather in \u00b0C",
          "parameters": {"type": "object", "properties": {
              "city": {"type": "string", "description": "Where"},
              "unit": {"type": "string", "enum": ["C", "F"]},
              "days": {"type": "array", "items": {"type": "integer"}, "description": "Which"}},
              "required": ["city"]}},
         {"type": "function", "function": {"name": "now", "parameters": {"type": "object", "properties": {}}}}]


def say(*turns):
    return [{"role": role, "content": content} for role, content in turns]


CASES = {
    "plain": {"messages": say(("user", "2+2?"), ("assistant", "4"), ("user", "Sure?"), ("assistant", "Yes."))},
    "system": {"messages": say(("user", "2+2?"), ("assistant", "4")), "system": "Be brief."},
    "last": {"messages": say(("user", "2+2?"), ("assistant", "<think>\nTwo.\n</think>\n\n4"), ("user", "Sure?"),
                             ("assistant", "<think>\nHm.\n</think>\n\nYes.")), "mask_history": True},
    "thoughts": {"messages": say(("user", "2+2?"), ("assistant", "<think>\nTwo.\n</think>\n\n4"), ("user", "Sure?"),
                                 ("assistant", "Yes."))},
    "no thoughts": {"messages": say(("user", "2+2?"), ("assistant", "<think>\nTwo.\n</think>\n\n4"), ("user", "Sure?"),
                                    ("assistant", "Yes.")), "thinking": False},
    "tools": {"messages": say(("user", "Weather?"),
                              ("function", '{"name": "get_weather", "arguments": {"city": "K\u00f6ln", "days": [1, 2]}}'),
                              ("observation", '{"t": 21}'), ("assistant", "21 degrees.")),
              "system": "Be brief.", "tools": json.dumps(TOOLS, ensure_ascii=False)},
    "two calls": {"messages": say(("user", "Both?"),
                                  ("function", '<think>\nTwo.\n</think>\n\n[{"name": "a", "arguments": {}}, '
                                               '{"name": "b", "arguments": {"x": null, "y": 1.5}}]'),
                                  ("observation", "1"), ("assistant", "Done.")),
                  "tools": json.dumps(TOOLS[:1])},
    "words around a call": {"messages": say(("user", "Now?"), ("function", 'I look.\n<tool_call>\n{"name": "now", '
                                             '"arguments": {}}\n</tool_call>\nSo.'),
                                            ("observation", "1"), ("assistant", "One.")),
                            "tools": json.dumps([dict(TOOLS[0], type="search")])},
    "a thought amid": {"messages": say(("user", "Now?"), ("function", '[<think>\nHm.\n</think>\n\n{"name": "now", '
                                       '"arguments": {}}]'), ("observation", "1"), ("assistant", "One.")),
                       "tools": json.dumps(TOOLS[1:])},
    "own tags": {"messages": say(("user", "2+2?"), ("assistant", "BEGINTwo.END4"), ("user", "Now?"),
                                 ("function", 'BEGINHm.END{"name": "a", "arguments": {"x": "y", "n": [1]}}'),
                                 ("observation", "1"), ("assistant", "One.")), "thinking": False},
    "own call": {"messages": say(("user", "Now?"), ("function", 'I look.\nCALL{"name": "a", "arguments": {"x": "y"}}'
                                                   "LLAC\nSo."), ("observation", "1"), ("assistant", "One."))},
    "newlines": {"messages": say(("user", "2+2?"), ("assistant", "\n<think>\nTwo.\n</think>\n\n\n\n4"),
                                 ("user", "Sure?"), ("assistant", "<think>\nA.\n</think>\n\n<think>\nB.\n"
                                                                  "</think>\n\nYes.")), "thinking": False},
}


def tagged(template, text):
    words = (*template.thought_words, *template.tool_call_words)
    for name, word in zip(("BEGIN", "END", "CALL", "LLAC"), words):
        text = text.replace(name, word)
    return text


def outcome(template, case):
    """As in supervised.py, without truncation.  A label at the first position has no effect.
    BEGIN and END stand for the tags of thoughts of the template, CALL and LLAC for those of a call."""
    last_only = case.get("mask_history", False)
    if hasattr(template, "enable_thinking"):
        template.enable_thinking = case.get("thinking", True)
    pairs = template.encode_multiturn(Tokenizer(), [dict(m, content=tagged(template, m["content"]))
                                                    for m in case["messages"]], case.get("system", ""),
                                      case.get("tools", ""), last_only)
    whole = "".join("".join(source + target) for source, target in pairs)
    trained = ""
    for i, (source, target) in enumerate(pairs):
        turn = len(pairs) - 1 - i if last_only else i
        if template.efficient_eos and turn != 0 and i > 0 and source:
            trained += Tokenizer.eos_token_id
        if not last_only or turn == 0:
            trained += "".join(target)
    end = "</s>" if template.efficient_eos else ""
    return {"all": whole + end, "trained": trained + end}


def outcomes(template):
    """Return the outcome of each case."""
    done = {"words": [*template.thought_words, *template.tool_call_words]}
    for key, case in CASES.items():
        try:
            done[key] = outcome(template, case)
        except Exception as wrong:
            done[key] = {"error": type(wrong).__name__}
    return done


def main():
    module = load()
    rows, first = [], {}  # first: the first template with these outcomes
    for name in NAMES:
        done = outcomes(module.TEMPLATES[name])
        text = json.dumps(done)
        if first.setdefault(text, name) != name:
            rows.append({"template": name, "as": first[text]})
        else:
            words = done.pop("words")
            rows += [{"template": name, "case": key, "words": words, **result} if key.startswith("own") else
                     {"template": name, "case": key, **result} for key, result in done.items()]
    print(json.dumps({"cases": CASES, "rows": rows}, indent=1, ensure_ascii=False))


if __name__ == "__main__":
    main()
