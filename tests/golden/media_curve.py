#!/usr/bin/env python3
"""Make media_curve.json: the losses of transformers in 30 steps on sounds with LoRA (PEFT), and on images in full,
with the processors' own features, for tests/unit/test_media_curve.c.  Weights are hashed from their names, as
in towers.py; files are those of tower_files.py.

    python3 tests/golden/media_curve.py [NAME...]     (on a CPU, with torchvision and PEFT; only these cases)
"""
import json
import os
import sys
import tempfile

import numpy as np
import torch
import transformers
from peft import LoraConfig, PeftModel, get_peft_model
from safetensors.torch import load_file, save_file
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import AutoImageProcessor, Phi4MultimodalFeatureExtractor, WhisperFeatureExtractor
from transformers.modeling_outputs import MoeCausalLMOutputWithPast
from transformers.models.llama4.processing_llama4 import Llama4Processor

from transformers.models.mllama.processing_mllama import (convert_sparse_cross_attention_mask_to_dense,
                                                          get_cross_attention_token_mask)

from multimodal import class_of
from tower_files import CLIP, SIGLIP, TILES, picture, samples
from towers import elements

STEPS, RATE = 30, 1e-3
MoeCausalLMOutputWithPast.image_outputs = None # which Llama 4's class reads in 5.24
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|audio_bos|>", "<|AUDIO|>", "<|audio_eos|>",
           "<|vision_start|>", "<|image_pad|>", "<|vision_end|>", "<|video_pad|>", "<bos>", "<start_of_turn>",
           "<end_of_turn>", "<start_of_image>", "<end_of_image>", "<image_soft_token>", "<image>", "<img>", "</img>",
           "<IMG_CONTEXT>", "<|image|>", "<|begin_of_image|>", "<|end_of_image|>", "[gMASK]",
           "<sop>", "<|user|>", "<|assistant|>", "<|observation|>", "<|image>", "<image|>", "<|turn>", "<turn|>",
           "<|header_start|>", "<|header_end|>", "<|eot|>", "<|image_start|>", "<|image_end|>", "<|patch|>",
           "<|tile_x_separator|>", "<|tile_y_separator|>", "<|end|>", "<|endoftext11|>"]
TEXT = dict(vocab_size=280, hidden_size=48, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
            num_key_value_heads=2, max_position_embeddings=512, rms_norm_eps=1e-6, tie_word_embeddings=False,
            bos_token_id=None, eos_token_id=None)
WHISPER = {"feature_size": 12, "chunk_length": 1, "feature_extractor_type": "WhisperFeatureExtractor"}
PATCHES = {"image_processor_type": "Qwen2VLImageProcessor", "patch_size": 4, "merge_size": 2, "min_pixels": 256,
           "max_pixels": 2048}
SOUNDS = [16000, 12000, 20000, 9000]
IMAGES = [(61, 40), (40, 32), (50, 50), (33, 64)]
VISION = {"hidden_size": 24, "intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2,
          "image_size": 24, "patch_size": 4}
QWEN = {"depth": 2, "hidden_size": 24, "intermediate_size": 32, "out_hidden_size": 64, "num_heads": 2, "patch_size": 4,
        "spatial_merge_size": 2}


LLAMA3 = ["<|begin_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"]


def make_tokenizer(special):
    made = Tokenizer(models.BPE(vocab={c: i for i, c in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))},
                                merges=[]))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    made.add_special_tokens([AddedToken(s, special=True, normalized=False) for s in special])
    return made


TOKENIZER = make_tokenizer(SPECIAL)
PADDLE = ["<s>", "</s>", "<|begin_of_sentence|>", "<|IMAGE_START|>", "<|IMAGE_PLACEHOLDER|>", "<|IMAGE_END|>"]
MISTRAL = ["[INST]", "[/INST]", "[IMG]", "[IMG_BREAK]", "[IMG_END]"]
OWN_TOKENIZERS = {"mllama": make_tokenizer(SPECIAL[:SPECIAL.index("<|image|>")] + LLAMA3 + ["<|image|>"]),
                  "mistral3": make_tokenizer(SPECIAL[:SPECIAL.index("<|image|>")] + MISTRAL),
                  "paddleocr_vl": make_tokenizer(PADDLE)}
