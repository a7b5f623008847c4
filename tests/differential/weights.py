#!/usr/bin/env python3
"""Compare what `plan` says about the formats of weights with what the installed packages do.

    weights.py PROGRAM

PROGRAM is trainspool.  Small random models, in each format and with each `dtype` of config.json, are
loaded by the installed transformers, get adapters from the installed PEFT, are quantized if
bitsandbytes is installed, and are given to TRL's SFTTrainer and LLaMA-Factory's init_adapter if these
are installed.  The formats of the
trained parameters and of the base model are compared with `plan --json` of a job that names these
versions.  Nothing is trained and no GPU is required.  A difference makes the exit status 1; the status is
77 if torch or transformers is not installed.
"""
import importlib.metadata
import itertools
import json
import os
import subprocess
import sys
import tempfile
import warnings

warnings.filterwarnings("ignore")
os.environ.update(TRANSFORMERS_VERBOSITY="error", TQDM_DISABLE="1", HF_DATASETS_DISABLE_PROGRESS_BARS="1",
                  DISABLE_VERSION_CHECK="1")  # LLaMA-Factory's, of packages that nothing here uses
try:
    import torch
    import transformers
except ImportError as missing:
    print(f"weights: {missing}", file=sys.stderr)
    sys.exit(77)


def optional(name):
    try:
        return __import__(name)
    except Exception:  # a package that does not fit the others raises various exceptions
        return None


peft, bitsandbytes, trl = optional("peft"), optional("bitsandbytes"), optional("trl")
factory = optional("llamafactory")
FORMATS = ("float32", "bfloat16", "float16")
# Formats of the files and of config.json; None: config.json does not say.
MODELS = [(f, f) for f in FORMATS] + [("float16", "bfloat16"), ("bfloat16", "float32"), ("float16", None)]
GIVEN = (None, "auto") + FORMATS


def version_of(package):
    return tuple(int(part) for part in package.__version__.split(".")[:2] if part.isdigit())


def versions(of_factory=False):
    found = {p.__name__: p.__version__ for p in (torch, transformers, peft, bitsandbytes, trl) if p}
    if of_factory:  # a job that names it is its own
        found["llamafactory"] = importlib.metadata.version("llamafactory")
    return "{%s}" % ", ".join(f'{name}: "{version}"' for name, version in found.items())


def save_model(folder, files, said):
    config = transformers.LlamaConfig(vocab_size=64, hidden_size=64, intermediate_size=128, num_hidden_layers=1,
                                      num_attention_heads=2, num_key_value_heads=2, tie_word_embeddings=False)
    torch.manual_seed(0)
    transformers.LlamaForCausalLM(config).to(getattr(torch, files)).save_pretrained(folder)
    name = os.path.join(folder, "config.json")
    with open(name, encoding="utf-8") as f:
        root = json.load(f)
    root.pop("dtype", None)
    root.pop("torch_dtype", None)
    if said:
        root["torch_dtype"] = said
    with open(name, "w", encoding="utf-8") as f:
        json.dump(root, f)


class Case:
    """A way to train: all weights, adapters, whole modules next to them; quantized or not; TRL or a script."""

    def __init__(self, method, quantized=False, by_trl=False):
        self.method, self.quantized, self.by_trl = method, quantized, by_trl

    def __str__(self):
        return f"{'TRL' if self.by_trl else 'script'} {self.method}{' 4-bit' if self.quantized else ''}"

    def job(self, folder, given):
        lines = [f"model_name_or_path: {folder}"]
        if self.by_trl:
            lines += ["use_peft: true"] if self.method != "full" else []
            lines += ["load_in_4bit: true"] if self.quantized else []
            lines += ["lora_modules_to_save: [lm_head]"] if self.method == "whole" else []
        else:
            lines += [f"finetuning_type: {'full' if self.method == 'full' else 'lora'}"]
            lines += ["quantization_bit: 4"] if self.quantized else []
            lines += ["additional_target: lm_head"] if self.method == "whole" else []
        lines += [f"torch_dtype: {given}"] if given else []
        command = "[trl, sft]" if self.by_trl else "[python, train.py]"
        # policy report: `plan` describes the job after the safe edits, and nothing must change here
        return "\n".join(lines) + ("\ntrainspool: {target: external, policy: report, "
                                   f"command: {command}, versions: {versions()}}}\n")

    def load(self, folder, given):
        named = {"torch_dtype": given} if given else {}
        if self.by_trl and version_of(trl) >= (0, 27) and not given:
            named = {"torch_dtype": trl.ModelConfig().dtype}
        if self.quantized:
            compute = getattr(torch, given) if given in FORMATS else None
            named["quantization_config"] = transformers.BitsAndBytesConfig(
                load_in_4bit=True, bnb_4bit_compute_dtype=compute,
                **({"bnb_4bit_quant_storage": compute} if self.by_trl and compute else {}))
            named["device_map"] = {"": "cpu"}
        return transformers.AutoModelForCausalLM.from_pretrained(folder, **named)

    def prepare(self, model):
        """Return the model as the optimizer gets it."""
        if self.method == "full":
            return model
        adapters = peft.LoraConfig(r=2, target_modules=["q_proj"], task_type="CAUSAL_LM",
                                   modules_to_save=["lm_head"] if self.method == "whole" else None)
        if self.by_trl:
            return train_by_trl(model, adapters)
        if self.quantized:
            model = peft.prepare_model_for_kbit_training(model)
        return peft.get_peft_model(model, adapters)


