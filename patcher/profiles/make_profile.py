#!/usr/bin/env python3
"""Write the key table of a trainer: profile_TRAINER.c.

    make_profile.py TRAINER              add the releases that are newer than the table
    make_profile.py TRAINER VERSION...   add these releases
    make_profile.py TRAINER all          read every release again, from `first` on
    make_profile.py --print TRAINER VERSION    print what one release has, as JSON

TRAINER is a name in the table `trainers` below.  pip downloads the wheels into --cache (a folder; default: a
temporary one), or the source archives of releases without a wheel, whose setup.py pip runs.  Nothing else of
them is run: the classes and signatures that describe a trainer's file are read from the source, with what they
inherit.  tests/differential/profiles.py compares the result with the dataclasses
that Python imports.
"""
import argparse
import ast
import json
import pathlib
import re
import subprocess
import sys
import tarfile
import tempfile
import zipfile

HERE = pathlib.Path(__file__).resolve().parent
UNKNOWN = '?'  # a default that depends on the machine or on other packages

# Bits of enum profile_type (profile.h).
BOOL, INT, REAL, TEXT, LIST, MAP, NONE, REQUIRED, ANY = (1 << i for i in range(9))
SIMPLE = {'bool': BOOL, 'int': INT, 'float': REAL, 'str': TEXT, 'list': LIST, 'List': LIST, 'tuple': LIST,
          'Sequence': LIST, 'dict': MAP, 'Dict': MAP, 'None': NONE}


# ---- Reading the source of one release ----

class Source:
    """The modules of a package, parsed on demand."""

    def __init__(self, folder, package):
        self.folder, self.package, self.trees = folder, package, {}

    def tree(self, module):
        if module not in self.trees:
            path = self.folder / module.replace('.', '/')
            path = path / '__init__.py' if path.is_dir() else path.with_suffix('.py')
            self.trees[module] = ast.parse(path.read_text()) if path.exists() else None
        return self.trees[module]

    def is_package(self, module):
        return (self.folder / module.replace('.', '/')).is_dir()

    def imported(self, module, name):
        """(module, its name there) of what `module` imports as `name`; None if it is not of this package."""
        for node in ast.walk(self.tree(module)):
            names = [a.name for a in getattr(node, 'names', ()) if isinstance(a, ast.alias)
                     and (a.asname or a.name) == name]
            if isinstance(node, ast.ImportFrom) and names:
                parts = module.split('.')
                if node.level:
                    parts = parts[:len(parts) - node.level + self.is_package(module)]
                    target = '.'.join(parts + ([node.module] if node.module else []))
                else:
                    target = node.module or ''
                if target.split('.')[0] == self.package:
                    return target, names[0]
        return None

    def find(self, module, name):
        """(module, ClassDef) of a class; the class may be imported, also through __init__.py; or None."""
        if self.tree(module) is None:
            return None
        for node in ast.walk(self.tree(module)):
            if isinstance(node, ast.ClassDef) and node.name == name:
                return module, node
        target = self.imported(module, name)
        return self.find(*target) if target and target != (module, name) else None


def members(source, module, name):
    """The values of an enum class by member name; {} if it is not an enum."""
    found = source.find(module, name)
    if not found:
        return {}
    bases = ' '.join(ast.unparse(base) for base in found[1].bases)
    if 'Enum' not in bases:
        return {}
    return {target.id: node.value.value for node in found[1].body if isinstance(node, ast.Assign)
            for target in node.targets if isinstance(target, ast.Name) and isinstance(node.value, ast.Constant)}


