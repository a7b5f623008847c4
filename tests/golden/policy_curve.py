#!/usr/bin/env python3
"""Make policy_curve.json: TRL's GRPOTrainer on given answers, step by step.

    python3 tests/golden/policy_curve.py SHARED/data > tests/golden/policy_curve.json
    python3 tests/golden/policy_curve.py SHARED/data dapo    one run

TRL 1.16 trains stories260K, or an adapter with the weights of lora.py, in double.  Its answers do not
come from the model: they are drawn here, with their rewards, and so that several lengths, ends and
groups of equal rewards occur.  TRL deals the answers of a generation to micro-batches at random; here
they keep their order.  Loss and norm are those of its own _compute_loss and of the gradients that it
clips.  Each run has its job without the model and the data.
"""
import contextlib
import json
import os
import random
import sys
import tempfile

import torch
import transformers
import trl
from datasets import Dataset
from tokenizers import Tokenizer
from transformers import AutoModelForCausalLM, PreTrainedTokenizerFast
from transformers.models.llama import modeling_llama
from trl.trainer import grpo_trainer

from preference import adapted, norm_in_double

FOLDER, END = "stories260K/hf", 2
PROMPTS = ["What did the kettle do?", "Tell me about Tom.", "Count.", "Was Lily happy?"]
BASE = {"per_device_train_batch_size": 4, "gradient_accumulation_steps": 2, "num_generations": 4,
        "max_completion_length": 12, "learning_rate": 1e-4, "max_steps": 4}
RUNS = {
    "dapo": {},
    "grpo kl": {"loss_type": "grpo", "beta": 0.1, "temperature": 0.7, "num_iterations": 2},
    "bnpo": {"loss_type": "bnpo", "scale_rewards": "batch", "mask_truncated_completions": True},
    "dr_grpo": {"loss_type": "dr_grpo", "scale_rewards": "none", "num_iterations": 3,
                "epsilon": 0.05, "epsilon_high": 0.1, "delta": 1.2, "learning_rate": 3e-4, "max_steps": 6},
    "reused": {"steps_per_generation": 4, "num_iterations": 2, "beta": 0.2, "use_bias_correction_kl": False,
               "epsilon": 0.02, "num_generations": 8, "max_steps": 6, "mask_truncated_completions": True},
    "sequence": {"loss_type": "grpo", "importance_sampling_level": "sequence", "epsilon": 3e-3,
                 "epsilon_high": 4e-3, "num_iterations": 2, "beta": 0.05},
    "gdpo": {"multi_objective_aggregation": "normalize_then_sum", "reward_weights": [1.0, 0.5]},
    "lora": {"finetuning_type": "lora", "beta": 0.1, "num_iterations": 2, "learning_rate": 1e-3},
}
OURS = ("finetuning_type",)


def prompt_of(tokenizer, prompt):
    def ids(text):
        return tokenizer.encode(text, add_special_tokens=False).ids
    return [*ids("Human: " + prompt), END, *ids("\nAssistant:")]


def answers_of(s, rng, equal=False):
    """Return the answers of a generation: tokens and two rewards each."""
    count = s["per_device_train_batch_size"] * s.get("steps_per_generation", s["gradient_accumulation_steps"])
    out = []
    for i in range(count):
        most = s["max_completion_length"]
        length = most if i % 5 == 1 else rng.randrange(1, most)
        ids = [rng.randrange(260, 500) for _ in range(length)]
        if i % 5 != 1:
            ids[-1] = END
        group = i // s["num_generations"]
        out.append({"ids": ids, "rewards": [1.0 if equal and group == 1 else float(rng.randrange(3)), rng.randrange(-4, 5) / 4]})
    return out


class Recorder(grpo_trainer.GRPOTrainer):
    def _compute_loss(self, model, inputs):
        loss = super()._compute_loss(model, inputs)
        self.losses.append(loss.item())
        return loss


class OnLog(transformers.TrainerCallback):
    def __init__(self, rows):
        self.rows = rows

    def on_log(self, args, state, control, logs=None, **kwargs):
        if "grad_norm" in logs:
            self.rows.append(dict(logs))


