#!/bin/sh
# Python scripts: the files of tests/scripts/ have the expected findings and texts; formats, edits,
# faults and limits.
. "${top_srcdir-.}/tests/cli/lib.sh"
cases=$source/tests/scripts
cd "$T" || exit 99

printf 'import torch\nscaler = torch.amp.GradScaler("cuda")\n' >probe.py
try "$trainspool" check --device T4 probe.py
if grep -q 'this build cannot read Python scripts' "$T/out"; then
    expect_status "a build without the parser refuses a script" 2 "$trainspool" check probe.py
    expect_output "it says how to get it" 'TS009.*install-deps.sh installs'
    skip "the files of tests/scripts" "this build has no parser of Python"
    plan
    exit 0
fi

findings() { # FILE: one line for each finding
    jq -r '.findings[] | "\(.line):\(.column) \(.severity) \(.rule) \(.applicability) \(.key)"'
}

# SCRIPT_CASES_WRITE=1 writes the expected files, for a person to review.
check_case() { # FILE
    name=$(basename "$1" .py)
    device=$(sed -n 's/^# device: //p' "$1" | head -n 1)
    versions=$(sed -n 's/^# versions: /--versions=/p' "$1" | head -n 1)
    cp "$1" "$name.py"
    "$trainspool" check --json --device "$device" ${versions:+"$versions"} "$name.py" |
        findings >"$name.findings"
    "$trainspool" patch -q --device "$device" ${versions:+"$versions"} "$name.py" >out 2>err
    cp "$name.py" once.py
    "$trainspool" patch -q --device "$device" ${versions:+"$versions"} "$name.py" >out 2>err
    if [ -n "${SCRIPT_CASES_WRITE-}" ]; then
        cp "$name.findings" "$cases/"
        if cmp -s "$1" once.py; then rm -f "$cases/$name.patched"; else cp once.py "$cases/$name.patched"; fi
    fi
    wanted=$cases/$name.patched
    [ -f "$wanted" ] || wanted=$1
    cmp -s once.py "$name.py" || echo "# a second patch changes $name.py"
    diff "$cases/$name.findings" "$name.findings" >out && diff "$wanted" once.py >>out &&
        cmp -s once.py "$name.py"
    ok $? "tests/scripts/$name.py has the expected findings and text"
}
for file in "$cases"/*.py; do
    check_case "$file"
done

# Python's own parser accepts every patched text, if it accepts the script.
if command -v python3 >/dev/null; then
    python3 - "$cases" <<'CHECK' >out 2>err
import ast, pathlib, sys
folder = pathlib.Path(sys.argv[1])
bad = 0
for patched in sorted(folder.glob("*.patched")):
    original = patched.with_suffix(".py").read_bytes()
    if any(line.lstrip()[:1] in (b"!", b"%") for line in original.splitlines()):
        continue
    ast.parse(original)
    try:
        ast.parse(patched.read_bytes())
    except SyntaxError as error:
        bad += 1
        print(patched.name, error)
sys.exit(bad > 0)
CHECK
    ok $? "Python accepts every patched text"
else
    skip "Python accepts every patched text" "no python3"
fi

# Bytes outside the edits stay: CRLF, tabs, a byte order mark, text in other scripts.
printf '\357\273\277# caf\303\251\r\nfrom transformers import TrainingArguments\r\nif True:\r\n\targs = TrainingArguments(\r\n\t\toutput_dir="\346\250\241", # \345\220\215\r\n\t\tbf16=True, # \346\225\260\r\n\t)\r\n' >crlf.py
printf '\357\273\277# caf\303\251\r\nfrom transformers import TrainingArguments\r\nif True:\r\n\targs = TrainingArguments(\r\n\t\toutput_dir="\346\250\241", # \345\220\215\r\n\t\tbf16=False, # \346\225\260\r\n\t\tfp16=True,\r\n\t)\r\n' >crlf.want
expect_status "patch edits a script with CRLF and tabs" 0 "$trainspool" patch --device T4 crlf.py
expect "every other byte stays" cmp crlf.py crlf.want
expect "the backup is next to the script and named like it" sh -c \
    'ls crlf.py.run/backups/*.py >/dev/null && ! ls crlf.py.run/backups/*.yaml 2>/dev/null'
expect_status "backups lists it" 0 "$trainspool" backups --json crlf.py
expect_output "with its name" 'crlf.py.run/backups/[^"]*\.py'
expect_status "review shows the change" 0 "$trainspool" review crlf.py
expect_output "with its rule" 'TS102'
backup=$(ls crlf.py.run/backups)
expect_status "undo --to takes the name of a backup" 0 "$trainspool" undo --to "$backup" crlf.py
expect_status "a second undo redoes the patch" 0 "$trainspool" undo crlf.py
expect "byte for byte again" cmp crlf.py crlf.want
mv "crlf.py.run/backups/$backup" "crlf.py.run/backups/${backup%.py}.yaml"
expect_status "a backup of an older version still counts" 0 "$trainspool" undo --to "${backup%.py}" crlf.py
expect_status "and redoes" 0 "$trainspool" undo crlf.py
expect_status "undo restores the script" 0 "$trainspool" undo crlf.py
expect "byte for byte" sh -c 'grep -q "bf16=True" crlf.py && ! grep -q fp16 crlf.py'

cat >keep.py <<'END2'
import torch
from transformers import AutoModelForCausalLM, TrainingArguments
model = AutoModelForCausalLM.from_pretrained("m", torch_dtype=torch.float16)  # trainspool: keep
args = TrainingArguments("o", fp16=True, logging_nan_inf_filter=False)  # trainspool: ignore[TS104]
text = "# trainspool: ignore[TS105]"
END2
cp keep.py kept.py
expect_status "a kept line leaves the error" 1 "$trainspool" patch --device "A100 80GB" kept.py
expect "and its bytes" cmp keep.py kept.py
"$trainspool" check --json --device "A100 80GB" keep.py | findings >out
expect "a comment ignores a rule, text in quotes does not" sh -c 'grep -q TS105 out && ! grep -q TS104 out'

cat >computed.py <<'END2'
import torch
from transformers import TrainingArguments
args = TrainingArguments("o", bf16=torch.cuda.is_bf16_supported(), logging_nan_inf_filter=False)
END2
cp computed.py was.py
expect_status "an expression is not a safe edit" 1 "$trainspool" patch --device T4 computed.py
expect "the script stays" cmp computed.py was.py
expect_status "patch --unsafe replaces the expression" 0 "$trainspool" patch --unsafe --device T4 computed.py
expect "with the value for the device" grep -q 'bf16=False.*fp16=True' computed.py

for name in loop_clip_before_unscale loop_no_update; do
    cp "$cases/$name.py" added.py
    "$trainspool" patch -q --device T4 --unsafe added.py >out 2>err
    diff "$cases/$name.py" added.py >out
    case $name in
    *clip*) expect "patch --unsafe unscales before it clips" grep -qx '>  *scaler.unscale_(optimizer)' out ;;
    *) expect "patch --unsafe adds the update" grep -qx '>  *scaler.update()' out ;;
    esac
done

lora=$cases/lora_base_float16.py
"$trainspool" check --json --device "TITAN RTX" --versions peft=0.11 "$lora" | findings >out
expect "an old PEFT trains adapters in the format of the base" grep -q 'error TS801 safe' out
"$trainspool" check --json --device "TITAN RTX" --versions peft=0.15 "$lora" | findings >out
expect "a newer one does not" test ! -s out

casts=$cases/trl_casts_adapters.py
"$trainspool" check --json --device V100 --versions trl=0.28.0,transformers=4.57.1,peft=0.18.0 "$casts" |
    findings >out
expect "TRL makes adapters bfloat16, so fp16 does not replace bf16" grep -q 'error TS102 manual bf16' out
"$trainspool" check --json --device V100 --versions trl=0.24.0,transformers=4.57.1,peft=0.18.0 "$casts" |
    findings >out
expect "an older TRL does not" grep -q 'error TS102 safe fp16' out
cp "$cases/sft_full_float16.py" passes.py
expect_status "with a known version the tokenizer is renamed" 0 \
    "$trainspool" patch --device "TITAN RTX" --versions transformers=4.50 passes.py
expect "to processing_class" grep -q '^        processing_class=tokenizer,$' passes.py

printf 'def f(:\n' >broken.py
expect_status "a text that is not Python is refused" 2 "$trainspool" check broken.py
expect_output "with the position" '^broken.py:1:.*TS009.*not Python'
printf 'print("hello")\n' >other.py
expect_status "a script without training is refused" 2 "$trainspool" check other.py
printf '{"cells": []}\n' >book.ipynb
expect_status "a notebook is refused" 2 "$trainspool" check book.ipynb
expect_output "with the way to a script" 'jupyter nbconvert --to script'
awk 'BEGIN { for (i = 0; i < 300000; i++) printf "["; print "" }' >deep.py
expect_status "a deep text is refused" 2 "$trainspool" check deep.py
cat >sft.py <<'END2'
import torch
from datasets import load_dataset
from peft import LoraConfig
from transformers import AutoModelForCausalLM
from trl import SFTConfig, SFTTrainer

data = load_dataset("json", data_files="pairs.jsonl", split="train")
model = AutoModelForCausalLM.from_pretrained("models/small", torch_dtype="auto")
args = SFTConfig(
    "made",
    max_length=512,
    bf16=torch.cuda.is_bf16_supported(),
    fp16=not torch.cuda.is_bf16_supported(),
    per_device_train_batch_size=2,  # small card
    max_grad_norm=None,
    optim="paged_adamw_8bit",
    report_to="wandb",
    activation_offloading=True,
    loss_type="dft",
)
SFTTrainer(model, args=args, train_dataset=data, peft_config=LoraConfig(r=4)).train()
END2
cp sft.py same.py
expect_status "import makes a job of a script" 0 "$trainspool" import sft.py
expect_output "with its model" '^model_name_or_path: models/small$'
expect_output "its method" '^finetuning_type: lora$'
expect_output "PEFT's default, which differs" "^lora_alpha: 8  # PEFT's default"
expect_output "the data that it loads" '^dataset: pairs.jsonl$'
expect_output "TRL's name for the length" '^cutoff_len: 512$'
expect_output "what the device decides" '^bf16: auto  # the script asks the device$'
expect_output "no clipping" '^max_grad_norm: 0.0  # None in the script: off$'
expect_output "TRL's name of a loss" '^use_dft_loss: true$'
expect_output "a batch" '^per_device_train_batch_size: 2$'
expect_output "what has no key is listed" '^# not carried over: activation_offloading ('
expect "the script stays" cmp sft.py same.py
"$trainspool" import sft.py >job.yaml 2>err
expect_status "check accepts the job" 0 "$trainspool" check --device "A100 80GB" job.yaml
expect_status "import --json lists every key" 0 "$trainspool" import --json sft.py
expect "with its line" sh -c 'jq -e ".tool == \"Python\" and ([.keys[] | select(.key == \"cutoff_len\")][0].line == 11)" out'
cat >left.py <<'END2'
import sys
import torch
from datasets import load_dataset
from peft import LoraConfig
from transformers import AutoModelForCausalLM, BitsAndBytesConfig
from trl import SFTConfig, SFTTrainer

data = load_dataset("json", data_files="pairs.jsonl", split="train")
nf4 = BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_quant_type="nf4")
model = AutoModelForCausalLM.from_pretrained("models/small", quantization_config=nf4, revision="v2")
args = SFTConfig(
    "made",
    learning_rate=float(sys.argv[1]),
    max_length=None,
    adam_beta2=options.beta2,
    packing_strategy="wrapped",
    completion_only_loss=False,
    padding_free=True,
    **more,
)
adapter = LoraConfig(r=options.rank, bias="none", init_lora_weights="pissa", layers_to_transform=[1, 2])
SFTTrainer(model, args=args, train_dataset=data, peft_config=adapter, callbacks=[Stop()]).train()
END2
expect_status "import makes a job of a script with other arguments" 0 "$trainspool" import left.py
expect_output "what the script computes is named at its line" '^# the script computes learning_rate (float(sys.argv.1.)): set it here$'
expect_output "and in the list" '^# not carried over: adam_beta2 (the script computes it: options.beta2; set adam_beta2 in'
expect_output "also of adapters" '^# the script computes lora_rank (options.rank): set it here$'
expect_output "arguments that are not known" '^# not carried over: ..more (the script computes these'
expect_output "no limit of TRL" 'cutoff_len (None in the script: no limit'
expect_output "settings of TRL" '^# not carried over: .*packing_strategy (a job has no such setting)$'
expect_output "and of PEFT" '^# not carried over: .*layers_to_transform'
expect_output "functions" '^# not carried over: callbacks (a function in Python)$'
expect_output "a revision" '^# not carried over: revision (download that revision)$'
expect_output "settings without effect" 'padding_free (a setting of TRL, without effect'
expect_output "the start of adapters" '^pissa_init: true$'
expect_output "the tokens that count" '^train_on_prompt: true$'
expect_output "one quantization, as in transformers" "^double_quantization: false  # BitsAndBytesConfig's default$"
expect_output "TRL's precision" "^bf16: true  # TRL's default without fp16$"
sed 's/bnb_4bit_quant_type/bnb_4bit_use_double_quant=True, &/; s/, max_length=None/, max_seq_length=300/' left.py >twice.py
"$trainspool" import twice.py >job.yaml 2>err
expect "two quantizations" grep -q '^double_quantization: true$' job.yaml
sed 's/layers_to_transform=.*)/target_parameters=["7.mlp.experts.down_proj", "experts.gate_up_proj"])/' left.py >experts.py
expect_status "import makes a job of a script that adapts experts" 0 "$trainspool" import experts.py
expect_output "the parameters of all experts" '^lora_target_parameters: 7.mlp.experts.down_proj,experts.gate_up_proj$'
expect_output "and what PEFT adapts next to them" 'next to target_parameters, PEFT then adapts the'
sed 's/SFT/KTO/; s/SFTTrainer/KTOTrainer/; s/loss_type="dft"/beta=0.2, desirable_weight=1.5/' sft.py >kto.py
expect_status "import makes a job of KTOTrainer" 0 "$trainspool" import kto.py
expect_output "with its stage" '^stage: kto$'
expect_output "its beta" '^pref_beta: 0.2$'
expect_output "its weights" '^kto_chosen_weight: 1.5$'
cat >reward.py <<'END'
from transformers import AutoModelForSequenceClassification
from trl import RewardConfig, RewardTrainer
model = AutoModelForSequenceClassification.from_pretrained("./qwen", num_labels=1)
args = RewardConfig(output_dir="out", center_rewards_coefficient=0.01, max_length=512)
RewardTrainer(model=model, args=args, train_dataset=pairs).train()
END
expect_status "import makes a job of RewardTrainer" 0 "$trainspool" import reward.py
expect_output "with the stage of reward models" '^stage: rm$'
expect_output "the coefficient of their scores" '^center_rewards_coefficient: 0.01$'
expect_output "and the head of that class, without dropout" '^trainspool: {reward_head: score, disable_dropout: true}$'
sed 's/RewardTrainer(model=model, /&peft_config=LoraConfig(r=8, lora_dropout=0.05), /; s/^from trl/from peft import LoraConfig\n&/' \
    reward.py >adapter.py
expect_status "import makes a job of RewardTrainer with adapters" 0 "$trainspool" import adapter.py
expect "which has no dropout, either" sh -c "! grep -q '^lora_dropout: 0.05' '$T/out'"
sed 's/max_length=512/disable_dropout=False/' adapter.py >drops.py
expect_status "import keeps dropout that the script asks for" 0 "$trainspool" import drops.py
expect_output "of adapters" '^lora_dropout: 0.05'
expect_output "and of the model" '^trainspool: {reward_head: score}$'
sed 's/RewardTrainer/SFTTrainer/' reward.py >classifier.py
sed 's/num_labels=1/num_labels=2/' reward.py >labels.py
expect_status "import refuses a reward model of two outputs" 1 "$trainspool" import labels.py
expect_error "with the reason" 'labels.py:3:81: num_labels must be 1 with RewardTrainer, not 2'
sed 's/, max_length=512//' reward.py >length.py
expect_status "import makes a job of RewardTrainer without a length" 0 "$trainspool" import length.py
expect_output "which has TRL's" '^cutoff_len: 1024  # TRL.s default'
expect_status "import refuses a classifier" 1 "$trainspool" import classifier.py
for program in DPO:sigmoid:sigmoid DPO:ipo:ipo DPO:hinge:hinge ORPO:x:orpo CPO:simpo:simpo; do
    loss=${program#*:} program=${program%%:*}
    sed "s/SFT/$program/; s/SFTTrainer/${program}Trainer/; s/loss_type=\"dft\"/beta=0.3, loss_type=\"${loss%:*}\"/" \
        sft.py >$program.py
    expect_status "import makes a job of ${program}Trainer" 0 "$trainspool" import $program.py
    expect_output "with its loss, ${loss#*:}" "^pref_loss: ${loss#*:}\$"
    expect_output "with its beta" '^pref_beta: 0.3$'
done
expect_output "TRL's weight of the answers" '^pref_ftx: 1.0  # cpo_alpha'
sed 's/loss_type="simpo"/&, cpo_alpha=0.0/' CPO.py >paper.py
"$trainspool" import paper.py >job.yaml 2>err
expect "SimPO as in its paper" grep -q '^pref_ftx: 0$' job.yaml
for loss in DPO:apo_zero CPO:sigmoid KTO:apo_zero_unpaired; do
    sed "s/SFT/${loss%:*}/; s/SFTTrainer/${loss%:*}Trainer/; s/\"dft\"/\"${loss#*:}\"/" sft.py >loss.py
    expect_status "another loss of ${loss%:*}Trainer is refused" 1 "$trainspool" import loss.py
    expect_error "with its name" "the loss ${loss#*:} of ${loss%:*}Trainer is not supported"
done
for program in GKD BCO XPO NashMD; do
    sed "s/SFT/$program/; s/SFTTrainer/${program}Trainer/" sft.py >other.py
    expect_status "${program}Trainer is refused" 1 "$trainspool" import other.py
    expect_error "with its name" "the script trains with ${program}Trainer: "
done
"$trainspool" import DPO.py >job.yaml 2>err
expect_status "check accepts the job" 0 "$trainspool" check --device "A100 80GB" job.yaml
cat >grpo.py <<'END2'
from datasets import load_dataset
from trl import GRPOConfig, GRPOTrainer
from trl.rewards import accuracy_reward, get_soft_overlong_punishment, think_format_reward

data = load_dataset("json", data_files="prompts.jsonl", split="train")
args = GRPOConfig(
    output_dir="made",
    num_generations=4,
    steps_per_generation=2,
    max_completion_length=256,
    beta=0.04,
    scale_rewards=False,
    reward_weights=[1.0, 0.5, 0.1],
    per_device_train_batch_size=4,
    use_vllm=True,
)
rewards = [accuracy_reward, think_format_reward, get_soft_overlong_punishment(256, soft_punish_cache=64)]
GRPOTrainer(model="models/small", reward_funcs=rewards, args=args, train_dataset=data).train()
END2
expect_status "import makes a job of GRPOTrainer" 0 "$trainspool" import grpo.py
expect_output "with its stage" '^stage: grpo$'
expect_output "the rewards that TRL has" '^reward_funcs: answer,pattern,length$'
expect_output "their weights" '^reward_weights: 1,0.5,0.1'
expect_output "its beta" '^beta: 0.04$'
expect_output "its steps per generation" '^steps_per_generation: 2$'
expect_output "the scale of a switch" '^scale_rewards: none$'
expect_output "TRL's default" '^learning_rate: 1e-0*6'
expect_output "what the rewards require" "^trainspool: .reward_pattern: .*think.*, soft_punish_cache: 64"
expect "equal lengths need no remark" sh -c "! grep -q 'length counts up to' '$T/out'"
sed 's/get_soft_overlong_punishment(256/get_soft_overlong_punishment(128/' grpo.py >longer.py
expect_status "a reward for other lengths is imported" 0 "$trainspool" import longer.py
expect_output "with a remark" 'counts up to 128 tokens$'
"$trainspool" import grpo.py >job.yaml 2>err
expect_status "check accepts the job" 0 "$trainspool" check --device "A100 80GB" job.yaml
sed 's/^from trl.rewards.*/from mine import accuracy_reward, get_soft_overlong_punishment, think_format_reward/' grpo.py >own.py
expect_status "rewards of its own are refused" 1 "$trainspool" import own.py
expect_error "with those of a job" 'reward_funcs: mine.accuracy_reward is a function in Python, which is not supported; .* answer, format, pattern and length'
sed 's/^rewards = .*/rewards = "org\/reward-model"/' grpo.py >scored.py
expect_status "a reward model is refused" 1 "$trainspool" import scored.py
expect_error "with its name" 'org/reward-model is a reward model'
expect_status "a script that trains a classifier is refused" 1 "$trainspool" import "$cases/bf16_on_turing.py"
expect_error "with the reason" 'the script trains a classifier'

