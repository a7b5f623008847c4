#!/usr/bin/env python3
"""A model of training on many machines: bytes, step time, efficiency, memory, checkpoints.

    bench/scale.py BUILD [FOLDER]           the tables of docs/scale.md; plots into FOLDER
    bench/scale.py --step BUILD MODEL CLUSTER STAGE GPUS   one configuration, term by term

Everything printed here is computed, not measured; MODEL is 1B, 8B or 70B, CLUSTER h100, a100 or
24gb.  What is communicated, and when, is that of the program (bench/scale_calls.py), divided as
bench/rank_layout says.  The memory is that of `trainspool plan`.
"""
import json
import math
import os
import subprocess
import sys
import tempfile
from collections import namedtuple

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import scale_calls  # noqa: E402
from scale_plot import plot  # noqa: E402

# config.json of Llama 3.2 1B, Llama 3.1 8B and 70B (huggingface.co/meta-llama)
LLAMA = {
    "1B": {"hidden_size": 2048, "intermediate_size": 8192, "num_hidden_layers": 16,
           "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 64,
           "tie_word_embeddings": True},
    "8B": {"hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32,
           "num_attention_heads": 32, "num_key_value_heads": 8, "tie_word_embeddings": False},
    "70B": {"hidden_size": 8192, "intermediate_size": 28672, "num_hidden_layers": 80,
            "num_attention_heads": 64, "num_key_value_heads": 8,
            "tie_word_embeddings": False},
}
SEQUENCE = 2048
GPUS = (8, 16, 32, 64, 128, 256, 512, 1024)

# flops: reached in a step, docs/gpu.md: 58,807 tokens/s of Llama 1B with 7.82 GFLOP each on an
# H100.  Others: the same share of their peak of dense bf16 (989 TFLOP/s; A100 312, NVIDIA's
# data sheets; RTX 4090 165 with sums in fp32, "Ada GPU architecture"), not measured.
# memory: bytes per second of AdamW, docs/gpu.md and data sheets.
# local: bytes per second of a ring in a machine.  H100: 355e9, NVIDIA/nccl#1281; A100: 235e9,
# the limit in NCCL's graph/tuning.cc; PCIe 4 without peer access: assumed 12e9.
# network: bytes per second of a machine: 8 x 400 Gbit/s, 100 Gbit/s and 10 Gbit/s, of which
# 0.9 are assumed to be reached.
# hop, network_hop: seconds by which a ring passes a chunk on, base: of a call (hwLat and
# baseLat of ring, Simple, in NCCL's src/graph/tuning.cc, 2.8 to 2.12).
Cluster = namedtuple("Cluster", "name device flops memory local network hop network_hop")
CLUSTERS = {
    "h100": Cluster("H100, NVLink, 8 x 400 Gbit/s per node", "H100", 460e12, 2.6e12, 355e9,
                    0.9 * 8 * 50e9, 3.4e-6, 9.6e-6),
    "a100": Cluster("A100 80 GB, NVLink, 100 Gbit/s per node", "A100 80GB", 145e12, 1.5e12,
                    235e9, 0.9 * 12.5e9, 3.4e-6, 9.6e-6),
    "24gb": Cluster("RTX 4090, PCIe, 10 Gbit/s per node", "RTX 4090", 77e12, 0.8e12, 12e9,
                    0.9 * 1.25e9, 5.7e-6, 9.6e-6),
}
NODE = 8                # GPUs
BASE, ENQUEUE = 8.4e-6, 50e-6  # enqueue: cuda_group.c, on the host


# ---- Ranks on CPUs ----

SEND_BUFFER = 4 << 20  # net.ipv4.tcp_wmem


def mesh_seconds(calls, nodes, one_way, rate, sent_bytes=4):
    """The time of calls of cpu_mesh.c, none of which overlaps with anything.  A rank has a clock:
    it continues when all that it receives in an exchange has come, and when what it sends fits
    into its sockets.  A node's link passes one message after another in each direction.  rate:
    bytes per second."""
    clock = [0.0] * len(nodes)
    out_free, in_free = [0.0] * len(nodes), [0.0] * len(nodes)
    for call in calls:
        for exchange in scale_calls.exchanges(call, len(nodes), sent_bytes):
            begun = clock[:]
            for (a, b), size in exchange.items():
                here, there = nodes[a], nodes[b]
                if size == 0:
                    continue
                if here == there:
                    clock[b] = max(clock[b], begun[a])
                    continue
                out_free[here] = max(out_free[here], begun[a]) + size / rate
                in_free[there] = max(in_free[there] + size / rate, out_free[here])
                clock[a] = max(clock[a], out_free[here] - SEND_BUFFER / rate)
                clock[b] = max(clock[b], in_free[there] + one_way)
    return max(clock)


