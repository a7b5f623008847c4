#!/usr/bin/env python3
"""Make multimodal.json: tiny models with towers, computed by transformers on text alone, for
tests/unit/test_multimodal.c: loss, logits, the norm of each gradient of the text model and ten steps of
AdamW; and adapters, trained by PEFT.  The weights are those of architectures.py.

    python3 tests/golden/multimodal.py [NAME...]       (on a CPU; only these cases)
"""
import json
import os
import sys
import tempfile

import torch
import transformers
from peft import LoraConfig, PeftModel, get_peft_model
from safetensors.torch import load_file, save_file

import architectures
from architectures import (DECAY, LENGTHS, LLAMA, LR, decayed_names, elements, logits_of, tokens,
                           train)

TEXT = dict(LLAMA, head_dim=8)
QWEN_VISION = {"depth": 1, "hidden_size": 8, "num_heads": 2, "in_channels": 3, "patch_size": 2,
               "spatial_merge_size": 2, "temporal_patch_size": 2}
VIT = {"hidden_size": 8, "intermediate_size": 12, "num_hidden_layers": 1, "num_attention_heads": 2,
       "image_size": 8, "patch_size": 4}
MROPE = {"rope_type": "default", "rope_theta": 100.0, "mrope_section": [1, 1, 1]}

AUDIO = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 12,
         "num_mel_bins": 4, "max_source_positions": 8}
QWEN2 = dict(LLAMA, model_type="qwen2")
LATENT = dict(architectures.DEEPSEEK, n_group=1, topk_group=1, n_routed_experts=4, num_experts_per_tok=2)
YARN = dict(architectures.YARN, mscale=1.0, mscale_all_dim=1.0)

