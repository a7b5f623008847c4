#!/usr/bin/env python3
"""Compare our BLEU and ROUGE with those of nltk, rouge_chinese and jieba on random texts.

    scores.py [--seed N] [--trials N] OURS

OURS is the program of ours.c.  The texts have no Chinese characters, whose words only jieba's dictionary
knows.  A difference makes the exit status 1; the status is 77 if a package is missing.
"""
import argparse
import json
import os
import random
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "golden"))
try:
    import similarity
except ImportError as missing:
    print(f"scores: {missing}", file=sys.stderr)
    sys.exit(77)

# Any character that is no Chinese one: all of ASCII, blanks of all kinds, letters and marks of others.
CHARACTERS = ([chr(i) for i in range(128)] + list("......??\n\n  ") + list("éßñĀжשع한글かなカナ€…“”’。！？，、；：（）")
              + [chr(i) for i in (0x85, 0xA0, 0x1680, 0x2003, 0x200B, 0x2028, 0x3000, 0x9FD6, 0x4DFF, 0x1F600)])


def random_text(rng):
    kind = rng.randrange(3)
    if kind == 0:
        return similarity.random_text(rng)
    alphabet = CHARACTERS if kind == 1 else rng.sample(CHARACTERS, 4) + list("aC+#.? ")
    return "".join(rng.choices(alphabet, k=rng.randrange(60)))


def random_pair(rng):
    """Two texts, of which one is often the other with changes."""
    first = random_text(rng)
    if rng.random() < 0.5:
        return first, random_text(rng)
    second = list(first)
    for _ in range(rng.randrange(4)):
        at = rng.randrange(len(second) + 1)
        second[at:at + rng.randrange(3)] = random_text(rng)[:rng.randrange(5)]
    return first, "".join(second)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--trials", type=int, default=20000)
    parser.add_argument("ours")
    options = parser.parse_args()
    rng = random.Random(options.seed)
    ours = subprocess.Popen([options.ours], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    different = 0
    for _ in range(options.trials):
        generated, expected = random_pair(rng)
        generated, expected = generated.replace("\0", "x"), expected.replace("\0", "x")
        theirs = similarity.scores(generated, expected)
        ours.stdin.write(json.dumps({"generated": generated, "expected": expected}) + "\n")
        ours.stdin.flush()
        got = json.loads(ours.stdout.readline())
        # one unit of the last decimal: the logarithms may differ in their last bit
        if any(abs(got[name] - theirs[name]) > 1.1e-4 for name in theirs):
            different += 1
            print(f"{generated!r}\n{expected!r}\n  ours {got}\n  theirs {theirs}")
    print(f"{options.trials} pairs of texts: {different or 'no'} differences")
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
