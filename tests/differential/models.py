"""Random models, computed by transformers: a config.json of any architecture with random settings,
weights, and the loss and the norm of each gradient over some tokens."""
import json
import os

import torch
import transformers

transformers.logging.set_verbosity_error()
transformers.logging.disable_progress_bar()
torch.set_num_threads(1)

SIZES = {"vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers", "num_layers",
         "num_attention_heads", "num_heads", "num_key_value_heads", "max_position_embeddings",
         "vocab_size_per_layer_input", "hidden_size_per_layer_input", "ffn_dim", "num_kv_heads", "n_embd", "n_layer", "n_head", "n_positions", "head_dim"}
ACTIVATIONS = ["silu", "gelu", "gelu_new", "gelu_pytorch_tanh", "relu"]


def layer_types(rng, layers):
    return [rng.choice(["full_attention", "sliding_attention"]) for _ in range(layers)]


def rope(rng, old):
    """Return rope_parameters of transformers 5, or the keys of older files."""
    theta = rng.choice([50.0, 10000.0, 500000.0])
    scaling = rng.choice([
        None, None, {"rope_type": "linear", "factor": 2.0}, {"rope_type": "dynamic", "factor": 2.0},
        {"rope_type": "yarn", "factor": rng.choice([0.5, 4.0]), "beta_fast": rng.choice([1.0, 4.0]),
         "beta_slow": 0.5, "truncate": rng.random() < 0.5, "original_max_position_embeddings": 16},
        {"rope_type": "yarn", "factor": 8.0, "mscale": 0.5, "mscale_all_dim": rng.choice([0.0, 1.5]),
         "original_max_position_embeddings": rng.choice([4, 32])},
        {"rope_type": "llama3", "factor": 4.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
         "original_max_position_embeddings": 16}])
    if old:
        return {"rope_theta": theta, "rope_scaling": scaling}
    return {"rope_parameters": {"rope_type": "default", **(scaling or {}), "rope_theta": theta}}


def llama_like(rng):
    kv = rng.choice([1, 2, 4])
    layers = rng.randrange(1, 4)
    values = {"vocab_size": 40, "hidden_size": rng.choice([16, 24, 32]),
              "intermediate_size": rng.choice([20, 36]), "num_hidden_layers": layers,
              "num_attention_heads": 4, "num_key_value_heads": kv,
              "max_position_embeddings": 64, "tie_word_embeddings": rng.random() < 0.5,
              "rms_norm_eps": rng.choice([1e-5, 1e-6, 1e-2])}
    if rng.random() < 0.4:
        values["head_dim"] = rng.choice([4, 8, 10])
    if rng.random() < 0.3:
        values["pad_token_id"] = rng.choice([0, 7, 39, None])
    return values


def windows(rng, values, *names):
    if rng.random() < 0.6:
        values["sliding_window"] = rng.randrange(1, 9)
    if rng.random() < 0.4 and values.get("sliding_window"):
        values["layer_types"] = layer_types(rng, values["num_hidden_layers"])
    for name, choices in names:
        if rng.random() < 0.6:
            values[name] = rng.choice(choices)


def llama(rng):
    values = llama_like(rng) | rope(rng, rng.random() < 0.3)
    for key in ("attention_bias", "mlp_bias"):
        values[key] = rng.random() < 0.4
    if rng.random() < 0.3:
        values["hidden_act"] = rng.choice(ACTIVATIONS)
    return values


def mistral(rng):
    values = llama_like(rng) | rope(rng, False)
    windows(rng, values)
    return values


def qwen(rng):
    values = llama_like(rng) | rope(rng, False)
    values.pop("head_dim", None)
    windows(rng, values, ("use_sliding_window", [True, False]), ("max_window_layers", [0, 1, 2]))
    return values


def qwen3(rng):
    values = qwen(rng)
    values["head_dim"] = rng.choice([4, 8])
    if rng.random() < 0.4:
        values["attention_bias"] = True
    return values


def phi3(rng):
    values = llama_like(rng) | {"pad_token_id": rng.choice([0, 5])}
    values.pop("head_dim", None)
    values["hidden_size"] = 32
    values["rope_parameters"] = {"rope_type": "default", "rope_theta": 100.0,
                                 "partial_rotary_factor": rng.choice([0.5, 1.0])}
    if rng.random() < 0.5:
        values["sliding_window"] = rng.randrange(2, 9)
    return values


def gemma(rng):
    values = llama_like(rng)
    values["head_dim"] = rng.choice([4, 8])
    values["rope_parameters"] = {"rope_type": "default", "rope_theta": rng.choice([50.0, 10000.0])}
    if rng.random() < 0.3:
        values["attention_bias"] = True
    if rng.random() < 0.3:
        values["hidden_act"] = rng.choice(ACTIVATIONS)
    return values


def gemma2(rng):
    values = gemma(rng)
    if values.pop("hidden_act", None):
        values["hidden_activation"] = rng.choice(ACTIVATIONS)
    windows(rng, values, ("query_pre_attn_scalar", [4, 12]),
            ("attn_logit_softcapping", [2.0, None]), ("final_logit_softcapping", [3.0, None]))
    return values


