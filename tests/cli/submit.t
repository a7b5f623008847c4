#!/bin/sh
# submit: paths mean the same in the watched folder, or the job is refused at once.
. "${top_srcdir-.}/tests/cli/lib.sh"
cd "$T" || exit 99
T=$(pwd -P)
mkdir -p spool home/jobs home/data

# Files that look like a small model: no test here trains it.
mkdir home/jobs/model
if ! has_model; then
    skip "submit" "no model in $model"
    plan
    exit 0
fi
cp "$model"/* home/jobs/model
make_data home/jobs
cp home/jobs/text.txt home/data/other.txt

# NAME LINES...: write a job.
write() {
    name=$1
    shift
    { printf '%s\n' "stage: pt" "finetuning_type: full" "cutoff_len: 64" "use_cpu: true" "max_steps: 1" "$@"; } >"home/jobs/$name"
}
write a.yaml "model_name_or_path: model" "dataset: text.txt, ../data/other.txt" "output_dir: out"
cp home/jobs/a.yaml a.before
expect_status "a job with relative paths is submitted" 0 "$trainspool" submit spool home/jobs/a.yaml
expect_output "each full path is shown" "^    model_name_or_path: model -> $T/home/jobs/model$"
expect_output "so are those of a list" \
    "^    dataset: text.txt, ../data/other.txt -> $T/home/jobs/text.txt,$T/home/data/other.txt$"
expect "the text in the folder has them" grep -q "^model_name_or_path: $T/home/jobs/model$" spool/a.yaml
expect "an output stays relative" grep -q "^output_dir: out$" spool/a.yaml
expect "the job itself does not change" cmp -s a.before home/jobs/a.yaml
expect_status "the watch accepts and trains it" 0 timeout 120 "$trainspool" watch --once spool
expect "the model is in the watched folder" test -f spool/out/model.safetensors

write b.yaml "model_name_or_path: nowhere" "dataset: text.txt"
expect_status "a job whose model does not exist is refused with 1" 1 "$trainspool" submit spool home/jobs/b.yaml
expect_error "the message has position, rule and remedy" 'b.yaml:6:21: TS713: nowhere does not exist; nothing is downloaded'
expect "nothing is in the folder" test ! -e spool/b.yaml
expect_status "--as-is submits it" 0 "$trainspool" submit --as-is spool home/jobs/b.yaml
expect "unchanged" cmp -s home/jobs/b.yaml spool/b.yaml
rm spool/b.yaml

write c.yaml "model_name_or_path: model" "dataset: text.txt" "output_dir: ~/out"
expect_status "a path that a watch would reject is refused" 1 "$trainspool" submit spool home/jobs/c.yaml
expect_error "with its rule" 'c.yaml:8:13: TS710: output_dir starts with ~'
write c.yaml "model_name_or_path: model" "dataset: text.txt" "output_dir: ../out"
expect_status "an output outside the job's folder is submitted" 0 "$trainspool" submit spool home/jobs/c.yaml
expect "with its full path" grep -q "^output_dir: $T/home/out$" spool/c.yaml

write d.yaml "model_name_or_path: e.run" "dataset: text.txt"
expect_status "the output of no job is missing" 1 "$trainspool" submit spool home/jobs/d.yaml
write e.yaml "model_name_or_path: model" "dataset: text.txt"
expect_status "the output of a job that waits may be missing" 0 "$trainspool" submit spool home/jobs/e.yaml home/jobs/d.yaml
mkdir -p spool/e.run
echo '{"state":"failed"}' >spool/e.run/state.json
expect_status "but not that of a job that failed" 1 "$trainspool" submit --force spool home/jobs/d.yaml
expect "the job of that name stays" grep -q "^model_name_or_path: e.run$" spool/d.yaml

make_data spool
write f.yaml "model_name_or_path: $T/home/jobs/model" "dataset: spooled.txt"
mv spool/text.txt spool/spooled.txt
expect_status "a path of the watched folder is submitted" 0 "$trainspool" submit spool home/jobs/f.yaml
expect "as it is" grep -q "^dataset: spooled.txt$" spool/f.yaml
printf 'model_name_or_path: &m model\nref_model: *m\ndataset: text.txt\n' >home/jobs/g.yaml
expect_status "a path that cannot be edited is refused" 1 "$trainspool" submit spool home/jobs/g.yaml
expect_error "with the full path to write" "write the full path: $T/home/jobs/model$"
plan
