#!/usr/bin/env python3
"""Make towers.json and towers.safetensors: tiny encoders of sound and images with their projectors, computed
by transformers, for tests/unit/test_tower.c.  Weights and inputs are hashed from their names.

    python3 tests/golden/towers.py     (on a CPU)
"""
import json
import math
import os
import re
import tempfile

import numpy
import torch
import transformers
from safetensors.torch import load_file, save_file
from transformers.masking_utils import create_bidirectional_mask

from architectures import hashed
from multimodal import class_of

QWEN2 = dict(model_type="qwen2", vocab_size=40, hidden_size=24, intermediate_size=32, num_hidden_layers=1,
             num_attention_heads=2, num_key_value_heads=2, tie_word_embeddings=False)
LLAMA = dict(QWEN2, model_type="llama", head_dim=12)
MROPE = {"rope_type": "default", "rope_theta": 100.0, "mrope_section": [2, 2, 2]}
IDS = {"image_token_id": 39, "video_token_id": 38, "vision_start_token_id": 37, "vision_end_token_id": 36}
SOUND = {"num_mel_bins": 12, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64,
         "hidden_size": 32, "max_source_positions": 20}
VISION = {"num_hidden_layers": 3, "hidden_size": 32, "num_attention_heads": 2, "intermediate_size": 48}
# The sides of a patch are so small that files stay small.
VIT = dict(VISION, image_size=24, patch_size=4)
QWEN = {"depth": 3, "num_heads": 2, "patch_size": 2, "spatial_merge_size": 2, "temporal_patch_size": 2}


def qwen_text(**more):
    return dict({k: v for k, v in QWEN2.items() if k != "model_type"}, rope_parameters=dict(MROPE, **more))


def qwen3(deep):
    vision = dict(QWEN, hidden_size=32, intermediate_size=48, out_hidden_size=24, num_position_embeddings=25)
    if deep:
        vision["deepstack_visual_indexes"] = deep
    text = dict(qwen_text(mrope_interleaved=True), head_dim=12)
    return {"text_config": text, "vision_config": vision, **IDS}


def lfm2_vl(**more):
    text = dict(LLAMA, model_type="lfm2", block_multiple_of=8, layer_types=["full_attention"])
    vision = dict(VISION, model_type="siglip2_vision_model", patch_size=4, num_patches=16, vision_use_head=False)
    return dict({"text_config": text, "vision_config": vision, "image_token_id": 39, "projector_hidden_size": 20}, **more)


PHI4 = dict(vocab_size=40, hidden_size=24, intermediate_size=32, num_hidden_layers=1, num_attention_heads=2,
            num_key_value_heads=2, max_position_embeddings=64, pad_token_id=0, bos_token_id=1, eos_token_id=2)
CONFORMER = {"num_blocks": 2, "hidden_size": 16, "num_attention_heads": 2, "intermediate_size": 20, "input_size": 13,
             "nemo_conv_channels": 6, "ext_pw_out_channel": 16, "depthwise_separable_out_channel": 16,
             "kernel_size": 4, "audio_token_id": 39}
EYES = {"num_hidden_layers": 2, "hidden_size": 8, "num_attention_heads": 2, "intermediate_size": 8, "crop_size": 28,
        "image_size": 28, "patch_size": 7, "image_token_id": 38}