def train(where, tokenizer, settings, base):
    s = BASE | settings
    rng = random.Random(11)
    tokens = [prompt_of(base, prompt) for prompt in PROMPTS]
    generations, rows = [], []
    reused = s.get("steps_per_generation", 2) // 2 * s.get("num_iterations", 1)
    prompts_each = len(answers_of(s, random.Random(0))) // s["num_generations"]

    def rollout(prompts, trainer):
        answers = answers_of(s, rng, len(generations) == 1)
        first = len(generations) * prompts_each
        for i, answer in enumerate(answers):
            answer["question"] = (first + i // s["num_generations"]) % len(PROMPTS)
            assert prompts[i] == PROMPTS[answer["question"]], (prompts, i)
        generations.append(answers)
        return {"prompt_ids": [tokens[a["question"]] for a in answers],
                "completion_ids": [a["ids"] for a in answers],
                "logprobs": [[0.0] * len(a["ids"]) for a in answers]}

    def reward(index):
        def of(prompts, completions, **kwargs):
            return [a["rewards"][index] for a in generations[-1]]
        of.__name__ = f"reward{index}"
        return of

    if s.get("finetuning_type") == "lora":
        model = adapted(where, {"r": 8, "lora_alpha": 16})[0]
    else:
        model = AutoModelForCausalLM.from_pretrained(where, dtype=torch.float64)
    count = 2 if "reward_weights" in s else 1
    args = {key: x for key, x in s.items() if key not in OURS}
    with tempfile.TemporaryDirectory() as folder:
        config = trl.GRPOConfig(folder, lr_scheduler_type="constant", logging_steps=1, save_strategy="no",
                                report_to="none", use_cpu=True, bf16=False, gradient_checkpointing=False,
                                shuffle_dataset=False, disable_dropout=True, **args)
        trainer = Recorder(model, [reward(i) for i in range(count)], config,
                           Dataset.from_dict({"prompt": PROMPTS}), processing_class=tokenizer,
                           rollout_func=rollout, callbacks=[OnLog(rows)])
        if trainer.ref_model is not None:
            trainer.ref_model.double()
        if "ref" in getattr(trainer.model, "peft_config", {}):
            trainer.model.delete_adapter("ref")  # the reference is the model without an adapter
        trainer.losses = []
        with contextlib.redirect_stdout(sys.stderr):
            trainer.train()
    steps, of_answers = [], {}
    for i, row in enumerate(rows):
        of_answers |= row  # TRL logs what belongs to answers in the step that samples them
        row = of_answers | row
        loss = sum(trainer.losses[2 * i : 2 * i + 2])
        picked = {"loss": loss, "grad_norm": row["grad_norm"], "reward": row["reward"],
                  "reward_std": row["reward_std"], "kl": row.get("kl", 0),
                  "clip_ratio/region_mean": row["clip_ratio/region_mean"],
                  "completions/mean_length": row["completions/mean_length"],
                  "completions/clipped_ratio": row["completions/clipped_ratio"]}
        steps.append({key: float(f"{x:.9g}") for key, x in picked.items()})
    assert len(steps) == s["max_steps"] and len(generations) == -(-len(steps) // reused)
    job = "".join(f"{key}: {x}\n" for key, x in s.items() if key not in ("reward_weights",))
    if count == 2:
        job += "reward_funcs: answer, format\nreward_weights: 1.0, 0.5\n"
    return {"job": job, "generations": generations, "curve": steps}


def main(data, only):
    torch.set_num_threads(1)
    modeling_llama.LlamaRMSNorm.forward = norm_in_double
    grpo_trainer.shuffle_sequence_dict = lambda batch: batch
    where = os.path.join(data, FOLDER)
    base = Tokenizer.from_file(os.path.join(where, "tokenizer.json"))
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=base, eos_token="</s>", pad_token="<unk>")
    assert tokenizer.eos_token_id == END
    runs = {name: train(where, tokenizer, settings, base) for name, settings in RUNS.items()
            if only in ("", name)}
    adapter = adapted(where, {"r": 8, "lora_alpha": 16})[1]
    text = json.dumps({"trl": trl.__version__, "torch": torch.__version__,
                       "transformers": transformers.__version__, "model": FOLDER, "prompts": PROMPTS,
                       "adapter": adapter, "runs": runs})
    print(text.replace("}, ", "},\n").replace("]], [", "]],\n["))


if __name__ == "__main__":
    main(sys.argv[1], *sys.argv[2:] or [""])
