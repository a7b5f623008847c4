#!/usr/bin/env python3
"""Make log_mel.json: features of sounds, computed by the processors of transformers, and rows that their
language models receive, for tests/unit/test_log_mel.c and test_mel_settings.c.

    python3 tests/golden/log_mel.py >tests/golden/log_mel.json       (on a CPU)

`numpy` is what WhisperFeatureExtractor computes in double without torch, `torch` what it, or
Phi4MultimodalFeatureExtractor, computes in float with torch.  Of each sound, some features are stored.
"""
import json
import sys
from types import SimpleNamespace

import numpy as np
import torch
import transformers
from transformers import Phi4MultimodalFeatureExtractor, WhisperFeatureExtractor
from transformers.models.audioflamingo3.processing_audioflamingo3 import AudioFlamingo3Processor
from transformers.models.voxtral.processing_voxtral import VoxtralProcessor

RATE = 16000


def noise(count, height):
    """The high bits of a linear congruential generator, which the test repeats."""
    state, out = 1, np.empty(count)
    for i in range(count):
        state = (state * 1664525 + 1013904223) % 2 ** 32
        out[i] = state - 2 ** 32 if state >= 2 ** 31 else state
    return (out / 2 ** 31 * height).astype(np.float32)


def sweep(count, height):
    t = np.arange(count) / RATE
    return (height * np.sin(2 * np.pi * (50 * t + 300 * t * t))).astype(np.float32)