# A model's own template, if it has no other: it writes lists of parts alone, images first.
OWN_TEMPLATES = {"paddleocr_vl": """\
<|begin_of_sentence|>
{%- for message in messages -%}
    {{ "User: " if message.role == "user" else "Assistant: " }}
    {%- for part in message.content if part.type == "image" -%}
        <|IMAGE_START|><|IMAGE_PLACEHOLDER|><|IMAGE_END|>
    {%- endfor -%}
    {%- for part in message.content if part.type == "text" -%}
        {{ part.text }}
    {%- endfor -%}
    {{ "\\n" if message.role == "user" else "</s>" }}
{%- endfor -%}
{%- if add_generation_prompt %}Assistant: {% endif -%}
"""}
ID = TOKENIZER.token_to_id
QWEN_IDS = {"image_token_id": ID("<|image_pad|>"), "video_token_id": ID("<|video_pad|>"),
            "vision_start_token_id": ID("<|vision_start|>"), "vision_end_token_id": ID("<|vision_end|>")}
CASES = {
    "qwen2_audio": ({"audio_token_index": ID("<|AUDIO|>"), "text_config": dict(TEXT, model_type="qwen2"),
                     "audio_config": {"num_mel_bins": 12, "encoder_layers": 1, "encoder_attention_heads": 2,
                                      "encoder_ffn_dim": 48, "d_model": 24, "max_source_positions": 50}},
                    WHISPER, SOUNDS),
    "qwen2_5_vl": (dict(QWEN_IDS, text_config=dict(TEXT, hidden_size=64, rope_parameters={
        "rope_type": "default", "rope_theta": 1e6, "mrope_section": [2, 3, 3]}),
        vision_config=dict(QWEN, window_size=16, fullatt_block_indexes=[1])), PATCHES, IMAGES),
    "qwen3_vl": (dict(QWEN_IDS, text_config=dict(TEXT, hidden_size=64, head_dim=16, rope_parameters={
        "rope_type": "default", "rope_theta": 1e6, "mrope_section": [4, 2, 2], "mrope_interleaved": True}),
        vision_config=dict(QWEN, num_position_embeddings=25, deepstack_visual_indexes=[0])), PATCHES, IMAGES),
    "gemma3": ({"image_token_index": ID("<image_soft_token>"), "boi_token_index": ID("<start_of_image>"),
                "eoi_token_index": ID("<end_of_image>"), "mm_tokens_per_image": 9, "text_config": dict(
                    TEXT, model_type="gemma3_text", head_dim=16, query_pre_attn_scalar=16, sliding_window=12,
                    sliding_window_pattern=2, tie_word_embeddings=True),
                "vision_config": dict(VISION, model_type="siglip_vision_model", vision_use_head=False)}, SIGLIP, IMAGES),
    "llava": ({"image_token_index": ID("<image>"), "text_config": dict(TEXT, model_type="llama", head_dim=12),
               "vision_config": dict(VISION, model_type="clip_vision_model", num_hidden_layers=3)}, CLIP, IMAGES),
    "phi4_multimodal": (dict(
        TEXT, vocab_size=304, pad_token_id=0, audio_config=dict(
            num_blocks=1, hidden_size=24, num_attention_heads=2, intermediate_size=32, input_size=8,
            nemo_conv_channels=6, ext_pw_out_channel=24, depthwise_separable_out_channel=24, bias_max_distance=9,
            audio_token_id=ID("<|endoftext11|>")),
        vision_config=dict(num_hidden_layers=1, hidden_size=8, num_attention_heads=1, intermediate_size=8, crop_size=28,
                           image_size=28, patch_size=14, image_token_id=303)),
        {"feature_extractor_type": "Phi4MultimodalFeatureExtractor", "feature_size": 8}, SOUNDS),
}
CASES["internvl"] = ({"image_token_id": ID("<IMG_CONTEXT>"), "text_config": dict(TEXT, model_type="qwen2"),
                      "vision_config": dict(VISION, attention_bias=True)},
                     {"image_processor_type": "GotOcr2ImageProcessorFast", "size": {"height": 24, "width": 24}}, IMAGES)
CASES["lfm2_vl"] = ({"image_token_id": ID("<image>"), "projector_hidden_size": 32, "text_config": dict(
    TEXT, model_type="lfm2", block_multiple_of=8, layer_types=["conv", "full_attention"]),
    "vision_config": {"model_type": "siglip2_vision_model", "hidden_size": 24, "intermediate_size": 32,
                      "num_hidden_layers": 2, "num_attention_heads": 2, "num_patches": 25, "patch_size": 4,
                      "vision_use_head": False}},
    {"image_processor_type": "Lfm2VlImageProcessorFast", "encoder_patch_size": 4, "downsample_factor": 2,
     "min_image_tokens": 4, "max_image_tokens": 12, "do_image_splitting": False, "max_num_patches": 48}, IMAGES)
