#!/usr/bin/env python3
"""Load what `trainspool run` saves of models that read sound and images with transformers and PEFT, and compare
loss and greedy answers about real files.

    saved_media.py [--kind NAME] PROGRAM

PROGRAM is trainspool.  The models, files and records are those of tests/golden/media_curve.py.  Each model is
trained in full with a frozen projector and with a trained one, and with LoRA, alone and with the projector in
modules_to_save, merged at the end; and in full and by LoRA with its encoder.  Adapters of the encoder are also merged and
evaluated by jobs of their own, and merged before a new adapter.  The folders are opened with their own
tokenizer and processor: nothing may warn, no tensor may be missing or unexpected, the loss of the records must be the
one that the run logged, the greedy answer about a file must be that of `trainspool generate`, and of the run's
last evaluation, and merged weights must be those that PEFT merges.  A difference makes the exit status 1; the status is 77 if a package is not installed.
"""
import argparse
import contextlib
import json
import logging
import os
import re
import sys
import tempfile
import warnings
import wave

os.environ.update(TQDM_DISABLE="1", TOKENIZERS_PARALLELISM="false")
sys.path.insert(1, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "golden"))
try:
    import peft
    import torch
    import torchvision # pylint: disable=unused-import # of the processors of images
    import transformers
    import media_curve as curve
    import media_generate
except ImportError as missing:
    print(f"saved_media: {missing}", file=sys.stderr)
    sys.exit(77)

from saved import logged_loss, run, write_job

LOSS_TOLERANCE = 1e-5 # relative: both sides compute in fp32, with sums in other orders
RATE = 0.01
# Models whose projector is not trained, and the name of a projector other than multi_modal_projector.
FROZEN = {"gemma4_unified", "phi4_multimodal"}
# Models whose encoder is not trained.
NO_ENCODER = {"gemma4_unified", "glm4v", "internvl", "llama4", "phi4_multimodal"}
KINDS = list(curve.CASES)
SOUND = {"phi4_multimodal", "qwen2_audio"}
BOS = {"bos_token": "<bos>"}
SPECIALS = {"gemma3": BOS, "gemma4_unified": BOS, "llama4": BOS, "mistral3": BOS,
            "mllama": {"bos_token": "<|begin_of_text|>", "eos_token": "<|eot_id|>"}, "paddleocr_vl": {"eos_token": "</s>"}}
PROJECTORS = {"glm4v": "merger", "paddleocr_vl": "projector", "qwen2_5_vl": "merger", "qwen3_vl": "merger"}


@contextlib.contextmanager
def nothing_warns():
    """Fail at the end if something was logged or warned about."""
    heard = []

    class Listener(logging.Handler):
        def emit(self, record):
            heard.append(record.getMessage())

    listener, logger = Listener(logging.WARNING), logging.getLogger("transformers")
    logger.addHandler(listener)
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            yield
    finally:
        logger.removeHandler(listener)
    heard += [str(w.message) for w in caught]
    heard = [line for line in heard if "is deprecated" not in line # of PEFT, in transformers
             and not line.endswith("{'mrope_section'}")] # of the class of PaddleOCR-VL, also on its own files
    if heard:
        raise RuntimeError(f"a warning: {heard[0]}")


def write_files(where, name, items):
    """Write a file and a record for each item; return the paths."""
    sound, paths = name in SOUND, []
    for i, item in enumerate(items):
        paths.append(os.path.join(where, f"{i}.wav" if sound else f"{i}.png"))
        if sound:
            with wave.open(paths[-1], "wb") as file:
                file.setparams((1, 2, 16000, 0, "NONE", None))
                file.writeframes(curve.samples(name, i, item).tobytes())
        else:
            curve.picture(name, i, item).save(paths[-1])
    with open(os.path.join(where, "chats.jsonl"), "w", encoding="utf-8") as file:
        for i, path in enumerate(paths):
            messages = [{"role": "user", "content": f"<{'audio' if sound else 'image'}>What is {i}?"},
                        {"role": "assistant", "content": f"It is {i * 7 % 5}."}]
            print(json.dumps({"messages": messages, "audios" if sound else "images": [os.path.basename(path)]}),
                  file=file)
    return paths


def write_base(folder, name, values, settings):
    os.mkdir(folder)
    curve.make(name, values, settings, folder)
    media_generate.tokenizer_of(name).save(os.path.join(folder, "tokenizer.json"))
    curve.write(folder, "tokenizer_config.json",
                {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "<|im_end|>"} | SPECIALS.get(name, {}))
    if name in curve.OWN_TEMPLATES:
        with open(os.path.join(folder, "chat_template.jinja"), "w", encoding="utf-8") as file:
            file.write(curve.OWN_TEMPLATES[name])