def mesh_step_seconds(layout, nodes, accumulation, compute, one_way, rate, sent_bytes=4):
    """compute: seconds of all micro-batches and the update.  Rank 0's order reaches the others
    after one_way, and their sums rank 0 after another."""
    calls = scale_calls.step_calls(layout, accumulation)
    return compute + 2 * one_way + mesh_seconds(calls, nodes, one_way, rate, sent_bytes)


# ---- GPUs ----

def ring_seconds(calls, ranks, cluster, pipelined):
    """The time of calls that follow each other on NCCL's stream.  Only a ring does reduce,
    broadcast and all_gather (graph/tuning.cc); its slowest link decides.  pipelined: a rank
    begins a call when it has passed on its part of the one before, as consecutive roots allow;
    otherwise each call waits for the whole ring."""
    rate = cluster.local if ranks <= NODE else min(cluster.local, cluster.network)
    across = 0 if ranks <= NODE else ranks // NODE
    ring = (ranks - 1 - across) * cluster.hop + across * cluster.network_hop
    seconds, waits = 0.0, 0
    for call in scale_calls.single_calls(calls):
        size = 4 * call.count if call.kind == "reduce" else call.count
        if call.kind == "all_gather":
            size *= ranks - 1
        if call.kind == "all_reduce":
            seconds += BASE + 2 * ring
            continue
        seconds += max(ENQUEUE, BASE + size / rate)
        waits += 1
    return seconds + ring * (min(1, waits) if pipelined else waits)


def flops_of(shape, tokens):
    """Forward FLOPs of the head and of a block, for so many tokens (design: 2 per weight and
    token, and 2 T C for causal attention)."""
    c, inner = shape["hidden_size"], shape["intermediate_size"]
    heads = shape["num_attention_heads"]
    head = shape.get("head_dim", c // heads)
    kv = shape["num_key_value_heads"] * head
    block = 2 * (2 * c * heads * head + 2 * c * kv + 3 * c * inner) + 2 * SEQUENCE * heads * head
    return 2 * 128256 * c * tokens, block * tokens


def simulate(layout, shape, cluster, accumulation=1, checkpointing=True, pipelined=True):
    """Run a step of the program on two streams, and return its parts in seconds: what the
    GPU computes, the update, and how long computing waits for NCCL before and after it."""
    ranks = layout["ranks"]
    head, block = (f / cluster.flops for f in flops_of(shape, SEQUENCE))
    compute_at = network_at = busy = 0.0
    gathers = scale_calls.Gathers(layout)
    ready, lane_free = {}, {}

    def communicate(calls, after):
        nonlocal network_at
        if calls:
            network_at = max(network_at, after) + ring_seconds(calls, ranks, cluster, pipelined)
        return network_at

    for i in range(accumulation):
        reduces = layout["shards_gradients"] or i == accumulation - 1
        for when, level, before, after in scale_calls.micro_batch(layout, gathers, reduces):
            here = level if when == "forward" else level - 1
            for call_block in sorted({call.level for call in before}, key=lambda b: b != here):
                ready[call_block] = communicate(
                    [call for call in before if call.level == call_block], compute_at)
            if layout["shards_blocks"] and here in ready:
                compute_at = max(compute_at, ready[here])
            if when == "forward":
                seconds = block
            elif level == layout["layers"] + 2:
                seconds = 3 * head
            else:
                seconds = block * (3 if checkpointing else 2) if 1 <= level <= layout["layers"] \
                    else 0
            lane = level % 2 if 1 <= level <= layout["layers"] else 2
            if layout["shards_gradients"] and when == "backward":
                compute_at = max(compute_at, lane_free.get(lane, 0.0))
            compute_at += seconds
            busy += seconds
            if after:
                lane_free[lane] = communicate(after, compute_at)
    compute_at = max(compute_at, network_at)
    norm = ring_seconds([scale_calls.Call("all_reduce", 1, 0, "update", 0)], ranks, cluster,
                        pipelined)
    update = layout["shard"] * 30 / cluster.memory
    weights = ring_seconds(scale_calls.weight_gathers(layout), ranks, cluster, pipelined)
    return {"compute": busy, "update": update, "gradients and blocks": compute_at - busy,
            "norm": norm, "weights": weights,
            "step": compute_at + norm + update + weights}


# ---- Stragglers ----

def expected_maximum(n, steps=4000):
    """Of n standard normal values: the integral of x d(F(x)^n)."""
    low, high = -8.0, 8.0
    width = (high - low) / steps
    total, last = 0.0, 0.0
    for i in range(1, steps + 1):
        x = low + i * width
        now = (0.5 * math.erfc(-x / math.sqrt(2))) ** n
        total += (x - width / 2) * (now - last)
        last = now
    return total


# ---- Checkpoints and failures ----

# Llama 3 (Dubey et al., 2024, section 3.3.4): 419 unexpected interruptions in 54 days on 16,384
# H100
HOURS_PER_FAILURE_OF_A_GPU = 54 * 24 * 16384 / 419


def young(write, mtbf):
    """Young, 1974: the interval between checkpoints that loses the least."""
    return math.sqrt(2 * write * mtbf)


def daly(write, mtbf):
    """Daly, 2006, with higher orders; for write < 2 mtbf."""
    ratio = write / (2 * mtbf)
    return math.sqrt(2 * write * mtbf) * (1 + math.sqrt(ratio) / 3 + ratio / 9) - write \
        if ratio < 1 else mtbf


def lost(write, interval, mtbf, restart):
    """Share of the time that writing, repeating and restarting take (first order)."""
    return write / interval + (interval / 2 + restart) / mtbf


# ---- Plans ----

def write_model(folder, name):
    os.makedirs(f"{folder}/{name}", exist_ok=True)
    config = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "rms_norm_eps": 1e-5,
              "rope_theta": 500000.0, "max_position_embeddings": 8192, "vocab_size": 128256,
              "torch_dtype": "bfloat16", **LLAMA[name]}
    with open(f"{folder}/{name}/config.json", "w", encoding="utf-8") as file:
        json.dump(config, file)
    return f"{folder}/{name}/config.json"


