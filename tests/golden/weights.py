#!/usr/bin/env python3
"""Make weights.json: loss and gradient of answers with a loss_weight, by PyTorch.

    python3 tests/golden/weights.py ../shared >tests/golden/weights.json

The loss is the sum of weight x cross entropy divided by the sum of the weights, as in LLaMA-Factory
v1 (src/llamafactory/v1/trainers/sft_trainer.py), over two conversations in template `default`, with
the model and tokenizer stories260K.  The file also has the norm of its gradient.
"""
import json
import sys

import torch
from tokenizers import Tokenizer
from transformers import AutoModelForCausalLM

RECORDS = [
    [("Once upon", "a time there was a girl.", 0.25), ("Then", "she went home to her mom.", 2.0)],
    [("Tell", "The dog ran fast.", 0.5), ("And?", "It slept.", 0.0)],
]
END = 2


def main():
    folder = f"{sys.argv[1]}/data/stories260K/hf"
    model = AutoModelForCausalLM.from_pretrained(folder).float()
    tokenizer = Tokenizer.from_file(f"{folder}/tokenizer.json")
    losses = weights = 0
    for turns in RECORDS:
        ids, weight = [], []
        for asked, said, much in turns:
            question, answer = ([*tokenizer.encode(head, add_special_tokens=False).ids, END,
                                 *tokenizer.encode(tail, add_special_tokens=False).ids]
                                for head, tail in (("Human: " + asked, "\nAssistant:"),
                                                   (said, "\n")))
            ids += question + answer
            weight += [0.0] * len(question) + [much] * len(answer)
        logits = model(input_ids=torch.tensor([ids])).logits[0]
        each = torch.nn.functional.cross_entropy(logits[:-1], torch.tensor(ids[1:]),
                                                 reduction="none")
        after = torch.tensor(weight[1:])
        losses, weights = losses + (each * after).sum(), weights + after.sum()
    loss = losses / weights
    loss.backward()
    norm = sum(float((p.grad.double() ** 2).sum()) for p in model.parameters()) ** 0.5
    records = [{"messages": [m for asked, said, much in turns for m in (
        {"role": "user", "content": asked},
        {"role": "assistant", "content": said, "loss_weight": much})]} for turns in RECORDS]
    print(json.dumps({"torch": torch.__version__.split("+")[0], "records": records,
                      "weight": float(weights), "loss": float(loss), "grad_norm": norm}, indent=1))


main()
