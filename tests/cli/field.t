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

plan
