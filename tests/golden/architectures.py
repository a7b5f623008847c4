#!/usr/bin/env python3
"""Make architectures.json: tiny models of every architecture, computed by transformers, for
tests/unit/test_architectures.c: loss, logits, the norm of each gradient and ten steps of AdamW, with
weight decay for the parameters that transformers chooses; and adapters, trained by PEFT.

    python3 tests/golden/architectures.py               (on a CPU)
    python3 tests/golden/architectures.py llama llama-lora

The second form makes only the cases with these names, and keeps the others in architectures.json.

The weights come from no file: element i of a tensor, in the order of its file, is a hash of the
tensor's name and i (`elements`), which the test computes in the same way.  Wherever transformers
calls dropout, the mask is the one that base/random.h draws (`Dropout`).
"""
import contextlib
import json
import os
import sys
import tempfile
import warnings

import numpy
import torch
import transformers
from peft import LoraConfig, PeftModel, get_peft_model
from peft.utils import transformers_weight_conversion
from safetensors.torch import load_file, save_file
from transformers.models.llama import modeling_llama
from transformers.models.mixtral.modeling_mixtral import load_balancing_loss_func
from transformers.trainer_pt_utils import get_parameter_names

warnings.filterwarnings("ignore")
transformers.logging.set_verbosity_error()

LENGTHS = (13, 9)
STEPS, LR, DECAY = 10, 3e-3, 0.1
LLAMA = {"vocab_size": 40, "hidden_size": 24, "intermediate_size": 36, "num_hidden_layers": 2,
         "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 64,
         "initializer_range": 0.2}
GPT2 = {"vocab_size": 40, "n_embd": 24, "n_layer": 2, "n_head": 4, "n_positions": 16,
        "attn_pdrop": 0.0, "embd_pdrop": 0.0, "resid_pdrop": 0.0}
NEO = {"vocab_size": 40, "hidden_size": 24, "num_layers": 2, "num_heads": 4,
       "max_position_embeddings": 16}
NEOX = {"vocab_size": 40, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2,
        "num_attention_heads": 4, "max_position_embeddings": 64}
GEMMA = dict(LLAMA, head_dim=8, num_hidden_layers=3)
STABLELM = dict(LLAMA, hidden_size=32)
STARCODER2 = dict(LLAMA, sliding_window=5)
FALCON = {"vocab_size": 40, "hidden_size": 24, "num_hidden_layers": 2,
          "num_attention_heads": 4, "max_position_embeddings": 64}
BLOOM = {"vocab_size": 40, "hidden_size": 24, "n_layer": 2, "n_head": 4}
OPT = {"vocab_size": 40, "hidden_size": 24, "ffn_dim": 36, "num_hidden_layers": 2,
       "num_attention_heads": 4, "max_position_embeddings": 16, "dropout": 0.0}
PHI = dict(LLAMA, hidden_size=32)


def hashed(name, count):
    """Return values in [-1, 1): FNV-1a of the name, then MurmurHash3's last mix with the index."""
    seed = 2166136261
    for byte in name.encode():
        seed = (seed ^ byte) * 16777619 % 2**32
    x = (seed + numpy.arange(count, dtype=numpy.uint64) * 0x9E3779B9) % 2**32
    x = (x ^ (x >> 16)) * 0x85EBCA6B % 2**32
    x = (x ^ (x >> 13)) * 0xC2B2AE35 % 2**32
    x = x ^ (x >> 16)
    return (x >> 8).astype(numpy.float64) / 2**23 - 1


def tokens(count, stream):
    return [int(x) for x in (hashed(f"tokens {stream}", count) + 1) * 20]