# The values of config.json, by model_type or, of Ministral 3, by that of the text model.
CASES = {
    "gemma3": {
        "text_config": dict(TEXT, num_hidden_layers=3, sliding_window=4, query_pre_attn_scalar=12,
                            sliding_window_pattern=2, rope_parameters={
                                "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0},
                                "full_attention": {"rope_type": "linear", "factor": 8.0,
                                                   "rope_theta": 1000000.0}}),
        "vision_config": dict(VIT, image_size=8), "mm_tokens_per_image": 1, "image_token_index": 39,
        "boi_token_index": 38, "eoi_token_index": 37},
    "gemma4": {
        "text_config": dict(TEXT, num_hidden_layers=3, sliding_window=4, global_head_dim=16,
                            attention_k_eq_v=True, num_global_key_value_heads=1,
                            hidden_size_per_layer_input=0, final_logit_softcapping=4.0,
                            layer_types=["sliding_attention"] * 2 + ["full_attention"]),
        "vision_config": {"hidden_size": 8, "intermediate_size": 12, "num_hidden_layers": 1,
                          "num_attention_heads": 2, "num_key_value_heads": 2, "head_dim": 4,
                          "patch_size": 2, "position_embedding_size": 16},
        "image_token_id": 39, "video_token_id": 38, "audio_token_id": 36},
    "gemma4_e": {
        "text_config": dict(TEXT, num_hidden_layers=5, sliding_window=4, global_head_dim=16,
                            hidden_size_per_layer_input=8, vocab_size_per_layer_input=40,
                            num_kv_shared_layers=3, use_double_wide_mlp=True,
                            layer_types=["sliding_attention", "full_attention"] * 2
                            + ["full_attention"]),
        "vision_config": {"hidden_size": 8, "intermediate_size": 12, "num_hidden_layers": 1,
                          "num_attention_heads": 2, "num_key_value_heads": 2, "head_dim": 4,
                          "patch_size": 2, "position_embedding_size": 16},
        "image_token_id": 39, "video_token_id": 38, "audio_token_id": 36},
    "gemma4_unified": {
        "text_config": dict(TEXT, num_hidden_layers=2, sliding_window=6, global_head_dim=12,
                            layer_types=["sliding_attention", "full_attention"]),
        "vision_config": {"mm_embed_dim": 8, "pooling_kernel_size": 1, "mm_posemb_size": 4,
                          "patch_size": 2, "output_proj_dims": 8},
        "image_token_id": 39, "video_token_id": 38, "audio_token_id": 36},
    "internvl": {
        "text_config": dict(QWEN2, num_hidden_layers=1, tie_word_embeddings=False),
        "vision_config": VIT, "image_token_id": 39, "tie_word_embeddings": False},
    "lfm2_vl": {
        "text_config": dict(LLAMA, model_type="lfm2", num_hidden_layers=3, block_multiple_of=8,
                            layer_types=["conv", "full_attention", "conv"]),
        "vision_config": dict(VIT, model_type="siglip2_vision_model", num_patches=4),
        "image_token_id": 39, "projector_hidden_size": 12},
    "mistral3": {
        "text_config": dict(TEXT, model_type="mistral", sliding_window=None,
                            tie_word_embeddings=False),
        "vision_config": dict(VIT, model_type="pixtral", head_dim=4), "image_token_index": 39,
        "tie_word_embeddings": False},
    "ministral3": {
        "text_config": dict(TEXT, model_type="ministral3", tie_word_embeddings=True,
                            rope_parameters={"rope_type": "yarn", "rope_theta": 1000000.0,
                                             "factor": 4.0, "beta_fast": 32.0, "beta_slow": 1.0,
                                             "original_max_position_embeddings": 16,
                                             "llama_4_scaling_beta": 0.1, "mscale": 1.0,
                                             "mscale_all_dim": 1.0}),
        "vision_config": dict(VIT, model_type="pixtral", head_dim=4), "image_token_index": 39},
    "mistral4": {
        "text_config": dict(
            LATENT, model_type="mistral4", first_k_dense_replace=1, n_group=2, attention_bias=True, routed_scaling_factor=1.5,
            rope_parameters=dict(YARN, llama_4_scaling_beta=0.3)),
        "vision_config": dict(VIT, model_type="pixtral", head_dim=4), "image_token_index": 39,
        "tie_word_embeddings": False},
    "mistral4_plain": {
        "text_config": dict(
            LATENT, model_type="mistral4", q_lora_rank=None, v_head_dim=16, rope_interleave=False,
            num_hidden_layers=1, first_k_dense_replace=0, norm_topk_prob=False, n_shared_experts=2,
            tie_word_embeddings=True, rope_parameters=dict(YARN, llama_4_scaling_beta=0.1)),
        "vision_config": dict(VIT, model_type="pixtral", head_dim=4), "image_token_index": 39,
        "tie_word_embeddings": True},
    "mllama": {
        "text_config": dict(LLAMA, num_hidden_layers=4, cross_attention_layers=[1, 3],
                            tie_word_embeddings=False, pad_token_id=3),
        "vision_config": {"hidden_size": 8, "intermediate_size": 12, "num_hidden_layers": 2,
                          "num_global_layers": 1, "attention_heads": 2, "vision_output_dim": 16,
                          "image_size": 8, "patch_size": 4, "intermediate_layers_indices": [0]},
        "image_token_index": 40},
    "llava": {
        "text_config": dict(TEXT, model_type="llama"),
        "vision_config": dict(VIT, model_type="clip_vision_model"), "image_token_index": 39},
    "llava_onevision": {
        "text_config": QWEN2, "image_token_index": 39, "video_token_index": 38,
        "vision_config": dict(VIT, model_type="siglip_vision_model", vision_use_head=False)},
    "qwen2_vl": {
        "text_config": dict(LLAMA, rope_parameters=dict(MROPE)), "tie_word_embeddings": True,
        "vision_config": dict(QWEN_VISION, embed_dim=8, hidden_size=24), "image_token_id": 39,
        "video_token_id": 38, "vision_start_token_id": 37, "vision_end_token_id": 36},
    "qwen2_5_vl": {
        "text_config": dict(LLAMA, rope_parameters=dict(MROPE)),
        "vision_config": dict(QWEN_VISION, intermediate_size=12, out_hidden_size=24,
                              fullatt_block_indexes=[0], window_size=8),
        "image_token_id": 39, "video_token_id": 38, "vision_start_token_id": 37,
        "vision_end_token_id": 36},
    "qwen3_vl": {
        "text_config": dict(TEXT, tie_word_embeddings=True, rope_parameters=dict(
            MROPE, mrope_section=[2, 1, 1], mrope_interleaved=True)),
        "vision_config": dict(QWEN_VISION, intermediate_size=12, out_hidden_size=24,
                              num_position_embeddings=16, deepstack_visual_indexes=[0]),
        "tie_word_embeddings": True, "image_token_id": 39, "video_token_id": 38,
        "vision_start_token_id": 37, "vision_end_token_id": 36},
    "qwen3_5": {
        "text_config": dict(TEXT, linear_num_key_heads=2, linear_num_value_heads=4,
                            linear_key_head_dim=8, linear_value_head_dim=12, layer_types=[
                                "linear_attention", "full_attention"],
                            rope_parameters=dict(MROPE, mrope_interleaved=True,
                                                 partial_rotary_factor=0.75)),
        "vision_config": dict(QWEN_VISION, intermediate_size=12, out_hidden_size=24,
                              num_position_embeddings=16),
        "image_token_id": 39, "video_token_id": 38, "vision_start_token_id": 37,
        "vision_end_token_id": 36},
    "qwen3_5_moe": {
        "text_config": dict(
            {k: v for k, v in TEXT.items() if k != "intermediate_size"}, num_experts=4,
            num_experts_per_tok=2, moe_intermediate_size=20,
            shared_expert_intermediate_size=28, linear_num_key_heads=2, linear_num_value_heads=4,
                            linear_key_head_dim=8, linear_value_head_dim=12, layer_types=[
                                "linear_attention", "full_attention"],
                            rope_parameters=dict(MROPE, mrope_interleaved=True,
                                                 partial_rotary_factor=0.75)),
        "vision_config": dict(QWEN_VISION, intermediate_size=12, out_hidden_size=24,
                              num_position_embeddings=16),
        "image_token_id": 39, "video_token_id": 38, "vision_start_token_id": 37,
        "vision_end_token_id": 36},
    "paddleocr_vl": {
        "text_config": dict(TEXT, tie_word_embeddings=False, rope_parameters=dict(MROPE, mrope_section=[2, 1, 1])),
        "vision_config": VIT, "tie_word_embeddings": False, "image_token_id": 39, "video_token_id": 38,
        "vision_start_token_id": 37, "vision_end_token_id": 36},
    "voxtral": {
        "text_config": dict(TEXT, model_type="llama"), "audio_config": AUDIO, "audio_token_id": 39},
    "qwen2_audio": {
        "text_config": QWEN2, "audio_token_index": 39,
        "audio_config": {"d_model": 8, "encoder_layers": 1, "encoder_attention_heads": 2,
                         "encoder_ffn_dim": 12, "num_mel_bins": 4, "max_source_positions": 8}},
    "phi4_multimodal": dict(
        LLAMA, num_attention_heads=3, num_key_value_heads=1, pad_token_id=0, bos_token_id=1, eos_token_id=2,
        rope_parameters={"rope_type": "default", "rope_theta": 100.0, "partial_rotary_factor": 0.5},
        audio_config=dict(num_blocks=1, hidden_size=4, num_attention_heads=1, intermediate_size=4, input_size=8,
                          nemo_conv_channels=2, ext_pw_out_channel=4, depthwise_separable_out_channel=4,
                          bias_max_distance=2, audio_token_id=39),
        vision_config=dict(num_hidden_layers=1, hidden_size=4, num_attention_heads=1, intermediate_size=4,
                           crop_size=28, image_size=28, patch_size=14, image_token_id=38)),
    "audioflamingo3": {"text_config": QWEN2, "audio_config": AUDIO, "audio_token_id": 39},
    "musicflamingo": {
        "text_config": QWEN2, "audio_token_id": 39,
        "audio_config": dict(AUDIO, model_type="audioflamingo3_encoder")},
    "glm4v": {
        "text_config": dict(LLAMA, hidden_size=32, tie_word_embeddings=False, rope_parameters=dict(
            MROPE, mrope_section=[1, 1, 0], partial_rotary_factor=0.5)),
        "vision_config": {"depth": 1, "hidden_size": 8, "num_heads": 2, "intermediate_size": 12,
                          "out_hidden_size": 32, "patch_size": 2, "image_size": 8},
        "image_token_id": 39, "video_token_id": 38},
    "llama4": {
        "text_config": dict(TEXT, intermediate_size=20, intermediate_size_mlp=44,
                            num_local_experts=4, num_hidden_layers=3, interleave_moe_layer_step=2,
                            no_rope_layer_interval=2),
        "vision_config": dict(VIT, image_size=8, vision_output_dim=8, projector_input_dim=8,
                              projector_output_dim=8), "image_token_index": 39,
        "boi_token_index": 38, "eoi_token_index": 37},
    "qwen3_vl_moe": {
        "text_config": dict(TEXT, num_experts=4, num_experts_per_tok=2, moe_intermediate_size=20,
                            num_hidden_layers=3, mlp_only_layers=[1], tie_word_embeddings=False,
                            rope_parameters=dict(MROPE, mrope_section=[2, 1, 1], mrope_interleaved=True)),
        "vision_config": dict(QWEN_VISION, intermediate_size=12, out_hidden_size=24,
                              num_position_embeddings=16, deepstack_visual_indexes=[0]),
        "image_token_id": 39, "video_token_id": 38, "vision_start_token_id": 37,
        "vision_end_token_id": 36},
}


