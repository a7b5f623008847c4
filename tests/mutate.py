#!/usr/bin/env python3
"""Break one formula at a time and check that a test fails.

    make mutate                       every mutation of tests/mutations.txt
    make mutate MUTATE=rope           mutations whose file or text contains the word
    python3 tests/mutate.py SOURCE BUILD [WORD ...]
    python3 tests/mutate.py SOURCE    only check that the text of each mutation is in its file once

The tree is copied to BUILD/source and built in BUILD/tree; nothing else changes.  The program applies
a mutation there, then builds and runs the tests that it names, in order, and then the tests of its
whole layer, until one fails: the mutation is killed.  If no test fails, the mutation survives and the
exit status is 1.  The status is also 1 if the text of a mutation does not occur exactly once in its
file, or if a mutation does not compile.
"""
import filecmp
import os
import re
import shutil
import signal
import subprocess
import sys
import time

# Tests to run after those that a mutation names: fast tests of whole models.
LAYERS = {
    "kernels/cpu": ["test_golden_operators", "test_model_gradients", "test_adapter_gradients",
                    "test_model_determinism", "test_model", "test_trainer_curve",
                    "test_optimizer", "test_overflow"],
    "kernels/cuda": ["test_emulated_operators", "test_emulated_model",
                     "test_emulated_model_forward"],
    "kernels": ["test_golden_operators", "test_model_gradients"],
    "patcher": ["test_rules", "test_patch_cases"],
    "precision": ["test_scaler", "test_overflow", "test_policy"],
    "train": ["test_model_gradients", "test_adapter_gradients", "test_model_determinism",
              "test_model", "test_architectures", "test_optimizer", "test_trainer_curve", "test_schedule", "test_rope", "test_lora", "test_golden_lora",
              "test_model_files", "test_dataset", "test_dataset_batch", "test_overflow"],
}
LIMIT = 300  # seconds, for tests that take about one: a mutation may cause an endless loop


class Mutation:
    def __init__(self, line, file, tests, old):
        self.line, self.file, self.tests, self.old, self.new = line, file, tests, old, None

    def text(self):
        return f"{self.file}: {self.old.strip()} -> {self.new.strip() or 'nothing'}"


def read_mutations(name):
    """Read `file test ...` lines, each followed by pairs of `- old` and `+ new` (a lone `+` deletes)."""
    rows, file, tests = [], None, []
    with open(name, encoding="utf-8") as lines:
        for number, line in enumerate(lines, 1):
            line = line.rstrip("\n")
            if line.startswith("- ") and rows and rows[-1].new is None:
                rows[-1].old += "\n" + line[2:]
            elif line.startswith("- "):
                rows.append(Mutation(number, file, tests, line[2:]))
            elif line.startswith("+"):
                rows[-1].new = line[2:] if rows[-1].new is None else f"{rows[-1].new}\n{line[2:]}"
            elif line and not line.startswith("#"):
                file, *tests = line.split()
    for row in rows:
        if row.new is None or row.file is None:
            sys.exit(f"{name}:{row.line}: a mutation must have a `+` line and a file before it")
    return rows


def copy_tree(source, to):
    """Copy the tree without builds and history.  Equal files stay, so make does not rebuild them."""
    for folder, folders, files in os.walk(source):
        below = os.path.relpath(folder, source)
        folders[:] = [name for name in folders
                      if name not in (".git", "autom4te.cache", "mutate-build")
                      and not os.path.exists(os.path.join(folder, name, "config.status"))]
        os.makedirs(os.path.join(to, below), exist_ok=True)
        for name in files:
            if name in (".git", "config.status") or name.endswith(".o"):
                continue
            old, new = os.path.join(folder, name), os.path.join(to, below, name)
            if not os.path.exists(new) or not filecmp.cmp(old, new, shallow=False):
                shutil.copy(old, new)