def gemma3(rng):
    values = gemma2(rng)
    for key in ("attn_logit_softcapping", "final_logit_softcapping", "rope_parameters"):
        values.pop(key, None)
    return values


def inputs_of_layers(rng, values):
    """Return what Gemma 4 E2B and E4B have besides, if transformers accepts it."""
    out = {"hidden_size_per_layer_input": rng.choice([4, 6, 8]),
           "vocab_size_per_layer_input": values["vocab_size"]}
    shared = rng.randrange(0, values["num_hidden_layers"])
    types = values.get("layer_types", ["sliding_attention"] * values["num_hidden_layers"])
    types = types[:-1] + ["full_attention"] # as transformers changes it
    if shared and set(types[:len(types) - shared]) == set(types):
        out |= {"num_kv_shared_layers": shared, "use_double_wide_mlp": rng.random() < 0.5}
    return out


def gemma4(rng):
    values = llama_like(rng) | {"hidden_size_per_layer_input": 0, "head_dim": rng.choice([4, 8, 10]),
                                "global_head_dim": rng.choice([8, 12]),
                                "sliding_window": rng.randrange(1, 9)}
    for key, choices in (("attention_bias", [True]), ("attention_k_eq_v", [True]),
                         ("num_global_key_value_heads", [1, 2, 4]),
                         ("final_logit_softcapping", [5.0, None]),
                         ("hidden_activation", ACTIVATIONS),
                         ("layer_types", [layer_types(rng, values["num_hidden_layers"])])):
        if rng.random() < 0.5:
            values[key] = rng.choice(choices)
    if rng.random() < 0.5:
        values |= inputs_of_layers(rng, values)
    if not values.get("use_double_wide_mlp") and rng.random() < 0.5:
        values |= {"enable_moe_block": True, "num_experts": rng.randrange(2, 6),
                   "top_k_experts": rng.randrange(1, 3), "moe_intermediate_size": rng.choice([12, 20])}
    if rng.random() < 0.5:
        values["rope_parameters"] = {
            "full_attention": {"rope_type": "proportional", "rope_theta": rng.choice([50.0, 1e6]),
                               "partial_rotary_factor": rng.choice([0.25, 0.5, 1.0])},
            "sliding_attention": {"rope_type": "default", "rope_theta": rng.choice([50.0, 1e4])}}
    return values


def gpt2(rng):
    values = {"vocab_size": 40, "n_embd": rng.choice([16, 24]), "n_layer": rng.randrange(1, 4),
              "n_head": 4, "n_positions": 32, "attn_pdrop": 0.0, "embd_pdrop": 0.0,
              "resid_pdrop": 0.0, "layer_norm_epsilon": rng.choice([1e-5, 1e-2])}
    for key, choices in (("n_inner", [20, None]), ("activation_function", ACTIVATIONS),
                         ("tie_word_embeddings", [False]), ("scale_attn_weights", [False]),
                         ("scale_attn_by_inverse_layer_idx", [True]), ("pad_token_id", [3]),
                         ("reorder_and_upcast_attn", [False])):
        if rng.random() < 0.3:
            values[key] = rng.choice(choices)
    return values


def cohere(rng):
    values = llama_like(rng) | rope(rng, False)
    values.pop("head_dim", None)
    values["layer_norm_eps"] = values.pop("rms_norm_eps")
    for key, choices in (("attention_bias", [True]), ("logit_scale", [0.5, 2.0]),
                         ("hidden_act", ACTIVATIONS), ("use_qk_norm", [True])):
        if rng.random() < 0.4:
            values[key] = rng.choice(choices)
    return values


def cohere2(rng):
    values = cohere(rng)
    values.pop("use_qk_norm", None)
    windows(rng, values)
    values.setdefault("sliding_window", rng.randrange(1, 9))
    return values


def falcon(rng):
    values = {"vocab_size": 40, "hidden_size": 32, "num_hidden_layers": rng.randrange(1, 4),
              "num_attention_heads": 4, "max_position_embeddings": 64} | rope(rng, False)
    if rng.random() < 0.5:
        values |= {"new_decoder_architecture": True, "num_kv_heads": rng.choice([1, 2, 4])}
        if rng.random() < 0.3:
            values["num_ln_in_parallel_attn"] = 1
    else:
        values["multi_query"] = rng.random() < 0.6
        values["parallel_attn"] = rng.random() < 0.6
    for key, choices in (("bias", [True]), ("ffn_hidden_size", [20]), ("activation", ["relu"]),
                         ("tie_word_embeddings", [False]), ("layer_norm_epsilon", [1e-2])):
        if rng.random() < 0.3:
            values[key] = rng.choice(choices)
    return values


def gpt_bigcode(rng):
    values = gpt2(rng)
    values.pop("reorder_and_upcast_attn", None)
    values.pop("scale_attn_by_inverse_layer_idx", None)
    values["multi_query"] = rng.random() < 0.6
    return values


def bloom(rng):
    return {"vocab_size": 40, "hidden_size": 24, "n_layer": rng.randrange(1, 4), "n_head": rng.choice([2, 3, 6]),
            "layer_norm_epsilon": rng.choice([1e-5, 1e-2]), "tie_word_embeddings": rng.random() < 0.7}