def flat(config):
    """Make a config.json as Qwen2-VL was published with."""
    text = config.pop("text_config")
    rope = text.pop("rope_parameters")
    text.pop("model_type")
    config |= {key: value for key, value in text.items() if key not in config}
    config |= {"rope_theta": rope["rope_theta"],
               "rope_scaling": {"type": "mrope", "mrope_section": rope["mrope_section"]}}


def flat_paddle(config):
    """Make a config.json as PaddleOCR-VL was published with."""
    text = config.pop("text_config")
    rope = text.pop("rope_parameters")
    text.pop("model_type")
    config |= {key: value for key, value in text.items() if key not in config}
    config |= {"rope_theta": rope["rope_theta"], "rope_scaling": {
        "type": "default", "rope_type": "default", "mrope_section": rope["mrope_section"]}}
    config["vision_config"] |= {"model_type": "paddleocr_vl", "temporal_patch_size": 2, "tokens_per_second": 2}
    config["vision_config"].pop("rope_parameters")


def sparse(config):
    """Make a config.json as Gemma 3 was published with: without what its class has by default."""
    text = config["text_config"]
    for key in ("layer_types", "_sliding_window_pattern", "tie_word_embeddings", "pad_token_id",
                "hidden_activation", "rms_norm_eps"):
        text.pop(key)
    text["rope_scaling"] = {"factor": 8.0, "rope_type": "linear"}
    text.pop("rope_parameters")
    config.pop("tie_word_embeddings")