def impulse(count, height):
    out = np.zeros(count, np.float32)
    out[count // 2] = height
    return out


SOUNDS = {"noise": noise, "sweep": sweep, "impulse": impulse}
SMALL = {"feature_size": 80, "chunk_length": 1}
ODD = {"feature_size": 40, "chunk_length": 1, "n_fft": 512, "hop_length": 125}
# model_type, settings, sound, samples, height
CASES = [
    ("qwen2_audio", {"feature_size": 128}, "noise", 160000, 0.1),
    ("qwen2_audio", {"feature_size": 128}, "sweep", 480000, 0.8),
    ("qwen2_audio", SMALL, "noise", 16000, 0.5),
    ("qwen2_audio", SMALL, "noise", 15900, 0.5),       # its end is reflected, too
    ("qwen2_audio", SMALL, "noise", 15600, 1e-4),
    ("qwen2_audio", SMALL, "noise", 3, 0.3),
    ("qwen2_audio", SMALL, "impulse", 8000, 1.0),
    ("qwen2_audio", SMALL, "impulse", 8000, 0.0),      # silence
    ("qwen2_audio", SMALL, "noise", 40000, 0.2),       # the rest is left out
    ("qwen2_audio", ODD, "noise", 12345, 0.2),
    ("audioflamingo3", SMALL, "noise", 40000, 0.2),
    ("audioflamingo3", SMALL, "sweep", 32000, 0.2),
    ("audioflamingo3", SMALL, "sweep", 90000, 0.2),    # longer than max_audio_len
    ("voxtral", SMALL, "noise", 40000, 0.2),
    ("voxtral", SMALL, "sweep", 33000, 0.7),
    ("voxtral", SMALL, "sweep", 16000, 0.7),
    ("phi4_multimodal", {}, "noise", 30001, 0.1),
    ("phi4_multimodal", {}, "sweep", 50000, 0.3),
    ("phi4_multimodal", {}, "impulse", 8000, 1.0),
    ("phi4_multimodal", {"feature_size": 40, "n_fft": 400, "hop_length": 100, "win_length": 320}, "noise", 9000, 0.5),
]
MAX_AUDIO_LEN = 4
LENGTHS = [1, 159, 160, 161, 319, 320, 321, 480, 481, 640, 641, 800, 16000, 100000, 479840, 479841, 480000,
           480001, 480160, 480161, 480321, 960000, 1234567, 9600000, 10000000]


def flamingo(extractor, seconds):
    self = SimpleNamespace(feature_extractor=extractor, max_audio_len=seconds)
    self._get_audio_token_length = lambda n: AudioFlamingo3Processor._get_audio_token_length(self, n)
    self.replace_audio_token = lambda inputs, audio_idx: ""
    return self


def windows(model_type, extractor, sound):
    """(windows, mels, frames)"""
    if model_type == "qwen2_audio":
        return extractor(sound, sampling_rate=RATE, padding="max_length", return_tensors="np")["input_features"]
    if model_type == "voxtral":
        window = extractor.n_samples
        kwargs = dict(sampling_rate=RATE, padding=True, truncation=False, pad_to_multiple_of=window,
                      return_tensors="pt")
        self = SimpleNamespace(feature_extractor=extractor)
        return VoxtralProcessor._retrieve_input_features(self, [sound], extractor.nb_max_frames, **kwargs).numpy()
    inputs, _ = AudioFlamingo3Processor._process_audio(
        flamingo(extractor, MAX_AUDIO_LEN), [sound], sampling_rate=RATE, return_attention_mask=True,
        return_tensors="pt", padding="max_length")
    return inputs["input_features"].numpy()


class WithoutTorch(WhisperFeatureExtractor):
    def _torch_extract_fbank_features(self, waveform, device="cpu"):
        return self._np_extract_fbank_features(waveform, device)


def case(model_type, settings, name, count, height):
    sound = SOUNDS[name](count, height)
    made = {}
    if model_type == "phi4_multimodal":
        out = Phi4MultimodalFeatureExtractor(**settings)(sound, sampling_rate=RATE, return_tensors="np")
        made["torch"] = out["audio_input_features"][0].astype(np.float64)
    for key, extractor in (("numpy", WithoutTorch), ("torch", WhisperFeatureExtractor)):
        if model_type == "phi4_multimodal":
            break
        out = windows(model_type, extractor(**settings), sound)
        made[key] = out.transpose(0, 2, 1).reshape(-1, out.shape[1]).astype(np.float64)    # (frames, mels)
    frames, mels = made["torch"].shape
    # the first and the last frames, and some between; of each, a few features
    rows = sorted({t for t in (*range(4), *range(frames - 3, frames), *range(0, frames, frames // 24 | 1))})
    step = 7 if mels < 100 else 11
    return {"model_type": model_type, "settings": settings, "sound": name, "count": count, "height": height,
            "frames": frames, "rows": rows, "step": step,
            **{key: [[float(f"{x:.7g}") for x in out[t, t % step::step]] for t in rows]
               for key, out in made.items()}}


def rows_of(samples):
    """Rows of the language model, for the settings of the models on the hub."""
    extractor = WhisperFeatureExtractor(feature_size=128)
    frames = -(-min(samples, 480000) // 160)      # ones of attention_mask[:, ::160]
    self = flamingo(extractor, 600)
    count = max(1, -(-samples // 480000))
    parts = [min(480000, samples - i * 480000) for i in range(min(count, 20))]
    together = torch.tensor(sum(-(-part // 160) for part in parts))
    phi4 = Phi4MultimodalFeatureExtractor()
    inside = torch.tensor([max(0, (samples - 400) // 160 + 1)])
    return {"samples": samples, "phi4_multimodal": int(phi4._compute_audio_embed_size(inside)), "qwen2_audio": (((frames - 1) // 2 + 1) - 2) // 2 + 1,
            "audioflamingo3": int(self._get_audio_token_length(together)), "voxtral": 375 * count}


def main():
    torch.set_num_threads(1)
    text = json.dumps({"made_with": f"transformers {transformers.__version__}, torch "
                                    f"{torch.__version__.split('+')[0]}, numpy {np.__version__}",
                       "max_audio_len": MAX_AUDIO_LEN, "cases": [case(*one) for one in CASES],
                       "rows": [rows_of(samples) for samples in LENGTHS]}, separators=(",", ":"))
    sys.stdout.write(text.replace('{"model_type"', '\n{"model_type"').replace('{"samples"', '\n{"samples"') + "\n")


main()
