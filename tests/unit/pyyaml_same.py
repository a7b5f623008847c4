"""Check with another parser that two texts differ only in the announced keys.

The folder has `list`, one line per pair: its number and the top-level keys that may differ.
The texts are NUMBER.before and NUMBER.after.  Prints those that differ in more.
"""

import pathlib
import sys

import yaml


def read(path):
    """Scalars stay texts: what they mean is no matter here."""
    return yaml.load(path.read_bytes(), Loader=yaml.BaseLoader) or {}


folder = pathlib.Path(sys.argv[1])
for line in (folder / "list").read_text().splitlines():
    number, *keys = line.split()
    before = read(folder / f"{number}.before")
    after = read(folder / f"{number}.after")
    for key in sorted(before.keys() | after.keys()):
        if before.get(key) != after.get(key) and key not in keys:
            print(f"{number}: {key}: {before.get(key)!r} -> {after.get(key)!r}, not in {keys}")
    if before == after:
        print(f"{number}: the data are the same")
