"""Random input for differential.py: texts, tokenizers, conversations, templates."""
import glob
import os
import unicodedata

# ---- Texts ----

BLANKS = [" ", "  ", "\t", "\n", "\r\n", "\n\n", "\r", "\u00a0", "\u2003", "\u3000", "\u200b",
          "\u2028", "\u0085", "\x0b", "\x0c", "\x1c", "\u200d", "\ufeff"]
ODD = ["'s", "'S", "'ll", "'LL", "\u2019s", "'\u017f", "don't", "1234567", "\u0661\u0662", "\u00bd",
       "\u2167", "\u00b2", "x_1", "e\u0301", "\u00e9", "\u1e9b\u0323", "\ufb01", "\uac00",
       "\u1100\u1161\u11a8", "\u4f60\u597d", "\u3042", "\u0e01\u0e33", "\u05d0\u05b8", "\u0627\u0644",
       "\u0301", "\U0001f468\u200d\U0001f469\u200d\U0001f467", "\U0001f1e9\U0001f1ea",
       "\u263a\ufe0f", "\U0001d54f", "\u2581", "\u0120", "<0x41>", "</s>", "<s>", "<unk>", "...",
       "!?", "--", "://", "\\n", "{%", "\x00", "\x7f", "\u00ad", "\u0130", "\u1e9e", "\u03c2"]


def passages(folder):
    """Return pieces of real text."""
    found = []
    for name in sorted(glob.glob(os.path.join(folder, "**", "*"), recursive=True)):
        if name.endswith((".json", ".jsonl", ".txt", ".md")):
            with open(name, encoding="utf-8", errors="ignore") as f:
                found.append(f.read(20000))
    return found or ["A quick brown fox. It's 12:30, isn't it?\n"]


def character(rng):
    """Return a character of Unicode 3.2: the classes of newer ones differ between versions."""
    while True:
        c = chr(rng.choice([rng.randrange(0x80), rng.randrange(0x250), rng.randrange(0x3100),
                            rng.randrange(0x10000), rng.randrange(0x20000)]))
        old, new = unicodedata.ucd_3_2_0.category(c), unicodedata.category(c)
        if old == new and old not in ("Cn", "Cs", "Co"):
            return c


def piece(rng, texts, tokens):
    kind = rng.randrange(6)
    if kind == 0:
        return rng.choice(BLANKS) * rng.choice([1, 1, 2, 5])
    if kind == 1:
        return rng.choice(ODD)
    if kind == 2 and tokens:
        token = rng.choice(tokens)
        return token if rng.random() < 0.8 else token[:rng.randrange(len(token) + 1)]
    if kind == 3:
        return "".join(character(rng) for _ in range(rng.randrange(1, 6)))
    if kind == 4:
        return "".join(rng.choice("abAB .,'01\n") for _ in range(rng.randrange(1, 12)))
    source = rng.choice(texts)
    at = rng.randrange(len(source))
    return source[at:at + rng.randrange(1, 60)]


def text(rng, texts, tokens):
    return "".join(piece(rng, texts, tokens) for _ in range(rng.randrange(8)))


# ---- Tokenizers ----

GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|"
          r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
PATTERNS = [GPT2, LLAMA3, r"\s+", r"\d", r"[^a-z]+", r"\p{L}+|\p{N}"]
BEHAVIORS = ["Isolated", "Removed", "Contiguous", "MergedWithPrevious", "MergedWithNext"]


def byte_alphabet():
    """Return the printable characters that ByteLevel substitutes for the 256 bytes."""
    kept = [*range(33, 127), *range(161, 173), *range(174, 256)]
    return [chr(b if b in kept else 256 + [x for x in range(256) if x not in kept].index(b))
            for b in range(256)]


BYTES = byte_alphabet()


def sequence(rng, kind, key, choices, most):
    some = [rng.choice(choices)() for _ in range(rng.randrange(most + 1))]
    if not some:
        return None
    return some[0] if len(some) == 1 else {"type": "Sequence", key: some}


