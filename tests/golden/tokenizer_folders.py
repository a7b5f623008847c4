#!/usr/bin/env python3
"""Make tokenizer_folders.json: folders with a tokenizer but without tokenizer.json, and the ids that
transformers gives texts.  Usage: tokenizer_folders.py CORPUS.txt > tokenizer_folders.json

The tokenizers are trained here, on a text such as tinyshakespeare.  Made with transformers 5.24,
tokenizers 0.23, sentencepiece 0.2.3 and tiktoken 0.14.
"""
import base64
import io
import json
import os
import sys
import tempfile
import unicodedata

import sentencepiece
import tiktoken
from tokenizers import ByteLevelBPETokenizer
from transformers import AutoTokenizer
from transformers.convert_slow_tokenizer import bytes_to_unicode

QWEN_WORDS = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|"
              r"\s*[\r\n]+|\s+(?!\S)|\s+")
EXTRA = ["naïve café ﬁ ① ½ 日本語 ｱｲｳ", "tab\there  two   spaces    more", "1234 5678 90", "user: <user> ok 🙂"] * 20
TEXTS = [
    "", " ", "  ", "a", "Hello world", " hello  world ", "   three", "the king's and I'LL", "tab\tand\nnewline\n\n\nend ",
    "naïve café", "e\u0301 n\u0303o", "ﬁne ① ½ ｱｲｳ", "日本語 テスト", "🙂 👨‍👩‍👧 ok", "12345 6,789.0", "<s>", "</s> x", "a<unk>b",
    "<|endoftext|>", "x<|im_end|> y <extra>z", "<user> hi<user>", "▁a ▁▁b", "\u00a0wide\u3000space", "zero\u200bwidth\u00ad",
    "[INST] What? [/INST]<SPECIAL_6>", "<bos>a<start_of_turn>", "   \n  \t x", "Q\u0000q", "<0x41><0x0A>", "ΑΒΓ ЖЗИ ÀÉ",
    "and the the the of this that what with from have",
]


def trained_bytes(lines):
    tokenizer = ByteLevelBPETokenizer()
    tokenizer.train_from_iterator(lines, vocab_size=380, special_tokens=["<|endoftext|>"], show_progress=False)
    model = json.loads(tokenizer.to_str())["model"]
    merges = [merge if isinstance(merge, str) else " ".join(merge) for merge in model["merges"]]
    return {"vocab.json": json.dumps(model["vocab"], ensure_ascii=False),
            "merges.txt": "#version: 0.2\n" + "\n".join(merges) + "\n"}


def trained_pieces(lines, **options):
    out = io.BytesIO()
    options = {"vocab_size": 420, "model_type": "bpe", "minloglevel": 2, "num_threads": 1, "hard_vocab_limit": False,
               "normalization_rule_name": "identity", **options}
    sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(lines), model_writer=out, **options)
    return {"tokenizer.model": out.getvalue()}


def tekken(files, specials, count, **config):
    decoded = {character: byte for byte, character in bytes_to_unicode().items()}
    vocab = json.loads(files["vocab.json"])
    vocab.pop("<|endoftext|>")
    tokens = [bytes(decoded[c] for c in token) for token, _ in sorted(vocab.items(), key=lambda pair: pair[1])]
    pattern = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|"
               r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}|"
               r" ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
    return {"tekken.json": json.dumps({
        "config": {"pattern": pattern, "num_vocab_tokens": len(tokens), "version": "v3",
                   "default_num_special_tokens": count, **config},
        "vocab": [{"rank": i, "token_bytes": base64.b64encode(token).decode(), "token_str": None}
                  for i, token in enumerate(tokens)],
        "special_tokens": [{"rank": i, "token_str": token, "is_control": True} for i, token in enumerate(specials)]})}


def case(name, files, config=None, model=None, named={}, **others):
    files = dict(files)
    for base, value in {"tokenizer_config": config, "config": model, **others}.items():
        if value is not None:
            files[base + ".json"] = json.dumps(value, ensure_ascii=False)
    with tempfile.TemporaryDirectory() as folder:
        for base, data in files.items():
            with open(os.path.join(folder, base), "wb") as file:
                file.write(data if isinstance(data, bytes) else data.encode())
        tokenizer = AutoTokenizer.from_pretrained(folder)
    print(name, type(tokenizer).__name__, len(tokenizer), file=sys.stderr)
    backend = tokenizer._tokenizer
    texts = []
    for text in TEXTS:
        ids = backend.encode(text, add_special_tokens=False).ids
        texts.append({"text": text, "ids": backend.encode(text).ids, "plain": ids,
                      "decoded": backend.decode(ids, skip_special_tokens=False)})
    return {"name": name, "tokens": len(tokenizer), "bos": tokenizer.bos_token_id, "eos": tokenizer.eos_token_id,
            "pad": tokenizer.pad_token_id, "adds_bos": bool(tokenizer.add_bos_token), "cases": texts,
            "files": {base: data if isinstance(data, str) else {"base64": base64.b64encode(data).decode()}
                      for base, data in files.items()}, **named}


