#!/usr/bin/env python3
"""Make gptq.json: small base models in the formats of GPTQ and AWQ, and adapters by PEFT on them, for
test_model_gptq.

    python3 tests/golden/gptq.py [SITE] > tests/golden/gptq.json

A run has the files of a folder as AutoGPTQ, gptqmodel and AutoAWQ write them, the SHA-256 of each
matrix that was read back from its packed words and dequantized by the published formula in fp32, and
what lora.py has, computed by transformers and PEFT on these values.  Words are unpacked here by shifts
of whole integers, not by the code that packed them.  SITE is a folder with the packages auto_gptq 0.7.1
and awq 0.2.9 (autoawq), unpacked: then each matrix is compared with what these dequantize, too, and
"compared" says so; it is "" otherwise.
"""
import base64
import hashlib
import importlib.util
import json
import os
import sys
import tempfile

os.environ["CUDA_VISIBLE_DEVICES"] = ""
import numpy
import torch
from safetensors.torch import load_file, save_file
from transformers import (AutoModelForCausalLM, LlamaConfig, MixtralConfig, Qwen2Config,
                          Qwen2MoeConfig)

import lora

SIZES = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2,
         "num_key_value_heads": 2, "vocab_size": 64, "max_position_embeddings": 64,
         "initializer_range": 0.15, "bos_token_id": 1, "eos_token_id": 2, "tie_word_embeddings": False}
GROUPED = SIZES | {"hidden_size": 64, "num_attention_heads": 4}
EXPERTS = SIZES | {"num_local_experts": 4, "num_experts_per_tok": 2, "router_aux_loss_coef": 0.0}
SHARED = SIZES | {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32,
                  "shared_expert_intermediate_size": 64, "router_aux_loss_coef": 0.0}
AWQ_ORDER = [0, 2, 4, 6, 1, 3, 5, 7]

# class, config, method, bits, group, then what config.json and files have
RUNS = {
    "gptq": (LlamaConfig, SIZES, "gptq", 4, 16, {"sym": True, "bias": True}),
    "gptq sorted": (LlamaConfig, SIZES, "gptq", 4, 16, {"desc_act": True}),
    "gptq 8 bits": (LlamaConfig, SIZES, "gptq", 8, -1, {"sym": True}),
    "gptq 3 bits": (LlamaConfig, SIZES, "gptq", 3, 16, {"no_g_idx": True}),
    "gptq 2 bits": (LlamaConfig, SIZES, "gptq", 2, 8, {"format": "gptq_v2", "dtype": "bfloat16"}),
    "gptq some": (Qwen2Config, GROUPED, "gptq", 4, 32, {
        "format": "gptq_v2", "desc_act": True,
        "only": [["self_attn.k_proj", "self_attn.v_proj", "self_attn.q_proj"], ["mlp.down_proj"]]}),
    "gptq zero": (LlamaConfig, SIZES, "gptq", 4, 16, {"positive": True}),
    "awq": (LlamaConfig, SIZES, "awq", 4, 16, {}),
    "awq some": (Qwen2Config, GROUPED, "awq", 4, 64, {"but": ["o_proj", "layers.1.mlp"]}),
    "awq experts": (MixtralConfig, EXPERTS, "awq", 4, 32, {
        "but": ["gate"], "adapted": ["q_proj", "k_proj", "v_proj", "o_proj"]}),
    "gptq experts": (Qwen2MoeConfig, SHARED, "gptq", 4, 16, {
        "desc_act": True, "adapted": ["q_proj", "o_proj"]}),
}


# ---- Quantizing ----

def quantized(weight, bits, group, columns, how):
    """Return codes (in, out), and zero points and scales (groups, out): to the nearest."""
    count = columns.max() + 1
    most = (1 << bits) - 1
    zeros = numpy.zeros((count, weight.shape[0]), dtype=numpy.int64)
    scales = numpy.zeros((count, weight.shape[0]), dtype=numpy.float32)
    for g in range(count):
        part = weight[:, columns == g]
        low, high = numpy.minimum(part.min(1), 0), numpy.maximum(part.max(1), 0)
        if how.get("sym"):
            high = numpy.maximum(-low, high)
            low = -high
        scales[g] = numpy.maximum(high - low, 1e-3) / most
        zeros[g] = (most + 1) // 2 if how.get("sym") else numpy.round(-low / scales[g])
    scales = torch.tensor(scales).to(getattr(torch, how.get("dtype", "float16")))
    wide = scales.float().numpy()
    codes = numpy.round(weight.T / wide[columns]) + zeros[columns]
    return numpy.clip(codes, 0, most).astype(numpy.int64), zeros, scales