def open_whole(folder):
    config = transformers.AutoConfig.from_pretrained(folder)
    with nothing_warns():
        model, info = curve.class_of(config).from_pretrained(
            folder, dtype=torch.float32, attn_implementation="eager", output_loading_info=True)
    if surplus := {k: v for k, v in info.items() if v}:
        raise RuntimeError(f"transformers reports {surplus}")
    return model


def open_adapter(folder):
    with open(os.path.join(folder, "adapter_config.json"), encoding="utf-8") as file:
        base = json.load(file)["base_model_name_or_path"]
    config = transformers.AutoConfig.from_pretrained(base)
    model = curve.load(config, base)
    with nothing_warns():
        return peft.PeftModel.from_pretrained(model, folder)


def answer(model, batch):
    prompt = batch["input_ids"][0][batch["labels"][0] == -100].tolist()
    return media_generate.generate(model, batch, prompt)[0]


def same(name, ours, made, ids):
    """Compare a completion with tokens, of which the last may end it; characters that are none are one."""
    text = media_generate.tokenizer_of(name).decode(ids[:made], skip_special_tokens=True)
    return re.sub("\ufffd+", "\ufffd", ours) == re.sub("\ufffd+", "\ufffd", text)


def run_answer(where, job):
    """Return the first answer of the last evaluation."""
    with open(os.path.join(where, job + ".run", "samples.jsonl"), encoding="utf-8") as file:
        return json.loads(file.readline())["after"]


def compare(program, where, job, folder, opened, name, items, paths):
    """The tokenizer and the processor of a folder are those that users load."""
    path, loss = os.path.join(where, folder), logged_loss(where, job)
    settings = curve.CASES[name][1]
    model = opened(path).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(path)
    if tokenizer.get_vocab() != media_generate.tokenizer_of(name).get_vocab():
        raise RuntimeError("the tokenizer has other tokens")
    batch, hooks = curve.encode(name, path, settings, items), []
    if "cross_attention_mask" in batch: # docs/media.md: rows before the first image see nothing
        base = model.get_base_model() if isinstance(model, peft.PeftModel) else model
        hooks = curve.hide_early_rows(base, batch["cross_attention_mask"])
    with torch.no_grad():
        theirs = curve.loss_of(model, batch).item()
    for hook in hooks:
        hook.remove()
    if not abs(theirs - loss) <= LOSS_TOLERANCE * abs(loss):
        raise RuntimeError(f"loss {theirs:.9g}, and the run logged {loss:.9g}")
    ids = answer(model, media_generate.encode(name, path, settings, items[:1]))
    out = json.loads(run(program, "generate", "--json", "--device", "cpu", "--max-new-tokens", str(media_generate.NEW),
                         *(["--template", curve.TEMPLATES[name][0]] if curve.TEMPLATES[name][0] else []),
                         "--audio" if name in SOUND else "--image", paths[0],
                         "--prompt", "What is 0?", folder, cwd=where))
    if not same(name, out["completion"], out["tokens"], ids) or (out["end"] == "length") != (out["tokens"] == len(ids)):
        raise RuntimeError(f"tokens {ids}, and trainspool's completion is {out}")
    if out["completion"] != run_answer(where, job):
        raise RuntimeError(f"{run_answer(where, job)!r} in the run, and {out['completion']!r} by generate")


def merged_by_peft(where, merged, adapter):
    """The weights of a merged folder are those of PEFT."""
    theirs = open_adapter(os.path.join(where, adapter)).merge_and_unload().state_dict()
    ours = open_whole(os.path.join(where, merged)).state_dict()
    if ours.keys() != theirs.keys():
        raise RuntimeError("the merged folder has other weights")
    for key, value in theirs.items():
        apart = (ours[key] - value).abs().max()
        if not apart <= 1e-6 * value.abs().max():
            raise RuntimeError(f"{key}: merged weights differ by {apart:.2g}")