CASES["glm4v"] = ({"image_token_id": ID("<|image|>"), "video_token_id": ID("<|video_pad|>"), "text_config": dict(
    TEXT, vocab_size=288, rope_parameters={"rope_type": "default", "rope_theta": 1e4, "mrope_section": [1, 1, 1],
                           "partial_rotary_factor": 0.5}),
    "vision_config": {"depth": 2, "hidden_size": 24, "num_heads": 2, "intermediate_size": 32, "out_hidden_size": 48,
                      "patch_size": 4, "image_size": 20}},
    {"image_processor_type": "Glm4vImageProcessor", "patch_size": 4, "merge_size": 2,
     "size": {"shortest_edge": 512, "longest_edge": 4096}}, IMAGES)
CASES["gemma4_unified"] = ({"image_token_id": ID("<|image|>"), "tie_word_embeddings": True, "audio_config": None,
    "text_config": dict(TEXT, vocab_size=296, hidden_size=64, head_dim=16, global_head_dim=32, sliding_window=80,
                        layer_types=["sliding_attention", "full_attention"], tie_word_embeddings=True),
    "vision_config": {"mm_embed_dim": 24, "output_proj_dims": 24, "mm_posemb_size": 16, "patch_size": 4,
                      "pooling_kernel_size": 2}},
    {"image_processor_type": "Gemma4UnifiedImageProcessor", "patch_size": 4, "pooling_kernel_size": 2,
     "max_soft_tokens": 70}, IMAGES)
CASES["llama4"] = ({"image_token_index": ID("<|patch|>"), "text_config": dict(
    {k: v for k, v in TEXT.items() if k != "intermediate_size"}, vocab_size=304, head_dim=12, intermediate_size=24,
    intermediate_size_mlp=64, num_local_experts=2, interleave_moe_layer_step=2, no_rope_layer_interval=2),
    "vision_config": dict({k: v for k, v in VISION.items() if k != "model_type"}, image_size=24, intermediate_size=96,
                          projector_input_dim=32, projector_output_dim=32, vision_output_dim=32)},
    {"image_processor_type": "Llama4ImageProcessorFast", "size": {"height": 24, "width": 24}, "max_patches": 4}, IMAGES)
CASES["paddleocr_vl"] = (dict(zip(("vision_start_token_id", "image_token_id", "vision_end_token_id"),
                                  map(OWN_TOKENIZERS["paddleocr_vl"].token_to_id, PADDLE[3:])),
                              video_token_id=279, text_config=dict(TEXT, hidden_size=64, head_dim=16, rope_parameters={
    "rope_type": "default", "rope_theta": 1e4, "mrope_section": [2, 3, 3]}), tie_word_embeddings=False,
    vision_config=dict(VISION, image_size=20)),
    {"image_processor_type": "PaddleOCRVLImageProcessor", "patch_size": 4, "merge_size": 2, "temporal_patch_size": 1,
     "min_pixels": 256, "max_pixels": 2048, "image_mean": [0.5] * 3, "image_std": [0.5] * 3}, IMAGES)
CASES["mistral3"] = ({"image_token_index": OWN_TOKENIZERS["mistral3"].token_to_id("[IMG]"), "spatial_merge_size": 2,
    "text_config": dict(TEXT, vocab_size=288, model_type="mistral", head_dim=12, sliding_window=None),
    "vision_config": dict(VISION, model_type="pixtral", image_size=32)},
    {"image_processor_type": "PixtralImageProcessorFast", "patch_size": {"height": 4, "width": 4},
     "size": {"longest_edge": 32}}, IMAGES)
# the token of images is the first without logits
CASES["mllama"] = ({"image_token_index": TEXT["vocab_size"], "text_config": dict(
    TEXT, num_hidden_layers=3, cross_attention_layers=[1], pad_token_id=0, bos_token_id=1, eos_token_id=2),
    "vision_config": {"hidden_size": 24, "intermediate_size": 32, "num_hidden_layers": 2, "num_global_layers": 1,
                      "attention_heads": 2, "vision_output_dim": 48, "image_size": 24, "patch_size": 4,
                      "intermediate_layers_indices": [0]}}, TILES, IMAGES)
