#!/usr/bin/env python3
"""Compare the key tables of patcher/profiles/ with what Python imports, and the keys that `trainspool check`
reports with those that the real parsers refuse.

    profiles.py [--jobs N] [--seed N] [--only NAME] TRAINSPOOL
    profiles.py --sample

The environments are those of refusals.py: TRAINSPOOL_PARSERS names their folder, and parsers.txt lists them.  For
each, profiles_worker.py prints the dataclasses with their defaults, which must be the table's, and parses N jobs
of random keys: of this version, of others, of other programs, and misspelled ones.

--sample needs a package index but no environment: it reads one release of each trainer again and compares it with
the table, in a few seconds.  The status is 77 where there is no index, or no TRAINSPOOL_PARSERS.
"""
import argparse
import importlib.util
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
RENAMES = {f"TS6{n:02}" for n in range(1, 11)}
# read by TrlParser itself; an option of some versions of `accelerate launch`
OPTIONS = {"env", "fp8_enable_fsdp_float8_all_gather"}
UNKNOWN = {"TS701", "TS702", "TS703", "TS807", "TS813"}


def load(name, path):
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


make = load("make_profile", ROOT / "patcher" / "profiles" / "make_profile.py")
parsers = load("refusals", HERE / "refusals.py")


def table(trainer):
    return make.load(make.HERE / f"profile_{trainer}.c")[2]


def sample():
    """Write each table again from what is in it, then from its newest release, and compare."""
    wrong = 0
    with tempfile.TemporaryDirectory() as cache:
        for trainer in make.trainers:
            columns = table(trainer)
            name = f"profile_{trainer}.c"
            make.write(trainer, pathlib.Path(cache) / name, columns)
            if (pathlib.Path(cache) / name).read_text() != (make.HERE / name).read_text():
                print(f"{name} is not what make_profile.py writes")
                wrong += 1
        for trainer in make.trainers:
            columns = table(trainer)
            version = max(columns, key=make.order)
            try:
                column = make.read(trainer, version, pathlib.Path(cache))
            except subprocess.CalledProcessError:
                print("profiles.py: skipped, as no package index is reachable")
                return 1 if wrong else 77
            same = {key: {row: sorted(used) for row, used in rows.items()} for key, rows in column.items()} == \
                   {key: {row: sorted(used) for row, used in rows.items()} for key, rows in columns[version].items()}
            print(f"{trainer} {version}: {len(column)} keys, {'as in the table' if same else 'NOT as in the table'}")
            wrong += not same
    return 1 if wrong else 0


def defaults_at(trainer, versions, program):
    """{key: default} of a program by the tables; the own fields hide those of transformers."""
    base = {"llamafactory": "Seq2SeqTrainer", "trl": "Trainer"}.get(trainer)
    rows = {}
    layers = ([("transformers", versions["transformers"], base)] if base else []) + \
        [(trainer, versions[trainer], program)]
    for name, version, part in layers:
        for key, found in table(name)[version].items():
            for row, used in found.items():
                if part in used:
                    rows[key] = None if row[0] & make.REQUIRED else row[2]
    return rows


def is_same(ours, real):
    """1e-08 and 1e-8 are one number."""
    if ours == make.UNKNOWN or ours == real:
        return True
    try:
        return float(ours) == float(real)
    except (TypeError, ValueError):
        return False


def compare_fields(trainer, versions, fields):
    wrong = []
    for program, real in fields.items():
        ours = defaults_at(trainer, versions, program)
        ours.pop("env", None)  # TrlParser's own
        wrong += [f"{program}: {key} is only in {'the table' if key in ours else 'Python'}"
                  for key in set(ours) ^ set(real)]
        wrong += [f"{program}: {key} defaults to {real[key]}, not {ours[key]}"
                  for key in set(ours) & set(real) if not is_same(ours[key], real[key])]
    return wrong


def misspelled(rng, key):
    at = rng.randrange(1, len(key))
    return key[:at] + rng.choice(["x", "", key[at] * 2]) + key[at + 1:]


def make_keys(rng, known, strangers):
    keys = rng.sample(known, 6) + rng.sample(strangers, rng.choice([0, 1, 1, 2]))
    if rng.random() < 0.3:
        keys.append(misspelled(rng, rng.choice(known)))
    return list(dict.fromkeys(keys))


