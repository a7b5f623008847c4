#!/usr/bin/env python3
"""Make media_text.json: the tokens and labels that LLaMA-Factory makes of conversations with images and sounds,
for tests/unit/test_dataset_expand_golden.c.

    PYTHONPATH=LLAMA-FACTORY/src python3 tests/golden/media_text.py >tests/golden/media_text.json

Requires llamafactory (the current file was made with ff6d4d12, transformers 5.24, DISABLE_VERSION_CHECK=1), Pillow
and numpy.  Its templates, plugins and dataset processors run on a byte-level tokenizer: token n is byte n, then
SPECIALS.  Processors are stand-ins that have the tokens' names and say how many rows a medium gets: an image of
W x H pixels has W/8 x H/8 patches, a sound of N samples N/160 frames.
"""
import json
import os
import sys
import tempfile
import types

OUT, sys.stdout = sys.stdout, sys.stderr

import numpy
import torch
from PIL import Image
from transformers import PreTrainedTokenizerFast
from transformers.convert_slow_tokenizer import bytes_to_unicode
from transformers.models.llama4.processing_llama4 import Llama4Processor

from llamafactory.data.mm_plugin import Qwen2AudioPlugin
from llamafactory.data.processor.pairwise import PairwiseDatasetProcessor
from llamafactory.data.processor.supervised import SupervisedDatasetProcessor
from llamafactory.data.template import get_template_and_fix_tokenizer
from llamafactory.hparams import DataArguments

SPECIALS = ["<s>", "</s>", "<|im_start|>", "<|im_end|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>",
            "<|end_of_text|>", "<start_of_turn>", "<end_of_turn>", "<|vision_start|>", "<|vision_end|>",
            "<|image_pad|>", "<|video_pad|>", "<|audio_bos|>", "<|audio_eos|>", "<|AUDIO|>", "<start_of_image>",
            "<end_of_image>", "<image_soft_token>", "<image>", "[IMG]", "[IMG_BREAK]", "[IMG_END]", "[INST]",
            "[/INST]", "<img>", "</img>", "<IMG_CONTEXT>", "<|image|>", "<|begin_of_image|>", "<|end_of_image|>",
            "<|user|>", "<|observation|>", "</answer>", "<|image>", "<image|>", "<|turn>", "<turn|>",
            "<|header_start|>", "<|header_end|>", "<|eot|>", "<|image_start|>", "<|image_end|>", "<|patch|>",
            "<|tile_x_separator|>", "<|tile_y_separator|>", "<|assistant|>", "<|end|>", "<|endoftext11|>",
            "<|audio|>", "<|IMAGE_START|>", "<|IMAGE_PLACEHOLDER|>", "<|IMAGE_END|>"]
BYTES = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
IMAGES = {"a.png": (48, 32), "dir/b.png": (32, 64), "c.png": (32, 32)}  # Qwen's plugins enlarge sides below 28
TILE = 16  # pixels of Llama 4's tiles
SOUNDS = {"a.wav": 160 * 8, "b.wav": 160 * 21}

TWICE = {"messages": [{"role": "user", "content": "<image>Who are they?"},
                      {"role": "assistant", "content": "Kane."},
                      {"role": "user", "content": "What are they doing?<image>"},
                      {"role": "assistant", "content": "Running."}], "images": ["a.png", "a.png"]}
TEXT = {"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello."}], "images": []}
MIDDLE = {"messages": [{"role": "system", "content": "Be short."},
                       {"role": "user", "content": "First <image>\nand\n<image> last"},
                       {"role": "assistant", "content": "Two: <image>"}],
          "images": ["dir/b.png", "c.png", "a.png"]}
SOUND = {"messages": [{"role": "user", "content": "<audio>What's that sound?"},
                      {"role": "assistant", "content": "Glass."},
                      {"role": "user", "content": "And\n<audio>\nor <audio>?"},
                      {"role": "assistant", "content": "A cough."}], "audios": ["a.wav", "b.wav", "a.wav"]}
