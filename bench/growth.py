#!/usr/bin/env python3
"""Measure how time and memory of a training step grow with tokens, layers, width and vocabulary.

    bench/growth.py [--quick] [--repeats N] BUILD FOLDER

Varies each of the four alone, starting from one small Llama, with
`BUILD/bench/bench_train shape ...`, fp32 and bf16, all weights trained. Every shape runs N times
(3) in rounds over all shapes, so that a temporary disturbance does not affect one shape only; a
time is the median of the runs' medians. Do not run it under `chrt -f`: both threads may stay on one
core. --quick: two values of each, once.

It writes growth-{tokens,layers,width,vocabulary}.svg to FOLDER and prints the table of
bench/results/growth.md.
"""
import argparse
import datetime
import os
import platform
import statistics
import subprocess
import sys
from html import escape

# bench_train's arguments; the inner width is 8/3 of the width, with 6 heads and one sequence
BASE = {"layers": 6, "width": 288, "vocabulary": 8000, "tokens": 512}
VARIED = {
    "tokens": (256, 512, 1024, 1536, 2048),
    "layers": (2, 4, 6, 9, 12),
    "width": (192, 288, 384, 480, 576),
    "vocabulary": (2000, 8000, 16000, 24000, 32000),
}
AXES = {
    "tokens": "tokens per step, in one sequence",
    "layers": "layers",
    "width": "width (C), 6 heads",
    "vocabulary": "vocabulary, tokens",
}
FORMATS = ("fp32", "bf16")
HEADS = 6


# ---- measuring ----

def shape_words(shape):
    return [str(n) for n in (shape["layers"], shape["width"], HEADS, shape["width"] * 8 // 3,
                             shape["vocabulary"], 1, shape["tokens"])]


def number(cell):
    """Return 71 for '71 %'."""
    return float(cell.rstrip(" %"))


def measure(build, shape, form):
    """Return one row of bench_train, by column header."""
    done = subprocess.run([f"{build}/bench/bench_train", "shape", *shape_words(shape),
                           "full", form], stdout=subprocess.PIPE, text=True)
    rows = [[cell.strip() for cell in line.strip("| ").split("|")]
            for line in done.stdout.splitlines() if line.startswith("|")]
    if done.returncode != 0 or len(rows) != 3:
        sys.exit(f"growth: bench_train cannot run {shape} in {form}")
    row = dict(zip(rows[0], rows[2]))
    return {"ms": number(row["ms per step"]), "peak": number(row["peak MiB"]),
            "planned": number(row["planned MiB"]), "gflop": number(row["GFLOP per step"]),
            "rate": number(row["matmul rate, GFLOP/s"]), "matmuls": number(row["time in matmuls"])}


def points_of(varied):
    """Return every measured shape once; the base is in all four plots."""
    shapes = [dict(BASE, **{what: value}) for what, values in varied.items() for value in values]
    unique = {tuple(shape_words(shape)): shape for shape in [BASE, *shapes]}
    return [(shape, form) for shape in unique.values() for form in FORMATS]


def measure_all(build, varied, repeats):
    """Return {(arguments of a shape, format): medians of its runs}, and matmul rates by format."""
    runs = {}
    points = points_of(varied)
    for repeat in range(repeats):
        for i, (shape, form) in enumerate(points):
            print(f"\rround {repeat + 1} of {repeats}, {i + 1} of {len(points)} ", end="",
                  file=sys.stderr, flush=True)
            key = (tuple(shape_words(shape)), form)
            runs.setdefault(key, []).append(measure(build, shape, form))
    print(file=sys.stderr)
    found = {key: {what: statistics.median(run[what] for run in of) for what in of[0]}
             for key, of in runs.items()}
    rates = {form: statistics.median(run["rate"] for key, of in runs.items() for run in of
                                     if key[1] == form) for form in FORMATS}
    return found, rates


def series(found, what, values, form):
    return [dict(found[tuple(shape_words(dict(BASE, **{what: value}))), form], x=value)
            for value in values]


# ---- prediction ----

def reached(found, form):
    """Return GFLOP/s of the base shape, from which all predicted times follow."""
    base = found[tuple(shape_words(BASE)), form]
    return base["gflop"] / base["ms"] * 1e3


def predicted_ms(point, found, form):
    """Return the time of the step's FLOPs at that rate."""
    return point["gflop"] / reached(found, form) * 1e3


# ---- drawing ----

