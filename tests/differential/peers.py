"""Jinja as transformers sets it up for chat templates (transformers/utils/chat_template_utils.py),
and the templates that a tokenizer's folder has."""
import json
import os

import jinja2
import jinja2.ext
import jinja2.sandbox

# What our errors say of what is not there (train/jinja.h), or no conversation needs.
LIMITS = ("there is no", "is not supported", "64 bits", "too large", "too long", "too deep", "too many",
          "cannot be printed", "'LoopContext' object is not iterable")


def is_limit(error):
    return any(limit in error for limit in LIMITS)


def is_marked(text):
    """Text that `escape` has marked, shown inside of something: the mark, too, is autoescape's."""
    return "Markup(" in text


def is_early(error):
    """Told before anything is rendered; ours tells it where it is reached."""
    return "No test named" in error or "No filter named" in error


def raise_exception(message):
    raise jinja2.exceptions.TemplateError(message)


def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators,
                      sort_keys=sort_keys)


def environment():
    env = jinja2.sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[jinja2.ext.loopcontrols])
    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = raise_exception
    return env


ENVIRONMENT = environment()


def render(source, variables):
    try:
        return {"text": ENVIRONMENT.from_string(source).render(**variables)}
    except Exception as error:  # whatever Python makes of a wrong type
        return {"error": f"{type(error).__name__}: {error}"}


def templates_of(folder):
    try:
        with open(os.path.join(folder, "tokenizer_config.json"), encoding="utf-8") as f:
            template = json.load(f).get("chat_template")
    except OSError:
        return []
    if isinstance(template, str):
        return [template]
    return [t["template"] for t in template or []]