PAIR = {"messages": [{"role": "user", "content": "What?"}, {"role": "assistant", "content": "A."},
                     {"role": "user", "content": "<image> and <image>?"}],
        "chosen": {"role": "assistant", "content": "A cat."}, "rejected": {"role": "assistant", "content": "A dog!!"},
        "images": ["c.png", "a.png"]}
ONE = {"messages": [{"role": "user", "content": "<image>What?"}, {"role": "assistant", "content": "A b."}],
       "images": ["c.png"]}
VISUAL = [TWICE, TEXT, MIDDLE]


def case(template, model_type, records, vision=None, **keys):
    return dict(template=template, model_type=model_type, vision=vision, records=records, **keys)


CASES = [
    case("qwen2_vl", "qwen2_vl", VISUAL),
    case("qwen2_vl", "qwen2_5_vl", VISUAL, train_on_prompt=True),
    case("qwen2_vl", "qwen2_vl", [TWICE], mask_history=True),
    case("qwen2_vl", "qwen2_vl", [TWICE], cutoff_len=85),  # the second turn is left out with its image
    case("qwen2_vl", "qwen2_vl", [ONE], cutoff_len=70),  # the question is cut after its image
    case("qwen3_vl", "qwen3_vl", VISUAL),
    case("qwen3_vl_nothink", "qwen3_vl_moe", VISUAL),
    case("qwen3_5", "qwen3_5", VISUAL),
    case("gemma3", "gemma3", VISUAL),
    case("gemma4", "gemma4_unified", VISUAL),
    case("llama4", "llama4", VISUAL),
    case("llava", "llava", VISUAL, vision="clip_vision_model"),
    case("pixtral", "llava", VISUAL, vision="pixtral"),
    case("mistral_small", "mistral3", VISUAL),
    case("glm4v", "glm4v", VISUAL),
    case("intern_vl", "internvl", VISUAL),
    case("lfm2_vl", "lfm2_vl", VISUAL),
    case("qwen2_audio", "qwen2_audio", [SOUND, TEXT]),
    case("qwen2_audio", "qwen2_audio", [SOUND], mask_history=True),
    case("qwen2_vl", "qwen2_vl", [PAIR], stage="dpo"),
    case("gemma3", "gemma3", [PAIR], stage="dpo"),
]


def tokenizer_of(folder):
    vocabulary = {character: byte for byte, character in bytes_to_unicode().items()}
    with open(f"{folder}/tokenizer.json", "w", encoding="utf-8") as file:
        json.dump({"version": "1.0", "added_tokens": [
            {"id": 256 + i, "content": s, "special": True, "single_word": False, "lstrip": False, "rstrip": False,
             "normalized": False} for i, s in enumerate(SPECIALS)],
            "pre_tokenizer": BYTES, "decoder": BYTES,
            "model": {"type": "BPE", "merges": [], "vocab": vocabulary}}, file)
    return PreTrainedTokenizerFast(tokenizer_file=f"{folder}/tokenizer.json", bos_token="<s>", eos_token="</s>")