class Reader:
    """strict: the types are those of pydantic, which refuses what they do not accept."""

    def __init__(self, source, strict=False):
        self.source, self.strict = source, strict

    def type_of(self, module, node):
        """(bits, values) of an annotation; values are those of a Literal or an enum."""
        if isinstance(node, ast.Constant):
            if node.value is None:
                return NONE, []
            return self.type_of(module, ast.parse(node.value, mode='eval').body)
        if isinstance(node, ast.BinOp):
            return self.union(module, [node.left, node.right])
        if isinstance(node, ast.Subscript):
            outer = ast.unparse(node.value).split('.')[-1]
            inner = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
            if outer == 'Optional':
                bits, values = self.union(module, inner)
                return bits | NONE, values
            if outer == 'Union':
                return self.union(module, inner)
            if outer == 'Literal':
                values = [item.value for item in inner]
                bits = 0
                for value in values:
                    bits |= NONE if value is None else SIMPLE[type(value).__name__]
                return bits, [str(v) for v in values if isinstance(v, str)]
            return SIMPLE.get(outer, ANY if self.strict else 0), []
        name = ast.unparse(node).split('.')[-1]
        if name in SIMPLE:
            return SIMPLE[name], []
        values = [str(v) for v in members(self.source, module, name).values()]
        return (TEXT, values) if values else (ANY if self.strict else 0, [])

    def union(self, module, nodes):
        bits, values = 0, []
        for node in nodes:
            more, named = self.type_of(module, node)
            bits |= more
            values += named
        # `SchedulerType | str`: the enum says which texts are accepted; pydantic accepts all
        if self.strict and any(ast.unparse(node) == 'str' for node in nodes):
            values = []
        return bits, values

    def text(self, value):
        if value is None:
            return 'null'
        if value == '':
            return "''"
        if isinstance(value, bool):
            return 'true' if value else 'false'
        if isinstance(value, (list, tuple, dict)):
            return json.dumps(value)
        return str(value)

    def value_of(self, module, body, node):
        """A default as YAML, or UNKNOWN."""
        try:
            return self.text(ast.literal_eval(node))
        except (ValueError, TypeError):
            pass
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            found = members(self.source, module, node.value.id)
            return self.text(found[node.attr]) if node.attr in found else UNKNOWN
        if isinstance(node, ast.Attribute) and node.attr == 'value':
            return self.value_of(module, body, node.value)
        if isinstance(node, ast.Name):
            given = [a.value for a in ast.walk(ast.Module(body, [])) if isinstance(a, ast.Assign)
                     and any(isinstance(t, ast.Name) and t.id == node.id for t in a.targets)]
            tree = self.source.tree(module).body
            given = given or [a.value for a in tree if isinstance(a, ast.Assign)
                              and any(isinstance(t, ast.Name) and t.id == node.id for t in a.targets)]
            return self.value_of(module, body, given[0]) if len(given) == 1 else UNKNOWN
        return UNKNOWN

    def made_by(self, module, body, node):
        """The default that a default_factory makes."""
        if isinstance(node, ast.Name) and node.id in ('list', 'dict'):
            return '[]' if node.id == 'list' else '{}'
        return self.value_of(module, body, node.body) if isinstance(node, ast.Lambda) else UNKNOWN

    def field(self, module, body, node):
        """The row of one annotated assignment, or None: __init__ does not take it."""
        bits, values = self.type_of(module, node.annotation)
        default, deprecated = None, ''
        call = node.value
        if isinstance(call, ast.Call) and ast.unparse(call.func).split('.')[-1] in ('field', 'HfArg', 'Field'):
            words = {k.arg: k.value for k in call.keywords}
            if call.args:  # pydantic's Field; `...` requires the key
                words['default'] = call.args[0]
            if ast.unparse(words.get('default', call)) == '...':
                del words['default']
            if 'init' in words and ast.unparse(words['init']) == 'False':
                return None
            if 'default' in words:
                default = self.value_of(module, body, words['default'])
            elif 'default_factory' in words:
                default = self.made_by(module, body, words['default_factory'])
            deprecated = deprecation(words.get('metadata'), words.get('help'))
        elif call is not None:
            default = self.value_of(module, body, call)
        if default is None:
            bits |= REQUIRED
        return bits, values, default or '', deprecated

    def fields(self, module, name, external):
        """The fields of a dataclass by name, with those it inherits.  external: names of bases that another
        package defines, which end the search."""
        found = self.source.find(module, name)
        if not found:
            if name in external:
                return {}
            raise LookupError(f'cannot find the class {name} of {module}')
        where, node = found
        rows = {}
        for base in reversed(node.bases):
            base = ast.unparse(base).split('.')[-1]
            if base not in ('object', 'Generic') and base not in external:
                rows |= self.fields(where, base, external)
        for item in node.body:
            if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name) \
                    and not ast.unparse(item.annotation).startswith('ClassVar'):
                row = self.field(where, node.body, item)
                if row is None:
                    rows.pop(item.target.id, None)
                    continue
                for key in [item.target.id, *aliases(item.value)]:
                    rows[key] = row
        return rows


