#!/usr/bin/env python3
"""Give adapters that PEFT made to `trainspool run`, and compare what they compute.

    adapters.py [--only NAME] PROGRAM

PROGRAM is trainspool.  Each kind of adapter gets random weights and is saved by PEFT.  Trainspool merges it
into its base, and trains it further with a learning rate that changes nothing; the logits of both results
must be PEFT's.  Kinds that are not supported must be refused with the name of their key.  A difference makes
the exit status 1; the status is 77 if torch, transformers or peft is not installed.
"""
import argparse
import os
import subprocess
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
    print(f"adapters: {missing}", file=sys.stderr)
    sys.exit(77)

import models
import saved

TOLERANCE = 2e-5 # of logits, relative to the largest
LINEAR = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]

# NAME: (settings of LoraConfig, whether the base ties its head, words of the refusal or None)
KINDS = {
    "all": ({"target_modules": LINEAR}, False, None),
    "all-linear": ({"target_modules": "all-linear"}, False, None),
    "expression": ({"target_modules": r".*\.(self_attn|mlp)\.(q|v|up)_proj"}, True, None),
    "expression with groups": ({"target_modules": "(?:.*?(?:language|text)?.*?(?:self_attn|mlp).*?"
                                                  "(?:k_proj|down_proj).*?)"}, False, None),
    "excluded": ({"target_modules": "all-linear", "exclude_modules": ["k_proj", "v_proj"]}, False, None),
    "rslora": ({"target_modules": ["q_proj"], "use_rslora": True}, False, None),
    "a name without a layer": ({"target_modules": ["q_proj", "c_attn"]}, False, None),
    "equal patterns": ({"target_modules": ["q_proj", "v_proj"], "rank_pattern": {"q_proj": 2, "v_proj": 2},
                        "alpha_pattern": {r"layers\.\d+\.self_attn\..*": 12}}, False, None),
    "all layers listed": ({"target_modules": ["up_proj"], "layers_to_transform": [0, 1]}, False, None),
    "gaussian": ({"target_modules": ["q_proj"], "init_lora_weights": "gaussian"}, False, None),
    "orthogonal": ({"target_modules": ["q_proj"], "init_lora_weights": "orthogonal"}, False, None),
    "modules_to_save": ({"target_modules": ["q_proj"], "modules_to_save": ["embed_tokens", "lm_head"]}, False, None),
    "saved norm": ({"target_modules": ["q_proj"], "modules_to_save": ["norm"]}, True, None),
    "tied, saved apart": ({"target_modules": ["q_proj"], "modules_to_save": ["embed_tokens", "lm_head"]}, True,
                          None),
    "one layer": ({"target_modules": ["q_proj"], "layers_to_transform": [1]}, False, "in 1 of 2 layers"),
    "one layer by name": ({"target_modules": ["layers.1.self_attn.q_proj"]}, False, "in 1 of 2 layers"),
    "rank_pattern": ({"target_modules": ["q_proj", "v_proj"], "rank_pattern": {"q_proj": 2}}, False, "rank_pattern"),
    "alpha_pattern": ({"target_modules": ["q_proj", "v_proj"], "alpha_pattern": {"q_proj": 2}}, False,
                      "alpha_pattern"),
    "embeddings": ({"target_modules": ["q_proj", "embed_tokens"]}, False, "embed_tokens"),
    "head": ({"target_modules": ["q_proj", "lm_head"]}, False, "lm_head"),
    "bias": ({"target_modules": ["q_proj"], "bias": "all"}, False, "bias"),
    "lora_bias": ({"target_modules": ["q_proj"], "lora_bias": True}, False, "lora_bias"),
    "dora": ({"target_modules": ["q_proj"], "use_dora": True}, False, None),
    "oft": ({"target_modules": ["q_proj", "down_proj"], "oft_block_size": 4}, False, None),
    "oft by rank": ({"target_modules": "all-linear", "r": 3, "oft_block_size": 0}, False, None),
    "oft exact": ({"target_modules": ["v_proj", "o_proj"], "oft_block_size": 8, "use_cayley_neumann": False}, False, None),
    "oft with more terms": ({"target_modules": ["up_proj"], "oft_block_size": 5, "num_cayley_neumann_terms": 7,
                             "modules_to_save": ["norm"]}, False, None),
    "coft": ({"target_modules": ["q_proj"], "oft_block_size": 4, "coft": True}, False, "coft"),
    "shared blocks": ({"target_modules": ["q_proj"], "oft_block_size": 4, "block_share": True}, False, "block_share"),
    "pissa": ({"target_modules": ["q_proj"], "init_lora_weights": "pissa"}, False, None),
    "pissa_niter_4": ({"target_modules": ["q_proj"], "init_lora_weights": "pissa_niter_4"}, False,
                      "init_lora_weights pissa"),
    "olora": ({"target_modules": ["q_proj"], "init_lora_weights": "olora"}, False, "init_lora_weights olora"),
    "trainable tokens": ({"target_modules": ["q_proj"], "trainable_token_indices": [1, 2]}, False,
                         "trainable_token_indices"),
    "layer replication": ({"target_modules": ["q_proj"], "layer_replication": [[0, 2], [0, 2]]}, False,
                          "layer_replication"),
    "aLoRA": ({"target_modules": ["q_proj"], "alora_invocation_tokens": [1]}, False, "alora_invocation_tokens"),
    "parameters": ({"target_modules": ["q_proj"], "target_parameters": ["mlp.up_proj.weight"]}, False,
                   "target_parameters"),
}
IDS = torch.arange(40).unsqueeze(0)


