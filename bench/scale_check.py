#!/usr/bin/env python3
"""Compare the model of bench/scale.py with training steps over links with a delay and a rate.

    bench/scale_check.py [--quick] [--repeats N] BUILD TOKENIZER [FOLDER]

Trains a small Llama on CPU ranks in two network namespaces that bench/delay_link joins, or in
four that tbf limits, and prints what the interfaces counted and how long steps took next to
what the model says.  The inputs of the model are other measurements: the steps of one rank
alone, and bench_meet over the same link.  TOKENIZER: a folder with tokenizer.json of 512
tokens (stories260K).  It requires root and ip, tc and nsenter of iproute2 and util-linux, and
exits with 77 and a reason without them.
"""
import argparse
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import scale  # noqa: E402
import scale_calls  # noqa: E402

PREFIX = f"ts{os.getpid() % 10000}n"
MTU = 16000
PACKET_HEADER = 52  # IPv4 20, TCP with timestamps 32
SHAPE = {"hidden_size": 256, "intermediate_size": 704, "num_hidden_layers": 4,
         "num_attention_heads": 4, "num_key_value_heads": 4, "vocab_size": 512}
TOKENS = 16
# name: zero_stage, lines of the job, lines of its trainspool block, micro-batches of a rank
CASES = {
    "stage 1": (1, "full", {}, {}, 1),
    "stage 2": (2, "full", {}, {}, 1),
    "stage 3": (3, "full", {}, {}, 1),
    "stage 1, 3 micro-batches": (1, "full", {}, {}, 3),
    "stage 2, 3 micro-batches": (2, "full", {}, {}, 3),
    "stage 3, 3 micro-batches": (3, "full", {}, {}, 3),
    "stage 1, reduce_dtype bf16": (1, "full", {}, {"reduce_dtype": "bf16"}, 1),
    "LoRA, stage 1": (1, "lora", {}, {}, 1),
    "LoRA, stage 2": (2, "lora", {}, {}, 1),
    "LoRA, stage 3": (3, "lora", {}, {}, 1),
}


def skip(reason):
    print(f"scale_check: skipped: {reason}")
    sys.exit(77)


def sh(*words, **more):
    return subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True, **more).stdout


# ---- Networks ----

class Network:
    """Namespaces with addresses 10.78.0.x; a with statement removes them."""

    def __init__(self, build, nodes, delay_ms, mbit):
        self.build, self.nodes, self.delay_ms, self.mbit = build, nodes, delay_ms, mbit
        self.link = None
        self.made = []

    def space(self, i):
        return f"{PREFIX}{i}"

    def add(self, name):
        sh("ip", "netns", "add", name)
        self.made.append(name)
        sh("ip", "-n", name, "link", "set", "lo", "up")
        for key in ("tcp_congestion_control=cubic", "tcp_slow_start_after_idle=1"):
            setting, value = key.split("=")
            subprocess.run(["nsenter", f"--net=/run/netns/{name}", "sh", "-c",
                            f"echo {value} >/proc/sys/net/ipv4/{setting}"], check=False,
                           stderr=subprocess.DEVNULL)

    def __enter__(self):
        try:
            if self.nodes == 2:
                self.join_by_delay()
            else:
                self.join_by_rate()
        except BaseException:
            self.__exit__()
            raise
        return self

    def join_by_delay(self):
        for i in range(2):
            self.add(self.space(i))
        words = [f"{self.build}/bench/delay_link"]
        for i in range(2):
            words += [f"/run/netns/{self.space(i)}", "link0"]
        words += [str(int(self.delay_ms * 1000)), str(self.mbit)]
        self.link = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
        if self.link.stdout.readline() != "up\n":
            skip("delay_link cannot make a TUN interface")
        for i in range(2):
            name = self.space(i)
            sh("ip", "-n", name, "addr", "add", f"10.78.0.{i + 1}", "peer",
               f"10.78.0.{2 - i}", "dev", "link0")
            sh("ip", "-n", name, "link", "set", "link0", "mtu", str(MTU), "txqueuelen",
               "4000", "up")

    def join_by_rate(self):
        """Each node has a link to a bridge, limited in both directions."""
        hub = f"{PREFIX}hub"
        self.add(hub)
        sh("ip", "-n", hub, "link", "add", "bridge", "type", "bridge")
        sh("ip", "-n", hub, "link", "set", "bridge", "up")
        for i in range(self.nodes):
            name = self.space(i)
            self.add(name)
            sh("ip", "link", "add", "link0", "netns", name, "type", "veth", "peer", "name",
               f"port{i}", "netns", hub)
            sh("ip", "-n", hub, "link", "set", f"port{i}", "master", "bridge", "up")
            sh("ip", "-n", name, "addr", "add", f"10.78.0.{i + 1}/24", "dev", "link0")
            sh("ip", "-n", name, "link", "set", "link0", "up")
            for space, device in ((name, "link0"), (hub, f"port{i}")):
                sh("tc", "-n", space, "qdisc", "add", "dev", device, "root", "tbf", "rate",
                   f"{self.mbit}mbit", "burst", "128kb", "latency", "200ms")

    def __exit__(self, *ignored):
        if self.link:
            self.link.kill()
            self.link.wait()
        for name in self.made:
            subprocess.run(["ip", "netns", "del", name], check=False)

    def command(self, node):
        return ["nsenter", f"--net=/run/netns/{self.space(node)}"]

    def payload(self):
        """Bytes of TCP that the nodes have sent: without headers, which a packet has once even
        if the interface takes a longer one and splits it."""
        total = 0
        for node in range(self.nodes):
            for line in sh(*self.command(node), "cat", "/proc/net/dev").splitlines():
                if "link0" in line:
                    words = line.split(":")[1].split()
                    header = PACKET_HEADER + (0 if self.nodes == 2 else 14)
                    total += int(words[8]) - int(words[9]) * header
        return total

    def measure(self, ranks):
        """bench_meet: one way in seconds, bytes per second to the last rank."""
        words = [f"{self.build}/bench/bench_meet"]
        for i in range(self.nodes):
            words += ["-n", f"/run/netns/{self.space(i)}"]
        for line in sh(*words, str(ranks), "2000000").splitlines():
            if line.startswith("link:"):
                words = line.replace(",", "").split()
                return float(words[3]) / 1e3, float(words[8]) * 1e6 / 8
        raise RuntimeError("bench_meet did not measure the link")