def use_adapter(program, where, name, adapter, items, paths):
    """Merge and evaluate an adapter by jobs of their own, and train a new one on top of it."""
    template = curve.TEMPLATES[name][0]
    path = os.path.join(where, "merge.yaml")
    with open(path, "w", encoding="utf-8") as file:
        print(f"model_name_or_path: base\nadapter_name_or_path: {adapter}\ntemplate: {json.dumps(template)}\n"
              "export_dir: apart", file=file)
    run(program, "run", "-q", "merge.yaml", cwd=where)
    merged_by_peft(where, "apart", adapter)
    compare(program, where, adapter, "apart", open_whole, name, items, paths)
    lines = {"finetuning_type": "lora", "adapter_name_or_path": adapter}
    write_job(os.path.join(where, "eval.yaml"), template,
              lines | {"do_train": False, "do_eval": True, "output_dir": "eval"})
    run(program, "run", "-q", "eval.yaml", cwd=where)
    with open(os.path.join(where, "eval", "eval_results.json"), encoding="utf-8") as file:
        loss, trained = json.load(file)["eval_loss"], logged_loss(where, adapter)
    if not abs(loss - trained) <= LOSS_TOLERANCE * abs(trained):
        raise RuntimeError(f"evaluated loss {loss:.9g}, and the run logged {trained:.9g}")
    write_job(os.path.join(where, "next.yaml"), template,
              lines | {"create_new_adapter": True, "lora_rank": 4, "lora_target": "all", "freeze_vision_tower": False,
                       "learning_rate": RATE, "predict_with_generate": True, "do_sample": False,
                       "max_new_tokens": media_generate.NEW, "export_dir": "both", "output_dir": "next"})
    run(program, "run", "-q", "next.yaml", cwd=where)
    compare(program, where, "next", "both", open_whole, name, items, paths)


def jobs_of(name):
    """Return names, keys, and the folders with the functions that open them."""
    projector = PROJECTORS.get(name, "multi_modal_projector")
    lora = {"finetuning_type": "lora", "lora_rank": 4, "lora_target": "all"}
    yield "full", {"finetuning_type": "full"}, [("full", open_whole)]
    yield "lora", lora | {"export_dir": "merged"}, [("lora", open_adapter), ("merged", open_whole)]
    if name not in NO_ENCODER:
        encoder = {"freeze_vision_tower": False}
        yield "encoder", {"finetuning_type": "full"} | encoder, [("encoder", open_whole)]
        merged = {"export_dir": "merged"}
        yield "encoder_lora", lora | encoder | merged, [("encoder_lora", open_adapter), ("merged", open_whole)]
        yield ("encoder_lora_alone", lora | encoder | merged | {"freeze_language_model": True},
               [("encoder_lora_alone", open_adapter), ("merged", open_whole)])
        if name not in FROZEN:
            yield ("encoder_lora_saved", lora | encoder | merged | {"additional_target": projector},
                   [("encoder_lora_saved", open_adapter), ("merged", open_whole)])
    if name in FROZEN:
        return
    yield "projector", {"finetuning_type": "full", "freeze_multi_modal_projector": False}, [("projector", open_whole)]
    yield ("saved", lora | {"additional_target": projector, "export_dir": "merged"},
           [("saved", open_adapter), ("merged", open_whole)])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--kind", choices=KINDS)
    parser.add_argument("program")
    options = parser.parse_args()
    program, failures, count = os.path.abspath(options.program), 0, 0
    transformers.logging.set_verbosity_warning()
    transformers.logging.disable_progress_bar()
    torch.set_num_threads(1)
    curve.MORE.pop("internvl") # a folder has no crop_to_patches, which is a key of jobs
    curve.WHOLE = () # no job trains on its prompts
    for name in [options.kind] if options.kind else KINDS:
        values, settings, items = curve.CASES[name]
        for job, lines, saved in jobs_of(name):
            with tempfile.TemporaryDirectory() as where:
                write_base(os.path.join(where, "base"), name, values, settings)
                paths, folder = write_files(where, name, items), job
                try:
                    write_job(os.path.join(where, job + ".yaml"), curve.TEMPLATES[name][0],
                              {"learning_rate": RATE, "predict_with_generate": True, "do_sample": False,
                               "max_new_tokens": media_generate.NEW, **lines, "output_dir": job})
                    run(program, "run", "-q", job + ".yaml", cwd=where)
                    for folder, opened in saved:
                        compare(program, where, job, folder, opened, name, items, paths)
                        count += 1
                    if job.startswith("encoder_lora"):
                        folder = "merged"
                        merged_by_peft(where, folder, job)
                        folder = "apart, eval or both"
                        use_adapter(program, where, name, job, items, paths)
                except Exception as failure: # pylint: disable=broad-except
                    failures += 1
                    print(f"{name}, {job}, {folder}: {failure}")
    print(f"saved_media: {count} folders agree, {failures} differ (transformers {transformers.__version__}, "
          f"peft {peft.__version__})")
    sys.exit(failures > 0)


if __name__ == "__main__":
    main()
