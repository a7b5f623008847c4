#!/usr/bin/env python3
"""Make jinja.json: expressions with the methods, filters, tests and operators of Jinja, and short
templates with its statements, rendered in the sandbox in which transformers runs chat templates, for
tests/unit/test_jinja.c.

    python3 tests/golden/jinja.py >tests/golden/jinja.json        (with transformers 5)
"""
import itertools
import json

from transformers.utils import chat_template_utils

STRINGS = ["''", "'a'", "'a-b--A-'", "'  two  Words\\n'", "'\u00c4pfel \u00d6l'", "'x1'", "'12'",
           "'ONE two'", "'a.b c_d-e'"]

# Calls that are applied to each of the strings.
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
    # methods that fail, have keyword arguments, or are chained
    "'a'.index('b')", "'abc'.center()", "'a'.split('')", "'a'.partition('')", "'a'.strip(1)",
    "'a'.upper(1)", "'a'.nothing()", "'a-b'.split(sep='-')", "'a-b'.rsplit(sep='-', maxsplit=1)",
    "'a'.ljust(3, 'xy')", "'a'.replace('a')", "'a'.replace(1, 2)", "'a'.join([1])", "'a'.find(1)",
    "'{1} {0}'.format(1, 2)", "'{} {}'.format('a', 1.5)", "'{x}'.format(x=none)", "'{}'.format()",
    # dicts, lists, tuples
    "{'a': 1}.get('a')", "{'a': 1}.get('b')", "{'a': 1}.get('b', 2)", "{'a': 1}.keys() | list",
    "{'a': 1, 'b': 2}.values() | list", "{'a': 1}.items() | list", "{'a': 1}.copy()",
    "[1, 2, 1].count(1)", "[1, 2, 1].index(2)", "[1].index(2)", "(1, 2).index(2)", "(1, 1).count(1)",
    # filters with arguments
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
    # tests of tests and of case
    "'upper' is filter", "'upper' is test", "'divisibleby' is filter", "'A' is upper", "'a1' is lower",
    "'aB' is upper", "'' is lower", "1 is upper", "1 in [1]", "1 not in [1]", "'a' in {'a': 1}", "none is none",
    "1 is divisibleby 0", "nothing is odd", "'a' is odd", "'a' is sameas 'a'",
    # functions
    "range(5) | list", "range(1, 9, 3) | list", "range(3, 0, -1) | list", "range(1, 2, 0)", "dict(a=1, b=2)",
    "dict({'a': 1}, b=2)", "dict([('a', 1), 'bc'], d=2)", "dict(['abc'])", "dict(nothing)", "dict(3)",
    "dict('')", "range(3) | length", "range(0, 5, 2)", "range(0, -3)", "range(4)", "namespace(a=1).a", "strftime_now('%%')",
]