WIDTH, HEIGHT = 860, 408
PANEL_WIDTH, PANEL_TOP, PANEL_HEIGHT = 334, 84, 212
PANEL_LEFT = (70, 500)
NOTES_LEFT, NOTES_TOP, NOTE = 22, 364, 15  # below the axes; height of a line
STYLE = """
    text { font: 13px system-ui, sans-serif; fill: #1f2328; }
    .title { font-weight: 600; font-size: 14px; }
    .note { font-size: 11.5px; fill: #59636e; }
    .paper { fill: #ffffff; }
    .grid { stroke: #d9dee3; } .axis { stroke: #7d8590; }
    .line { fill: none; stroke-width: 1.75; }
    .fp32 { stroke: #0a62c9; } .bf16 { stroke: #b8480a; }
    circle.fp32 { fill: #0a62c9; } rect.bf16 { fill: #b8480a; }
    @media (prefers-color-scheme: dark) {
      text { fill: #e6edf3; } .note { fill: #9aa4ae; }
      .paper { fill: #0d1117; }
      .grid { stroke: #2b323b; } .axis { stroke: #7d8590; }
      .fp32 { stroke: #6cb1ff; } .bf16 { stroke: #ffa15c; }
      circle.fp32 { fill: #6cb1ff; } rect.bf16 { fill: #ffa15c; }
    }"""


def nice_step(most):
    """Return a step that divides 0 to most into at most 6: 1, 2, 2.5 or 5 times a power of ten."""
    power = 10.0 ** -3
    while True:
        for digit in (1, 2, 2.5, 5):
            if most / (digit * power) <= 6:
                return digit * power
        power *= 10


def text(x, y, words, anchor="start", kind="", turned=False):
    named = f' class="{kind}"' if kind else ""
    turn = f' transform="rotate(-90 {x:.0f} {y:.0f})"' if turned else ""
    return (f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"'
            f'{named}{turn}>{escape(words)}</text>')


def mark(x, y, form):
    if form == "fp32":
        return f'<circle class="fp32" cx="{x:.1f}" cy="{y:.1f}" r="3.8"/>'
    return f'<rect class="bf16" x="{x - 3.6:.1f}" y="{y - 3.6:.1f}" width="7.2" height="7.2"/>'


def path(points, form):
    points = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    return f'<polyline class="line {form}" points="{points}"/>'


