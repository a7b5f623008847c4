"""Read the event files of a run with TensorBoard's own reader and compare them with its
metrics.jsonl.  Usage: event_files.py NAME.run [STARTS]; exits with 0 if they agree.
"""
import glob
import json
import math
import sys

from tensorboard.backend.event_processing import event_accumulator
from tensorboard.backend.event_processing import event_file_loader

folder = sys.argv[1]
board = event_accumulator.EventAccumulator(folder, size_guidance={"scalars": 0, "tensors": 0})
board.Reload()
expected = {}
for line in open(folder + "/metrics.jsonl"):
    entry = json.loads(line)
    step = entry.pop("step")
    if "eval_loss" in entry:
        del entry["epoch"]
    for key, value in entry.items():
        tag = "eval/" + key[5:] if key.startswith("eval_") else "train/" + key
        expected.setdefault(tag, []).append((step, float(value)))
same = lambda a, b: a == b or (math.isnan(a) and math.isnan(b)) or abs(a - b) <= 1e-6 * abs(b)
for tag, points in expected.items():
    got = [(event.step, event.value) for event in board.Scalars(tag)]
    if len(got) != len(points) or not all(
        a[0] == b[0] and same(a[1], b[1]) for a, b in zip(got, points)
    ):
        sys.exit(f"{tag}: TensorBoard has {got}, metrics.jsonl {points}")
surplus = set(board.Tags()["scalars"]) - set(expected)
if surplus:
    sys.exit(f"tags not in metrics.jsonl: {surplus}")
starts = 0
for name in sorted(glob.glob(folder + "/events.out.tfevents.*")):
    for event in event_file_loader.EventFileLoader(name).Load():
        starts += event.HasField("session_log")
if len(sys.argv) > 2 and starts != int(sys.argv[2]):
    sys.exit(f"{starts} starts, not {sys.argv[2]}")
text = board.Tensors("job/text_summary")[0].tensor_proto.string_val[0].decode()
if "learning_rate" not in text:
    sys.exit(f"the job's text is missing: {text!r}")
print(f"{len(expected)} tags, {starts} starts")