def aliases(call):
    """The other names of a field of pydantic: alias, and validation_alias with AliasChoices."""
    words = call.keywords if isinstance(call, ast.Call) else []
    return [part.value for word in words if word.arg in ('alias', 'validation_alias')
            for part in ast.walk(word.value) if isinstance(part, ast.Constant) and isinstance(part.value, str)]


def deprecation(*nodes):
    """The sentence of a help text that says `deprecated`, or ''."""
    for node in nodes:
        for part in ast.walk(node) if node else ():
            text = part.value if isinstance(part, ast.Constant) and isinstance(part.value, str) else ''
            if 'deprecated' in text.lower() and '(deprecated)' not in text.lower():
                sentences = re.split(r'(?<=[.!;])\s+', ' '.join(text.encode('ascii', 'ignore').decode().split()))
                return next(s for s in sentences if 'deprecated' in s.lower())[:160]
    return ''


# ---- What each trainer hands to its parser ----

def read_transformers(source):
    reader = Reader(source)
    yield 'Trainer', reader.fields('transformers.training_args', 'TrainingArguments', ())
    yield 'Seq2SeqTrainer', reader.fields('transformers.training_args_seq2seq', 'Seq2SeqTrainingArguments', ())


def read_llamafactory(source):
    """hparams/parser.py: _TRAIN_ARGS; its TrainingArguments inherits that of transformers."""
    reader, module = Reader(source), 'llamafactory.hparams.parser'
    rows = {}
    for node in source.tree(module).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == '_TRAIN_ARGS':
            for item in node.value.elts:
                rows |= reader.fields(module, item.id, ('Seq2SeqTrainingArguments', 'BaseTrainingArguments'))
    yield 'train', rows


def read_trl(source):
    """scripts/X.py: dataclass_types in make_parser; other trainers of the package: the configuration with the
    arguments of a script and of the model, as in examples/scripts."""
    reader = Reader(source)
    common, seen = ('TrainingArguments',), []
    for name in ('sft', 'dpo', 'reward', 'kto', 'grpo', 'rloo', 'distillation'):
        module = f'trl.scripts.{name}'
        for node in ast.walk(source.tree(module) or ast.Module([], [])):
            if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == 'dataclass_types':
                rows = {'env': (MAP, [], '{}', '')}  # TrlParser.parse_args_and_config
                for item in node.value.elts:
                    rows |= reader.fields(module, item.id, common)
                seen.append(name)
                yield name, rows
    for name, config in (('reward', 'RewardConfig'), ('rloo', 'RLOOConfig'), ('gkd', 'GKDConfig'), ('cpo', 'CPOConfig'), ('orpo', 'ORPOConfig'), ('ppo', 'PPOConfig'),
                         ('online_dpo', 'OnlineDPOConfig'), ('nash_md', 'NashMDConfig'), ('xpo', 'XPOConfig'),
                         ('bco', 'BCOConfig'), ('prm', 'PRMConfig')):
        for module in (f'trl.trainer.{name}_config', f'trl.experimental.{name}.{name}_config'):
            if name not in seen and source.tree(module) and source.find(module, config):
                rows = {'env': (MAP, [], '{}', '')}
                for where, item in (('trl.scripts.utils', 'ScriptArguments'), ('trl.trainer.model_config', 'ModelConfig'),
                                    (module, config)):
                    rows |= reader.fields(where, item, common)
                yield name, rows
                break


def read_axolotl(source):
    """utils/config: AxolotlInputConfig, with the arguments of each plugin of integrations/."""
    reader = Reader(source, True)
    module = next(m for m in ('axolotl.utils.schemas.config', 'axolotl.utils.config.models.input.v0_4_1')
                  if source.tree(m))
    yield 'AxolotlInputConfig', reader.fields(module, 'AxolotlInputConfig', ('BaseModel',))
    for path in sorted(source.folder.glob('axolotl/integrations/*/*.py')):
        text = path.read_text()
        for name in re.findall(r"def get_input_args\(self\).*?return ['\"](axolotl[\w.]+)['\"]", text, re.S):
            module, _, name = name.rpartition('.')
            yield name, reader.fields(module, name, ('BaseModel',))


def constants(source, module):
    """The texts that a module and the modules it imports from assign to names in capitals."""
    return {target.id: node.value.value for node in (source.tree(module) or ast.Module([], [])).body
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant) for target in node.targets
            if isinstance(target, ast.Name) and target.id.isupper() and isinstance(node.value.value, str)}