def planned(build, folder, model, device, stage, ranks):
    """Return the expected bytes of each GPU, and whether they fit, from trainspool plan."""
    write_model(folder, model)
    with open(f"{folder}/text.txt", "w", encoding="utf-8") as file:
        file.write("a text\n")
    with open(f"{folder}/job.yaml", "w", encoding="utf-8") as file:
        file.write(f"""model_name_or_path: {model}
stage: pt
finetuning_type: full
dataset: text.txt
cutoff_len: {SEQUENCE}
per_device_train_batch_size: 1
gradient_checkpointing: true
learning_rate: 1.0e-5
bf16: true
max_steps: 100
trainspool: {{ranks: {ranks}, nodes: {max(1, ranks // NODE)}, zero_stage: {stage}}}
""")
    done = subprocess.run([f"{build}/trainspool", "plan", "--json", "--exit-zero", "--device",
                           device, "job.yaml"], cwd=folder, stdout=subprocess.PIPE, text=True)
    memory = json.loads(done.stdout)["memory"]
    return memory["total"], memory["fits"]


class Rows:
    def __init__(self, build, folder):
        self.build, self.folder, self.kept = build, folder, {}

    def layouts(self, model, cluster, stage):
        key = model, cluster, stage
        if key not in self.kept:
            config = write_model(self.folder, model)
            self.kept[key] = scale_calls.read_layouts(
                f"{self.build}/bench/rank_layout", config, CLUSTERS[cluster].device, "full",
                "bf16", stage, SEQUENCE, GPUS)
        return dict(zip(GPUS, self.kept[key]))

    def step(self, model, cluster, stage, ranks, **more):
        layout = self.layouts(model, cluster, stage)[ranks]
        return simulate(layout, LLAMA[model], CLUSTERS[cluster], **more)


def sent_per_gpu(layout, accumulation=1):
    """Bytes that a GPU passes to the next one of the ring in a step."""
    total = 0
    for call in scale_calls.step_calls(layout, accumulation):
        if call.kind == "reduce":
            total += 4 * call.count
        elif call.kind == "broadcast":
            total += call.count
        elif call.kind == "all_gather":
            total += call.count * (layout["ranks"] - 1)
    return total


# ---- Tables ----

def seconds_text(low, high):
    def one(s):
        return f"{s:.2f}" if s < 10 else f"{s:.1f}" if s < 100 else f"{s:.0f}"
    return one(low) if one(low) == one(high) else f"{one(low)} to {one(high)}"


def fitting(rows, model, cluster, stage):
    """Return {GPUs: bytes of each}, where they fit."""
    plans = {ranks: planned(rows.build, rows.folder, model, CLUSTERS[cluster].device, stage,
                            ranks) for ranks in GPUS}
    return {ranks: memory for ranks, (memory, fits) in plans.items() if fits}


def step_table(rows, cluster):
    print(f"\n### {CLUSTERS[cluster].name}\n")
    print("| model, stage | GB passed on | computing, s | " +
          " | ".join(f"{ranks} GPUs" for ranks in GPUS) + " | measured |")
    print("|---" * (len(GPUS) + 4) + "|")
    for model in LLAMA:
        for stage in (1, 2, 3):
            memory = fitting(rows, model, cluster, stage)
            cells = []
            for ranks in GPUS:
                pair = [rows.step(model, cluster, stage, ranks, pipelined=p)
                        for p in (True, False)]
                cells.append(seconds_text(pair[0]["step"], pair[1]["step"])
                             if ranks in memory else "-")
            if memory:
                layout = rows.layouts(model, cluster, stage)[GPUS[-1]]
                print(f"| {model}, {stage} | {sent_per_gpu(layout) / 1e9:.1f} "
                      f"| {pair[0]['compute']:.2f} | {' | '.join(cells)} | |")


