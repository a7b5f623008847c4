#!/usr/bin/env python3
"""Measure the training steps of bench_train.c in PyTorch, for comparison.

A hand-written Llama and GPT-2 with the same shapes, random weights and tokens, AdamW and clipping;
LoRA of rank 16 on every linear layer of the blocks; fp32, and bf16 by autocast. On a CPU it reports
the faster of plain attention and scaled_dot_product_attention, eager or, with the argument
`compiled`, compiled (minutes per row). On a GPU it reports the latter, eager and compiled, and
transformers' own model, eager, for LoRA with the adapters of PEFT. While that model is traced it
materializes its mask, because it does not look for packed samples then (find_packed_sequence_indices
of 5.24), which rules out flash attention and shared key heads: compiled it would take a minute and
not be the fastest. On a GPU the time of a step is the median of rounds of four steps each, with one
synchronization at the end.

    bench/peer_torch.py [cuda] [compiled] [MODEL full|lora fp32|bf16]
    bench/peer_torch.py cuda copy|products|attention    rates of the card itself

Without PyTorch it prints a message and exits with status 0.
"""
import math
import os
import resource
import sys
import time
from importlib.util import find_spec

try:
    import torch
    import torch.nn.functional as F
except ImportError:
    print("peer_torch: PyTorch is not installed, nothing to compare with")
    sys.exit(0)

GPU = len(sys.argv) > 1 and sys.argv[1] == "cuda"
COMPILED = "compiled" in sys.argv
DEVICE = "cuda" if GPU else "cpu"
THREADS = len(os.sched_getaffinity(0))
GPT2 = dict(layers=12, width=768, heads=12, kv=12, inner=3072, vocab=50257, positions=1024)
STORIES = dict(layers=6, width=288, heads=6, kv=6, inner=768, vocab=32000, base=1e4)
SMOLLM2 = dict(layers=30, width=576, heads=9, kv=3, inner=1536, vocab=49152, base=1e5)
LLAMA = dict(layers=16, width=2048, heads=32, kv=8, inner=8192, vocab=128256, base=5e5)
MODELS = {
    "GPT-2": dict(GPT2, B=16, T=1024),
    "GPT-2-dropping": dict(GPT2, B=16, T=1024, drop=0.1),
    "stories15M": dict(STORIES, B=64, T=256),
    "SmolLM2-135M": dict(SMOLLM2, B=8, T=2048),
    "Llama-1B": dict(LLAMA, B=4, T=2048),
} if GPU else {
    "GPT-2": dict(GPT2, B=4, T=64),
    "GPT-2-dropping": dict(GPT2, B=4, T=64, drop=0.1),
    "stories15M": dict(STORIES, B=8, T=256),
    "SmolLM2-135M": dict(SMOLLM2, B=2, T=256),
}
RANK = 16
ROUND = 4 if GPU else 1  # steps between two clock readings


class Linear(torch.nn.Module):
    def __init__(self, inputs, outputs, lora, bias=False):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(outputs, inputs) * 0.02,
                                         requires_grad=not lora)
        self.bias = torch.nn.Parameter(torch.zeros(outputs),
                                       requires_grad=not lora) if bias else None
        self.lora = lora
        if lora:
            self.a = torch.nn.Parameter(torch.randn(RANK, inputs) * 0.02)
            self.b = torch.nn.Parameter(torch.zeros(outputs, RANK))

    def forward(self, x):
        y = F.linear(x, self.weight, self.bias)
        return y + 2 * F.linear(F.linear(x, self.a), self.b) if self.lora else y


class Norm(torch.nn.Module):
    def __init__(self, width, lora):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(width), requires_grad=not lora)

    def forward(self, x):
        x32 = x.float()
        return (x32 * torch.rsqrt(x32.pow(2).mean(-1, keepdim=True) + 1e-5)) * self.weight


def rotate(x, cos, sin):
    half = x.shape[-1] // 2
    turned = torch.cat((-x[..., half:], x[..., :half]), -1)
    return x * cos + turned * sin


def mask_of(m, fused):
    return None if fused else torch.full((m["T"], m["T"]), float("-inf")).triu(1)


def dropped(x, p):
    return F.dropout(x, p) if p else x


def attend(fused, q, k, v, mask, drop=0.0):
    """(B, H, T, D) each; plain, or scaled_dot_product_attention."""
    if fused:
        return F.scaled_dot_product_attention(
            q, k, v, is_causal=True, dropout_p=drop, **({"enable_gqa": True} if GPU else {}))
    scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1]) + mask
    return dropped(torch.softmax(scores.float(), -1).to(v.dtype), drop) @ v


