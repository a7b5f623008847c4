#!/usr/bin/env python3
"""Resume with transformers' Trainer from checkpoints of `trainspool run`.

    torch_state.py [--seed N] [--kind NAME] [--way NAME] PROGRAM

PROGRAM is trainspool.  For each architecture, a small random model is trained by trainspool for some steps,
in each of WAYS; the job has save_torch_state, and a checkpoint in the middle.  The Trainer resumes from that
checkpoint with the same settings.  Its learning rates and losses must be those of trainspool's second half,
and so must the weights at the end.  All records of the data are equal, so their order is, too.  A difference
makes the exit status 1; the status is 77 if torch, transformers or peft is not installed.
"""
import argparse
import json
import math
import os
import random
import sys
import tempfile
import warnings

warnings.filterwarnings("ignore")
os.environ.update(TRANSFORMERS_VERBOSITY="error", TQDM_DISABLE="1")
try:
    import peft
    import torch
    import transformers
except ImportError as missing:
    print(f"torch_state: {missing}", file=sys.stderr)
    sys.exit(77)

import models
import saved

STEPS = 6 # half of them by trainspool alone
TOKENS = 24 # of a record
BATCH = 2
LOSS_TOLERANCE = 6e-5 # transformers 4 logs four decimals
# of weights, relative to their change since the checkpoint: both sides sum in fp32, and Adam divides
WEIGHT_TOLERANCE = 2e-3
RATE_TOLERANCE = 1e-12
SCHEDULES = [("linear", 0), ("cosine", 2), ("constant_with_warmup", 4), ("constant", 0)]
FINAL_NORMS = {"gpt2": "ln_f", "gpt_neo": "ln_f", "gpt_neox": "final_layer_norm"}
EMBEDDINGS = {"gpt2": "wte", "gpt_neo": "wte"}
# it makes two matrices of an embedding that is the head, too
OLD_PEFT = tuple(map(int, peft.__version__.split(".")[:2])) < (0, 21)
OLD = transformers.__version__ < "5"
WAYS = ["full", "freeze", "lora", "sgd"]


def older_keys(values, kind):
    """Replace rope_parameters by the keys of transformers 4."""
    rope = values.pop("rope_parameters", None)
    if not rope:
        return values
    theta, share = rope.pop("rope_theta"), rope.pop("partial_rotary_factor", None)
    neox = kind == "gpt_neox"
    values["rotary_emb_base" if neox else "rope_theta"] = theta
    if share:
        values["rotary_pct" if neox else "partial_rotary_factor"] = share
    values["rope_scaling"] = rope if rope["rope_type"] != "default" else None
    return values


def lines_of(way, kind, tied):
    if way == "lora":
        saved_whole = [FINAL_NORMS.get(kind, "norm")]
        if tied and kind != "gpt_neox" and not OLD_PEFT:
            saved_whole.append(EMBEDDINGS.get(kind, "embed_tokens")) # and with it the head
        elif not tied and kind != "gpt_neox": # PEFT finds the head by a name that transformers 5 changes
            saved_whole.append("lm_head")
        return {"finetuning_type": "lora", "lora_rank": 4, "lora_target": "all", "optim": "adamw_torch_fused",
                "additional_target": ",".join(saved_whole)}
    if way == "freeze":
        return {"finetuning_type": "freeze", "freeze_trainable_layers": 1}
    if way == "sgd":
        return {"finetuning_type": "full", "optim": "sgd", "learning_rate": 0.1}
    return {"finetuning_type": "full"}


def write_job(path, schedule, warmup, lines):
    job = {"model_name_or_path": "base", "stage": "pt", "dataset": "records.jsonl", "cutoff_len": TOKENS,
           "per_device_train_batch_size": BATCH, "max_steps": STEPS, "learning_rate": 2e-3, "weight_decay": 0.1,
           "adam_beta2": 0.98, "adam_epsilon": 1e-6, "lr_scheduler_type": schedule, "warmup_steps": warmup,
           "optim": "adamw_torch", "logging_steps": 1, "save_steps": STEPS // 2, "output_dir": "out",
           "trainspool": {"save_torch_state": True}, **lines}
    with open(path, "w", encoding="utf-8") as f:
        for key, value in job.items():
            print(f"{key}: {json.dumps(value)}", file=f)
    return job


def open_model(where, kind, job):
    """The model as a script with the settings of the job makes it."""
    model = transformers.AutoModelForCausalLM.from_pretrained(
        os.path.join(where, "base"), dtype=torch.float32, attn_implementation="eager")
    if job["finetuning_type"] == "freeze":
        config = model.config
        last = (config.num_layers if kind == "gpt_neo" else config.num_hidden_layers) - 1
        for name, p in model.named_parameters():
            p.requires_grad = f".{last}." in name
    if job["finetuning_type"] == "lora":
        config = peft.PeftConfig.from_pretrained(os.path.join(where, "out"))
        config.inference_mode = False
        model = peft.get_peft_model(model, config)
    return model


