"""The collective operations of a training step, in order, and the bytes that they move.

The order is that of train/model/model_shard.c (gradients, weights after the update) and
model_gather.c (sharded blocks); the numbers come from bench/rank_layout.  The bytes of ranks on
CPUs are those of kernels/cpu/cpu_mesh.c.  bench/scale_check.py compares both with what network
interfaces count.
"""
import json
import subprocess
from collections import namedtuple

BUCKET, BUCKET_SHARE = 4 << 20, 8           # model_shard.c
MESH_SLICE, MESH_VALUES = 64 << 10, 4 << 20  # precision/memory.h
SMALL_BROADCAST = 64 << 10                   # cpu_mesh.c
ALIGNMENT = 256                              # shapes.h
WINDOWS = 2
# An order of rank 0 and a message of another rank: struct parallel_order, struct head,
# step.c's sums (4 and REWARDS doubles)
ORDER_BYTES, SUMS_BYTES = 64, 16 + 8 * 12

# kind: reduce (count: floats of a range; root: (first, shard), each piece is summed in the rank of
# its shard), broadcast, all_gather (count: bytes; of one rank) or all_reduce (doubles).  level: of
# the backward pass, or the block of a gather.  when: forward, backward, or update.
Call = namedtuple("Call", "kind count root when level")


def single_calls(calls):
    """The calls that NCCL gets."""
    for call in calls:
        if call.kind != "reduce":
            yield call
            continue
        first, shard = call.root
        for count, rank in pieces(first, first + call.count, shard):
            yield call._replace(count=count, root=rank)


