"""Check that `trainspool check` accepts every value that `trainspool schema` offers: the values
of each enum, the defaults and the bounds, each in a job of its own.

    python3 schema_offers.py TRAINSPOOL FOLDER
"""

import json
import os
import subprocess
import sys

import jsonschema

ERRORS = {"TS701", "TS702", "TS703", "TS704", "TS705", "TS706", "TS707"}
BASE = {"model_name_or_path": "org/model", "stage": "sft", "finetuning_type": "lora",
        "dataset": "tales", "template": "qwen", "output_dir": "out", "max_steps": 10}
# Keys without which a value is an error of its own: the job has nothing to do, it saves,
# evaluates or logs every 0 steps, or it has no place for a file.
NEIGHBORS = {
    "do_train": {"do_eval": True, "eval_dataset": "tales"},
    "do_predict": {"predict_with_generate": True, "eval_dataset": "tales"},
    "save_steps": {"save_strategy": "no"},
    "logging_steps": {"logging_strategy": "no"},
    "export_gguf": {"export_dir": "exported"},
}
# Offers that a native run refuses although the schema has no way to say so: the files of a
# quantized model decide which of its numbers of bits are right.
BEYOND = {"quantization_bit"}


def offers_of(schema, root):
    """Return the values that the schema of a key names."""
    if "$ref" in schema:
        part = root
        for name in schema["$ref"].lstrip("#/").split("/"):
            part = part[name]
        return offers_of(part, root)
    values = list(schema.get("enum", []))
    values += [schema[word] for word in ("const", "default", "minimum", "maximum") if word in schema]
    if "exclusiveMinimum" in schema:
        values.append(schema["exclusiveMinimum"] + (1 if "integer" in schema["type"] else 1e-6))
    if "boolean" in schema.get("type", []):
        values += [True, False]
    for alternative in schema.get("anyOf", []) + schema.get("oneOf", []):
        values += offers_of(alternative, root)
    return values


def keys_of(schema, path=()):
    """Return the path and the schema of each key, also of the members of maps."""
    for name, key in schema.get("properties", {}).items():
        yield (*path, name), key
        yield from keys_of(key, (*path, name))


def job_of(path, value, external):
    """Return a job that gives the key of the path this value."""
    job = {**BASE, **NEIGHBORS.get(path[-1], {})}
    if external:
        job["trainspool"] = {"target": "external"}
    part = job
    for name in path[:-1]:
        part = part.setdefault(name, {})
    part[path[-1]] = value
    return job


def jobs_of(schema):
    for path, key in keys_of(schema):
        for value in {json.dumps(value): value for value in offers_of(key, schema)}.values():
            for external in (False, True):
                yield path, value, job_of(path, value, external)


def main(trainspool, folder):
    schema = json.loads(subprocess.check_output([trainspool, "schema"]))
    validator = jsonschema.Draft202012Validator(schema)
    offers = [offer for offer in jobs_of(schema) if validator.is_valid(offer[2])]
    names = [os.path.join(folder, f"{at}.yaml") for at in range(len(offers))]
    for name, (_, _, job) in zip(names, offers):
        with open(name, "w", encoding="utf-8") as file:
            file.writelines(f"{key}: {json.dumps(value)}\n" for key, value in job.items())
    command = [trainspool, "check", "--json", "--device", "A100 80GB", *names]
    out = subprocess.run(command, capture_output=True, text=True).stdout
    reports = [json.loads(line) for line in out.splitlines()]
    assert [report["job"] for report in reports] == names
    differ = 0
    for (path, value, job), report in zip(offers, reports):
        errors = [finding for finding in report["findings"]
                  if finding["severity"] == "error" and finding["rule"] in ERRORS
                  and finding.get("key") in (path[0], path[-1]) and path[-1] not in BEYOND]
        for error in errors:
            differ += 1
            print(f"{'.'.join(path)}: {json.dumps(value)} with {job.get('trainspool')}:"
                  f" {error['rule']} {error['message']}")
    print(f"{len(offers)} values compared")
    return 1 if differ or len(offers) < 1000 else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2]))
