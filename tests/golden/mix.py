#!/usr/bin/env python3
"""Make mix.json: the order in which Hugging Face `datasets` interleaves datasets.

    python3 tests/golden/mix.py > tests/golden/mix.json

Requires datasets (the current file was made with 5.2.0).  A case has the lengths of the datasets,
the probabilities or null, the seed, and for each strategy the indices of the samples, where those of
the second dataset follow those of the first.  Long lists are replaced by their length and the sum
of (position + 1) * index, modulo 2^32.
slices: the range [from, to) that a split of so many samples means.
"""
import json

import datasets

STRATEGIES = {
    "interleave_under": "first_exhausted",
    "interleave_over": "all_exhausted",
    "interleave_once": "all_exhausted_without_replacement",
}
CASES = [
    ([3, 4, 5], None, 42),
    ([3, 4, 3], None, 42),
    ([1, 4], None, 42),
    ([4], None, 42),
    ([2, 6], [0.5, 0.5], 7),
    ([5, 2, 1], [0.2, 0.3, 0.5], 0),
    ([3, 4, 5], [0.7, 0.2, 0.1], 42),
    ([1000, 300, 50], None, 3),
    ([1000, 300, 50], [0.5, 0.3, 0.2], 3),
    ([1000, 300, 50, 7], [0.1, 0.2, 0.3, 0.4], 2**33 + 5),
]
SLICES = ["train", "train[:10]", "train[10:]", "train[10:20]", "train[-5:]", "train[:-5]",
          "train[10%:90%]", "train[:33%]", "train[50%:]", "train[-10%:]", "train[:100%]",
          "train[20:10]", "train[90:200]", "train[10:20%]"]


def order(lengths, probabilities, seed, strategy):
    first, sets = 0, []
    for length in lengths:
        sets.append(datasets.Dataset.from_dict({"x": list(range(first, first + length))}))
        first += length
    mixed = datasets.interleave_datasets(
        sets, probabilities=probabilities, seed=seed, stopping_strategy=STRATEGIES[strategy]
    )
    return list(mixed["x"])


def shown(numbers):
    if len(numbers) <= 40:
        return numbers
    total = sum((i + 1) * n for i, n in enumerate(numbers)) % 2**32
    return {"length": len(numbers), "sum": total}


def slices():
    for spec in SLICES:
        for length in (7, 100, 105):
            read = datasets.ReadInstruction.from_spec(spec).to_absolute({"train": length})[0]
            yield [spec, length, read.from_ or 0, length if read.to is None else read.to]


def main():
    datasets.disable_progress_bars()
    cases = []
    for lengths, probabilities, seed in CASES:
        case = {"lengths": lengths, "probabilities": probabilities, "seed": seed}
        for strategy in STRATEGIES:
            case[strategy] = shown(order(lengths, probabilities, seed, strategy))
        cases.append(case)
    lines = ",\n".join("  " + json.dumps(case) for case in cases)
    parts = ",\n".join("  " + json.dumps(part) for part in slices())
    print('{"datasets": "%s", "cases": [\n%s\n], "slices": [\n%s\n]}'
          % (datasets.__version__, lines, parts))


main()