def make(where, settings, tied):
    """Save base and adapter with random weights; return the logits that PEFT computes."""
    models.write(os.path.join(where, "base"), "llama",
                 {"vocab_size": saved.VOCABULARY, "hidden_size": 16, "intermediate_size": 24,
                  "num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 1,
                  "max_position_embeddings": 512, "tie_word_embeddings": tied}, 1)
    saved.write_tokenizer(os.path.join(where, "base"))
    base = transformers.AutoModelForCausalLM.from_pretrained(os.path.join(where, "base"), dtype=torch.float32)
    if "oft_block_size" in settings:
        config = peft.OFTConfig(task_type="CAUSAL_LM", **settings)
    else:
        config = peft.LoraConfig(r=4, lora_alpha=6, task_type="CAUSAL_LM", **settings)
    model = peft.get_peft_model(base, config)
    torch.manual_seed(2)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.requires_grad:
                parameter.add_(0.1 * torch.randn(parameter.shape))
        model.save_pretrained(os.path.join(where, "adapter"))
        return model.eval()(input_ids=IDS).logits


def write(path, lines):
    with open(path, "w", encoding="utf-8") as f:
        f.write("model_name_or_path: base\nadapter_name_or_path: adapter\nfinetuning_type: lora\ntemplate: chatml\n"
                + lines)


def run(program, where, name, lines):
    """Return the error of a job, or None."""
    write(os.path.join(where, name + ".yaml"), lines)
    done = subprocess.run([program, "run", "-q", name + ".yaml"], cwd=where, capture_output=True, text=True)
    return done.stdout + done.stderr if done.returncode else None


def check(program, where, settings, tied, refusal):
    theirs = make(where, settings, tied)
    merge = run(program, where, "merge", "export_dir: merged\n")
    more = run(program, where, "more", "stage: sft\ndataset: chats.jsonl\noutput_dir: again\nmax_steps: 1\n"
               "learning_rate: 1.0e-30\nsave_strategy: 'no'\n")
    if refusal:
        if not merge or not more:
            return "accepted"
        return None if refusal in merge and refusal in more else f"refused without \"{refusal}\": {merge}\n{more}"
    if merge or more:
        return f"refused: {merge or more}"
    base = transformers.AutoModelForCausalLM.from_pretrained(os.path.join(where, "base"), dtype=torch.float32)
    merged = transformers.AutoModelForCausalLM.from_pretrained(os.path.join(where, "merged"), dtype=torch.float32)
    again = peft.PeftModel.from_pretrained(base, os.path.join(where, "again"))
    with torch.no_grad():
        for name, model in (("merged", merged), ("trained further", again)):
            apart = (model.eval()(input_ids=IDS).logits - theirs).abs().max() / theirs.abs().max()
            if not apart <= TOLERANCE:
                return f"{name}: logits differ by {apart:.2g} of the largest"
    return None


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", choices=list(KINDS))
    parser.add_argument("program")
    options = parser.parse_args()
    program, failures, count = os.path.abspath(options.program), 0, 0
    for name in [options.only] if options.only else KINDS:
        settings, tied, refusal = KINDS[name]
        with tempfile.TemporaryDirectory() as where:
            saved.write_data(os.path.join(where, "chats.jsonl"), saved.random.Random(1))
            try:
                trouble = check(program, where, settings, tied, refusal)
            except TypeError as unknown: # this PEFT has no such setting
                print(f"{name}: {unknown}")
                continue
        count += 1
        failures += trouble is not None
        if trouble:
            print(f"{name}: {trouble}")
    print(f"adapters: {count - failures} of {count} kinds agree (peft {peft.__version__})")
    sys.exit(failures > 0)


if __name__ == "__main__":
    main()
