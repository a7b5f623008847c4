"""Jinja with the settings of transformers for chat templates (transformers/utils/chat_template_utils.py),
and the templates of a folder."""
import datetime
import json
import os

import jinja2
import jinja2.ext
import jinja2.sandbox

# Texts of our errors for features that train/jinja/jinja.h excludes or that no conversation needs.
LIMITS = ("there is no", "is not supported", "64 bits", "too large", "too long", "too deep", "too many",
          "cannot be printed", "'LoopContext' object is not iterable", "inside of a macro or a block")


def is_limit(error):
    return any(limit in error for limit in LIMITS)


def is_marked(text):
    """Return whether the text shows a value that `escape` has marked, which is part of autoescape."""
    return "Markup(" in text


def is_early(error):
    """Return whether Jinja reports the error before rendering; ours reports it during rendering."""
    return "No test named" in error or "No filter named" in error


def raise_exception(message):
    raise jinja2.exceptions.TemplateError(message)


def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators,
                      sort_keys=sort_keys)


class Generation(jinja2.ext.Extension):
    """{% generation %}: record the position of its text, in bytes of the whole text."""
    tags = {"generation"}
    pieces, spans = [], []  # of the current rendering

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("note"), [], [], body).set_lineno(line)

    def note(self, caller):
        text = caller()
        self.spans.append([sum(len(piece.encode()) for piece in self.pieces), len(text.encode())])
        return text


def environment():
    env = jinja2.sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols])
    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = raise_exception
    # ours returns a fixed date: train/jinja/jinja.h
    env.globals["strftime_now"] = datetime.datetime(2024, 7, 26).strftime
    return env


ENVIRONMENT = environment()


def render(source, variables):
    Generation.pieces.clear()
    Generation.spans.clear()
    try:
        for piece in ENVIRONMENT.from_string(source).generate(**variables):
            Generation.pieces.append(piece)
        return {"text": "".join(Generation.pieces), "spans": list(Generation.spans)}
    except Exception as error:  # Python raises various exceptions for a wrong type
        return {"error": f"{type(error).__name__}: {error}"}


def templates_in(folder):
    """Return the texts of all NAME.jinja files in a folder and below."""
    found = []
    for where, _, names in os.walk(folder):
        for name in names:
            if name.endswith(".jinja"):
                with open(os.path.join(where, name), encoding="utf-8") as f:
                    found.append(f.read())
    return sorted(found)


def templates_of(folder):
    """Return the chat templates of a tokenizer folder."""
    try:
        with open(os.path.join(folder, "tokenizer_config.json"), encoding="utf-8") as f:
            template = json.load(f).get("chat_template")
    except OSError:
        return []
    if isinstance(template, str):
        return [template]
    return [t["template"] for t in template or []]