def gptj(rng):
    values = {"vocab_size": 40, "n_embd": rng.choice([16, 24]), "n_layer": rng.randrange(1, 4),
              "n_head": 2, "n_positions": 32, "rotary_dim": rng.choice([2, 4, 8]),
              "layer_norm_epsilon": rng.choice([1e-5, 1e-2])}
    for key, choices in (("n_inner", [20, None]), ("activation_function", ACTIVATIONS),
                         ("tie_word_embeddings", [True])):
        if rng.random() < 0.3:
            values[key] = rng.choice(choices)
    return values


def gpt_neo(rng):
    layers = rng.randrange(1, 4)
    values = {"vocab_size": 40, "hidden_size": 24, "num_layers": layers, "num_heads": 4,
              "max_position_embeddings": 32, "attention_dropout": 0.0, "embed_dropout": 0.0,
              "resid_dropout": 0.0, "window_size": rng.randrange(1, 9),
              "attention_types": [[[rng.choice(["global", "local"])], layers]]}
    if rng.random() < 0.3:
        values["intermediate_size"] = 20
    if rng.random() < 0.3:
        values["activation_function"] = rng.choice(ACTIVATIONS)
    return values


def gpt_neox(rng):
    values = {"vocab_size": 40, "hidden_size": 32, "intermediate_size": rng.choice([20, 48]),
              "num_hidden_layers": rng.randrange(1, 4), "num_attention_heads": 4,
              "max_position_embeddings": 64, "hidden_dropout": 0.0, "attention_dropout": 0.0,
              "rope_parameters": {"rope_type": "default", "rope_theta": 100.0,
                                  "partial_rotary_factor": rng.choice([0.25, 0.5, 1.0])}}
    for key, choices in (("use_parallel_residual", [False]), ("attention_bias", [False]),
                         ("hidden_act", ACTIVATIONS), ("tie_word_embeddings", [True]),
                         ("pad_token_id", [3])):
        if rng.random() < 0.3:
            values[key] = rng.choice(choices)
    return values


def stablelm(rng):
    values = phi(rng)
    for key, choices in (("use_parallel_residual", [True]), ("use_qkv_bias", [True])):
        if rng.random() < 0.5:
            values[key] = rng.choice(choices)
    return values


def starcoder2(rng):
    values = llama_like(rng) | rope(rng, rng.random() < 0.3)
    values.pop("head_dim", None)
    values["norm_epsilon"] = values.pop("rms_norm_eps")
    for key, choices in (("use_bias", [False]), ("hidden_act", ACTIVATIONS),
                         ("sliding_window", [1, 4, 8])):
        if rng.random() < 0.4:
            values[key] = rng.choice(choices)
    return values


def nemotron(rng):
    values = phi(rng)
    values.pop("qk_layernorm")
    values["norm_eps"] = values.pop("layer_norm_eps")
    values["head_dim"] = rng.choice([8, 16])
    for key in ("attention_bias", "mlp_bias"):
        values[key] = rng.random() < 0.4
    return values


def opt(rng):
    values = {"vocab_size": 40, "hidden_size": 24, "ffn_dim": rng.choice([20, 36]),
              "num_hidden_layers": rng.randrange(1, 4), "num_attention_heads": 4,
              "max_position_embeddings": 32, "dropout": 0.0}
    for key, choices in (("enable_bias", [False]), ("activation_function", ACTIVATIONS),
                         ("tie_word_embeddings", [False]), ("pad_token_id", [0, 7, None])):
        if rng.random() < 0.4:
            values[key] = rng.choice(choices)
    return values


def phi(rng):
    values = llama_like(rng)
    values.pop("head_dim", None)
    values["hidden_size"] = 32
    values["layer_norm_eps"] = values.pop("rms_norm_eps")
    values["rope_parameters"] = {"rope_type": "default", "rope_theta": 100.0,
                                 "partial_rotary_factor": rng.choice([0.25, 0.5, 1.0])}
    values["qk_layernorm"] = rng.random() < 0.4
    if rng.random() < 0.4:
        values["hidden_act"] = rng.choice(ACTIVATIONS)
    return values


def granite(rng):
    values = llama(rng)
    for key, choices in (("embedding_multiplier", [12.0, 0.5]), ("attention_multiplier", [0.1, 0.7]),
                         ("residual_multiplier", [0.22, 1.4]), ("logits_scaling", [8.0, 0.6])):
        if rng.random() < 0.7:
            values[key] = rng.choice(choices)
    return values


def smollm3(rng):
    values = llama(rng)
    values["pad_token_id"] = rng.choice([0, 7, None])
    windows(rng, values, ("use_sliding_window", [True, False]), ("no_rope_layer_interval", [1, 2]))
    if not values.get("use_sliding_window"): # implementations of attention disagree, we reject it
        values.pop("layer_types", None)
    if rng.random() < 0.4:
        values["no_rope_layers"] = [rng.choice([0, 1]) for _ in range(values["num_hidden_layers"])]
    return values


def seed_oss(rng):
    values = llama_like(rng) | rope(rng, False) | {"attention_dropout": 0.0, "residual_dropout": 0.0}
    values["head_dim"] = rng.choice([4, 8])
    for key in ("attention_bias", "attention_out_bias", "mlp_bias"):
        values[key] = rng.random() < 0.4
    return values