# One per line: edge cases of arguments, arithmetic, comparisons, slices.
EDGES = r"""
'"' | forceescape
('<a>' | safe) + '<b>'
'<b>' + ('<a>' | safe) + '&'
('<a>' | escape) + ('<b>' | safe)
('<a>' | escape) | escape
('<a>' | escape) | forceescape
('<a>' | safe) ~ '<b>'
'  a ' | trim
'  a ' | trim(none)
'xxaxy' | trim('xy')
'xay' | trim('')
'x' | trim(1)
'' | default('no')
'' | default('no', true)
nothing | default('no')
nothing | d
none | default('no')
0 | d(1, boolean=true)
'aXa' | replace('a', 'b')
'aaa' | replace('a', 'b', 2)
'ab' | replace('', '-')
'ab' | replace('', '-', 2)
'aaa' | replace('a', 'b', none)
'aaa' | replace('a', 'b', 0)
{'b': 1, 'A': 3, 'c': 2} | tojson
{'b': 1, 'A': 3, 'c': 2} | tojson(sort_keys=true)
{'b': 1, 'A': 3, 'c': 2} | tojson(indent=1)
'ä 你好 😀' | tojson
'ä 你好 😀' | tojson(ensure_ascii=true)
{'b': 1, 'A': 3, 'c': 2} | tojson(separators=(',', ':'))
{'b': 1, 'A': 3, 'c': 2} | tojson(indent='-')
[1.0, 1e20, 1e-7, -0.0, true, none, '\n\t\\"/'] | tojson
[] | tojson(indent=2)
{} | tojson(indent=2)
{'a': [1, {'b': []}]} | tojson(indent=2)
'a\n\nb' | indent(2, true)
'a\n\nb' | indent(2, blank=true)
'a\n' | indent(1)
' 1_000 ' | int
'1__0' | int
'_1' | int
'1_' | int
'3.9' | int
'-3.9' | int
'x' | int
'x' | int(7)
'0x1f' | int(base=16)
'ff' | int(0, 16)
'101' | int(base=2)
'z' | int(5, 36)
true | int
3.99 | int
-3.99 | int
none | int(4)
'inf' | int(9)
'nan' | int(8)
'1' | int(base=1)
'z' | int(3, base=37)
'2.5' | int(base=-2)
nothing | int
'1.5' | float
' 2 ' | float
'x' | float
'x' | float(2.5)
3 | float
'1_0.5' | float
none | float(1.0)
'-.5' | float
true | float
1250 | round(-2)
1350.0 | round(-2)
1250.0 | round(-2)
2.9 | round(method='floor')
2.345 | round(2, 'ceil')
-2.345 | round(2, 'floor')
3 | round
42.55 | round(1)
-0.4 | round(0, 'ceil')
1.5 | round(0, 'up')
'a' | round
'%s|%r|%d|%5.2f|%-4d|%04d|%+d|%e|%g' | format('x', 'y', 3.7, 2.345, 5, 6, 7, 12345.678, 0.0001)
'%(a)s-%(b)d' | format(a='x', b=2)
'100%%' | format
'%i' | format(true)
'%s %s' | format(1, none)
'%s' | format(1, 2)
'%s %s' | format(1)
'%d' | format('x')
'%' | format(1)
'ab' | center(6)
'ab' | center(5)
'abc' | center(6)
'ab' | center
'abc' | center(2)
{'b': 1, 'A': 3, 'c': 2} | attr('b') is undefined
'a' | attr('upper') is callable
'a' | attr('nope') is undefined
'hello wORLD-x y_z (it\'s)' | title
'a(b)c{d<e' | title
[3, 1, 2, 1] | batch(3) | list
[3, 1, 2, 1] | batch(3, 0) | list
[3, 1, 2, 1] | batch(2, 'x') | list
[3, 1, 2, 1] | batch(9) | list
[3, 1, 2, 1] | slice(3) | list
[3, 1, 2, 1] | slice(3, 'x') | list
[3, 1, 2, 1] | slice(2) | list
[3, 1, 2, 1] | slice(2, 'x') | list
[3, 1, 2, 1] | slice(6) | list
[3, 1, 2, 1] | slice(6, 0) | list
[3, 1, 2, 1] | select('odd') | list
[3, 1, 2, 1] | reject('odd') | list
[3, 1, 2, 1] | select('gt', 1) | list
[3, 1, 2, 1] | select('in', [1, 2]) | list
[{'name': 'bo', 'age': 3, 'at': {'x': [1]}}, {'name': 'Al', 'age': 2}, {'name': 'cy', 'age': 3}] | sort(attribute='age') | map(attribute='name') | list
[{'name': 'bo', 'age': 3, 'at': {'x': [1]}}, {'name': 'Al', 'age': 2}, {'name': 'cy', 'age': 3}] | sort(attribute='age', reverse=true) | map(attribute='name') | list
[{'name': 'bo', 'age': 3, 'at': {'x': [1]}}, {'name': 'Al', 'age': 2}, {'name': 'cy', 'age': 3}] | sort(attribute='age,name') | map(attribute='name') | list
[{'name': 'bo', 'age': 3, 'at': {'x': [1]}}, {'name': 'Al', 'age': 2}, {'name': 'cy', 'age': 3}] | unique(attribute='age') | map(attribute='name') | list
([{'name': 'bo', 'age': 3, 'at': {'x': [1]}}, {'name': 'Al', 'age': 2}, {'name': 'cy', 'age': 3}] | min(attribute='age')).name
([{'name': 'bo', 'age': 3, 'at': {'x': [1]}}, {'name': 'Al', 'age': 2}, {'name': 'cy', 'age': 3}] | max(attribute='age')).name
[{'name': 'bo', 'age': 3, 'at': {'x': [1]}}, {'name': 'Al', 'age': 2}, {'name': 'cy', 'age': 3}] | sum(attribute='age')
[{'name': 'bo', 'age': 3, 'at': {'x': [1]}}, {'name': 'Al', 'age': 2}, {'name': 'cy', 'age': 3}] | sum('age', 0.5)
[{'name': 'bo', 'age': 3, 'at': {'x': [1]}}, {'name': 'Al', 'age': 2}, {'name': 'cy', 'age': 3}] | map(attribute='name') | list
([{'name': 'bo', 'age': 3, 'at': {'x': [1]}}, {'name': 'Al', 'age': 2}, {'name': 'cy', 'age': 3}][:1]) | map(attribute='at.x.0') | list
[{'name': 'bo', 'age': 3, 'at': {'x': [1]}}, {'name': 'Al', 'age': 2}, {'name': 'cy', 'age': 3}] | map(attribute='at', default='-') | list
[{'name': 'bo', 'age': 3, 'at': {'x': [1]}}, {'name': 'Al', 'age': 2}, {'name': 'cy', 'age': 3}] | map(attribute='at.x.0', default=0) | list
[{'name': 'bo', 'age': 3, 'at': {'x': [1]}}, {'name': 'Al', 'age': 2}, {'name': 'cy', 'age': 3}] | selectattr('age', 'eq', 3) | map(attribute='name') | list
[{'name': 'bo', 'age': 3, 'at': {'x': [1]}}, {'name': 'Al', 'age': 2}, {'name': 'cy', 'age': 3}] | rejectattr('at') | map(attribute='name') | list
[{'name': 'bo', 'age': 3, 'at': {'x': [1]}}, {'name': 'Al', 'age': 2}, {'name': 'cy', 'age': 3}] | selectattr('at') | map(attribute='name') | list
[{'name': 'bo', 'age': 3, 'at': {'x': [1]}}, {'name': 'Al', 'age': 2}, {'name': 'cy', 'age': 3}] | rejectattr('age', '==', 3) | map(attribute='name') | list
[{'name': 'bo', 'age': 3, 'at': {'x': [1]}}, {'name': 'Al', 'age': 2}, {'name': 'cy', 'age': 3}] | selectattr('at', 'undefined') | map(attribute='name') | list
[{'name': 'bo', 'age': 3, 'at': {'x': [1]}}, {'name': 'Al', 'age': 2}, {'name': 'cy', 'age': 3}] | selectattr | list
[{'name': 'bo', 'age': 3, 'at': {'x': [1]}}, {'name': 'Al', 'age': 2}, {'name': 'cy', 'age': 3}] | map(attribute='at.x.0') | list
[1, 1.0, true, '1'] | unique | list
[0, 1, '', 'a', none] | select | list
[0, 1, '', 'a', none] | reject | list
[1, 'a'] | sort
{'b': 1, 'A': 3, 'c': 2} | dictsort
{'b': 1, 'A': 3, 'c': 2} | dictsort(true)
{'b': 1, 'A': 3, 'c': 2} | dictsort(by='value')
{'b': 1, 'A': 3, 'c': 2} | dictsort(reverse=true)
{'b': 1, 'A': 3, 'c': 2} | dictsort(false, 'value', true)
none | map('upper') | list
nothing | items | list
'hello wORLD-x it\'s' .title()
'aBc'.swapcase()
'äÖ1'.swapcase()
'a(b)c1d' .title()
'  a '.strip()
'  a '.lstrip()
'  a '.rstrip()
'xaxx'.strip('x')
'xyaxy'.lstrip('yx')
'xaxy'.rstrip('yx')
'a\u00a0'.strip()
'äaä'.strip('ä')
'a,b,,c'.split(',')
'a,b,c'.split(',', 1)
' a  b '.split()
' a  b c '.split(none, 1)
' a '.split(none, 0)
' a '.split(none, 1)
'a,b,c'.rsplit(',', 1)
'a--b-c'.rsplit('--')
''.split(',')
'aaa'.split('aa')
'aaa'.rsplit('aa')
'a'.rsplit('ab')
'aab'.rsplit('ab')
'äöü'.rsplit('ö')
'a b'.rsplit()
'a,b,c'.split(',', maxsplit=0)
'a\nb\r\nc\n\nd'.splitlines()
'a\nb\r\n'.splitlines(true)
'a\rb\x0bc\x1cd\x85e\u2028f'.splitlines()
'a\r'.splitlines(true)
'abcabc'.removeprefix('ab')
'abcabc'.removeprefix('bc')
'a'.removeprefix('ab')
'abcabc'.replace('b', 'X')
'abcabc'.replace('b', 'X', 1)
'aaa'.replace('aa', 'b')
'ä'.replace('', '-')
'abcabc'.find('c')
'abcabc'.rfind('c')
'abcabc'.find('z')
'ä 你好 😀'.find('你')
'ä 你好 😀'.rfind('😀')
'abcabc'.find('')
'abcabc'.rfind('')
'abcabc'.rfind('z')
'abcabc'.count('bc')
'aaaa'.count('aa')
'äöü'.count('')
'abcabc'.count('z')
'abab'.count('ab')
'{} {}'.format(1, 'b')
'{1}{0}'.format('a', 'b')
'{x}'.format(x=3)
'{{}} {}'.format(1)
'a{{b}}c'.format()
'll {} oo'.format(none)
'x}}y'.format()
'{'.format()
'}'.format()
'a'.rjust(3)
'a'.center(4)
'ab'.center(5, '*')
'abc'.rjust(2)
'ä'.rjust(3, 'ö')
'abc'.center(6, '*')
'abcabc'.partition('b')
'abcabc'.rpartition('b')
'abcabc'.partition('z')
'abcabc'.rpartition('z')
'abcabc'.partition('abcabc')
'abcabc'.partition('')
[3, 1, 2, 1].count(1)
(1, 2, 1).count(1)
[3, 1, 2, 1].count(1.0)
[3, 1, 2, 1].count('1')
range(3) | list
range(1, 4) | list
range(5, 0, -2) | list
range(0, 5, 2) | list
range(0) | list
range(3, 1) | list
range(1, 7, 3) | list
range(7, 1, -3) | list
range(-3) | list
range(0, -6, -4) | list
range(0, 6, 4) | list
range(100000) | length
range(100001) | length
dict()
[3, 1, 2, 1].index(1)
[3, 1, 2, 1].index(9)
[3, 1, 2, 1].0
'½'.isalnum()
'²'.isalnum()
'你'.isupper()
'A你'.isupper()
'a%s' % 1
'%s-%s' % (1, 2)
'%s' % [1, 2]
'%(k)s' % {'k': 5}
'none' % {}
'none' % []
'%s' % {'b': 1, 'A': 3, 'c': 2}
'a' % 1
'%s %s' % [1, 2]
7 // 2
-7 // 2
7 // -2
-7 // -2
7 % 3
-7 % 3
7 % -3
-7 % -3
6 % -3
-6 // 3
7.5 // 2
-7.5 // 2
7.5 % 2
-7.5 % 2
7.5 % -2
6.0 % -3
-6.0 % 3
1.0 // 0.1
0.7 // 0.1
1e18 // 7.0
6.0 // 3
7 / 2
6 / 2
1 / 3
2 ** 10
2 ** -1
(-1) ** 3
(-1) ** 4
0 ** 0
0 ** 2
2 ** 0.5
2.0 ** 3
-2 ** 2
1 ** -2
1 / 0
1 // 0
1.0 % 0
0 ** -1
1 + true
true + true
1 - 2.5
'a' * 3
2 * 'ab'
[1] * 2
(1,) * 2
'a' * 0
'a' * -1
[1] + [2]
(1,) + (2,)
'a' ~ 1 ~ none
+3
-true
'a' + 1
1 + 'a'
[1] + (2,)
none + 1
1e16
1e15
123456789.0
0.1
1e-5
0.0001
1.0
-0.0
1e300 * 1e10
0.1 + 0.2
1_000
0x1f
1.5e3
[1, 'a', "it's", 'say "x"', 'b\n\\', none, true, 1.0, (1,), (), {}, {'k': [1]}, 'ä', '\x07']
1 < 2 < 3
1 < 3 < 2
'a' < 'b'
[1, 2] < [1, 3]
[1] < [1, 0]
(1, 2) >= (1, 2)
1 == 1.0
'1' == 1
none == none
[1] == (1,)
{'a': 1, 'b': 2} == {'b': 2, 'a': 1}
'b' > 'B'
2 != 2.0
1 < 'a'
none < 1
'a' in 'abc'
'' in ''
1 in [1.0]
'x' not in {'b': 1, 'A': 3, 'c': 2}
2 in range(3)
'b' in {'b': 1, 'A': 3, 'c': 2}.keys()
none in [none]
[1] in [[1]]
1 in 'a'
1 in 2
'' or 'x'
'a' and 'b'
not []
0 or none
1 if nothing else 2
'x' if false
true and not false or false
'abcabc'[0]
'abcabc'[-1]
'abcabc'[1:3]
'abcabc'[::-1]
'abcabc'[-2:]
'abcabc'[:-2]
'abcabc'[::2]
'abcabc'[10:]
'abcabc'[4:1:-1]
[3, 1, 2, 1][1:]
[3, 1, 2, 1][-1]
(1, 2, 3)[:2]
'ä 你好 😀'[2]
'ä 你好 😀'[::-1]
[3, 1, 2, 1][::-2]
'abcabc'[-100:2]
'abcabc'[:100]
'abcabc'[9]
[3, 1, 2, 1][9]
{'b': 1, 'A': 3, 'c': 2}['z']
{'b': 1, 'A': 3, 'c': 2}.b
{'b': 1, 'A': 3, 'c': 2}['b']
{'b': 1, 'A': 3, 'c': 2}.z
'abcabc'[::0]
{'b': 1, 'A': 3, 'c': 2}.z.y
""".strip().splitlines()