cat >generates.py <<'END2'
import torch
from transformers import AutoModelForCausalLM
model = AutoModelForCausalLM.from_pretrained("m", torch_dtype=torch.float16)
print(model.generate(ids))
END2
expect_status "a script that only generates is refused" 2 "$trainspool" check generates.py

# The reports that began this, S0 to S4: REPORT.FRAGMENT, then findings and the lines that patch and
# patch --unsafe write on the TITAN RTX of S0.  Fragments that configure no training, or whose `...`
# is not Python, are TS009.  Those of a loop show no format, so they have no finding; the error of S1
# is in two fragments together, 0+1.
cat >seeds.want <<'END2'
000.0 2 error TS009
000.1 2 error TS009
000.2
000.3
001.0 1 error TS009
001.1 1 error TS009
001.2 1 error TS009
001.3 3 error TS009
001.4 3 error TS009
001.5 1 error TS009
001.6 2 error TS009
001.0+1 5 error TS804
001.0+1 4 error TS105
001.0+1 10 info TS510
001.0+1 safe      torch_dtype=torch.float32,  # Model loaded in FP16
001.0+1 unsafe      torch_dtype=torch.float32,  # Model loaded in FP16
001.0+1 unsafe    logging_nan_inf_filter=False,
002.0
004.0 9 info TS406
004.0 14 info TS510
004.0 unsafe     logging_nan_inf_filter=False,
004.1 1 error TS009
004.2 1 error TS009
004.3 3 error TS102
004.3 4 error TS102
004.3 5 info TS510
004.3 safe     fp16=True,
004.3 safe     bf16=False,  # Better numerical stability than FP16
004.3 unsafe     fp16=True,
004.3 unsafe     bf16=False,  # Better numerical stability than FP16
004.3 unsafe     logging_nan_inf_filter=False,
END2
seed_lines() { # FRAGMENT FILE
    "$trainspool" check --json --device "TITAN RTX" "$2" | jq -r --arg name "$1" \
        '.findings[] | select(.rule != "TS810") | "\($name) \(.line) \(.severity) \(.rule)"' >found
    if [ -s found ]; then cat found; else echo "$1"; fi
    for mode in safe unsafe; do
        cp "$2" edited.py
        rm -rf edited.py.run
        [ $mode = safe ] && set -- "$1" "$2" || set -- "$1" "$2" --unsafe
        "$trainspool" patch -q ${3-} --device "TITAN RTX" edited.py >out 2>err
        diff "$2" edited.py | sed -n "s/^> /$1 $mode /p"
    done
}
if [ -d "$shared/seeds" ] && command -v python3 >/dev/null; then
    python3 - "$shared/seeds" <<'SPLIT'
