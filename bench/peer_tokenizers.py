#!/usr/bin/env python3
"""Measure Hugging Face's library on the text of bench_tokenizer, on one core.

    TOKENIZERS_PARALLELISM=false python3 bench/peer_tokenizers.py TEXT TOKENIZER...
"""
import pathlib
import sys
import time

from tokenizers import Tokenizer

PIECE = 64 << 10


def pieces(data):
    """Split like bench_tokenizer: 64 KiB, extended to the end of the line."""
    at = 0
    while at < len(data):
        end = min(at + PIECE, len(data))
        while end < len(data) and data[end - 1:end] != b"\n":
            end += 1
        yield data[at:end].decode()
        at = end


def main():
    data = pathlib.Path(sys.argv[1]).read_bytes()
    texts = list(pieces(data))
    print("tokenizer                MB/s      tokens")
    for folder in sys.argv[2:]:
        tokenizer = Tokenizer.from_file(str(pathlib.Path(folder, "tokenizer.json")))
        tokenizer.no_truncation()
        tokenizer.no_padding()
        best, count = float("inf"), 0
        for _ in range(5):
            start = time.process_time()
            count = sum(len(tokenizer.encode(text, add_special_tokens=False).ids) for text in texts)
            best = min(best, time.process_time() - start)
        print(f"{pathlib.Path(folder).name[:20]:20} {len(data) / best / 1e6:8.1f}  {count:10}")


if __name__ == "__main__":
    main()