def published(config):
    """Make a config.json as Gemma 4 was published with."""
    text = config["text_config"]
    text.pop("per_layer_config")
    text |= {"global_head_dim": 16, "num_global_key_value_heads": 1}
    for key in ("rope_parameters", "hidden_activation", "pad_token_id", "tie_word_embeddings"):
        text.pop(key)


def renamed_phi4(name):
    """Name a matrix of a block as the published files do, in which adapters of the model's own are on it."""
    return name.replace("_proj.weight", "_proj.base_layer.weight") if name.startswith("model.layers.") else name


def remote(config):
    """Make a config.json as Phi-4-multimodal was published with."""
    rope = config.pop("rope_parameters")
    for key in ("audio_config", "vision_config"):
        config.pop(key)
    config |= {"model_type": "phi4mm", "rope_theta": rope["rope_theta"],
               "partial_rotary_factor": rope["partial_rotary_factor"]}


# Cases whose files transformers does not read: it computes the same model under its own names.
REMOTE = {"phi4mm": ("phi4_multimodal", remote, renamed_phi4)}

# Cases in which config.json or the names of tensors are others than transformers 5 writes.
OTHERS = {
    "gemma3-sparse": ("gemma3", sparse, []),
    "gemma4-published": ("gemma4", published, []),
    "gemma4_e-published": ("gemma4_e", published, []),
    "gemma3-new-names": ("gemma3", None, [
        ("language_model.model.", "model.language_model."),
        ("vision_tower.", "model.vision_tower."),
        ("multi_modal_projector.", "model.multi_modal_projector.")]),
    "mistral3-new-names": ("mistral3", None, [
        ("language_model.model.", "model.language_model."),
        ("language_model.lm_head.", "lm_head."),
        ("vision_tower.", "model.vision_tower."),
        ("multi_modal_projector.", "model.multi_modal_projector.")]),
    "qwen2_vl-flat": ("qwen2_vl", flat, []),
    "paddleocr_vl-flat": ("paddleocr_vl", flat_paddle, []),
    "qwen2_5_vl-new-names": ("qwen2_5_vl", None, [("model.", "model.language_model."),
                                                  ("visual.", "model.visual.")]),
}
# Cases whose files have transposed tensors of experts, as Qwen published them.
TRANSPOSED = ("qwen3_vl_moe-published",)
# Tensors of encoders that are left out of a case: it takes as much room as many others.
LEFT_OUT = {"phi4_multimodal": (".img_processor.",)}
# Cases that have only a config.json: their tensors and results must be those of another case.
SAME = {"gemma3-sparse": "gemma3", "gemma4-published": "gemma4", "gemma4_e-published": "gemma4_e",
        "musicflamingo": "audioflamingo3", "paddleocr_vl-flat": "paddleocr_vl", "qwen2_vl-flat": "qwen2_vl"}
