"""Compare a GGUF file with the safetensors file it was made from.

gguf.py DIR FILE [SPLITS]: a reader of its own, for models of type llama and qwen2, whose layouts
it computes again.  SPLITS is llama.cpp's name of how a byte-level tokenizer splits texts.  Prints
what differs and exits with 1."""
import json, struct, sys

SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
NAMES = {"self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
         "self_attn.o_proj": "attn_output", "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up",
         "mlp.down_proj": "ffn_down", "input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm",
         "self_attn.q_norm": "attn_q_norm", "self_attn.k_norm": "attn_k_norm"}


class Reader:
    def __init__(self, data):
        self.data, self.at = data, 0

    def take(self, form):
        value, = struct.unpack_from("<" + form, self.data, self.at)
        self.at += struct.calcsize("<" + form)
        return value

    def string(self):
        size = self.take("Q")
        self.at += size
        return self.data[self.at - size:self.at].decode()

    def value(self, kind):
        if kind == 8:
            return self.string()
        if kind == 9:
            kind, count = self.take("I"), self.take("Q")
            return [self.value(kind) for _ in range(count)]
        return self.take(SCALARS[kind])


def read_gguf(name):
    r = Reader(open(name, "rb").read())
    assert r.data[:4] == b"GGUF"
    r.at = 4
    assert r.take("I") == 3
    tensors, count = r.take("Q"), r.take("Q")
    values = {}
    for _ in range(count):
        key = r.string()
        assert key not in values
        values[key] = r.value(r.take("I"))
    infos = {}
    for _ in range(tensors):
        key, rank = r.string(), r.take("I")
        infos[key] = ([r.take("Q") for _ in range(rank)], r.take("I"), r.take("Q"))
    start = (r.at + 31) // 32 * 32
    out, end = {}, start
    for key, (shape, kind, at) in infos.items():
        cols, rows = shape[0], shape[1] if len(shape) > 1 else 1
        size = rows * {0: 4 * cols, 1: 2 * cols, 30: 2 * cols, 8: cols // 32 * 34}[kind]
        assert start + at == end, key
        end += (size + 31) // 32 * 32
        out[key] = (shape[::-1], kind, r.data[start + at:start + at + size])
    assert end == len(r.data)
    return values, out


def read_safetensors(name):
    data = open(name, "rb").read()
    size = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + size])
    header.pop("__metadata__", None)
    out = {}
    for key, t in header.items():
        raw = data[8 + size:][slice(*t["data_offsets"])]
        form = {"F32": "f", "F16": "e", "BF16": "H"}[t["dtype"]]
        numbers = struct.unpack(f"<{len(raw) // struct.calcsize(form)}{form}", raw)
        if form == "H":
            numbers = [struct.unpack("<f", struct.pack("<I", n << 16))[0] for n in numbers]
        out[key] = (t["shape"], list(numbers))
    return out


def rows_of(shape, numbers):
    cols = shape[-1]
    return [numbers[i:i + cols] for i in range(0, len(numbers), cols)]


def permute(rows, heads):
    """(head, half, i) -> (head, i, half)"""
    per = len(rows) // heads
    return [rows[h * per + half * (per // 2) + i]
            for h in range(heads) for i in range(per // 2) for half in range(2)]


def single(x):
    return struct.unpack("<f", struct.pack("<f", x))[0]


def bf16(x):
    bits, = struct.unpack("<I", struct.pack("<f", x))
    return (bits + 0x7fff + (bits >> 16 & 1)) >> 16


def nearest(x):
    """half away from zero"""
    return int(abs(x) + 0.5) * (1 if x >= 0 else -1)


def q8_0(row):
    out = b""
    for i in range(0, len(row), 32):
        block = row[i:i + 32]
        d = single(max(map(abs, block)) / 127)
        inverse = single(1 / d) if d else 0
        out += struct.pack("<e32b", d, *[nearest(single(x * inverse)) for x in block])
    return out


def encode(rows, kind):
    if kind == 8:
        return b"".join(map(q8_0, rows))
    flat = [x for row in rows for x in row]
    if kind == 30:
        return struct.pack(f"<{len(flat)}H", *map(bf16, flat))
    return struct.pack(f"<{len(flat)}{'fe'[kind]}", *flat)


def name_of(name):
    path, suffix = name.rsplit(".", 1)
    outer = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output"}
    if path in outer:
        return f"{outer[path]}.{suffix}"
    _, _, layer, path = path.split(".", 3)
    return f"blk.{layer}.{NAMES[path]}.{suffix}"


def main(folder, name, splits=None):
    config = json.load(open(folder + "/config.json"))
    tokenizer = json.load(open(folder + "/tokenizer.json"))
    values, tensors = read_gguf(name)
    kind = {1: 1, 32: 30, 7: 8}[values["general.file_type"]]
    wrong = []
    weights = read_safetensors(folder + "/model.safetensors")
    for key, (shape, numbers) in weights.items():
        rows = rows_of(shape, numbers)
        if config["model_type"] == "llama" and "q_proj" in key:
            rows = permute(rows, config["num_attention_heads"])
        if config["model_type"] == "llama" and "k_proj" in key:
            rows = permute(rows, config["num_key_value_heads"])
        expected = 0 if len(shape) == 1 else 1 if kind == 8 and shape[-1] % 32 else kind
        found = tensors.pop(name_of(key), None)
        if not found or found[0] != shape or found[1] != expected or found[2] != encode(rows, expected):
            wrong.append(key)
    wrong += list(tensors)
    tokens = values["tokenizer.ggml.tokens"]
    wrong += [t for t, i in tokenizer["model"]["vocab"].items() if tokens[i] != t]
    wrong += [] if len(tokens) == config["vocab_size"] == len(values["tokenizer.ggml.token_type"]) else ["tokens"]
    if splits:
        merges = [m if isinstance(m, str) else " ".join(m) for m in tokenizer["model"]["merges"]]
        wrong += [] if values["tokenizer.ggml.merges"] == merges else ["merges"]
        wrong += [] if values["tokenizer.ggml.pre"] == splits else [values["tokenizer.ggml.pre"]]
    arch = config["model_type"]
    for key, value in {"general.architecture": arch, f"{arch}.block_count": config["num_hidden_layers"],
                       f"{arch}.embedding_length": config["hidden_size"],
                       f"{arch}.attention.head_count_kv": config["num_key_value_heads"],
                       f"{arch}.rope.freq_base": config["rope_theta"],
                       "tokenizer.ggml.bos_token_id": config["bos_token_id"],
                       "tokenizer.ggml.eos_token_id": config["eos_token_id"]}.items():
        if values.get(key) != value:
            wrong.append(f"{key}: {values.get(key)}, not {value}")
    print("\n".join(wrong))
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main(*sys.argv[1:])