def loss_of(logits, targets):
    return F.cross_entropy(logits.float().flatten(0, 1), targets.flatten())


class LayerNorm(torch.nn.LayerNorm):
    def __init__(self, width, lora):
        super().__init__(width)
        self.requires_grad_(not lora)


class GPT2Block(torch.nn.Module):
    def __init__(self, m, lora, fused):
        super().__init__()
        width, inner = m["width"], m["inner"]
        self.heads, self.fused, self.drop = m["heads"], fused, m.get("drop", 0.0)
        self.norm1, self.norm2 = LayerNorm(width, lora), LayerNorm(width, lora)
        self.qkv = Linear(width, 3 * width, lora, True)
        self.o = Linear(width, width, lora, True)
        self.up, self.down = Linear(width, inner, lora, True), Linear(inner, width, lora, True)

    def forward(self, x, mask):
        rows, length, width = x.shape
        q, k, v = (part.view(rows, length, self.heads, -1).transpose(1, 2)
                   for part in self.qkv(self.norm1(x)).split(width, -1))
        a = attend(self.fused, q, k, v, mask, self.drop)
        x = x + dropped(self.o(a.transpose(1, 2).reshape(rows, length, width)), self.drop)
        inner = F.gelu(self.up(self.norm2(x)), approximate="tanh")
        return x + dropped(self.down(inner), self.drop)


class GPT2Model(torch.nn.Module):
    def __init__(self, m, lora, fused):
        super().__init__()
        self.table, self.positions = (torch.nn.Parameter(torch.randn(n, m["width"]) * 0.02,
                                                      requires_grad=not lora)
                                   for n in (m["vocab"], m["positions"]))
        self.blocks = torch.nn.ModuleList(GPT2Block(m, lora, fused)
                                          for _ in range(m["layers"]))
        self.norm = LayerNorm(m["width"], lora)
        self.drop = m.get("drop", 0.0)
        self.register_buffer("mask", mask_of(m, fused), persistent=False)

    def forward(self, ids, targets):
        x = dropped(F.embedding(ids, self.table) + self.positions[:ids.shape[1]], self.drop)
        for block in self.blocks:
            x = block(x, self.mask)
        return loss_of(F.linear(self.norm(x), self.table), targets)


