"""What colours should a report have, by day and by night?  Its style says: the second line of
the two is that of a dark scheme.  A copy of it tells in its title what a browser makes of them;
its policy, which lets no other script run, is taken out.
Usage: page_colours.py FILE COPY
"""
import re
import sys

PROBE = """<script>
const style = getComputedStyle(document.body);
document.title = (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light") +
    ": " + style.backgroundColor + ", " + style.color;
</script>"""


def rgb(colour):
    digits = colour[1:] if len(colour) == 7 else "".join(2 * digit for digit in colour[1:])
    return "rgb(%d, %d, %d)" % tuple(bytes.fromhex(digits))


with open(sys.argv[1], encoding="utf-8", newline="") as file:
    page = file.read()
style = page[page.index("<style>"):page.index("</style>")]
day, night = style.split("@media (prefers-color-scheme:dark)", 1)
said = [[rgb(re.search("--%s:(#[0-9a-f]+)" % name, part)[1]) for name in ("bg", "fg")]
        for part in (day, night)]
if any(bg == fg for bg, fg in said) or any(a == b for a, b in zip(*said)):
    sys.exit("colours are the same: %s" % said)
for scheme, both in zip(("light", "dark"), said):
    print("%s: %s" % (scheme, ", ".join(both)))
policy = re.search('<meta http-equiv="Content-Security-Policy"[^>]*>', page)[0]
with open(sys.argv[2], "w", encoding="utf-8", newline="") as file:
    file.write(page.replace(policy, "", 1).replace("</body>", PROBE + "</body>"))
