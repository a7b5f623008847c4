"""Compare `trainspool schema` with `trainspool check`: an independent YAML parser and JSON Schema
validator reject exactly the jobs in which check finds an error in a name or a value.

    python3 schema.py TRAINSPOOL JOB...
"""

import json
import re
import subprocess
import sys

import jsonschema
import yaml

NAMES = {"TS701", "TS702", "TS703", "TS704", "TS705", "TS706", "TS707", "TS008",
         "TS611", "TS723", "TS904"}
# Errors that a schema cannot express: that a string with a comma names several adapters, which
# modules a model has, how many bits its files use, which keys exclude each other, and that a
# string is a template.
BEYOND = {("TS707", "adapter_name_or_path"), ("TS705", "freeze_trainable_modules"),
          ("TS705", "freeze_trainable_layers"),
          ("TS707", "quantization_bit"), ("TS707", "quantization_method"),
          ("TS707", "quantization_type"), ("TS707", "create_new_adapter"),
          ("TS707", "export_dir"), ("TS707", "model_name_or_path"),
          ("TS707", "do_train"), ("TS707", "do_predict"),
          ("TS707", "mask_history"), ("TS707", "train_on_prompt"),
          ("TS705", "lora_target"), ("TS705", "additional_target"),
          ("TS707", "pref_bco_weight"), ("TS707", "ld_alpha"), ("TS707", "additional_target"),
          ("TS707", "teacher_adapter_name_or_path"), ("TS707", "ref_model_adapters"),
          ("TS904", "kd_beta"), ("TS904", "teacher_logits"),
          ("TS705", "lora_target_modules"), ("TS008", "output_dir"),
          ("TS705", "save_steps"), ("TS705", "eval_steps"), ("TS705", "logging_steps")}
FILES = "the files of the model"
# How messages begin and what they contain if a value is right, but not with another key.
COMBINED = ("pissa_init: ", "oft_rank: ", "finetuning_type: oft", "use_dora: ", "use_galore requires ",
            "use_apollo requires ", "use_llama_pro requires ", "galore_target must ", "lora_rank must be at most ",
            "optim: schedule_free_adamw requires ", "export_gguf: ", "freeze_vision_tower: false",
            "the reference is the model without its adapter, but ")
RANKS = "cannot be combined with several ranks"
# Targets whose files have keys and values of their own, which the schema of a job does not describe.
OTHER_FILES = {"axolotl", "torchtune", "lightning", "unsloth"}


def errors_of_check(trainspool, jobs):
    """Return the errors of check for each job: a set of rules and keys."""
    command = [trainspool, "check", "--json", "--device", "A100 80GB", *jobs]
    out = subprocess.run(command, capture_output=True, text=True).stdout
    reports = [json.loads(line) for line in out.splitlines()]
    assert [report["job"] for report in reports] == jobs
    return [{
        (finding["rule"], finding.get("key"))
        for finding in report["findings"]
        if finding["severity"] == "error" and finding["rule"] in NAMES
        and not finding["message"].startswith((FILES, *COMBINED)) and RANKS not in finding["message"]
    } - BEYOND for report in reports]


class Loader(yaml.SafeLoader):
    """Reads booleans as YAML 1.2 does, and so as editors do: `no` is a string, and so is a date."""


Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers
            if tag not in ("tag:yaml.org,2002:bool", "tag:yaml.org,2002:timestamp")]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()}
Loader.add_implicit_resolver("tag:yaml.org,2002:bool",
                             re.compile("^(?:true|True|TRUE|false|False|FALSE)$"), list("tTfF"))


def read(job):
    try:
        with open(job, encoding="utf-8-sig") as file:
            text = file.read()
            # the schema does not know about comments that suppress findings
            return None if "trainspool: ignore" in text else yaml.load(text, Loader)
    except (yaml.YAMLError, UnicodeDecodeError):
        return None


def is_other(job):
    block = job.get("trainspool")
    return isinstance(block, dict) and block.get("target") in OTHER_FILES


def main(trainspool, jobs):
    schema = json.loads(subprocess.check_output([trainspool, "schema"]))
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema)
    read_jobs = {job: read(job) for job in jobs}
    jobs = [job for job in jobs if isinstance(read_jobs[job], dict) and not is_other(read_jobs[job])]
    differ = 0
    for job, ours in zip(jobs, errors_of_check(trainspool, jobs)):
        theirs = [(list(error.absolute_path), error.message[:80])
                  for error in validator.iter_errors(read_jobs[job])]
        if bool(ours) != bool(theirs):
            differ += 1
            print(f"{job}: check finds {sorted(ours, key=str)}, the schema {theirs}")
    print(f"{len(jobs)} jobs compared")
    return 1 if differ or not jobs else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