OTHERS |= {"qwen3_vl_moe-published": ("qwen3_vl_moe", None, [])}
LAYERS = "self_attn.q_proj|self_attn.v_proj|mlp.up_proj|mlp.down_proj"
TARGETS = r"model\.language_model\.layers\.\d+\.(?:" + LAYERS.replace(".", r"\.") + ")"
# Other layers than those of most models.
LAYERS_OF = {"mistral4": r"self_attn\.q_a_proj|self_attn\.q_b_proj|self_attn\.kv_b_proj|self_attn\.o_proj"}
# The one layer outside the blocks that can have an adapter.
MORE_TARGETS = {"gemma4_e": r"|model\.language_model\.per_layer_model_projection"}
ADAPTERS = {f"towers-{base}-lora": base for base in ("gemma3", "gemma4", "gemma4_e", "lfm2_vl", "mistral3", "mistral4", "mllama", "qwen2_vl", "qwen3_vl")}
# What adapters fit: not the layers that text without images skips.
NUMBERS = {"mllama": "(?:0|2)"}


def class_of(config):
    """Return the class of a model with a head; its auto class depends on the towers."""
    for auto in (transformers.AutoModelForImageTextToText, transformers.AutoModelForMultimodalLM,
                 transformers.AutoModelForSeq2SeqLM):
        if type(config) in auto._model_mapping:
            return auto._model_mapping[type(config)]
    raise ValueError(config.model_type)


def loss_of(model, batch):
    losses = [model(input_ids=torch.tensor([ids]), labels=torch.tensor([ids])).loss
              * (len(ids) - 1) for ids in batch]
    return sum(losses) / sum(len(ids) - 1 for ids in batch)


architectures.loss_of = loss_of # without dropout


def renamed(name, names):
    for old, new in names:
        if name.startswith(old):
            return new + name[len(old):]
    return name


def make(case, folder):
    """Write the folder of a model; return its config, tensor shapes and norm offset."""
    if case in REMOTE:
        return make_remote(case, folder)
    model_type, change, names = OTHERS.get(case, (case, None, []))
    values = CASES[model_type]
    outer = {"ministral3": "mistral3", "mistral4": "mistral3", "mistral4_plain": "mistral3",
             "gemma4_e": "gemma4"}.get(model_type, model_type)
    config = transformers.CONFIG_MAPPING[outer](**json.loads(json.dumps(values)))
    class_of(config)._from_config(config).save_pretrained(folder)
    path = os.path.join(folder, "model.safetensors")
    shapes = {renamed(n, names): list(t.shape) for n, t in sorted(load_file(path).items())}
    for name, shape in shapes.items():
        if case in TRANSPOSED and ".experts." in name:
            shapes[name] = [shape[0], shape[2], shape[1]]
    offset = 1 if architectures.has_offset(model_type) else 0
    save_file({n: elements(n, s, offset) for n, s in shapes.items()}, path, {"format": "pt"})
    path = os.path.join(folder, "config.json")
    with open(path) as file:
        config = json.load(file)
    if change:
        change(config)
        with open(path, "w") as file:
            json.dump(config, file)
    return config, shapes, offset


def make_remote(case, folder):
    """Write the folder of a model under its names in transformers; return what its own would have."""
    base, change, rename = REMOTE[case]
    config, shapes, offset = make(base, folder)
    save_file({n: elements(rename(n), s, offset) for n, s in shapes.items()},
              os.path.join(folder, "model.safetensors"), {"format": "pt"})
    change(config)
    own = {rename(n): s for n, s in shapes.items() if ".encoder." not in n and ".img_processor." not in n}
    for name, shape in list(own.items()):
        if ".base_layer." in name:
            for adapter, rank in (("speech", 2), ("vision", 1)):
                stem = name.replace("base_layer", "lora_{}." + adapter)
                own |= {stem.format("A"): [rank, shape[1]], stem.format("B"): [shape[0], rank]}
    return config, own, offset


