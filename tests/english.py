#!/usr/bin/env python3
"""Find retired words in the comments, strings and documentation of the tree.

    python3 tests/english.py [FOLDER]      print FILE:LINE: WORD: TEXT for each; status 1 if any

The words are those of an idiom that the tree once had and that readers stumbled over.  Each row
of WORDS has a pattern and what to write instead.  ALLOWED names the exceptions: a pattern of
files, and a pattern of the text around a word that may stay.
"""
import os
import re
import subprocess
import sys

WORDS = [
    (r"presets?", "default"),
    (r"anew", "again, from scratch"),
    (r"mend(?:s|ed|ing)?", "fix"),
    (r"(?:held|hold|holds|holding)(?: \w+){0,3} against", "compared with"),
    (r"(?:go|goes|went|gone|going) on", "continue"),
    (r"beside", "next to"),
    (r"behind", "after"),
    (r"(?:tell|tells|told|telling)", "report, say"),
    (r"by itself", "automatically, alone"),
    (r"(?:is|are|be) wanted", "is expected, requires"),
    (r"wants", "requires"),
    (r"not done here", "not supported"),
    (r"(?:nobody|somebody|whoever|whosoever)", "name the actor"),
    (r"for want of", "without"),
    (r"shall", "must, should"),
    (r"thereof|therein|hereby|hitherto|henceforth", "plain words"),
    (r"of its own accord", "automatically"),
    (r"a run begins", "the run starts"),
    (r"quantis\w+|normalis\w+|tokenis\w+|initialis\w+|optimis\w+|serialis\w+|recognis\w+|behaviour\w*"
     r"|colour\w*|favour\w*|neighbour\w*|licence\w*|centre\w*", "American spelling"),
]

ALLOWED = [
    (r"train/chat/template_tools\.c$", r"do not tell the user"),  # a prompt of LLaMA-Factory
    (r"^tests/english\.py$", r""),
    (r"^tests/cli/plan\.t$", r"Tell me of a cat"),  # a training sample
]

PATTERN = re.compile(r"\b(?:" + "|".join(f"({pattern})" for pattern, _ in WORDS) + r")\b",
                     re.IGNORECASE)
CODE = re.compile(r"\.(?:[ch]|cu|cuh|cc)$")
PROSE = re.compile(r"\.(?:md|[15]|py|sh|t|mk|ac|am|m4|yaml)$|^(?:README|autogen|quickstart|runtests|install)")
OUTSIDE = re.compile(r"^tests/(?:fuzz/corpus|fuzz/found|fuzz/dict|patch|golden|unit/data)/|^COPYING")
SPANS = re.compile(r'"(?:[^"\\\n]|\\.)*"|/\*.*?\*/|//[^\n]*', re.DOTALL)


def texts(name, source):
    """(offset, text) of what people read."""
    if not CODE.search(name):
        yield 0, source
        return
    for span in SPANS.finditer(source):
        before = source[source.rfind("\n", 0, span.start()) + 1:span.start()].lstrip()
        if not before.startswith("#include"):
            yield span.start(), span.group()


def found_in(name, source):
    for offset, text in texts(name, source):
        # line breaks of comments and joints of strings are blanks
        flat = re.sub(r'"\s*\n\s*"', lambda m: " " * len(m.group()), text)
        flat = re.sub(r"\n\s*\*?", lambda m: " " * len(m.group()), flat) if CODE.search(name) else flat
        for hit in PATTERN.finditer(flat):
            around = flat[max(0, hit.start() - 60):hit.end() + 60]
            if any(re.search(files, name) and re.search(allowed, around) for files, allowed in ALLOWED):
                continue
            line = source.count("\n", 0, offset + hit.start()) + 1
            instead = next(WORDS[i][1] for i, group in enumerate(hit.groups()) if group)
            yield line, hit.group(), instead


def main(folder="."):
    os.chdir(folder)
    listed = subprocess.run(["git", "ls-files"], stdout=subprocess.PIPE, check=False, text=True)
    names = listed.stdout.split() if listed.returncode == 0 else [
        os.path.join(at, name)[2:] for at, _, files in os.walk(".") for name in files]
    count = 0
    for name in sorted(names):
        if OUTSIDE.search(name) or not (CODE.search(name) or PROSE.search(name)):
            continue
        if not os.path.isfile(name):
            continue
        with open(name, encoding="utf-8") as file:
            for line, word, instead in found_in(name, file.read()):
                count += 1
                print(f"{name}:{line}: {word!r} is retired; write {instead}")
    return count > 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:2]))