CASES = {
    "llama": ("llama", dict(LLAMA, attention_bias=True, mlp_bias=True, rope_parameters={
        "rope_type": "llama3", "rope_theta": 50.0, "factor": 4.0, "low_freq_factor": 1.0,
        "high_freq_factor": 4.0, "original_max_position_embeddings": 16})),
    "llama-padded": ("llama", dict(LLAMA, tie_word_embeddings=True, pad_token_id=tokens(13, 0)[3])),
    "mistral": ("mistral", dict(LLAMA, sliding_window=5)),
    "qwen2": ("qwen2", dict(LLAMA, tie_word_embeddings=True, use_sliding_window=True,
                            sliding_window=4, max_window_layers=1)),
    "qwen3": ("qwen3", dict(LLAMA, head_dim=8)),
    "qwen3-biased": ("qwen3", dict(LLAMA, head_dim=4, attention_bias=True,
                                   tie_word_embeddings=True)),
    "phi3": ("phi3", dict(LLAMA, hidden_size=32, sliding_window=5, pad_token_id=0,
                          rope_parameters={"rope_type": "default", "rope_theta": 100.0,
                                           "partial_rotary_factor": 0.5})),
    "gpt2": ("gpt2", dict(GPT2)),
    "gpt2-untied": ("gpt2", dict(GPT2, tie_word_embeddings=False, n_inner=40,
                                 activation_function="gelu",
                                 scale_attn_by_inverse_layer_idx=True)),
    "gpt2-unscaled": ("gpt2", dict(GPT2, activation_function="relu", scale_attn_weights=False)),
    "gpt_neo": ("gpt_neo", dict(NEO, attention_types=[[["global", "local"], 1]],
                                window_size=4)),
    "gpt_neox": ("gpt_neox", dict(NEOX, rope_parameters={
        "rope_type": "default", "rope_theta": 100.0, "partial_rotary_factor": 0.5})),
    "gpt_neox-sequential": ("gpt_neox", dict(NEOX, use_parallel_residual=False,
                                             attention_bias=False)),
    "gemma": ("gemma", dict(GEMMA, hidden_act="gelu_pytorch_tanh")),
    "gemma2": ("gemma2", dict(GEMMA, sliding_window=4, query_pre_attn_scalar=12,
                              attn_logit_softcapping=2.0, final_logit_softcapping=3.0)),
    "gemma3": ("gemma3_text", dict(GEMMA, sliding_window=4, query_pre_attn_scalar=12,
                                   sliding_window_pattern=2)),
}
CASES |= {
    "gpt2-dropping": ("gpt2", dict(GPT2, embd_pdrop=0.1, resid_pdrop=0.2, attn_pdrop=0.3)),
    "gpt_neo-dropping": ("gpt_neo", dict(
        NEO, attention_types=[[["global", "local"], 1]], window_size=4, embed_dropout=0.3,
        resid_dropout=0.1, attention_dropout=0.2)),
    "gpt_neox-dropping": ("gpt_neox", dict(NEOX, hidden_dropout=0.2, attention_dropout=0.1)),
    "gpt_neox-sequential-dropping": ("gpt_neox", dict(
        NEOX, use_parallel_residual=False, hidden_dropout=0.2, attention_dropout=0.1)),
    "phi3-dropping": ("phi3", dict(CASES["phi3"][1], resid_pdrop=0.2, embd_pdrop=0.4,
                                   attention_dropout=0.3)),
    "llama-dropping": ("llama", dict(LLAMA, attention_dropout=0.3)),
    "gemma2-dropping": ("gemma2", dict(CASES["gemma2"][1], attention_dropout=0.2)),
}
CASES |= {
    "cohere": ("cohere", dict(LLAMA, logit_scale=0.5, pad_token_id=5)),
    "cohere-biased": ("cohere", dict(LLAMA, attention_bias=True, tie_word_embeddings=False,
                                     attention_dropout=0.2)),
    "cohere-normed": ("cohere", dict(LLAMA, use_qk_norm=True, pad_token_id=None)),
    "cohere2": ("cohere2", dict(LLAMA, num_hidden_layers=3, sliding_window=5,
                                layer_types=["sliding_attention", "full_attention",
                                             "sliding_attention"])),
    "falcon": ("falcon", dict(FALCON)),
    "falcon-sequential": ("falcon", dict(FALCON, parallel_attn=False, multi_query=False,
                                         bias=True, tie_word_embeddings=False)),
    "falcon-40b": ("falcon", dict(FALCON, new_decoder_architecture=True, num_kv_heads=2,
                                  bias=True, ffn_hidden_size=40)),
    "falcon-11b": ("falcon", dict(FALCON, new_decoder_architecture=True, num_kv_heads=2,
                                  num_ln_in_parallel_attn=1)),
    "gpt_bigcode": ("gpt_bigcode", dict(GPT2)),
    "gpt_bigcode-heads": ("gpt_bigcode", dict(GPT2, multi_query=False, n_inner=40,
                                              tie_word_embeddings=False)),
    "gpt_bigcode-dropping": ("gpt_bigcode", dict(GPT2, embd_pdrop=0.1, resid_pdrop=0.2,
                                                 attn_pdrop=0.3)),
    "bloom": ("bloom", dict(BLOOM)),
    "bloom-dropping": ("bloom", dict(BLOOM, n_head=3, tie_word_embeddings=False, hidden_dropout=0.2,
                                     attention_dropout=0.3)),
    "gptj": ("gptj", dict(GPT2, rotary_dim=4)),
    "gptj-dropping": ("gptj", dict(GPT2, n_head=2, rotary_dim=12, n_inner=40, embd_pdrop=0.1,
                                   resid_pdrop=0.2, attn_pdrop=0.3)),
    "nemotron": ("nemotron", dict(LLAMA, head_dim=8)),
    "nemotron-biased": ("nemotron", dict(
        LLAMA, hidden_size=32, attention_bias=True, mlp_bias=True, tie_word_embeddings=True,
        rope_parameters={"rope_type": "default", "rope_theta": 100.0,
                         "partial_rotary_factor": 0.25})),
    "opt": ("opt", dict(OPT)),
    "opt-dropping": ("opt", dict(OPT, enable_bias=False, activation_function="gelu",
                                 tie_word_embeddings=False, dropout=0.1,
                                 attention_dropout=0.2)),
    "phi": ("phi", dict(PHI)),
    "phi-dropping": ("phi", dict(PHI, num_key_value_heads=4, tie_word_embeddings=True,
                                 embd_pdrop=0.2, resid_pdrop=0.1, attention_dropout=0.3)),
    "phi-normed": ("phi", dict(PHI, qk_layernorm=True, num_key_value_heads=4)),
    "stablelm": ("stablelm", dict(STABLELM)),
    "stablelm-normed": ("stablelm", dict(STABLELM, qk_layernorm=True)),
    "stablelm-normed-key": ("stablelm", dict(STABLELM, qk_layernorm=True, num_key_value_heads=1)),
    "stablelm-parallel": ("stablelm", dict(STABLELM, use_parallel_residual=True,
                                           use_qkv_bias=True, pad_token_id=5)),
    "stablelm-dropping": ("stablelm", dict(STABLELM, hidden_dropout=0.2,
                                           attention_dropout=0.3)),
    "stablelm-parallel-dropping": ("stablelm", dict(STABLELM, use_parallel_residual=True,
                                                    hidden_dropout=0.2)),
    "starcoder2": ("starcoder2", dict(STARCODER2)),
    "starcoder2-dropping": ("starcoder2", dict(
        LLAMA, use_bias=False, tie_word_embeddings=False, embedding_dropout=0.2,
        residual_dropout=0.1, attention_dropout=0.3)),
    "granite": ("granite", dict(LLAMA, attention_bias=True, mlp_bias=True, embedding_multiplier=3.0,
                                attention_multiplier=0.3, residual_multiplier=0.4,
                                logits_scaling=1.7)),
    "smollm3": ("smollm3", dict(LLAMA, num_hidden_layers=3, no_rope_layers=[1, 0, 1],
                                use_sliding_window=True, sliding_window=4, pad_token_id=None)),
    "seed_oss": ("seed_oss", dict(LLAMA, head_dim=8, attention_out_bias=True, mlp_bias=True,
                                  attention_dropout=0.0, residual_dropout=0.0)),
    "seed_oss-dropping": ("seed_oss", dict(LLAMA, head_dim=8, pad_token_id=None,
                                           attention_dropout=0.2, residual_dropout=0.1)),
    "apertus": ("apertus", dict(LLAMA, pad_token_id=3, rope_parameters={
        "rope_type": "llama3", "rope_theta": 50.0, "factor": 4.0, "low_freq_factor": 1.0,
        "high_freq_factor": 4.0, "original_max_position_embeddings": 16})),
    "apertus-biased": ("apertus", dict(LLAMA, attention_bias=True, tie_word_embeddings=True,
                                       attention_dropout=0.2, rope_parameters={
                                           "rope_type": "default", "rope_theta": 100.0})),
    "arcee": ("arcee", dict(LLAMA, mlp_bias=True)),
    "olmo": ("olmo", dict(LLAMA, pad_token_id=1)),
    "olmo-clipped": ("olmo", dict(LLAMA, pad_token_id=1, clip_qkv=0.5)),
    "olmo2": ("olmo2", dict(LLAMA, attention_bias=True)),
    "exaone4": ("exaone4", dict(LLAMA, num_hidden_layers=3, sliding_window=4,
                                sliding_window_pattern=2)),
    "glm": ("glm", dict(LLAMA, head_dim=8, pad_token_id=None)),
    "glm4": ("glm4", dict(LLAMA, head_dim=8, attention_bias=False, pad_token_id=3, rope_parameters={
        "rope_type": "default", "rope_theta": 100.0, "partial_rotary_factor": 0.25})),
    "ernie4_5": ("ernie4_5", dict(LLAMA, head_dim=8, use_bias=True, pad_token_id=None)),
    "hunyuan": ("hunyuan_v1_dense", dict(
        LLAMA, head_dim=8, attention_bias=True, pad_token_id=None, rope_parameters={
            "rope_type": "dynamic", "rope_theta": 100.0, "factor": 1.0, "alpha": 50.0})),
    "olmo3": ("olmo3", dict(LLAMA, sliding_window=4, layer_types=["full_attention",
                                                                  "sliding_attention"],
                            rope_parameters={
        "full_attention": {"rope_type": "linear", "rope_theta": 50.0, "factor": 4.0},
        "sliding_attention": {"rope_type": "default", "rope_theta": 100.0}})),
    "qwen3_5": ("qwen3_5_text", dict(
        LLAMA, head_dim=16, linear_num_key_heads=2, linear_num_value_heads=4,
        linear_key_head_dim=8, linear_value_head_dim=12, full_attention_interval=2)),
    "qwen3_5-biased": ("qwen3_5_text", dict(
        LLAMA, head_dim=8, attention_bias=True, tie_word_embeddings=True, pad_token_id=5,
        linear_num_key_heads=1, linear_num_value_heads=3, linear_key_head_dim=16,
        linear_value_head_dim=8, linear_conv_kernel_dim=3,
        layer_types=["full_attention", "linear_attention"], rope_parameters={
            "rope_type": "default", "rope_theta": 100.0, "partial_rotary_factor": 0.5})),
    "gemma4": ("gemma4_text", dict(
        GEMMA, sliding_window=3, hidden_size_per_layer_input=0, global_head_dim=16,
        attention_k_eq_v=True, num_global_key_value_heads=1, final_logit_softcapping=8.0,
        layer_types=["full_attention", "sliding_attention", "full_attention"])),
    "gemma4-biased": ("gemma4_text", dict(
        GEMMA, sliding_window=5, hidden_size_per_layer_input=0, global_head_dim=12,
        attention_bias=True, num_global_key_value_heads=1, pad_token_id=5, num_hidden_layers=4,
        tie_word_embeddings=False, attention_dropout=0.2, rope_parameters={
            "full_attention": {"rope_type": "proportional", "rope_theta": 100.0,
                               "partial_rotary_factor": 0.5, "factor": 2.0},
            "sliding_attention": {"rope_type": "default", "rope_theta": 50.0}},
        layer_types=["sliding_attention", "full_attention", "sliding_attention",
                     "sliding_attention"])),
    "lfm2": ("lfm2", dict(LLAMA, num_hidden_layers=3, full_attn_idxs=[1], block_multiple_of=8,
                          block_ffn_dim_multiplier=1.3)),
    "lfm2-biased": ("lfm2", dict(
        LLAMA, conv_bias=True, conv_L_cache=4, block_auto_adjust_ff_dim=False, head_dim=8,
        tie_word_embeddings=False, pad_token_id=None, layer_types=["full_attention", "conv"],
        rope_parameters={"rope_type": "default", "rope_theta": 100.0})),
    "gemma4_moe": ("gemma4_text", dict(
        GEMMA, sliding_window=4, hidden_size_per_layer_input=0, global_head_dim=16,
        attention_k_eq_v=True, num_global_key_value_heads=1, final_logit_softcapping=8.0,
        enable_moe_block=True, num_experts=6, top_k_experts=2, moe_intermediate_size=20,
        layer_types=["sliding_attention", "full_attention", "full_attention"])),
    # E2B: inputs for each layer, keys and values of earlier layers, and MLPs of twice the size.
    # The sizes are some for which rounding to 16 bits changes little.
    "gemma4_e": ("gemma4_text", dict(
        GEMMA, sliding_window=4, hidden_size_per_layer_input=12, vocab_size_per_layer_input=40,
        global_head_dim=16, num_global_key_value_heads=1, final_logit_softcapping=8.0,
        num_hidden_layers=5, num_kv_shared_layers=3, use_double_wide_mlp=True,
        layer_types=["sliding_attention", "full_attention", "sliding_attention",
                     "full_attention", "full_attention"])),
    "gemma4_e-inputs": ("gemma4_text", dict(
        GEMMA, sliding_window=4, hidden_size_per_layer_input=12, vocab_size_per_layer_input=40,
        global_head_dim=8, tie_word_embeddings=False, pad_token_id=tokens(13, 0)[3],
        attention_bias=True,
        layer_types=["sliding_attention", "full_attention", "full_attention"])),
    "gemma4_e-shared": ("gemma4_text", dict(
        GEMMA, sliding_window=4, hidden_size_per_layer_input=8, vocab_size_per_layer_input=40,
        global_head_dim=16, attention_k_eq_v=True, num_global_key_value_heads=2,
        num_hidden_layers=5, num_kv_shared_layers=2, layer_types=[
            "sliding_attention", "full_attention", "full_attention", "sliding_attention",
            "full_attention"])),
    "minicpm": ("minicpm", dict(LLAMA, scale_emb=3, scale_depth=1.4, dim_model_base=10)),
}
# Models with experts.  With output_router_logits, the load balancing loss is part of the loss.
MIXTRAL = dict(LLAMA, num_local_experts=4)
DBRX_EXPERTS = 4
DBRX = {"vocab_size": 40, "d_model": 24, "n_heads": 4, "n_layers": 2, "max_seq_len": 64,
        "initializer_range": 0.2, "rope_parameters": {"rope_type": "default", "rope_theta": 100.0},
        "attn_config": {"clip_qkv": 0.8, "kv_n_heads": 2, "rope_theta": 100.0},
        "ffn_config": {"ffn_hidden_size": 20, "moe_num_experts": DBRX_EXPERTS, "moe_top_k": 2}}
QWEN_MOE = dict(LLAMA, moe_intermediate_size=20, num_experts_per_tok=2)
LATENT = dict(LLAMA, num_key_value_heads=4, q_lora_rank=20, kv_lora_rank=16, qk_nope_head_dim=8,
              qk_rope_head_dim=4, v_head_dim=6)
