#!/usr/bin/env python3
"""Make preference_loss.json: losses and rewards of pairs of answers, and the derivatives with respect
to the loss of each token, by the formulas of LLaMA-Factory and TRL, for
tests/unit/test_cpu_preference.c.

    python3 tests/golden/preference_loss.py >tests/golden/preference_loss.json

The formulas are those of LLaMA-Factory 0.9's CustomDPOTrainer (concatenated_forward, odds_ratio_loss,
simpo_loss, the part of get_batch_loss_metrics with pref_ftx) and of TRL's DPOTrainer.dpo_loss that it
calls, line by line, with decimals of 100 digits instead of tensors.  The derivatives are central
differences, not formulas.
"""
import json
import random
import struct
from decimal import Decimal, getcontext

getcontext().prec = 100
STEP = Decimal("1e-30")  # step of central differences, which are correct to some 60 digits


def logsigmoid(x):
    return -(1 + (-x).exp()).ln()


def log1p(x):
    return (1 + x).ln()


def odds_ratio_loss(chosen_logps, rejected_logps, beta):
    log_odds = (chosen_logps - rejected_logps) - (
        log1p(-chosen_logps.exp()) - log1p(-rejected_logps.exp()))
    sft_loss = -chosen_logps
    return sft_loss + beta * -logsigmoid(log_odds)


def simpo_loss(chosen_logps, rejected_logps, beta, simpo_gamma):
    pi_logratios = chosen_logps - rejected_logps
    gamma_logratios = simpo_gamma / beta
    return -logsigmoid(beta * (pi_logratios - gamma_logratios))


def dpo_loss(kind, policy, reference, beta, label_smoothing):
    logits = (policy[0] - policy[1]) - (reference[0] - reference[1])
    if kind == "sigmoid":
        return (-logsigmoid(beta * logits) * (1 - label_smoothing)
                - logsigmoid(-beta * logits) * label_smoothing)
    if kind == "hinge":
        return max(Decimal(0), 1 - beta * logits)
    return (logits - 1 / (2 * beta)) ** 2  # ipo


def logps_of(kind, tokens):
    logps = -sum(tokens)
    return logps / len(tokens) if kind in ("ipo", "orpo", "simpo") else logps


def pair_of(case, losses, reference):
    """Return loss, both rewards and both logps; losses and reference: per token of both answers."""
    kind, beta = case["kind"], Decimal(case["beta"])
    policy = [logps_of(kind, tokens) for tokens in losses]
    if kind == "orpo":
        loss = odds_ratio_loss(*policy, beta)
    elif kind == "simpo":
        loss = simpo_loss(*policy, beta, Decimal(case["margin"]))
    else:
        before = [logps_of(kind, tokens) for tokens in reference]
        loss = dpo_loss(kind, policy, before, beta, Decimal(case["smoothing"]))
    if kind in ("orpo", "simpo"):
        rewards = [beta * each for each in policy]
    else:
        rewards = [beta * (policy[i] - before[i]) for i in range(2)]
    chosen_logps_avg = -sum(losses[0]) / len(losses[0])
    loss += Decimal(case["ftx"]) * -chosen_logps_avg
    return [loss, *rewards, *policy]


def slope(case, losses, reference, answer, token):
    sides = []
    for step in (STEP, -STEP):
        moved = [list(tokens) for tokens in losses]
        moved[answer][token] += step
        sides.append(pair_of(case, moved, reference)[0])
    return (sides[0] - sides[1]) / (2 * STEP)


def single(x):
    return struct.unpack("f", struct.pack("f", x))[0]


def case(seed, kind, beta, ftx=0.0, smoothing=0.0, margin=0.0, scale=1.0, lengths=((3, 5), (7, 2))):
    draw = random.Random(seed)
    made = {"kind": kind, "beta": single(beta), "ftx": single(ftx), "smoothing": single(smoothing),
            "margin": single(margin), "lengths": [n for pair in lengths for n in pair],
            "losses": [], "reference": [], "pairs": [], "slopes": []}
    for pair in lengths:
        both = [[[single(scale * draw.expovariate(1.0)) for _ in range(n)] for n in pair]
                for _ in range(2)]
        losses, reference = [[[Decimal(x) for x in tokens] for tokens in each] for each in both]
        made["losses"] += both[0][0] + both[0][1]
        if kind not in ("orpo", "simpo"):
            made["reference"] += both[1][0] + both[1][1]
        made["pairs"] += [float(x) for x in pair_of(made, losses, reference)]
        made["slopes"] += [float(slope(made, losses, reference, answer, token))
                           for answer in range(2) for token in range(pair[answer])]
    return made


def main():
    cases = [case(1, "sigmoid", 0.1), case(2, "sigmoid", 0.5, smoothing=0.1),
             case(3, "sigmoid", 2.0, ftx=0.5, smoothing=0.25), case(4, "sigmoid", 10.0, scale=20.0),
             case(5, "hinge", 0.1), case(6, "hinge", 0.5, ftx=1.0, scale=3.0),
             case(7, "ipo", 0.1), case(8, "ipo", 0.7, ftx=0.25),
             case(9, "orpo", 0.1), case(10, "orpo", 1.0, ftx=0.5),
             case(11, "orpo", 0.5, scale=1e-4), case(12, "orpo", 0.1, scale=30.0),
             case(13, "simpo", 2.0, margin=0.5), case(14, "simpo", 2.5, ftx=0.1, margin=1.4),
             case(15, "simpo", 10.0, margin=5.0, scale=10.0)]
    print('{"cases": [\n' + ",\n".join(json.dumps(each) for each in cases) + "\n]}")


if __name__ == "__main__":
    main()
