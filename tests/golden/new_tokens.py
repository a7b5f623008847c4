#!/usr/bin/env python3
"""Make new_tokens.json: ids of transformers after tokens were added, and LLaMA-Factory's sizes and
means of embeddings, for test_golden_lora.

    python3 tests/golden/new_tokens.py SHARED/data LLAMAFACTORY/src > tests/golden/new_tokens.json

The embeddings are resized by LLaMA-Factory's own function; its noise is set to 0.
"""
import importlib.util
import json
import os
import sys
import types

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

NORMAL = ["plus", "What is", "the"]
SPECIAL = ["<|think|>", "<|end|>"]
TEXTS = ["What is 3 plus 4?<|think|> surplus <|end|>\nWhat is", "<|end|>", "the plus the  What  is",
         "A <|think|><|think|>thesis"]


def resizer(source):
    """Load embedding.py without the rest of LLaMA-Factory."""
    logger = types.SimpleNamespace(info_rank0=print_nothing, warning_rank0=print_nothing)
    for name in ("lf", "lf.a", "lf.a.b", "lf.extras"):
        sys.modules[name] = types.ModuleType(name)
        sys.modules[name].__path__ = []
    sys.modules["lf.extras"].logging = types.SimpleNamespace(get_logger=lambda name: logger)
    path = os.path.join(source, "llamafactory/model/model_utils/embedding.py")
    spec = importlib.util.spec_from_file_location("lf.a.b.embedding", path)
    module = importlib.util.module_from_spec(spec)
    module.__package__ = "lf.a.b"
    sys.modules["lf.a.b"].__package__ = "lf.a.b"
    spec.loader.exec_module(module)
    return module


def print_nothing(*_):
    pass


def main(data, source):
    folder = os.path.join(data, "stories260K/hf")
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    old = model.get_input_embeddings().weight.detach().clone()
    tokenizer.add_tokens(NORMAL, special_tokens=False)
    tokenizer.add_tokens(SPECIAL, special_tokens=True)
    module = resizer(source)
    normal = torch.Tensor.normal_
    torch.Tensor.normal_ = lambda self, mean=0, std=1, **more: self.zero_()
    module.resize_embedding_layer(model, tokenizer, new_tokens=NORMAL + SPECIAL)
    torch.Tensor.normal_ = normal
    rows = model.get_input_embeddings().weight
    ids = [tokenizer.convert_tokens_to_ids(token) for token in NORMAL + SPECIAL]
    print(json.dumps({
        "normal": ",".join(NORMAL), "special": " , ".join(SPECIAL), "ids": ids, "tokens": len(tokenizer),
        "rows": rows.shape[0], "kept": bool((rows[:511] == old[:511]).all()),
        "texts": [[text, tokenizer(text, add_special_tokens=False).input_ids,
                   tokenizer.decode(tokenizer(text, add_special_tokens=False).input_ids,
                                    skip_special_tokens=True)] for text in TEXTS]}, indent=1))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
