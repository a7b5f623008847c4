#!/usr/bin/env python3
"""Make image_resize.json: digests of images that Pillow 12 and torchvision (uint8, antialias) resized, and that
Pillow converted to RGB, for tests/unit/test_image_resize.c.  The images are a formula.

    python3 tests/golden/image_resize.py >tests/golden/image_resize.json     (on a CPU with AVX2)
"""
import hashlib
import json
import warnings

import numpy as np
import PIL
import torch
import torchvision
import torchvision.transforms.v2.functional as tv
from PIL import Image
from torchvision.transforms import InterpolationMode

assert PIL.__version__.startswith("12."), "Pillow 13 resizes in another order"
CHANNELS = {"1": 1, "L": 1, "LA": 2, "I;16": 2, "P": 1, "RGB": 3, "RGBA": 4, "CMYK": 4}
FILTERS = ["nearest", "bilinear", "bicubic", "lanczos"]
PILLOW = {"nearest": Image.NEAREST, "bilinear": Image.BILINEAR, "bicubic": Image.BICUBIC, "lanczos": Image.LANCZOS}
TORCH = {"nearest": InterpolationMode.NEAREST_EXACT, "bilinear": InterpolationMode.BILINEAR,
         "bicubic": InterpolationMode.BICUBIC, "lanczos": InterpolationMode.LANCZOS}
SIZES = [((64, 48), (31, 17)), ((31, 17), (64, 48)), ((50, 60), (50, 30)), ((50, 60), (25, 60)), ((97, 3), (11, 5)),
         ((1, 1), (7, 5)), ((200, 1), (3, 1)), ((1, 333), (2, 64)), ((65, 33), (65, 34)), ((130, 70), (129, 71))]


def noise(count, seed):
    """Bytes of a multiplicative hash of their index."""
    x = (np.arange(count, dtype=np.uint64) + seed) * 2654435761 % 2**32
    return (x >> 24 ^ x >> 11 & 255).astype(np.uint8)


def pixels(mode, width, height, smooth):
    """(height, width, channels): noise, or squares of 8 x 8 pixels."""
    step = 8 if smooth else 1
    columns, rows = -(-width // step), -(-height // step)
    bytes_ = noise(rows * columns * CHANNELS[mode], 7).reshape(rows, columns, CHANNELS[mode])
    bytes_ = bytes_.repeat(step, 0).repeat(step, 1)[:height, :width]
    return np.ascontiguousarray((bytes_ & 1) * 255 if mode == "1" else bytes_)


def image(mode, width, height, smooth):
    data = pixels(mode, width, height, smooth)
    if mode == "1":
        return Image.fromarray(data[..., 0]).convert("1")
    if mode == "I;16":
        return Image.frombytes(mode, (width, height), data.tobytes())
    out = Image.frombytes(mode, (width, height), data.tobytes())
    if mode == "P":
        out.putpalette(noise(768, 99).tobytes())
    return out


def plain(im):
    return im.convert("L").tobytes() if im.mode == "1" else im.tobytes()


def digest(data):
    return hashlib.sha256(data).hexdigest()[:32]


def cases():
    for mode in CHANNELS:
        for name in FILTERS:
            for (w, h), (to_w, to_h) in SIZES:
                for smooth in (False, True):
                    if mode != "RGB" and ((w + h) % 3 == 0 or smooth) and name != "bicubic":
                        continue
                    im = image(mode, w, h, smooth)
                    row = {"mode": mode, "filter": name, "from": [w, h], "to": [to_w, to_h], "smooth": smooth}
                    small = im.resize((to_w, to_h), PILLOW[name])
                    yield row | {"kernel": "pillow", "bytes": digest(plain(small)),
                                 "rgb": digest(small.convert("RGB").tobytes())}
                    if mode != "RGB":
                        continue
                    tensor = torch.from_numpy(pixels(mode, w, h, smooth)).permute(2, 0, 1)
                    small = tv.resize(tensor, [to_h, to_w], interpolation=TORCH[name], antialias=True)
                    small = small.permute(1, 2, 0).contiguous().numpy().tobytes()
                    yield row | {"kernel": "torch", "bytes": digest(small), "rgb": digest(small)}
    for w, to_w in ((3001, 1777), (1021, 4099)):                   # sums of steps
        for name in ("nearest", "bicubic"):
            im = image("L", w, 1, False)
            yield {"mode": "L", "filter": name, "from": [w, 1], "to": [to_w, 1], "smooth": False, "kernel": "pillow",
                   "bytes": digest(im.resize((to_w, 1), PILLOW[name]).tobytes()),
                   "rgb": digest(im.resize((to_w, 1), PILLOW[name]).convert("RGB").tobytes())}


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    print(json.dumps({"made_with": f"Pillow {PIL.__version__}, torch {torch.__version__}, "
                                   f"torchvision {torchvision.__version__}", "cases": list(cases())},
                     separators=(",", ":")))
