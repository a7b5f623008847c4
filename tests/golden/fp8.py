#!/usr/bin/env python3
"""Make fp8.json: tiny models whose weights are in FP8 and NVFP4, for tests/unit/test_packed.c: the
tensors of their files, and the logits and the loss that transformers computes from them in float32.

    python3 tests/golden/fp8.py [SITE] >tests/golden/fp8.json       (on a CPU)

"fp8" cases are dequantized by transformers as it loads them; the others by compressed-tensors, which is
in the folder SITE, or by the formula of NVIDIA's Model Optimizer below.  Experts in one tensor ("joined")
are dequantized by that formula.  "codes" has what torch makes of
every byte in float8_e4m3fn, and "blocks" a matrix whose last blocks are smaller, by expanding its scales.
"""
import json
import os
import sys
import tempfile

import torch
import transformers
from safetensors.torch import load_file, save_file

import architectures
from architectures import LLAMA, elements, hashed, rounded, tokens

sys.path[:0] = sys.argv[1:2]
SIZES = dict(LLAMA, hidden_size=32, intermediate_size=48, head_dim=8)
OF_32 = dict(SIZES, intermediate_size=64)
EXPERTS = dict(SIZES, num_experts=4, num_experts_per_tok=2, moe_intermediate_size=16, norm_topk_prob=True)
# two matrices of 24 rows each, of which one ends inside of a block
JOINED = dict(EXPERTS, moe_intermediate_size=24)
E4M3 = torch.float8_e4m3fn
E2M1 = torch.tensor([0, .5, 1, 1.5, 2, 3, 4, 6, -0., -.5, -1, -1.5, -2, -3, -4, -6])


def codes_of(name, shape):
    """Return codes of every value but NaN."""
    count = torch.Size(shape).numel()
    out = torch.tensor([int((x + 1) / 2 * 256) for x in hashed(name, count)], dtype=torch.uint8)
    out[out % 128 == 127] = 0
    return out.reshape(shape)


def scales_of(name, shape, size, dtype=torch.float32):
    """Return scales with which values are about `size`."""
    count = max(torch.Size(shape).numel(), 1)
    out = torch.tensor([size * (1.5 + x) for x in hashed(name + " scales", count)])
    return out.reshape(shape).to(dtype)


