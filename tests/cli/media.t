#!/bin/sh
# Sound: the sample job learns from it what text alone cannot teach, and what is wrong with a file or a
# record is found before the run.
. "${top_srcdir-.}/tests/cli/lib.sh"

if ! grep -q '^#define HAVE_SNDFILE 1' "$top/config.h"; then
    skip "sound" "this build has no libsndfile"
    plan
    exit 0
fi
sh "$source/jobs/samples/generate-tones" "$T" >"$T/out" 2>&1 || exit 99
cd "$T" || exit 99
cp "$source/jobs/samples/7-listen.yaml" .

# ---- the sample job ----

expect_status "the sample of sound needs no change" 0 "$trainspool" check 7-listen.yaml
expect_status "its plan is shown" 0 "$trainspool" plan 7-listen.yaml
expect_output "the plan counts the rows of the recordings and what the encoder takes" \
    '^  media       400 sounds with 6000 rows of features; the encoder computes them once, before training, in [0-9.]* KiB and '
expect_status "its plan is an object, too" 0 "$trainspool" plan --json 7-listen.yaml
expect_output "which has the same numbers" '"media": *{"items": *400, *"rows": *6000, *"encoder": *{"memory"'
expect_status "the sample trains" 0 "$trainspool" run 7-listen.yaml
expect_output "its model hears most keys; text alone ends at an eval_loss of 0.48" "'eval_accuracy': \(1\|0\.[89]\)[0-9]*, .*'epoch': 6.00}"
expect_status "its encoder ran once" 0 grep -q "media: encoded 400 files" 7-listen.run/train.log
rm -rf tones-heard/checkpoint-*

# ---- generate ----

XDG_CACHE_HOME=$T/cache
export XDG_CACHE_HOME
heard=$(sed -n 's/.*"audios": \["\([^"]*\)"\].*/\1/p; q' tones-test.jsonl)
keys=$(sed -n '1s/.*\(<answer>[0-9]*<\).*/\1/p' tones-test.jsonl)
# NAME ARGUMENT...: the keys of that recording are heard.
hears() {
    hears_name=$1
    shift
    expect_status "$hears_name" 0 "$trainspool" generate "$@"
    expect_output "$hears_name: it hears the keys" "$keys"
}
hears "generate plays a recording to the model of a job" 7-listen.yaml --audio "tones/$heard" -p "Which keys are pressed?"
hears "a folder with a template of its own reads the placeholder" tones-heard --audio "tones/$heard" -p "<audio>Which keys are pressed?"
expect_status "generate answers the records of a file" 0 "$trainspool" generate 7-listen.yaml --prompts tones-test.jsonl --json
cp out records.out
expect "each answer names the recording" test "$(grep -c '"audios":\["[0-9]*.wav"\]' records.out)" -eq 52
expect "it hears most of them" test "$(grep -c '"correct":true' records.out)" -ge 42
expect_status "generate keeps right answers as records" 0 "$trainspool" generate 7-listen.yaml --prompts tones-test.jsonl --keep-correct -o kept.jsonl
sed 's/^dataset: .*/dataset: kept.jsonl/; /^output_dir/d' 7-listen.yaml >kept.yaml
expect_status "which a job can train on" 0 "$trainspool" check kept.yaml
bytes=$(base64 "tones/$heard" | tr -d '\n')
printf '{"messages": [{"role": "user", "content": [{"type": "input_audio", "input_audio": {"data": "%s"}}, %s]}, %s]}\n' "$bytes" \
    '{"type": "text", "text": "Which keys are pressed?"}' '{"role": "assistant", "content": "x"}' >bytes.jsonl
expect_status "a record with the bytes of a recording is answered" 0 "$trainspool" generate 7-listen.yaml --prompts bytes.jsonl --json
expect_output "with the keys, and the digest as its name" "\"audios\":\[\"$(sha256sum "tones/$heard" | cut -c 1-64)\"\].*$keys"
expect_status "but not kept" 2 "$trainspool" generate 7-listen.yaml --prompts bytes.jsonl --keep-correct
expect_error "because a record names files" 'bytes.jsonl:1:1: --keep-correct writes records that name files, and this one contains a sound'
expect "no features stay in the cache" test -z "$(ls cache/trainspool/media)"
mkdir cache/trainspool/media/left && touch -d '2 days ago' cache/trainspool/media/left

asks() { # NAME STATUS PATTERN ARGUMENT...: generate fails with a message
    asks_name=$1 asks_status=$2 asks_pattern=$3
    shift 3
    expect_status "$asks_name" "$asks_status" "$trainspool" generate 7-listen.yaml "$@"
    expect_error "$asks_name: the message" "$asks_pattern"
}
asks "too many placeholders" 2 'prompt 2 has 2 <audio> for 1 file of --audio; give as many of one as of the other' \
    --audio "tones/$heard" -p "x" -p "<audio><audio>"