# Sizes of images are (height, width) in patches, and the number of crops; sounds are lists of the frames that are heard of each window.
CASES = {
    "qwen2_audio": ({"text_config": QWEN2, "audio_token_index": 39, "audio_config": {
        "num_mel_bins": 12, "encoder_layers": 2, "encoder_attention_heads": 2, "encoder_ffn_dim": 64, "d_model": 32,
        "max_source_positions": 20}}, [[40], [39], [38], [17], [3]]),
    "audioflamingo3": ({"text_config": QWEN2, "audio_token_id": 39, "audio_config": SOUND}, [[40, 21], [8]]),
    "voxtral": ({"text_config": LLAMA, "audio_token_id": 39, "audio_config": dict(SOUND, intermediate_size=128)},
                [[40, 21]]),
    "llava": ({"text_config": LLAMA, "image_token_index": 39,
               "vision_config": dict(VIT, model_type="clip_vision_model")}, [(6, 6)]),
    "llava-layers": ({"text_config": LLAMA, "image_token_index": 39, "vision_feature_layer": [0, -2, 3],
                      "vision_feature_select_strategy": "full", "multimodal_projector_bias": False,
                      "vision_config": dict(VIT, model_type="clip_vision_model")}, [(6, 6)]),
    "llava-siglip": ({"text_config": LLAMA, "image_token_index": 39, "vision_feature_layer": -1,
                      "vision_feature_select_strategy": "full",
                      "vision_config": dict(VIT, model_type="siglip_vision_model", vision_use_head=False)}, [(6, 6)]),
    "gemma3": ({"text_config": dict(QWEN2, model_type="gemma3_text", head_dim=12), "mm_tokens_per_image": 9,
                "image_token_index": 39, "boi_token_index": 38, "eoi_token_index": 37,
                "vision_config": dict(VIT, model_type="siglip_vision_model", vision_use_head=False)}, [(6, 6)]),
    "qwen2_vl": ({"text_config": qwen_text(), "vision_config": dict(QWEN, embed_dim=32, hidden_size=24, mlp_ratio=2),
                  **IDS}, [(4, 6), (2, 2)]),
    # windows of 3 x 3 blocks, those at the border smaller
    "qwen2_5_vl": ({"text_config": qwen_text(), "vision_config": dict(
        QWEN, hidden_size=32, intermediate_size=48, out_hidden_size=24, window_size=12, fullatt_block_indexes=[1]),
        **IDS}, [(8, 14), (2, 2)]),
    "qwen3_vl": (qwen3([1, 0]), [(4, 6), (8, 2)]),
    "qwen3_5": (dict(qwen3([]), text_config=dict(
        qwen_text(mrope_interleaved=True, partial_rotary_factor=0.5, mrope_section=[1, 1, 1]), head_dim=12,
        linear_num_key_heads=2, linear_num_value_heads=2, linear_key_head_dim=8, linear_value_head_dim=8)), [(6, 4)]),
    # tiles of 3 x 3 patches with a class token, padded to 16 rows
    "mllama": ({"text_config": dict({k: v for k, v in QWEN2.items() if k != "model_type"}, num_hidden_layers=2,
                                    cross_attention_layers=[1], pad_token_id=0), "image_token_index": 40,
                "vision_config": dict({k: v for k, v in VISION.items() if k != "num_attention_heads"},
                                      attention_heads=2, num_global_layers=2, image_size=12, patch_size=4,
                                      vision_output_dim=96, intermediate_layers_indices=[2, 0])},
               [(3, 3), (6, 6), (3, 9), (6, 3)]),
    "llava-pixtral": ({"text_config": dict(LLAMA, model_type="mistral"), "image_token_index": 39,
                       "vision_feature_layer": -1, "vision_feature_select_strategy": "full",
                       "vision_config": dict(VISION, model_type="pixtral", image_size=32, patch_size=4,
                                             hidden_act="silu")}, [(5, 3), (2, 4)]),
    "glm4v": ({"text_config": dict(qwen_text(), rope_parameters=dict(
        MROPE, mrope_section=[1, 1, 1], partial_rotary_factor=0.5)), "image_token_id": 39, "video_token_id": 38,
        "vision_config": {"depth": 2, "hidden_size": 32, "num_heads": 2, "intermediate_size": 40, "out_hidden_size": 24,
                          "patch_size": 2, "image_size": 10, "rms_norm_eps": 1e-4}}, [(4, 6), (8, 2)]),
    "internvl": ({"text_config": QWEN2, "image_token_id": 39, "vision_config": VIT}, [(6, 6), (6, 6, 3)]),
    "internvl-norms": ({"text_config": QWEN2, "image_token_id": 39, "downsample_ratio": 0.25, "vision_config": dict(
        VIT, image_size=32, norm_type="rms_norm", use_qk_norm=True, attention_bias=True, use_mean_pooling=False,
        layer_norm_eps=1e-3)}, [(8, 8)]),
    "llama4": ({"text_config": dict({k: v for k, v in QWEN2.items() if k not in ("model_type", "intermediate_size")},
                                    head_dim=12, intermediate_size=20, intermediate_size_mlp=32, num_local_experts=2),
                "image_token_index": 39, "vision_config": dict(
                    VISION, image_size=24, patch_size=4, intermediate_size=128, projector_input_dim=40,
                    projector_output_dim=40, vision_output_dim=40)}, [(6, 6), (6, 6, 3)]),
    # two by two patches of 3 x 3 pixels are read as one
    "gemma4_unified": ({"text_config": {**{k: v for k, v in QWEN2.items() if k != "model_type"}, "head_dim": 12,
                                        "tie_word_embeddings": True}, "image_token_id": 39, "tie_word_embeddings": True,
                        "vision_config": {"mm_embed_dim": 32, "output_proj_dims": 32, "mm_posemb_size": 7, "patch_size": 3,
                                          "pooling_kernel_size": 2, "rms_norm_eps": 1e-3}, "audio_config": None},
                       [(3, 5), (7, 1)]),
    # a grid of 4 x 4 positions becomes larger and smaller
    "lfm2_vl": (lfm2_vl(), [(6, 10), (2, 4), (4, 4)]),
    "lfm2_vl-plain": (lfm2_vl(downsample_factor=3, projector_use_layernorm=False, projector_bias=False), [(3, 6)]),
    "mistral3": ({"text_config": dict(LLAMA, model_type="mistral", rms_norm_eps=1e-3), "image_token_index": 39,
                  "vision_config": dict(VISION, model_type="pixtral", image_size=32, patch_size=4,
                                        hidden_act="gelu")}, [(4, 6)]),
    # a grid of 5 x 5 positions becomes larger and smaller
    "paddleocr_vl": ({"text_config": dict({k: v for k, v in qwen_text().items() if k != "tie_word_embeddings"}, head_dim=12),
                      "vision_config": dict(VISION, image_size=20, patch_size=4), **IDS}, [(4, 6), (8, 2), (2, 2)]),
    # distances past the last; a sound of two pieces
    "phi4_multimodal": (dict(PHI4, audio_config=dict(CONFORMER, bias_max_distance=5), vision_config=EYES),
                        [[64], [61], [1], [9]]),
    "phi4mm": (dict(PHI4, audio_config=dict(CONFORMER, bias_max_distance=5), vision_config=EYES), [[40]]),
    "phi4_multimodal-long": (dict(PHI4, hidden_size=8, audio_config=dict(CONFORMER, num_blocks=1, hidden_size=8,
                             ext_pw_out_channel=8, depthwise_separable_out_channel=8), vision_config=EYES), [[4030]]),
}