def resume(where, model, job):
    with open(os.path.join(where, "records.jsonl"), encoding="utf-8") as f:
        text = json.loads(f.readline())["text"]
    tokenizer = transformers.AutoTokenizer.from_pretrained(os.path.join(where, "base"))
    ids = tokenizer(text + "</s>", add_special_tokens=False)["input_ids"]
    assert len(ids) == TOKENS
    labels = [-100] + ids[1:] # nothing predicts the first token, but for some models the Trainer counts it
    data = [{"input_ids": ids, "labels": labels}] * (BATCH * STEPS)
    names = ["learning_rate", "weight_decay", "adam_beta2", "adam_epsilon", "lr_scheduler_type", "warmup_steps",
             "optim", "logging_steps", "max_steps", "per_device_train_batch_size"]
    arguments = transformers.TrainingArguments(
        os.path.join(where, "theirs"), use_cpu=True, report_to=[], save_strategy="no", disable_tqdm=True,
        **{name: job[name] for name in names})
    trainer = transformers.Trainer(model, args=arguments, train_dataset=data,
                                   data_collator=transformers.default_data_collator)
    trainer.train(resume_from_checkpoint=os.path.join(where, "out", f"checkpoint-{STEPS // 2}"))
    return trainer


def trained_tensors(folder, kind):
    path = os.path.join(folder, "adapter_model.safetensors")
    if not os.path.exists(path):
        path = os.path.join(folder, "model.safetensors")
    from safetensors.torch import load_file # pylint: disable=import-outside-toplevel
    return {name.replace("embed_out", "lm_head") if kind == "gpt_neox" else name: t.double()
            for name, t in load_file(path).items()}


def their_tensors(model, kind):
    """Names as in files."""
    tensors = {}
    for name, p in model.named_parameters():
        name = name.replace(".modules_to_save.default", "").replace(".default.weight", ".weight")
        name = name.replace("embed_out", "lm_head") if kind == "gpt_neox" else name
        if p.requires_grad:
            tensors[name] = p.detach().double()
    return tensors


def compare_curves(where, trainer):
    with open(os.path.join(where, "job.run", "metrics.jsonl"), encoding="utf-8") as f:
        ours = {line["step"]: line for line in map(json.loads, f) if "loss" in line}
    theirs = {line["step"]: line for line in trainer.state.log_history if "loss" in line}
    for step in range(STEPS // 2 + 1, STEPS + 1):
        for name, tolerance in (("loss", LOSS_TOLERANCE), ("learning_rate", RATE_TOLERANCE)):
            mine, other = ours[step][name], theirs[step][name]
            if not math.isclose(mine, other, rel_tol=tolerance, abs_tol=tolerance):
                raise RuntimeError(f"step {step}: {name} {other:.9g}, and trainspool's is {mine:.9g}")


def compare_weights(where, trainer, kind):
    start = trained_tensors(os.path.join(where, "out", f"checkpoint-{STEPS // 2}"), kind)
    ours = trained_tensors(os.path.join(where, "out"), kind)
    theirs = their_tensors(trainer.model, kind)
    moved = sum((ours[name] - start[name]).square().sum() for name in theirs).sqrt().item()
    if not moved > 0:
        raise RuntimeError("trainspool did not train")
    for name, tensor in theirs.items():
        # of small tensors a part of the whole change, too: some barely move
        limit = WEIGHT_TOLERANCE * ((ours[name] - start[name]).norm().item() + 1e-2 * moved)
        apart = (tensor - ours[name]).norm().item()
        if not apart <= limit:
            raise RuntimeError(f"{name} differs by {apart:.3g}, at most {limit:.3g} is expected")


def check_way(program, where, kind, way, rng):
    tied = "lm_head.weight" not in trained_tensors(os.path.join(where, "base"), kind)
    schedule, warmup = rng.choice(SCHEDULES)
    lines = lines_of(way, kind, tied)
    job = write_job(os.path.join(where, "job.yaml"), schedule, warmup, lines)
    saved.run(program, "run", "-q", "--set", "trainspool.device=cpu", "job.yaml", cwd=where)
    trainer = resume(where, open_model(where, kind, job), job)
    compare_curves(where, trainer)
    compare_weights(where, trainer, kind)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--kind", choices=list(models.KINDS))
    parser.add_argument("--way", choices=WAYS)
    parser.add_argument("program")
    options = parser.parse_args()
    program, failures, count = os.path.abspath(options.program), 0, 0
    for kind in [options.kind] if options.kind else models.KINDS:
        for way in [options.way] if options.way else WAYS:
            rng = random.Random(f"{options.seed} {kind}")
            values = models.KINDS[kind](rng) | {"vocab_size": saved.VOCABULARY, "bos_token_id": 256,
                                                "eos_token_id": 257, "pad_token_id": 256}
            if OLD:
                values = older_keys(values, kind)
            elif kind == "gpt_neox":
                # transformers 5 saves embed_out.weight, and its Trainer resumes with lm_head.weight only
                values["tie_word_embeddings"] = True
            with tempfile.TemporaryDirectory() as where:
                models.write(os.path.join(where, "base"), kind, values, options.seed)
                saved.write_tokenizer(os.path.join(where, "base"))
                text = "".join(rng.choices("abcdefghijklmnopqrstuvwxyz ", k=TOKENS - 1)) # a token each
                with open(os.path.join(where, "records.jsonl"), "w", encoding="utf-8") as f:
                    f.write((json.dumps({"text": text}) + "\n") * (BATCH * STEPS))
                try:
                    check_way(program, where, kind, way, random.Random(f"{options.seed} {kind} {way}"))
                    count += 1
                except Exception as failure: # pylint: disable=broad-except
                    failures += 1
                    print(f"{kind}, {way}: {failure}\n    {values}")
    print(f"torch_state: {count} runs continue, {failures} differ (transformers {transformers.__version__}, "
          f"peft {peft.__version__}, torch {torch.__version__})")
    sys.exit(failures > 0)


if __name__ == "__main__":
    main()
