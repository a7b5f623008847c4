#!/usr/bin/env python3
"""Make similarity.json: scores of pairs of texts by nltk, rouge_chinese and jieba, combined as in
LLaMA-Factory 0.9.5 (train/sft/metric.py: ComputeSimilarity), for tests/unit/test_similarity.c.

    python3 tests/golden/similarity.py >tests/golden/similarity.json
                                      (with nltk 3.10.4, rouge_chinese 1.0.3, jieba 0.42.1)
"""
import json
import logging
import random

import jieba
from nltk.translate.bleu_score import SmoothingFunction, sentence_bleu
from rouge_chinese import Rouge

jieba.setLogLevel(logging.ERROR)

PAIRS = [
    ("", ""), ("", "a"), ("a", ""), (" ", "a"), ("a", "a"), ("ab", "ab"), ("abc", "abcd"),
    ("the cat sat on the mat", "the cat sat on the mat"),
    ("the cat sat on a mat", "a cat was on the mat"),
    ("the the the the the the the", "the cat is on the mat"),
    ("The answer is 42.", "The answer is <answer>42</answer>\n"),
    ("one\n\ntwo\n \nthree", "one\n\n\ntwo three"),
    ("What? Why? How?", "Why?How? What"), ("is it ?", "it is ?"), ("so?\u201d he said", "so? he said"),
    ("wait......what......", "wait...... what"), ("a........b", "a ........ b"),
    ("C++ and c# and AT&T", "libc++ or C#, AT&T&T"), ("3.14% of 2.50, 1.x", "3.14 % of 2.5 , 1.x%"),
    ("snake_case-name+1 #tag", "snake_case - name +1 # tag"), ("x=1;y=2", "x = 1; y = 2"),
    ("caf\u00e9 na\u00efve \u00fcber", "cafe naive uber"), ("\u00a0a\u2003b\x1cc", "a b c"),
    ("line\r\nbreak\rend\u2028x", "line break end x"), ("\U0001f600\U0001f601 ok", "ok \U0001f600"),
    ("\u3053\u3093\u306b\u3061\u306f", "\u3053\u3093\u3070\u3093\u306f"),
    ("\uc548\ub155\ud558\uc138\uc694 \uc138\uacc4", "\uc548\ub155 \uc138\uacc4"),
    ("what\uff1f yes\uff01", "what\uff1f\u3002 yes\uff01 no"),
]
WORDS = ("the a cat dog sat on mat is was 42 3.14 C++ c# ? ! , . ...... \n \n\n \r\n ( ) don't e-mail 5% x_y "
         "AT&T \u00e9t\u00e9 \u2026 \u201c \u201d").split(" ")


def random_text(rng, words=WORDS):
    return "".join(rng.choice(words) + rng.choice(["", " ", " ", " "]) for _ in range(rng.randrange(30)))


def scores(generated, expected):
    hypothesis, reference = list(jieba.cut(generated)), list(jieba.cut(expected))
    if not " ".join(hypothesis).split() or not " ".join(reference).split():
        rouge = {name: {"f": 0.0} for name in ("rouge-1", "rouge-2", "rouge-l")}
    else:
        rouge = Rouge().get_scores(" ".join(hypothesis), " ".join(reference))[0]
    out = {name: round(value["f"] * 100, 4) for name, value in rouge.items()}
    bleu = sentence_bleu([list(expected)], list(generated), smoothing_function=SmoothingFunction().method3)
    out["bleu-4"] = round(bleu * 100, 4)
    return out


def main():
    rng = random.Random(1)
    pairs = PAIRS + [(random_text(rng), random_text(rng)) for _ in range(60)]
    rows = [{"generated": a, "expected": b, "scores": scores(a, b)} for a, b in pairs]
    print("[" + ",\n".join(json.dumps(row) for row in rows) + "]")


if __name__ == "__main__":
    main()
