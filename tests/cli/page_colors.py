"""Print the colors that a report defines for light and dark mode, and write a copy of the report that
shows the colors of the browser in its title.  The copy has no Content-Security-Policy, which would
block the added script.
Usage: page_colors.py FILE COPY
"""
import re
import sys

PROBE = """<script>
const style = getComputedStyle(document.body);
document.title = (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light") +
    ": " + style.backgroundColor + ", " + style.color;
</script>"""


def rgb(color):
    digits = color[1:] if len(color) == 7 else "".join(2 * digit for digit in color[1:])
    return "rgb(%d, %d, %d)" % tuple(bytes.fromhex(digits))


with open(sys.argv[1], encoding="utf-8", newline="") as file:
    page = file.read()
style = page[page.index("<style>"):page.index("</style>")]
light, dark = style.split("@media (prefers-color-scheme:dark)", 1)
colors = [[rgb(re.search("--%s:(#[0-9a-f]+)" % name, part)[1]) for name in ("bg", "fg")]
        for part in (light, dark)]
if any(bg == fg for bg, fg in colors) or any(a == b for a, b in zip(*colors)):
    sys.exit("colors are the same: %s" % colors)
for scheme, both in zip(("light", "dark"), colors):
    print("%s: %s" % (scheme, ", ".join(both)))
policy = re.search('<meta http-equiv="Content-Security-Policy"[^>]*>', page)[0]
with open(sys.argv[2], "w", encoding="utf-8", newline="") as file:
    file.write(page.replace(policy, "", 1).replace("</body>", PROBE + "</body>"))
