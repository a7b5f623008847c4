#!/usr/bin/env python3
"""Make media_bytes.parquet: a record as datasets of the Hugging Face hub have it, with the start of a PNG.

    python3 tests/golden/media_bytes.py tests/golden/media_bytes.parquet     (pyarrow 26)
"""
import struct
import sys

import pyarrow
import pyarrow.parquet

PNG = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + struct.pack(">II", 84, 56) + b"\x08\x02\0\0\0"
TEXT = {"type": "text", "index": None}
messages = [{"role": "user", "content": [{"type": "image", "text": None, "index": 0}, {**TEXT, "text": "What?"}]},
            {"role": "assistant", "content": [{**TEXT, "text": "A cat."}]}]
table = pyarrow.Table.from_pylist([{"messages": messages, "images": [{"bytes": PNG, "path": None}]}])
pyarrow.parquet.write_table(table, sys.argv[1], compression="none", use_dictionary=False, write_statistics=False)
