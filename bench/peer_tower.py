#!/usr/bin/env python3
"""Alternate the encoder of bench_tower.c and that of transformers on a CPU; print the speedup.

    bench/peer_tower.py BENCH_TOWER [LAYERS [NAME fp32|bf16 THREADS]...]

NAME: whisper (30 s of sound for Qwen2-Audio), siglip (an image of 896 x 896 for Gemma 3), qwen2_5_vl (756 x 756).
The models have the published widths, LAYERS layers (default 4) and random weights.  The peer runs with scaled dot
product attention.  Each row runs ours, the peer, and ours again; ours is the slower of the two.  One thread is timed
by processor time.  Without transformers it prints a message and exits with status 0.
"""
import os
import subprocess
import sys
import tempfile
import time

REPEATS = 3
TEXT = {"vocab_size": 100, "num_hidden_layers": 1, "intermediate_size": 64, "num_attention_heads": 16,
        "num_key_value_heads": 16}


def values_of(name, layers):
    """Return the model_type, the values of config.json, and the patches of a side."""
    if name == "whisper":
        return "qwen2_audio", {"audio_config": {"encoder_layers": layers},
                               "text_config": dict(TEXT, model_type="qwen2", hidden_size=4096)}, None
    if name == "siglip":
        return "gemma3", {"text_config": dict(TEXT, hidden_size=2560), "mm_tokens_per_image": 256, "vision_config": {
            "model_type": "siglip_vision_model", "hidden_size": 1152, "image_size": 896, "intermediate_size": 4304,
            "num_attention_heads": 16, "num_hidden_layers": layers, "patch_size": 14, "vision_use_head": False}}, 64
    return "qwen2_5_vl", {"text_config": dict(TEXT, hidden_size=3584, num_attention_heads=28, num_key_value_heads=4, rope_parameters={
        "rope_type": "default", "rope_theta": 1e6, "mrope_section": [16, 24, 24]}), "vision_config": {
        "depth": layers, "hidden_size": 1280, "intermediate_size": 3420, "num_heads": 16, "out_hidden_size": 3584,
        "fullatt_block_indexes": [layers - 1]}}, 54


def ours(bench, folder, kind, threads, side):
    size = [] if side is None else [str(side), str(side)]
    said = subprocess.run([bench, folder, kind, str(threads)] + size, stdout=subprocess.PIPE, text=True, check=True).stdout
    return float(said.split("|")[3].split()[0])


def theirs(model, name, side):
    import torch
    clock = time.process_time if torch.get_num_threads() == 1 else time.perf_counter
    dtype = next(model.parameters()).dtype
    if name == "whisper":
        x = torch.randn(1, 128, 3000, dtype=dtype)
        run = lambda: model.model.multi_modal_projector(model.model.audio_tower(x).last_hidden_state)
    elif name == "siglip":
        x = torch.randn(1, 3, 896, 896, dtype=dtype)
        run = lambda: model.model.get_image_features(x)
    else:
        x = torch.randn(side * side, 3 * 2 * 14 * 14, dtype=dtype)
        run = lambda: model.model.get_image_features(x, torch.tensor([[1, side, side]]))
    best = 1e9
    with torch.no_grad():
        for _ in range(REPEATS):
            start = clock()
            run()
            best = min(best, clock() - start)
    return best * 1e3


def main():
    bench, arguments = sys.argv[1], sys.argv[2:]
    layers = int(arguments.pop(0)) if arguments and arguments[0].isdigit() else 4
    try:
        import torch
        import transformers
    except ImportError:
        print("peer_tower.py: no transformers; nothing is compared")
        return
    sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tests", "golden"))
    from multimodal import class_of
    arguments = arguments or [a for n in ("whisper", "siglip", "qwen2_5_vl") for k in ("fp32", "bf16")
                              for a in (n, k, "2")]
    print(f"| {layers} layers | format | cores | ours, twice, ms | transformers, ms | speedup |\n|---|---|---|---|---|---|")
    for name, kind, threads in zip(*[iter(arguments)] * 3):
        torch.set_num_threads(int(threads))
        model_type, values, side = values_of(name, layers)
        config = transformers.CONFIG_MAPPING[model_type](**values)
        model = class_of(config)._from_config(config, attn_implementation="sdpa").eval()
        model = model.to({"fp32": torch.float32, "bf16": torch.bfloat16}[kind])
        with tempfile.TemporaryDirectory() as folder:
            model.save_pretrained(folder)
            first = ours(bench, folder, kind, threads, side)
            peer = theirs(model, name, side)
            second = ours(bench, folder, kind, threads, side)
        print(f"| {name} | {kind} | {threads} | {first:.0f}, {second:.0f} | {peer:.0f} | {peer / max(first, second):.2f} |",
              flush=True)


if __name__ == "__main__":
    main()
