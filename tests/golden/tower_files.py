#!/usr/bin/env python3
"""Make tower_files.json and tower_files.safetensors: rows that transformers' processors and encoders make of a
sound and of images, for tests/unit/test_tower_files.c.  The weights are those of towers.py.

    python3 tests/golden/tower_files.py     (on a CPU, with torchvision)
"""
import json
import os

import numpy as np
import torch
import transformers
from PIL import Image
from safetensors.torch import save_file
from transformers import AutoImageProcessor, WhisperFeatureExtractor
from transformers.masking_utils import create_bidirectional_mask

from architectures import hashed
from towers import CASES as TOWERS, IDS, LLAMA, QWEN, QWEN2, VIT, make, qwen_text

WHISPER = {"feature_size": 12, "chunk_length": 1, "feature_extractor_type": "WhisperFeatureExtractor"}
ENCODER = {"num_mel_bins": 12, "encoder_layers": 2, "encoder_attention_heads": 2, "encoder_ffn_dim": 64, "d_model": 32,
           "max_source_positions": 50}
CLIP = {"image_processor_type": "CLIPImageProcessor", "size": {"shortest_edge": 24}, "do_center_crop": True,
        "crop_size": {"height": 24, "width": 24}, "resample": 3, "do_rescale": True, "do_normalize": True,
        "rescale_factor": 0.00392156862745098, "image_mean": [0.48145466, 0.4578275, 0.40821073],
        "image_std": [0.26862954, 0.26130258, 0.27577711]}
SIGLIP = {"image_processor_type": "Gemma3ImageProcessor", "size": {"height": 24, "width": 24}, "resample": 2}
TOKENS = {"image_processor_type": "Lfm2VlImageProcessorFast", "encoder_patch_size": 4, "downsample_factor": 2,
          "min_image_tokens": 4, "max_image_tokens": 12, "do_image_splitting": False, "max_num_patches": 48}
GOT = {"image_processor_type": "GotOcr2ImageProcessorFast", "size": {"height": 24, "width": 24}}
PATCHES = {"image_processor_type": "Qwen2VLImageProcessor", "patch_size": 4, "merge_size": 2,
           "min_pixels": 256, "max_pixels": 1536}
TILES = {"image_processor_type": "MllamaImageProcessor", "size": {"height": 24, "width": 24}, "resample": 2,
         "max_image_tiles": 4, "do_pad": True, "image_mean": CLIP["image_mean"], "image_std": CLIP["image_std"]}
MLLAMA = TOWERS["mllama"][0]
# name: values of config.json, of preprocessor_config.json, and items: samples of a sound, or (width, height)
CASES = {
    "qwen2_audio": ({"text_config": QWEN2, "audio_token_index": 39, "audio_config": ENCODER}, WHISPER,
                    [[12000], [16000], [20000], [700]]),
    "llava": ({"text_config": LLAMA, "image_token_index": 39,
               "vision_config": dict(VIT, model_type="clip_vision_model")}, CLIP, [(50, 31), (24, 60)]),
    "gemma3": ({"text_config": dict(QWEN2, model_type="gemma3_text", head_dim=12), "mm_tokens_per_image": 9,
                "image_token_index": 39, "boi_token_index": 38, "eoi_token_index": 37,
                "vision_config": dict(VIT, model_type="siglip_vision_model", vision_use_head=False)}, SIGLIP,
               [(40, 33)]),
    "internvl": ({"text_config": QWEN2, "image_token_id": 39, "vision_config": VIT}, GOT, [(50, 31), (24, 60)]),
    "lfm2_vl": (TOWERS["lfm2_vl"][0], TOKENS, [(50, 31), (24, 90)]),
    "qwen2_5_vl": ({"text_config": qwen_text(), "vision_config": dict(
        QWEN, patch_size=4, hidden_size=32, intermediate_size=48, out_hidden_size=24, window_size=16,
        fullatt_block_indexes=[1]), **IDS}, PATCHES, [(61, 40), (40, 32)]),
    # canvases of 2 x 2, 1 x 4 and 3 x 1 tiles (down x across)
    "mllama": (dict(MLLAMA, vision_config=dict(MLLAMA["vision_config"], image_size=24)), TILES,
               [(50, 41), (90, 20), (21, 50)]),
}