def grid_of(size):
    return [1, size[1] // 8, size[0] // 8]


class ImageProcessor:
    merge_size, downsample_factor = 2, 2

    def __init__(self, model_type):
        self.size = (TILE, TILE) if model_type == "llama4" else (48, 32)

    def __call__(self, images, **_):
        grids = torch.tensor([grid_of(i.size) for i in images])
        # Llava takes the rows of all images from the first
        return {"image_grid_thw": grids, "pixel_values": torch.zeros(len(images), 3, *self.size),
                "aspect_ratios": [[i.size[1] // TILE, i.size[0] // TILE] for i in images],
                "image_sizes": torch.tensor([[i.size[1], i.size[0]] for i in images]),
                "spatial_shapes": grids[:, 1:], "num_patches": torch.ones(len(images), dtype=torch.long)}


def extract(audios, **_):
    frames = [len(a) // 160 for a in audios]
    mask = torch.zeros(len(audios), max(frames), dtype=torch.long)
    for row, n in zip(mask, frames):
        row[:n] = 1
    return {"input_features": None, "attention_mask": mask}


def prompt_of(aspect_ratio, count):
    return Llama4Processor._prompt_split_image(None, aspect_ratio, count)


def processor_of(model_type):
    soft = "<image_soft_token>"
    begin, end = ("<|image>", "<image|>") if model_type == "gemma4_unified" else ("<start_of_image>", "<end_of_image>")
    return types.SimpleNamespace(
        image_processor=ImageProcessor(model_type), video_processor=ImageProcessor(model_type), feature_extractor=extract,
        downsample_ratio=4, _prompt_split_image=prompt_of, boi_token=begin, eoi_token=end, boa_token="", eoa_token="", image_token="<|image|>", video_token="",
        audio_token="", full_image_sequence=f"\n\n<start_of_image>{soft * 5}<end_of_image>\n\n",
        audio_bos_token="<|audio_bos|>", audio_eos_token="<|audio_eos|>", image_break_token="[IMG_BREAK]",
        image_end_token="[IMG_END]", patch_size=8, spatial_merge_size=2 if model_type == "mistral3" else 1,
        num_additional_image_tokens=1, vision_feature_select_strategy="default", image_seq_length=5,
        image_max_pixels=1 << 20, image_min_pixels=1, audio_sampling_rate=16000)


def rows_of(model_type, name):
    """The rows of features, and the grid, that a medium has."""
    if name in SOUNDS:
        return ((SOUNDS[name] // 160 - 1) // 2 + 1 - 2) // 2 + 1, None
    grid = grid_of(IMAGES[name])
    patches = grid[1] * grid[2]
    if model_type in ("gemma3", "gemma4_unified", "internvl"):
        return 5, None
    if model_type == "llama4":
        tiles = grid[1] * grid[2] // (TILE // 8) ** 2
        return (tiles + (tiles > 1)) * (TILE // 8) ** 2 // 4, grid
    if model_type == "llava":
        return 24, None
    if model_type == "lfm2_vl":
        return patches // 4, None
    return patches // (1 if model_type == "llava_pixtral" else 4), grid


def run(case):
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        os.mkdir("dir")
        for name, size in IMAGES.items():
            Image.new("RGB", size).save(name)
        tokenizer = tokenizer_of(folder)
        keys = {k: case[k] for k in ("train_on_prompt", "mask_history") if k in case}
        data = DataArguments(template=case["template"], cutoff_len=case.get("cutoff_len", 2048), **keys)
        template = get_template_and_fix_tokenizer(tokenizer, data)
        kind = SupervisedDatasetProcessor if case.get("stage") != "dpo" else PairwiseDatasetProcessor
        processor = kind(template, tokenizer, processor_of(case["model_type"]), data)
        rows = []
        for record in case["records"]:
            messages = record["messages"]
            system = messages[0]["content"] if messages[0]["role"] == "system" else ""
            messages = messages[1:] if system else messages
            answers = [record["chosen"], record["rejected"]] if "chosen" in record else messages[-1:]
            prompt = messages if "chosen" in record else messages[:-1]
            out = processor._encode_data_example(
                prompt, answers, system, "", record.get("images", []), [], record.get("audios", []))
            rows += [{"ids": out[i], "labels": out[i + 1]} for i in range(0, len(out), 2)]
        os.chdir("/")
    family = case["model_type"] + ("_pixtral" if case["vision"] == "pixtral" else "")
    names = sorted({n for r in case["records"] for n in r.get("images", []) + r.get("audios", [])})
    media = {n: dict(zip(("rows", "grid"), rows_of(family, n))) for n in names}
    return dict(case, media=media, samples=rows)


Qwen2AudioPlugin._regularize_audios = lambda self, audios, **_: {
    "audios": [numpy.zeros(SOUNDS[a], "float32") for a in audios], "sampling_rates": [16000] * len(audios)}
made = {"specials": SPECIALS, "cases": [run(c) for c in CASES]}
text = json.dumps(made, separators=(",", ":")).replace('{"template"', '\n{"template"')
print(text, file=OUT)
