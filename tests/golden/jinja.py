#!/usr/bin/env python3
"""Expressions with the methods, filters and tests of Jinja, and what they are as text in the
sandbox that transformers runs chat templates in: what tests/unit/test_jinja.c holds ours against.

    python3 tests/golden/jinja.py >tests/golden/jinja.json        (with transformers 5)
"""
import itertools
import json

from transformers.utils import chat_template_utils

STRINGS = ["''", "'a'", "'a-b--A-'", "'  two  Words\\n'", "'\u00c4pfel \u00d6l'", "'x1'", "'12'",
           "'ONE two'", "'a.b c_d-e'"]

# What is called on every one of the strings.
METHODS = [
    "strip()", "strip('-a ')", "lstrip()", "lstrip('-a ')", "rstrip()", "rstrip('-a\\n')",
    "split()", "split('-')", "split('-', 1)", "split(' ')", "split(none, 1)",
    "rsplit()", "rsplit('-')", "rsplit('-', 1)", "rsplit(' ', 0)", "splitlines()",
    "splitlines(true)", "startswith('a')", "startswith('')", "startswith(('x', ' '))",
    "endswith('-')", "endswith(('\\n', '2'))", "endswith(())", "removeprefix('a')",
    "removeprefix('')", "removesuffix('-')", "removesuffix('Words\\n')", "upper()", "lower()",
    "casefold()", "title()", "capitalize()", "swapcase()", "replace('-', '+')",
    "replace('-', '', 1)", "replace('', '.')", "find('-')", "find('l')", "find('')", "rfind('-')",
    "rfind('l')", "rfind('')", "index('a')", "count('-')", "count('')", "join(['p', 'q', 'r'])",
    "join('pq')", "ljust(9)", "ljust(9, '.')", "rjust(9)", "rjust(9, '*')", "center(9)",
    "center(10, '*')", "center(2)", "partition('-')", "partition('zz')", "rpartition('-')",
    "rpartition('zz')", "isalpha()", "isdigit()", "isdecimal()", "isnumeric()", "isalnum()",
    "isspace()", "isupper()", "islower()",
]

FILTERS = [
    "upper", "lower", "title", "capitalize", "trim", "trim('-')", "string", "safe", "escape", "e",
    "length", "count", "reverse", "list", "first", "last", "int", "int(7)", "int(default=3, base=16)",
    "float", "float(0.5)", "center(12)", "replace('a', 'b')", "indent(2, true)", "default('none')",
    "default('none', true)", "tojson", "unique | list", "min", "max", "sort", "join('+')",
]

TESTS = [
    "defined", "undefined", "none", "boolean", "true", "false", "integer", "float", "number",
    "string", "mapping", "iterable", "sequence", "callable", "eq(1)", "equalto('a')", "ne(1)",
    "sameas(1)", "in([1, 'a', 2.5])",
]
VALUES = ["0", "1", "-3", "2.5", "true", "false", "none", "'a'", "''", "[]", "[1, 'a']", "(1, 2)",
          "{}", "{'a': 1}", "nothing", "range(3)"]
NUMBER_TESTS = ["odd", "even", "divisibleby(3)", "lt(2)", "lessthan(2)", "le(1)", "gt(0)",
                "greaterthan(1)", "ge(1)", "< 2", "<= 1", "> 0", ">= 1", "== 1", "!= 1"]
NUMBERS = ["0", "1", "-3", "4", "2.5", "9.0", "true"]

LISTS = ["[]", "[3, 1, 2]", "['b', 'A', 'a', 'B']", "[2.5, -1, true]", "[[2, 'x'], [1, 'y']]"]
LIST_FILTERS = [
    "min", "max", "sort", "sort(true)", "sort(case_sensitive=true)", "sort(reverse=true)",
    "min(case_sensitive=true)", "max(true)", "unique | list", "unique(true) | list", "reverse | list",
    "first", "last", "length", "join", "join('-')", "batch(2) | list", "batch(2, 0) | list",
    "slice(2) | list", "slice(2, 'x') | list", "list", "map('string') | list", "select | list",
    "reject | list", "select('string') | list", "reject('number') | list", "tojson", "sum",
    "sum(start=10)",
]

