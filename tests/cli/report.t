#!/bin/sh
# report: the page of a run with valid and broken files, checked with Python's parser and in a browser.
. "${top_srcdir-.}/tests/cli/lib.sh"
cd "$T" || exit 99
python=${PYTHON-python3}
browser=$(command -v chromium || command -v chromium-browser || command -v google-chrome)

# NAME FILE [WORD...]: check that the page is well-formed and has these words.
expect_page() {
    page_name=$1
    shift
    if "$python" -c 'import html.parser' 2>/dev/null; then
        expect_status "$page_name" 0 "$python" "$source/tests/cli/page.py" "$@"
    else
        skip "$page_name" "no $python"
    fi
}
# NAME FILE [OPTION...]: write a browser's DOM of the page to $T/out.  Without a browser, skip NAME and
# return false.
browse() {
    browse_name=$1
    browse_file=$2
    shift 2
    if [ -z "$browser" ] || ! "$browser" --version >/dev/null 2>&1; then
        skip "$browse_name" "no chromium"
        return 1
    fi
    browse_url=$("$python" -c 'import pathlib, sys, urllib.parse
print(pathlib.Path(sys.argv[1]).resolve().as_uri())' "$browse_file")
    timeout 60 "$browser" --headless --no-sandbox --disable-gpu --user-data-dir="$T/browser" \
        --enable-logging=stderr "$@" --dump-dom "$browse_url" >"$T/out" 2>"$T/err"
    if ! grep -q '</html>' "$T/out"; then
        skip "$browse_name" "chromium does not work"
        return 1
    fi
}
# NAME FILE WORD: check that a browser shows the word and reports no errors.
expect_in_browser() {
    browse "$1" "$2" || return
    grep -q -e "$3" "$T/out" && ! grep 'CONSOLE' "$T/err"
    ok $? "$1"
}
# NAME FILE SCHEME: check the colors in a browser that prefers dark (0) or light (1) pages.
expect_colors() {
    if ! "$python" -c 'import html.parser' 2>/dev/null; then
        skip "$1" "no $python"
        return
    fi
    if ! "$python" "$source/tests/cli/page_colors.py" "$2" probe.html >colors 2>"$T/err"; then
        ok 1 "$1"
        return
    fi
    case $3 in
    dark) scheme=0 ;;
    light) scheme=1 ;;
    esac
    browse "$1" probe.html "--blink-settings=preferredColorScheme=$scheme" || return
    if ! grep -q "<title>$3: " "$T/out"; then
        skip "$1" "chromium does not support $3 mode"
        return
    fi
    grep -q -F "<title>$(grep "^$3:" colors)</title>" "$T/out"
    ok $? "$1"
}
# NAME STATE [REASON]: write the folder of a run with this state.
run_folder() {
    mkdir -p "$1.run"
    printf 'stage: sft\nhub_token: sesame-77\nrun_name: "</pre><script>alert(3)</script>"\n' >"$1.yaml"
    cp "$1.yaml" "$1.run/job.yaml"
    printf '{"state":"%s","reason":"%s","step":3,"total":9,"device":"<i>T4</i>"}\n' "$2" "${3-}" \
        >"$1.run/state.json"
}

expect_status "report of a missing job gives 2" 2 "$trainspool" report nowhere.yaml
echo 'stage: sft' >never.yaml
expect_status "report of a job that never ran gives 2" 2 "$trainspool" report never.yaml
expect_error "the message says that there is no run" 'never.yaml has no run'

run_folder empty ready
expect_status "report of a run without steps succeeds" 0 "$trainspool" report empty.yaml
expect_output "the output names the page" 'empty.run/report.html'
expect_page "the page of a run without steps is well-formed" empty.run/report.html 'No step was logged yet' ready

run_folder one stopped
echo '{"step":1,"loss":2.5,"grad_norm":1,"learning_rate":1e-4,"loss_scale":1,"skipped":0}' >one.run/metrics.jsonl
expect_status "report --output of a run with one step succeeds" 0 "$trainspool" report -q -o elsewhere.html one.yaml
expect "no page is written to the run folder" test ! -e one.run/report.html
expect_page "the page of a run with one step is well-formed" elsewhere.html 'Training loss' stopped

name='<img src=a onerror=alert(1)>"&'
run_folder "$name" failed "50 steps in a row had <b>NaN</b>"
awk 'BEGIN {
    for (s = 1; s <= 5000; s++) {
        loss = s == 2500 ? 97.5 : s % 1000 == 7 ? "\"NaN\"" : 1 + 3 / s
        printf "{\"step\":%d,\"epoch\":%g,\"loss\":%s,\"grad_norm\":%s,\"learning_rate\":%g,", s, s / 999, loss,
            s == 77 ? "\"Infinity\"" : s % 7 + 0.5, 1e-4 - s * 1e-8
        printf "\"loss_scale\":%d,\"skipped\":%d,\"tokens\":%d,\"tokens_per_second\":900,\"memory\":1048576}\n",
            s < 2000 ? 65536 : 1024, s / 800, s * 100
        if (s % 500 == 0)
            printf "{\"step\":%d,\"epoch\":1,\"eval_loss\":%g,\"eval_perplexity\":3,\"eval_</script>\":1,\"eval_answer_rate\":%g}\n",
                s, 1 + 4 / s, s / 5000
    }
    printf "{\"step\": 5001, \"lo" }' >"$name.run/metrics.jsonl"