# PixtralProcessor lets sides be multiples of merged patches
MORE = {"internvl": {"crop_to_patches": True}, "mistral3": {"patch_size": {"height": 8, "width": 8}}}
TARGETS = {"qwen2_audio": r".*language_model.*\.(q_proj|v_proj|up_proj|down_proj)",
           "phi4_multimodal": r"model\.layers\..*\.(qkv_proj|o_proj|gate_up_proj|down_proj)"}
# Cases that train on their prompts, too, with the tokens of their media: a job of the founding report.
WHOLE = ("phi4_multimodal",)
# LLaMA-Factory's template of a model, and what it writes before a user's message, between that and an answer, and
# after the answer.
QWEN_TURN = ("<|im_start|>user\n", "<|im_end|>\n<|im_start|>assistant\n", "<|im_end|>\n")
QWEN_SYSTEM = ("<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n" + QWEN_TURN[0],) + QWEN_TURN[1:]
TEMPLATES = {
    "qwen2_audio": ("qwen2_audio", QWEN_SYSTEM),
    "qwen2_5_vl": ("qwen2_vl", QWEN_SYSTEM),
    "qwen3_vl": ("qwen3_vl_nothink", QWEN_TURN),
    "gemma3": ("gemma3", ("<bos><start_of_turn>user\n", "<end_of_turn>\n<start_of_turn>model\n", "<end_of_turn>\n")),
    "gemma4_unified": ("gemma4", ("<bos><|turn>system\n<|think|>You are a helpful assistant.<turn|>\n<|turn>user\n",
                                  "<turn|>\n<|turn>model\n", "<turn|>\n")),
    "llama4": ("llama4", ("<bos><|header_start|>user<|header_end|>\n\n",
                          "<|eot|><|header_start|>assistant<|header_end|>\n\n", "<|eot|>")),
    "internvl": ("intern_vl", ("<|im_start|>system\n你是书生·万象，英文名是InternVL，是由上海人工智能实验室、清华大学及多家"
                               "合作单位联合开发的多模态大语言模型。<|im_end|>\n" + QWEN_TURN[0],) + QWEN_TURN[1:]),
    "glm4v": ("glm_ocr", ("[gMASK]<sop><|user|>\n", "<|assistant|>", "<|im_end|>")),
    "mistral3": ("mistral_small", ("<bos>[INST]", "[/INST]", "<|im_end|>")),
    "mllama": ("mllama", ("<|begin_of_text|><|start_header_id|>user<|end_header_id|>\n\n",
                          "<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n", "<|eot_id|>")),
    "lfm2_vl": ("lfm2_vl", ("<|im_start|>system\nYou are a helpful multimodal assistant by Liquid AI.<|im_end|>\n"
                            + QWEN_TURN[0],) + QWEN_TURN[1:]),
    "llava": ("llava", ("A chat between a curious user and an artificial intelligence assistant. The assistant gives "
                        "helpful, detailed, and polite answers to the user's questions.USER: ", " ASSISTANT:",
                        "<|im_end|>")),
    "paddleocr_vl": (None, ("<|begin_of_sentence|>User: ", "\nAssistant: ", "</s>")),
    "phi4_multimodal": ("phi4_mini", ("<|user|>", "<|end|><|assistant|>", "<|end|>")),
}


def write(folder, name, value):
    with open(os.path.join(folder, name), "w") as file:
        json.dump(value, file)


def hashed_file(path):
    """Replace the tensors of a file by hashed ones; return their shapes."""
    shapes = {n: list(t.shape) for n, t in sorted(load_file(path).items())}
    save_file({n: elements(n, s) for n, s in shapes.items()}, path, {"format": "pt"})
    return shapes


def load(config, folder):
    return class_of(config).from_pretrained(folder, dtype=torch.float32, attn_implementation="eager")


def make(name, values, settings, folder):
    config = transformers.CONFIG_MAPPING[name](**json.loads(json.dumps(values)))
    class_of(config)._from_config(config).save_pretrained(folder)
    shapes = hashed_file(os.path.join(folder, "model.safetensors"))
    write(folder, "preprocessor_config.json", settings)
    with open(os.path.join(folder, "config.json")) as file:
        return config, json.load(file), shapes


def adapter(name, config, folder, to):
    lora = LoraConfig(r=4, lora_alpha=8, target_modules=TARGETS[name], task_type="CAUSAL_LM")
    get_peft_model(load(config, folder), lora).save_pretrained(to)
    shapes = hashed_file(os.path.join(to, "adapter_model.safetensors"))
    with open(os.path.join(to, "adapter_config.json")) as file:
        values = json.load(file)
    return PeftModel.from_pretrained(load(config, folder), to, is_trainable=True), values, shapes


