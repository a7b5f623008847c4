"""Published chat templates on conversations with thoughts, calls of functions and empty texts: the
tokens and the training mask of a record, compared with transformers' apply_chat_template."""
import datetime
import json
import os
import re
import tempfile

import tokenizers
import transformers
from transformers.utils import chat_template_utils

import published

transformers.logging.set_verbosity_error()


class FixedDate(datetime.datetime):
    """Our templates see a fixed date: train/jinja/jinja.h."""
    @classmethod
    def now(cls, tz=None):
        return cls(2024, 7, 26)


chat_template_utils.datetime = FixedDate

ADD = {"type": "function", "function": {
    "name": "add", "description": "Adds two numbers.", "parameters": {
        "type": "object", "required": ["a", "b"],
        "properties": {"a": {"type": "number", "description": "One."},
                       "b": {"type": "number", "description": "The other."}}}}}
CLOCK = {"type": "function", "function": {
    "name": "clock", "description": "Returns <the> time.", "parameters": {"type": "object", "properties": {}}}}


def system(text):
    return {"role": "system", "content": text}


def user(text):
    return {"role": "user", "content": text}


def answer(text, **keys):
    return {"role": "assistant", "content": text, **keys}


def call(name="add", arguments=None, ident="call_0001"):
    return {"id": ident, "type": "function",
            "function": {"name": name, "arguments": {"a": 1, "b": 2.5} if arguments is None else arguments}}


def result(text, name="add", ident="call_0001"):
    return {"role": "tool", "name": name, "tool_call_id": ident, "content": text}


SHORT = [user("2+2?"), answer("4")]
LONG = [system("Be brief."), user("Hi <there>"), answer("Hello, \"you\"."), user("2+2?"),
        answer("It is 4.\n"), user("Sure?\n"), answer(" Yes é✓ ")]
CALLS = [user("1+2.5?"), answer("Let me add.", tool_calls=[call()]), result("3.5"), answer("It is 3.5.")]

CONVERSATIONS = {
    "short": {"messages": SHORT},
    "long": {"messages": LONG},
    "reasoning_content": {"messages": [user("2+2?"), answer("4", reasoning_content="Two and two.")]},
    "thinking": {"messages": [user("2+2?"), answer("4", thinking="Two and two.")]},
    "reasoning": {"messages": [user("2+2?"), answer("4", reasoning="Two and two.")]},
    "reasoning in all turns": {"messages": [
        user("a"), answer("b", reasoning_content="c\nd"), user("e"), answer("f", reasoning_content="g")]},
    "thoughts in the text": {"messages": [user("2+2?"), answer("<think>\nTwo.\n</think>\n\n4")]},
    "calls with text": {"messages": CALLS, "tools": [ADD]},
    "calls with null": {"messages": [CALLS[0], {**CALLS[1], "content": None}, *CALLS[2:]], "tools": [ADD]},
    "calls with an empty text": {"messages": [CALLS[0], {**CALLS[1], "content": ""}, *CALLS[2:]], "tools": [ADD]},
    "calls without content": {"messages": [
        CALLS[0], {k: v for k, v in CALLS[1].items() if k != "content"}, *CALLS[2:]], "tools": [ADD]},
    "arguments as text": {"messages": [
        CALLS[0], answer("", tool_calls=[call(arguments='{"a": 1, "b": 2.5}')]), *CALLS[2:]], "tools": [ADD]},
    "calls with reasoning": {"messages": [
        CALLS[0], answer("", reasoning_content="Add them.", tool_calls=[call()]), result("3.5"),
        answer("3.5", reasoning_content="Done.")], "tools": [ADD, CLOCK]},
    "two calls": {"messages": [
        system("Be brief."), user("1+2.5 and the time?"),
        answer(None, tool_calls=[call(), call("clock", {}, "call_0002")]), result("3.5"),
        result("noon", "clock", "call_0002"), answer("3.5 at noon."), user("Thanks."), answer("Sure.")],
        "tools": [ADD, CLOCK]},
    "a call as the answer": {"messages": [user("1+2.5?"), answer(None, tool_calls=[call()])], "tools": [ADD]},
    "tools without a call": {"messages": LONG, "tools": [ADD, CLOCK]},
    "an empty answer": {"messages": [user("Say nothing."), answer("")]},
    "a null answer": {"messages": [user("Say nothing."), answer(None)]},
    "parts of text": {"messages": [
        {"role": "user", "content": [{"type": "text", "text": "2+"}, {"type": "text", "text": "2?"}]},
        {"role": "assistant", "content": [{"type": "text", "text": "4"}]}]},
    "no thinking": {"messages": SHORT, "chat_template_kwargs": {"enable_thinking": False}},
    "effort": {"messages": SHORT, "chat_template_kwargs": {"reasoning_effort": "high", "enable_thinking": True}},
    "a developer": {"messages": [{"role": "developer", "content": "Be brief."}, *SHORT]},
    "a name": {"messages": [{**user("2+2?"), "name": "ann"}, answer("4")]},
}


