#!/bin/sh
# --target and --versions: the program that trains a job, named on the command line.
. "${top_srcdir-.}/tests/cli/lib.sh"

cd "$T" || exit 99
cat >sft.yaml <<'END'
model_name_or_path: some/model
dataset_name: some/poems
learning_rate: 2.0e-5
logging_nan_inf_filter: false
END
expect_status "without a target it is TRL's file, not a job" 2 "$trainspool" check --device A100 sft.yaml
expect_output "the finding says so" TS706
expect_status "--target trl needs no block" 0 "$trainspool" check --device A100 --target trl --versions trl=0.26,transformers=4.57 sft.yaml
expect "the job has no finding" test ! -s "$T/err"
expect_status "--versions may be repeated" 0 "$trainspool" check --device A100 --target trl --versions trl==0.26 --versions torch=2.8 sft.yaml
expect_status "external recognizes TRL by its keys" 0 "$trainspool" check --device A100 --target external sft.yaml
expect_output "so it asks for TRL's version" 'TS810.*TRL'

echo 'dev_ratio: 0.1' >>sft.yaml
expect_status "a key of another program is an error" 1 "$trainspool" check --device A100 --target trl --versions trl=0.26 sft.yaml
expect_output "TRL does not know it" 'TS813.*dev_ratio is not a key of TRL 0\.26'
expect_status "the target takes precedence over the job" 1 "$trainspool" check --device A100 --target llamafactory --versions llamafactory=0.9.3 sft.yaml
expect_output "LLaMA-Factory does not know dataset_name" 'TS813.*dataset_name is not a key of'
expect_status "a TRL later than the table may have the key" 0 "$trainspool" check --device A100 --target trl --versions trl=99.1 sft.yaml
expect_output "so it is a warning" 'warning\[TS813\].*dev_ratio'
expect_output "the note names the end of the table" 'the key table ends at 1\.'
expect_status "as may a later transformers" 0 "$trainspool" check --device A100 --target trl --versions trl=0.26,transformers=99.0 sft.yaml
sed -i '/dev_ratio/d' sft.yaml

try "$trainspool" plan --json --device A100 --target trl --versions trl=0.26 sft.yaml
expect_output "plan names the trainer" '"trainer":"trl"'
expect_output "plan has TRL's defaults" '"compute_dtype":"bfloat16"'
try "$trainspool" patch --diff --device V100 --target trl --versions trl=0.24,transformers=4.57 sft.yaml
expect_output "patch edits by the program's defaults" '^+bf16: false'
expect "patch --diff changes nothing" sh -c "! grep -q bf16 sft.yaml"
expect_status "patch writes the edits" 0 "$trainspool" patch --device V100 --target trl --versions trl=0.24,transformers=4.57 sft.yaml
expect "fp16 replaces bf16" grep -qx 'fp16: true' sft.yaml

cat >llama.yaml <<'END'
model_name_or_path: some/model
stage: sft
dataset: poems
trainspool:
  target: trl
END
try "$trainspool" check --device A100 llama.yaml
expect_output "trainspool.target names a program, too" 'TS813.*stage is not a key of TRL'

cat >own.yaml <<'END'
model_name_or_path: some/model
learning_rate: 2.0e-5
trainspool:
  target: external
  command: python train.py axolotl.yaml
END
try "$trainspool" plan --json --device A100 own.yaml
expect_output "axolotl.yaml is no module of Axolotl" '"trainer":"external"'
sed -i 's/train.py/-m axolotl.cli.train/' own.yaml
try "$trainspool" plan --json --device A100 own.yaml
expect_output "axolotl.cli.train is one" '"trainer":"axolotl"'

# TRAINER COMMAND [OPTION...]: check which program trains a job with this command.
runs() {
    runs_trainer=$1 runs_command=$2
    shift 2
    printf 'model_name_or_path: some/model\nlearning_rate: 2.0e-5\n%strainspool: {target: external, command: %s}\n' \
        "$runs_keys" "$runs_command" >runs.yaml
    try "$trainspool" plan --json --device A100 "$@" runs.yaml
    expect_output "$runs_command${runs_keys:+ with cutoff_len} $* is $runs_trainer" "\"trainer\":\"$runs_trainer\""
}
runs_keys=
runs llamafactory 'llamafactory-cli train x.yaml'
runs llamafactory 'python my/llamafactory-cli train x.yaml'
runs llamafactory 'torchrun --nproc_per_node 2 src/llamafactory/launcher.py x.yaml'
runs llamafactory 'python -m llamafactory.cli train x.yaml'
runs llamafactory '[sh, -c, "RANK=0 llamafactory-cli train x.yaml"]'
runs external 'accelerate launch train.py --config llamafactory.yaml'
runs external 'accelerate launch --config_file llamafactory.yaml train.py'
runs external 'accelerate launch --config_file=llamafactory/fsdp train.py'
runs external 'WANDB_PROJECT=llamafactory python train.py'
runs external 'python train.py --run_name llamafactory'
runs external 'python train.py trl sft'
runs trl 'python trl/scripts/sft.py --run_name llamafactory'
runs external 'python train.py' --versions llamafactory=0.9.3
runs_keys='cutoff_len: 512
'
runs external 'python train.py'
runs llamafactory 'python train.py' --versions llamafactory=0.9.3
printf 'model_name_or_path: some/model\nlearning_rate: 2.0e-5\n' >runs.yaml
try "$trainspool" plan --json --device A100 --target external --versions llamafactory=0.9.3 runs.yaml
expect_output "without a command the package decides" '"trainer":"llamafactory"'

for target in native external llamafactory transformers trl axolotl torchtune unsloth lightning; do
    try "$trainspool" check --device A100 --target $target llama.yaml
    expect "--target $target is known" sh -c "! grep -q 'target must be' '$T/err'"
done
cat >axolotl.yml <<'END'
base_model: some/model
adapter: lora
micro_batch_size: 2
gradient_accumulation_steps: 1
sequence_len: 2048
bf16: auto
learning_rate: 2e-4
datasets:
  - path: some/poems
END
expect_status "a file of Axolotl is not a job" 2 "$trainspool" check --device A100 axolotl.yml
expect_output "the finding names the target that checks it" 'TS706.*--target axolotl'
expect_status "--target axolotl checks it as it is" 0 "$trainspool" check --device A100 --target axolotl --versions axolotl=0.12.2 axolotl.yml
expect "it has no finding" test ! -s "$T/err"
try "$trainspool" plan --json --device A100 --target axolotl axolotl.yml
expect_output "plan names Axolotl" '"trainer":"axolotl"'
expect_output "plan has Axolotl's formats" '"compute_dtype":"bfloat16"'
expect_status "patch replaces emulated bf16" 0 "$trainspool" patch --device T4 --target axolotl --versions torch=2.6 axolotl.yml
expect "by fp16" grep -qx 'fp16: true' axolotl.yml
expect_status "the file of another tool stays one" 2 "$trainspool" check --device A100 --target torchtune axolotl.yml
expect_output "the finding says whose" 'TS706.*Axolotl'

expect_status "an unknown target is wrong usage" 2 "$trainspool" check --target trll sft.yaml
expect_status "an unknown package is wrong usage" 2 "$trainspool" check --versions trll=0.26 sft.yaml
expect_error "the nearest name is shown" 'did you mean trl'
expect_status "a version must be one" 2 "$trainspool" check --versions 'trl=>0.26' sft.yaml
expect_error "the message says what it must be" 'must be one version'
expect_status "a package needs a version" 2 "$trainspool" check --versions trl sft.yaml

plan
