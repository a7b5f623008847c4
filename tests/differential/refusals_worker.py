"""Runs in an environment of parsers.txt: reads requests, one JSON object a line, parses the job as the installed
program does, and answers with the exception, or null if the program accepts the job.

The program sees one process with an A100: the stubs below replace what asks for the device, for the process
group and for optional packages.  Everything else is the program's own code.
"""
import importlib.util
import io
import json
import logging
import os
import sys
import tempfile
import warnings

os.environ.update(DISABLE_VERSION_CHECK="1", CUDA_VISIBLE_DEVICES="", HF_HUB_OFFLINE="1", TRANSFORMERS_VERBOSITY="critical",
                  WANDB_DISABLED="true", LLAMAFACTORY_VERBOSITY="ERROR", TOKENIZERS_PARALLELISM="false")
warnings.simplefilter("ignore")
answers = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)  # what the programs print is not an answer

import torch  # noqa: E402
import transformers  # noqa: E402
from transformers import training_args  # noqa: E402

logging.disable(logging.CRITICAL)


def stub(module, name, value):
    """Replace a name where the module has it."""
    if hasattr(module, name):
        setattr(module, name, value)


def say_yes(*_, **__):
    return True


class Parallel:
    """Stands for TrainingArguments.parallel_mode of the current request."""
    ranks = 1


def parallel_mode(_):
    modes = training_args.ParallelMode
    return modes.DISTRIBUTED if Parallel.ranks > 1 else modes.NOT_PARALLEL


def stub_device():
    # an A100: bfloat16 and tf32
    for name in ("is_torch_bf16_gpu_available", "is_torch_tf32_available", "is_torch_bf16_cpu_available"):
        stub(training_args, name, say_yes)
    stub(training_args, "enable_tf32", lambda *_: None)
    cls = training_args.TrainingArguments
    cls.device = property(lambda self: torch.device("cuda"))
    cls.place_model_on_device = property(lambda self: False)
    cls.n_gpu = property(lambda self: 1)
    cls.parallel_mode = property(parallel_mode)
    cls.world_size = property(lambda self: Parallel.ranks)
    cls.process_index = property(lambda self: 0)
    cls.local_process_index = property(lambda self: 0)
    cls.should_log = property(lambda self: False)


class HfDeepSpeedConfig:
    """The part of transformers.integrations.deepspeed that knows ZeRO 3, without DeepSpeed."""
    zero3 = False

    def __init__(self, settings):
        with open(settings, encoding="utf-8") as file:
            stage = json.load(file)["zero_optimization"]["stage"]
        HfDeepSpeedConfig.zero3 = stage == 3

    def trainer_config_process(self, *_):
        pass


def stub_deepspeed():
    import accelerate.utils
    from transformers.integrations import deepspeed
    deepspeed.HfTrainerDeepSpeedConfig = HfDeepSpeedConfig
    accelerate.utils.DeepSpeedPlugin = lambda **_: None


def open_llamafactory():
    os.environ["ALLOW_EXTRA_ARGS"] = "0"
    from llamafactory.hparams import parser
    for name in ("check_version", "require_version"):  # optional packages
        stub(parser, name, lambda *_, **__: None)
    for name in ("is_torch_bf16_gpu_available", "is_torch_bf16_available"):
        stub(parser, name, say_yes)
    stub(parser, "is_deepspeed_zero3_enabled", lambda: HfDeepSpeedConfig.zero3)

    def run(path):
        sys.argv = ["llamafactory-cli", path]
        model, data, training, finetuning, generating = parser.get_train_args()
        steps = getattr(finetuning, "early_stopping_steps", None)
        if steps is not None:  # train/tuner.py
            callback = transformers.EarlyStoppingCallback(early_stopping_patience=steps)
            callback.on_train_begin(training, transformers.TrainerState(), transformers.TrainerControl())
    return run


class Samples(torch.utils.data.Dataset):
    def __len__(self):
        return 8

    def __getitem__(self, at):
        return {"x": torch.zeros(1)}


def open_transformers():
    trainer = transformers.Trainer  # import it here, not in each child
    transformers.Trainer(torch.nn.Linear(1, 1), transformers.TrainingArguments(output_dir=tempfile.gettempdir()))

    def run(path):
        (args,) = transformers.HfArgumentParser(transformers.TrainingArguments).parse_yaml_file(path)
        if not args.deepspeed and not args.fsdp:  # these need processes
            trainer(torch.nn.Linear(1, 1), args, train_dataset=Samples(), eval_dataset=Samples())
    return run


def open_trl(script):
    import trl
    config = getattr(trl, {"sft": "SFTConfig", "dpo": "DPOConfig", "grpo": "GRPOConfig", "gkd": "GKDConfig"}[script])
    parser_class = getattr(trl, "TrlParser", None)
    if parser_class is None:
        from trl.commands.cli_utils import TrlParser as parser_class

    def run(path):
        parser = parser_class((config, trl.ModelConfig))
        sys.argv = ["trl", "--config", path]
        parser.parse_args_and_config()
    return run


def parse(run, request):
    """Return the exception of the program, or None."""
    Parallel.ranks = request.get("ranks", 1)
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        for name, content in request.get("files", {}).items():
            with open(name, "w", encoding="utf-8") as file:
                file.write(content)
        with open("job.yaml", "w", encoding="utf-8") as file:
            file.write(request["job"])
        try:
            run(os.path.join(folder, "job.yaml"))
        except SystemExit as error:  # argparse
            return f"SystemExit: {error}"
        except Exception as error:
            return f"{type(error).__name__}: {error}"
        finally:
            os.chdir("/")
    return None


def answer(run, request):
    """Parse in a child: the programs keep settings in the environment and in global variables."""
    near, far = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(near)
        sys.stderr = io.StringIO()
        with os.fdopen(far, "w") as out:
            json.dump({"error": parse(run, request)}, out)
        os._exit(0)
    os.close(far)
    with os.fdopen(near) as result:
        text = result.read()
    os.waitpid(child, 0)
    return json.loads(text) if text else {"error": "the process ended"}


def main():
    stub_device()
    stub_deepspeed()
    kind = sys.argv[1]
    run = {"llamafactory": open_llamafactory, "transformers": open_transformers}.get(kind)
    runs = {"": run()} if run else {}
    for line in sys.stdin:
        request = json.loads(line)
        script = request.get("script", "")
        if script not in runs:
            runs[script] = open_trl(script)
        answers.write(json.dumps(answer(runs[script], request)) + "\n")
        answers.flush()


main()