OTHERS = [
    # methods that fail, are given names, or follow one another
    "'a'.index('b')", "'abc'.center()", "'a'.split('')", "'a'.partition('')", "'a'.strip(1)",
    "'a'.upper(1)", "'a'.nothing()", "'a-b'.split(sep='-')", "'a-b'.rsplit(sep='-', maxsplit=1)",
    "'a'.ljust(3, 'xy')", "'a'.replace('a')", "'a'.replace(1, 2)", "'a'.join([1])", "'a'.find(1)",
    "'{1} {0}'.format(1, 2)", "'{} {}'.format('a', 1.5)", "'{x}'.format(x=none)", "'{}'.format()",
    # dicts, lists, tuples
    "{'a': 1}.get('a')", "{'a': 1}.get('b')", "{'a': 1}.get('b', 2)", "{'a': 1}.keys() | list",
    "{'a': 1, 'b': 2}.values() | list", "{'a': 1}.items() | list", "{'a': 1}.copy()",
    "[1, 2, 1].count(1)", "[1, 2, 1].index(2)", "[1].index(2)", "(1, 2).index(2)", "(1, 1).count(1)",
    # filters with arguments of their own
    "{'b': 1, 'a': 3, 'C': 2} | dictsort", "{'b': 1, 'a': 3} | dictsort(by='value')",
    "{'b': 1, 'a': 3, 'C': 2} | dictsort(true, reverse=true)", "{'a': 1} | items | list",
    "[{'n': 2, 'g': 'x'}, {'n': 1, 'g': 'y'}] | sort(attribute='n')",
    "[{'n': 2, 'g': 'x'}, {'n': 1, 'g': 'y'}] | sort(attribute='g,n', reverse=true)",
    "[{'n': 2}, {'n': 1}] | map(attribute='n') | list", "[{'n': 2}, {}] | map(attribute='n', default=0) | list",
    "[{'n': 2}, {'n': 1}] | sum('n')", "[{'n': 2}, {'n': 1}] | min(attribute='n')",
    "[{'n': 2}, {'n': 1}] | max(attribute='n')", "[{'n': 2}, {'n': 1}] | selectattr('n', 'gt', 1) | list",
    "[{'n': 2}, {'n': 0}] | rejectattr('n') | list", "[{'n': 2}, {'n': 2}] | unique(attribute='n') | list",
    "[{'n': 2}, {'n': 1}] | join('-', 'n')", "-3 | abs", "2.5 | abs", "true | abs", "'a' | abs",
    "2.5 | round", "3.5 | round", "2.675 | round(2)", "-2.5 | round(0, 'floor')", "2.1 | round(0, 'ceil')",
    "1234 | round(-2)", "'%s-%d' | format('a', 3)", "'%(x)s' | format(x=1)", "'%5.2f|%-4d|%+d' | format(1.005, 7, 7)",
    "'%e %g' | format(12345.678, 0.0001)", "'<a href=\"x\">&</a>' | escape", "('a' | attr('upper'))()",
    "'1f' | int(base=16)", "'0x1f' | int(0, 16)", "'3.7' | int", "'x' | int(-1)", "'1e3' | float",
    "{'b': [1, none], 'a': '\u00e4<'} | tojson", "{'b': [1, none], 'a': '\u00e4<'} | tojson(indent=2)",
    "[1, 2] | tojson(separators=(',', ':'))", "{'b': 1, 'a': 2} | tojson(sort_keys=true)", "'\u00e4' | tojson(true)",
    "'a\\n\\nb' | indent", "'a\\n\\nb' | indent(1, true, true)", "'a\\nb' | indent('> ')",
    # tests of tests, of case
    "'upper' is filter", "'upper' is test", "'divisibleby' is filter", "'A' is upper", "'a1' is lower",
    "'aB' is upper", "'' is lower", "1 is upper", "1 in [1]", "1 not in [1]", "'a' in {'a': 1}", "none is none",
    "1 is divisibleby 0", "nothing is odd", "'a' is odd", "'a' is sameas 'a'",
    # functions
    "range(5) | list", "range(1, 9, 3) | list", "range(3, 0, -1) | list", "range(1, 2, 0)", "dict(a=1, b=2)",
    "dict({'a': 1}, b=2)", "range(3) | length", "namespace(a=1).a", "strftime_now('%%')",
]


def expressions():
    for string, method in itertools.product(STRINGS, METHODS):
        yield f"{string}.{method}"
    for string, name in itertools.product(STRINGS, FILTERS):
        yield f"{string} | {name}"
    for value, name in itertools.product(VALUES, TESTS):
        yield f"{value} is {name}"
    for value, name in itertools.product(NUMBERS, NUMBER_TESTS):
        yield f"{value} {name}" if name[0] in "<>=!" else f"{value} is {name}"
    for value, name in itertools.product(LISTS, LIST_FILTERS):
        yield f"{value} | {name}"
    yield from OTHERS


def outcome(expression):
    try:
        return chat_template_utils._compile_jinja_template("{{ " + expression + " }}").render()
    except Exception:  # whatever Python calls it: there is no text
        return None


def main():
    rows = ",\n".join(json.dumps([e, outcome(e)]) for e in expressions())
    print("[" + rows + "]")


if __name__ == "__main__":
    main()