def train_by_trl(model, adapters):
    import datasets
    import tokenizers

    words = tokenizers.Tokenizer(tokenizers.models.WordLevel({"a": 0, "b": 1, "</s>": 2}, unk_token="a"))
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=words, eos_token="</s>", pad_token="</s>")
    with tempfile.TemporaryDirectory() as folder:
        settings = trl.SFTConfig(output_dir=folder, use_cpu=True, bf16=False, report_to=[], max_length=4)
        return trl.SFTTrainer(model=model, args=settings, processing_class=tokenizer, peft_config=adapters,
                              train_dataset=datasets.Dataset.from_dict({"text": ["a b"] * 2})).model


class FactoryCase:
    """A way to train in LLaMA-Factory, which loads the compute format whatever the files have."""

    def __init__(self, method):
        self.method = method

    def __str__(self):
        return f"LLaMA-Factory {self.method}"

    def job(self, folder, key):
        method = "lora" if self.method == "whole" else self.method
        whole = "additional_target: lm_head\n" if self.method == "whole" else ""
        return (f"model_name_or_path: {folder}\nstage: sft\ntemplate: default\nfinetuning_type: {method}\n{whole}"
                f"{key}: true\ntrainspool: {{target: external, policy: report, "
                f"command: [llamafactory-cli, train, job.yaml], versions: {versions(True)}}}\n")

    def load(self, folder, key):
        self.pure, self.format = key == "pure_bf16", torch.float16 if key == "fp16" else torch.bfloat16
        return transformers.AutoModelForCausalLM.from_pretrained(folder, torch_dtype=self.format)

    def prepare(self, model):
        from llamafactory import hparams
        from llamafactory.model.adapter import init_adapter

        model_args = hparams.ModelArguments(model_name_or_path="model")
        model_args.compute_dtype = self.format
        settings = hparams.FinetuningArguments(
            finetuning_type="lora" if self.method == "whole" else self.method, pure_bf16=self.pure,
            lora_target="q_proj", additional_target="lm_head" if self.method == "whole" else None,
            freeze_trainable_layers=1)
        return init_adapter(model.config, model, model_args, settings, True)


def trials():
    yield from itertools.product(cases(), GIVEN)
    if factory and peft:
        yield from itertools.product(map(FactoryCase, ("full", "freeze", "lora", "whole")),
                                     ("bf16", "fp16", "pure_bf16"))


def cases():
    methods = ["full"] + (["lora", "whole"] if peft else [])
    yield from (Case(method) for method in methods)
    if peft and bitsandbytes:
        yield from (Case(method, quantized=True) for method in methods[1:])
    if peft and trl and version_of(trl) >= (0, 20):  # with SFTConfig's max_length
        yield from (Case(method, by_trl=True) for method in methods)
        # before 0.26 TRL takes 4-bit weights on a CPU for sharded ones, which it treats differently
        if bitsandbytes and version_of(trl) >= (0, 26):
            yield from (Case(method, True, True) for method in methods[1:])


def name_of(dtype):
    return str(dtype).replace("torch.", "")


def real(case, folder, given):
    model = case.load(folder, given)
    base = name_of(model.model.norm.weight.dtype)
    trained = {name_of(p.dtype) for p in case.prepare(model).parameters() if p.requires_grad}
    worst = next(f for f in ("float16", "bfloat16", "float32") if f in trained)
    return {"trainable": worst, "frozen": base if case.method != "full" else None}


def ours(program, case, folder, given):
    job = os.path.join(folder, "job.yaml")
    with open(job, "w", encoding="utf-8") as f:
        f.write(case.job(folder, given))
    out = subprocess.run([program, "plan", "--json", "--device", "H100", job], capture_output=True, text=True)
    precision = json.loads(out.stdout)["precision"]
    return {"trainable": precision["trainable_dtype"], "frozen": precision["frozen_dtype"]}


def scaler_error(dtype):
    """Return the error of torch's scaler for a gradient of this format on the GPU, or None."""
    weight = torch.nn.Parameter(torch.ones(2, dtype=dtype, device="cuda"))
    optimizer = torch.optim.AdamW([weight])
    scaler = torch.amp.GradScaler("cuda")
    scaler.scale(weight.float().sum()).backward()
    try:
        scaler.step(optimizer)
    except (ValueError, RuntimeError, NotImplementedError) as error:
        return str(error)
    return None


def main():
    program, tried, different = sys.argv[1], 0, 0
    with tempfile.TemporaryDirectory() as root:
        for i, (files, said) in enumerate(MODELS):
            folder = os.path.join(root, str(i))
            save_model(folder, files, said)
            for case, given in trials():
                if str(case).startswith("TRL") and case.quantized and given == "auto":
                    continue  # bnb_4bit_compute_dtype must be a format
                theirs, mine = real(case, folder, given), ours(program, case, folder, given)
                tried += 1
                if theirs != mine:
                    different += 1
                    print(f"weights: {case}, files {files}, config.json {said}, with {given}: "
                          f"the packages {theirs}, plan {mine}")
    if torch.cuda.is_available():
        tried += 3
        for name in FORMATS:
            if (scaler_error(getattr(torch, name)) is None) != (name == "float32"):
                different += 1
                print(f"weights: the scaler's answer to {name} differs from TS105")
    print(f"{tried} trials of weights: {f'{different} differences' if different else 'no differences'}")
    sys.exit(different > 0)


if __name__ == "__main__":
    main()