def read_torchtune(source):
    """recipes/X.py: what a recipe reads of `cfg`, as cfg.KEY, cfg["KEY"], cfg.get(KEY), hasattr(cfg, KEY) or
    KEY in cfg; torchtune/utils or training: the functions that get the whole cfg."""
    names = constants(source, 'torchtune.training._profiler') | constants(source, 'torchtune.utils._profiler')
    reader = Reader(source)

    def is_cfg(node):
        return ast.unparse(node) in ('cfg', 'self.cfg', 'self._cfg')

    def text(node):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            return node.value
        return names.get(ast.unparse(node).split('.')[-1])

    for path in sorted(source.folder.glob('recipes/*.py')):
        tree, rows = source.tree(f'recipes.{path.stem}'), {}
        for node in ast.walk(tree):
            key, default = None, UNKNOWN
            if isinstance(node, ast.Attribute) and is_cfg(node.value) and node.attr not in ('get', 'pop'):
                key = node.attr
            elif isinstance(node, ast.Subscript) and is_cfg(node.value):
                key = text(node.slice)
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and is_cfg(node.func.value) \
                    and node.func.attr in ('get', 'pop') and node.args:
                key = text(node.args[0])
                default = reader.value_of(f'recipes.{path.stem}', [], node.args[1]) if len(node.args) > 1 else 'null'
            elif isinstance(node, ast.Call) and ast.unparse(node.func) == 'hasattr' and is_cfg(node.args[0]):
                key = text(node.args[1])
            elif isinstance(node, ast.Compare) and is_cfg(node.comparators[0]):
                key = text(node.left)
            if key and rows.get(key, (0, [], UNKNOWN, ''))[2] == UNKNOWN:
                rows[key] = (0, [], default, '')
        if rows and path.stem != '__init__':
            yield path.stem, rows


def read_lightning(source):
    """Trainer.__init__, whose arguments LightningCLI takes as trainer.KEY."""
    reader, module = Reader(source), 'lightning.pytorch.trainer.trainer'
    body = source.find(module, 'Trainer')[1].body
    call = next(node.args for node in body if isinstance(node, ast.FunctionDef) and node.name == '__init__')
    rows = {}
    for at, arg in enumerate((call.args + call.kwonlyargs)[1:]):
        defaults = [None] * (len(call.args) - 1 - len(call.defaults)) + call.defaults + call.kw_defaults
        bits, values = reader.type_of(module, arg.annotation) if arg.annotation else (0, [])
        default = reader.value_of(module, [], defaults[at]) if defaults[at] else ''
        rows[f'trainer.{arg.arg}'] = (bits, values, default, '')
    yield 'Trainer', rows


def read_unsloth(source):
    """unsloth_cli/config.py: the sections of Config."""
    reader, module = Reader(source, True), 'unsloth_cli.config'
    if not source.tree(module):
        return
    rows = {}
    for item in source.find(module, 'Config')[1].body:
        if isinstance(item, ast.AnnAssign):
            section = ast.unparse(item.annotation)
            if source.find(module, section):
                for key, row in reader.fields(module, section, ('BaseModel',)).items():
                    rows[f'{item.target.id}.{key}'] = row
            else:
                rows[item.target.id] = reader.field(module, [], item)
    yield 'Config', rows


# The order of the programs is that of their bits, which C code and older rows use: new ones come last.
trainers = {
    'transformers': {'title': 'transformers', 'package': 'transformers', 'first': '4.37.0', 'read': read_transformers,
                     'programs': ('Trainer', 'Seq2SeqTrainer')},
    'llamafactory': {'title': 'LLaMA-Factory', 'package': 'llamafactory', 'first': '0.9.0', 'read': read_llamafactory,
                     'programs': ('train',)},
    'trl': {'title': 'TRL', 'package': 'trl', 'first': '0.19.0', 'read': read_trl,
            'programs': ('sft', 'dpo', 'reward', 'kto', 'grpo', 'rloo', 'gkd', 'cpo', 'orpo', 'ppo', 'online_dpo',
                         'nash_md', 'xpo', 'bco', 'prm', 'distillation')},
    'axolotl': {'title': 'Axolotl', 'package': 'axolotl', 'first': '0.5.2', 'read': read_axolotl,
                'programs': ('AxolotlInputConfig',)},
    'torchtune': {'title': 'torchtune', 'package': 'torchtune', 'first': '0.1.0', 'read': read_torchtune,
                  'programs': ('eleuther_eval', 'full_dpo_distributed', 'full_finetune_distributed',
                               'full_finetune_single_device', 'generate', 'knowledge_distillation_distributed',
                               'knowledge_distillation_single_device', 'lora_dpo_distributed',
                               'lora_dpo_single_device', 'lora_finetune_distributed', 'lora_finetune_single_device',
                               'ppo_full_finetune_single_device', 'qat_distributed', 'qat_lora_finetune_distributed',
                               'quantize')},
    'lightning': {'title': 'Lightning', 'package': 'lightning', 'first': '2.0.0', 'read': read_lightning,
                  'programs': ('Trainer',)},
    'unsloth': {'title': 'Unsloth', 'package': 'unsloth', 'first': '2026.3.1', 'read': read_unsloth,
                'programs': ('Config',)},
}