def stream(codes, bits):
    """Pack along the first axis: a stream of bits from the lowest of each word."""
    flat = (codes[:, None, :] >> numpy.arange(bits)[None, :, None] & 1).reshape(-1, codes.shape[1])
    words = flat.reshape(-1, 32, codes.shape[1])
    return (words << numpy.arange(32)[None, :, None]).sum(1).astype(numpy.uint32).view(numpy.int32)


def interleaved(codes):
    """Pack along the last axis, 8 codes in AWQ's order."""
    parts = codes.reshape(codes.shape[0], -1, 8)[:, :, AWQ_ORDER]
    return (parts << 4 * numpy.arange(8)).sum(2).astype(numpy.uint32).view(numpy.int32)


def packed(name, weight, method, bits, group, how, seed):
    inner = weight.shape[1]
    size = inner if group == -1 else group
    columns = numpy.arange(inner) // size
    if how.get("desc_act"):
        columns = columns[numpy.argsort(lora.bits(seed, inner), kind="stable")]
    codes, zeros, scales = quantized(weight, bits, group, columns, how)
    if method == "awq":
        return {name + ".qweight": interleaved(codes), name + ".qzeros": interleaved(zeros),
                name + ".scales": scales}
    stored = zeros if how.get("format") == "gptq_v2" else zeros - 1 & (1 << bits) - 1
    out = {name + ".qweight": stream(codes, bits), name + ".qzeros": stream(stored.T, bits).T.copy(),
           name + ".scales": scales}
    if not how.get("no_g_idx"):
        out[name + ".g_idx"] = columns.astype(numpy.int32)
    if how.get("bias"):
        out[name + ".bias"] = numpy.zeros(weight.shape[0], dtype=numpy.float16)
    return out


# ---- Reading back ----

def number(words, bits, index):
    """Return code `index` of a list of words, as one large integer has it."""
    whole = sum((int(w) & 0xFFFFFFFF) << 32 * i for i, w in enumerate(words))
    return whole >> bits * index & (1 << bits) - 1


def read_back(tensors, name, method, bits, group, how):
    """Return the matrix (out, in) in fp32."""
    weights, zeros, scales = (tensors[name + end] for end in (".qweight", ".qzeros", ".scales"))
    scales, outer = scales.float().numpy(), scales.shape[1]
    inner = weights.shape[0] if method == "awq" else weights.shape[0] * 32 // bits
    columns = tensors.get(name + ".g_idx")
    size = inner if group == -1 else group
    columns = numpy.arange(inner) // size if columns is None else columns.numpy()
    one = method == "gptq" and how.get("format") != "gptq_v2"
    out = numpy.zeros((outer, inner), dtype=numpy.float32)
    for o in range(outer):
        at = o // 8 * 8 + AWQ_ORDER.index(o % 8) if method == "awq" else o
        for i in range(inner):
            code = (number(weights[i].tolist(), 4, at) if method == "awq"
                    else number(weights[:, o].tolist(), bits, i))
            zero = number(zeros[columns[i]].tolist(), bits, at)
            out[o, i] = numpy.float32(code - (zero + one & (1 << bits) - 1)) * scales[columns[i], o]
    return out


def module(site, path):
    spec = importlib.util.spec_from_file_location(path.split("/")[-1][:-3], os.path.join(site, path))
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded


def of_package(site, tensors, name, method, bits, group, how):
    """Return the same matrix by AutoGPTQ, from the rows of the identity, or AutoAWQ."""
    weights, zeros = tensors[name + ".qweight"], tensors[name + ".qzeros"]
    scales = tensors[name + ".scales"].float()
    if method == "awq":
        code = module(site, "awq/utils/packing_utils.py")
        return code.dequantize_gemm(weights, zeros, scales, bits, group).T.numpy()
    code = module(site, "auto_gptq/nn_modules/qlinear/qlinear_cuda.py")
    inner = weights.shape[0] * 32 // bits
    layer = code.QuantLinear(bits, group, inner, weights.shape[1], False, weight_dtype=torch.float32)
    layer.qweight, layer.scales = weights, scales
    layer.qzeros = zeros
    if name + ".g_idx" in tensors:
        layer.g_idx = tensors[name + ".g_idx"]
    return layer(torch.eye(inner)).T.detach().numpy()