expect "a folder that a killed process left is removed" test ! -e cache/trainspool/media/left
asks "too few files" 2 'prompt 1 has 1 <audio> for 0 files of --audio' -p "<audio>What?"
asks "too many files" 2 'prompt 1 has 1 <audio> for 2 files of --audio' --audio "tones/$heard" --audio "tones/$heard" -p "<audio>"
asks "a missing recording" 2 '--audio: there is no file absent.wav' --audio absent.wav -p x
asks "a folder as a recording" 2 '--audio: tones is a folder, not a file' --audio tones -p x
asks "an image for a model of sound" 2 \
    '--image: a model of model_type qwen2_audio reads text and sounds here; leave the option out' --image "tones/$heard" -p x
asks "files for records" 2 '--audio gives files to texts, of --prompt or of lines' --audio "tones/$heard" --prompts tones-test.jsonl
head -c 40 "tones/$heard" >broken.wav
asks "a broken recording" 2 'prompt 1: .*broken.wav' --audio broken.wav -p x
asks "a template without sounds" 2 'prompt 1: the template alpaca has no token for sounds; use template: qwen2_audio' \
    --audio "tones/$heard" -p x --template alpaca
printf '{"messages": [{"role": "user", "content": "<audio>Which?"}, {"role": "assistant", "content": "x"}], "audios": ["absent.wav"]}\n' >absent.jsonl
asks "a record with a missing recording" 2 'absent.jsonl:1:1: the sound absent.wav does not exist in media_dir' --prompts absent.jsonl

mkdir plain && : >plain/trainspool
XDG_CACHE_HOME=$T/plain asks "a cache that cannot be written" 3 'plain/trainspool' --audio "tones/$heard" -p x
XDG_CACHE_HOME=$T/plain asks "a cache that cannot be written, for records" 3 'plain/trainspool' --prompts tones-test.jsonl
XDG_CACHE_HOME=$T/plain expect_status "prompts of text need no cache" 0 "$trainspool" generate 7-listen.yaml -p x

cp -r 7-listen.run/features-* kept
rm -rf 7-listen.run/state.json tones-heard
sed 's/^num_train_epochs: .*/max_steps: 1/; s/^eval_strategy: .*//; s/^predict_with_.*//' 7-listen.yaml >again.yaml
mkdir again.run && mv kept "again.run/$(basename 7-listen.run/features-*)"
expect_status "a job finds the features of an earlier run" 0 "$trainspool" run again.yaml
expect_status "and computes none" 1 grep -q "media: encoded" again.run/train.log

# A disk without room for the features; then with it, and sounds in a folder that cannot be written.
mkdir small fixed
sed "s|tones-200k|$T/tones-200k|; s|^dataset: .*|dataset: $T/tones-train.jsonl|; s|^media_dir: .*|media_dir: $T/fixed|; s|^output_dir.*|output_dir: full|" \
    again.yaml >full.yaml
if [ "$(id -u)" -eq 0 ] && mount --bind tones fixed 2>"$T/null" && mount -o remount,ro,bind fixed 2>"$T/null" &&
    mount -t tmpfs -o size=1200k tmpfs small 2>"$T/null"; then
    cp full.yaml small
    expect_status "a disk that is full ends a run while it encodes" 3 "$trainspool" run small/full.yaml
    expect_error "it says so" 'features-.*: cannot write: No space left on device'
    expect "no part of a file is left" test -z "$(find small -name '*.tmp-*' -o -name '*.safetensors')"
    mount -o remount,size=1g small
    expect_status "it can run once there is room" 0 "$trainspool" run small/full.yaml
    expect "the model has the same bits" cmp small/full/model.safetensors tones-heard/model.safetensors
    umount small
else
    skip 'full disk' 'cannot mount a file system'
fi
umount fixed 2>"$T/null" || true

# ---- findings ----