def our_verdict(trainspool, trainer, versions, program, fields, keys):
    """(keys reported as unknown, keys reported as renamed or removed)."""
    lines = ["output_dir: out"] + (["model_name_or_path: org/model"] if trainer != "transformers" else [])
    for key in keys:
        if key not in ("output_dir", "model_name_or_path"):
            lines.append(f"{key}: {fields.get(key) or 'x'}")
    command = f", command: [trl, {program}]" if trainer == "trl" else ""
    given = ", ".join(f"{name}: {version}" for name, version in versions.items())
    lines.append(f"trainspool: {{target: {trainer}{command}, versions: {{{given}}}}}")
    with tempfile.TemporaryDirectory() as folder:
        job = os.path.join(folder, "job.yaml")
        pathlib.Path(job).write_text("\n".join(lines) + "\n", encoding="utf-8")
        out = subprocess.run([trainspool, "check", "--json", "--device", "A100", job], capture_output=True, text=True)
    findings = json.loads(out.stdout)["findings"]
    return ({f["key"] for f in findings if f["rule"] in UNKNOWN}, {f["key"] for f in findings if f["rule"] in RENAMES})


def compare_environment(options, folder, name, packages):
    trainer = name.split("-")[0]
    versions = dict(package.split("==") for package in packages if package.split("==")[0] in make.trainers)
    if any(version not in table(package) for package, version in versions.items()
           if package in (trainer, "transformers")):
        return None
    versions = {package: version for package, version in versions.items() if package in (trainer, "transformers")}
    worker = subprocess.Popen([os.path.join(folder, name, "bin", "python"), str(HERE / "profiles_worker.py"), trainer],
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    fields = json.loads(worker.stdout.readline())
    wrong = compare_fields(trainer, versions, fields)
    failed = []
    rng = random.Random(options.seed)
    every = sorted({key for other in make.trainers for column in table(other).values() for key in column} - OPTIONS)
    for _ in range(options.jobs):
        program = rng.choice(sorted(fields))
        known = sorted(fields[program])
        keys = make_keys(rng, known, [key for key in every + ["micro_batch_size", "dev_ratio", "loss_scale", "lr"]
                                      if key not in fields[program]])
        worker.stdin.write(json.dumps([program, keys]) + "\n")
        worker.stdin.flush()
        answer = json.loads(worker.stdout.readline())
        if "failed" in answer:
            failed.append(answer["failed"])
            continue
        real = set(answer["unknown"])
        unknown, renamed = our_verdict(options.trainspool, trainer, versions, program, fields[program], keys)
        if trainer == "transformers":  # a script may define more: only what other versions have is certain
            unknown &= real
            real &= unknown | renamed
        if unknown - real or real - unknown - renamed:
            wrong.append(f"{program}: refused {sorted(real)}, reported {sorted(unknown)} and {sorted(renamed)}: {keys}")
    worker.stdin.close()
    worker.wait()
    if len(failed) > options.jobs / 4:
        wrong.append(f"{len(failed)} jobs failed for another reason, such as {failed[0]}")
    return wrong


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--jobs", type=int, default=200)
    arguments.add_argument("--seed", type=int, default=1)
    arguments.add_argument("--only")
    arguments.add_argument("--sample", action="store_true")
    arguments.add_argument("trainspool", nargs="?")
    options = arguments.parse_args()
    if options.sample:
        return sample()
    folder = os.environ.get("TRAINSPOOL_PARSERS")
    if not folder:
        print("profiles.py: skipped, as TRAINSPOOL_PARSERS is not set")
        return 77
    options.trainspool = os.path.abspath(options.trainspool)
    status = 0
    for name, packages in parsers.read_parsers():
        if name == "base" or (options.only and options.only != name):
            continue
        wrong = compare_environment(options, folder, name, packages)
        if wrong is None:
            print(f"{name}: older than the tables")
            continue
        print(f"{name}: {options.jobs} jobs, {len(wrong)} differences", flush=True)
        for line in wrong[:20]:
            print(f"    {line}")
        status |= bool(wrong)
    return status


if __name__ == "__main__":
    sys.exit(main())
