#!/usr/bin/env python3
"""Make image_prepare.json: images that LLaMA-Factory's plugins and transformers' processors (torchvision) prepared,
for tests/unit/test_image_prepare.c: the files of a model's folder, the size of an image, the grid of its patches,
the number of its feature rows, and a digest of the rows of patches.

    LLAMA_FACTORY=.../LLaMA-Factory/src python3 tests/golden/image_prepare.py >tests/golden/image_prepare.json
"""
import importlib.machinery
import json
import os
import sys
import tempfile
from unittest import mock

import numpy as np
import PIL
import torch
import transformers
from transformers import AutoImageProcessor

from image_resize import digest, image

sys.path.insert(0, os.environ["LLAMA_FACTORY"])
for absent in ("datasets", "trl", "av"):                    # imported, not used
    sys.modules.setdefault(absent, mock.MagicMock(__spec__=importlib.machinery.ModuleSpec(absent, None)))
from llamafactory.data.mm_plugin import BasePlugin, Qwen2VLPlugin  # noqa: E402

LIMITS = (768 * 768, 32 * 32)
CLIP = {"image_processor_type": "CLIPImageProcessor", "size": {"shortest_edge": 42}, "do_center_crop": True,
        "crop_size": {"height": 42, "width": 42}, "resample": 3, "do_rescale": True,
        "rescale_factor": 0.00392156862745098, "do_normalize": True,
        "image_mean": [0.48145466, 0.4578275, 0.40821073], "image_std": [0.26862954, 0.26130258, 0.27577711]}
LLAVA = {"model_type": "llava", "vision_feature_select_strategy": "default",
         "vision_config": {"model_type": "clip_vision_model", "patch_size": 14, "image_size": 42}}
SIGLIP = {"model_type": "llava", "vision_feature_select_strategy": "full",
          "vision_config": {"model_type": "siglip_vision_model", "patch_size": 16, "image_size": 64}}
QWEN2 = {"model_type": "qwen2_vl", "vision_config": {"patch_size": 14, "spatial_merge_size": 2}}
QWEN25 = {"model_type": "qwen2_5_vl", "vision_config": {"window_size": 112}}
QWEN3 = {"model_type": "qwen3_vl", "vision_config": {"patch_size": 16}}
PIXTRAL = {"model_type": "llava", "vision_config": {"model_type": "pixtral", "patch_size": 16},
           "vision_feature_select_strategy": "full"}
GEMMA = {"model_type": "gemma3", "mm_tokens_per_image": 16, "vision_config": {"patch_size": 14, "image_size": 224}}
SIZES = [("RGB", 301, 217), ("RGB", 40, 33), ("L", 90, 250), ("RGBA", 1100, 700)]
MLLAMA = {"model_type": "mllama", "vision_config": {"patch_size": 14, "image_size": 56}}
INTERNVL = {"model_type": "internvl", "downsample_ratio": 0.5,
            "vision_config": {"model_type": "internvl_vision", "patch_size": [14, 14], "image_size": [56, 56]}}
GOT = {"image_processor_type": "GotOcr2ImageProcessorFast", "size": {"height": 56, "width": 56}, "crop_to_patches": False,
       "image_mean": [0.485, 0.456, 0.406], "image_std": [0.229, 0.224, 0.225], "min_patches": 1, "max_patches": 12}
LFM2 = {"model_type": "lfm2_vl", "downsample_factor": 2,
        "vision_config": {"model_type": "siglip2_vision_model", "patch_size": 16}}
TOKENS = {"image_processor_type": "Lfm2VlImageProcessorFast", "do_image_splitting": False, "min_image_tokens": 8,
          "max_image_tokens": 24, "encoder_patch_size": 16, "downsample_factor": 2, "max_num_patches": 96}
GLM = {"model_type": "glm4v", "vision_config": {"patch_size": 14, "spatial_merge_size": 2}}
GEMMA4 = {"model_type": "gemma4_unified", "vision_config": {"model_type": "gemma4_unified_vision", "patch_size": 8,
                                                            "pooling_kernel_size": 2}}
PADDLE = {"model_type": "paddleocr_vl", "vision_config": {"model_type": "paddleocr_vl", "patch_size": 14,
                                                          "spatial_merge_size": 2, "temporal_patch_size": 2}}