import pathlib, re, sys
for path in sorted(pathlib.Path(sys.argv[1]).glob("*.txt")):
    report = path.stem.split("_")[0]
    text = path.read_text(errors="replace")
    blocks = re.findall(r"```python\n(.*?)```", text, re.S)
    for number, block in enumerate(blocks):
        pathlib.Path(f"seed_{report}.{number}.py").write_text(block)
    if report == "001": # the model and the argument that do not go together
        model = "".join(line[2:] + "\n" for line in blocks[0].splitlines())
        whole = f"if True:\n{model} args = TrainingArguments(\n{blocks[1]})\n"
        pathlib.Path("seed_001.0+1.py").write_text(whole)
SPLIT
    for seed in seed_*.py; do
        name=${seed#seed_}
        seed_lines "${name%.py}" "$seed"
    done | LC_ALL=C sort >seeds.found
    LC_ALL=C sort seeds.want | diff - seeds.found >out
    ok $? "the fragments of the first reports have the expected findings and edits"
else
    skip "the fragments of the first reports have the expected findings and edits" "no seeds"
fi

expect_status "run refuses a script" 1 "$trainspool" run --no-patch keep.py
expect_output "and names import" 'trainspool import makes a job of it'
expect_status "--set does not apply to a script" 2 "$trainspool" plan --set fp16=true keep.py
expect_status "plan shows what a script would do" 1 "$trainspool" plan --device T4 keep.py
plan