def normalizer(rng):
    choices = [lambda: {"type": rng.choice(["NFC", "NFD", "NFKC", "NFKD", "Lowercase"])},
               lambda: {"type": "Prepend", "prepend": rng.choice(["\u2581", " ", "ab"])},
               lambda: {"type": "Replace", "pattern": {"String": rng.choice([" ", "a", "''", "ab"])},
                        "content": rng.choice(["\u2581", " ", "b", "aa"])},
               lambda: {"type": "Strip", "strip_left": rng.random() < 0.5,
                        "strip_right": rng.random() < 0.5}]
    return sequence(rng, "Sequence", "normalizers", choices, 2)


def byte_level(rng):
    return {"type": "ByteLevel", "add_prefix_space": rng.random() < 0.5, "trim_offsets": True,
            "use_regex": rng.random() < 0.5}


def split(rng):
    pattern = ({"String": rng.choice([" ", "\u2581", "a", "\n"])} if rng.random() < 0.3
               else {"Regex": rng.choice(PATTERNS)})
    return {"type": "Split", "pattern": pattern, "behavior": rng.choice(BEHAVIORS),
            "invert": rng.random() < 0.3}


def metaspace(rng):
    return {"type": "Metaspace", "replacement": "\u2581",
            "prepend_scheme": rng.choice(["always", "first", "never"]), "split": rng.random() < 0.5}


def pre_tokenizer(rng, in_bytes):
    if not in_bytes and rng.random() < 0.3:
        return metaspace(rng)
    choices = [lambda: split(rng), lambda: split(rng), lambda: {"type": "WhitespaceSplit"},
               lambda: {"type": "Whitespace"},
               lambda: {"type": "Digits", "individual_digits": rng.random() < 0.5},
               lambda: {"type": "Punctuation", "behavior": rng.choice(BEHAVIORS)}]
    made = sequence(rng, "Sequence", "pretokenizers", choices, 2)
    if not in_bytes:
        return made
    if made is None:
        return byte_level(rng)
    if made["type"] != "Sequence":
        made = {"type": "Sequence", "pretokenizers": [made]}
    made["pretokenizers"].append(byte_level(rng))
    return made


def vocabulary(rng, in_bytes, fallback):
    """Return an alphabet extended by random merges, and the merges."""
    letters = list(BYTES) if in_bytes else list("abcABC01 .,'\n\u2581\u00e9e\u0301\u4f60")
    if not in_bytes:
        letters = [c for c in letters if rng.random() < 0.9]
    words = ["<unk>", "<s>", "</s>"] + ([f"<0x{b:02X}>" for b in range(256)] if fallback else [])
    words += letters
    known, merges = set(words), []
    parts = letters if not in_bytes else list("abAB01.,'") + [BYTES[32], BYTES[10], BYTES[195]]
    parts = list(parts)
    for _ in range(rng.randrange(60)):
        pair = (rng.choice(parts), rng.choice(parts))
        if list(pair) in merges:
            continue
        whole = "".join(pair)
        if whole not in known:
            known.add(whole)
            words.append(whole)
            parts.append(whole)
        merges.append(list(pair))
    return words, merges


def added_token(rng, index):
    content = rng.choice(["<|im_start|>", "<s>", "</s>", "<pad>", "ab", "AB", " a", "a b", "\n\n", "'",
                          "\u2581\u2581", "[INST]", "1", "\u00e9", "  "])
    special = rng.random() < 0.5
    blank = not content.strip()
    stays = content not in ("ab", " a", "a b", "  ", "\n\n")  # no normalizer turns it into an empty text
    return {"id": index, "content": content, "single_word": rng.random() < 0.2,
            "lstrip": rng.random() < 0.3, "rstrip": rng.random() < 0.3 and not blank,
            "normalized": rng.random() < 0.4 and stays, "special": special}


def added_tokens(rng, words):
    tokens, index = [], len(words)
    for _ in range(rng.randrange(5)):
        token = added_token(rng, index)
        if token["content"] in [t["content"] for t in tokens]:
            continue
        if token["content"] in words:
            token["id"] = words.index(token["content"])
        else:
            index += 1
        tokens.append(token)
    return sorted(tokens, key=lambda t: t["id"])