YARN = {"rope_type": "yarn", "rope_theta": 100.0, "factor": 4.0, "beta_fast": 32.0, "beta_slow": 1.0,
        "original_max_position_embeddings": 8}
ROUTED = dict(LLAMA, moe_intermediate_size=20, n_routed_experts=8, num_experts_per_tok=3)
DEEPSEEK = LATENT | ROUTED | {"num_key_value_heads": 4}
CASES |= {
    "mixtral": ("mixtral", dict(MIXTRAL, sliding_window=5)),
    "mixtral-balanced": ("mixtral", dict(MIXTRAL, output_router_logits=True,
                                         router_aux_loss_coef=0.3)),
    "mixtral-jittered": ("mixtral", dict(MIXTRAL, router_jitter_noise=0.3)),
    "minimax_m2": ("minimax_m2", dict(
        LLAMA, head_dim=8, num_local_experts=6, num_experts_per_tok=3, pad_token_id=None, rotary_dim=4,
        rope_theta=100.0)),
    "minimax_m2-whole": ("minimax_m2", dict(
        LLAMA, head_dim=4, num_local_experts=4, num_experts_per_tok=2, tie_word_embeddings=True,
        pad_token_id=5, attention_dropout=0.2)),
    "phimoe": ("phimoe", dict(
        LLAMA, hidden_size=32, num_local_experts=5, attention_bias=True, lm_head_bias=True,
        pad_token_id=None, router_jitter_noise=0.2, input_jitter_noise=0.1, sliding_window=7,
        rope_parameters={
            "rope_type": "longrope", "rope_theta": 100.0, "short_mscale": 1.3, "long_mscale": 1.6,
            "short_factor": [1.0, 1.25, 1.5, 2.0], "long_factor": [1.5, 2.0, 3.0, 6.0],
            "original_max_position_embeddings": 32})),
    "phimoe-plain": ("phimoe", dict(LLAMA, num_local_experts=4, pad_token_id=None,
                                    output_router_logits=True, router_aux_loss_coef=0.3)),
    "qwen2_moe": ("qwen2_moe", dict(QWEN_MOE, num_experts=5, shared_expert_intermediate_size=28,
                                    output_router_logits=True, router_aux_loss_coef=0.2)),
    "qwen2_moe-dense": ("qwen2_moe", dict(QWEN_MOE, num_experts=4, num_hidden_layers=3,
                                          shared_expert_intermediate_size=44, qkv_bias=False,
                                          mlp_only_layers=[1], norm_topk_prob=True)),
    "qwen3_5_moe": ("qwen3_5_moe_text", dict(
        {k: v for k, v in LLAMA.items() if k != "intermediate_size"}, head_dim=16,
        num_experts=5, num_experts_per_tok=2, moe_intermediate_size=20,
        shared_expert_intermediate_size=28, linear_num_key_heads=2, linear_num_value_heads=4,
        linear_key_head_dim=8, linear_value_head_dim=12, full_attention_interval=2)),
    "llama4": ("llama4_text", dict(
        LLAMA, head_dim=16, intermediate_size=20, intermediate_size_mlp=44, num_local_experts=5,
        num_hidden_layers=3, no_rope_layers=[1, 0, 1], interleave_moe_layer_step=1)),
    "llama4-dense": ("llama4_text", dict(
        LLAMA, head_dim=8, intermediate_size=20, intermediate_size_mlp=44, num_local_experts=4,
        num_experts_per_tok=2, num_hidden_layers=4, interleave_moe_layer_step=2,
        no_rope_layer_interval=2, use_qk_norm=False, attention_bias=True, attention_chunk_size=None,
        attn_temperature_tuning=False)),
    "llama4-chunks": ("llama4_text", dict(
        LLAMA, head_dim=8, intermediate_size=20, intermediate_size_mlp=44, num_local_experts=4,
        num_hidden_layers=3, no_rope_layers=[1, 0, 1], attention_chunk_size=4, floor_scale=3,
        attn_scale=0.7)),
    "llama4-types": ("llama4_text", dict(
        LLAMA, head_dim=8, intermediate_size_mlp=44, moe_layers=[], no_rope_layers=[0, 1],
        layer_types=["chunked_attention", "full_attention"], attention_chunk_size=5, floor_scale=2,
        attn_scale=0.3)),
    "ministral3-scaled": ("ministral3", dict(
        LLAMA, head_dim=8, pad_token_id=None, rope_parameters={
            "rope_type": "yarn", "rope_theta": 100.0, "factor": 4.0, "beta_fast": 32.0,
            "beta_slow": 1.0, "original_max_position_embeddings": 4, "llama_4_scaling_beta": 0.6,
            "mscale": 1.0, "mscale_all_dim": 1.0})),
    "llama4-without-experts": ("llama4_text", dict(
        LLAMA, head_dim=16, intermediate_size_mlp=44, moe_layers=[], no_rope_layers=[1, 1],
        tie_word_embeddings=True)),
    "qwen3_next": ("qwen3_next", dict(
        QWEN_MOE, num_experts=5, head_dim=16, shared_expert_intermediate_size=36,
        linear_num_key_heads=2, linear_num_value_heads=4, linear_key_head_dim=8,
        linear_value_head_dim=12, full_attention_interval=2)),
    "qwen3_next-dense": ("qwen3_next", dict(
        QWEN_MOE, num_hidden_layers=3, num_experts=4, num_experts_per_tok=3, head_dim=8,
        attention_bias=True, shared_expert_intermediate_size=20, mlp_only_layers=[1],
        norm_topk_prob=False, tie_word_embeddings=True, output_router_logits=True,
        router_aux_loss_coef=0.3, linear_num_key_heads=1, linear_num_value_heads=3,
        linear_key_head_dim=16, linear_value_head_dim=8, linear_conv_kernel_dim=3,
        layer_types=["full_attention", "linear_attention", "linear_attention"],
        rope_parameters={"rope_type": "default", "rope_theta": 100.0,
                         "partial_rotary_factor": 0.5})),
    "qwen3_moe": ("qwen3_moe", dict(QWEN_MOE, num_local_experts=6, head_dim=8, norm_topk_prob=True)),
    "qwen3_moe-dense": ("qwen3_moe", dict(
        QWEN_MOE, num_local_experts=5, num_experts_per_tok=3, head_dim=8, attention_bias=True,
        decoder_sparse_step=2, num_hidden_layers=4, tie_word_embeddings=True,
        output_router_logits=True, router_aux_loss_coef=0.5)),
    "granitemoe": ("granitemoe", dict(MIXTRAL, embedding_multiplier=3.0, attention_multiplier=0.3,
                                      residual_multiplier=0.4, logits_scaling=1.7,
                                      output_router_logits=True, router_aux_loss_coef=0.3)),
    "granitemoeshared": ("granitemoeshared", dict(MIXTRAL, num_experts_per_tok=3,
                                                  shared_intermediate_size=20, attention_bias=True,
                                                  tie_word_embeddings=True)),
    "olmoe": ("olmoe", dict(LLAMA, num_experts=5, num_experts_per_tok=2, pad_token_id=None)),
    "olmoe-clipped": ("olmoe", dict(LLAMA, num_experts=5, num_experts_per_tok=2, clip_qkv=0.8)),
    "dbrx": ("dbrx", dict(DBRX)),
    "dbrx-balanced": ("dbrx", dict(
        DBRX, output_router_logits=True, pad_token_id=5, ffn_config=dict(
            DBRX["ffn_config"], moe_loss_weight=0.3, moe_normalize_expert_weights=None))),
    "dbrx-jittered": ("dbrx", dict(DBRX, ffn_config=dict(DBRX["ffn_config"], moe_jitter_eps=0.2))),
    "deepseek_v2": ("deepseek_v2", dict(
        DEEPSEEK, num_hidden_layers=3, first_k_dense_replace=1, topk_method="group_limited_greedy",
        n_group=4, topk_group=2, n_shared_experts=2, routed_scaling_factor=1.5, mlp_bias=True)),
    "deepseek_v2-lite": ("deepseek_v2", dict(
        DEEPSEEK, q_lora_rank=None, topk_method="greedy", n_group=1, topk_group=1,
        attention_bias=True, rope_parameters=dict(YARN, mscale=0.7, mscale_all_dim=0.5))),
    "deepseek_v3": ("deepseek_v3", dict(
        DEEPSEEK, num_hidden_layers=3, first_k_dense_replace=1, n_group=4, topk_group=2,
        attention_bias=True, rope_parameters=dict(YARN, mscale=1.0, mscale_all_dim=1.0))),
    "deepseek_v3-dense": ("deepseek_v3", dict(DEEPSEEK, first_k_dense_replace=2)),
    "deepseek_v3-halves": ("deepseek_v3", dict(
        DEEPSEEK, q_lora_rank=None, v_head_dim=16, rope_interleave=False, first_k_dense_replace=0,
        n_group=1, topk_group=1, norm_topk_prob=False, n_shared_experts=2)),
    "glm4_moe_lite": ("glm4_moe_lite", dict(
        DEEPSEEK, num_hidden_layers=3, v_head_dim=12, mlp_layer_types=["dense", "sparse", "dense"],
        rms_norm_eps=1e-3, attention_dropout=0.2)),
    "youtu": ("youtu", dict({k: v for k, v in DEEPSEEK.items() if k in LATENT},
                            rope_parameters={"rope_type": "default", "rope_theta": 100.0})),
    "ernie4_5_moe": ("ernie4_5_moe", dict(
        LLAMA, num_hidden_layers=4, moe_intermediate_size=16, moe_num_experts=6, moe_k=3,
        moe_num_shared_experts=2, moe_layer_start_index=1, moe_layer_end_index=2, pad_token_id=None)),
    "ernie4_5_moe-biased": ("ernie4_5_moe", dict(
        LLAMA, moe_intermediate_size=20, moe_num_experts=5, moe_k=2, moe_num_shared_experts=1,
        moe_layer_interval=2, use_bias=True, tie_word_embeddings=False, pad_token_id=5)),
    "glm4_moe": ("glm4_moe", dict(ROUTED, num_hidden_layers=3, head_dim=8, use_qk_norm=True,
                                  attention_bias=True, n_group=4, topk_group=2, n_shared_experts=2,
                                  routed_scaling_factor=1.5)),
    "hunyuan_v1_moe": ("hunyuan_v1_moe", dict(
        LLAMA, head_dim=8, num_experts=5, moe_topk=[2, 2], attention_bias=True, pad_token_id=None,
        rope_parameters={"rope_type": "dynamic", "rope_theta": 100.0, "factor": 1.0,
                         "alpha": 50.0})),
    "gpt_oss": ("gpt_oss", dict(
        LLAMA, num_hidden_layers=3, head_dim=8, num_local_experts=6, num_experts_per_tok=3,
        sliding_window=4, swiglu_limit=0.3, output_router_logits=True, router_aux_loss_coef=0.3,
        rope_parameters={"rope_type": "yarn", "rope_theta": 50.0, "factor": 4.0, "truncate": False,
                         "beta_fast": 3.0, "original_max_position_embeddings": 16})),
    "gpt_oss-full": ("gpt_oss", dict(
        LLAMA, head_dim=4, num_local_experts=4, num_experts_per_tok=4, attention_bias=False,
        swiglu_alpha=1.1, layer_types=["full_attention", "full_attention"],
        tie_word_embeddings=True, attention_dropout=0.3,
        rope_parameters={"rope_type": "default", "rope_theta": 100.0})),
    "glm4_moe-dense": ("glm4_moe", dict(ROUTED, head_dim=8, first_k_dense_replace=2)),
    "lfm2_moe": ("lfm2_moe", dict(
        LLAMA, num_hidden_layers=3, moe_intermediate_size=20, num_experts=5, num_experts_per_tok=2,
        num_dense_layers=1, routed_scaling_factor=1.5, layer_types=["conv", "full_attention", "conv"])),
    "lfm2_moe-plain": ("lfm2_moe", dict(
        LLAMA, moe_intermediate_size=20, num_experts=4, num_experts_per_tok=3, num_dense_layers=0,
        use_expert_bias=False, norm_topk_prob=False, conv_bias=True, conv_L_cache=2, head_dim=8,
        tie_word_embeddings=False, layer_types=["full_attention", "conv"])),
    "glm4_moe-plain": ("glm4_moe", dict(ROUTED, first_k_dense_replace=0, norm_topk_prob=False,
                                        rope_parameters={
        "rope_type": "default", "rope_theta": 100.0, "partial_rotary_factor": 1.0})),
}
MULTIPLIED = {"embedding_multiplier": 3.0, "lm_head_multiplier": 0.4, "mlp_multipliers": [0.8, 0.6],
              "key_multiplier": 0.5, "attention_out_multiplier": 0.7, "attention_in_multiplier": 0.9,
              "ssm_multipliers": [0.6, 1.3, 0.7, 1.2, 0.4], "ssm_in_multiplier": 0.8,
              "ssm_out_multiplier": 0.5}
