#!/usr/bin/env python3
"""Make distill.json: distillation losses and their gradients with respect to the student's logits,
by PyTorch, for tests/unit/test_cpu_distill.c.

    python3 tests/golden/distill.py >tests/golden/distill.json            (on a CPU, in double)

The divergence is that of TRL's GKDTrainer.generalized_jsd_loss (F.kl_div with log_target; beta 0 and
1 are special cases, others use the mixture beta teacher + (1 - beta) student), times T^2 as in
Hinton's paper, one row at a time.  With top_k, the teacher's logits outside its k largest are -inf
before its softmax, and 0 log 0 is 0, where F.kl_div would give NaN; the student keeps all logits.
"""
import json
import math

import torch
import torch.nn.functional as F

torch.set_default_dtype(torch.float64)


def divergence(present, log_p, log_q):
    """Return KL(p || q) of each row over the tokens that p may have."""
    both = [x.masked_fill(~present, 0) for x in (log_q, log_p)]
    each = F.kl_div(*both, reduction="none", log_target=True)
    return each.masked_fill(~present, 0).sum(-1)


def distance(student, teacher, temperature, beta, top_k):
    student, teacher = student / temperature, teacher / temperature
    if top_k:
        kept = torch.zeros_like(teacher, dtype=torch.bool)
        kept.scatter_(-1, teacher.topk(top_k).indices, True)
        teacher = teacher.masked_fill(~kept, -math.inf)
    log_p, log_q = F.log_softmax(student, -1), F.log_softmax(teacher, -1)
    kept, every = torch.isfinite(log_q), torch.ones_like(log_q, dtype=torch.bool)
    if beta == 0:
        return divergence(kept, log_q, log_p)
    if beta == 1:
        return divergence(every, log_p, log_q)
    mixed = torch.logsumexp(torch.stack([log_p + math.log(1 - beta), log_q + math.log(beta)]), 0)
    return beta * divergence(kept, log_q, mixed) + (1 - beta) * divergence(every, log_p, mixed)


def case(seed, rows, words, shared, ratio, temperature, beta, top_k=None, smoothing=0.0):
    torch.manual_seed(seed)
    z = (3 * torch.randn(rows, words)).float().double().requires_grad_()
    t = (3 * torch.randn(rows, shared)).float().double()
    targets = torch.randint(0, words, (rows,))
    targets[1] = -100
    present = targets >= 0
    ce = F.cross_entropy(z, targets, reduction="none", label_smoothing=smoothing)
    kd = temperature**2 * distance(z[:, :shared], t, temperature, beta, top_k)
    loss = ((1 - ratio) * ce + ratio * kd)[present].sum()
    loss.backward()
    return {"words": words, "shared": shared, "ratio": ratio, "temperature": temperature,
            "beta": beta, "top_k": top_k or 0, "smoothing": smoothing,
            "targets": targets.tolist(), "student": z.detach().flatten().tolist(),
            "teacher": t.flatten().tolist(), "ce": (ce * present).tolist(),
            "kd": (kd.detach() * present).tolist(), "gradient": z.grad.flatten().tolist()}


def main():
    cases = [case(1, 3, 7, 7, 0.5, 1.0, 0.0), case(2, 3, 19, 19, 0.5, 2.0, 0.0),
             case(3, 3, 19, 19, 0.25, 0.5, 1.0), case(4, 3, 19, 19, 1.0, 1.0, 0.5),
             case(5, 3, 19, 19, 0.75, 3.0, 0.1), case(6, 3, 19, 19, 0.9, 1.5, 0.9),
             case(7, 3, 19, 17, 0.5, 2.0, 0.0, smoothing=0.1), case(8, 3, 19, 17, 0.5, 2.0, 0.3),
             case(9, 3, 19, 19, 0.5, 2.0, 0.0, top_k=4), case(10, 3, 19, 19, 1.0, 1.0, 0.0, top_k=1),
             case(11, 3, 19, 17, 0.5, 2.0, 0.6, top_k=4, smoothing=0.1),
             case(12, 3, 19, 19, 0.0, 2.0, 0.5, top_k=19)]
    print('{"cases": [\n' + ",\n".join(json.dumps(each) for each in cases) + "\n]}")


if __name__ == "__main__":
    main()