class Block(torch.nn.Module):
    def __init__(self, m, lora, fused):
        super().__init__()
        self.heads, self.kv, self.fused = m["heads"], m["kv"], fused
        self.size = m["width"] // m["heads"]
        wide = self.kv * self.size
        self.norm1, self.norm2 = Norm(m["width"], lora), Norm(m["width"], lora)
        self.q = Linear(m["width"], m["width"], lora)
        self.k = Linear(m["width"], wide, lora)
        self.v = Linear(m["width"], wide, lora)
        self.o = Linear(m["width"], m["width"], lora)
        self.gate = Linear(m["width"], m["inner"], lora)
        self.up = Linear(m["width"], m["inner"], lora)
        self.down = Linear(m["inner"], m["width"], lora)

    def forward(self, x, cos, sin, mask):
        rows, length, width = x.shape
        h = self.norm1(x)
        q = self.q(h).view(rows, length, self.heads, self.size).transpose(1, 2)
        k = self.k(h).view(rows, length, self.kv, self.size).transpose(1, 2)
        v = self.v(h).view(rows, length, self.kv, self.size).transpose(1, 2)
        q, k = rotate(q, cos, sin).to(v.dtype), rotate(k, cos, sin).to(v.dtype)
        if self.kv != self.heads and not (self.fused and GPU):
            k = k.repeat_interleave(self.heads // self.kv, 1)
            v = v.repeat_interleave(self.heads // self.kv, 1)
        a = attend(self.fused, q, k, v, mask).transpose(1, 2).reshape(rows, length, width)
        x = x + self.o(a)
        h = self.norm2(x)
        return x + self.down(F.silu(self.gate(h)) * self.up(h))


class Llama(torch.nn.Module):
    def __init__(self, m, lora, fused):
        super().__init__()
        self.table = torch.nn.Parameter(torch.randn(m["vocab"], m["width"]) * 0.02,
                                        requires_grad=not lora)
        self.blocks = torch.nn.ModuleList(Block(m, lora, fused) for _ in range(m["layers"]))
        self.norm = Norm(m["width"], lora)
        size = m["width"] // m["heads"]
        turn = m["base"] ** (-torch.arange(0, size, 2) / size)
        angle = torch.outer(torch.arange(m["T"]), torch.cat((turn, turn)))
        self.register_buffer("cos", angle.cos(), persistent=False)
        self.register_buffer("sin", angle.sin(), persistent=False)
        self.register_buffer("mask", mask_of(m, fused), persistent=False)

    def forward(self, ids, targets):
        x = F.embedding(ids, self.table)
        for block in self.blocks:
            x = block(x, self.cos, self.sin, self.mask)
        return loss_of(F.linear(self.norm(x), self.table), targets)


class Theirs(torch.nn.Module):
    """transformers' own model, with the loss over every position and PEFT's adapters in fp32."""

    def __init__(self, m, lora):
        super().__init__()
        import transformers
        if "positions" in m:
            config = transformers.GPT2Config(
                n_embd=m["width"], n_layer=m["layers"], n_head=m["heads"],
                n_positions=m["positions"], vocab_size=m["vocab"], use_cache=False,
                **{key: m.get("drop", 0.0) for key in ("resid_pdrop", "embd_pdrop", "attn_pdrop")})
            kind = transformers.GPT2LMHeadModel
        else:
            config = transformers.LlamaConfig(
                hidden_size=m["width"], intermediate_size=m["inner"],
                num_hidden_layers=m["layers"], num_attention_heads=m["heads"],
                num_key_value_heads=m["kv"], vocab_size=m["vocab"],
                max_position_embeddings=m["T"], rope_theta=m["base"],
                tie_word_embeddings=True, use_cache=False)
            kind = transformers.LlamaForCausalLM
        self.model = kind._from_config(config, attn_implementation="sdpa")
        if lora:
            import peft
            self.model = peft.get_peft_model(self.model, peft.LoraConfig(
                r=RANK, lora_alpha=2 * RANK, lora_dropout=0.0, target_modules="all-linear"))

    def forward(self, ids, targets):
        return loss_of(self.model(input_ids=ids).logits, targets)


def finish():
    if GPU:
        torch.cuda.synchronize()


def make(m, lora, bf16, fused, theirs):
    torch.manual_seed(1)
    with torch.device(DEVICE):
        ours = GPT2Model if "positions" in m else Llama
        model = Theirs(m, lora) if theirs else ours(m, lora, fused)
    if GPU and lora and bf16:  # like ours: frozen weights are stored in 16 bits
        for p in model.parameters():
            if not p.requires_grad:
                p.data = p.data.bfloat16()
    return model


def seconds_of_step(m, lora, bf16, fused, theirs=False, compiled=False):
    model = make(m, lora, bf16, fused, theirs)
    trained = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=1e-4, weight_decay=0.01,
                                  **({"fused": True} if GPU else {}))
    ids = torch.randint(m["vocab"], (m["B"], m["T"]), device=DEVICE)
    targets = torch.randint(m["vocab"], (m["B"], m["T"]), device=DEVICE)
    call = torch.compile(model) if compiled else model

    def step():
        optimizer.zero_grad()
        with torch.autocast(DEVICE, dtype=torch.bfloat16, enabled=bf16):
            loss = call(ids, targets)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(trained, 1.0)
        optimizer.step()

    for _ in range(3 if GPU else 1):
        step()
    finish()
    taken = []  # means of rounds: no synchronization after every step
    while len(taken) < 3 or (sum(taken) * ROUND < 6 and len(taken) < 15):
        start = time.perf_counter()
        for _ in range(ROUND):
            step()
        finish()
        taken.append((time.perf_counter() - start) / ROUND)
    return sorted(taken)[len(taken) // 2]


def row_of(m, name, method, dtype, seconds, peak, how):
    print(f"| {name}, B{m['B']} T{m['T']} | {method} | {dtype} | {1e3 * seconds:.1f} "
          f"| {m['B'] * m['T'] / seconds:.0f} | {peak:.0f} | {how} |", flush=True)


def run(name, method, dtype):
    m = MODELS[name]
    best = min(seconds_of_step(m, method == "lora", dtype == "bf16", fused, compiled=COMPILED)
               for fused in ((False, True) if hasattr(F, "scaled_dot_product_attention")
                             else (False,)))
    row_of(m, name, method, dtype, best, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10,
           "by hand, compiled" if COMPILED else "by hand")


def run_gpu(name, method, dtype, theirs, compiled):
    library = "PEFT" if method == "lora" else "transformers"
    how = (library if theirs else "by hand") + (", compiled" if compiled else "")
    try:
        seconds = seconds_of_step(MODELS[name], method == "lora", dtype == "bf16", True, theirs,
                                  compiled)
        row_of(MODELS[name], name, method, dtype, seconds,
               torch.cuda.max_memory_allocated() / 2**20, how)
    except Exception as error:  # report a failing variant, continue with the others
        why = (str(error) or repr(error)).splitlines()[0][:150]
        print(f"error: {name} {method} {how}: {why}", flush=True)
        os._exit(1)


def seconds_of(call):
    """Return the seconds of one call, the best of five rounds of a tenth of a second."""
    for _ in range(3):
        call()
    finish()
    best, count = math.inf, 1
    for _ in range(6):
        start = time.perf_counter()
        for _ in range(count):
            call()
        finish()
        taken = (time.perf_counter() - start) / count
        best = min(best, taken)
        count = max(1, int(0.1 / taken))
    return best


def card(what):
    if what == "copy":  # bytes read and written; random, because a card may compress zeros
        x = torch.empty(1 << 30, dtype=torch.int32, device=DEVICE).random_()
        y = torch.empty_like(x)
        print(f"copy {2 * x.nbytes / seconds_of(lambda: y.copy_(x)) / 1e9:.0f} GB/s")
    if what == "products":
        a = torch.randn(8192, 8192, device=DEVICE, dtype=torch.bfloat16)
        b = torch.randn(8192, 8192, device=DEVICE, dtype=torch.bfloat16)
        print(f"products bf16 {2 * 8192**3 / seconds_of(lambda: a @ b.T) / 1e12:.0f} TFLOP/s")
    if what == "attention":
        attention()


def attention():
    """The shapes of bench_cuda_attention.c, by each of the backends that are the fastest."""
    from torch.nn.attention import SDPBackend, sdpa_kernel
    for size in (64, 128):
        q = torch.randn(4, 32, 4096, size, device=DEVICE, dtype=torch.bfloat16,
                        requires_grad=True)
        k, v = (torch.randn(4, 8, 4096, size, device=DEVICE, dtype=torch.bfloat16,
                            requires_grad=True) for _ in "kv")
        flops = 2 * size * 4 * 32 * 4096 * 4097 / 2
        for backend in (SDPBackend.FLASH_ATTENTION, SDPBackend.CUDNN_ATTENTION):
            name = backend.name.split("_")[0].lower()
            with sdpa_kernel(backend):
                def call():
                    return F.scaled_dot_product_attention(q, k, v, is_causal=True,
                                                          enable_gqa=True)
                try:
                    out = call()
                except RuntimeError as error:
                    print(f"attention {size} {name}: {str(error).splitlines()[0]}", flush=True)
                    continue
                dout = torch.randn_like(out)
                forward = seconds_of(call)
                backward = seconds_of(lambda: torch.autograd.grad(out, (q, k, v), dout,
                                                                  retain_graph=True))
            print(f"attention {size} {name} forward {2 * flops / forward / 1e12:.1f} TFLOP/s")
            print(f"attention {size} {name} backward {5 * flops / backward / 1e12:.1f} TFLOP/s",
                  flush=True)


ended = []  # exit statuses of the rows' processes


def apart(call, *arguments):
    pid = os.fork()  # so that each row has its own peak of memory
    if pid == 0:  # after the fork, which PyTorch's thread pool does not survive
        torch.set_num_threads(THREADS)
        call(*arguments)
        os._exit(0)
    ended.append(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
    if ended[-1] != 0:
        print("error: not measured:", *arguments, f"(status {ended[-1]})", flush=True)


def main():
    words = sys.argv[1 + GPU + COMPILED:]
    if GPU and len(words) == 1:
        card(words[0])
        return
    rows = [(n, m, d) for n in MODELS for m in ("full", "lora") for d in ("fp32", "bf16")]
    if len(words) == 3:
        rows = [tuple(words)]
    print(f"PyTorch {torch.__version__}, {THREADS} threads\n")
    print("| model | method | format | ms per step | tokens/s | peak MiB | how |"
          "\n|---|---|---|---|---|---|---|", flush=True)
    for row in rows:
        if not GPU:
            apart(run, *row)
            continue
        for theirs, compiled in ((False, False), (False, True), (True, False)):
            missing = [name for name in ("transformers", *(["peft"] if row[1] == "lora" else []))
                       if theirs and not find_spec(name)]
            if missing:
                print(f"{missing[0]} is not installed", flush=True)
            else:
                apart(run_gpu, *row, theirs, compiled)


main()
# a CPU may not support the formats of some rows
sys.exit(any(ended) if GPU else bool(ended) and all(ended))