def post_processor(rng):
    kind = rng.randrange(4)
    if kind == 0:
        return None
    if kind == 1:
        return {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": False, "use_regex": True}
    if kind == 2:
        return {"type": "RobertaProcessing", "sep": ["</s>", 2], "cls": ["<s>", 1],
                "trim_offsets": True, "add_prefix_space": False}
    single = [{"Sequence": {"id": "A", "type_id": 0}}]
    if rng.random() < 0.7:
        single.insert(0, {"SpecialToken": {"id": "<s>", "type_id": 0}})
    if rng.random() < 0.5:
        single.append({"SpecialToken": {"id": "</s>", "type_id": 0}})
    return {"type": "TemplateProcessing", "single": single,
            "pair": single + [{"Sequence": {"id": "B", "type_id": 1}}],
            "special_tokens": {"<s>": {"id": "<s>", "ids": [1], "tokens": ["<s>"]},
                               "</s>": {"id": "</s>", "ids": [2], "tokens": ["</s>"]}}}


def decoder(rng, in_bytes):
    if in_bytes:
        return {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True}
    return rng.choice([
        None,
        {"type": "Sequence", "decoders": [
            {"type": "Replace", "pattern": {"String": "\u2581"}, "content": " "},
            {"type": "ByteFallback"}, {"type": "Fuse"},
            {"type": "Strip", "content": " ", "start": 1, "stop": 0}]},
        {"type": "Metaspace", "replacement": "\u2581",
         "prepend_scheme": rng.choice(["always", "first", "never"]), "split": True},
        {"type": "Sequence", "decoders": [{"type": "ByteFallback"}, {"type": "Fuse"}]}])


def is_first(pre_tokenizer):
    return pre_tokenizer and pre_tokenizer.get("prepend_scheme") == "first"


def tokenizer(rng):
    in_bytes = rng.random() < 0.5
    fallback = not in_bytes and rng.random() < 0.6
    words, merges = vocabulary(rng, in_bytes, fallback)
    cut = pre_tokenizer(rng, in_bytes)
    return {
        "version": "1.0", "truncation": None, "padding": None,
        "added_tokens": added_tokens(rng, words),
        # theirs determines the first piece before normalization, ours after it
        "normalizer": None if is_first(cut) else normalizer(rng),
        "pre_tokenizer": cut,
        "post_processor": post_processor(rng),
        "decoder": decoder(rng, in_bytes),
        "model": {"type": "BPE", "dropout": None,
                  "unk_token": "<unk>" if rng.random() < 0.8 else None,
                  "continuing_subword_prefix": None, "end_of_word_suffix": None,
                  "fuse_unk": rng.random() < 0.5, "byte_fallback": fallback,
                  "ignore_merges": rng.random() < 0.3,
                  "vocab": {w: i for i, w in enumerate(words)}, "merges": merges},
    }


def without(items, index):
    return items[:index] + items[index + 1:]


def simpler(made):
    """Yield the file with one part removed or simplified."""
    for key, listed in (("normalizer", "normalizers"), ("pre_tokenizer", "pretokenizers"),
                        ("decoder", "decoders"), ("post_processor", "")):
        if not made[key]:
            continue
        yield {**made, key: None}
        for i, one in enumerate(made[key].get(listed, [])):
            yield {**made, key: one}
            yield {**made, key: {**made[key], listed: without(made[key][listed], i)}}
    tokens, model = made["added_tokens"], made["model"]
    for i, token in enumerate(tokens):
        yield {**made, "added_tokens": without(tokens, i)}
        for flag in ("single_word", "lstrip", "rstrip", "normalized", "special"):
            if token[flag]:
                yield {**made, "added_tokens": tokens[:i] + [{**token, flag: False}] + tokens[i + 1:]}
    for flag in ("fuse_unk", "byte_fallback", "ignore_merges"):
        if model[flag]:
            yield {**made, "model": {**model, flag: False}}
    half = len(model["merges"]) // 2
    for merges in ([model["merges"][:half], model["merges"][half:]] if half else []):
        yield {**made, "model": {**model, "merges": merges}}
    for i in range(len(model["merges"])):
        yield {**made, "model": {**model, "merges": without(model["merges"], i)}}


def shown(made):
    """Return the file for printing, without the tokens of the alphabet."""
    words = [w for w in made["model"]["vocab"] if len(w) > 1 and not w.startswith("<0x")]
    return {**made, "model": {**made["model"], "vocab": words}}


# ---- Conversations and other variables ----

WORDS = ["", "a", "Hi there", "  two\n", "x: {1}", "\u00e4\u00d6", "<think>\nwhy</think>\n\nso", "1", "-2.5",
         "ONE two", "'q' \"r\"", "a\\b", "</s>", "\u4f60\u597d"]


def scalar(rng):
    return rng.choice([None, True, False, 0, 1, -3, 7, 2.5, -0.125, 1e20, rng.choice(WORDS)])


def value(rng, depth=0):
    kind = rng.randrange(5) if depth < 2 else 0
    if kind == 3:
        return [value(rng, depth + 1) for _ in range(rng.randrange(4))]
    if kind == 4:
        return {rng.choice("abcd"): value(rng, depth + 1) for _ in range(rng.randrange(3))}
    return scalar(rng)


def tool(rng):
    return {"type": "function", "function": {
        "name": rng.choice(["add", "get_weather"]), "description": rng.choice(WORDS),
        "parameters": {"type": "object", "properties": {"a": {"type": "number"}},
                       "required": ["a"][:rng.randrange(2)]}}}


def message(rng, role):
    result = {"role": role, "content": rng.choice(WORDS)}
    if role == "assistant" and rng.random() < 0.2:
        result["tool_calls"] = [{"type": "function", "id": "x1", "function": {
            "name": "add", "arguments": value(rng)}}]
    if rng.random() < 0.05:
        result["content"] = rng.choice([None, [{"type": "text", "text": rng.choice(WORDS)}]])
    return result


def messages(rng):
    roles = ["system"] if rng.random() < 0.4 else []
    for _ in range(rng.randrange(4)):
        roles += ["user", "assistant"] if rng.random() < 0.8 else ["user", "assistant", "tool"]
    if rng.random() < 0.5:
        roles.append("user")
    if rng.random() < 0.1:
        rng.shuffle(roles)
    return [message(rng, r) for r in roles]


def variables(rng):
    made = {"messages": messages(rng), "add_generation_prompt": rng.random() < 0.5,
            "bos_token": "<s>", "eos_token": "</s>", "s": rng.choice(WORDS), "n": rng.randrange(-3, 9),
            "xs": [scalar(rng) for _ in range(rng.randrange(4))], "v": value(rng)}
    if rng.random() < 0.3:
        made["tools"] = [tool(rng) for _ in range(rng.randrange(3))]
    if rng.random() < 0.3:
        made["enable_thinking"] = rng.random() < 0.5
    return made


# ---- Templates ----

LITERALS = ["'a'", "''", "'-'", "'Hi'", "0", "1", "-2", "3", "2.5", "true", "false", "none", "[]", "{}",
            "[1, 2, 3]", "['b', 'a']", "{'a': 1}", "(1, 'x')"]
NAMES = ["s", "n", "xs", "v", "messages", "bos_token", "add_generation_prompt", "missing", "tools",
         "item", "loop", "ns", "messages[0]", "messages[-1]['content']", "messages[0].role", "xs[0]",
         "messages[1:]", "messages[::-1]", "s[1:]", "s[::-1]", "ns.x", "loop.index", "loop.first",
         "loop.last", "loop.index0", "loop.length", "loop.previtem", "loop.nextitem", "v.a", "v['b']"]
FILTERS = ["trim", "upper", "lower", "length", "string", "tojson", "first", "last", "list", "join('-')",
           "default('d')", "default('d', true)", "replace('a', 'b')", "capitalize", "title", "int", "float",
           "reverse | list", "sort", "unique | list", "map(attribute='role') | list", "items | list",
           "selectattr('role', 'equalto', 'user') | list", "rejectattr('role', 'eq', 'user') | list",
           "tojson(indent=2)", "escape", "sum", "min", "max", "abs", "indent(2)", "batch(2) | list",
           "map('upper') | list", "select('string') | list", "dictsort", "count", "wordcount", "round(1)"]
TESTS = ["defined", "undefined", "none", "string", "number", "mapping", "iterable", "sequence", "true",
         "false", "odd", "even", "divisibleby(2)", "in([1, 'a', none])", "boolean", "integer", "float",
         "sameas(none)", "eq('a')", "equalto(1)"]
METHODS = ["strip()", "split('a')", "startswith('a')", "endswith('\\n')", "upper()", "lstrip('\\n')",
           "rstrip()", "replace('a', 'bb')", "get('a')", "get('role', 'd')", "items()", "keys() | list",
           "split('</think>')[-1]", "find('a')", "title()", "count('a')", "join(['a', 'b'])",
           "values() | list"]
OPERATORS = ["+", "-", "*", "/", "//", "%", "~", "==", "!=", "<", "<=", ">", ">=", "in", "not in", "and",
             "or"]


def expression(rng, depth=0):
    kind = rng.randrange(9) if depth < 3 else rng.randrange(2)

    def inner():
        return expression(rng, depth + 1)

    if kind == 0:
        return rng.choice(LITERALS)
    if kind in (1, 2):
        return rng.choice(NAMES)
    if kind == 3:
        return f"({inner()}) | {rng.choice(FILTERS)}"
    if kind == 4:
        return f"({inner()}) is {rng.choice(['', 'not '])}{rng.choice(TESTS)}"
    if kind == 5:
        return f"({inner()}).{rng.choice(METHODS)}"
    if kind == 6:
        return f"({inner()}) {rng.choice(OPERATORS)} ({inner()})"
    if kind == 7:
        return f"({inner()}) if ({inner()}) else ({inner()})"
    return rng.choice([f"not ({inner()})", f"[{inner()}, {inner()}]", f"{{'k': {inner()}}}",
                       f"({inner()})[{inner()}]", f"range(3)[{inner()}]",
                       f"namespace(x={inner()}).x", f"dict(a={inner()})", f"m({inner()})",
                       "raise_exception('no')", f"-({inner()})"])


def tag(rng, body):
    left, right = rng.choice(["", "", "-", "+"]), rng.choice(["", "", "-", "+"])
    return f"{{%{left} {body} {right}%}}"


def block(rng, depth):
    return "".join(statement(rng, depth + 1) for _ in range(rng.randrange(1, 4)))


def statement(rng, depth=0):
    kind = rng.randrange(12) if depth < 3 else rng.randrange(5)
    if kind <= 1:
        return rng.choice(["x", " ", "\n", "  \n", "\n  ", "<|im_start|>", "{", "a }} b", "\t"])
    if kind <= 3:
        left, right = rng.choice(["", "-"]), rng.choice(["", "-"])
        return f"{{{{{left} {expression(rng)} {right}}}}}"
    if kind == 4:
        return rng.choice(["{# c #}", "{#- c -#}\n", tag(rng, f"set item = {expression(rng)}"),
                           tag(rng, f"set ns.x = {expression(rng)}")])
    if kind <= 6:
        middle = tag(rng, f"elif {expression(rng)}") + block(rng, depth) if rng.random() < 0.3 else ""
        other = tag(rng, "else") + block(rng, depth) if rng.random() < 0.5 else ""
        return (tag(rng, f"if {expression(rng)}") + block(rng, depth) + middle + other + tag(rng, "endif"))
    if kind <= 9:
        over = rng.choice(["messages", "xs", "v", expression(rng)])
        which = f" if {expression(rng)}" if rng.random() < 0.2 else ""
        other = tag(rng, "else") + "none" if rng.random() < 0.2 else ""
        leave = tag(rng, f"if {expression(rng)}") + tag(rng, rng.choice(["break", "continue"])) + tag(
            rng, "endif") if rng.random() < 0.2 else ""
        return (tag(rng, f"for item in {over}{which}") + leave + block(rng, depth) + other
                + tag(rng, "endfor"))
    if kind == 10:
        return tag(rng, "set item") + block(rng, depth) + tag(rng, "endset")
    return rng.choice([tag(rng, "raw") + "{{ x }}" + tag(rng, "endraw"),
                       tag(rng, "generation") + block(rng, depth) + tag(rng, "endgeneration"),
                       tag(rng, "filter upper") + block(rng, depth) + tag(rng, "endfilter"),
                       tag(rng, f"with item = {expression(rng)}") + block(rng, depth) + tag(rng, "endwith")])


def template(rng):
    start = "{% set ns = namespace(x=0) %}"
    if rng.random() < 0.3:
        start += tag(rng, "macro m(a, b='d')") + block(rng, 1) + "{{ a }}" + tag(rng, "endmacro")
    return start + "".join(statement(rng) for _ in range(rng.randrange(1, 6)))