# ---- Jobs ----

class Trainer:
    def __init__(self, build, tokenizer, folder):
        self.build, self.folder = build, folder
        self.model = f"{folder}/model"
        os.mkdir(self.model)
        for name in ("tokenizer.json", "tokenizer_config.json"):
            shutil.copy(f"{tokenizer}/{name}", self.model)
        config = {"architectures": ["LlamaForCausalLM"], "model_type": "llama",
                  "rms_norm_eps": 1e-5, "max_position_embeddings": 512,
                  "tie_word_embeddings": False, **SHAPE}
        with open(f"{self.model}/config.json", "w", encoding="utf-8") as file:
            json.dump(config, file)
        with open(f"{folder}/text.txt", "w", encoding="utf-8") as file:
            for i in range(4000):
                file.write(f"Tom has {i} apples and gives {i % 7} away.\n")
        self.count = 0
        # LoRA requires a model: one step of full training makes it
        self.base = None
        self.base = self.run(None, 1, CASES["stage 1"], 1)[0] + "/out"

    def layout(self, case, ranks):
        stage, method = case[0], case[1]
        return scale_calls.read_layouts(f"{self.build}/bench/rank_layout",
                                        f"{self.model}/config.json", "cpu", method, "fp32",
                                        stage, TOKENS, [ranks])[0]

    def job(self, case, steps, more):
        stage, method, lines, block, micro = case
        self.count += 1
        name = f"{self.folder}/job{self.count}"
        keys = {"model_name_or_path": self.base or self.model, "stage": "pt",
                "finetuning_type": method, "dataset": "text.txt", "cutoff_len": TOKENS,
                "per_device_train_batch_size": 1, "gradient_accumulation_steps": micro,
                "learning_rate": "1.0e-4", "logging_steps": 1, "save_strategy": "no",
                "max_steps": steps, "output_dir": f"{name}.run/out", **lines, **more}
        if not self.base:
            keys["train_from_scratch"] = "true"
        if method == "lora":
            keys["lora_rank"] = 16
        inner = {"device": "cpu", "threads": 1, "zero_stage": stage, **block}
        with open(f"{name}.yaml", "w", encoding="utf-8") as file:
            for key, value in keys.items():
                file.write(f"{key}: {value}\n")
            file.write("trainspool: {%s}\n" %
                       ", ".join(f"{key}: {value}" for key, value in inner.items()))
        return name

    def run(self, network, ranks, case, steps, more=None):
        """Return the folder of the job, and the seconds of its steps."""
        name = self.job(case, steps, more or {})
        processes = []
        for rank in range(ranks):
            nodes = network.nodes if network else 1
            each = ranks // nodes
            place = dict(os.environ, RANK=str(rank), WORLD_SIZE=str(ranks),
                         LOCAL_RANK=str(rank % each), LOCAL_WORLD_SIZE=str(each),
                         GROUP_WORLD_SIZE=str(nodes))
            enter = network.command(rank // each) if network else []
            with open(f"{name}.rank{rank}", "w", encoding="utf-8") as out:
                processes.append(subprocess.Popen(
                    [*enter, f"{self.build}/trainspool-train", f"{name}.yaml"], env=place,
                    stdout=out, stderr=out, cwd=self.folder))
        try:
            failed = any([process.wait() for process in processes])
        finally:
            for process in processes:
                process.kill()
                process.wait()
        if failed:
            with open(f"{name}.rank0", encoding="utf-8") as file:
                sys.exit(f"scale_check: {name} failed:\n{file.read()[-2000:]}")
        return f"{name}.run", self.times(f"{name}.run")

    @staticmethod
    def times(folder):
        """Seconds of each step after the first two."""
        with open(f"{folder}/metrics.jsonl", encoding="utf-8") as file:
            records = [json.loads(line) for line in file]
        steps = [record for record in records if "tokens_per_second" in record]
        return [(after["tokens"] - before["tokens"]) / after["tokens_per_second"]
                for before, after in zip(steps[1:], steps[2:])]


# ---- Comparisons ----

def sent_bytes(case):
    return 2 if "reduce_dtype" in case[3] else 4


def predicted_bytes(calls, case, nodes, orders=2):
    """TCP payload between nodes: what the calls move, the orders of rank 0 and the sums."""
    total = 0
    for call in calls:
        for exchange in scale_calls.exchanges(call, len(nodes), sent_bytes(case)):
            total += sum(scale_calls.between_nodes(exchange, nodes)[0])
    others = sum(node != nodes[0] for node in nodes)
    return total + others * (orders * scale_calls.ORDER_BYTES + scale_calls.SUMS_BYTES)


def node_list(ranks, nodes):
    return [rank * nodes // ranks for rank in range(ranks)]


def counted(trainer, network, ranks, case, steps, more=None):
    before = network.payload()
    trainer.run(network, ranks, case, steps, more)
    return network.payload() - before


def compare_bytes(trainer, build, quick):
    """Bytes of a step: two runs of different length, so that their starts cancel out."""
    print("| ranks, machines | run | counted, MB per step | model | error |")
    print("|---|---|---|---|---|")
    worst = 0.0
    cases = list(CASES.items())[:3] if quick else CASES.items()
    for ranks, nodes in ((2, 2),) if quick else ((2, 2), (4, 2), (4, 4)):
        with Network(build, nodes, 0.1, 0 if nodes == 2 else 4000) as network:
            places = node_list(ranks, nodes)
            for name, case in cases:
                layout = trainer.layout(case, ranks)
                short, long = (counted(trainer, network, ranks, case, n) for n in (2, 6))
                is_, should = (long - short) / 4, predicted_bytes(
                    scale_calls.step_calls(layout, case[4]), case, places)
                worst = max(worst, abs(is_ / should - 1))
                print(f"| {ranks}, {nodes} | {name} | {is_ / 1e6:.3f} | {should / 1e6:.3f} "
                      f"| {100 * (is_ / should - 1):+.2f} % |", flush=True)
            for name in () if quick or nodes > 2 else ("stage 1", "stage 3"):
                worst = max(worst, compare_evaluation(trainer, network, ranks, name, places))
    print(f"\nLargest error: {100 * worst:.2f} %.", flush=True)
    return worst


def compare_evaluation(trainer, network, ranks, name, places):
    """What an evaluation of 40 samples adds, before the first step and after each second one:
    each rank has its share, one at a time."""
    case, more = CASES[name], {"val_size": 40, "per_device_eval_batch_size": 1,
                               "packing": "true"}
    none = counted(trainer, network, ranks, case, 4, {**more, "eval_strategy": "no"})
    two = counted(trainer, network, ranks, case, 4,
                  {**more, "eval_strategy": "steps", "eval_steps": 2})
    calls = scale_calls.evaluation_calls(trainer.layout(case, ranks), -(-40 // ranks))
    should = predicted_bytes(calls, case, places, orders=1)
    is_ = (two - none) / 3
    error = f"{100 * (is_ / should - 1):+.2f} %" if should > 1e5 else ""
    print(f"| {ranks}, 2 | {name}: an evaluation | {is_ / 1e6:.3f} | {should / 1e6:.3f} "
          f"| {error} |", flush=True)
    return abs(is_ / should - 1) if should > 1e5 else 0.0


LINKS = ((0.1, 1000), (1, 1000), (5, 1000), (0.1, 100), (1, 100), (5, 100))
TIMED = ("stage 1", "stage 2", "stage 3", "stage 1, 3 micro-batches", "LoRA, stage 1",
         "LoRA, stage 3")


def compare_times(trainer, build, repeats, quick):
    """Steps of two ranks over a link, and of one rank alone, in turns."""
    ranks, nodes = 2, [0, 1]
    names = TIMED[:2] if quick else TIMED
    alone, measured, links = {}, {}, {}
    for _ in range(repeats):
        for delay, mbit in LINKS[:1] if quick else LINKS:
            with Network(build, 2, delay, mbit) as network:
                links.setdefault((delay, mbit), []).append(network.measure(ranks))
                for name in names:
                    case = CASES[name]
                    alone.setdefault(name, []).extend(trainer.run(None, 1, case, 12)[1])
                    measured.setdefault((name, delay, mbit), []).extend(
                        trainer.run(network, ranks, case, 7)[1])
    print(f"Load {os.getloadavg()[0]:.1f}; one rank alone, ms per step: " +
          ", ".join(f"{name} {1e3 * statistics.median(of):.1f}" for name, of in alone.items()))
    print("\n| link: one way, ms; Mbit/s | bench_meet over it | run | measured, ms (quartiles) "
          "| model | error |")
    print("|---|---|---|---|---|---|")
    errors = []
    for (delay, mbit), found in links.items():
        one_way = statistics.median(f[0] for f in found)
        rate = statistics.median(f[1] for f in found)
        for name in names:
            case = CASES[name]
            model = scale.mesh_step_seconds(trainer.layout(case, ranks), nodes, case[4],
                                            statistics.median(alone[name]), one_way, rate)
            low, is_, high = statistics.quantiles(measured[name, delay, mbit], n=4)
            errors.append(model / is_ - 1)
            print(f"| {delay}; {mbit} | {1e3 * one_way:.2f} ms, {8e-6 * rate:.0f} Mbit/s "
                  f"| {name} | {1e3 * is_:.1f} ({1e3 * low:.1f} to {1e3 * high:.1f}) "
                  f"| {1e3 * model:.1f} | {100 * errors[-1]:+.0f} % |", flush=True)
    print(f"\nMedian of the errors' sizes: "
          f"{100 * statistics.median(abs(e) for e in errors):.0f} %.")


def compare_four(trainer, build):
    """Four machines, each with a link of 200 Mbit/s to a switch."""
    print("\n| 4 ranks on 4 machines, 200 Mbit/s each | measured, ms | model | error |")
    print("|---|---|---|---|")
    alone = {name: statistics.median(trainer.run(None, 1, CASES[name], 12)[1])
             for name in ("stage 1", "stage 3", "LoRA, stage 1")}
    with Network(build, 4, 0, 200) as network:
        one_way, rate = network.measure(4)
        for name, compute in alone.items():
            case = CASES[name]
            is_ = statistics.median(trainer.run(network, 4, case, 8)[1])
            # four ranks share the two cores of the machine that has them all
            slower = max(1, 4 / len(os.sched_getaffinity(0)))
            model = scale.mesh_step_seconds(trainer.layout(case, 4), [0, 1, 2, 3], case[4],
                                            compute * slower, one_way, rate)
            print(f"| {name} | {1e3 * is_:.1f} | {1e3 * model:.1f} "
                  f"| {100 * (model / is_ - 1):+.0f} % |", flush=True)


def main():
    words = argparse.ArgumentParser(usage=__doc__.split("\n\n")[1].strip())
    words.add_argument("--quick", action="store_true")
    words.add_argument("--repeats", type=int, default=2)
    words.add_argument("--only", choices=("bytes", "times", "four"))
    words.add_argument("build")
    words.add_argument("tokenizer")
    words.add_argument("folder", nargs="?")
    words = words.parse_args()
    if os.geteuid() != 0:
        skip("network namespaces require root")
    for program in ("ip", "tc", "nsenter"):
        if not shutil.which(program):
            skip(f"{program} is missing")
    if not os.path.exists(f"{words.tokenizer}/tokenizer.json"):
        skip(f"{words.tokenizer} has no tokenizer.json")
    build = os.path.abspath(words.build)
    signal.signal(signal.SIGTERM, lambda *ignored: sys.exit(143))  # namespaces are removed
    folder = words.folder or tempfile.mkdtemp(prefix="scale-check-")
    try:
        trainer = Trainer(build, words.tokenizer, folder)
        worst = 0.0
        if words.only in (None, "bytes"):
            worst = compare_bytes(trainer, build, words.quick)
        if words.only in (None, "times"):
            compare_times(trainer, build, words.repeats, words.quick)
        if words.only in (None, "four") and not words.quick:
            compare_four(trainer, build)
    finally:
        if not words.folder:
            shutil.rmtree(folder, ignore_errors=True)
    sys.exit(worst > 0.02)


if __name__ == "__main__":
    main()