class Panel:
    """A pair of axes from 0; `reach`: the largest x and y."""

    def __init__(self, left, reach):
        self.left = left
        self.steps = [nice_step(most) for most in reach]
        self.reach = [reach[0] * 1.04, -(-reach[1] // self.steps[1]) * self.steps[1]]

    def at(self, x, y):
        return (self.left + x / self.reach[0] * PANEL_WIDTH,
                PANEL_TOP + (1 - y / self.reach[1]) * PANEL_HEIGHT)

    def ticks(self, axis):
        count = int(self.reach[axis] / self.steps[axis] + 1e-9)
        return [i * self.steps[axis] for i in range(count + 1)]

    def axes(self, title, x_title, y_title):
        bottom, right = PANEL_TOP + PANEL_HEIGHT, self.left + PANEL_WIDTH
        parts = [text(self.left, PANEL_TOP - 16, title, kind="title")]
        for value in self.ticks(1):
            y, kind = self.at(0, value)[1], "grid" if value else "axis"
            parts += [f'<path class="{kind}" d="M{self.left} {y:.1f}H{right}"/>',
                      text(self.left - 8, y + 4.5, f"{value:g}", "end")]
        for value in self.ticks(0):
            x = self.at(value, 0)[0]
            parts += [f'<path class="axis" d="M{x:.1f} {bottom}v5"/>',
                      text(x, bottom + 20, f"{value:g}", "middle")]
        return parts + [text(self.left + PANEL_WIDTH / 2, bottom + 41, x_title, "middle"),
                        text(self.left - 52, PANEL_TOP + PANEL_HEIGHT / 2, y_title, "middle",
                             turned=True)]

    def draw(self, points, lines):
        """points, lines: {format: [(x, y), ...]}; lines are drawn below points."""
        parts = [path([self.at(*point) for point in points], form)
                 for form, points in lines.items()]
        return parts + [mark(*self.at(*point), form)
                        for form, points in points.items() for point in points]


def key():
    """Draw the legend of both panels."""
    left = PANEL_LEFT[0]
    return [mark(left + 4, 28, "fp32"), text(left + 16, 32.5, "fp32, measured"),
            mark(left + 144, 28, "bf16"), text(left + 156, 32.5, "bf16, measured"),
            path([(left + 276, 25), (left + 304, 25)], "fp32"),
            path([(left + 276, 31), (left + 304, 31)], "bf16"),
            text(left + 314, 32.5, "predicted time, planned memory")]


def reach(values, *groups):
    return max(values), max(y for group in groups for points in group.values() for _, y in points)


def plot(what, values, found, notes):
    time, predicted, peak, planned = {}, {}, {}, {}
    for form in FORMATS:
        points = series(found, what, values, form)
        time[form] = [(p["x"], p["ms"]) for p in points]
        predicted[form] = [(p["x"], predicted_ms(p, found, form)) for p in points]
        peak[form] = [(p["x"], p["peak"]) for p in points]
        planned[form] = [(p["x"], p["planned"]) for p in points]
    left = Panel(PANEL_LEFT[0], reach(values, time, predicted))
    right = Panel(PANEL_LEFT[1], reach(values, peak, planned))
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
        f'width="{WIDTH}" height="{HEIGHT}" role="img" aria-labeledby="title about">',
        f'<title id="title">Time and memory of a training step by {what}</title>',
        f'<desc id="about">{escape(" ".join(notes))}</desc>',
        f"<style>{STYLE}\n  </style>",
        f'<rect class="paper" width="{WIDTH}" height="{HEIGHT}" rx="6"/>',
        *key(),
        *left.axes("Time of a step", AXES[what], "milliseconds"),
        *left.draw(time, predicted),
        *right.axes("Memory of the process at its peak", AXES[what], "MiB"),
        *right.draw(peak, planned),
        *(text(NOTES_LEFT, NOTES_TOP + NOTE * i, words, kind="note")
          for i, words in enumerate(notes)),
    ]
    return "\n  ".join(parts) + "\n</svg>\n"


# ---- output ----

def processor():
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            name = next(line.split(":", 1)[1].strip() for line in file
                        if line.startswith("model name"))
    except (OSError, StopIteration):
        name = platform.machine()
    cores = len(os.sched_getaffinity(0))
    return f"{cores} core{'s' if cores > 1 else ''} of {name}"


def commit():
    """Return the commit of this script's tree, with a + if it has changes."""
    here = os.path.dirname(os.path.abspath(__file__))

    def git(*words):
        return subprocess.run(["git", "-C", here, *words], stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL, text=True, check=True).stdout.strip()
    try:
        changed = git("status", "--porcelain", "--untracked-files=no")
        return git("rev-parse", "--short", "HEAD") + ("+" if changed else "")
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def origin(repeats):
    date = datetime.date.today().isoformat()
    how = f"{repeats} run{'s' if repeats > 1 else ''} per shape, in rounds"
    return f"{date}, commit {commit()}, {processor()}; {how}"


def notes_of(what, found, rates, where):
    others = ", ".join(f"{name} {value}" for name, value in BASE.items() if name != what)
    share = " and ".join(f"{100 * reached(found, form) / rates[form]:.0f} % in {form}"
                         for form in FORMATS)
    return [f"A Llama, all weights trained; {others}.  Planned: the block of memory as laid "
            "out in advance.",
            "Predicted: the FLOPs of the step at the share of the machine's matmul rate that "
            f"is reached at {what} {BASE[what]}, {share}.",
            f"Measured {where}."]


def print_table(found, rates, varied, where):
    print(f"Measured {where}. One large matmul: "
          f"{', '.join(f'{rates[form]:.0f} GFLOP/s in {form}' for form in FORMATS)}.\n")
    print("| varied | format | GFLOP per step | ms per step | predicted, ms "
          "| share of the matmul rate | time in matmuls | planned MiB | peak MiB |")
    print("|---|---|---|---|---|---|---|---|---|")
    for what, values in varied.items():
        for form in FORMATS:
            for p in series(found, what, values, form):
                print(f"| {what} {p['x']} | {form} | {p['gflop']:.1f} | {p['ms']:.1f} "
                      f"| {predicted_ms(p, found, form):.1f} "
                      f"| {100e3 * p['gflop'] / p['ms'] / rates[form]:.0f} % "
                      f"| {p['matmuls']:.0f} % | {p['planned']:.0f} | {p['peak']:.0f} |")


def main():
    words = argparse.ArgumentParser(usage=__doc__.split("\n\n")[1].strip())
    words.add_argument("--quick", action="store_true")
    words.add_argument("--repeats", type=int, default=3)
    words.add_argument("build")
    words.add_argument("folder")
    words = words.parse_args()
    repeats = 1 if words.quick else max(1, words.repeats)
    varied = {what: values[::3] if words.quick else values for what, values in VARIED.items()}
    if not os.path.isdir(words.folder):
        sys.exit(f"growth: cannot find the folder {words.folder}")
    found, rates = measure_all(words.build, varied, repeats)
    where = origin(repeats)
    for what, values in varied.items():
        with open(f"{words.folder}/growth-{what}.svg", "w", encoding="utf-8") as file:
            file.write(plot(what, values, found, notes_of(what, found, rates, where)))
    print_table(found, rates, varied, where)


if __name__ == "__main__":
    main()