# ---- Releases ----

def order(version):
    return tuple(int(part) for part in version.split('.'))


def releases(package):
    """The final releases, oldest first."""
    out = subprocess.run([sys.executable, '-m', 'pip', 'index', 'versions', '--python-version', '3.12', package],
                         capture_output=True, text=True, check=True).stdout
    names = re.search(r'Available versions: (.*)', out).group(1).split(', ')
    return sorted((name for name in names if re.fullmatch(r'[0-9.]+', name)), key=order)


def download(package, version, cache):
    folder = cache / f'{package}-{version}'
    if not folder.is_dir():
        with tempfile.TemporaryDirectory(dir=cache) as part:
            pip = [sys.executable, '-m', 'pip', 'download', '-q', '--no-deps', '--python-version', '3.12', '-d', part]
            if subprocess.run([*pip, '--only-binary', ':all:', f'{package}=={version}'], check=False,
                              stderr=subprocess.DEVNULL).returncode:
                subprocess.run([*pip, '--no-binary', package, f'{package}=={version}'], check=True)
            for path in pathlib.Path(part).iterdir():
                unpack(path, folder)
    inner = folder / f'{package}-{version}'  # of a source archive
    return inner / 'src' if (inner / 'src').is_dir() else inner if inner.is_dir() else folder


def unpack(path, folder):
    """Extract the Python sources of a wheel or a source archive, without those of models."""
    def is_source(name):
        return name.endswith('.py') and ('/models/' not in name or '/config/models/' in name)

    if path.suffix == '.whl':
        with zipfile.ZipFile(path) as wheel:
            for name in filter(is_source, wheel.namelist()):
                wheel.extract(name, folder)
        return
    with tarfile.open(path) as archive:
        archive.extractall(folder, [m for m in archive.getmembers() if m.isfile() and is_source(m.name)], filter='data')


def read(trainer, version, cache):
    """{key: {(bits, values, default, deprecated): [programs]}} of one release."""
    about = trainers[trainer]
    source = Source(download(about['package'], version, cache), about['package'])
    out = {}
    for program, rows in about['read'](source):
        for key, (bits, values, default, deprecated) in rows.items():
            row = (bits, ' '.join(v for v in values if ' ' not in v), default, deprecated)
            out.setdefault(key, {}).setdefault(row, []).append(program)
    return out


# ---- The table in C ----

def quote(text):
    return '"' + text.replace('\\', '\\\\').replace('"', '\\"').replace('\n', '\\n') + '"' if text else 'NULL'


def unquote(text):
    return '' if text == 'NULL' else json.loads(text)


STRING = r'(NULL|"(?:[^"\\]|\\.)*")'
ROW = re.compile(r'    \{ ' + STRING + r', 0x([0-9a-f]+), ' + STRING + ', ' + STRING + ', ' + STRING +
                 r', 0x([0-9a-f]+), (\d+), (\d+) \},')


def load(path):
    """(versions, programs, {version: column}) of a table that this script wrote."""
    if not path.exists():
        return [], [], {}
    text = path.read_text()
    lists = {name: re.findall(r'"([^"]*)"', body)
             for name, body in re.findall(r'\*const (\w+)\[\] = \{(.*?)\};', text, re.S)}
    versions, programs = lists['versions'], lists['programs']
    columns = {version: {} for version in versions}
    for name, bits, default, values, deprecated, mask, since, until in ROW.findall(text):
        row = (int(bits, 16), unquote(values), unquote(default), unquote(deprecated))
        for at in range(int(since), int(until) + 1):
            key = columns[versions[at]].setdefault(unquote(name), {})
            key[row] = [p for i, p in enumerate(programs) if int(mask, 16) >> i & 1]
    return versions, programs, columns