sed 's/tones-train/d/; /^eval_/d; /^predict/d; /^output_dir/d' 7-listen.yaml >job.yaml
# TEXT AUDIOS: the second of two records; the first is fine.
record() {
    head -1 tones-train.jsonl >d.jsonl
    printf '{"messages": [{"role": "user", "content": "%s"}, {"role": "assistant", "content": "x"}], %s}\n' \
        "$1" "$2" >>d.jsonl
}
# NAME PATTERN: check finds an error in the data, which names line 2, and says what to do.
finds() {
    expect_status "$1 is an error" 1 "$trainspool" check job.yaml
    expect_output "$1: it is named" "error\[TS713\]: a run would stop: .*d.jsonl:2:1: .*$2"
}
record '<audio>What?' '"audios": ["absent.wav"]'
finds "a missing file" 'the sound absent.wav does not exist in media_dir .*; correct its path, or set media_dir'
: >tones/empty.wav
record '<audio>What?' '"audios": ["empty.wav"]'
finds "an empty file" 'empty.wav is empty'
head -c 40 tones/001.wav >tones/cut.wav
record '<audio>What?' '"audios": ["cut.wav"]'
finds "a damaged file" 'cut.wav'
echo "not a sound" >tones/text.wav
record '<audio>What?' '"audios": ["text.wav"]'
finds "a file that is no sound" 'text.wav'
head -c 144 tones/001.wav >tones/short.wav
record '<audio>What?' '"audios": ["short.wav"]'
finds "a sound too short for a row" 'short.wav'
if "$trainspool" plan 7-listen.yaml | grep -q 'contained .*Landlock'; then
    mkdir far inner tones/deep tones/deep/deeper
    cp tones/001.wav far/001.wav
    ln far/001.wav tones/hard.wav
    ln -s ../../far/001.wav tones/deep/001.wav
    ln -s ../../001.wav tones/deep/deeper/001.wav
    ln -s deeper tones/deep/folder
    sed 's/^dataset: /&inner\//' job.yaml >inner.yaml
    record '<audio>What?' '"audios": ["deep/001.wav"]'
    mv d.jsonl inner
    expect_status "a link to a file that the run may not read is an error" 1 "$trainspool" check inner.yaml
    expect_output "it is named" "error\[TS713\]: .*d.jsonl:2:1: the sound deep/001.wav is at .*/far/001.wav, outside the folders that a run may read; copy the file to media_dir, or set media_dir to a folder that contains it"
    record '<audio><audio>What?' '"audios": ["hard.wav", "deep/folder/001.wav"]'
    mv d.jsonl inner
    expect_status "hard links, and links inside media_dir, are read" 0 "$trainspool" check inner.yaml
else
    skip "links" "this system has no Landlock"
fi
record '<audio><audio>What?' '"audios": ["001.wav"]'
finds "a placeholder without a file" 'the record has 1 sound for 2 <audio> in its messages; add or remove <audio> where a sound'
record 'What?' '"images": ["cat.png"]'
finds "an image for a model of sound" 'the record has images, and trainspool cannot give those to a model of model_type qwen2_audio'
record '<video>What?' '"videos": ["cat.mp4"]'
finds "a video" 'videos are not supported'

# several records that are wrong: all are named, up to 20, and the others counted
record '<audio>What?' '"audios": ["absent.wav"]'
printf '%s\n' '{"messages": [{"role": "user", "content": "<audio>"}, {"role": "assistant", "content": "x"}], "audios": []}' >>d.jsonl
head -1 tones-train.jsonl >>d.jsonl
sed -n 2p d.jsonl | sed 's/absent/cut/' >>d.jsonl
expect_status "several broken records are an error" 1 "$trainspool" check job.yaml
for line in 2 3 5; do
    expect_output "record $line is named" "error\[TS713\]: a run would stop: .*d.jsonl:$line:1: "
done
expect_output "and no other" ': 3 findings (3 errors)'
for _ in $(seq 25); do sed -n 2p d.jsonl; done >more.jsonl
cat more.jsonl >>d.jsonl
expect_status "many broken records are an error" 1 "$trainspool" check job.yaml
expect_output "the twentieth is named" 'd.jsonl:22:1: '
expect_output "the others are counted" 'a run would stop: 8 more records have media that cannot be used'
expect_output "and not listed" ': 21 findings (21 errors)'
# 0.25 s in float: NaN at 0.1 s
{
    printf 'RIFF\244>\0\0WAVEfmt \020\0\0\0\003\0\001\0\200>\0\0\0\372\0\0\004\0 \0data\200>\0\0'
    head -c 6400 /dev/zero
    printf '\0\0\300\177'
    head -c 9596 /dev/zero
} >tones/nan.wav
record '<audio>What?' '"audios": ["nan.wav"]'
finds "a sample that is not a number" 'nan.wav: the sample at 0.1 s is nan'
record '<audio>What?' "\"audios\": [\"data:audio/wav;base64,$(base64 tones/nan.wav | tr -d '\n')\"]"
finds "one in the bytes of a record" 'the bytes of a medium: the sample at 0.1 s is nan'
# what the decoder of MP3 writes to standard error is not the error
{ head -c 1172 "$source/tests/golden/sounds/mpeg.mp3"; head -c 600 /dev/zero; } >tones/noted.mp3
record '<audio>What?' '"audios": ["absent.wav"]'
sed 's/\[".*\.wav"\]/["noted.mp3"]/' d.jsonl | head -1 >both.jsonl
sed -n 2p d.jsonl >>both.jsonl
sed 's/d.jsonl/both.jsonl/' job.yaml >both.yaml
expect_status "a sound that the decoder comments is fine" 1 "$trainspool" plan both.yaml
expect_output "the plan names the one that is not" 'a run would stop: .*both.jsonl:2:1: the sound absent.wav does not exist'

