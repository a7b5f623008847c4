#!/usr/bin/env python3
"""Compare the rows of random tables with those that pyarrow reads.

    tables.py [--seed N] [--tables N] PROGRAM

PROGRAM is tests/differential/ours.  pyarrow writes tables with random types, nesting, nulls and options as
Parquet and as Arrow; polars (both formats) and DuckDB (Parquet), if installed, write the same tables.  A file
that PROGRAM refuses as unsupported is counted; damaged or different rows make the exit status 1.  The
status is 77 if pyarrow is not installed.  The same seed gives the same tables.
"""
import argparse
import collections
import base64
import datetime
import decimal
import json
import math
import os
import random
import subprocess
import sys
import tempfile

try:
    import pyarrow as pa
    import pyarrow.ipc
    import pyarrow.parquet
except ImportError as missing:
    print(f"tables: {missing}", file=sys.stderr)
    sys.exit(77)


def optional(name):
    try:
        return __import__(name)
    except ImportError:
        return None


polars, duckdb = optional("polars"), optional("duckdb")
DEPTH = 3
INTEGERS = [pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()]
LEAVES = INTEGERS + [pa.bool_(), pa.float16(), pa.float32(), pa.float64(), pa.string(), pa.large_string(),
                     pa.binary(), pa.binary(3), pa.date32(), pa.timestamp("us"), pa.null(),
                     pa.string_view(), pa.decimal128(9, 2), pa.decimal128(25, 4), pa.dictionary(pa.int8(), pa.string()),
                     pa.dictionary(pa.uint16(), pa.string())]
TEXTS = ["", "a", "\"q\\\n\x01", "\u00e9\u4e2d\U0001f600", "long " * 60]
EPOCH = datetime.datetime(1970, 1, 1)
UNSUPPORTED = "is not supported"


def random_type(rng, depth=0):
    if depth == DEPTH or rng.random() < 0.5:
        return rng.choice(LEAVES)
    kind = rng.randrange(5)
    if kind == 4:
        return pa.map_(rng.choice([pa.string(), pa.int32()]), random_type(rng, depth + 1))
    if kind == 3:
        return pa.struct([pa.field(f"m{i}", random_type(rng, depth + 1)) for i in range(rng.randint(1, 3))])
    element = pa.field("item", random_type(rng, depth + 1))
    return [pa.list_(element), pa.large_list(element), pa.list_(element, rng.randint(1, 3))][kind]


def random_leaf(rng, kind):
    if pa.types.is_integer(kind):
        bits = kind.bit_width
        low, high = (-2**(bits - 1), 2**(bits - 1) - 1) if pa.types.is_signed_integer(kind) else (0, 2**bits - 1)
        return rng.choice([low, high, 0, 1, rng.randint(low, high)])
    if pa.types.is_boolean(kind):
        return rng.random() < 0.5
    if pa.types.is_floating(kind):
        return rng.choice([0.5, -2.0, 0.0, math.inf, math.nan, float(rng.randint(-999, 999)) / 8])
    if pa.types.is_fixed_size_binary(kind) and not pa.types.is_decimal(kind):
        return rng.choice([b"abc", b"\xff\x00\x01"])
    if pa.types.is_binary(kind):
        return rng.choice([b"", b"text", b"\xff\xfe", b"\x00"])
    if pa.types.is_date(kind):
        return (EPOCH + datetime.timedelta(days=rng.randint(-9999, 9999))).date()
    if pa.types.is_timestamp(kind):
        return EPOCH + datetime.timedelta(microseconds=rng.randint(-10**15, 10**15))
    if pa.types.is_decimal(kind):
        return decimal.Decimal(rng.randint(-10**8, 10**8)).scaleb(-kind.scale)
    return rng.choice(TEXTS) if rng.random() < 0.7 else str(rng.randrange(1000))