def blocks_of(shape, rows, cols):
    """Return the shape of the scales; that of the experts may precede rows and columns."""
    return (*shape[:-2], -(-shape[-2] // rows), -(-shape[-1] // cols))


def fp8(name, shape, ending, dims, dtype=torch.float32):
    return {name: codes_of(name, shape).view(E4M3),
            name + ending: scales_of(name, dims, 0.003, dtype)}


def of_blocks(rows, cols, dtype=torch.float32):
    return lambda name, shape: fp8(name, shape, "_scale_inv", blocks_of(shape, rows, cols), dtype)


def of_tensor(name, shape):
    stem = name.removesuffix(".weight")
    return fp8(name, shape, "_scale_inv", (), torch.bfloat16) | {
        f"{stem}.activation_scale": torch.tensor(0.5, dtype=torch.bfloat16)}


def of_exponents(name, shape):
    """Scales in E8M0, as bytes."""
    dims = blocks_of(shape, 16, 16)
    count = torch.Size(dims).numel()
    exponents = [int(118 + 2 * x) for x in hashed(name + " scales", count)]
    return {name: codes_of(name, shape).view(E4M3),
            name + "_scale_inv": torch.tensor(exponents, dtype=torch.uint8).reshape(dims)}


def exponents_of(name, shape):
    """Return scales in E8M0 of 32 elements of a row each."""
    dims = (shape[0], shape[1] // 32)
    return torch.tensor([int(118 + 2 * x) for x in hashed(name + " scales", torch.Size(dims).numel())],
                        dtype=torch.uint8).reshape(dims)


def of_mx8(ending):
    return lambda name, shape: {name: codes_of(name, shape).view(E4M3), name + ending: exponents_of(name, shape)}


def of_mx4(name, shape):
    return {f"{name}_packed": codes_of(name, (shape[0], shape[1] // 2)),
            f"{name}_scale": exponents_of(name, shape) + 8}


def of_rows(name, shape):
    return fp8(name, shape, "_scale", (shape[0], 1), torch.float32)


def of_expert_rows(name, shape):
    """As llm-compressor writes them: a scale for each row of each expert."""
    return fp8(name, shape, "_scale", (*shape[:-1], 1), torch.bfloat16)


def of_one(name, shape):
    return fp8(name, shape, "_scale", (1,), torch.float32) | {
        name.removesuffix("weight") + "input_scale": torch.tensor([0.5])}


def nvfp4(name, shape):
    scales = scales_of(name, (shape[0], shape[1] // 16), 50).to(E4M3)
    return codes_of(name, (shape[0], shape[1] // 2)), scales


def of_packed(name, shape):
    codes, scales = nvfp4(name, shape)
    stem = name.removesuffix("weight")
    return {f"{name}_packed": codes, f"{name}_scale": scales,
            f"{name}_global_scale": torch.tensor([1234.5]),
            f"{stem}input_global_scale": torch.tensor([3.0])}


def of_modelopt(name, shape):
    codes, scales = nvfp4(name, shape)
    return {name: codes, f"{name}_scale": scales, f"{name}_scale_2": torch.tensor(0.00123)}


def compressed(form, weights):
    group = {"targets": ["Linear"], "format": form, "weights": weights}
    return {"quant_method": "compressed-tensors", "format": form, "quantization_status": "compressed",
            "config_groups": {"group_0": group}, "ignore": ["lm_head"]}


FLOAT8 = {"num_bits": 8, "type": "float", "symmetric": True, "dynamic": False}
SKIPPED = {"quant_method": "fp8", "activation_scheme": "dynamic", "modules_to_not_convert": ["lm_head"]}
# class of the config, its values, quantization_config, tensors of a weight
MODELS = {
    "fp8-blocks": (transformers.Qwen3Config, SIZES, dict(SKIPPED, weight_block_size=[16, 16]),
                   of_blocks(16, 16)),
    "fp8-bf16-scales": (transformers.LlamaConfig, SIZES, dict(SKIPPED, weight_block_size=[8, 16]),
                        of_blocks(8, 16, torch.bfloat16)),
    "fp8-tensor": (transformers.LlamaConfig, SIZES,
                   dict(SKIPPED, activation_scheme="static", weight_block_size=None), of_tensor),
    "fp8-exponents": (transformers.LlamaConfig, SIZES,
                      dict(SKIPPED, weight_block_size=[16, 16], scale_fmt="ue8m0"), of_exponents),
    "fp8-experts": (transformers.Qwen3MoeConfig, EXPERTS,
                    dict(SKIPPED, weight_block_size=[16, 16],
                         modules_to_not_convert=["lm_head", "model.layers.0.mlp.gate",
                                                 "model.layers.1.mlp.gate"]), of_blocks(16, 16)),
    "fp8-joined-experts": (transformers.Qwen3MoeConfig, JOINED, dict(SKIPPED, weight_block_size=[16, 16]),
                           of_blocks(16, 16)),
    # as published, but for the size of blocks
    "fp8-minimax": (transformers.MiniMaxM2Config,
                    dict(SIZES, num_local_experts=4, num_experts_per_tok=2, rotary_dim=4, pad_token_id=None),
                    {"activation_scheme": "dynamic", "fmt": "float8_e4m3fn", "quant_method": "fp8",
                     "weight_block_size": [16, 16],
                     "modules_to_not_convert": ["gate", "e_score_correction_bias", "lm_head"]}, of_blocks(16, 16)),
    "compressed-joined-experts": (transformers.GraniteMoeConfig, dict(SIZES, num_local_experts=4),
                                  compressed("float-quantized", FLOAT8 | {"strategy": "channel"}),
                                  of_expert_rows),
    "compressed-rows": (transformers.LlamaConfig, SIZES,
                        compressed("float-quantized", FLOAT8 | {"strategy": "channel"}), of_rows),
    "compressed-tensor": (transformers.LlamaConfig, SIZES,
                          compressed("float-quantized", FLOAT8 | {"strategy": "tensor"}), of_one),
    "compressed-nvfp4": (transformers.LlamaConfig, SIZES,
                         compressed("nvfp4-pack-quantized",
                                    {"num_bits": 4, "type": "float", "symmetric": True, "dynamic": False,
                                     "strategy": "tensor_group", "group_size": 16}), of_packed),
    "fp8-mx": (transformers.LlamaConfig, OF_32,
               dict(SKIPPED, quant_method="mxfp8", weight_block_size=[1, 32], scale_fmt="ue8m0"),
               of_mx8("_scale_inv")),
    "compressed-mxfp8": (transformers.LlamaConfig, OF_32,
                         compressed("mxfp8-quantized", FLOAT8 | {"strategy": "group", "group_size": 32}),
                         of_mx8("_scale")),
    "compressed-mxfp4": (transformers.LlamaConfig, OF_32,
                         compressed("mxfp4-pack-quantized", FLOAT8 | {"num_bits": 4, "strategy": "group",
                                                                      "group_size": 32}), of_mx4),
    "modelopt-fp8": (transformers.LlamaConfig, SIZES,
                     {"quant_method": "modelopt", "quant_algo": "FP8", "ignore": ["lm_head"]}, of_one),
    "modelopt-nvfp4": (transformers.LlamaConfig, SIZES,
                       {"quant_method": "modelopt", "quant_algo": "NVFP4", "ignore": ["lm_head"]},
                       of_modelopt),
}


def is_packed(name, tensor):
    """The weights of experts in one tensor, and matrices."""
    if tensor.dim() == 3:
        return "experts" in name or "_linear" in name
    return tensor.dim() == 2 and name.endswith(".weight") and "layers" in name and \
        not name.endswith(("gate.weight", "router.layer.weight"))


def joined(tensors):
    """Return tensors with the matrices of all experts in one, as transformers 5 has them in memory."""
    def stack(stem, part):
        return torch.stack([out.pop(f"{stem}{i}.{part}_proj.weight") for i in range(JOINED["num_experts"])])
    out, first = dict(tensors), "0.gate_proj.weight"
    for stem in [key.removesuffix(first) for key in tensors if key.endswith(".experts." + first)]:
        out[stem + "gate_up_proj"] = torch.cat([stack(stem, "gate"), stack(stem, "up")], 1)
        out[stem + "down_proj"] = stack(stem, "down")
    return out


def folder_of(folder, name):
    kind, values, quantization, pack = MODELS[name]
    config = kind(**values)
    transformers.AutoModelForCausalLM.from_config(config).save_pretrained(folder)
    path = os.path.join(folder, "model.safetensors")
    tensors, shapes, packed = {}, {}, {}
    whole = load_file(path)
    for key, tensor in (joined(whole) if "joined" in name else whole).items():
        if is_packed(key, tensor):
            packed |= pack(key, tuple(tensor.shape))
            continue
        shapes[key] = list(tensor.shape)
        tensors[key] = elements(key, shapes[key], 0)
    save_file(tensors | packed, path, {"format": "pt"})
    path = os.path.join(folder, "config.json")
    with open(path) as file:
        saved = json.load(file)
    saved["quantization_config"] = quantization
    with open(path, "w") as file:
        json.dump(saved, file)
    return saved, shapes, tensors, packed


def by_compressed_tensors(quantization, packed, key):
    """In float32; its own decompressor makes the same of NVFP4 in bfloat16."""
    from compressed_tensors.compressors.mx_utils import decompress_mx_scale
    from compressed_tensors.compressors.nvfp4.helpers import unpack_fp4_from_uint8
    from compressed_tensors.quantization import QuantizationScheme
    from compressed_tensors.quantization.lifecycle.forward import dequantize
    scheme = QuantizationScheme(**quantization["config_groups"]["group_0"])
    scales = packed[f"{key}_scale"]
    if scales.dtype == torch.uint8:
        scales = decompress_mx_scale(scales)
    if key in packed:
        return dequantize(packed[key], scales.float(), args=scheme.weights, dtype=torch.float32)
    codes = packed[f"{key}_packed"]
    return dequantize(unpack_fp4_from_uint8(codes, codes.shape[0], codes.shape[1] * 2, torch.float32),
                      scales.float(), args=scheme.weights, dtype=torch.float32,
                      global_scale=packed.get(f"{key}_global_scale"))


def whole_of(scales, shape):
    """Return a scale for each element of tensors in blocks of 16 x 16, or with a scale for each row, or one."""
    if scales.dim() < 2 or scales.shape[-2:] == (shape[-2], 1):
        return scales
    return scales.repeat_interleave(16, -2)[..., :shape[-2], :].repeat_interleave(16, -1)[..., :shape[-1]]


def by_formula(packed, key):
    codes = packed[key]
    scales = packed[f"{key}_scale_inv" if f"{key}_scale_inv" in packed else f"{key}_scale"].float()
    if codes.dtype == E4M3:
        return codes.float() * whole_of(scales, codes.shape)
    both = torch.stack([codes & 15, codes >> 4], -1).reshape(codes.shape[0], -1)
    scales = (scales * packed[f"{key}_scale_2"]).repeat_interleave(16, 1)
    return E2M1[both.long()] * scales


def load(folder, name, tensors, packed):
    """Return the model with dequantized weights, in float32."""
    quantization = MODELS[name][2]
    formula = "joined" in name or quantization["quant_method"] == "modelopt"
    if quantization["quant_method"] in ("fp8", "mxfp8") and not formula:
        return transformers.AutoModelForCausalLM.from_pretrained(
            folder, dtype=torch.float32, attn_implementation="eager",
            quantization_config=transformers.FineGrainedFP8Config(
                **{k: v for k, v in quantization.items() if k != "quant_method"}, dequantize=True))
    keys = {k.replace("_packed", "") for k in packed if k.endswith(("weight", "weight_packed", "_proj"))}
    for key in keys:
        tensors[key] = by_formula(packed, key) if formula else by_compressed_tensors(quantization, packed, key)
        tensors[key] = tensors[key].float()
    save_file(tensors, os.path.join(folder, "model.safetensors"), {"format": "pt"})
    path = os.path.join(folder, "config.json")
    with open(path) as file:
        saved = json.load(file)
    del saved["quantization_config"]
    with open(path, "w") as file:
        json.dump(saved, file)
    return transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32,
                                                             attn_implementation="eager")


DTYPES = {torch.float32: "F32", torch.bfloat16: "BF16", torch.uint8: "U8", E4M3: "F8_E4M3"}


def stored(tensor):
    return {"dtype": DTYPES[tensor.dtype], "shape": list(tensor.shape),
            "hex": tensor.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes().hex()}


def case_of(name, batch):
    with tempfile.TemporaryDirectory() as folder:
        config, shapes, tensors, packed = folder_of(folder, name)
        model = load(folder, name, dict(tensors), packed)
    logits = architectures.logits_of(model, batch)
    loss = architectures.loss_of(model.train(), batch)
    return {"name": name, "config": config, "offset": 0, "tensors": shapes,
            "bytes": {n: stored(t) for n, t in packed.items()},
            "logits": logits, "losses": [rounded(loss.detach())]}


def smaller_blocks():
    """A matrix of 20 x 27 in blocks of 8 x 16, which transformers does not divide."""
    codes, scales = codes_of("blocks", (20, 27)), scales_of("blocks", (3, 2), 0.003)
    whole = scales.repeat_interleave(8, 0)[:20].repeat_interleave(16, 1)[:, :27]
    return {"codes": stored(codes), "scales": stored(scales),
            "values": stored(codes.view(E4M3).float() * whole)}


def main():
    torch.set_num_threads(1)
    batch = [tokens(count, i) for i, count in enumerate(architectures.LENGTHS)]
    every = torch.arange(256, dtype=torch.uint8).view(E4M3).float()
    import compressed_tensors
    json.dump({"made_with": f"transformers {transformers.__version__}, torch "
                            f"{torch.__version__.split('+')[0]}, compressed-tensors "
                            f"{compressed_tensors.__version__}",
               "batch": batch, "lr": architectures.LR, "weight_decay": architectures.DECAY,
               "codes": stored(every), "blocks": smaller_blocks(),
               "models": [case_of(name, batch) for name in MODELS]},
              sys.stdout, separators=(",", ":"))
    sys.stdout.write("\n")


main()
