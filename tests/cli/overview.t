#!/bin/sh
# watch --metrics, --page: what a spool does, for Prometheus and for a browser.
. "${top_srcdir-.}/tests/cli/lib.sh"
cd "$T" || exit 99
mkdir spool kept

# Check the text format of Prometheus: each sample belongs to the family declared before it, names and labels
# are valid, counters end in _total, histograms are cumulative, and no sample occurs twice.
cat >parse.awk <<'END'
function bad(why) { print FILENAME ":" FNR ": " why ": " $0; failed = 1 }
/^# HELP / { if ($3 in helped) bad("second HELP"); helped[$3] = 1; next }
/^# TYPE / {
    family = $3; type = $4
    if (!(family in helped)) bad("TYPE without HELP")
    if (family in typed) bad("second TYPE")
    if (family !~ /^trainspool_[a-z_]+$/) bad("bad name")
    if (type !~ /^(counter|gauge|histogram)$/) bad("bad type")
    if ((type == "counter") != (family ~ /_total$/)) bad("only counters end in _total")
    typed[family] = 1; last = 0
    next
}
/^#/ || NF == 0 { bad("unexpected line"); next }
{
    name = $0; sub(/[{ ].*/, "", name)
    base = name
    if (type == "histogram") sub(/_(bucket|sum|count)$/, "", base)
    if (base != family) bad("not of family " family)
    labels = $0; value = $0
    sub(/ [^ ]*$/, "", labels); sub(/^.* /, "", value)
    if (labels in seen) bad("second sample")
    seen[labels] = 1
    if (value !~ /^[-+]?([0-9]+(\.[0-9]*)?(e[-+]?[0-9]+)?|Inf|NaN)$/) bad("bad value")
    sub(/^[a-z_]*/, "", labels)
    if (labels != "" && labels !~ /^\{[a-z_]+="([^"\\]|\\\\|\\"|\\n)*"\}$/) bad("bad label")
    if (name ~ /_bucket$/) { if (value + 0 < last + 0) bad("not cumulative"); last = value }
    count++
}
END { if (failed || count == 0) exit 1 }
END
well_formed() { awk -f parse.awk "$1" >kept/awk 2>&1 || { sed 's/^/# /' kept/awk; return 1; }; }
# NAME VALUE: the file has this sample.
sample() { grep -qxF "trainspool_$1 $2" kept/metrics.prom; }

name='<b>"x"&{}'
invalid_job >"spool/$name.yaml"
invalid_job >spool/plain.yaml
expect_status "watch --metrics --page gives 1" 1 timeout 30 "$trainspool" watch --once \
    --metrics kept/metrics.prom --page kept/index.html spool
expect "the metrics are well formed" well_formed kept/metrics.prom
expect "jobs are counted by state" sample 'jobs{state="rejected"}' 2
expect "ends are counted" sample 'jobs_ended_total{state="rejected"}' 2
expect "no job waited for a start" sample job_wait_seconds_count 0
expect "the files may be read by all" test "$(stat -c %a kept/metrics.prom kept/index.html | tr '\n' ' ')" = "644 644 "
expect "no temporary file is left" test "$(ls -A kept | tr '\n' ' ')" = "awk index.html metrics.prom "
if command -v promtool >/dev/null; then
    expect "promtool accepts the metrics" sh -c 'promtool check metrics <kept/metrics.prom'
else
    skip "promtool accepts the metrics" "no promtool"
fi
expect "the page escapes names" grep -qF '&lt;b&gt;&quot;x&quot;&amp;{}' kept/index.html
expect "no name becomes an element" sh -c "! grep -q '<b>' kept/index.html"
page_is_valid() { # FILE WORD...
    python3 "$source/tests/cli/page.py" --links "$@"
}
if command -v python3 >/dev/null; then
    expect "the page is valid and loads nothing" page_is_valid kept/index.html Running Queue 'Other jobs' plain rejected
else
    skip "the page is valid and loads nothing" "no python3"
fi

# Nothing changed: the page is not written again.
cp -p kept/index.html kept/before
sleep 1.1
expect_status "a second watch succeeds" 0 timeout 30 "$trainspool" watch --once --page kept/index.html spool
expect "an unchanged page is not written" test "$(stat -c %y kept/index.html)" = "$(stat -c %y kept/before)"

# A file that cannot be written is logged once, and the watch goes its way.
rm "spool/$name.yaml"
invalid_job >spool/another.yaml
expect_status "a page in a missing folder changes nothing" 1 timeout 30 "$trainspool" watch --once \
    --page nowhere/index.html spool
expect "the failure is logged once" test "$(grep -c 'nowhere/' "$T/out")" -eq 1
expect "the job has its state" state_is spool/another.yaml rejected

if has_model; then
    mkdir runs
    make_data runs
    job 100000 'trainspool: {priority: 5}' >runs/long.yaml
    job 2 >'runs/a b#?.yaml'
    background "$trainspool" watch --metrics kept/metrics.prom --page runs/.trainspool/index.html runs
    wait_until 30 has_reached runs/long.yaml 20
    ok $? "a job runs"
    shows() { grep -q "$1" runs/.trainspool/index.html 2>/dev/null; }
    wait_until 10 shows 'class="spark"'
    ok $? "the page has its curve"
    expect "the waiting job has turn 1" shows '<tr><td class="number">1</td><th scope="row">a b#?</th>'
    running() { grep -q 'trainspool_job_tokens_per_second{job="long"} [1-9]' kept/metrics.prom; }
    wait_until 10 running
    ok $? "the metrics have its speed"
    expect "the metrics of a running job are well formed" well_formed kept/metrics.prom
    expect "one job runs" sample 'jobs{state="running"}' 1
    expect "its planned memory is there" grep -q '^trainspool_device_memory_planned_bytes{device="[^"]*"} [1-9]' kept/metrics.prom
    expect "its used memory is there" grep -q '^trainspool_device_memory_used_bytes{device="[^"]*"} [1-9]' kept/metrics.prom
    expect "its wait was counted" sample job_wait_seconds_count 1
    for child in $(children "$daemon"); do kill -9 "$child"; done
    crashed() { sample job_crashes_total 1 && sample job_restarts_total 1; }
    wait_until 20 crashed
    ok $? "a crash and the restart are counted"
    "$trainspool" cancel runs/long.yaml >kept/cancel
    wait_until 30 state_is 'runs/a b#?.yaml' 'done'
    ok $? "the other job is done"
    wait_until 10 shows 'href="../a%20b%23%3F.run/report.html">a b#?</a>'
    ok $? "the page links to its report"
    expect "the link leads to the report" test -f 'runs/.trainspool/../a b#?.run/report.html'
    kill "$daemon"
    wait_until 20 has_exited "$daemon"
    ok $? "the watch ends"
    if command -v python3 >/dev/null; then
        expect "the page of runs is valid" page_is_valid runs/.trainspool/index.html stopped 'done'
    else
        skip "the page of runs is valid" "no python3"
    fi
else
    skip "a job runs" "no model"
fi
plan