def elements(name, shape):
    x = hashed(name, int(numpy.prod(shape)))
    if len(shape) > 1:
        x = x * math.sqrt(3 / numpy.prod(shape[1:]))
    else:
        x = x * 0.2 + (1 if name.endswith(".weight") else 0)
    return torch.tensor(x.reshape(shape), dtype=torch.float32)


def is_tower(name):
    return any(part in name for part in ("audio_tower.", "vision_tower.", "vision_model.", "multi_modal_projector.",
                                         "visual.", "mlp_AR.", "embed_vision.", "vision_embedder.", "audio_embed."))


def hub_name(name):
    """Name tensors as published files do: transformers 5 leaves vision_model. out."""
    if name.startswith("vision_tower.") and not name.startswith(("vision_tower.vision_model.", "vision_tower.patch_conv",
                                                                 "vision_tower.ln_pre", "vision_tower.transformer")):
        return "vision_tower.vision_model." + name[len("vision_tower."):]
    return name


# Phi-4-multimodal as it is published: convert_phi4_multimodal_weights_to_hf.py of transformers 4.51 has the opposite.
PUBLISHED = [(r"(feed_forward_(in|out))\.gate_up_proj", r"\1.net.0.linear"), (r"(feed_forward_(in|out))\.down_proj", r"\1.net.2"),
             (r"(encoder.*self_attn)\.([qkv])_proj", r"\1.linear_\2"), (r"(encoder.*self_attn)\.o_proj", r"\1.linear_out"),
             (r"up_proj_for_speech", "audio_projection.speech.0"), (r"down_proj_for_speech", "audio_projection.speech.2")]


def published(name):
    for pattern, other in PUBLISHED if "audio_embed." in name else []:
        name = re.sub(pattern, other, name)
    return name


def published_config(config):
    audio = config["audio_config"]
    config = {k: v for k, v in config.items() if k not in ("audio_config", "vision_config")} | {"model_type": "phi4mm"}
    return config | {"audio_processor": {"name": "cascades", "config": {
        "attention_dim": audio["hidden_size"], "attention_heads": audio["num_attention_heads"], "chunk_size": -1,
        "linear_units": audio["intermediate_size"], "nemo_conv_settings": {"conv_channels": audio["nemo_conv_channels"]},
        "relative_attention_bias_args": {"type": "t5", "t5_bias_max_distance": audio["bias_max_distance"]},
        "ext_pw_out_channel": audio["ext_pw_out_channel"], "kernel_size": audio["kernel_size"], "activation": "swish",
        "depthwise_seperable_out_channel": audio["depthwise_separable_out_channel"], "conv_activation": "swish",
        "conv_glu_type": "swish", "input_size": audio["input_size"], "num_blocks": audio["num_blocks"],
        "time_reduction": 8}}}


