"""Plots of bench/scale.py, in the style of bench/growth.py: step time and efficiency against the
number of GPUs, both axes logarithmic but that of the efficiency."""
import math
from html import escape

WIDTH, HEIGHT = 860, 400
PANEL_WIDTH, PANEL_TOP, PANEL_HEIGHT = 334, 84, 232
PANEL_LEFT = (70, 500)
COLORS = {"1B": "one", "8B": "eight", "70B": "seventy"}
STYLE = """
    text { font: 13px system-ui, sans-serif; fill: #1f2328; }
    .title { font-weight: 600; font-size: 14px; }
    .note { font-size: 11.5px; fill: #59636e; }
    .paper { fill: #ffffff; }
    .grid { stroke: #d9dee3; } .axis { stroke: #7d8590; }
    .line { fill: none; stroke-width: 1.75; }
    .band { opacity: 0.18; stroke: none; }
    .one { stroke: #0a62c9; } .eight { stroke: #b8480a; } .seventy { stroke: #1a7f37; }
    .band.one { fill: #0a62c9; } .band.eight { fill: #b8480a; } .band.seventy { fill: #1a7f37; }
    .dashed { stroke-dasharray: 6 4; }
    @media (prefers-color-scheme: dark) {
      text { fill: #e6edf3; } .note { fill: #9aa4ae; }
      .paper { fill: #0d1117; }
      .grid { stroke: #2b323b; } .axis { stroke: #7d8590; }
      .one { stroke: #6cb1ff; } .eight { stroke: #ffa15c; } .seventy { stroke: #57c46e; }
    }"""


def text(x, y, words, anchor="start", kind=""):
    return (f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" class="{kind}">'
            f'{escape(words)}</text>')


class Panel:
    def __init__(self, left, title, counts, low, high, logarithmic):
        self.left, self.title, self.counts = left, title, counts
        self.low, self.high, self.logarithmic = low, high, logarithmic

    def at(self, count, value):
        x = math.log(count / self.counts[0]) / math.log(self.counts[-1] / self.counts[0])
        if self.logarithmic:
            y = math.log(value / self.low) / math.log(self.high / self.low)
        else:
            y = (value - self.low) / (self.high - self.low)
        return (self.left + x * PANEL_WIDTH, PANEL_TOP + (1 - y) * PANEL_HEIGHT)

    def ticks(self):
        if not self.logarithmic:
            return [0, 20, 40, 60, 80, 100]
        out, power = [], self.low
        while power <= self.high * 1.001:
            out.append(power)
            power *= 10
        return out

    def axes(self):
        bottom = PANEL_TOP + PANEL_HEIGHT
        parts = [text(self.left, PANEL_TOP - 16, self.title, kind="title")]
        for value in self.ticks():
            y = self.at(self.counts[0], value)[1]
            parts += [f'<path class="grid" d="M{self.left} {y:.1f}h{PANEL_WIDTH}"/>',
                      text(self.left - 8, y + 4.5, f"{value:g}", "end")]
        for count in self.counts:
            x = self.at(count, self.low)[0]
            parts += [f'<path class="axis" d="M{x:.1f} {bottom}v5"/>',
                      text(x, bottom + 20, str(count), "middle")]
        return parts + [text(self.left + PANEL_WIDTH / 2, bottom + 41, "GPUs", "middle")]

    def draw(self, lines, first):
        parts = []
        for (model, stage), points in lines.items():
            kind = COLORS[model] + (" dashed" if stage == 3 else "")
            one = [self.at(p[0], p[first]) for p in points]
            other = [self.at(p[0], p[first + 1]) for p in points]
            area = " ".join(f"{x:.1f},{y:.1f}" for x, y in one + other[::-1])
            path = " ".join(f"{x:.1f},{y:.1f}" for x, y in one)
            parts += [f'<polygon class="band {COLORS[model]}" points="{area}"/>',
                      f'<polyline class="line {kind}" points="{path}"/>']
        return parts


def plot(name, counts, lines):
    """lines: {(model, stage): [(GPUs, seconds at best, at worst, efficiency at best, at
    worst)]}."""
    times = [value for points in lines.values() for p in points for value in p[1:3]]
    low = 10.0 ** math.floor(math.log10(min(times)))
    high = 10.0 ** math.ceil(math.log10(max(times)))
    left = Panel(PANEL_LEFT[0], "Step, seconds", counts, low, high, True)
    right = Panel(PANEL_LEFT[1], "Share of the step that computes, %", counts, 0, 100, False)
    key = []
    for i, (model, stage) in enumerate(lines):
        x = PANEL_LEFT[0] + 128 * i
        kind = COLORS[model] + (" dashed" if stage == 3 else "")
        key += [f'<path class="line {kind}" d="M{x} 28h26"/>',
                text(x + 32, 32.5, f"{model}, stage {stage}")]
    note = ("Model, not measured. One sequence of 2048 tokens on each GPU, all weights trained, "
            "bf16, checkpointing. Area: up to calls that do not overlap in the ring.")
    return "\n  ".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
        f'width="{WIDTH}" height="{HEIGHT}" role="img" aria-labeledby="title about">',
        f'<title id="title">{escape(name)}: step time and efficiency by GPUs</title>',
        f'<desc id="about">{escape(note)}</desc>', f"<style>{STYLE}\n  </style>",
        f'<rect class="paper" width="{WIDTH}" height="{HEIGHT}" rx="6"/>', *key,
        *left.axes(), *left.draw(lines, 1), *right.axes(), *right.draw(lines, 3),
        text(22, HEIGHT - 14, f"{name}. {note}", kind="note")]) + "\n</svg>\n"