def olmo2(rng):
    values = llama(rng)
    for key in ("mlp_bias", "head_dim"):
        values.pop(key, None)
    return values


def olmo(rng):
    values = olmo2(rng)
    values.pop("rms_norm_eps")
    if rng.random() < 0.5:
        values["clip_qkv"] = rng.choice([0.3, 1.0, 8.0])
    return values


def exaone4(rng):
    values = llama_like(rng) | rope(rng, False) | {"sliding_window": rng.choice([None, 1, 4])}
    if values["sliding_window"]:
        values["sliding_window_pattern"] = rng.choice([1, 2, 4])
    else: # transformers divides by the pattern, which is 0 then, unless the types are given
        values["layer_types"] = ["full_attention"] * values["num_hidden_layers"]
    return values


def glm(rng):
    values = llama_like(rng) | {"pad_token_id": rng.choice([0, 5, None])}
    values["head_dim"] = rng.choice([4, 8])
    values["rope_parameters"] = {"rope_type": "default", "rope_theta": rng.choice([50.0, 10000.0]),
                                 "partial_rotary_factor": rng.choice([0.5, 1.0])}
    values["attention_bias"] = rng.random() < 0.6
    return values


def ernie(rng):
    values = llama_like(rng) | rope(rng, False)
    values["head_dim"] = rng.choice([4, 8])
    values["pad_token_id"] = rng.choice([0, 7, None])
    values["use_bias"] = rng.random() < 0.4
    return values


def hunyuan(rng):
    values = llama_like(rng) | rope(rng, False)
    values["head_dim"] = rng.choice([4, 8])
    values["pad_token_id"] = rng.choice([0, 7, None])
    values["attention_bias"] = rng.random() < 0.4
    return values


def apertus(rng):
    values = llama_like(rng) | rope(rng, False)
    values["pad_token_id"] = rng.choice([0, 7, None])
    values["attention_bias"] = rng.random() < 0.4
    if rng.random() < 0.2:
        values["hidden_act"] = "relu2"
    return values


def lfm2(rng):
    values = llama_like(rng) | rope(rng, False) | {
        "conv_bias": rng.random() < 0.4, "conv_L_cache": rng.choice([2, 3, 4]),
        "block_auto_adjust_ff_dim": rng.random() < 0.6, "block_multiple_of": 8,
        "block_ffn_dim_multiplier": rng.choice([1.0, 1.3, 0.7]), "pad_token_id": rng.choice([0, 7, None])}
    values["norm_eps"] = values.pop("rms_norm_eps")
    values["layer_types"] = [rng.choice(["conv", "full_attention"]) for _ in range(values["num_hidden_layers"])]
    return values


def lfm2_moe(rng):
    values = lfm2(rng)
    for key in ("block_auto_adjust_ff_dim", "block_multiple_of", "block_ffn_dim_multiplier"):
        values.pop(key)
    layers = values["num_hidden_layers"]
    values["layer_types"][-1] = "full_attention" # which adapters are for
    return values | {"moe_intermediate_size": rng.choice([12, 20]), "num_experts": rng.choice([3, 5]),
                     "num_experts_per_tok": rng.choice([1, 2, 3]), "num_dense_layers": rng.randrange(layers),
                     "norm_topk_prob": rng.random() < 0.5, "use_expert_bias": rng.random() < 0.5,
                     "routed_scaling_factor": rng.choice([1.0, 2.5])}


def state_spaces(rng):
    """Without time_step_limit, which transformers 5.24 ignores when it generates."""
    heads = rng.choice([2, 4])
    return {"mamba_n_heads": heads, "mamba_n_groups": rng.choice([1, 2]), "mamba_d_conv": rng.choice([2, 4]),
            "mamba_d_state": rng.choice([4, 10, 16]), "mamba_conv_bias": rng.random() < 0.7,
            "mamba_expand": rng.choice([1, 2])}


def granite_hybrid(rng):
    values = granite(rng)
    values["hidden_act"] = "silu"
    values |= state_spaces(rng) | {
        "shared_intermediate_size": rng.choice([20, 28]), "num_local_experts": rng.choice([0, 0, 4]),
        "position_embedding_type": rng.choice([None, "rope"]), "mamba_proj_bias": rng.random() < 0.3,
        "layer_types": [rng.choice(["linear_attention", "full_attention"]) for _ in range(values["num_hidden_layers"])]}
    values["layer_types"][-1] = "full_attention" # which adapters are for
    return values


def falcon_h1(rng):
    values = llama_like(rng) | rope(rng, False)
    values |= state_spaces(rng) | {
        "mamba_rms_norm": rng.random() < 0.6, "mamba_norm_before_gate": rng.random() < 0.5}
    values["mamba_d_ssm"] = rng.choice([None, 8 * values["mamba_n_heads"]])
    if rng.random() < 0.4:
        return values | {"mamba_proj_bias": True, "projectors_bias": True, "attention_bias": True,
                         "mlp_bias": rng.random() < 0.5}
    factor = lambda: round(rng.uniform(0.4, 1.5), 2)
    return values | {"embedding_multiplier": factor(), "lm_head_multiplier": factor(), "key_multiplier": factor(),
                     "attention_in_multiplier": factor(), "attention_out_multiplier": factor(),
                     "ssm_in_multiplier": factor(), "ssm_out_multiplier": factor(),
                     "mlp_multipliers": [factor(), factor()], "ssm_multipliers": [factor() for _ in range(5)]}