def make(model_type, values):
    """Return a model, its config.json, and the shapes of the tensors of its towers."""
    named = published if model_type == "phi4mm" else hub_name
    config = transformers.CONFIG_MAPPING[model_type.replace("phi4mm", "phi4_multimodal")](**json.loads(json.dumps(values)))
    with tempfile.TemporaryDirectory() as folder:
        class_of(config)._from_config(config).save_pretrained(folder)
        path = os.path.join(folder, "model.safetensors")
        to_hub = (lambda n: n) if model_type == "internvl" else named
        shapes = {n: list(t.shape) for n, t in sorted(load_file(path).items())}
        tensors = {to_hub(n): s for n, s in shapes.items()}
        own = (lambda n: n) if model_type == "phi4mm" else to_hub
        save_file({own(n): elements(to_hub(n), s) for n, s in shapes.items()}, path, {"format": "pt"})
        model, info = class_of(config).from_pretrained(folder, dtype=torch.float32, attn_implementation="eager",
                                                       output_loading_info=True)
        assert not any(info[key] for key in ("missing_keys", "unexpected_keys", "mismatched_keys")), info
        with open(os.path.join(folder, "config.json")) as file:
            config = json.load(file)
    if model_type == "phi4mm":
        config = published_config(config)
    return model.eval(), config, {n: s for n, s in tensors.items() if is_tower(n)}


def values_of(name, item, rows, columns):
    return torch.tensor(hashed(f"{name} {item}", rows * columns).reshape(rows, columns), dtype=torch.float32)