CASES |= {
    "granitemoehybrid": ("granitemoehybrid", dict(
        LLAMA, num_hidden_layers=3, layer_types=["linear_attention", "full_attention", "linear_attention"],
        num_local_experts=4, num_experts_per_tok=2, shared_intermediate_size=20, mamba_n_heads=6,
        mamba_n_groups=2, mamba_d_state=16, embedding_multiplier=3.0, logits_scaling=2.0,
        residual_multiplier=0.5, attention_multiplier=0.2, time_step_limit=[0.1, 0.6])),
    "granitemoehybrid-dense": ("granitemoehybrid", dict(
        LLAMA, layer_types=["full_attention", "linear_attention"], num_local_experts=0,
        shared_intermediate_size=44, mamba_n_heads=4, mamba_d_state=8, mamba_proj_bias=True,
        position_embedding_type="rope", tie_word_embeddings=True, pad_token_id=5)),
    "granitemoehybrid-attention": ("granitemoehybrid", dict(
        LLAMA, layer_types=["full_attention", "full_attention"], num_local_experts=0,
        shared_intermediate_size=28, mamba_n_heads=4, position_embedding_type="rope",
        attention_bias=True)),
    "falcon_h1": ("falcon_h1", dict(
        LLAMA, **MULTIPLIED, mamba_d_ssm=32, mamba_n_heads=4, mamba_d_state=16)),
    "falcon_h1-norm": ("falcon_h1", dict(
        LLAMA, mamba_d_ssm=None, mamba_n_heads=6, mamba_n_groups=2, mamba_d_state=8, mamba_d_conv=3,
        mamba_rms_norm=True, mamba_norm_before_gate=False, mamba_proj_bias=True, projectors_bias=True,
        attention_bias=True, mlp_bias=True, tie_word_embeddings=True, time_step_limit=[0.1, 0.6])),
    "falcon_h1-norm-first": ("falcon_h1", dict(
        LLAMA, **MULTIPLIED, mamba_d_ssm=36, mamba_n_heads=6, mamba_n_groups=3, mamba_d_state=12,
        mamba_rms_norm=True, mamba_conv_bias=False, time_step_limit=[0.0, 0.3], head_dim=8,
        pad_token_id=None)),
}
# The first DeepSeek with experts, which transformers does not have: the attention of a Llama, and the
# experts of DeepSeek-V2, which chooses greedily.
COMPOSED = {
    "deepseek": ("deepseek", {"n_routed_experts": 6, "num_experts_per_tok": 3, "n_shared_experts": 2,
                              "moe_intermediate_size": 20, "first_k_dense_replace": 1,
                              "num_hidden_layers": 3, "attention_bias": True}),
}
ADAPTERS = {
    "qwen3-lora": ("qwen3", "all-linear", {}),
    "phi3-lora": ("phi3", "all-linear", {}),
    "gpt2-lora": ("gpt2", "all-linear", {}),
    "gpt2-dropping-lora": ("gpt2-dropping", "all-linear", {}),
    "gpt_neox-dropping-lora": ("gpt_neox-dropping", "all-linear", {}),
    "gpt2-lora-on-some": ("gpt2", ["c_attn", "attn.c_proj"], {"use_rslora": True}),
    "gpt_neo-lora": ("gpt_neo", "all-linear", {}),
    "gpt_neox-lora": ("gpt_neox", "all-linear", {}),
    "granitemoehybrid-lora": ("granitemoehybrid-dense", "all-linear", {}),
    "falcon_h1-lora": ("falcon_h1", ["q_proj", "k_proj", "v_proj", "o_proj", "in_proj", "gate_proj",
                                     "up_proj", "down_proj"], {}),  # PEFT refuses out_proj
    "falcon_h1-lora-on-some": ("falcon_h1-norm-first", ["in_proj", "o_proj", "gate_proj"], {}),
    "gemma4-lora": ("gemma4", "all-linear", {}),
    "gemma4_e-shared-lora": ("gemma4_e-shared", "all-linear", {}),
    "gemma4_e-lora-on-some": ("gemma4_e", ["q_proj", "per_layer_projection"], {}),
    "gemma4_e-inputs-lora": ("gemma4_e-inputs", ["per_layer_model_projection", "k_proj"], {}),
    "gemma4_moe-lora": ("gemma4_moe", ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj",
                                       "down_proj"], {}),
    "gemma4_moe-lora-on-router": ("gemma4_moe", "all-linear", {}),
    "gemma2-lora": ("gemma2", "all-linear", {}),
    "qwen3_5-lora": ("qwen3_5", "all-linear", {}),
    "qwen3_5-lora-on-some": ("qwen3_5", ["in_proj_qkv", "out_proj", "q_proj"], {}),
    "lfm2-lora": ("lfm2", "all-linear", {}),
    "lfm2-biased-lora": ("lfm2-biased", ["in_proj", "out_proj", "w2"], {}),
    "glm4-lora": ("glm4", "all-linear", {}),
    "olmo2-lora": ("olmo2", "all-linear", {}),
    "apertus-lora": ("apertus", "all-linear", {}),
    "arcee-lora": ("arcee", "all-linear", {}),
    "seed_oss-dropping-lora": ("seed_oss-dropping", "all-linear", {}),
    "granite-lora": ("granite", "all-linear", {}),
    "dbrx-lora": ("dbrx", ["Wqkv", "out_proj"], {}),
    "dbrx-lora-on-router": ("dbrx", "all-linear", {}),
    "cohere-normed-lora": ("cohere-normed", "all-linear", {}),
    "stablelm-normed-lora": ("stablelm-normed", "all-linear", {}),
    "phi-normed-lora": ("phi-normed", "all-linear", {}),
    "olmo-clipped-lora": ("olmo-clipped", "all-linear", {}),
    "cohere-lora": ("cohere", "all-linear", {}),
    "cohere2-lora": ("cohere2", "all-linear", {}),
    "falcon-lora": ("falcon", "all-linear", {}),
    "falcon-40b-lora": ("falcon-40b", "all-linear", {}),
    "gpt_bigcode-lora": ("gpt_bigcode", "all-linear", {}),
    "bloom-lora": ("bloom", "all-linear", {}),
    "gptj-lora": ("gptj", "all-linear", {}),
    "nemotron-lora": ("nemotron", "all-linear", {}),
    "olmo-lora": ("olmo", "all-linear", {}),
    "opt-lora": ("opt", "all-linear", {}),
    "phi-lora": ("phi", "all-linear", {}),
    "stablelm-parallel-lora": ("stablelm-parallel", "all-linear", {}),
    "starcoder2-lora": ("starcoder2", "all-linear", {}),
    "mixtral-balanced-lora": ("mixtral-balanced", "all-linear", {}),
    "minimax_m2-lora": ("minimax_m2", ["q_proj", "k_proj", "v_proj", "o_proj", "w1", "w2", "w3"], {}),
    "phimoe-lora": ("phimoe", ["q_proj", "k_proj", "v_proj", "o_proj", "w1", "w2", "w3"], {}),
    "granitemoeshared-lora": ("granitemoeshared", ["q_proj", "input_linear", "output_linear"], {}),
    "qwen2_moe-lora-on-gate": ("qwen2_moe", ["q_proj", "shared_expert_gate"], {}),
    "qwen3_next-lora-on-gate": ("qwen3_next", ["out_proj", "shared_expert_gate"], {}),
    "qwen2_moe-lora": ("qwen2_moe", ["q_proj", "v_proj", "gate_proj", "up_proj", "down_proj"], {}),
    "deepseek_v2-lora": ("deepseek_v2", "all-linear", {}),
    "deepseek_v2-lite-lora": ("deepseek_v2-lite", "all-linear", {}),
    "deepseek_v3-lora": ("deepseek_v3", ["q_a_proj", "kv_b_proj", "o_proj"], {}),
    "youtu-lora": ("youtu", "all-linear", {}),
    "hunyuan_v1_moe-lora": ("hunyuan_v1_moe", ["q_proj", "v_proj", "gate_proj", "up_proj",
                                               "down_proj"], {}),
    "hunyuan_v1_moe-lora-on-router": ("hunyuan_v1_moe", ["o_proj", "wg"], {}),
    "gpt_oss-lora": ("gpt_oss", "all-linear", {}),
    "ernie4_5_moe-lora": ("ernie4_5_moe", "all-linear", {}),
    "lfm2_moe-lora": ("lfm2_moe", ["in_proj", "out_proj", "q_proj", "w1", "w2", "w3"], {}),
    "glm4_moe-lora": ("glm4_moe", "all-linear", {}),
    "qwen3_next-lora": ("qwen3_next", ["in_proj_qkvz", "in_proj_ba", "out_proj", "q_proj"], {}),
    "qwen3_moe-lora": ("qwen3_moe", "all-linear", {}),
    "qwen3_moe-dense-lora": ("qwen3_moe-dense", ["gate_proj", "down_proj"], {}),
}


