#!/usr/bin/env python3
"""Save a float32 model in 4 bits, in the format of transformers with bitsandbytes (nf4, blocks of 64,
without double quantization), or in 8 bits as GPTQ does: to the nearest, with a scale and a zero point
for each 4 columns.  Requires only the standard library.

    python3 tests/cli/prequantized.py MODEL FOLDER [gptq]

All arithmetic of nf4 is rounded to float32, as in bitsandbytes.
"""
import json
import os
import shutil
import struct
import sys
from array import array
from bisect import bisect_left

NF4 = [-1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635,
       -0.18477343022823334, -0.09105003625154495, 0.0, 0.07958029955625534, 0.16093020141124725,
       0.24611230194568634, 0.33791524171829224, 0.44070982933044434, 0.5626170039176941,
       0.7229568362236023, 1.0]
BLOCK = 64


def single(x):
    return struct.unpack("<f", struct.pack("<f", x))[0]


BOUNDS = [single((a + b) / 2) for a, b in zip(NF4, NF4[1:])]


def codes_of(x):
    """Return the codes, two per byte, and the absmax of each block.  The last block may be short."""
    codes, factors = [], array("f")
    for first in range(0, len(x), BLOCK):
        block = x[first:first + BLOCK]
        most = max(abs(v) for v in block)
        factors.append(most)
        whole = len(block) == BLOCK
        inverse = single(1 / max(most, 1e-38))
        codes += [bisect_left(BOUNDS, single(v * inverse if whole else v / max(most, 1e-38)))
                  for v in block]
    codes += [0] * (len(codes) % 2)
    return bytes(a << 4 | b for a, b in zip(codes[::2], codes[1::2])), factors.tobytes()


def read(name):
    with open(name, "rb") as file:
        size = struct.unpack("<Q", file.read(8))[0]
        header, data = json.loads(file.read(size)), file.read()
    header.pop("__metadata__", None)
    return {name: (t["dtype"], t["shape"], data[slice(*t["data_offsets"])])
            for name, t in header.items()}


def write(name, tensors):
    header, data = {"__metadata__": {"format": "pt"}}, b""
    for key, (dtype, shape, part) in tensors.items():
        header[key] = {"dtype": dtype, "shape": shape,
                       "data_offsets": [len(data), len(data) + len(part)]}
        data += part
    text = json.dumps(header).encode()
    with open(name, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)


def narrowed(tensors):
    out = {}
    for name, (dtype, shape, data) in tensors.items():
        if ".layers." not in name or not name.endswith("_proj.weight"):
            out[name] = dtype, shape, data
            continue
        assert dtype == "F32", name
        codes, factors = codes_of(array("f", data))
        state = json.dumps({"quant_type": "nf4", "blocksize": BLOCK, "dtype": "float32",
                            "shape": shape}).encode()
        out[name] = "U8", [len(codes), 1], codes
        out[name + ".absmax"] = "F32", [len(factors) // 4], factors
        out[name + ".quant_map"] = "F32", [16], array("f", NF4).tobytes()
        out[name + ".quant_state.bitsandbytes__nf4"] = "U8", [len(state)], state
    return out


def gptq(name, shape, data):
    """Return the tensors of a matrix: words of 4 codes of adjacent columns, (in / 4, out)."""
    x, (outer, inner) = array("f", data), shape
    words, zeros, scales = array("I"), array("I"), array("f")
    for column in range(0, inner, 4):
        stored = []
        for row in range(outer):
            group = x[row * inner + column:row * inner + column + 4]
            low, high = min(0.0, *group), max(0.0, *group)
            scale = single(max(high - low, 1e-6) / 255)
            zero = round(-low / scale)
            codes = [min(255, max(0, round(v / scale) + zero)) for v in group]
            words.append(sum(code << 8 * i for i, code in enumerate(codes)))
            scales.append(scale)
            stored.append(zero - 1 & 255)
        zeros.extend(sum(zero << 8 * i for i, zero in enumerate(stored[row:row + 4]))
                     for row in range(0, outer, 4))
    groups = array("i", (i // 4 for i in range(inner)))
    return {name + ".qweight": ("I32", [inner // 4, outer], words.tobytes()),
            name + ".qzeros": ("I32", [inner // 4, outer // 4], zeros.tobytes()),
            name + ".scales": ("F32", [inner // 4, outer], scales.tobytes()),
            name + ".g_idx": ("I32", [inner], groups.tobytes())}


def narrowed_as_gptq(tensors):
    out = {}
    for name, (dtype, shape, data) in tensors.items():
        if ".layers." not in name or not name.endswith("_proj.weight"):
            out[name] = dtype, shape, data
        else:
            out |= gptq(name[:-len(".weight")], shape, data)
    return out


NF4_CONFIG = {"quant_method": "bitsandbytes", "load_in_4bit": True, "load_in_8bit": False,
              "bnb_4bit_quant_type": "nf4", "bnb_4bit_use_double_quant": False,
              "bnb_4bit_compute_dtype": "float32", "llm_int8_skip_modules": None}
GPTQ_CONFIG = {"quant_method": "gptq", "bits": 8, "group_size": 4, "desc_act": False, "sym": False,
               "checkpoint_format": "gptq"}


def main(model, folder, format="nf4"):
    os.makedirs(folder)
    for name in os.listdir(model):
        if "token" in name:
            shutil.copy(os.path.join(model, name), folder)
    with open(os.path.join(model, "config.json"), encoding="utf-8") as file:
        config = json.load(file)
    config["quantization_config"] = GPTQ_CONFIG if format == "gptq" else NF4_CONFIG
    with open(os.path.join(folder, "config.json"), "w", encoding="utf-8") as file:
        json.dump(config, file, indent=2)
    write(os.path.join(folder, "model.safetensors"),
          (narrowed_as_gptq if format == "gptq" else narrowed)(
              read(os.path.join(model, "model.safetensors"))))


main(*sys.argv[1:])
