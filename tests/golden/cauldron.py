#!/usr/bin/env python3
"""Make cauldron.parquet and cauldron.json: records of The Cauldron's form, with the starts of PNGs, and the messages that
torchtune makes of them, with <image> for each image.

    python3 tests/golden/cauldron.py tests/golden     (torchtune at bd2a0fc7, pyarrow 26)
"""
import json
import os
import struct
import sys

import pyarrow
import pyarrow.parquet
from torchtune.datasets.multimodal._the_cauldron import TheCauldronToMessages


def png(width, height):
    return b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + struct.pack(">II", width, height) + b"\x08\x02\0\0\0"


def turn(user, assistant):
    return {"user": user, "assistant": assistant, "source": "VQA"}


TURN = pyarrow.struct([(key, pyarrow.string()) for key in ("user", "assistant", "source")])
IMAGE = pyarrow.struct([("bytes", pyarrow.binary()), ("path", pyarrow.string())])
RECORDS = [
    {"images": [png(84, 56)], "texts": [turn("What is it?", "A cat."), turn("Where?", "Here.")]},
    {"images": [png(56, 84), png(84, 84)], "texts": [turn("Which one is larger?\nAnswer briefly.", "The second.")]},
    {"images": [], "texts": [turn("No image.", "None.")]},
]


def messages(record):
    """Return the role and the text of each message."""
    return [[m.role, "".join("<image>" if part["type"] == "image" else part["content"] for part in m.content)]
            for m in TheCauldronToMessages()(record)["messages"]]


folder = sys.argv[1]
table = pyarrow.Table.from_pylist(
    [{"images": [{"bytes": image, "path": None} for image in r["images"]], "texts": r["texts"]} for r in RECORDS],
    pyarrow.schema([("images", pyarrow.list_(IMAGE)), ("texts", pyarrow.list_(TURN))]))
pyarrow.parquet.write_table(table, os.path.join(folder, "cauldron.parquet"), compression="none", use_dictionary=False,
                            write_statistics=False)
with open(os.path.join(folder, "cauldron.json"), "w") as file:
    json.dump([messages(record) for record in RECORDS], file)
    file.write("\n")
