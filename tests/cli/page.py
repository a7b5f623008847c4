"""Check a report with Python's HTML parser: every element is closed properly, ids are unique,
references to ids resolve, the page loads nothing and has only its own script.
Usage: page.py [--links] FILE [WORD...]; the text must contain the words.  With --links, it is a page
without a script that links to other files by relative names.
"""
import html.parser
import sys

EMPTY = {"meta", "link", "path"}
LOADING = {"src", "srcset", "data", "action", "poster", "background", "xlink:href"}


class Page(html.parser.HTMLParser):
    def __init__(self):
        super().__init__(convert_charrefs=True)
        self.open, self.ids, self.references, self.errors, self.text = [], set(), set(), [], ""
        self.scripts, self.headings = 0, []

    def handle_starttag(self, tag, attributes):
        names = [name for name, _ in attributes]
        if len(names) != len(set(names)):
            self.errors.append(f"<{tag}> has a duplicate attribute")
        for name, value in attributes:
            if name == "id":
                if value in self.ids:
                    self.errors.append(f"duplicate id {value}")
                self.ids.add(value)
            if name.startswith("aria-labeledby"):
                self.references.update(value.split())
            if name in LOADING or name.startswith("on"):
                self.errors.append(f"<{tag} {name}={value}>")
            if name == "href" and tag != "link":
                if not links or value.startswith("#"):
                    self.references.add(value.removeprefix("#"))
                elif ":" in value or value.startswith("/"):
                    self.errors.append(f"<{tag} {name}={value}>")
        self.scripts += tag == "script"
        if tag in ("h1", "h2", "h3"):
            self.headings.append(int(tag[1]))
        if tag not in EMPTY:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.handle_starttag(tag, attributes)

    def handle_endtag(self, tag):
        if not self.open or self.open[-1] != tag:
            self.errors.append(f"</{tag}> in {self.open[-3:]} at {self.getpos()}")
        else:
            self.open.pop()

    def handle_data(self, data):
        if self.open and self.open[-1] not in ("style", "script"):
            self.text += data


arguments = sys.argv[1:]
links = arguments[0] == "--links"
arguments = arguments[links:]
page = Page()
page.feed(open(arguments[0], encoding="utf-8", newline="").read())
page.close()
page.errors += [f"<{tag}> is not closed" for tag in page.open]
page.errors += [f"no element has the id {name}" for name in page.references - page.ids]
page.errors += [f"the text does not contain {word!r}" for word in arguments[1:] if word not in page.text]
if page.scripts != (0 if links else 1):
    page.errors.append(f"{page.scripts} scripts")
if page.headings[0] != 1 or any(b > a + 1 for a, b in zip(page.headings, page.headings[1:])):
    page.errors.append(f"headings {page.headings}")
for error in page.errors:
    print(error)
sys.exit(bool(page.errors))