def memory_table(rows):
    print("\n| cluster, model, stage | " + " | ".join(f"{ranks} GPUs" for ranks in GPUS) + " |")
    print("|---" * (len(GPUS) + 1) + "|")
    for cluster in CLUSTERS:
        for model in LLAMA:
            for stage in (1, 2, 3):
                memory = fitting(rows, model, cluster, stage)
                cells = [f"{memory[ranks] / 2**30:.1f}" if ranks in memory else "-"
                         for ranks in GPUS]
                if memory:
                    print(f"| {cluster}, {model}, {stage} | {' | '.join(cells)} |")


def accumulation_table(rows):
    print("\n| model, cluster, stage | GPUs | 1 micro-batch | 4 | 16 |")
    print("|---|---|---|---|---|")
    for model, cluster, stage in (("8B", "h100", 1), ("8B", "h100", 2), ("8B", "h100", 3),
                                  ("8B", "a100", 1), ("8B", "a100", 2), ("70B", "h100", 3)):
        for ranks in (64, 1024):
            cells = []
            for micro in (1, 4, 16):
                pair = [rows.step(model, cluster, stage, ranks, accumulation=micro, pipelined=p)
                        for p in (False, True)]
                cells.append(" to ".join(f"{100 * s['compute'] / s['step']:.0f}" for s in pair))
            print(f"| {model}, {cluster}, {stage} | {ranks} | {' % | '.join(cells)} % |")


def straggler_table():
    print("\n| ranks | expected maximum, deviations | step time at 1 % | 3 % | 10 % |")
    print("|---|---|---|---|---|")
    for n in GPUS:
        most = expected_maximum(n)
        print(f"| {n} | {most:.2f} | {1 + 0.01 * most:.3f} | {1 + 0.03 * most:.3f} "
              f"| {1 + 0.1 * most:.2f} |")


def checkpoint_table():
    print("\n| model | bytes | GPUs | hours between failures | written at | write, s "
          "| interval, min: Young | Daly | lost |")
    print("|---|---|---|---|---|---|---|---|---|")
    for model, weights in (("1B", 1.236e9), ("8B", 8.03e9), ("70B", 70.6e9)):
        for ranks in (64, 1024):
            for rate, name in ((1e9, "1 GB/s"), (20e9, "20 GB/s")):
                size = 12 * weights
                write, mtbf = size / rate, HOURS_PER_FAILURE_OF_A_GPU / ranks * 3600
                interval = daly(write, mtbf)
                print(f"| {model} | {size / 1e9:.0f} GB | {ranks} | {mtbf / 3600:.0f} | {name} "
                      f"| {write:.0f} | {young(write, mtbf) / 60:.0f} | {interval / 60:.0f} "
                      f"| {100 * lost(write, interval, mtbf, 300):.1f} % |")


def plots(rows, folder):
    for cluster in CLUSTERS:
        lines = {}
        for model in LLAMA:
            for stage in (1, 3):
                points, memory = [], fitting(rows, model, cluster, stage)
                for ranks in GPUS:
                    if ranks in memory:
                        pair = [rows.step(model, cluster, stage, ranks, pipelined=p)
                                for p in (True, False)]
                        points.append((ranks, pair[0]["step"], pair[1]["step"],
                                       *(100 * s["compute"] / s["step"] for s in pair)))
                if points:
                    lines[model, stage] = points
        with open(f"{folder}/scale-{cluster}.svg", "w", encoding="utf-8") as file:
            file.write(plot(CLUSTERS[cluster].name, GPUS, lines))


def main():
    if len(sys.argv) == 7 and sys.argv[1] == "--step":
        build, model, cluster, stage, ranks = sys.argv[2:]
        with tempfile.TemporaryDirectory() as folder:
            rows = Rows(build, folder)
            for pipelined in (True, False):
                print("calls pipelined:" if pipelined else "each call waits for the ring:")
                for name, value in rows.step(model, cluster, int(stage), int(ranks),
                                             pipelined=pipelined).items():
                    print(f"  {name}: {value:.4f} s")
        return
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__.split("\n\n")[1])
    with tempfile.TemporaryDirectory() as folder:
        rows = Rows(os.path.abspath(sys.argv[1]), folder)
        for cluster in CLUSTERS:
            step_table(rows, cluster)
        memory_table(rows)
        accumulation_table(rows)
        straggler_table()
        checkpoint_table()
        if len(sys.argv) == 3:
            plots(rows, sys.argv[2])


if __name__ == "__main__":
    main()