def hear(model, name, item, heard):
    audio = model.config.audio_config
    if name.startswith("phi4"):
        part = model.model.embed_tokens_extend.audio_embed
        x = part.encoder(values_of(name, item, heard[0], audio.input_size)[None], None)
        return part.down_proj_for_speech(torch.nn.functional.gelu(part.up_proj_for_speech(x)))[0]
    frames = 2 * audio.max_source_positions
    x = values_of(name, item, len(heard) * frames, audio.num_mel_bins)
    x = x.reshape(len(heard), frames, -1).transpose(1, 2)
    if name == "voxtral":
        return model.model.get_audio_features(x).pooler_output
    mask = (torch.arange(frames)[None] < torch.tensor(heard)[:, None]).long()
    if name == "qwen2_audio": # as Qwen2AudioModel.forward, which has no function for it
        rows, kept = model.model.audio_tower._get_feat_extract_output_lengths(mask.sum(-1))
        x = model.model.audio_tower(x, attention_mask=create_bidirectional_mask(
            config=model.config.audio_config, inputs_embeds=torch.zeros(1, frames // 2, 1),
            attention_mask=(torch.arange(frames // 2)[None] < rows[:, None]).long())).last_hidden_state
        return model.model.multi_modal_projector(x)[0, :kept[0]]
    return model.model.get_audio_features(x, mask).pooler_output


def see_tiles(model, name, item, size):
    vision = model.config.vision_config
    patch, side, (height, width) = vision.patch_size, vision.image_size // vision.patch_size, size
    x = values_of(name, item, height * width, 3 * patch * patch)
    x = x.reshape(height // side, side, width // side, side, 3, patch, patch).permute(0, 2, 4, 1, 5, 3, 6)
    count, edge = height * width // side ** 2, side * patch
    tiles = torch.zeros(1, 1, vision.max_num_tiles, 3, edge, edge)
    tiles[0, 0, :count] = x.reshape(count, 3, edge, edge)
    shape = vision.supported_aspect_ratios.index([height // side, width // side]) + 1
    out = model.model.vision_model(
        tiles, aspect_ratio_ids=torch.tensor([[shape]]),
        aspect_ratio_mask=(torch.arange(vision.max_num_tiles) < count).long()[None, None]).last_hidden_state
    out = model.model.multi_modal_projector(out)
    return out[0, 0, :count].reshape(-1, out.shape[-1]), []


def see(model, name, item, size):
    vision = model.config.vision_config
    if name == "mllama":
        return see_tiles(model, name, item, size)
    if name == "gemma4_unified":
        height, width = size
        at = torch.stack(torch.meshgrid(torch.arange(width), torch.arange(height), indexing="xy"), -1).reshape(1, -1, 2)
        x = values_of(name, item, height * width, 3 * vision.model_patch_size ** 2)
        return model.model.get_image_features(x[None], at).pooler_output[0], []
    patch, (height, width, *crops) = vision.patch_size, size
    patch = patch[0] if isinstance(patch, (list, tuple)) else patch
    crops = crops[0] if crops else 1
    if name.startswith(("qwen", "glm4v")):
        x = values_of(name, item, height * width, 3 * 2 * patch * patch)
        out = model.model.get_image_features(x, torch.tensor([[1, height, width]]))
        return out.pooler_output[0], list(getattr(out, "deepstack_features", None) or [])
    x = values_of(name, item, crops * height * width, 3 * patch * patch)
    if name.startswith("lfm2_vl"):
        out = model.model.get_image_features(x[None], torch.tensor([[height, width]]),
                                             torch.ones(1, height * width, dtype=torch.long)).pooler_output
        return out[0], []
    if name == "paddleocr_vl":
        return torch.cat(model.model.get_image_features(x.reshape(-1, 3, patch, patch),
                                                        torch.tensor([[1, height, width]])).pooler_output), []
    x = x.reshape(crops, height, width, 3, patch, patch).permute(0, 3, 1, 4, 2, 5)
    x = x.reshape(crops, 3, height * patch, width * patch)
    if name == "llama4":
        return model.multi_modal_projector(model.get_image_features(x).last_hidden_state).flatten(0, 1), []
    more = {}
    if name in ("mistral3", "llava-pixtral"):
        more["image_sizes"] = torch.tensor([[height * patch, width * patch]])
    config = model.config
    for key in ("vision_feature_layer", "vision_feature_select_strategy"):
        if hasattr(config, key):
            more[key] = getattr(config, key)
    out = model.model.get_image_features(x, **more).pooler_output
    return (out if name.startswith("internvl") else out[0]).reshape(-1, out[0].shape[-1]), []


def read_rows(model, run):
    """Return what the projector reads: the input of its first layer, or of its norm."""
    inner = getattr(model, "model", model)
    visual = getattr(inner, "visual", None)
    if hasattr(inner, "embed_tokens_extend"):
        part = inner.embed_tokens_extend.audio_embed.up_proj_for_speech
    elif hasattr(inner, "embed_vision"):
        part = inner.embed_vision.multimodal_embedder
    elif hasattr(inner, "projector"):
        part = inner.projector
    else:
        part = visual.merger if visual is not None else inner.multi_modal_projector
    part = getattr(part, "mm_soft_emb_norm", part)
    kept = []
    hook = part.register_forward_pre_hook(lambda m, args: kept.append(args[0]))
    with torch.no_grad():
        out = run()
    hook.remove()
    return out, kept[0]


def main():
    torch.set_num_threads(1)
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "towers")
    models, outputs = [], {}
    for name, (values, items) in CASES.items():
        model_type = name.split("-")[0]
        model, config, tensors = make(model_type, values)
        models.append({"name": name, "config": config, "tensors": tensors, "items": items})
        for i, item in enumerate(items):
            sound = isinstance(item, list)
            run = lambda: hear(model, name, i, item) if sound else see(model, name, i, item)
            out, read = read_rows(model, run)
            rows, deep = (out, []) if sound else out
            outputs[f"{name}.{i}.rows"] = rows.contiguous()
            for k, one in enumerate(deep):
                outputs[f"{name}.{i}.deep{k}"] = (one if torch.is_tensor(one) else one[0]).contiguous()
            if name.startswith("lfm2_vl"): # the projector's own first step
                read = model.model.multi_modal_projector.pixel_unshuffle(read)
            if name in ("mistral3", "paddleocr_vl"): # rows that are merged follow each other
                read = read.reshape(item[0] // 2, 2, item[1] // 2, 2, -1).permute(0, 2, 1, 3, 4)
            # in windows, in another order (2.5), or with rows that are left out (sound): not compared
            if name == "mllama": # only the image's tiles are read
                read = read[0, 0, :len(rows) // read.shape[-2]]
            if name not in ("qwen2_audio", "audioflamingo3", "qwen2_5_vl"):
                outputs[f"{name}.{i}.read"] = read.reshape(len(rows), -1).contiguous()
    save_file(outputs, path + ".safetensors")
    with open(path + ".json", "w") as file:
        json.dump({"made_with": f"transformers {transformers.__version__}, torch {torch.__version__.split('+')[0]}",
                   "models": models}, file, separators=(",", ":"), sort_keys=True)
        file.write("\n")


if __name__ == "__main__":
    main()