def random_value(rng, kind, nulls):
    if pa.types.is_null(kind) or rng.random() < nulls:
        return None
    if pa.types.is_struct(kind):
        return {field.name: random_value(rng, field.type, nulls) for field in kind}
    if pa.types.is_map(kind):
        keys = {random_leaf(rng, kind.key_type) for _ in range(rng.choice([0, 0, 1, 3]))}
        return [(key, random_value(rng, kind.item_type, nulls)) for key in sorted(keys)]
    if pa.types.is_fixed_size_list(kind):
        return [random_value(rng, kind.value_type, nulls) for _ in range(kind.list_size)]
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return [random_value(rng, kind.value_type, nulls) for _ in range(rng.choice([0, 1, 1, 2, 5]))]
    return random_leaf(rng, kind.value_type if pa.types.is_dictionary(kind) else kind)


def random_table(rng):
    rows, nulls = rng.choice([0, 1, 7, 60, 3000]), rng.choice([0, 0.1, 0.7, 1])
    columns = {}
    for i in range(rng.randint(1, 4)):
        kind = random_type(rng)
        if rng.random() < 0.3: # equal values next to each other
            values = [random_value(rng, kind, nulls)] * rows
        else:
            values = [random_value(rng, kind, nulls) for _ in range(rows)]
        columns[f"c{i}"] = pa.array(values, kind)
    return pa.table(columns)


def plain(value, kind):
    """Return the JSON of a value: what table.h promises."""
    if value is None:
        return None
    if pa.types.is_dictionary(kind):
        return plain(value, kind.value_type)
    if pa.types.is_struct(kind):
        return {field.name: plain(value[field.name], field.type) for field in kind}
    if pa.types.is_map(kind):
        return [{"key": plain(key, kind.key_type), "value": plain(item, kind.item_type)} for key, item in value]
    if pa.types.is_nested(kind):
        return [plain(item, kind.value_type) for item in value]
    if pa.types.is_decimal(kind):
        return decimal.Decimal(value)
    if isinstance(value, datetime.datetime):
        return (value - EPOCH) // datetime.timedelta(microseconds=1)
    if isinstance(value, datetime.date):
        return (value - EPOCH.date()).days
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            return {"binary_bytes": len(value), "base64": base64.b64encode(value).decode()}
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return float(value) if isinstance(value, int) and value >= 2**63 else value


def expected_rows(table):
    columns = [[plain(value, column.type) for value in column.to_pylist()] for column in table.columns]
    return [dict(zip(table.column_names, row)) for row in zip(*columns)]


def same(ours, theirs):
    if isinstance(theirs, dict) and isinstance(ours, dict):
        return list(ours) == list(theirs) and all(same(ours[key], theirs[key]) for key in ours)
    if isinstance(theirs, list) and isinstance(ours, list):
        return len(ours) == len(theirs) and all(map(same, ours, theirs))
    if isinstance(theirs, decimal.Decimal):
        return isinstance(ours, str) and decimal.Decimal(ours) == theirs
    if isinstance(theirs, bool) or isinstance(ours, bool):
        return ours is theirs
    return ours == theirs