def encode(name, folder, settings, items):
    """Return the inputs of one batch: the records of the test, as LLaMA-Factory's template writes them."""
    rows, labels, media = [], [], []
    tokenizer = OWN_TOKENIZERS.get(name, TOKENIZER)
    for i, item in enumerate(items):
        if name == "qwen2_audio":
            extractor = WhisperFeatureExtractor.from_pretrained(folder)
            x = extractor(samples(name, i, item).astype(np.float32) / 32768, sampling_rate=16000, padding="max_length",
                          return_attention_mask=True, return_tensors="pt")
            count = ((int(x["attention_mask"].sum()) - 1) // 2 + 1) // 2
            mark = "<|audio_bos|>" + "<|AUDIO|>" * count + "<|audio_eos|>"
        elif name == "phi4_multimodal":
            x = Phi4MultimodalFeatureExtractor(feature_size=settings["feature_size"])(
                [samples(name, i, item).astype(np.float32) / 32768], sampling_rate=16000, return_tensors="pt")
            mark = "<|endoftext11|>" * int(x["audio_embed_sizes"][0])
        else:
            x = AutoImageProcessor.from_pretrained(folder, use_fast=True)(images=[picture(name, i, item)],
                                                                          return_tensors="pt", **MORE.get(name, {}))
            if name == "gemma3":
                mark = "\n\n<start_of_image>" + "<image_soft_token>" * 9 + "<end_of_image>\n\n"
            elif name == "internvl":
                mark = "<img>" + "<IMG_CONTEXT>" * 9 * len(x["pixel_values"]) + "</img>"
            elif name == "llama4":
                mark = Llama4Processor._prompt_split_image(None, x["aspect_ratios"][0].tolist(), 9)
            elif name == "lfm2_vl":
                mark = "<image>" * (int(x["spatial_shapes"].prod()) // 4)
            elif name == "mistral3":
                down, across = (int(side) // 8 for side in x["image_sizes"][0])
                mark = "[IMG_BREAK]".join(["[IMG]" * across] * down) + "[IMG_END]"
            elif name == "mllama":
                mark = "<|image|>"
            elif name == "llava":
                mark = "<image>" * 36
            elif name == "gemma4_unified":
                mark = "<|image>" + "<|image|>" * int(x["num_soft_tokens_per_image"][0]) + "<image|>"
            elif name == "paddleocr_vl":
                mark = "<|IMAGE_PLACEHOLDER|>" * (int(x["image_grid_thw"].prod()) // 4)
                mark = f"<|IMAGE_START|>{mark}<|IMAGE_END|>"
            elif name == "glm4v":
                mark = "<|image|>" * (int(x["image_grid_thw"].prod()) // 4)
                mark = f"<|begin_of_image|>{mark}<|end_of_image|>"
            else:
                mark = "<|image_pad|>" * (int(x["image_grid_thw"].prod()) // 4)
                mark = f"<|vision_start|>{mark}<|vision_end|>"
        media.append(x)
        before, between, after = TEMPLATES[name][1]
        prompt = tokenizer.encode(f"{before}{mark}What is {i}?{between}").ids
        start = {"glm4v": "\n", "gemma4_unified": "<|channel>thought\n<channel|>"}.get(name, "")
        answer = tokenizer.encode(f"{start}It is {i * 7 % 5}.{after}").ids
        rows.append(prompt + answer)
        labels.append((prompt if name in WHOLE else [-100] * len(prompt)) + answer)
    if name == "phi4_multimodal": # the last row of a shorter sound depends on the other sounds of a batch there
        return [{"input_ids": torch.tensor([row]), "labels": torch.tensor([label]), **x}
                for row, label, x in zip(rows, labels, media)]
    width = max(map(len, rows))
    pad = tokenizer.token_to_id("<|endoftext|>") or 0
    padded = lambda lists, value: torch.tensor([one + [value] * (width - len(one)) for one in lists])
    out = {"input_ids": padded(rows, pad), "labels": padded(labels, -100),
           "attention_mask": padded([[1] * len(one) for one in rows], 0)}
    if name == "qwen2_audio":
        out["input_features"] = torch.cat([x["input_features"] for x in media])
        out["feature_attention_mask"] = torch.cat([x["attention_mask"] for x in media])
    elif name == "mistral3": # images of several sizes
        height, width = (max(int(x["image_sizes"][0][k]) for x in media) for k in (0, 1))
        out["pixel_values"] = torch.cat([torch.nn.functional.pad(x["pixel_values"].float(), (
            0, width - x["pixel_values"].shape[3], 0, height - x["pixel_values"].shape[2])) for x in media])
        out["image_sizes"] = torch.cat([torch.as_tensor(x["image_sizes"]) for x in media])
    else:
        out["pixel_values"] = torch.cat([x["pixel_values"] for x in media]).float()
    for key in ("spatial_shapes", "pixel_attention_mask", "image_position_ids"):
        if key in media[0]:
            out[key] = torch.cat([x[key] for x in media])
    if name == "mllama":
        for key in ("aspect_ratio_ids", "aspect_ratio_mask"):
            out[key] = torch.cat([x[key] for x in media])
        out["cross_attention_mask"] = torch.tensor(convert_sparse_cross_attention_mask_to_dense(
            [get_cross_attention_token_mask(ids, tokenizer.token_to_id("<|image|>")) for ids in rows],
            [x["num_tiles"][0] for x in media], TILES["max_image_tiles"], width))
    if name == "gemma3":
        out["token_type_ids"] = (out["input_ids"] == ID("<image_soft_token>")).long()
    elif name == "gemma4_unified":
        out["mm_token_type_ids"] = (out["input_ids"] == ID("<|image|>")).long()
    elif "image_grid_thw" in media[0]:
        out["image_grid_thw"] = torch.cat([x["image_grid_thw"] for x in media])
        out["mm_token_type_ids"] = (out["input_ids"] == CASES[name][0]["image_token_id"]).int()
    return out


def hide_early_rows(model, mask):
    """Rows before the first image see nothing, as in torchtune: transformers masks only their MLP.  Return the hooks;
    rows that are generated follow an image."""
    seen = mask.amax((2, 3))[..., None].float()
    text = model.model.language_model
    hide = lambda _, __, out: (out[0] * seen if out[0].shape[1] == seen.shape[1] else out[0], out[1])
    return [text.layers[number].cross_attn.register_forward_hook(hide) for number in text.config.cross_attention_layers]


def loss_of(model, batch):
    if isinstance(batch, dict):
        return model(**batch).loss
    counts = [int((one["labels"][:, 1:] != -100).sum()) for one in batch]
    return sum(model(**one).loss * n for one, n in zip(batch, counts)) / sum(counts)


def train(model, batch):
    if "cross_attention_mask" in batch:
        hide_early_rows(model, batch["cross_attention_mask"])
    trained = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=RATE, weight_decay=0.0)
    losses = []
    for _ in range(STEPS):
        loss = loss_of(model, batch)
        losses.append(float(f"{loss.item():.8g}"))
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(trained, 1.0)
        optimizer.step()
    return losses


def main():
    torch.set_num_threads(1)
    results = {"made_with": f"transformers {transformers.__version__}, torch {torch.__version__.split('+')[0]}",
               "tokenizer": json.loads(TOKENIZER.to_str()), "rate": RATE, "models": []}
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "media_curve.json")
    if sys.argv[1:]:
        with open(path) as file:
            results["models"] = [one for one in json.load(file)["models"] if one["name"] not in sys.argv[1:]]
    for name in sys.argv[1:] or CASES:
        values, settings, items = CASES[name]
        with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as to:
            config, saved, shapes = make(name, values, settings, folder)
            one = {"name": name, "config": saved, "tensors": shapes, "processor": settings, "items": items,
                   "template": TEMPLATES[name][0]}
            if name in OWN_TEMPLATES:
                one["chat_template"] = OWN_TEMPLATES[name]
            if name in OWN_TOKENIZERS:
                one["tokenizer"] = json.loads(OWN_TOKENIZERS[name].to_str())
            if name in TARGETS:
                model, one["adapter_config"], one["adapter"] = adapter(name, config, folder, to)
                one["adapter_config"] = {k: one["adapter_config"][k] for k in (
                    "r", "lora_alpha", "target_modules", "fan_in_fan_out", "peft_type")}
            else:
                model = load(config, folder)
                for key, parameter in model.named_parameters():
                    parameter.requires_grad_("language_model" in key or "lm_head" in key)
            one["losses"] = train(model, encode(name, folder, settings, items))
            print(name, one["losses"][0], one["losses"][-1])
            results["models"].append(one)
    results["models"].sort(key=lambda one: list(CASES).index(one["name"]))
    with open(path, "w") as file:
        json.dump(results, file, separators=(",", ":"), sort_keys=True)
        file.write("\n")


if __name__ == "__main__":
    main()