def make_tokenizer(folder, texts):
    """A byte-level BPE of the templates' own words, whose merges cross the borders of answers."""
    model = tokenizers.Tokenizer(tokenizers.models.BPE())
    model.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    model.decoder = tokenizers.decoders.ByteLevel()
    marks = sorted(set(re.findall(r"<\|?[a-z_]{3,24}\|?>|</s>|<s>", "".join(texts))))
    model.train_from_iterator(sorted(texts), tokenizers.trainers.BpeTrainer(
        vocab_size=4000, show_progress=False, special_tokens=["<s>", "</s>"] + marks,
        initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet()))
    model.save(os.path.join(folder, "tokenizer.json"))
    with open(os.path.join(folder, "tokenizer_config.json"), "w", encoding="utf-8") as f:
        json.dump({"bos_token": "<s>", "eos_token": "</s>", "pad_token": "</s>"}, f)
    return transformers.PreTrainedTokenizerFast(
        tokenizer_file=os.path.join(folder, "tokenizer.json"), bos_token="<s>", eos_token="</s>", pad_token="</s>")


def common(a, b):
    count = 0
    while count < min(len(a), len(b)) and a[count] == b[count]:
        count += 1
    return count


def has_marks(source):
    return re.search(r"\{%-?\s*generation\s*-?%\}", source)


class Theirs:
    """A record in transformers: its tokens, up to the last that is trained, and their mask."""

    def __init__(self, tokenizer, source, record):
        self.tokenizer, self.source = tokenizer, source
        self.messages, self.keys = record["messages"], record.get("chat_template_kwargs", {})
        self.tools = record.get("tools")

    def render(self, count, prompt=False, **how):
        return self.tokenizer.apply_chat_template(
            self.messages[:count], tools=self.tools, chat_template=self.source, add_generation_prompt=prompt,
            **how, **self.keys)

    def ids(self, count, prompt=False):
        text = self.render(count, prompt, tokenize=False)
        return self.tokenizer(text, add_special_tokens=False)["input_ids"]

    def marked(self):
        done = self.render(len(self.messages), return_dict=True, return_assistant_tokens_mask=True)
        return done["input_ids"], done["assistant_masks"]

    def between(self):
        """The rule of train/chat/chat_turns.c: an answer is what follows the prompt, if a text with
        the answer at its end, or the whole one, continues it."""
        count = len(self.messages)
        whole = self.ids(count)
        mask, at = [0] * len(whole), 0
        for i, message in enumerate(self.messages):
            if message["role"] != "assistant":
                continue
            before, last = self.ids(i, True), i + 1 == count
            start, end = common(before, whole), len(whole)
            if not last:
                after = self.ids(i + 1)
                end = common(after, whole)
            if start + 1 < len(before) or end <= start or (not last and end + 2 < len(after)):
                if last:
                    raise ValueError("cannot separate the answer from the question")
                continue
            if start < at:
                continue
            mask[start:end], at = [1] * (end - start), end
        return whole, mask

    def answer(self):
        ids, mask = self.marked() if has_marks(self.source) else self.between()
        if 1 not in mask:
            return {"ids": [], "mask": []}
        last = len(mask) - mask[::-1].index(1)
        return {"ids": ids[:last], "mask": mask[:last]}


def without_gaps(record):
    """What we try if a template fails: a text for each content that is missing, null or a list."""
    def text(content):
        return "".join(part["text"] for part in content) if isinstance(content, list) else content or ""
    return {**record, "messages": [{**m, "content": text(m.get("content"))} for m in record["messages"]]}


def answer_of(tokenizer, source, record):
    try:
        return Theirs(tokenizer, source, record).answer()
    except Exception as error:  # templates raise various exceptions
        return {"error": f"{type(error).__name__}: {error}"}


def misreads_parts(tokenizer, record, answer):
    """Return whether the template leaves a list of parts out, or writes it as a list."""
    text = tokenizer.decode(answer.get("ids", []))
    lists = [m["content"] for m in record["messages"] if isinstance(m.get("content"), list)]
    return any(p["text"] not in text or p["type"] + "'" in text or p["type"] + '"' in text
               for parts in lists for p in parts)


def compare(ours, tokenizer, folder, source, record):
    """Return None if both agree, "" if both refuse the record, else both results."""
    mine = ours.ask(folder=folder, record=record)
    theirs = answer_of(tokenizer, source, record)
    if "error" in theirs or misreads_parts(tokenizer, record, theirs):
        theirs = answer_of(tokenizer, source, without_gaps(record))
    if "error" in theirs:
        return "" if "error" in mine else (mine, theirs)
    return None if mine == theirs else (mine, theirs)


def shown(tokenizer, result):
    if "error" in result:
        return result
    text = ""
    for i, (token, trained) in enumerate(zip(result["ids"], result["mask"])):
        if i == 0 or trained != result["mask"][i - 1]:
            text += "[[" if trained else "]]" if i else ""
        text += tokenizer.decode([token])
    return text


def run(ours, cache, report):
    """Compare all; call report(subject, input, ours, theirs) for each difference."""
    templates = published.templates(cache)
    agreed = refused = 0
    if not templates:
        return None
    with tempfile.TemporaryDirectory() as folder:
        tokenizer = make_tokenizer(folder, list(templates.values()))
        for name, source in templates.items():
            with open(os.path.join(folder, "chat_template.jinja"), "w", encoding="utf-8") as f:
                f.write(source)
            for what, record in CONVERSATIONS.items():
                result = compare(ours, tokenizer, folder, source, record)
                if result:
                    report(name, what, *(shown(tokenizer, side) for side in result))
                agreed += not result
                refused += result == ""
    return (f"{len(templates)} templates x {len(CONVERSATIONS)} conversations: {agreed} agree, "
            f"{refused} of them rejected by both; transformers {transformers.__version__}")