def samples(name, item, count):
    """16 bits, as a WAV file has them."""
    return np.round(hashed(f"{name} {item}", count) * 8000).astype(np.int16)


def picture(name, item, size):
    """Noise of 5 x 5 pixels each."""
    width, height = size
    small = np.round((hashed(f"{name} {item}", (width // 5 + 1) * (height // 5 + 1) * 3) + 1) * 127)
    small = small.reshape(height // 5 + 1, width // 5 + 1, 3).astype(np.uint8)
    return Image.fromarray(small.repeat(5, 0).repeat(5, 1)[:height, :width].copy())


def hear(model, settings, name, item, count):
    extractor = WhisperFeatureExtractor(**{k: v for k, v in settings.items() if k != "feature_extractor_type"})
    x = extractor(samples(name, item, count).astype(np.float32) / 32768, sampling_rate=16000, padding="max_length",
                  return_attention_mask=True, return_tensors="pt")
    tower, mask = model.model.audio_tower, x["attention_mask"]
    rows, kept = tower._get_feat_extract_output_lengths(mask.sum(-1))
    seen = (torch.arange(mask.shape[1] // 2)[None] < rows[:, None]).long()
    out = tower(x["input_features"], attention_mask=create_bidirectional_mask(
        config=model.config.audio_config, inputs_embeds=torch.zeros(1, seen.shape[1], 1), attention_mask=seen))
    return model.model.multi_modal_projector(out.last_hidden_state)[0, :kept[0]]


def see(model, folder, name, item, size):
    processor = AutoImageProcessor.from_pretrained(folder, use_fast=True)
    x = processor(images=[picture(name, item, size)], return_tensors="pt")
    if name == "mllama":
        out = model.model.vision_model(x["pixel_values"], x["aspect_ratio_ids"], x["aspect_ratio_mask"])
        print("tiles", x["num_tiles"], "shape", x["aspect_ratio_ids"].tolist())
        out = model.model.multi_modal_projector(out.last_hidden_state)[0, 0, :x["num_tiles"][0][0]]
        return out.reshape(-1, out.shape[-1])
    more = {k: x[k] for k in ("image_grid_thw", "spatial_shapes", "pixel_attention_mask") if k in x}
    for key in ("vision_feature_layer", "vision_feature_select_strategy"):
        if hasattr(model.config, key):
            more[key] = getattr(model.config, key)
    out = model.model.get_image_features(x["pixel_values"], **more).pooler_output
    return out[0].reshape(-1, out[0].shape[-1])


def main():
    import tempfile
    torch.set_num_threads(1)
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "tower_files")
    models, outputs = [], {}
    for name, (values, settings, items) in CASES.items():
        model, config, tensors = make(name, values)
        models.append({"name": name, "config": config, "tensors": tensors, "items": items, "processor": settings})
        with tempfile.TemporaryDirectory() as folder, torch.no_grad():
            with open(os.path.join(folder, "preprocessor_config.json"), "w") as file:
                json.dump(settings, file)
            with open(os.path.join(folder, "config.json"), "w") as file:
                json.dump(config, file)
            for i, item in enumerate(items):
                rows = (hear(model, settings, name, i, item[0]) if len(item) == 1
                        else see(model, folder, name, i, item))
                outputs[f"{name}.{i}.rows"] = rows.contiguous()
                print(name, item, list(rows.shape))
    save_file(outputs, path + ".safetensors")
    with open(path + ".json", "w") as file:
        json.dump({"made_with": f"transformers {transformers.__version__}, torch {torch.__version__.split('+')[0]}",
                   "models": models}, file, separators=(",", ":"), sort_keys=True)
        file.write("\n")


if __name__ == "__main__":
    main()