def ranges(versions, programs, columns):
    """The rows of the table: one for each sequence of versions in which a key does not change."""
    rows = []
    for key in sorted({key for column in columns.values() for key in column}):
        open_rows = {}
        for at, version in enumerate(versions):
            now = {(row, sum(1 << programs.index(p) for p in used))
                   for row, used in columns[version].get(key, {}).items()}
            for what in sorted(now):
                if open_rows.get(what, (0, -2))[1] == at - 1:
                    open_rows[what] = (open_rows[what][0], at)
                else:
                    if what in open_rows:
                        rows.append((key, *what, *open_rows[what]))
                    open_rows[what] = (at, at)
        rows += [(key, *what, *span) for what, span in open_rows.items()]
    return sorted(rows, key=lambda row: (row[0].encode(), row[3], row[2]))


def wrap(words, indent='    '):
    lines, line = [], indent
    for word in words:
        if len(line) + len(word) + 2 > 88:
            lines.append(line.rstrip())
            line = indent
        line += word + ', '
    return '\n'.join(lines + [line.rstrip().rstrip(',')])


def write(trainer, path, columns):
    about = trainers[trainer]
    versions = sorted(columns, key=order)
    programs = []
    for version in versions:
        for rows in columns[version].values():
            for used in rows.values():
                programs += [p for p in used if p not in programs]
    fixed = [name for name in about['programs'] if name in programs]
    programs = fixed + [name for name in programs if name not in fixed]
    rows = ranges(versions, programs, columns)
    out = [f'/*\n * patcher/profiles/{path.name} - the keys of {about["title"]} {versions[0]} to {versions[-1]}.\n'
           ' * Written by make_profile.py from the releases; not edited by hand.\n */',
           '#include "config.h"\n', '#include "patcher/profiles/profile.h"\n', '#include "base/size.h"\n',
           '/* clang-format off */', 'static const char *const versions[] = {',
           wrap([quote(v) for v in versions]), '};\n', 'static const char *const programs[] = {',
           wrap([quote(p) for p in programs]), '};\n',
           '/* name, types, default, values, deprecated, programs, first and last version */',
           'static const struct profile_key keys[] = {']
    for key, (bits, values, default, deprecated), mask, since, until in rows:
        out.append(f'    {{ {quote(key)}, 0x{bits:02x}, {quote(default)}, {quote(values)}, {quote(deprecated)}, '
                   f'0x{mask:x}, {since}, {until} }},')
    out += ['};', '/* clang-format on */\n',
            f'const struct profile_table profile_{trainer}_table = {{',
            '    .versions = versions,', '    .version_count = TS_COUNT(versions),', '    .programs = programs,',
            '    .program_count = TS_COUNT(programs),', '    .keys = keys,', '    .key_count = TS_COUNT(keys),', '};\n']
    path.write_text('\n'.join(out), encoding='utf-8')
    print(f'{path.name}: {len(versions)} versions, {len({r[0] for r in rows})} keys, {len(rows)} rows')


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--cache', type=pathlib.Path)
    parser.add_argument('--print', action='store_true', dest='show')
    parser.add_argument('trainer', choices=trainers)
    parser.add_argument('versions', nargs='*')
    options = parser.parse_args()
    about = trainers[options.trainer]
    path = HERE / f'profile_{options.trainer}.c'
    with tempfile.TemporaryDirectory() as temporary:
        cache = options.cache or pathlib.Path(temporary)
        cache.mkdir(parents=True, exist_ok=True)
        if options.show:
            for version in options.versions:
                json.dump({key: [[*row, used] for row, used in rows.items()]
                           for key, rows in read(options.trainer, version, cache).items()}, sys.stdout)
                print()
            return
        columns = {} if options.versions == ['all'] else load(path)[2]
        wanted = options.versions
        if wanted in ([], ['all']):
            newest = max(map(order, columns), default=(0,))
            wanted = [v for v in releases(about['package']) if order(v) >= order(about['first']) and order(v) > newest]
        for version in wanted:
            columns[version] = read(options.trainer, version, cache)
        write(options.trainer, path, columns)


if __name__ == '__main__':
    main()