def olmo3(rng):
    values = olmo2(rng)
    for key in ("rope_theta", "rope_scaling", "rope_parameters"):
        values.pop(key, None)
    values["sliding_window"] = rng.choice([1, 4, 8])
    if rng.random() < 0.5:
        values["layer_types"] = layer_types(rng, values["num_hidden_layers"])
    if rng.random() < 0.5:
        values["rope_parameters"] = {
            "full_attention": {"rope_type": "linear", "factor": 2.0, "rope_theta": 50.0},
            "sliding_attention": {"rope_type": "default", "rope_theta": 50.0}}
    return values


def with_experts(rng, *names):
    values = llama_like(rng) | rope(rng, False)
    values["num_experts_per_tok"] = rng.choice([1, 2, 3])
    values[rng.choice(names)] = rng.choice([3, 4, 6])
    return values


def mixtral(rng):
    values = with_experts(rng, "num_local_experts")
    values["sliding_window"] = rng.choice([None, 3])
    values.setdefault("head_dim", values["hidden_size"] // 4) # scaled rotations need it
    return values


def minimax_m2(rng):
    values = with_experts(rng, "num_local_experts") | {"head_dim": rng.choice([4, 8])}
    if rng.random() < 0.5:
        values["rotary_dim"] = values["head_dim"] // 2
    return values


def olmoe(rng):
    values = with_experts(rng, "num_experts")
    values.pop("head_dim", None)
    values |= {"norm_topk_prob": rng.random() < 0.5, "pad_token_id": None}
    if rng.random() < 0.5:
        values["clip_qkv"] = rng.choice([0.3, 1.0])
    return values


def phimoe(rng):
    values = with_experts(rng, "num_local_experts")
    values.pop("head_dim", None)
    if values.get("rope_parameters", {}).get("rope_type") != "default":
        values.pop("rope_parameters", None) # transformers requires mscales of all others
    return values | {"num_experts_per_tok": 2, "attention_bias": rng.random() < 0.5, "lm_head_bias": rng.random() < 0.5,
                     "router_jitter_noise": rng.choice([0.01, 0.3]), "pad_token_id": None}


def gpt_oss(rng):
    values = with_experts(rng, "num_local_experts") | {"head_dim": rng.choice([4, 8]), "pad_token_id": None}
    return values | {"attention_bias": rng.random() < 0.7, "sliding_window": rng.randrange(1, 9),
                     "swiglu_limit": rng.choice([0.3, 7.0])}


def hunyuan_moe(rng):
    values = with_experts(rng, "num_experts") | {"head_dim": rng.choice([4, 8]), "pad_token_id": None}
    values["moe_topk"] = values.pop("num_experts_per_tok")
    return values | {"attention_bias": rng.random() < 0.5}


def granite_moe(rng):
    values = with_experts(rng, "num_local_experts")
    values.pop("head_dim", None)
    for name in ("embedding_multiplier", "attention_multiplier", "residual_multiplier", "logits_scaling"):
        values[name] = rng.choice([0.5, 1.0, 1.7])
    return values


def granite_moe_shared(rng):
    return granite_moe(rng) | {"shared_intermediate_size": rng.choice([12, 44])}


def qwen_moe(rng):
    values = olmoe(rng)
    values.pop("clip_qkv", None)
    values["moe_intermediate_size"] = rng.choice([8, 20])
    if rng.random() < 0.4:
        values["decoder_sparse_step"] = 2
        values["num_hidden_layers"] = max(2, values["num_hidden_layers"])
    return values


def qwen2_moe(rng):
    values = qwen_moe(rng)
    values["shared_expert_intermediate_size"] = rng.choice([12, 44])
    return values


def qwen3_next(rng):
    values = qwen2_moe(rng)
    values |= {"head_dim": rng.choice([8, 16]), "num_hidden_layers": rng.choice([2, 3]),
               "full_attention_interval": 2, "linear_num_key_heads": 2,
               "linear_num_value_heads": rng.choice([2, 4]), "linear_key_head_dim": rng.choice([8, 16]),
               "linear_value_head_dim": rng.choice([4, 12]), "linear_conv_kernel_dim": rng.choice([2, 4]),
               "rope_parameters": {"rope_type": "default", "rope_theta": rng.choice([50.0, 10000.0]),
                                   "partial_rotary_factor": rng.choice([0.25, 0.5])}}
    return values


def llama4(rng):
    values = with_experts(rng, "num_local_experts")
    for name in ("num_experts", "sliding_window", "layer_types"):
        values.pop(name, None)
    values |= {"intermediate_size_mlp": rng.choice([12, 44]), "head_dim": rng.choice([8, 16]),
               "use_qk_norm": rng.random() < 0.6, "no_rope_layer_interval": rng.choice([2, 4]),
               "interleave_moe_layer_step": rng.choice([1, 2]), "attention_bias": rng.random() < 0.3}
    values["num_hidden_layers"] = max(2, values["num_hidden_layers"])
    return values


def glm_moe(rng):
    values = olmoe(rng) | {"num_key_value_heads": rng.choice([2, 4]), "head_dim": rng.choice([4, 8])}
    for name in ("num_experts", "num_local_experts", "clip_qkv"):
        values.pop(name, None)
    groups = rng.choice([1, 2, 4])
    values |= {"moe_intermediate_size": rng.choice([8, 20]), "n_routed_experts": 8, "n_group": groups,
               "topk_group": max(1, groups // 2), "n_shared_experts": rng.choice([1, 2]),
               "first_k_dense_replace": rng.choice([0, 1]), "routed_scaling_factor": rng.choice([1.0, 2.5]),
               "use_qk_norm": rng.random() < 0.5, "attention_bias": rng.random() < 0.5}
    values["num_hidden_layers"] = max(2, values["num_hidden_layers"])
    return values


def ernie_moe(rng):
    values = ernie(rng)
    values.pop("head_dim")
    values["num_hidden_layers"] = max(3, values["num_hidden_layers"])
    return values | {"moe_intermediate_size": rng.choice([8, 20]), "moe_num_experts": 6, "moe_k": rng.choice([1, 3]),
                     "moe_num_shared_experts": rng.choice([1, 2]), "moe_layer_start_index": rng.choice([0, 1]),
                     "moe_layer_interval": rng.choice([1, 2])}


def latent(rng):
    """The settings of multi-head latent attention."""
    values = llama_like(rng)
    for name in ("head_dim", "rope_theta", "rope_scaling", "rope_parameters"):
        values.pop(name, None)
    values |= {"num_attention_heads": 4, "num_key_value_heads": 4, "hidden_size": 24, "pad_token_id": None,
               "q_lora_rank": rng.choice([None, 12, 20]), "kv_lora_rank": rng.choice([8, 16]),
               "qk_nope_head_dim": rng.choice([4, 8]), "qk_rope_head_dim": rng.choice([2, 4]),
               "v_head_dim": rng.choice([4, 6, 12]), "attention_bias": rng.random() < 0.5}
    if rng.random() < 0.5:
        values["rope_parameters"] = {
            "rope_type": "yarn", "rope_theta": 100.0, "factor": 4.0, "beta_fast": 32.0, "beta_slow": 1.0,
            "original_max_position_embeddings": 16, "mscale": 1.0, "mscale_all_dim": rng.choice([0.5, 1.0])}
    return values


def dbrx(rng):
    values = {"vocab_size": 40, "d_model": 24, "n_layers": rng.randrange(1, 4), "n_heads": 4,
              "max_seq_len": 512, "pad_token_id": rng.choice([0, 7, None]),
              "rope_parameters": {"rope_type": "default", "rope_theta": rng.choice([50.0, 10000.0])},
              "attn_config": {"kv_n_heads": rng.choice([1, 2, 4]), "rope_theta": 10000.0,
                              "clip_qkv": rng.choice([0.3, 1.0, 8])},
              "ffn_config": {"ffn_hidden_size": 20, "moe_num_experts": 4, "moe_top_k": rng.choice([1, 2, 3]),
                             "moe_normalize_expert_weights": rng.choice([1.0, None])}}
    if rng.random() < 0.4:
        values["ffn_config"]["ffn_act_fn"] = {"name": rng.choice(ACTIVATIONS)}
    return values


def deepseek_v3(rng):
    routed = glm_moe(rng)
    names = ("moe_intermediate_size", "n_routed_experts", "n_group", "topk_group", "n_shared_experts",
             "first_k_dense_replace", "routed_scaling_factor", "num_experts_per_tok", "norm_topk_prob")
    values = latent(rng) | {name: routed[name] for name in names}
    values["num_hidden_layers"] = max(2, values["num_hidden_layers"])
    return values


def deepseek_v2(rng):
    return deepseek_v3(rng) | {"norm_topk_prob": False,
                               "topk_method": rng.choice(["greedy", "group_limited_greedy"])}


def glm_lite(rng):
    values = deepseek_v3(rng)
    values.pop("first_k_dense_replace")
    return values


KINDS = {"llama": llama, "mistral": mistral, "qwen2": qwen, "qwen3": qwen3, "phi3": phi3,
         "gemma": gemma, "gemma2": gemma2, "gemma3_text": gemma3, "gemma4_text": gemma4,
         "gpt2": gpt2,
         "gpt_neo": gpt_neo, "gpt_neox": gpt_neox, "cohere": cohere, "cohere2": cohere2, "falcon": falcon, "gpt_bigcode": gpt_bigcode, "gptj": gptj, "bloom": bloom, "nemotron": nemotron, "opt": opt, "phi": phi,
         "stablelm": stablelm, "starcoder2": starcoder2,
         "granite": granite,
         "smollm3": smollm3,
         "seed_oss": seed_oss,
         "apertus": apertus, "arcee": llama,
         "olmo": olmo, "olmo2": olmo2,
         "exaone4": exaone4,
         "glm": glm,
         "glm4": glm,
         "ernie4_5": ernie,
         "hunyuan_v1_dense": hunyuan,
         "lfm2": lfm2, "lfm2_moe": lfm2_moe,
         "falcon_h1": falcon_h1, "granitemoehybrid": granite_hybrid,
         "olmo3": olmo3,
         "mixtral": mixtral, "minimax_m2": minimax_m2, "qwen2_moe": qwen2_moe, "qwen3_moe": qwen_moe, "olmoe": olmoe,
         "glm4_moe": glm_moe, "ernie4_5_moe": ernie_moe, "phimoe": phimoe, "gpt_oss": gpt_oss, "hunyuan_v1_moe": hunyuan_moe,
         "qwen3_next": qwen3_next,
         "deepseek_v2": deepseek_v2, "deepseek_v3": deepseek_v3, "glm4_moe_lite": glm_lite, "youtu": latent,
         "llama4_text": llama4, "dbrx": dbrx,
         "granitemoe": granite_moe, "granitemoeshared": granite_moe_shared}


def vit(rng, **more):
    return {"hidden_size": 8, "intermediate_size": 12, "num_hidden_layers": 1, "num_attention_heads": 2,
            "image_size": 8, "patch_size": 4} | more


def qwen_tower(rng, **more):
    return {"depth": 1, "hidden_size": 8, "num_heads": 2, "in_channels": 3, "patch_size": 2,
            "spatial_merge_size": 2, "temporal_patch_size": 2} | more


def with_tower(text, tower, **more):
    """Return the values of a model with a tower; transformers reads the tied head of the whole."""
    return {"text_config": text, "vision_config": tower,
            "tie_word_embeddings": text["tie_word_embeddings"]} | more


def mrope(rng, text, **more):
    text.pop("sliding_window", None), text.pop("layer_types", None)
    half = text.get("head_dim", text["hidden_size"] // 4) // 2
    first = rng.randrange(1, half)
    sections = [half - first, first, 0] if rng.random() < 0.5 else [half, 0, 0]
    text["rope_parameters"] = {"rope_type": "default", "rope_theta": rng.choice([50.0, 10000.0]),
                               "mrope_section": sections} | more
    return text


def qwen_vl(rng, text, **more):
    tokens = {"image_token_id": 260, "video_token_id": 261, "vision_start_token_id": 262,
              "vision_end_token_id": 263}
    return with_tower(text, qwen_tower(rng, **more), **tokens)


def qwen2_vl(rng):
    text = mrope(rng, qwen(rng))
    text["use_sliding_window"] = False
    return qwen_vl(rng, text, embed_dim=8, hidden_size=text["hidden_size"])


def qwen2_5_vl(rng):
    text = mrope(rng, qwen(rng))
    text["use_sliding_window"] = False
    return qwen_vl(rng, text, intermediate_size=12, out_hidden_size=text["hidden_size"],
                   fullatt_block_indexes=[0], window_size=8)


def paddleocr_vl(rng):
    text = mrope(rng, ernie(rng))
    return with_tower(text, vit(rng), image_token_id=260, video_token_id=261, vision_start_token_id=262,
                      vision_end_token_id=263)


def qwen3_vl(rng):
    text = mrope(rng, qwen3(rng), mrope_interleaved=True)
    for key in ("use_sliding_window", "max_window_layers"):
        text.pop(key, None)
    return qwen_vl(rng, text, intermediate_size=12, out_hidden_size=text["hidden_size"],
                   num_position_embeddings=16, deepstack_visual_indexes=[0])


def qwen3_vl_moe(rng):
    text = mrope(rng, qwen_moe(rng) | {"tie_word_embeddings": False}, mrope_interleaved=True)
    return qwen_vl(rng, text, intermediate_size=12, out_hidden_size=text["hidden_size"],
                   num_position_embeddings=16, deepstack_visual_indexes=[0])


def mistral_text(rng):
    values = mistral(rng) | {"model_type": "mistral"}
    values.pop("layer_types", None) # masks ignore it here, and the cache of generate does not
    return values


# Models with towers, which read text here; the values are those of their config.json.
TOWERS = {
    "llava_onevision": lambda rng: with_tower(
        qwen(rng) | {"model_type": "qwen2"}, vit(rng, model_type="siglip_vision_model", vision_use_head=False),
        image_token_index=260, video_token_index=261),
    "gemma3": lambda rng: with_tower(gemma3(rng) | {"model_type": "gemma3_text"}, vit(rng),
                                     mm_tokens_per_image=1, image_token_index=260,
                                     boi_token_index=261, eoi_token_index=262),
    "gemma4": lambda rng: with_tower(gemma4(rng), vit(
        rng, num_key_value_heads=2, head_dim=4, patch_size=2, position_embedding_size=16),
                                     # never generated: transformers embeds them as padding
                                     image_token_id=1000, video_token_id=1001, audio_token_id=1002),
    "internvl": lambda rng: with_tower(qwen(rng) | {"model_type": "qwen2"},
                                       vit(rng, image_size=[8, 8], patch_size=[4, 4]),
                                       image_token_id=260),
    "lfm2_vl": lambda rng: with_tower(lfm2(rng) | {"model_type": "lfm2"},
                                      vit(rng, model_type="siglip2_vision_model", num_patches=4),
                                      image_token_id=260, projector_hidden_size=12),
    "llava": lambda rng: with_tower(llama(rng) | {"model_type": "llama"},
                                    vit(rng, model_type="clip_vision_model"), image_token_index=260),
    "llava_next": lambda rng: with_tower(mistral_text(rng),
                                         vit(rng, model_type="clip_vision_model"),
                                         image_token_index=260, image_grid_pinpoints=[[8, 8]]),
    "mistral3": lambda rng: with_tower(mistral_text(rng),
                                       vit(rng, model_type="pixtral", head_dim=4),
                                       image_token_index=260),
    "paddleocr_vl": paddleocr_vl,
    "qwen2_5_vl": qwen2_5_vl,
    "qwen2_vl": qwen2_vl,
    "qwen3_vl": qwen3_vl,
    "qwen3_vl_moe": qwen3_vl_moe,
}


def class_of(kind):
    return (transformers.AutoModelForImageTextToText if kind in TOWERS
            else transformers.AutoModelForCausalLM)


def sequences(rng):
    return [[rng.randrange(40) for _ in range(rng.randrange(2, 14))]
            for _ in range(rng.randrange(1, 4))]


def write(folder, kind, values, seed):
    """Write a model folder with transformers, with random changes to the initial biases and norms."""
    torch.manual_seed(seed)
    text = values.get("text_config", values)
    if "vocab_size_per_layer_input" in text:
        text["vocab_size_per_layer_input"] = text["vocab_size"]
    if kind in TOWERS:
        values["text_config"]["initializer_range"] = 0.2
        config = transformers.CONFIG_MAPPING[kind](**values)
    else:
        config = transformers.CONFIG_MAPPING[kind](initializer_range=0.2, **values)
    model = class_of(kind).from_config(config)
    with torch.no_grad():
        for p in model.parameters():
            if p.dim() == 1:
                p.add_(0.2 * torch.randn(p.shape))
        for name, b in model.named_buffers():
            if name.endswith("layer_scalar"):
                b.add_(0.2 * torch.randn(b.shape))
    model.save_pretrained(folder)
    if "rope_theta" in values: # the keys of older files
        path = os.path.join(folder, "config.json")
        with open(path, encoding="utf-8") as f:
            saved = json.load(f)
        saved.pop("rope_parameters", None)
        saved |= {key: values[key] for key in ("rope_theta", "rope_scaling")}
        with open(path, "w", encoding="utf-8") as f:
            json.dump(saved, f)


def name_in_files(kind, name):
    if kind in ("mixtral", "minimax_m2"):
        return name.replace(".mlp.", ".block_sparse_moe.")
    if kind.startswith("granitemoe"):
        return name.replace(".router.weight", ".router.layer.weight")
    return "embed_out.weight" if kind == "gpt_neox" and name == "lm_head.weight" else name


def parts_in_files(kind, name, tensor):
    """Return what the files have of a parameter: the matrices of each expert."""
    names = ("w1", "w3", "w2") if kind in ("mixtral", "minimax_m2", "lfm2_moe") else ("gate_proj", "up_proj", "down_proj")
    name = name_in_files(kind, name)
    stem, _, leaf = name.rpartition(".")
    if kind == "dbrx" and leaf in ("w1", "v1", "w2"): # four experts
        return {f"{stem}.{e}.{leaf}.weight": part for e, part in enumerate(tensor.chunk(4))}
    if kind == "llama4_text" and leaf in ("gate_up_proj", "down_proj") and tensor.dim() == 3: # in columns
        parts = zip(("gate_projs", "up_projs"), tensor.chunk(2, dim=2)) if leaf == "gate_up_proj" else [("down_projs", tensor)]
        return {f"{stem}.{n}.{e}.weight": part for n, whole in parts for e, part in enumerate(whole)}
    if leaf == "gate_up_proj":
        return {f"{stem}.{e}.{n}.weight": half for e, pair in enumerate(zip(*tensor.chunk(2, dim=1)))
                for n, half in zip(names, pair)}
    if leaf == "down_proj":
        return {f"{stem}.{e}.{names[2]}.weight": part for e, part in enumerate(tensor)}
    return {name: tensor}


def answer(folder, kind, batch):
    model = transformers.AutoModelForCausalLM.from_pretrained(
        folder, dtype=torch.float32, attn_implementation="eager").train()
    total = sum(model(input_ids=torch.tensor([ids]), labels=torch.tensor([ids])).loss
                * (len(ids) - 1) for ids in batch)
    loss = total / sum(len(ids) - 1 for ids in batch)
    loss.backward()
    return {"loss": loss.item(),
            "norms": {n: t.double().norm().item() for name, p in model.named_parameters()
                      for n, t in parts_in_files(kind, name, torch.zeros_like(p) if p.grad is None
                                                 else p.grad).items()}}


def near(mine, theirs):
    if "loss" not in mine or abs(mine["loss"] - theirs["loss"]) > 2e-5 * abs(theirs["loss"]):
        return False
    largest = max(theirs["norms"].values())
    return mine["norms"].keys() == theirs["norms"].keys() and all(
        abs(mine["norms"][n] - x) <= 2e-4 * x + 2e-6 * largest for n, x in theirs["norms"].items())
