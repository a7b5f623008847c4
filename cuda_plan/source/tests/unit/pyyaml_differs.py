"""What a reader of two YAML files finds changed, for each pair of paths: the keys that
differ, in order, as `key: old -> new`, and an empty line."""

import sys

import yaml


def load(path):
    with open(path, "rb") as file:
        return yaml.safe_load(file)


for old_path, new_path in zip(sys.argv[1::2], sys.argv[2::2]):
    old, new = load(old_path), load(new_path)
    for key in sorted(set(old) | set(new)):
        if key not in old or key not in new or repr(old[key]) != repr(new[key]):
            print(f"{key}: {old.get(key)!r} -> {new.get(key)!r}")
    print()
