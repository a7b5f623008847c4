#!/usr/bin/env python3
"""Make the tables of tests/unit/test_table.c with the libraries that people use, and their rows as JSON.

    python3 tests/golden/tables.py tests/golden/tables      (with pyarrow, pandas, polars, duckdb, fastparquet)

NAME.parquet, NAME.arrow and NAME.feather have the rows of NAME.jsonl, as pyarrow reads them.
"""
import decimal
import json
import os
import sys

import duckdb
import pandas
import polars
import pyarrow
import pyarrow.feather
import pyarrow.ipc
import pyarrow.parquet

FOLDER = sys.argv[1]

CHATS = [
    {"messages": [{"role": "user", "content": "2+2?"}, {"role": "assistant", "content": "4\n\"four\""}],
     "tags": ["a", None, ""], "score": 0.5, "n": 7, "ok": True, "meta": {"id": 1, "path": [[1, 2], [], [3]]}},
    {"messages": [], "tags": None, "score": None, "n": None, "ok": None, "meta": None},
    {"messages": None, "tags": [], "score": -1e300, "n": -2**62, "ok": False, "meta": {"id": None, "path": None}},
    {"messages": [{"role": "user", "content": "\u00e9\u4e2d\U0001f600"}, {"role": "assistant", "content": None},
                  {"role": "user", "content": ""}], "tags": ["long " * 30], "score": 1.25, "n": 0, "ok": True,
     "meta": {"id": 3, "path": [[]]}},
]
TEXTS = [{"instruction": f"Say {i % 5}", "input": "" if i % 3 else None, "output": str(i)} for i in range(200)]
TYPES = pyarrow.table({
    "i8": pyarrow.array([-128, None, 127], pyarrow.int8()), "u8": pyarrow.array([255, 0, None], pyarrow.uint8()),
    "i16": pyarrow.array([-3, 2, 1], pyarrow.int16()), "u32": pyarrow.array([2**32 - 1, 0, 1], pyarrow.uint32()),
    "i64": pyarrow.array([-2**63, 2**63 - 1, 0], pyarrow.int64()), "f32": pyarrow.array([0.5, None, -2.0], pyarrow.float32()),
    "f64": pyarrow.array([0.1, 1e-300, None]), "text": pyarrow.array(["x", None, "y" * 300], pyarrow.large_string()),
    "category": pyarrow.array(["b", "a", "b"]).dictionary_encode(), "none": pyarrow.nulls(3),
    "list": pyarrow.array([[1], None, [2, 3]], pyarrow.large_list(pyarrow.int32())),
    "pair": pyarrow.array([["a", "b"], ["c", None], ["d", "e"]], pyarrow.list_(pyarrow.string(), 2)),
})
DECIMALS = pyarrow.table({
    "price": pyarrow.array([decimal.Decimal("1.50"), None, decimal.Decimal("-0.07")], pyarrow.decimal128(9, 2)),
    "large": pyarrow.array([decimal.Decimal(10) ** 15 + 1, decimal.Decimal("-99999999999999.5"), None], pyarrow.decimal128(25, 4)),
    "whole": pyarrow.array([decimal.Decimal(-300), decimal.Decimal(0), None], pyarrow.decimal128(18, 0)),
    "half": pyarrow.array([0.5, None, -2.0], pyarrow.float16()),
})
MADE = {}


def add(name, rows):
    MADE[name] = rows


def path(name):
    return os.path.join(FOLDER, name)


def parquet(name, table, **options):
    pyarrow.parquet.write_table(table, path(name + ".parquet"), **options)
    add(name, table.to_pylist())


def arrow(name, table, stream=False, rows=None, **settings):
    options = pyarrow.ipc.IpcWriteOptions(**settings)
    maker = pyarrow.ipc.new_stream if stream else pyarrow.ipc.new_file
    with maker(path(name + ".arrow"), table.schema, options=options) as writer:
        writer.write_table(table, max_chunksize=rows)
    add(name, table.to_pylist())


def nested_dictionaries():
    """A dictionary with a null and a dictionary inside, and another column with the same values."""
    words = pyarrow.DictionaryArray.from_arrays(pyarrow.array([1, 0, None], pyarrow.int8()), ["x", "y"])
    pairs = pyarrow.StructArray.from_arrays([words, pyarrow.array([1, 2, 3])], ["word", "n"],
                                            mask=pyarrow.array([False, False, True]))
    return pyarrow.table({
        "pair": pyarrow.DictionaryArray.from_arrays(pyarrow.array([2, 1, None, 0], pyarrow.uint16()), pairs),
        "word": pyarrow.DictionaryArray.from_arrays(pyarrow.array([0, 0, 1, None], pyarrow.int64()), ["x", "y"]),
    })


def main():
    chats, texts = pyarrow.Table.from_pylist(CHATS), pyarrow.Table.from_pylist(TEXTS)
    parquet("chats", chats)
    parquet("chats_plain", chats, use_dictionary=False, compression="none")
    parquet("chats_v2", chats, data_page_version="2.0", compression="zstd")
    parquet("chats_groups", chats, row_group_size=1, compression="gzip")
    parquet("chats_old_lists", chats, use_compliant_nested_type=False)
    parquet("chats_lz4", chats, compression="lz4")
    parquet("texts", texts, row_group_size=64, data_page_size=256)
    parquet("texts_v2", texts, data_page_version="2.0", data_page_size=256, compression="snappy")
    parquet("types", TYPES)
    arrow("chats_stream", chats, stream=True)           # as `datasets` caches them
    arrow("chats_batches", chats, stream=True, rows=1)
    arrow("chats_file", chats, compression="zstd")
    arrow("chats_legacy", chats, stream=True, use_legacy_format=True) # before version 0.15
    arrow("dictionaries", nested_dictionaries())
    arrow("decimals_file", DECIMALS)
    parquet("decimals", DECIMALS)
    parquet("decimals_integer", DECIMALS, store_decimal_as_integer=True)
    arrow("types_file", TYPES, compression="lz4")
    pyarrow.feather.write_feather(texts, path("texts_feather.feather")) # lz4
    add("texts_feather", texts.to_pylist())
    pandas.DataFrame(TEXTS).to_parquet(path("pandas.parquet"))
    add("pandas", TEXTS)
    pandas.DataFrame([row | {"input": row["input"] or "x"} for row in TEXTS]).to_parquet(
        path("fastparquet.parquet"), engine="fastparquet")
    add("fastparquet", pyarrow.parquet.read_table(path("fastparquet.parquet")).to_pylist())
    frame = polars.from_arrow(chats)
    frame.write_parquet(path("polars.parquet"))
    add("polars", CHATS)
    frame.write_ipc(path("polars_views.arrow"), compression="zstd") # texts as views
    add("polars_views", CHATS)
    frame.write_ipc(path("polars_ipc.arrow"), compression="lz4", compat_level=polars.CompatLevel.oldest())
    add("polars_ipc", CHATS)
    duckdb.connect().execute(f"copy (select * from chats) to '{path('duckdb.parquet')}' (format parquet)")
    add("duckdb", CHATS)
    for name, rows in MADE.items():
        with open(path(name + ".jsonl"), "w", encoding="utf-8") as f:
            for row in rows:
                print(json.dumps(row, ensure_ascii=True, allow_nan=False, default=str), file=f)


if __name__ == "__main__":
    main()