LLAMA4 = {"model_type": "llama4", "vision_config": {"patch_size": 14, "image_size": 56}}
FAMILIES = {
    "qwen2_vl": (QWEN2, {"image_processor_type": "Qwen2VLImageProcessor", "min_pixels": 3136, "max_pixels": 50176},
                 SIZES + [("RGB", 70, 42), ("RGB", 5, 60), ("P", 1200, 4), ("RGB", 28, 28), ("RGB", 6000, 29), ("CMYK", 29, 6000)]),
    "qwen2_5_vl": (QWEN25, {"image_processor_type": "Qwen2_5_VLImageProcessor", "patch_size": 14, "merge_size": 2,
                            "size": {"shortest_edge": 3136, "longest_edge": 120000}}, SIZES + [("RGB", 700, 100)]),
    "qwen3_vl": (QWEN3, {"image_processor_type": "Qwen2VLImageProcessorFast", "patch_size": 16,
                         "size": {"shortest_edge": 65536, "longest_edge": 80000},
                         "image_mean": [0.5, 0.5, 0.5], "image_std": [0.5, 0.5, 0.5]}, SIZES + [("I;16", 64, 64)]),
    "qwen3_5_moe": (dict(QWEN3, model_type="qwen3_5_moe"),
                    {"image_processor_type": "Qwen2VLImageProcessorFast", "patch_size": 16, "do_resize": True,
                     "size": {"shortest_edge": 4096, "longest_edge": 16384}}, [("1", 100, 90)]),
    "glm4v": (GLM, {"image_processor_type": "Glm4vImageProcessor", "size": {"shortest_edge": 12544, "longest_edge": 90000}},
              SIZES + [("RGB", 29, 29), ("RGB", 40, 90), ("P", 28, 5), ("RGB", 6000, 29)]),
    # sides below 32, which LLaMA-Factory does not enlarge
    "glm4v_16": (dict(GLM, vision_config={"patch_size": 16}), {
        "image_processor_type": "Glm4vImageProcessorFast", "patch_size": 16,
        "size": {"shortest_edge": 1024, "longest_edge": 90000}}, [("RGB", 29, 80), ("RGB", 30, 31)]),
    # as it is published, but for the limits; then those of its class
    "paddleocr_vl": (PADDLE, {
        "image_processor_type": "PaddleOCRVLImageProcessor", "image_mean": [0.5] * 3, "image_std": [0.5] * 3, "merge_size": 2,
        "min_pixels": 12544, "max_pixels": 90000, "patch_size": 14, "resample": 3, "temporal_patch_size": 1},
        SIZES + [("RGB", 29, 29), ("RGB", 27, 60), ("RGB", 61, 19), ("P", 28, 5), ("RGB", 3, 2), ("RGB", 6, 1100),
                 ("RGB", 4000, 21), ("RGB", 1000, 20), ("RGB", 15, 700), ("RGB", 25, 25), ("RGB", 13, 14), ("L", 70, 42)]),
    "paddleocr_vl_default": (PADDLE, {"image_processor_type": "PaddleOCRVLImageProcessorFast"}, SIZES[1:2]),
    "gemma3": (GEMMA, {"image_processor_type": "Gemma3ImageProcessor", "size": {"height": 224, "width": 224},
                       "resample": 2, "do_pan_and_scan": None}, SIZES + [("RGB", 224, 224)]),
    "llava": (LLAVA, CLIP, SIZES + [("RGB", 42, 300), ("RGB", 42, 42), ("LA", 1000, 1)]),
    "llava_square": (LLAVA, {"image_processor_type": "LlavaImageProcessorFast", "do_pad": True, "crop_size": 42,
                             "size": {"shortest_edge": 42}}, SIZES),
    "llava_small": (dict(LLAVA, vision_feature_select_strategy="full"),
                    dict(CLIP, size={"height": 31, "width": 47}), SIZES),          # the crop pads
    "llava_plain": (LLAVA, dict(CLIP, do_normalize=False, size=42), SIZES[:1]),
    "llava_siglip": (SIGLIP, {"image_processor_type": "SiglipImageProcessor", "size": {"height": 64, "width": 64},
                              "image_mean": 0.5, "image_std": 0.25, "do_rescale": False}, SIZES),
    "llava_lanczos": (SIGLIP, {"image_processor_type": "SiglipImageProcessor", "size": [64, 64], "resample": 1},
                      SIZES[:2]),
    "llava_nearest": (SIGLIP, {"image_processor_type": "SiglipImageProcessor", "size": [64, 64], "resample": 0},
                      SIZES[:2]),
    "pixtral": (PIXTRAL, {"image_processor_type": "PixtralImageProcessor", "size": {"longest_edge": 128},
                          "patch_size": {"height": 16, "width": 16}}, SIZES + [("RGB", 16, 500)]),
    "mistral3": (dict(PIXTRAL, model_type="mistral3", spatial_merge_size=2),
                 {"image_processor_type": "PixtralImageProcessor", "size": {"longest_edge": 160}, "patch_size": 16},
                 SIZES),
    "mllama": (MLLAMA, {"image_processor_type": "MllamaImageProcessor", "size": {"height": 56, "width": 56},
                        "max_image_tiles": 4, "do_pad": True},
               SIZES + [("RGB", 56, 56), ("RGB", 60, 57), ("RGB", 300, 40), ("RGB", 40, 300), ("RGB", 112, 112),
                        ("RGB", 57, 169), ("L", 600, 2)]),
    "internvl": (INTERNVL, GOT, SIZES),
    "llama4": (LLAMA4, {"image_processor_type": "Llama4ImageProcessorFast", "size": {"height": 56, "width": 56},
                        "max_patches": 5, "resize_to_max_canvas": False, "image_mean": [0.48, 0.45, 0.4],
                        "image_std": [0.26, 0.3, 0.7]},
               SIZES + [("RGB", 56, 56), ("RGB", 60, 57), ("RGB", 300, 40), ("RGB", 40, 300), ("RGB", 112, 112),
                        ("RGB", 57, 169), ("L", 600, 2)]),
    "lfm2_vl": (LFM2, TOKENS, SIZES + [("RGB", 64, 64), ("RGB", 2100, 15), ("RGB", 15, 2000), ("RGB", 500, 8),
                                       ("RGB", 130, 240)]),
    "gemma4_unified": (GEMMA4, {"image_processor_type": "Gemma4UnifiedImageProcessor", "patch_size": 8,
                                "pooling_kernel_size": 2, "max_soft_tokens": 70, "image_mean": [0.0, 0.0, 0.0],
                                "image_std": [1.0, 1.0, 1.0], "do_normalize": False, "resample": 3},
                       SIZES + [("RGB", 128, 112), ("RGB", 130, 2), ("RGB", 4, 700), ("RGB", 2000, 20)]),
    # split only above twice as many tokens
    "lfm2_vl_split": (LFM2, dict(TOKENS, do_image_splitting=True, tile_size=64, min_image_tokens=64,
                                 max_image_tokens=256, max_num_patches=1024), SIZES[:3]),
    # at equal aspects, the area decides: 112 x 112 becomes 1 x 1 tiles, 113 x 113 becomes 3 x 3
    "internvl_crops": (INTERNVL, dict(GOT, size={"height": 56, "width": 56}), SIZES + [
        ("RGB", 56, 56), ("RGB", 80, 80), ("RGB", 112, 112), ("RGB", 113, 113), ("RGB", 150, 150), ("RGB", 300, 40),
        ("RGB", 40, 300), ("RGB", 700, 40), ("RGB", 200, 133), ("RGB", 225, 150), ("L", 600, 3)]),
}