def token(content, special=True, **flags):
    return {"content": content, "special": special, "lstrip": False, "rstrip": False, "single_word": False,
            "normalized": False, **flags}


def byte_cases(files):
    added = {"0": token("<|endoftext|>"), "383": token("<|im_end|>"), "382": token("<extra>", False, normalized=True, lstrip=True)}
    yield case("gpt2", files, None, {"model_type": "gpt2"})
    yield case("gpt2 with a prefix", files, {
        "tokenizer_class": "GPT2Tokenizer", "add_prefix_space": True, "add_bos_token": True, "bos_token": "<s>",
        "pad_token": None, "added_tokens_decoder": added}, {"model_type": "gpt2"})
    yield case("phi", files, {"tokenizer_class": "CodeGenTokenizer", "eos_token": "<|endoftext|>"}, {"model_type": "phi"},
               added_tokens={"   ": 383, "  ": 382, "<|im_end|>": 384},
               special_tokens_map={"eos_token": "<|im_end|>", "additional_special_tokens": ["<extra>"]})
    yield case("neox", files, {"tokenizer_class": "GPTNeoXTokenizerFast"}, {"model_type": "gpt_neox"})
    yield case("qwen2", files, None, {"model_type": "qwen2"})
    yield case("qwen2 chat", files, {
        "tokenizer_class": "Qwen2Tokenizer", "eos_token": "<|im_end|>", "pad_token": "<|endoftext|>", "bos_token": None,
        "unk_token": None, "add_bos_token": False, "additional_special_tokens": ["<|im_end|>"],
        "added_tokens_decoder": added}, {"model_type": "qwen2"})
    yield case("qwen2 with GPT-2's class", files, {"tokenizer_class": "GPT2Tokenizer"}, {"model_type": "qwen2"})
    yield case("qwen3 with GPT-2's class", files, {"tokenizer_class": "GPT2Tokenizer"}, {"model_type": "qwen3"})


def tekken_cases(files):
    specials = ["<unk>", "<s>", "</s>", "[INST]", "[/INST]", "<pad>"]
    yield case("tekken", tekken(files, specials, 8, default_vocab_size=300), None, {"model_type": "mistral"},
               # as with mistral_common: without it, transformers has no names
               {"bos": 1, "eos": 2, "pad": 5})
    yield case("tekken with names", tekken(files, specials, 6), {
        "tokenizer_class": "PreTrainedTokenizerFast", "add_bos_token": True, "bos_token": "<s>", "eos_token": "</s>",
        "pad_token": "<pad>"}, {"model_type": "mistral"})


def qwen_case(name, files, config=None):
    """Qwen's code calls tiktoken, with texts in NFC and all special tokens."""
    path = "tekken.json"
    tokens = [base64.b64decode(token["token_bytes"]) for token in json.loads(tekken(files, [], 0)[path])["vocab"]]
    names = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", *(f"<|extra_{i}|>" for i in range(205))]
    encoding = tiktoken.Encoding(name, pat_str=QWEN_WORDS, mergeable_ranks={t: i for i, t in enumerate(tokens)},
                                 special_tokens={t: i for i, t in enumerate(names, len(tokens))})
    texts = []
    for text in [*TEXTS, "<|extra_204|><|extra_7|>x", "aaaa aaaaaaa", "e\u0301" * 3]:
        ids = encoding.encode(unicodedata.normalize("NFC", text), allowed_special="all")
        texts.append({"text": text, "ids": ids, "plain": ids, "decoded": encoding.decode(ids)})
    end = encoding.encode_single_token("<|endoftext|>")
    lines = "".join(f"{base64.b64encode(token).decode()} {i}\n" for i, token in enumerate(tokens))
    files = {"qwen.tiktoken": lines, "config.json": json.dumps({"model_type": "qwen"})}
    if config:
        files["tokenizer_config.json"] = json.dumps(config)
    eos = encoding.encode_single_token(config["eos_token"]) if config else end
    return {"name": name, "tokens": encoding.n_vocab, "bos": None, "eos": eos, "pad": end, "adds_bos": False,
            "cases": texts, "files": files}