def compare(site, tensors, name, run, matrix):
    method, bits, group, how = run
    if how.get("format") == "gptq_v2" or how.get("positive"):
        return False  # AutoGPTQ knows only gptq, and adds 1 without a limit
    theirs = of_package(site, tensors, name, method, bits, group, how)
    if not numpy.array_equal(theirs, matrix):
        sys.exit(f"{name}: {numpy.abs(theirs - matrix).max()}")
    return True


# ---- Runs ----

def chosen(name, how):
    if not name.startswith("model.layers.") or not name.endswith(
            ("_proj.weight", ".w1.weight", ".w2.weight", ".w3.weight")):
        return False
    path = name[:-len(".weight")]
    only = [end for step in how.get("only", []) for end in step]
    return (not only or any(path.endswith(end) for end in only)) and not any(
        part in path for part in how.get("but", []))


def config_of(method, bits, group, how):
    if method == "awq":
        return {"quant_method": "awq", "bits": bits, "group_size": group, "zero_point": True,
                "version": "gemm", "modules_to_not_convert": how.get("but")}
    config = {"quant_method": "gptq", "bits": bits, "group_size": group, "sym": how.get("sym", False),
              "desc_act": how.get("desc_act", False), "damp_percent": 0.01}
    if "format" in how:
        config["checkpoint_format"] = how["format"]
    if "only" in how:
        config["modules_in_block_to_quantize"] = how["only"]
    return config


def run(site, seed, kind, sizes, method, bits, group, how):
    torch.manual_seed(seed)
    dtype = how.get("dtype", "float16")
    model = AutoModelForCausalLM.from_config(kind(**sizes), dtype=torch.float32)
    tensors, digests, wide, compared = {}, {}, {}, False
    with tempfile.TemporaryDirectory() as to:  # with the names of files, a matrix for each expert
        model.save_pretrained(to)
        state = load_file(os.path.join(to, "model.safetensors"))
    for i, (name, value) in enumerate(state.items()):
        if how.get("positive") and "o_proj" in name:
            value = value.abs()
        if not chosen(name, how):
            tensors[name] = value.to(getattr(torch, dtype)).contiguous()
            wide[name] = tensors[name].float()
            continue
        path = name[:-len(".weight")]
        parts = packed(path, value.float().numpy(), method, bits, group, how, i)
        parts = {k: v if torch.is_tensor(v) else torch.tensor(v) for k, v in parts.items()}
        matrix = read_back(parts, path, method, bits, group, how)
        if site:
            compared |= compare(site, parts, path, (method, bits, group, how), matrix)
        tensors |= parts
        wide[name] = torch.tensor(matrix)
        digests[name] = hashlib.sha256(matrix.tobytes()).hexdigest()
    with tempfile.TemporaryDirectory() as to:
        model.save_pretrained(to)
        save_file(wide, os.path.join(to, "model.safetensors"), {"format": "pt"})
        adapted = {"target_modules": how["adapted"]} if "adapted" in how else {}
        result = lora.run(to, {"r": 4, "lora_alpha": 12} | adapted)
        with open(os.path.join(to, "config.json"), encoding="utf-8") as file:
            config = json.load(file)
        config["dtype"] = dtype
        config["quantization_config"] = config_of(method, bits, group, how)
        save_file(tensors, os.path.join(to, "model.safetensors"), {"format": "pt"})
        with open(os.path.join(to, "model.safetensors"), "rb") as file:
            weights = base64.b64encode(file.read()).decode()
    del result["merged"]
    package = {"awq": "AutoAWQ", "gptq": "AutoGPTQ"}[method] if compared else ""
    return {"compared": package, "files": {"config.json": json.dumps(config),
                                           "model.safetensors": {"base64": weights}},
            "digests": digests, **result}


def main(site=None):
    torch.set_num_threads(1)
    lora.write({name: run(site, seed, *how) for seed, (name, how) in enumerate(RUNS.items())})


if __name__ == "__main__":
    main(*sys.argv[1:2])