printf '2026-11-20T14:08:40Z warn of a run before\n2026-11-20T14:08:41Z info resume: from x/checkpoint-4900, step 4900\n2026-11-20T14:08:47Z info job x: attempt 1 on T4\n' \
    >"$name.run/train.log"
printf '2026-11-20T14:08:48Z warn data: <b>3</b> left out\n2026-11-20T14:08:49Z info resume: from x/checkpoint-400, step 400\n\000\377broken\n' \
    >>"$name.run/train.log"
printf '{"prompt":"<b>How</b> many?","before":"\\u202eabc","after":"4","expected":"4"}\nbroken\n' >"$name.run/samples.jsonl"
echo '{"schema":1,"version":"<v>","model":{"path":"models/<m>","method":"lora"},"precision":7,"batch":[],"environment":{"device":3}}' \
    >"$name.run/run.json"
cat >"$name.run/autopsy.json" <<'END'
{"schema":1,"step":7,"preflight":true,"sentence":"the <u>activation</u>","advice":"<script>alert(4)</script>","loss_scale":1,
"found":{"operation":"matmul","tensor":"q, k, v","layer":3,"format":"fp16","nan":1,"inf":2,"largest":65504},
"micro_batch":{"index":0,"count":4,"samples":[1,2],"sample":2,"position":9,"token":77},
"before":[{"operation":"<rope>","tensor":"h","layer":null,"format":"fp32","largest":"Infinity"},3,null,"x"]}
END
expect_status "report of a run with hostile files succeeds" 0 "$trainspool" report -q "$name.yaml"
page=$name.run/report.html
expect_page "the page escapes hostile files" "$page" '<img src=a' 'had <b>NaN</b>' '<b>3</b> left out' 'Answer rate' \
    'resumed from a checkpoint' 'steps skipped' 'not finite' 'Best evaluation loss' '<b>How</b>' \
    'Preflight, step 7: the <u>activation</u>' 'sample 2, token 77 at position 9' '1 NaN, 2 inf'
expect "the page has no lines from earlier runs" sh -c '! grep -q "of a run before\|step 4900" "$1"' sh "$page"
expect "the page has no secret" sh -c '! grep -q sesame "$1"' sh "$page"
expect "the page keeps the highest of 5000 losses" grep -q 'highest 97.5 at step 2500' "$page"
expect "the page of 5000 steps is small" test "$(wc -c <"$page")" -lt 200000
expect_in_browser "a browser shows the page without errors" "$page" 'id="loss-d"'
expect_colors "a browser in light mode shows light colors" "$page" light
expect_colors "a browser in dark mode shows dark colors" "$page" dark
mkdir "$T/damaged.run"
printf '[1,2' >"$T/damaged.run/state.json"
for file in metrics.jsonl samples.jsonl run.json train.log autopsy.json changes.jsonl job.yaml; do
    head -c 3000 /dev/urandom >"$T/damaged.run/$file"
done
echo 'stage: sft' >damaged.yaml
expect_status "report of a run with random files succeeds" 0 "$trainspool" report -q damaged.yaml
expect_page "the page of random files is well-formed" damaged.run/report.html
chmod 500 damaged.run
if [ "$(id -u)" -ne 0 ]; then
    expect_status "report into a read-only folder gives 3" 3 "$trainspool" report -q damaged.yaml
fi

if has_model; then
    make_data .
    job 40 "max_grad_norm:" "eval_strategy: steps" "eval_steps: 10" "val_size: 0.1" >a.yaml
    expect_status "a run succeeds" 0 "$trainspool" run -q a.yaml
    expect_page "the run writes its page" a.run/report.html 'Best evaluation loss' 'done' 'TS401' \
        'max_grad_norm: 0.0' 'fp32' 'Backend' '260,032'
    expect "the run writes run.json" sh -c 'jq -e ".schema == 1 and .steps.total == 40 and .model.parameters == 260032 and
        .model.method == \"full\" and .precision.mode == \"fp32\" and .batch.effective == 2 and
        .environment.backend != null and .program_sha256 == \"$(sha256sum <"'"$train"'" | cut -c1-64)\" and .data.samples > 0" a.run/run.json >/dev/null'
    expect_in_browser "a browser shows the page of the run" a.run/report.html '>done</span>'
    job 60 "fp16: true" "trainspool: {keep: [fp16]}" | sed 's/1.0e-4/1.0/' >hot.yaml
    expect_status "a run that diverges fails" 1 "$trainspool" run -q hot.yaml
    expect "the reason has the result of the autopsy" sh -c 'grep -q "preflight: .*autopsy: the" hot.run/state.json'
    expect_page "the page has the result of the autopsy" hot.run/report.html 'Failure' 'Operations up to the first' failed
    expect_status "status of the failed run succeeds" 0 "$trainspool" status hot.yaml
    expect_output "status shows the result of the autopsy" 'autopsy: the'
    job 100000 "save_steps: 5" | sed 's/^save_steps: 20$//' >b.yaml
    background "$trainspool" run -q b.yaml
    wait_until 30 test -e b.run/report.html
    ok $? "a run writes its page at its first checkpoint"
    expect_page "the page of a running job is complete" b.run/report.html running
    kill -TERM "$daemon"
    expect "SIGTERM stops the run" exited_with "$daemon" 143
    expect_page "the page shows the stopped run" b.run/report.html stopped
else
    skip "the page of a run" "no $model"
fi
plan
