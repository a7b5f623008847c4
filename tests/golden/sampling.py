#!/usr/bin/env python3
"""Make sampling.json: the tokens that transformers' logits processors keep, and their probabilities,
for test_sampler.

    python3 tests/golden/sampling.py > tests/golden/sampling.json

Logits are (i * 7919 % 61 - 30) / 2 + i * slope.  Without a slope many logits are equal; top_p is not
tested with them, because the order of equal logits is unspecified.
"""
import json

import torch
from transformers.generation import logits_process as lp

VOCABULARY = 200
BEFORE = [3, 17, 3, 60, 61, 199]
CASES = [dict(temperature=t, top_k=k, top_p=p, repetition_penalty=r)
         for t, k, p, r in [(1.0, 0, 1.0, 1.0), (0.7, 5, 1.0, 1.0), (1.5, 0, 0.9, 1.0),
                            (0.95, 50, 0.7, 1.0), (2.0, 20, 0.5, 1.3), (1.0, 1, 0.1, 1.0),
                            (0.5, 7, 0.99, 0.8), (3.0, 0, 0.05, 1.1)]]

for case in CASES:
    case["slope"] = 0 if case["top_p"] == 1 else 2 ** -10
    scores = torch.tensor([[(i * 7919 % 61 - 30) / 2 + i * case["slope"]
                            for i in range(VOCABULARY)]], dtype=torch.float32)
    ids = torch.tensor([BEFORE])
    if case["repetition_penalty"] != 1:
        scores = lp.RepetitionPenaltyLogitsProcessor(case["repetition_penalty"])(ids, scores)
    case["greedy"] = int(scores.argmax())
    scores = lp.TemperatureLogitsWarper(case["temperature"])(ids, scores) \
        if case["temperature"] != 1 else scores
    if case["top_k"]:
        scores = lp.TopKLogitsWarper(case["top_k"])(ids, scores)
    if case["top_p"] < 1:
        scores = lp.TopPLogitsWarper(case["top_p"])(ids, scores)
    p = torch.softmax(scores[0].double(), 0)
    case["kept"] = {str(i): float("%.9g" % p[i]) for i in range(VOCABULARY) if p[i] > 0}
print(json.dumps({"before": BEFORE, "vocabulary": VOCABULARY, "cases": CASES}))