def on_experts(path="mlp.experts", leaves=("gate_up_proj", "down_proj")):
    return {"target_parameters": [f"{path}.{leaf}" for leaf in leaves]}


# On the parameters that have the matrices of all experts of a block.  Not DBRX's, whose modules read
# each other's parameters, which PEFT's wrapper hides.
ADAPTERS |= {
    "gpt_oss-lora-on-experts": ("gpt_oss", ["q_proj", "v_proj"], on_experts()),
    "gpt_oss-lora-on-one-block": ("gpt_oss", "all-linear", on_experts("1.mlp.experts")),
    "gpt_oss-lora-on-down": ("gpt_oss-full", [], on_experts(leaves=["down_proj"])),
    "llama4-lora-on-experts": ("llama4", ["q_proj", "down_proj"], on_experts("feed_forward.experts")),
    "llama4-lora-on-gates": ("llama4-chunks", [], on_experts("experts", ["gate_up_proj"])),
    "gemma4_moe-lora-on-experts": ("gemma4_moe", ["q_proj", "v_proj", "gate_proj"],
                                   on_experts("experts") | {"use_rslora": True}),
    "granitemoe-lora-on-experts": ("granitemoe", ["q_proj"], on_experts("experts")),
    "granitemoeshared-lora-on-experts": ("granitemoeshared", ["k_proj", "input_linear"],
                                         on_experts("block_sparse_moe.experts")),
    "granitemoehybrid-lora-on-experts": ("granitemoehybrid", ["q_proj", "in_proj"],
                                         on_experts("block_sparse_moe.experts")),
    "mixtral-lora-on-experts": ("mixtral", ["o_proj"], on_experts()),
    "phimoe-lora-on-experts": ("phimoe", ["o_proj"], on_experts()),
    "qwen3_moe-lora-on-experts": ("qwen3_moe", ["q_proj", "v_proj"], on_experts()),
    "qwen3_next-lora-on-experts": ("qwen3_next", ["q_proj", "out_proj"], on_experts("experts")),
    "qwen3_5_moe-lora-on-experts": ("qwen3_5_moe", ["q_proj"], on_experts("experts")),
    "lfm2_moe-lora-on-experts": ("lfm2_moe", ["q_proj"], on_experts("feed_forward.experts")),
    "deepseek_v2-lora-on-experts": ("deepseek_v2", ["kv_b_proj"], on_experts()),
    "glm4_moe-lora-on-experts": ("glm4_moe", ["q_proj"], on_experts()),
    "hunyuan_v1_moe-lora-on-experts": ("hunyuan_v1_moe", ["q_proj"], on_experts()),
    "ernie4_5_moe-lora-on-experts": ("ernie4_5_moe", ["q_proj"], on_experts()),
    "minimax_m2-lora-on-experts": ("minimax_m2", ["q_proj"], on_experts()),
    "olmoe-lora-on-experts": ("olmoe", ["q_proj"], on_experts()),
    "qwen2_moe-lora-on-experts": ("qwen2_moe", ["q_proj"], on_experts()),
}


ABSENT = object() # a key that config.json does not have
EXAONE_ROPE = {"rope_type": "llama3", "factor": 4.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
               "original_max_position_embeddings": 16}
# Models that transformers does not have: a Llama, or a Qwen 2, with other names is equivalent.
RENAMED = {
    "internlm2": ("internlm2", {"bias": False}, {}),
    "internlm2-biased": ("internlm2", {"bias": True, "rope_theta": 100.0},
                         {"attention_bias": True, "rope_parameters": {
                             "rope_type": "default", "rope_theta": 100.0}}),
    "internlm3": ("internlm3", {"qkv_bias": True, "bias": True, "head_dim": 8},
                  {"attention_bias": True, "mlp_bias": True, "head_dim": 8}),
    "mimo": ("mimo", {"attention_bias": True, "head_dim": 6, "num_nextn_predict_layers": 1}, {}),
    "exaone": ("exaone", {"pad_token_id": tokens(13, 0)[3], "head_dim": 8, "tie_word_embeddings": False,
                          "rope_theta": 50.0, "rope_scaling": EXAONE_ROPE},
               {"head_dim": 8, "pad_token_id": tokens(13, 0)[3], "rms_norm_eps": 1e-5,
                "rope_parameters": dict(EXAONE_ROPE, rope_theta=50.0)}),
    "exaone-tied": ("exaone", {"attention_dropout": 0.3}, {"tie_word_embeddings": True, "rms_norm_eps": 1e-5,
                                                           "attention_dropout": 0.3}),
    "qwen": ("qwen", {"num_key_value_heads": ABSENT, "intermediate_size": 72, "no_bias": True,
                      "rotary_emb_base": 100.0, "rotary_pct": 1.0, "kv_channels": 6, "use_logn_attn": True,
                      "use_dynamic_ntk": True, "attn_dropout_prob": 0.0, "emb_dropout_prob": 0.0},
             {"num_key_value_heads": 4, "pad_token_id": None, "use_sliding_window": False, "rope_parameters": {
                 "rope_type": "default", "rope_theta": 100.0}}),
}
# Names in config.json and in files, and whether weight decay applies to the norms, whose names and class
# transformers does not recognize.
RENAMED_KEYS = {"exaone": {"num_hidden_layers": "num_layers"},
                "qwen": {"max_position_embeddings": "seq_length"}}
RENAMED_NAMES = {
    "internlm2": (("self_attn.o_proj", "attention.wo"), ("self_attn.q_proj", "attention.wqkv"),
                  ("self_attn.k_proj", "attention.wqkv"), ("self_attn.v_proj", "attention.wqkv"),
                  ("mlp.gate_proj", "feed_forward.w1"), ("mlp.up_proj", "feed_forward.w3"),
                  ("mlp.down_proj", "feed_forward.w2"), ("input_layernorm", "attention_norm"),
                  ("post_attention_layernorm", "ffn_norm"), ("lm_head", "output"),
                  ("embed_tokens", "tok_embeddings")),
    "exaone": (("model.layers", "transformer.h"), ("self_attn.", "attn.attention."), ("o_proj", "out_proj"),
               ("gate_proj", "c_fc_0"), ("up_proj", "c_fc_1"), ("down_proj", "c_proj"),
               ("input_layernorm", "ln_1"), ("post_attention_layernorm", "ln_2"),
               ("model.norm", "transformer.ln_f"), ("model.embed_tokens", "transformer.wte")),
    "qwen": (("model.layers", "transformer.h"), ("self_attn.q_proj", "attn.c_attn"),
             ("self_attn.k_proj", "attn.c_attn"), ("self_attn.v_proj", "attn.c_attn"),
             ("self_attn.o_proj", "attn.c_proj"), ("gate_proj", "w2"), ("up_proj", "w1"), ("down_proj", "c_proj"),
             ("input_layernorm", "ln_1"), ("post_attention_layernorm", "ln_2"),
             ("model.norm", "transformer.ln_f"), ("model.embed_tokens", "transformer.wte")),
}
NORMS_DECAY = ("exaone", "qwen")
# Of the modules of a block, where it is not Llama's.
RENAMED_ORDER = {
    "exaone": ("ln_1", "k_proj", "v_proj", "q_proj", "out_proj", "ln_2", "c_fc_0", "c_fc_1", "mlp.c_proj"),
    "qwen": ("ln_1", "c_attn", "attn.c_proj", "ln_2", "w1", "w2", "mlp.c_proj"),
}


