#!/usr/bin/env python3
"""Make experts.json: the routers of transformers' mixtures of experts, and their gradients.

    python3 tests/golden/experts.py > tests/golden/experts.json

Each case has the logits of some rows, what the router of the model makes of them (its weight is the
identity), and the gradient of the sum of its weights times given numbers; where the model has it,
plus the load balancing loss of two layers, of which the second has the logits of the first in
reverse order of rows.
"""
import json
import sys

import torch
from transformers.models.deepseek_v2.modeling_deepseek_v2 import DeepseekV2TopkRouter
from transformers.models.deepseek_v3.modeling_deepseek_v3 import DeepseekV3TopkRouter
from transformers.models.ernie4_5_moe.modeling_ernie4_5_moe import Ernie4_5_MoeTopKRouter
from transformers.models.granitemoe.modeling_granitemoe import GraniteMoeTopKRouter
from transformers.models.mixtral.modeling_mixtral import MixtralTopKRouter, load_balancing_loss_func
from transformers.models.phimoe.modeling_phimoe import sparsemixer
from transformers.models.qwen3_moe.modeling_qwen3_moe import Qwen3MoeTopKRouter

ROWS = 7
COEFFICIENT = 0.25
DRAWS = torch.Generator().manual_seed(1)


class Settings:
    """A config with only what a router reads."""

    def __init__(self, **values):
        self.__dict__.update(values)


def sizes(experts, chosen, **values):
    return Settings(num_experts=experts, num_local_experts=experts, num_experts_per_tok=chosen,
                    hidden_size=experts, **values)


def numbers(*shape):
    return torch.randn(*shape, generator=DRAWS)


def listed(tensor):
    return [float(f"{x:.9g}") for x in tensor.detach().reshape(-1).tolist()]


def case(name, experts, chosen, route, balanced, **settings):
    """route(logits) returns weights and experts."""
    logits = numbers(ROWS, experts).requires_grad_()
    given = numbers(ROWS, chosen)
    weights, ids = route(logits)
    order = ids.argsort(-1)  # some routers do not sort
    total = (weights.gather(1, order) * given).sum()
    if balanced:
        total = total + COEFFICIENT * load_balancing_loss_func((logits, logits.flip(0)), experts,
                                                               chosen)
    total.backward()
    return dict(name=name, experts=experts, chosen=chosen, rows=ROWS, logits=listed(logits),
                given=listed(given), ids=ids.gather(1, order).reshape(-1).tolist(),
                weights=listed(weights.gather(1, order)), dlogits=listed(logits.grad),
                coefficient=COEFFICIENT if balanced else 0, **settings)


def module(kind, config, bias=None):
    """The router of a model with an identity for its weight."""
    router = kind(config)
    torch.nn.init.eye_(router.weight)
    if bias is not None:
        for name, buffer in list(router.named_buffers()) + list(router.named_parameters()):
            if "e_score_correction_bias" in name:
                buffer.data.copy_(bias.reshape(buffer.shape))

    def route(logits):
        _, weights, ids = router(logits)
        return weights, ids
    return route


def mixer(logits):
    """In training, with noise of 0: the highest is chosen; the gradient is that of training."""
    real = torch.Tensor.exponential_
    torch.Tensor.exponential_ = lambda self: self.fill_(1.0)
    try:
        return sparsemixer(logits, jitter_eps=0.3, training=True)
    finally:
        torch.Tensor.exponential_ = real


def main():
    torch.set_num_threads(1)
    groups = dict(n_group=4, topk_group=2)
    bias = numbers(16) * 0.2
    ernie = numbers(12) * 0.05
    cases = [
        case("mixtral", 8, 2, module(MixtralTopKRouter, sizes(8, 2)), True, normalize=True),
        case("qwen3_moe", 16, 4, module(Qwen3MoeTopKRouter, sizes(16, 4, norm_topk_prob=False)),
             True),
        case("granitemoe", 10, 3, module(GraniteMoeTopKRouter, sizes(10, 3)), True,
             normalize=True),
        case("ernie4_5_moe", 12, 3,
             module(Ernie4_5_MoeTopKRouter, sizes(12, 3, moe_norm_min=1e-12), ernie), False,
             normalize=True, bias=listed(ernie)),
        case("deepseek_v2", 16, 3,
             module(DeepseekV2TopkRouter, sizes(16, 3, routed_scaling_factor=16.0,
                                                topk_method="group_limited_greedy", **groups)),
             False, scale=16, groups=4, groups_kept=2),
        case("deepseek_v3", 16, 3,
             module(DeepseekV3TopkRouter, sizes(16, 3, routed_scaling_factor=2.5,
                                                norm_topk_prob=True, **groups), bias),
             False, kind="sigmoid", normalize=True, scale=2.5, groups=4, groups_kept=2, pairs=True,
             bias=listed(bias)),
        case("phimoe", 16, 2, mixer, True, kind="sparsemixer", jitter=0.3),
    ]
    text = json.dumps({"cases": cases})
    sys.stdout.write(text.replace('{"name"', '\n{"name"') + "\n")


main()