def load(folder):
    model, info = class_of(transformers.AutoConfig.from_pretrained(folder)).from_pretrained(
        folder, dtype=torch.float32, attn_implementation="eager", output_loading_info=True)
    assert not any(info[key] for key in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    if model.config.model_type == "llama4": # 5.24 reads image_outputs, which text does not have
        model.forward = model.language_model.forward
    for name, parameter in model.named_parameters():
        parameter.requires_grad_("language_model" in name or name.startswith(
            ("lm_head", "model.layers.", "model.norm.", "model.embed_tokens.")))
    for number in getattr(model.config.get_text_config(), "cross_attention_layers", []):
        model.model.language_model.layers[number].requires_grad_(False) # skipped without images
    return model.train()


def case(name, batch):
    with tempfile.TemporaryDirectory() as folder:
        config, shapes, offset = make(name, folder)
        model = load(folder)
    logits = logits_of(model, batch)
    decayed = decayed_names(model, str)
    losses, norms = train(model, batch, decayed, str)
    shapes = {n: s for n, s in shapes.items() if not any(part in n for part in LEFT_OUT.get(name, ()))}
    return {"name": "towers-" + name, "config": config, "offset": offset, "tensors": shapes,
            "logits": logits, "losses": losses, "norms": norms,
            "undecayed": sorted(n for n in norms if n not in decayed and ".experts." not in n)}


def adapter(name, base, batch):
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as to:
        make(base, folder)
        fresh = get_peft_model(load(folder), LoraConfig(
            r=4, lora_alpha=6, task_type="CAUSAL_LM",
            target_modules=TARGETS.replace(r"\d+", NUMBERS.get(base, r"\d+"))
            .replace(LAYERS.replace(".", r"\."), LAYERS_OF.get(base, LAYERS.replace(".", r"\.")))
            + MORE_TARGETS.get(base, "")))
        fresh.save_pretrained(to)
        path = os.path.join(to, "adapter_model.safetensors")
        shapes = {n: list(t.shape) for n, t in sorted(load_file(path).items())}
        save_file({n: elements(n, s, 0) for n, s in shapes.items()}, path, {"format": "pt"})
        with open(os.path.join(to, "adapter_config.json")) as file:
            config = json.load(file)
        model = PeftModel.from_pretrained(load(folder), to, is_trainable=True).train()
    label = lambda n: n.replace(".default", "")
    logits = logits_of(model, batch)
    losses, norms = train(model, batch, decayed_names(model, label), label)
    kept = ("r", "lora_alpha", "use_rslora", "target_modules", "fan_in_fan_out", "peft_type")
    return {"name": name, "base": "towers-" + base, "config": {key: config[key] for key in kept},
            "tensors": shapes, "logits": logits, "losses": losses, "norms": norms}


def shortened(models):
    """Leave out what a case has in common with another one."""
    by_name = {one["name"]: one for one in models}
    for name, other in SAME.items():
        one, full = by_name.get("towers-" + name), by_name.get("towers-" + other)
        if not one or "same_as" in one:
            continue
        assert all(one[key] == full[key] for key in one if key not in ("name", "config")), name
        by_name["towers-" + name] = {"name": one["name"], "config": one["config"], "same_as": full["name"]}
    return list(by_name.values())


def main():
    torch.set_num_threads(1)
    path = os.path.join(os.path.dirname(__file__), "multimodal.json")
    batch = [tokens(count, i) for i, count in enumerate(LENGTHS)]
    names = sys.argv[1:] or [*CASES, *OTHERS, *REMOTE, *ADAPTERS]
    results = {"made_with": f"transformers {transformers.__version__}, torch "
                            f"{torch.__version__.split('+')[0]}",
               "batch": batch, "lr": LR, "weight_decay": DECAY, "models": [], "adapters": []}
    if sys.argv[1:]:
        with open(path) as file:
            results = json.load(file)
    made = [name if name in ADAPTERS else "towers-" + name for name in names]
    for key in ("models", "adapters"):
        results[key] = [one for one in results[key] if one["name"] not in made]
    for name in names:
        if name in ADAPTERS:
            results["adapters"].append(adapter(name, ADAPTERS[name], batch))
        else:
            results["models"].append(case(name, batch))
    results["models"] = shortened(results["models"])
    architectures.write(results, path)


if __name__ == "__main__":
    main()
