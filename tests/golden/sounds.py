#!/usr/bin/env python3
"""Make the sound files of sounds/ and sounds.json, what soundfile reads from them: some samples of the mean of
their channels, for tests/unit/test_audio.c.

    python3 tests/golden/sounds.py       (with soundfile 0.14, whose libsndfile is 1.2.2)

Ogg files have a random serial number, so they differ each time.
"""
import json
import os

import numpy as np
import soundfile

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "sounds")
COUNT = 1600
# name, format, subtype, rate, channels, tolerance: decoders of lossy formats differ by version and machine
FILES = [
    ("pcm16.wav", "WAV", "PCM_16", 16000, 2, 0), ("pcm24.wav", "WAVEX", "PCM_24", 44100, 1, 0),
    ("float.wav", "WAV", "FLOAT", 192000, 3, 0), ("ima.wav", "WAV", "IMA_ADPCM", 8000, 1, 0),
    ("gsm.wav", "WAV", "GSM610", 8000, 1, 0), ("pcm8.rf64", "RF64", "PCM_U8", 11025, 1, 0),
    ("pcm16.flac", "FLAC", "PCM_16", 22050, 2, 0), ("vorbis.ogg", "OGG", "VORBIS", 32000, 1, 1e-5),
    ("opus.ogg", "OGG", "OPUS", 48000, 2, 1e-3), ("mpeg.mp3", "MP3", "MPEG_LAYER_III", 24000, 1, 1e-5),
    ("pcm24.aiff", "AIFF", "PCM_24", 96000, 2, 0), ("ulaw.au", "AU", "ULAW", 8000, 1, 0),
    ("pcm16.caf", "CAF", "PCM_16", 12000, 1, 0), ("double.w64", "W64", "DOUBLE", 48000, 1, 0),
]


def main():
    os.makedirs(FOLDER, exist_ok=True)
    rows = []
    for name, kind, subtype, rate, channels, tolerance in FILES:
        path = os.path.join(FOLDER, name)
        t = np.arange(COUNT)[:, None] / rate
        sound = np.sin(2 * np.pi * (300 + 170 * np.arange(channels)) * t) * 0.4 * np.linspace(0.2, 1, COUNT)[:, None]
        soundfile.write(path, sound, rate, subtype=subtype, format=kind)
        read, rate = soundfile.read(path, dtype="float32", always_2d=True)
        total = read[:, 0].copy()
        for channel in range(1, channels):
            total += read[:, channel]
        mean = total / np.float32(channels)
        rows.append({"file": name, "rate": rate, "channels": channels, "count": len(mean), "tolerance": tolerance,
                     "samples": [float(f"{x:.9g}") for x in mean[::97]]})
    with open(os.path.join(os.path.dirname(FOLDER), "sounds.json"), "w", encoding="ascii") as out:
        json.dump({"made_with": f"soundfile {soundfile.__version__}, {soundfile.__libsndfile_version__}",
                   "step": 97, "files": rows}, out, separators=(",", ":"))
        out.write("\n")


main()