# Complete templates: loops, scopes, macros.
TEMPLATES = r"""
{% for x in [3, 1, 2, 1] %}{{ loop.changed(x > 1) }}{{ loop.cycle('a', 'b', 'c') }}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }}{{ loop.depth }}{{ loop.depth0 }} {% endfor %}
{% for x in [1, 1, 2, 2, 1] %}{% if loop.changed(x) %}{{ x }}{% endif %}{% endfor %}
{% for x in [3, 1, 2, 1] if x > 1 %}{{ x }}{{ loop.length }}{% endfor %} {% for x in [3, 1, 2, 1] %}{% if x == 2 %}{% break %}{% endif %}{% if x == 1 %}{% continue %}{% endif %}{{ x }}{% endfor %}
{% for k, v in {'b': 1, 'A': 3} | dictsort %}{{ k }}={{ v }}{{ ',' if not loop.last }}{% endfor %} {% for k in {'b': 1, 'A': 3} %}{{ k }}{% endfor %} {% for c in 'ä你😀' %}{{ c }}.{% endfor %} {% for a, b in [[1, 2], (3, 4)] %}{{ a + b }}{% endfor %}
{% for a, b in [[1]] %}{{ a }}{% endfor %}
{% for x in [1, 2] %}{% if x == 2 %}{% continue %}{% endif %}a{% else %}E{% endfor %} {% for x in [1, 2] %}{% continue %}{% else %}E{% endfor %} {% for x in [1, 2] %}{% if x == 1 %}{% break %}{% endif %}{% else %}E{% endfor %} {% for x in [1, 2] %}{% if x == 2 %}{% break %}{% endif %}{% else %}E{% endfor %}
{% for x in [1] if x is defined if x %}{% endfor %}
{% set x = 1 %}{% for i in [1] %}{% set x = 2 %}{% endfor %}{{ x }} {% if true %}{% set x = 3 %}{% endif %}{{ x }} {% with x = 9 %}{{ x }}{% endwith %}{{ x }} {% set a, b = 1, 2 %}{{ a }}{{ b }}
{% macro m(a, b=2) %}{{ a }}{{ b }}{{ varargs }}{{ kwargs }}{% endmacro %}{{ m(1) }} {{ m(1, 3) }} {{ m(b=5, a=4) }} {{ m(1, 2, 3) }} {{ m() }}| {{ m(1, z=3) }}
{% set ns = namespace({'a': 1}, b=2) %}{% set ns.a = 5 %}{{ ns.a }}{{ ns.b }}
""".strip().splitlines()


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
    yield from EDGES
    yield from TEMPLATES


def outcome(expression):
    try:
        source = expression if expression.startswith("{%") else "{{ " + expression + " }}"
        return chat_template_utils._compile_jinja_template(source).render()
    except Exception:  # any exception of Python: there is no text
        return None


def main():
    rows = ",\n".join(json.dumps([e, outcome(e)]) for e in expressions())
    print("[" + rows + "]")


if __name__ == "__main__":
    main()
