#!/usr/bin/env python3
"""Make image_files.json: small JPEG, PNG and WebP files of every mode, and what Pillow 12 reads from them, for
tests/unit/test_image_file.c.  `rgb` and `small` are digests of the image in RGB, and of its resize (bicubic) in RGB.
`cuts` says how long a part of a file may be without an error of Pillow.

    python3 tests/golden/image_files.py >tests/golden/image_files.json
"""
import base64
import io
import json
import struct
import warnings
import zlib

import numpy as np
import PIL
from PIL import Image, ImageFile, features

from image_resize import digest, image, noise

assert PIL.__version__.startswith("12.")
W, H = 29, 21


def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def packed_rows(samples, bits):
    """Rows of samples (height, n) -> bytes, each row with filter 0."""
    rows = b""
    for row in samples:
        if bits == 16:
            rows += b"\0" + row.astype(">u2").tobytes()
            continue
        text = "".join(format(int(x), f"0{bits}b") for x in row)
        text += "0" * (-len(text) % 8)
        rows += b"\0" + bytes(int(text[i:i + 8], 2) for i in range(0, len(text), 8))
    return rows


ADAM7 = [(0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2)]


def png(bits, color, w=W, h=H, extra=b"", interlaced=False, palette=None):
    per = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}[color]
    count = w * h * per
    samples = noise(2 * count, 3).astype(np.uint32)
    samples = (samples[:count] * 256 + samples[count:]) >> (16 - bits)
    if color == 0 and bits == 16:
        samples = samples % 400                                 # clipped to 255, but not all
    samples = samples.reshape(h, w, per)
    if interlaced:
        raw = b"".join(packed_rows(part.reshape(part.shape[0], -1), bits)
                       for x, y, dx, dy in ADAM7 for part in [samples[y::dy, x::dx]] if part.size)
    else:
        raw = packed_rows(samples.reshape(h, -1), bits)
    header = struct.pack(">IIBBBBB", w, h, bits, color, 0, 0, int(interlaced))
    colors = chunk(b"PLTE", noise(3 * (palette or 2**bits), 99).tobytes()) if color == 3 else b""
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"gAMA", struct.pack(">I", 100000)) + colors + extra
            + chunk(b"IDAT", zlib.compress(raw)) + chunk(b"IEND", b""))


def saved(im, kind, **more):
    file = io.BytesIO()
    im.save(file, kind, **more)
    return file.getvalue()


def ycck(data):
    """The same file with the color transform of Adobe's marker changed from none to YCCK."""
    at = data.index(b"Adobe") + 11
    return data[:at] + b"\x02" + data[at + 1:]


def riff(*chunks):
    body = b"WEBP" + b"".join(kind + struct.pack("<I", len(data)) + data + b"\0" * (len(data) % 2) for kind, data in chunks)
    return b"RIFF" + struct.pack("<I", len(body)) + body


def three(value):
    return struct.pack("<I", value)[:3]


