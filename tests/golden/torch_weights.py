#!/usr/bin/env python3
"""Make torch_weights.json: files of torch.save, the tensors that torch reads from them, and
files that must be refused.  Usage: torch_weights.py > torch_weights.json

Made with torch 2.15.
"""
import collections
import io
import json
import os
import zipfile

import torch

DTYPES = {
    torch.float32: "F32", torch.float16: "F16", torch.bfloat16: "BF16", torch.float64: "F64",
    torch.int64: "I64", torch.int32: "I32", torch.int16: "I16", torch.int8: "I8",
    torch.uint8: "U8", torch.bool: "BOOL",
}


class Command:
    """Unpickled by Python's own pickle, this runs a command."""

    def __init__(self, function, *arguments):
        self.call = function, arguments

    def __reduce__(self):
        return self.call


def saved(value, **options):
    out = io.BytesIO()
    torch.save(value, out, **options)
    return out.getvalue()


def rows(rank, dtype=torch.float32):
    shape = (2, 3, 4)[:rank]
    return torch.arange(1, 1 + int(torch.tensor(shape).prod())).reshape(shape).to(dtype)


def bits(tensor):
    return tensor.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes() if tensor.numel() else b""


def case(name, value, **options):
    data = saved(value, **options)
    tensors = torch.load(io.BytesIO(data), weights_only=True)
    return {"name": name, "file": data.hex(), "tensors": [
        {"name": key, "dtype": DTYPES[t.dtype], "shape": list(t.shape), "data": bits(t.detach()).hex()}
        for key, t in tensors.items() if isinstance(t, torch.Tensor)]}


def refused(name, data, why):
    return {"name": name, "file": data.hex(), "error": why}


def rezipped(data, change, method=zipfile.ZIP_STORED):
    """Copy an archive; `change` gets and returns the bytes of each file, None to leave it out."""
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(out, "w", method) as new:
        for name in old.namelist():
            text = change(name, old.read(name))
            if text is not None:
                new.writestr(name, text)
    return out.getvalue()


def module():
    torch.manual_seed(0)
    layer = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.LayerNorm(2))
    layer.register_buffer("position", torch.arange(4))
    return layer.state_dict()


def main():
    whole = rows(3)
    tied = rows(2)
    plain = saved({"a": rows(2)})
    order = lambda name, text: b"big" if name.endswith("/byteorder") else text
    none = lambda name, text: None if name.endswith("/data/0") else text
    other = lambda name, text: text if name.endswith("/version") else None
    short = lambda name, text: text[:-1] if name.endswith("/data/0") else text
    deep = {}
    for _ in range(300):
        deep = {"a": deep}
    cases = [
        case("dtypes", {str(i): rows(2, dtype) for i, dtype in enumerate(DTYPES)}),
        case("module", module()),
        case("parameters", collections.OrderedDict(w=torch.nn.Parameter(rows(2)),
                                                   frozen=torch.nn.Parameter(rows(1), False))),
        case("shared", {"head": tied, "embedding": tied, "row": tied[1], "column": tied[:, 1]}),
        case("views", {"transposed": rows(2).T, "permuted": whole.permute(2, 0, 1),
                       "part": whole[:, 1:, ::2], "narrow": whole[:, :1]}),
        case("shapes", {"scalar": torch.tensor(1.5), "empty": torch.zeros(0, 4), "none": None,
                        "step": 70000, "large": 1 << 40, "negative": -5, "rate": 0.5, "yes": True,
                        "rank": torch.ones(1, 1, 2, 1, 1, 1, 1, 1)}),
        {"name": "rezipped", "file": rezipped(plain, lambda name, text: text).hex(),
         "tensors": case("", {"a": rows(2)})["tensors"]},
        case("no tensors", {}),
        refused("system", saved({"a": Command(os.system, "touch executed")}),
                "the pickle names posix.system"),
        refused("eval", saved(Command(eval, "print(1)")), "names __builtin__.eval"),
        refused("nested", saved({"state_dict": {"a": rows(2)}}), '"state_dict" is not a tensor'),
        refused("list", saved([rows(2)]), "not a dict of names and tensors"),
        refused("deep", saved(deep), '"a" is not a tensor'),
        refused("complex", saved({"a": torch.zeros(2, dtype=torch.complex64)}),
                "names torch.ComplexFloatStorage"),
        refused("float8", saved({"a": rows(2, torch.float8_e4m3fn)}),
                "names torch._utils._rebuild_tensor_v3, which makes tensors of float8"),
        refused("expanded", saved({"a": torch.zeros(2, 1).expand(2, 9)}), "repeats elements"),
        refused("number as a name", saved({1: rows(2)}), "the name of a tensor is not a string"),
        refused("module itself", saved(torch.nn.Linear(2, 2)), "names torch.nn.modules.linear.Linear"),
        refused("protocol", saved({"a": rows(2)}, pickle_protocol=4), "protocol 4 is not supported"),
        refused("before 1.6", saved({"a": rows(2)}, _use_new_zipfile_serialization=False),
                "convert the file in its folder with: python3 -c"),
        refused("big-endian", rezipped(plain, order), "big-endian"),
        refused("compressed", rezipped(plain, lambda name, text: text + bytes(99), zipfile.ZIP_DEFLATED),
                "is compressed or encrypted"),
        refused("no storage", rezipped(plain, none), "the storage data/0 is missing"),
        refused("short storage", rezipped(plain, short), "the storage data/0 is smaller"),
        refused("other archive", rezipped(plain, other), "has no data.pkl"),
        refused("pointer", b"version https://git-lfs.github.com/spec/v1\n", "a Git LFS pointer"),
        refused("text", b"weights are elsewhere", "not a file of torch.save"),
        refused("nothing", b"", "too short"),
    ]
    print(json.dumps({"torch": torch.__version__, "cases": cases}, indent=0))


main()