def read_layouts(program, config, device, method, form, stage, tokens, ranks):
    """Return the layout for each number of ranks."""
    words = [program, config, device, method, form, str(stage), str(tokens), *map(str, ranks)]
    done = subprocess.run(words, stdout=subprocess.PIPE, text=True, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def pieces(start, end, shard):
    """Split a range where shards end: (elements, rank)."""
    while start < end:
        rank = start // shard
        stop = min(end, (rank + 1) * shard)
        yield stop - start, rank
        start = stop


# ---- Gradients ----

def reductions(layout):
    """reduce_range of one backward pass: (level after which it is issued, calls).  Ranks on CPUs
    make one call of each, GPUs one for each of its pieces."""
    starts, shard = layout["level_starts"], layout["shard"]
    bucket = min(BUCKET, layout["segment"] // BUCKET_SHARE)
    upper = layout["matrices_end"]

    def calls(start, end, level):
        return [Call("reduce", end - start, (start, shard), "backward", level)] \
            if end > start else []

    for level in range(len(starts) - 2, -1, -1):
        done = upper - starts[level]
        if done > 0 and (done >= bucket or layout["shards_gradients"]):
            yield level, calls(starts[level], upper, level)
            upper = starts[level]
    yield 0, calls(0, upper, 0) + calls(layout["matrices_end"], layout["segment"], 0)


# ---- Sharded blocks ----

def gather(layout, block, when):
    """gather_trained and gather_frozen of a block."""
    out = []
    starts, frozen = layout["level_starts"], layout["frozen_starts"]
    if layout["window_frozen"] > 0:
        out += [Call("broadcast", count * layout["gathered_bytes"], rank, when, block)
                for count, rank in pieces(starts[block + 1], starts[block + 2], layout["shard"])]
    if frozen[block + 1] > frozen[block]:
        start = frozen[block] // ALIGNMENT * ALIGNMENT
        end = -(-frozen[block + 1] // ALIGNMENT) * ALIGNMENT
        out += [Call("broadcast", count, rank, when, block)
                for count, rank in pieces(start, end, layout["frozen_shard"])]
    return out


class Gathers:
    """model_use_block: which blocks the windows hold."""

    def __init__(self, layout):
        self.layout = layout
        self.held = {}

    def use(self, block, following, when):
        """Return the calls for a block, and those for the one after it."""
        out = []
        for wanted in (block, following):
            if wanted is None or not self.layout["shards_blocks"]:
                continue
            if self.held.get(wanted % WINDOWS) != wanted:
                self.held[wanted % WINDOWS] = wanted
                out += gather(self.layout, wanted, when)
        return out


# ---- Weights after the update ----

def weight_gathers(layout):
    """model_gather_weights."""
    if not layout["shards_weights"]:
        return [Call("all_gather", layout["shard"] * layout["weight_bytes"], 0, "update", 0)]
    runs = []  # [first, end, item, where it lies, bytes from there]
    for at, count, item, where, place, gathered in layout["trained"]:
        if gathered:
            continue
        last = runs[-1] if runs else None
        if (last and last[2] == item and last[3] == where and at >= last[1] and
                place - last[4] == (at - last[0]) * item):
            last[1] = at + count
        else:
            runs.append([at, at + count, item, where, place])
    return [Call("broadcast", count * run[2], rank, "update", 0)
            for run in sorted(runs) for count, rank in pieces(run[0], run[1], layout["shard"])]


# ---- A step ----

def micro_batch(layout, gathers, reduces):
    """Forward and backward; yields ("forward" or "backward", level or block, calls before it,
    calls after it)."""
    layers = layout["layers"]
    for block in range(layers):
        following = block + 1 if block + 1 < layers else None
        yield "forward", block, gathers.use(block, following, "forward"), []
    due = {}
    for level, calls in reductions(layout) if reduces else []:
        due.setdefault(level, []).extend(calls)
    for level in range(layers + 2, -1, -1):  # head, last norm, blocks, embeddings
        before = []
        if 1 <= level <= layers:
            before = gathers.use(level - 1, level - 2 if level > 1 else None, "backward")
        yield "backward", level, before, due.get(level, [])


def step_calls(layout, accumulation=1):
    """Return all calls of a step in which each rank has `accumulation` micro-batches."""
    out = []
    gathers = Gathers(layout)
    for i in range(accumulation):
        reduces = layout["shards_gradients"] or i == accumulation - 1
        for _, _, before, after in micro_batch(layout, gathers, reduces):
            out += before + after
    out.append(Call("all_reduce", 1, 0, "update", 0))
    return out + weight_gathers(layout)


def evaluation_calls(layout, batches):
    """An evaluation in which the rank with the most has so many batches: with sharded blocks all
    ranks count those that still make a pass, and gather."""
    out = []
    if layout["shards_blocks"]:
        gathers = Gathers(layout)
        for _ in range(batches):
            out.append(Call("all_reduce", 1, 0, "forward", 0))
            for block in range(layout["layers"]):
                following = block + 1 if block + 1 < layout["layers"] else None
                out += gathers.use(block, following, "forward")
        out.append(Call("all_reduce", 1, 0, "forward", 0))
    return out


# ---- What a call moves between ranks on CPUs ----

def slice_length(count, rank, ranks):
    return count * (rank + 1) // ranks - count * rank // ranks


def exchanges(call, ranks, sent_bytes=4):
    """Yield the exchanges of a call, one after another: {(from, to): bytes}.  sent_bytes: of a
    gradient, 2 with reduce_dtype: bf16."""
    others = [(a, b) for a in range(ranks) for b in range(ranks) if a != b]
    if call.kind == "all_reduce":
        yield {pair: 8 * call.count for pair in others}
    elif call.kind == "all_gather":
        yield {pair: call.count for pair in others}
    elif call.kind == "broadcast":
        rest = [r for r in range(ranks) if r != call.root]
        if call.count <= SMALL_BROADCAST:
            yield {(call.root, r): call.count for r in rest}
        else:
            yield {(call.root, r): slice_length(call.count, r, ranks) for r in rest}
            yield {(a, b): slice_length(call.count, a, ranks) for a, b in others
                   if b != call.root}
    else:
        most = ranks * min(MESH_SLICE, MESH_VALUES // ranks)
        first, shard = call.root
        for at in range(0, call.count, most):
            part = min(most, call.count - at)
            yield {(a, b): slice_length(part, b, ranks) * sent_bytes for a, b in others}
            sums, start = {}, first + at
            for rank in range(ranks):
                end = start + slice_length(part, rank, ranks)
                for count, owner in pieces(start, end, shard):
                    if owner != rank:
                        sums[rank, owner] = 4 * count
                start = end
            yield sums


def between_nodes(exchange, nodes):
    """Return the bytes that leave each node for others, and that come; nodes: by rank."""
    count = max(nodes) + 1
    out, come = [0] * count, [0] * count
    for (a, b), size in exchange.items():
        if nodes[a] != nodes[b]:
            out[nodes[a]] += size
            come[nodes[b]] += size
    return out, come