def qwen_cases(files):
    yield qwen_case("qwen", files)
    yield qwen_case("qwen chat", files, {"tokenizer_class": "QWenTokenizer", "model_max_length": 8192,
                                         "eos_token": "<|im_end|>"})


def piece_cases(lines):
    llama = trained_pieces(lines, byte_fallback=True, split_digits=True, allow_whitespace_only_pieces=True,
                           remove_extra_whitespaces=False)
    yield case("llama without a class", llama, None, {"model_type": "llama"})
    yield case("llama, legacy", llama, {"tokenizer_class": "LlamaTokenizer", "legacy": True, "add_bos_token": True,
                                        "add_eos_token": True, "pad_token": "<pad>"}, {"model_type": "llama"})
    yield case("llama", llama, {"tokenizer_class": "LlamaTokenizerFast", "legacy": False, "add_bos_token": True,
                                "bos_token": {"__type": "AddedToken", "content": "<s>", "lstrip": False, "rstrip": False,
                                              "normalized": True, "single_word": False}}, {"model_type": "llama"},
               added_tokens={"<extra>": 421, "<|im_end|>": 420})
    yield case("llama without a prefix", llama, {"tokenizer_class": "LlamaTokenizer", "legacy": False,
                                                 "add_prefix_space": False}, {"model_type": "llama"})
    yield case("mistral", llama, {"tokenizer_class": "LlamaTokenizer", "legacy": False}, {"model_type": "mistral"})
    for model_type in "llava", "llava_next":
        yield case(model_type, llama, {"tokenizer_class": "LlamaTokenizer"}, {"model_type": model_type})
    user = trained_pieces(lines, byte_fallback=True, user_defined_symbols=["<user>", "\n", "▁▁", "<|a.b|>"],
                          control_symbols=["<extra>"])
    yield case("internlm2", user, {"tokenizer_class": "InternLM2Tokenizer", "eos_token": "<|im_end|>",
                                   "added_tokens_decoder": {"5": token("<|im_end|>"), "500": token("<new>", False)}},
               {"model_type": "internlm2"})
    yield case("llama with pieces of the user", user, {"tokenizer_class": "LlamaTokenizer"}, {"model_type": "llama"})
    gemma = trained_pieces(lines, byte_fallback=True, add_dummy_prefix=False, remove_extra_whitespaces=False,
                           split_digits=True, allow_whitespace_only_pieces=True, pad_id=0, eos_id=1, bos_id=2, unk_id=3,
                           pad_piece="<pad>", eos_piece="<eos>", bos_piece="<bos>",
                           user_defined_symbols=["<mask>", "<start_of_turn>", "\n", "\n\n", "▁▁", "▁▁▁"])
    yield case("gemma", gemma, None, {"model_type": "gemma"})
    yield case("gemma with its start", gemma, {"tokenizer_class": "GemmaTokenizer", "add_bos_token": True},
               {"model_type": "gemma2"})
    yield case("gemma's file elsewhere", gemma, None, {"model_type": "llama"})


def unigram_cases(lines, rules):
    yield case("unigram", trained_pieces(lines, model_type="unigram", byte_fallback=True,
                                         user_defined_symbols=["<user>"]), {"tokenizer_class": "Other"},
               {"model_type": "llama"})
    with open(rules, "w") as file:
        file.write("FB01\t66 69\n2460\t31\nBD\t31 2F 32\nFF71\t30A2\n65 301\tE9\n3000\t20\nA0\t20\nAD\t\n41\t61\n")
    yield case("unigram with rules", trained_pieces(lines, model_type="unigram", normalization_rule_tsv=rules), None,
               {"model_type": "llama"})
    yield case("BPE with rules", trained_pieces(lines, normalization_rule_tsv=rules), {"legacy": False},
               {"model_type": "llama"})


def main():
    with open(sys.argv[1]) as file:
        lines = file.read().split("\n")[:1500] + EXTRA
    files = trained_bytes(lines)
    with tempfile.TemporaryDirectory() as folder:
        folders = [*byte_cases(files), *tekken_cases(files), *qwen_cases(files), *piece_cases(lines),
                   *unigram_cases(lines, os.path.join(folder, "rules.tsv"))]
    print(json.dumps({"folders": folders}, ensure_ascii=True, indent=None, separators=(",", ":")))


main()
