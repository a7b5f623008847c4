"""Is a report well-formed?  Read by Python's parser: every element is closed where it must
be, ids are unique, references to them hold, nothing is loaded, no script but the page's own.
Usage: page.py FILE [WORD...]; the words must be in its text.
"""
import html.parser
import sys

EMPTY = {"meta", "link", "path"}
LOADING = {"src", "srcset", "data", "action", "poster", "background", "xlink:href"}


class Page(html.parser.HTMLParser):
    def __init__(self):
        super().__init__(convert_charrefs=True)
        self.open, self.ids, self.wanted, self.wrong, self.text = [], set(), set(), [], ""
        self.scripts, self.headings = 0, []

    def handle_starttag(self, tag, attributes):
        names = [name for name, _ in attributes]
        if len(names) != len(set(names)):
            self.wrong.append(f"<{tag}> has an attribute twice")
        for name, value in attributes:
            if name == "id":
                if value in self.ids:
                    self.wrong.append(f"id {value} twice")
                self.ids.add(value)
            if name.startswith("aria-labelledby"):
                self.wanted.update(value.split())
            if name in LOADING or name.startswith("on"):
                self.wrong.append(f"<{tag} {name}={value}>")
            if name == "href" and tag != "link":
                self.wanted.add(value.removeprefix("#"))
        self.scripts += tag == "script"
        if tag in ("h1", "h2", "h3"):
            self.headings.append(int(tag[1]))
        if tag not in EMPTY:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.handle_starttag(tag, attributes)

    def handle_endtag(self, tag):
        if not self.open or self.open[-1] != tag:
            self.wrong.append(f"</{tag}> in {self.open[-3:]} at {self.getpos()}")
        else:
            self.open.pop()

    def handle_data(self, data):
        if self.open and self.open[-1] not in ("style", "script"):
            self.text += data


page = Page()
page.feed(open(sys.argv[1], encoding="utf-8", newline="").read())
page.close()
page.wrong += [f"<{tag}> is not closed" for tag in page.open]
page.wrong += [f"nothing has the id {name}" for name in page.wanted - page.ids]
page.wrong += [f"{word!r} is not in it" for word in sys.argv[2:] if word not in page.text]
if page.scripts != 1:
    page.wrong.append(f"{page.scripts} scripts")
if page.headings[0] != 1 or any(b > a + 1 for a, b in zip(page.headings, page.headings[1:])):
    page.wrong.append(f"headings {page.headings}")
for wrong in page.wrong:
    print(wrong)
sys.exit(bool(page.wrong))