def has_offset(model_type):
    """Return whether the weights of the norms are added to 1."""
    return (model_type.startswith(("gemma", "nemotron", "qwen3_5", "qwen3_next"))
            and not model_type.startswith("gemma4"))


def elements(name, shape, offset):
    """Return matrices in +-0.35, and vectors within 0.2 of the initial weight of a norm or of zero."""
    x = hashed(name, int(numpy.prod(shape)))
    zero = name.endswith((".bias", ".act_fn.eps"))
    x = x * 0.35 if len(shape) in (2, 3) else x * 0.2 + (0 if zero else 1 - offset)
    return torch.tensor(x.reshape(shape), dtype=torch.float32)


def rounded(x, digits=8):
    return float(f"{float(x):.{digits}g}")


def philox(key, counters):
    """Philox 4x32-10: return a row of four words for each counter of four words."""
    a, b, c, d = (numpy.asarray(x, dtype=numpy.uint64) for x in counters)
    low = numpy.uint64(0xFFFFFFFF)
    for i in range(10):
        keys = [numpy.uint64((k + i * weyl) % 2**32)
                for k, weyl in zip(key, (0x9E3779B9, 0xBB67AE85))]
        left, right = a * numpy.uint64(0xD2511F53), c * numpy.uint64(0xCD9E8D57)
        a, b, c, d = ((right >> numpy.uint64(32)) ^ b ^ keys[0], right & low,
                      (left >> numpy.uint64(32)) ^ d ^ keys[1], left & low)
    return numpy.stack([a, b, c, d], -1)