def write_parquet(rng, table, path):
    pa.parquet.write_table(
        table, path, use_dictionary=rng.random() < 0.6, data_page_version=rng.choice(["1.0", "2.0"]),
        compression=rng.choice(["none", "snappy", "zstd", "gzip", "lz4"]),
        data_page_size=rng.choice([1, 64, 1 << 20]), dictionary_pagesize_limit=rng.choice([1, 200, 1 << 20]),
        write_batch_size=rng.choice([1, 16, 1024]), row_group_size=rng.choice([1 + table.num_rows // 3, 1 << 20]),
        use_compliant_nested_type=rng.random() < 0.7, write_page_checksum=rng.random() < 0.3,
        store_decimal_as_integer=rng.random() < 0.5, write_statistics=rng.random() < 0.7,
        version=rng.choice(["1.0", "2.4", "2.6"]))


def write_arrow(rng, table, path):
    options = pa.ipc.IpcWriteOptions(compression=rng.choice([None, "lz4", "zstd"]), unify_dictionaries=True,
                                     use_legacy_format=rng.random() < 0.3)
    if rng.random() < 0.5 and table.num_rows: # offsets that do not start at 0
        table = pa.concat_tables([table.slice(table.num_rows // 2), table])
    maker = rng.choice([pa.ipc.new_stream, pa.ipc.new_file])
    with maker(path, table.schema, options=options) as writer:
        for batch in table.to_batches(max_chunksize=rng.choice([1 + table.num_rows // 4, None])):
            writer.write_batch(batch)
    return table


def write_duckdb(rng, table, path):
    connection = duckdb.connect()
    connection.register("made", table)
    connection.execute(f"copy (select * from made) to '{path}' (format parquet, compression "
                       f"{rng.choice(['uncompressed', 'snappy', 'zstd', 'gzip', 'lz4_raw'])})")


def write_polars(rng, table, path):
    polars.from_arrow(table).write_parquet(
        path, compression=rng.choice(["uncompressed", "snappy", "zstd", "gzip", "lz4"]),
        row_group_size=rng.choice([None, 1 + table.num_rows // 3]), data_page_size=rng.choice([None, 64]))


def write_polars_arrow(rng, table, path):
    polars.from_arrow(table).write_ipc(path, compression=rng.choice(["uncompressed", "lz4", "zstd"]))
    return pa.ipc.open_file(path).read_all()


def write(rng, kind, table, path):
    """Write the table; the result is what pyarrow reads, or None if the library refuses it."""
    try:
        if kind == "arrow":
            return write_arrow(rng, table, path)
        if kind == "polars.arrow":
            return write_polars_arrow(rng, table, path)
        {"parquet": write_parquet, "duckdb": write_duckdb, "polars": write_polars}[kind](rng, table, path)
        found = pa.parquet.read_table(path)
        # pyarrow 26 loses the rows of some files whose only column is a list of fixed size
        return found if found.num_rows == table.num_rows else table
    except KeyboardInterrupt:
        raise
    except BaseException: # each library has its own for types that it lacks; polars panics
        return None


class Ours:
    def __init__(self, program):
        self.process = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def rows(self, path):
        print(json.dumps({"table": path}), file=self.process.stdin, flush=True)
        return json.loads(self.process.stdout.readline())


def compare(ours, path, table):
    """Return "same", "unsupported", or a description of the difference."""
    answer = ours.rows(path)
    if UNSUPPORTED in answer.get("error", ""):
        return "unsupported"
    if "error" in answer:
        return answer["error"]
    rows = expected_rows(table)
    if len(rows) != len(answer["rows"]):
        return f"{len(answer['rows'])} rows, expected {len(rows)}"
    for i, (ours_row, row) in enumerate(zip(answer["rows"], rows)):
        if not same(ours_row, row):
            return f"row {i + 1}: {json.dumps(ours_row)[:300]}\n  expected {str(row)[:300]}"
    return "same"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--tables", type=int, default=150)
    parser.add_argument("program")
    args = parser.parse_args()
    kinds = ["parquet", "arrow"] + ["duckdb"] * bool(duckdb) + ["polars", "polars.arrow"] * bool(polars)
    ours, counts, failures = Ours(args.program), collections.Counter(), 0
    with tempfile.TemporaryDirectory() as folder:
        for i in range(args.tables):
            try:
                table = random_table(random.Random(f"{args.seed} {i}"))
            except pa.ArrowInvalid: # pyarrow 26 confuses the types of nested dictionaries
                counts["pyarrow", "not made"] += 1
                continue
            for kind in kinds:
                path = os.path.join(folder, f"{i}." + ("arrow" if kind.endswith("arrow") else "parquet"))
                written = write(random.Random(f"{args.seed} {i} {kind}"), kind, table, path)
                result = compare(ours, path, written) if written is not None else "not written"
                if result not in ("same", "unsupported", "not written"):
                    failures += 1
                    print(f"table {i}, {kind}: {result}\n  {str(table.schema)[:300]}")
                    result = "different"
                counts[kind, result] += 1
                if os.path.exists(path):
                    os.remove(path)
    print("tables: " + ", ".join(f"{kind} {result} {n}" for (kind, result), n in sorted(counts.items())))
    if any(counts[kind, "same"] == 0 for kind in kinds):
        sys.exit("tables: a library has no file that was compared")
    sys.exit(failures > 0)


if __name__ == "__main__":
    main()
