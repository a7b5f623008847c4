"""tensors.py FOLDER [STEM...]: print the name, the dtype and the SHA-256 of each tensor of a checkpoint.  Tensors
NAME[first:end] in different files are joined."""

import hashlib
import json
import os
import re
import struct
import sys


def read(path):
    """Yield name, dtype and bytes of the tensors of a file."""
    with open(path, "rb") as file:
        header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
        data = file.read()
    header.pop("__metadata__", None)
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        yield name, entry["dtype"], data[begin:end]


def files(folder, stem):
    """Return the files of a set, from its index if there is one."""
    index = os.path.join(folder, stem + ".safetensors.index.json")
    if not os.path.exists(index):
        whole = os.path.join(folder, stem + ".safetensors")
        return [whole] if os.path.exists(whole) else []
    with open(index, encoding="utf-8") as file:
        weights = json.load(file)["weight_map"]
    found = {}
    for name in sorted(set(weights.values())):
        found[name] = {tensor for tensor, _, _ in read(os.path.join(folder, name))}
    for name, file in weights.items():
        if name not in found[file]:
            sys.exit(f"{index}: {name} is not in {file}")
    if sum(len(names) for names in found.values()) != len(weights):
        sys.exit(f"{index} does not have all tensors")
    return [os.path.join(folder, name) for name in found]


def main(folder, stems):
    """Print the tensors of all sets."""
    whole = {}
    for stem in stems or ("model", "adapter_model", "value_head", "trainspool_optimizer"):
        for path in files(folder, stem):
            for name, dtype, data in read(path):
                piece = re.fullmatch(r"(.*)\[(\d+):(\d+)\]", name)
                first = int(piece[2]) if piece else 0
                key = (stem, piece[1] if piece else name, dtype)
                whole.setdefault(key, {})[first] = (int(piece[3]) if piece else None, data)
    for key, parts in sorted(whole.items()):
        digest, at = hashlib.sha256(), 0
        for first, (end, data) in sorted(parts.items()):
            if first != at or (end is None and len(parts) > 1):
                sys.exit(f"{folder}: a part of {key[1]} is missing")
            digest.update(data)
            at = end
        print(*key, digest.hexdigest())


main(sys.argv[1], sys.argv[2:])