class Dropout:
    """Replacement of torch.nn.functional.dropout with the masks that base/random.h draws for the
    first micro-batch of a run with seed 42.  The sequences of a batch come one by one.  A model calls
    dropout in the order of its layers: first for the embeddings, if at all; then in each layer for
    the attention weights and, in some architectures, for the outputs of attention and MLP."""
    EMBED, ATTENTION, ADDED_O, ADDED_DOWN, LAYER = 0, 4, 6, 10, 12
    RANDOM_DROPOUT, RANDOM_ATTENTION, SEED = 2, 7, 42
    EMBEDS = ("gpt2", "gpt_bigcode", "gptj", "gpt_neo", "gpt_neox", "phi", "starcoder2")

    def __init__(self, model):
        config = model.config
        layer = [self.ATTENTION]
        if config.model_type in (*self.EMBEDS, "bloom", "phi3", "seed_oss", "opt", "dbrx",
                                 "dbrx_converted"):
            layer += [self.ADDED_O, self.ADDED_DOWN]
        if config.model_type == "stablelm":
            layer += [self.ADDED_DOWN]
        if config.model_type == "falcon": # not called for the attention weights
            layer = [self.ADDED_DOWN] if config.parallel_attn else [self.ADDED_O, self.ADDED_DOWN]
        self.sites = [self.EMBED] if config.model_type in self.EMBEDS else []
        linear = [t in ("linear_attention", "conv") for t in getattr(config, "layer_types", None) or []]
        self.sites += [n * self.LAYER + site for n in range(config.num_hidden_layers)
                       for site in layer if not any(linear[n:n + 1])]

    def start_sequence(self, row):
        """Start the next sequence, whose first row in the batch is `row`."""
        self.row, self.calls = row, 0

    def kept(self, x, p, stream):
        if x.dim() == 4: # sequence, heads, queries, keys
            head, query, key = numpy.meshgrid(*(numpy.arange(n) for n in x.shape[1:]),
                                              indexing="ij")
            zero = 0 * head
            words = philox((self.SEED, 0), (query + self.row, key // 32 * 4 + key // 2 % 4,
                                            stream + (head << 16), zero + self.RANDOM_ATTENTION))
            word = numpy.take_along_axis(words, (key // 8 % 4)[..., None], -1)[..., 0]
            share = round(p * 65536) / 65536
            return (word >> (key % 2 * 16).astype(numpy.uint64) & numpy.uint64(0xFFFF)
                    >= round(p * 65536)), 1 / (1 - share)
        index = numpy.arange(self.row * x.shape[-1], (self.row + x.shape[-2]) * x.shape[-1])
        zero = 0 * index
        words = philox((self.SEED, 0), (index // 4, zero, stream + zero,
                                        zero + self.RANDOM_DROPOUT))
        bits = numpy.take_along_axis(words, (index % 4)[:, None], -1)[:, 0]
        return (bits / 2**32 >= numpy.float32(p)).reshape(x.shape[-2:]), 1 / (1 - p)

    def __call__(self, x, p=0.5, training=True, inplace=False):
        if not training:
            return x
        stream = self.sites[self.calls]
        self.calls += 1
        if p == 0:
            return x
        kept, factor = self.kept(x, p, stream)
        return x * torch.tensor(kept, dtype=x.dtype) * factor


class Mixer:
    """Replacement of the random numbers of mixtures of experts with those of kernels/ops_experts.h
    (op_route) and kernels/ops_noise.h (op_jitter), for the first micro-batch of a run with seed 42.
    Each layer draws factors of its rows; that of Phi-3.5-MoE draws them twice, then for both of its
    experts what is added to each logit, and whether the weight is reduced, of which transformers
    draws the second again."""
    RANDOM_ROUTING, RANDOM_NOISE, SEED = 8, 9, 42

    def __init__(self, row, model_type):
        self.row, self.jitters, self.choices = row, 0, 0
        self.draws = 2 if model_type == "phimoe" else 1 # of factors

    def __enter__(self):
        self.real = torch.Tensor.uniform_, torch.Tensor.exponential_, torch.rand_like
        torch.rand_like = lambda x: self.share(torch.empty_like(x))
        torch.Tensor.uniform_ = lambda x, *ends: self.jitter(x, *ends) if ends else self.share(x)
        torch.Tensor.exponential_ = lambda x: self.exponential(x)

    def __exit__(self, *_):
        torch.Tensor.uniform_, torch.Tensor.exponential_, torch.rand_like = self.real

    def bits(self, site, stream, index):
        zero = 0 * index
        words = philox((self.SEED, 0), (index // 4, zero, stream + zero, site + zero))
        return numpy.take_along_axis(words, (index % 4)[..., None], -1)[..., 0]

    def jitter(self, x, low, high):
        layer, second = divmod(self.jitters, self.draws)
        self.jitters += 1
        rows, cols = x.shape[-2:]
        index = 2 * (numpy.arange(rows * cols) + self.row * cols) + second
        u = self.bits(self.RANDOM_NOISE, layer + 1, index).reshape(x.shape) / 2**32
        return x.copy_(torch.tensor(low + (high - low) * u))

    def uniform(self, rows, draw, experts, columns):
        layer, choice = divmod(draw, 2)
        at = ((numpy.arange(rows)[:, None] + self.row) * 2 + choice) * (experts + 1)
        bits = self.bits(self.RANDOM_ROUTING, layer, at + columns)
        return torch.tensor(((bits >> numpy.uint64(9)) + 0.5) / 2**23)

    def exponential(self, x):
        self.choices += 1
        self.experts = x.shape[-1]
        u = self.uniform(len(x), self.choices - 1, self.experts, numpy.arange(self.experts))
        return x.copy_(-torch.log(u))

    def share(self, x):
        return x.copy_(self.uniform(len(x), self.choices - 1, self.experts,
                                    numpy.array([self.experts])))


def balance(config, logits):
    """Return the load balancing loss of all rows of a batch, times its coefficient."""
    joined = tuple(torch.cat(layer) for layer in zip(*logits))
    if config.model_type == "dbrx":
        ffn = config.ffn_config
        return ffn.moe_loss_weight * load_balancing_loss_func(joined, DBRX_EXPERTS, ffn.moe_top_k)
    experts = getattr(config, "num_experts", None) or config.num_local_experts
    loss = load_balancing_loss_func(joined, experts, config.num_experts_per_tok)
    return config.router_aux_loss_coef * loss


def loss_of(model, batch):
    """Return the mean loss of all predicted tokens; the sequences do not attend to each other."""
    row, total, logits = 0, 0, []
    balances = getattr(model.config, "output_router_logits", False)
    dropout = torch.nn.functional.dropout = Dropout(model)
    mixes = model.config.model_type in ("phimoe", "mixtral", "minimax_m2", "dbrx")
    for ids in batch:
        dropout.start_sequence(row)
        with Mixer(row, model.config.model_type) if mixes else contextlib.nullcontext():
            out = model(input_ids=torch.tensor([ids]), labels=torch.tensor([ids]))
        loss = out.loss
        if balances: # the loss of one sequence
            loss = loss - model.router_aux_loss_coef * out.aux_loss
            logits.append(out.router_logits)
        assert dropout.calls in (0, len(dropout.sites))
        total, row = total + loss * (len(ids) - 1), row + len(ids)
    loss = total / sum(len(ids) - 1 for ids in batch)
    return loss + balance(model.config, logits) if balances else loss


def by_expert(name, tensor, names):
    """Return the tensors in files that are parts of a parameter: the matrices of the experts.  Those
    of gpt-oss are transposed, gate and up alternate, and there are biases."""
    stem, leaf = name.rsplit(".", 1)
    if leaf in ("w1", "v1", "w2"): # DBRX: in two dimensions, down transposed
        return {f"{stem}.{e}.{leaf}.weight": part.T if leaf == "w2" else part
                for e, part in enumerate(tensor.chunk(DBRX_EXPERTS))}
    if stem.endswith("Wqkv") and names is CONVERTED:
        rows = (tensor.shape[0] - tensor.shape[1]) // 2
        return {name.replace("Wqkv", part): t for part, t in zip(
            ("q_proj", "k_proj", "v_proj"), tensor.split([tensor.shape[1], rows, rows]))}
    if stem.endswith("feed_forward.experts") and names[0] != "w1": # Llama 4: transposed
        parts = {n: t.transpose(1, 2) for n, t in zip(("gate", "up"), tensor.chunk(2, dim=2))}
        if leaf == "down_proj":
            parts = {"down": tensor.transpose(1, 2)}
        return {f"{stem}.{n}_projs.{e}.weight": t[e] for e in range(len(tensor))
                for n, t in parts.items()}
    if leaf == "gate_up_proj_bias":
        return {f"{stem}.{e}.{n}.bias": row[i::2] for e, row in enumerate(tensor)
                for i, n in enumerate(names[:2])}
    if leaf == "down_proj_bias":
        return {f"{stem}.{e}.{names[2]}.bias": row for e, row in enumerate(tensor)}
    if names is INTERLEAVED and leaf == "gate_up_proj":
        return {f"{stem}.{e}.{n}.weight": both[:, i::2] for e, both in enumerate(tensor)
                for i, n in enumerate(names[:2])}
    if leaf == "gate_up_proj":
        halves = zip(*tensor.chunk(2, dim=1))
        return {f"{stem}.{e}.{n}.weight": half for e, pair in enumerate(halves)
                for n, half in zip(names, pair)}
    if leaf == "down_proj":
        return {f"{stem}.{e}.{names[2]}.weight": part for e, part in enumerate(tensor)}
    return {name: tensor}


class Experts(torch.nn.ModuleList):
    """Experts with a linear layer for each matrix, as transformers 4 had them and PEFT adapts them."""

    def __init__(self, fused, names):
        super().__init__()
        silu = torch.nn.functional.silu
        self.act_fn = silu if fused.act_fn is silu else type(fused.act_fn)().forward
        self.names = names
        for gate_up, down in zip(fused.gate_up_proj, fused.down_proj):
            expert = torch.nn.Module()
            for name, weight in zip(names, (*gate_up.chunk(2), down)):
                layer = torch.nn.Linear(weight.shape[1], weight.shape[0], bias=False)
                layer.weight.data.copy_(weight.data)
                setattr(expert, name, layer)
            self.append(expert)

    def forward(self, x, index, weights):
        out = torch.zeros_like(x)
        for e, expert in enumerate(self):
            rows, place = torch.where(index == e)
            gate, up, down = (getattr(expert, name) for name in self.names)
            y = down(self.act_fn(gate(x[rows])) * up(x[rows]))
            out = out.index_add(0, rows, y * weights[rows, place, None])
        return out


EXPERT_NAMES = {name: ("w1", "w3", "w2") for name in ("mixtral", "minimax_m2", "phimoe", "lfm2_moe")}


INTERLEAVED = ["gate_proj", "up_proj", "down_proj"] # a list: equal tuples may be one object


CONVERTED = ["w1", "v1", "w2"] # as above


def expert_names(model_type):
    if model_type == "dbrx_converted":
        return CONVERTED
    if model_type == "gpt_oss":
        return INTERLEAVED
    return EXPERT_NAMES.get(model_type, ("gate_proj", "up_proj", "down_proj"))


CONVERSIONS = ("convert_peft_config_for_transformers", "convert_peft_adapter_state_dict_for_transformers")
CONVERT = {name: getattr(transformers_weight_conversion, name) for name in CONVERSIONS}


def keep_experts(model):
    """Leave the experts to PEFT as transformers 5 has them."""
    for name, convert in CONVERT.items():
        setattr(transformers_weight_conversion, name, convert)
    return model


def split_experts(model):
    """Make experts linear layers, so that PEFT adapts each; it need not translate their names."""
    transformers_weight_conversion.convert_peft_config_for_transformers = lambda *_, **__: None
    transformers_weight_conversion.convert_peft_adapter_state_dict_for_transformers = (
        lambda *_, adapter_state_dict, **__: adapter_state_dict)
    names = expert_names(model.config.model_type)
    if model.config.model_type.startswith(("granite", "gpt_oss", "dbrx", "gemma4")): # no layers in transformers 4 either
        return model
    for module in [m for m in model.modules() if hasattr(m, "experts")]:
        module.experts = Experts(module.experts, names)
    return model


def train(model, batch, decayed, label):
    """Return the loss before each step, and the gradient norms of the first step by name."""
    # ERNIE's correction of routers is a parameter, which gets no gradient
    trained = [(label(n), p) for n, p in model.named_parameters()
               if p.requires_grad and not n.endswith("e_score_correction_bias")]
    optimizer = torch.optim.AdamW(
        [{"params": [p for n, p in trained if n in decayed], "weight_decay": DECAY},
         {"params": [p for n, p in trained if n not in decayed], "weight_decay": 0.0}],
        lr=LR, betas=(0.9, 0.999), eps=1e-8)
    losses, norms = [], {}
    model.train()
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = loss_of(model, batch)
        loss.backward()
        norms = norms or {n: rounded(grad.double().norm()) for name, p in trained for n, grad in
                          by_expert(name, p.grad, expert_names(model.config.model_type)).items()}
        losses.append(rounded(loss.detach()))
        optimizer.step()
    return losses, norms


def decayed_names(model, label):
    """Do the same as get_decay_parameter_names of transformers/trainer.py."""
    patterns = [r"bias", r"layernorm", r"rmsnorm", r"(?:^|\.)norm(?:$|\.)", r"_norm(?:$|\.)"]
    return {label(n) for n in get_parameter_names(model, [torch.nn.LayerNorm], patterns)}


def as_granite(values):
    """Return the settings of Granite that equal those of MiniCPM, whose code is its folders' own:
    embeddings times scale_emb, what is added to the residual times scale_depth / sqrt(layers), the
    last norm's output divided by hidden_size / dim_model_base."""
    own = ("scale_emb", "scale_depth", "dim_model_base")
    return {key: value for key, value in values.items() if key not in own} | {
        "embedding_multiplier": float(values["scale_emb"]),
        "residual_multiplier": values["scale_depth"] / values["num_hidden_layers"] ** 0.5,
        "logits_scaling": values["hidden_size"] / values["dim_model_base"],
        "attention_multiplier": (values["hidden_size"] // values["num_attention_heads"]) ** -0.5}


def make(model_type, values, folder):
    """Write the folder of a model; return its config, tensor shapes and norm offset."""
    minicpm = model_type == "minicpm"
    config = (transformers.GraniteConfig(**as_granite(values)) if minicpm
              else transformers.CONFIG_MAPPING[model_type](**values))
    fresh = transformers.AutoModelForCausalLM.from_config(config)
    fresh.save_pretrained(folder)
    path = os.path.join(folder, "model.safetensors")
    shapes = {name: list(t.shape) for name, t in sorted(load_file(path).items())}
    offset = 1 if has_offset(model_type) else 0
    save_file({n: elements(n, s, offset) for n, s in shapes.items()}, path, {"format": "pt"})
    with open(os.path.join(folder, "config.json")) as file:
        saved = json.load(file)
    if minicpm:
        kept = ("rope_parameters", "rms_norm_eps", "hidden_act", "tie_word_embeddings")
        saved = {key: saved[key] for key in kept} | values | {"model_type": model_type}
    return saved, shapes, offset


def load(folder):
    model, info = transformers.AutoModelForCausalLM.from_pretrained(
        folder, dtype=torch.float32, attn_implementation="eager", output_loading_info=True)
    assert not any(info[key] for key in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    return model.train()


def logits_of(model, batch):
    model.eval()
    with torch.no_grad():
        return [[rounded(x) for x in model(input_ids=torch.tensor([ids])).logits[0, -1]]
                for ids in batch]


def neox_label(name):
    """Return the name in files, where transformers 5 calls lm_head embed_out."""
    return "embed_out.weight" if name == "lm_head.weight" else name


def mixtral_label(name):
    """Return the name in files, where transformers 5 calls block_sparse_moe mlp."""
    return name.replace(".mlp.", ".block_sparse_moe.")


def phimoe_label(name):
    return mixtral_label(name).replace(".router.weight", ".gate.weight")


def granite_label(name):
    return name.replace(".router.weight", ".router.layer.weight")


LABELS = {"gpt_neox": neox_label, "mixtral": mixtral_label, "minimax_m2": mixtral_label, "phimoe": phimoe_label, "granitemoe": granite_label,
          "granitemoeshared": granite_label, "granitemoehybrid": granite_label}


def case(name, model_type, values, batch):
    label = LABELS.get(model_type, str)
    with tempfile.TemporaryDirectory() as folder:
        config, shapes, offset = make(model_type, values, folder)
        model = load(folder)
    logits = logits_of(model, batch)
    decayed = decayed_names(model, label)
    losses, norms = train(model, batch, decayed, label)
    return {"name": name, "config": config, "offset": offset, "tensors": shapes,
            "logits": logits, "losses": losses, "norms": norms,
            "undecayed": sorted(n for n in norms if n not in decayed and
                                (".experts." not in n or n.endswith(".bias")))}


def renamed(model_type, name):
    """Return the name in the model's files of a tensor of a Llama; q, k and v may be parts of one."""
    for old, new in RENAMED_NAMES.get(model_type, ()):
        name = name.replace(old, new)
    return name


def split(model_type, tensor, config):
    """Return q, k and v of the matrix or bias of all: of InternLM 2, for each key head its query heads,
    itself and its value head."""
    if model_type == "qwen":
        return dict(zip(("q_proj", "k_proj", "v_proj"), tensor.chunk(3)))
    groups = config.num_attention_heads // config.num_key_value_heads
    heads = tensor.reshape(config.num_key_value_heads, groups + 2, config.head_dim, -1)
    shape = (-1, *tensor.shape[1:])
    return {"q_proj": heads[:, :groups].reshape(shape), "k_proj": heads[:, groups].reshape(shape),
            "v_proj": heads[:, groups + 1].reshape(shape)}


def renamed_config(model_type, values):
    keys = {"model_type": model_type, "vocab_size": 40, "hidden_size": 24, "intermediate_size": 36,
            "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
            "max_position_embeddings": 64, "pad_token_id": 0} | values
    return {RENAMED_KEYS.get(model_type, {}).get(key, key): value for key, value in keys.items()
            if value is not ABSENT}


def in_order(model_type, norms):
    """Return the norms, which are in Llama's order, in that of the model."""
    order = RENAMED_ORDER.get(model_type, ())

    def place(numbered):
        number, name = numbered
        parts = name.split(".")
        at = next((i for i, path in enumerate(order) if f".{path}." in name), 0)
        inside = len(parts) > 3 and parts[2].isdigit()
        block = int(parts[2]) if inside else -1 if number == 0 else len(norms)
        return block, at, number

    named = [name for _, name in sorted(enumerate(norms), key=place)] if order else norms
    return {name: rounded(norms[name]**0.5) for name in named}


def renamed_case(name, model_type, values, llama_values, batch):
    label = lambda n: renamed(model_type, n)
    kind = transformers.Qwen2Config if model_type in ("mimo", "qwen") else transformers.LlamaConfig
    config = kind(**(LLAMA | {"pad_token_id": 0} | llama_values))
    model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation="eager")
    named, shapes, norms = dict(model.named_parameters()), {}, {}
    for n, p in named.items():
        shape = shapes.setdefault(label(n), [0, *p.shape[1:]])
        shape[0] += len(p)
    with torch.no_grad():
        for n, p in named.items():
            whole, part = elements(label(n), shapes[label(n)], 0), n.split(".")[-2]
            joined = len(whole) > len(p)
            p.copy_(split(model_type, whole, config)[part] if joined else whole)
    logits = logits_of(model, batch)
    decayed = decayed_names(model, str)
    if model_type in NORMS_DECAY:
        decayed |= {n for n in named if n.endswith("norm.weight")}
    losses, squares = train(model, batch, decayed, str)
    decayed = {label(n) for n in decayed}
    for n, norm in squares.items():
        norms[label(n)] = norms.get(label(n), 0) + norm**2
    return {"name": name, "config": renamed_config(model_type, values), "offset": 0,
            "tensors": dict(sorted(shapes.items())), "logits": logits, "losses": losses,
            "norms": in_order(model_type, norms),
            "undecayed": sorted(n for n in norms if n not in decayed)}


def gates_by_expert(norms):
    """Order the matrices w1 and v1 of a block by expert."""
    names = list(norms)

    def place(name):
        stem, expert, leaf = (name.split(".")[:-1][-3:] + [""] * 3)[:3]
        if stem != "mlp" or leaf == "w2":
            return names.index(name), 0, 0
        first = name.replace(f"mlp.{expert}.{leaf}", "mlp.0.w1")
        return names.index(first), int(expert), leaf == "v1"

    return {name: norms[name] for name in sorted(names, key=place)}


def linearized_case(name, base, batch):
    """Llama 4 whose files have a layer for each expert, as Axolotl publishes them; and DBRX, where
    q, k and v also have layers of their own."""
    model_type, values = CASES[base]
    config = transformers.CONFIG_MAPPING[model_type](**values)
    model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation="eager")
    if model_type == "dbrx":
        model.config.model_type = model_type = "dbrx_converted"
    tensors = {}
    for n, p in model.named_parameters():
        for part, view in by_expert(n, p.data, expert_names(model_type)).items():
            tensors[part] = list(view.shape)
            view.copy_(elements(part, tensors[part], 0))
    logits = logits_of(model, batch)
    decayed = decayed_names(model, str)
    losses, norms = train(model, batch, decayed, str)
    if model_type == "dbrx_converted":
        norms = gates_by_expert(norms)
    with tempfile.TemporaryDirectory() as folder:
        config.save_pretrained(folder)
        with open(os.path.join(folder, "config.json")) as file:
            saved = json.load(file)
    return {"name": name, "config": saved | {"model_type": model_type}, "offset": 0,
            "tensors": dict(sorted(tensors.items())),
            "logits": logits, "losses": losses, "norms": norms,
            "undecayed": sorted(n for n in norms if n not in decayed and ".experts." not in n)}


LINEARIZED = {"llama4-linearized": "llama4", "dbrx_converted": "dbrx"}


def composed_case(name, model_type, values, batch):
    kept = LLAMA | values | {"pad_token_id": None}
    latent = {k: LATENT[k] for k in ("qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim")}
    attention = transformers.LlamaConfig(**kept, attn_implementation="eager")
    config = transformers.DeepseekV2Config(**kept | {"num_key_value_heads": 4}, **latent,
                                           topk_method="greedy")
    model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation="eager")
    model.model.rotary_emb = modeling_llama.LlamaRotaryEmbedding(attention)
    for i, layer in enumerate(model.model.layers):
        layer.self_attn = modeling_llama.LlamaAttention(attention, i)
    tensors = {}
    for n, p in model.named_parameters():
        for part, view in by_expert(n, p.data, expert_names(model_type)).items():
            tensors[part] = list(view.shape)
            view.copy_(elements(part, tensors[part], 0))
    logits = logits_of(model, batch)
    decayed = decayed_names(model, str)
    losses, norms = train(model, batch, decayed, str)
    keys = {"model_type": model_type, "norm_topk_prob": False, "scoring_func": "softmax",
            "moe_layer_freq": 1, "tie_word_embeddings": False}
    return {"name": name, "config": kept | keys, "offset": 0, "tensors": dict(sorted(tensors.items())),
            "logits": logits, "losses": losses, "norms": norms,
            "undecayed": sorted(n for n in norms if n not in decayed and ".experts." not in n)}


def adapter(name, base, targets, more, batch):
    joined = "target_parameters" in more
    prepare = keep_experts if joined else split_experts
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as to:
        make(*CASES[base], folder)
        fresh = get_peft_model(prepare(load(folder)), LoraConfig(
            r=4, lora_alpha=6, target_modules=targets, task_type="CAUSAL_LM", **more))
        fresh.save_pretrained(to)
        path = os.path.join(to, "adapter_model.safetensors")
        shapes = {n: list(t.shape) for n, t in sorted(load_file(path).items())}
        rename = str if joined else LABELS.get(CASES[base][0], str)
        save_file({n: elements(rename(n), s, 0) for n, s in shapes.items()}, path,
                  {"format": "pt"})
        shapes = {rename(n): s for n, s in shapes.items()}
        with open(os.path.join(to, "adapter_config.json")) as file:
            config = json.load(file)
        model = PeftModel.from_pretrained(prepare(load(folder)), to,
                                          is_trainable=True).train()
    label = lambda n: rename(n.replace(".default", ""))
    logits = logits_of(model, batch)
    losses, norms = train(model, batch, decayed_names(model, label), label)
    kept = ("r", "lora_alpha", "use_rslora", "target_modules", "fan_in_fan_out", "peft_type")
    kept += ("target_parameters",) if joined else ()
    config = {key: config[key] for key in kept}
    for key in ("target_modules", *kept[6:]):
        config[key].sort()
    return {"name": name, "base": base, "config": config, "tensors": shapes, "logits": logits,
            "losses": losses, "norms": norms}


def write(results, path):
    """Write one case per line, sorted by name, so that changes merge."""
    parts = [f"{json.dumps(key)}:{json.dumps(value, separators=(',', ':'))}"
             for key, value in results.items() if key not in ("models", "adapters")]
    for key in ("models", "adapters"):
        cases = sorted(results[key], key=lambda one: one["name"])
        lines = ",\n".join(json.dumps(one, separators=(",", ":")) for one in cases)
        parts.append(f"{json.dumps(key)}:[\n{lines}\n]")
    with open(path, "w") as file:
        file.write("{" + ",\n".join(parts) + "}\n")


def main():
    torch.set_num_threads(1)
    path = os.path.join(os.path.dirname(__file__), "architectures.json")
    batch = [tokens(count, i) for i, count in enumerate(LENGTHS)]
    names = sys.argv[1:] or [*CASES, *RENAMED, *COMPOSED, *LINEARIZED, *ADAPTERS]
    results = {"made_with": f"transformers {transformers.__version__}, torch "
                            f"{torch.__version__.split('+')[0]}",
               "batch": batch, "lr": LR, "weight_decay": DECAY, "models": [], "adapters": []}
    if sys.argv[1:]:
        with open(path) as file:
            results = json.load(file)
    for key in ("models", "adapters"):
        results[key] = [one for one in results[key] if one["name"] not in names]
    for name in names:
        if name in CASES:
            results["models"].append(case(name, *CASES[name], batch))
        elif name in COMPOSED:
            results["models"].append(composed_case(name, *COMPOSED[name], batch))
        elif name in LINEARIZED:
            results["models"].append(linearized_case(name, LINEARIZED[name], batch))
        elif name in RENAMED:
            results["models"].append(renamed_case(name, *RENAMED[name], batch))
        else:
            results["adapters"].append(adapter(name, *ADAPTERS[name], batch))
    write(results, path)


if __name__ == "__main__":
    main()