# an image too large to be decoded by check, for a model without weights
mkdir seeing
cp "$source/tests/patch/model-towers/config.json" seeing/
echo '{"image_processor_type": "Qwen2VLImageProcessor"}' >seeing/preprocessor_config.json
sed 's/audio_bos/vision_start/g; s/audio_eos/vision_end/g; s/|AUDIO|/|image_pad|/g' tones-200k/tokenizer.json >seeing/tokenizer.json
printf '\211PNG\r\n\032\n\0\0\0\rIHDR\0\0\040\0\0\0\040\0\010\002\0\0\0' >large.png
printf '{"messages": [{"role": "user", "content": "<image>?"}, {"role": "assistant", "content": "x"}], "images": ["large.png"]}\n' >seen.jsonl
printf '%s\n' 'model_name_or_path: seeing' 'dataset: seen.jsonl' 'template: qwen2_vl' >seeing.yaml
expect_status "check reads what it can" 1 "$trainspool" check seeing.yaml
expect_error "it says how many media it has not decoded" '1 of 1 images and sounds were not decoded: check takes one second for them and leaves out large images; a run reads all'

head -1 tones-train.jsonl >d.jsonl
cp -r tones-200k other
ffn=$(sed -n 's/.*"encoder_ffn_dim": *\([0-9]*\).*/\1/p' other/config.json)
sed -i "s/\"encoder_ffn_dim\": *$ffn/\"encoder_ffn_dim\": $((ffn + 1))/" other/config.json
sed 's/tones-200k/other/' job.yaml >other.yaml
expect_status "an encoder that does not fit its configuration is an error" 1 "$trainspool" check other.yaml
expect_output "it names the tensor" "a run would stop: other/model.safetensors: tensor .*fc1.weight has the shape $ffn x "
# shellcheck disable=SC2059 # the format is the byte
name=$(sed 's/.*"audios": \["\([^"]*\)".*/\1/' d.jsonl)
header=$(printf '%-72s' "$(printf '{"%s":{"dtype":"F32","shape":[1,2],"data_offsets":[0,8]}}' "$name")")
printf "\\$(printf %03o ${#header})\0\0\0\0\0\0\0%s\0\0\0\0\0\0\0\0" "$header" >rows.safetensors
{ grep -v '^trainspool:\|^ ' job.yaml; printf 'trainspool:\n  features: rows.safetensors\n'; } >rows.yaml
expect_status "features of another model are an error" 1 "$trainspool" check rows.yaml
expect_output "it says how they differ" 'rows.safetensors: rows of features have 2 columns, but the model has [0-9]*'
sed 's/^trainspool:/freeze_multi_modal_projector: false\n&/' rows.yaml >trained.yaml
expect_status "features that a trained projector cannot read are an error" 1 "$trainspool" check trained.yaml
expect_output "it says what reads them" 'have 2 columns, but the trained projector has [0-9]*; are they the output of the encoder?'
sed 's/^stage: .*/stage: distill/' job.yaml >distill.yaml
echo 'teacher_model_name_or_path: tones-200k' >>distill.yaml
expect_status "a stage that reads no media is an error" 1 "$trainspool" check distill.yaml
expect_output "it names the stage" 'stage: distill does not support images or sounds'
{ grep -v '^do_sample\|^max_new_' job.yaml | sed 's/^stage: .*/stage: grpo/'; printf 'do_sample: true\nnum_generations: 4\n'; } >grpo.yaml
expect_status "stage grpo is another" 1 "$trainspool" check grpo.yaml
expect_output "it names that stage" 'stage: grpo does not support images or sounds; remove them from the data, or train with'
echo '{"text": "<audio>What is it?", "audios": ["001.wav"]}' >pt.jsonl
echo '{"pt": {"file_name": "pt.jsonl", "columns": {"prompt": "text", "audios": "audios"}}}' >dataset_info.json
sed 's/^stage: .*/stage: pt/; s/^dataset: .*/dataset: pt\ndataset_dir: ./' job.yaml >pt.yaml
expect_status "blocks of stage pt cannot have sound" 1 "$trainspool" check pt.yaml
expect_output "the remedy is given" 'the text has media, which the blocks of stage: pt would divide; set packing: false'
echo 'packing: false' >>pt.yaml
expect_status "without packing, they can" 0 "$trainspool" check pt.yaml
sed -i 's/^template: .*/template: alpaca/' job.yaml
expect_status "a template without media is an error" 1 "$trainspool" check job.yaml
expect_output "it names the one to use" 'the template alpaca has no token for sounds; use template: qwen2_audio'
plan
