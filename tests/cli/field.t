#!/bin/sh
# Jobs of a field test, in the folder field/ that TRAINSPOOL_SHARED names: one function per folder, which
# runs in a copy of it.  The functions check rules, edits and exit statuses, never the whole output.
. "${top_srcdir-.}/tests/cli/lib.sh"

# FOLDER FUNCTION: call the function in a copy of the folder.
field() {
    field_folder=$shared/field/$1
    if [ ! -d "$field_folder" ]; then
        skip "$1" "no $field_folder"
        return
    fi
    rm -rf "$T/field" && cp -r "$field_folder" "$T/field" && chmod -R u+w "$T/field"
    cd "$T/field" || exit 99
    $2
    cd "$T" || exit 99
}
# NAME PATTERN: check that no line of the last command's output matches.
expect_no_output() {
    ! grep -q -e "$2" "$T/out"
    ok $? "$1"
}

card_without_code() {
    expect_status "D13: a Blackwell card with torch 2.5 fails the check" 1 "$trainspool" check --device "RTX 5090" job.yaml
    expect_output "D13: no code for the card is an error" 'error\[TS808\].*no code for RTX 5090'
    expect_output "D13: the build that works is named" 'torch 2\.7 built with CUDA 12\.8'
    expect_status "D13: a Pascal card with CUDA 12.8 fails the check" 1 "$trainspool" check --device P100 pascal.yaml
    expect_output "D13: the older toolkit is named" 'whl/cu126'
    expect_status "D13: a Blackwell card with a build for it passes" 0 "$trainspool" check --device "RTX 5090" fine.yaml
    expect_no_output "D13: it has no finding about builds" TS808
}
field patcher/D13-card-against-pytorch-build card_without_code

laptop() {
    if "$trainspool" devices | grep -q '^cuda'; then
        skip "D16: patch on a machine without a GPU" "this machine has one"
        return
    fi
    cp job.yaml first
    expect_status "D16: patch on a laptop succeeds" 0 "$trainspool" patch job.yaml
    expect "D16: fp16 stays on" cmp job.yaml first
    expect_output "D16: an info says how to name the device" 'info\[TS208\].*no device is named'
    sed '$a use_cpu: true' first >job.yaml
    expect_status "D16: patch of a CPU job succeeds" 0 "$trainspool" patch job.yaml
    expect "D16: use_cpu: true turns fp16 off" grep -qx 'fp16: false' job.yaml
    cp first job.yaml
    expect_status "D16: patch --device cpu succeeds" 0 "$trainspool" patch --device cpu job.yaml
    expect "D16: --device cpu turns fp16 off" grep -qx 'fp16: false' job.yaml
    cp first job.yaml
    expect_status "D16: TRAINSPOOL_DEVICE names a card" 0 env TRAINSPOOL_DEVICE=T4 "$trainspool" patch job.yaml
    expect "D16: fp16 is right on a T4" cmp job.yaml first
}
field patcher/D16-patch-on-a-laptop-turns-fp16-off laptop

disk_elsewhere() {
    try "$trainspool" check --device "H100 80GB" job.yaml
    expect_no_output "D21: the disk of another machine is no warning" 'warning\[TS31[34]\]'
    expect "D21: if it is mentioned, as this machine's" \
        sh -c "! grep 'TS313' '$T/out' | grep -qv 'disk of this machine'"
    expect_no_output "D21: nor is its memory" 'TS314'
}
field patcher/D21-disk-of-another-machine disk_elsewhere

plan