def animation(w, h, x, y, alpha):
    """Two frames of half the canvas."""
    frames = []
    for seed in (0, 1):
        part = image("RGBA" if alpha else "RGB", w // 2, h // 2, bool(seed))
        bits = saved(part, "WEBP", lossless=True, exact=True)
        at = bits.index(b"VP8L")
        size = struct.unpack("<I", bits[at + 4:at + 8])[0]
        data = bits[at:at + 8 + size + size % 2]
        frames.append((b"ANMF", three(x // 2) + three(y // 2) + three(w // 2 - 1) + three(h // 2 - 1) + three(100)
                       + b"\0" + data))
    flags = 2 | (16 if alpha else 0)
    return riff((b"VP8X", bytes([flags, 0, 0, 0]) + three(w - 1) + three(h - 1)),
                (b"ANIM", b"\xff\x20\x30\x40\0\0"), *frames)


def files():
    photo, exif = image("RGB", W, H, True), Image.Exif()
    exif[0x0112] = 6                                            # rotated; not applied
    yield "jpeg", saved(photo, "JPEG", quality=90)
    yield "jpeg-444", saved(photo, "JPEG", quality=95, subsampling=0)
    yield "jpeg-422", saved(photo, "JPEG", quality=60, subsampling=1)
    yield "jpeg-progressive", saved(photo, "JPEG", progressive=True)
    yield "jpeg-exif", saved(photo, "JPEG", exif=exif)
    yield "jpeg-gray", saved(photo.convert("L"), "JPEG")
    cmyk = saved(image("CMYK", W, H, True), "JPEG", quality=98)
    yield "jpeg-cmyk", cmyk
    yield "jpeg-ycck", ycck(cmyk)
    yield "jpeg-pixel", saved(photo.crop((0, 0, 1, 1)), "JPEG")
    yield "jpeg-column", saved(image("RGB", 1, 300, True), "JPEG")
    yield "jpeg-restarts", saved(photo, "JPEG", restart_marker_rows=1)
    for color, depths in ((0, (1, 2, 4, 8, 16)), (2, (8, 16)), (3, (1, 2, 4, 8)), (4, (8, 16)), (6, (8, 16))):
        for bits in depths:
            yield f"png-{color}-{bits}", png(bits, color)
    yield "png-interlaced-2", png(8, 2, interlaced=True)
    yield "png-interlaced-3", png(4, 3, interlaced=True)
    yield "png-interlaced-0-16", png(16, 0, interlaced=True)
    yield "png-palette-short", png(8, 3, palette=200)
    yield "png-palette-alpha", png(8, 3, extra=chunk(b"tRNS", noise(256, 5).tobytes()))
    yield "png-color-alpha", png(8, 2, extra=chunk(b"tRNS", struct.pack(">HHH", 1, 2, 3)))
    yield "png-gray-alpha", png(2, 0, extra=chunk(b"tRNS", struct.pack(">H", 1)))
    yield "png-pixel", png(8, 6, 1, 1)
    yield "png-row", png(1, 0, 300, 1)
    yield "png-exif", saved(photo, "PNG", exif=exif)
    yield "webp-lossy", saved(photo, "WEBP", quality=80)
    yield "webp-lossless", saved(photo, "WEBP", lossless=True)
    yield "webp-exif", saved(photo, "WEBP", exif=exif)
    yield "webp-alpha", saved(image("RGBA", W, H, True), "WEBP", quality=80)
    yield "webp-alpha-lossless", saved(image("RGBA", W, H, False), "WEBP", lossless=True, exact=True)
    yield "webp-pixel", saved(photo.crop((0, 0, 1, 1)), "WEBP", lossless=True)
    yield "webp-animation", animation(28, 20, 14, 10, False)
    yield "webp-animation-alpha", animation(28, 20, 2, 4, True)


def opens(data):
    try:
        Image.open(io.BytesIO(data)).convert("RGB")
        return True
    except (OSError, SyntaxError, ValueError, EOFError):
        return False


def main():
    warnings.simplefilter("ignore")
    assert not ImageFile.LOAD_TRUNCATED_IMAGES
    rows = []
    for name, data in files():
        im = Image.open(io.BytesIO(data))
        small = im.resize((max(im.width * 2 // 3, 1), max(im.height * 2 // 3, 1)))
        cuts = [[n, opens(data[:n])] for n in (len(data) - 1, len(data) - 2, len(data) - 12, len(data) * 3 // 4, 40)]
        rows.append({"name": name, "mode": im.mode, "size": im.size, "rgb": digest(im.convert("RGB").tobytes()),
                     "small": digest(small.convert("RGB").tobytes()), "cuts": cuts,
                     "file": base64.b64encode(data).decode()})
    versions = f"Pillow {PIL.__version__}, libjpeg-turbo {features.version_feature('libjpeg_turbo')}, " \
               f"libwebp {features.version_module('webp')}"
    print(json.dumps({"made_with": versions, "files": rows}, separators=(",", ":")))


if __name__ == "__main__":
    main()