def folder_of(config, processor):
    folder = tempfile.mkdtemp()
    for name, values in (("config.json", config), ("preprocessor_config.json", processor)):
        with open(os.path.join(folder, name), "w") as file:
            json.dump(values, file)
    return folder


def patches(pixels, patch):
    """(3, height, width) -> rows of patches in the order of the image."""
    c, h, w = pixels.shape
    x = pixels.reshape(c, h // patch, patch, w // patch, patch)
    return np.ascontiguousarray(x.transpose(1, 3, 0, 2, 4)).reshape(-1, c * patch * patch)


def prepared(name, config, processor, prepare):
    """Return grid, feature rows and rows of an image."""
    vision = config["vision_config"]
    merge = 1
    if name.startswith(("qwen", "glm4v")):
        out = processor(prepare, return_tensors="pt")
        grid, rows = out["image_grid_thw"][0].tolist(), out["pixel_values"].numpy()
        rows = rows.reshape(grid[1] // 2, grid[2] // 2, 2, 2, -1).transpose(0, 2, 1, 3, 4)   # of blocks of 2 x 2
        return grid, grid[1] * grid[2] // 4, np.ascontiguousarray(rows)
    if name.startswith("paddle"):
        out = processor(prepare, return_tensors="pt")
        grid = out["image_grid_thw"][0].tolist()
        return grid, grid[1] * grid[2] // 4, np.ascontiguousarray(out["pixel_values"].numpy())
    if name == "gemma3":
        merge = vision["image_size"] // vision["patch_size"] // int(config["mm_tokens_per_image"] ** 0.5)
    if name == "mllama":
        out = processor(prepare, return_tensors="pt")
        side, count = vision["image_size"], out["num_tiles"][0][0]
        shape = int(out["aspect_ratio_ids"][0, 0])
        down, across = [(h, w) for h in range(1, 5) for w in range(1, 5) if h * w <= 4][shape - 1]
        tiles = out["pixel_values"][0, 0, :count].numpy().reshape(down, across, 3, side, side)
        pixels = tiles.transpose(2, 0, 3, 1, 4).reshape(3, down * side, across * side)
        grid = [1, down * side // vision["patch_size"], across * side // vision["patch_size"]]
        return grid, count * ((side // vision["patch_size"]) ** 2 + 1), patches(pixels, vision["patch_size"]), shape
    if name == "llama4":
        out = processor(prepare, return_tensors="pt")
        tiles, (down, across) = out["pixel_values"].float().numpy(), out["aspect_ratios"][0].tolist()
        return [1, down * 4, across * 4], len(tiles) * 4, np.concatenate([patches(x, 14) for x in tiles])
    if name.startswith("internvl"):
        more = {"crop_to_patches": True, "min_patches": 1, "max_patches": 12} if name.endswith("crops") else {}
        tiles = processor(prepare, return_tensors="pt", **more)["pixel_values"].numpy()
        grid = [len(tiles), 56 // 14, 56 // 14]
        return grid, len(tiles) * 4, np.concatenate([patches(x, 14) for x in tiles])
    if name == "gemma4_unified":
        out = processor(prepare, return_tensors="pt")
        at = out["image_position_ids"][0]
        count = int((at >= 0).all(-1).sum())
        width, height = (at[:count].max(0).values + 1).tolist()
        return [1, height, width], count, np.ascontiguousarray(out["pixel_values"][0, :count].numpy())
    if name.startswith("lfm2"):
        out = processor(prepare, return_tensors="pt")
        (h, w), = out["spatial_shapes"].tolist()
        return [1, h, w], h * w // 4, np.ascontiguousarray(out["pixel_values"][0, :h * w].numpy())
    merge = config.get("spatial_merge_size", merge)
    more = {"patch_size": vision["patch_size"] * merge} if name == "mistral3" else {}  # as PixtralProcessor says
    pixels = processor(prepare, return_tensors="pt", **more)["pixel_values"][0].numpy().astype(np.float32)
    grid = [1, pixels.shape[1] // vision["patch_size"], pixels.shape[2] // vision["patch_size"]]
    extra = 0
    if name.startswith("llava"):
        extra = (vision["model_type"] == "clip_vision_model") - (config["vision_feature_select_strategy"] == "default")
    return grid, grid[1] * grid[2] // merge ** 2 + extra, patches(pixels, vision["patch_size"])


def cases(name):
    config, processor, sizes = FAMILIES[name]
    loaded = dict(processor)
    if loaded["image_processor_type"] == "Qwen2_5_VLImageProcessor":            # transformers asks config.json
        loaded["image_processor_type"] = "Qwen2VLImageProcessor"
    reader = AutoImageProcessor.from_pretrained(folder_of(config, loaded), backend="torchvision")
    plugin = (Qwen2VLPlugin if name.startswith(("qwen", "glm4v")) else BasePlugin)(None, None, None)
    for mode, width, height in sizes:
        given = image(mode, width, height, True)
        shrunk = plugin._preprocess_image(given, image_max_pixels=LIMITS[0], image_min_pixels=LIMITS[1])
        grid, rows, values, *shape = prepared(name, config, reader, shrunk)
        yield {"mode": mode, "from": [width, height], "grid": grid, "rows": rows, "values": digest(values.tobytes())} | (
            {"shape": shape[0]} if shape else {})


def main():
    families = [{"name": name, "config": FAMILIES[name][0], "processor": FAMILIES[name][1], "limits": LIMITS,
                 "crops": name.endswith("crops"),
                 "cases": list(cases(name))} for name in FAMILIES]
    print(json.dumps({"made_with": f"transformers {transformers.__version__}, Pillow {PIL.__version__}, "
                                   f"torch {torch.__version__}", "families": families}, separators=(",", ":")))


if __name__ == "__main__":
    main()