class Tree:
    """The copy and its build."""

    def __init__(self, source, build):
        self.source, self.build = os.path.join(build, "source"), os.path.join(build, "tree")
        copy_tree(source, self.source)
        os.makedirs(self.build, exist_ok=True)
        if not os.path.exists(os.path.join(self.build, "config.status")):
            # use the compilers of the calling build, with less optimization for faster compilation
            self.run([os.path.join(self.source, "configure"), "-q", "--without-cuda",
                      "CFLAGS=-O1 -w", "CXXFLAGS=-O1 -w",
                      *(f"{key}={os.environ[key]}" for key in ("CC", "CXX")
                        if key in os.environ)])
        self.environment = dict(
            os.environ, top_srcdir=self.source, top_builddir=self.build,
            TRAINSPOOL_SHARED=os.environ.get("TRAINSPOOL_SHARED",
                                             os.path.join(source, "..", "shared")))

    def run(self, argv, limit=3600, environment=None):
        """Return the exit status and the output; the status is None after `limit` seconds."""
        try:
            done = subprocess.run(argv, cwd=self.build, timeout=limit, env=environment,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                  check=False, errors="replace", text=True)
            return done.returncode, done.stdout
        except subprocess.TimeoutExpired:
            return None, ""

    def make(self, test):
        jobs = os.environ.get("MUTATE_JOBS", "2")
        programs = ["trainspool", "trainspool-train"]
        return self.run(["make", "-s", "-j", jobs,
                         *(programs if is_script(test) else [f"tests/unit/{test}"])])

    def test(self, test):
        if not is_script(test):
            return self.run([f"tests/unit/{test}"], LIMIT, self.environment)
        status, output = self.run(["sh", os.path.join(self.source, "tests", "cli", test)], LIMIT,
                                self.environment)
        return status or int(re.search("^not ok", output, re.MULTILINE) is not None), output

    def write(self, file, text):
        with open(os.path.join(self.source, file), "w", encoding="utf-8") as out:
            out.write(text)

    def read(self, file):
        with open(os.path.join(self.source, file), encoding="utf-8") as text:
            return text.read()


def is_script(test):
    return test.endswith(".t")


def tests_of(row):
    layer = next((tests for folder, tests in LAYERS.items() if row.file.startswith(folder + "/")), [])
    return row.tests + [test for test in layer if test not in row.tests]


def failed_test(output):
    for line in output.splitlines():
        if line.startswith("[  FAILED  ] ") or line.startswith("not ok"):
            return line.split()[-1]
    return "crashed"


COMMENT = r"/\*(?:[^*]|\*(?!/))*\*/"


def pattern(old):
    """The C tokens of `old` with any white space and comments between them."""
    tokens = re.findall(r"\w+|[^\w\s]", re.sub(COMMENT, "", old))
    return re.compile(rf"(?:\s|{COMMENT})*".join(map(re.escape, tokens)))


def stale(row, text):
    """Return why the mutation does not apply to this text of its file; None if it does."""
    count = len(pattern(row.old).findall(text))
    return f"stale: the text occurs {count} times" if count != 1 else None


def verdict(tree, row):
    """Return whether a test failed, and which one or why none did."""
    text = tree.read(row.file)
    if stale(row, text):
        return False, stale(row, text)
    tree.write(row.file, pattern(row.old).sub(lambda _: row.new, text))
    try:
        for test in tests_of(row):
            status, output = tree.make(test)
            if status != 0:
                return False, "does not compile: " + output.strip()[-300:]
            status, output = tree.test(test)
            if status != 0:
                return True, f"{test} ({'timeout' if status is None else failed_test(output)})"
    finally:
        tree.write(row.file, text)
    return False, "SURVIVED"


def check_unmutated(tree, rows):
    """Check that every test passes without a mutation; otherwise a failure means nothing."""
    for test in sorted({test for row in rows for test in tests_of(row)}):
        status, output = tree.make(test)
        if status != 0:
            sys.exit(f"cannot build {test}:\n{output[-2000:]}")
        status, output = tree.test(test)
        if status != 0:
            sys.exit(f"{test} fails without any mutation:\n{output}")


def rows_of(source):
    return read_mutations(os.path.join(source, "tests", "mutations.txt"))


def check(source):
    missed = 0
    for row in rows_of(source):
        with open(os.path.join(source, row.file), encoding="utf-8") as text:
            why = stale(row, text.read())
        if why:
            missed += 1
            print(f"tests/mutations.txt:{row.line}: {row.text()}\n    {why}")
    return missed > 0


def check_build_folder(source, build):
    """Reject a BUILD inside the source that git does not ignore: it is probably a misplaced WORD."""
    inside = os.path.commonpath([source, build]) == source
    if inside and subprocess.run(["git", "-C", source, "check-ignore", "-q", build + "/"],
                                 check=False).returncode == 1:
        sys.exit(f"cannot build in {build}: git does not ignore this folder of the source; "
                 "BUILD comes before the words")


def main(source, build, *words):
    check_build_folder(source, build)
    rows = rows_of(source)
    rows = [row for row in rows if not words or any(word in row.text() for word in words)]
    tree = Tree(source, build)
    check_unmutated(tree, rows)
    missed = 0
    for row in rows:
        started = time.monotonic()
        killed, how = verdict(tree, row)
        missed += not killed
        print(f"{'killed' if killed else 'MISSED'} {time.monotonic() - started:5.1f} s  "
              f"{row.text()}\n    {how}", flush=True)
    print(f"{len(rows) - missed} of {len(rows)} mutations killed")
    return missed > 0


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    if len(sys.argv) == 2:
        sys.exit(check(sys.argv[1]))
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # also reverts the mutation
    sys.exit(main(*map(os.path.abspath, sys.argv[1:3]), *sys.argv[3:]))
