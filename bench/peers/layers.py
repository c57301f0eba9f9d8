#!/usr/bin/env python3
"""Products and layers beside PyTorch: bench_products and bench_layers in turn with the same calls.

    bench/peers/layers.py [--build DIR] [--rounds N] [--filter TEXT]

One thread. In each round a process of the benchmark measures a case (bench/timed/timed_case.h)
and then PyTorch does, both in CPU time of the thread, or the other way round. The ratio is the
median over the rounds of (time of PyTorch) / (time of rapt). Cases of two threads are left out.
"""
import argparse
import json
import math
import statistics
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

try:
    import torch
except ImportError as error:
    sys.exit(f"{error}; first: pip install -r {Path(__file__).parent / 'requirements.txt'}")

torch.set_num_threads(1)
SECONDS_OF_TURN = 0.02
SAMPLES = 7


def product(name):
    """The call of a name like "d_x 1024x768->2304" or "y 1x768->768 bf16"."""
    kind, sizes, *bf16 = name.split(" ")
    dtype = torch.bfloat16 if bf16 else torch.float32
    (rows, inner), out = map(int, sizes.split("->")[0].split("x")), int(sizes.split("->")[1])
    x, weight = torch.randn(rows, inner, dtype=dtype), torch.randn(out, inner, dtype=dtype)
    y, d_weight = torch.randn(rows, out, dtype=dtype), torch.zeros(out, inner, dtype=dtype)
    if kind == "y":
        return lambda: torch.mm(x, weight.T, out=y)
    if kind == "d_x":
        return lambda: torch.mm(y, weight, out=x)
    return lambda: d_weight.addmm_(y.T, x)


def with_gradients(function, x, parameters):
    """The forward call without a graph, and the backward call of a graph that is kept."""
    y = function(x)
    d_y = torch.randn_like(y)

    def forward():
        with torch.no_grad():
            function(x)

    def backward():
        torch.autograd.grad(y, [x, *parameters], d_y, retain_graph=True)

    return {"forward": forward, "backward": backward}


def layer(name):
    """The call of a name like "layer_norm 1024x768 forward"."""
    functional = torch.nn.functional
    tokens = torch.randn(2, 512, 768, requires_grad=True)
    if name.startswith("layer_norm"):
        module = torch.nn.LayerNorm(768)
        calls = with_gradients(module, torch.randn(1024, 768, requires_grad=True),
                               list(module.parameters()))
    elif name.startswith("gelu"):
        form = "tanh" if name.startswith("gelu_tanh") else "none"
        calls = with_gradients(lambda z: functional.gelu(z, approximate=form),
                               torch.randn(1024, 3072, requires_grad=True), [])
    elif name.startswith("cross_entropy"):
        targets = torch.randint(50257, (256,))
        calls = with_gradients(lambda z: functional.cross_entropy(z, targets),
                               torch.randn(256, 50257, requires_grad=True), [])
    elif name.startswith("gru"):
        module = torch.nn.GRU(256, 256, batch_first=True)
        calls = with_gradients(lambda x: module(x)[0], torch.randn(32, 64, 256, requires_grad=True),
                               list(module.parameters()))
    elif name.startswith("multi_head_attention"):
        module = torch.nn.MultiheadAttention(768, 12, batch_first=True)
        calls = with_gradients(lambda x: module(x, x, x, need_weights=False)[0], tokens,
                               list(module.parameters()))
    else:
        module = torch.nn.TransformerEncoderLayer(768, 12, 3072, dropout=0, activation="gelu",
                                                  batch_first=True, norm_first=True)
        calls = with_gradients(module, tokens, list(module.parameters()))
    return calls[name.rsplit(" ", 1)[1]]


def seconds_of(call):
    """Seconds per call, the median of some samples."""
    call()
    start = time.thread_time()
    call()
    often = math.ceil(SECONDS_OF_TURN / SAMPLES / max(time.thread_time() - start, 1e-7))
    samples = []
    for _ in range(SAMPLES):
        start = time.thread_time()
        for _ in range(often):
            call()
        samples.append((time.thread_time() - start) / often)
    return statistics.median(samples)


def lines_of(program, *words):
    run = subprocess.run([program, "--json", *words], capture_output=True, text=True)
    if run.returncode not in (0, 3):  # 3: no case has the filter's text in its name
        sys.exit(run.stderr)
    return [json.loads(line) for line in run.stdout.splitlines()]


def compare(program, name, call, rounds):
    ratios, ours, theirs, percent = [], [], [], []
    for i in range(rounds):
        def rapt():
            line = next(line for line in lines_of(program, "--repetitions", str(SAMPLES), "--filter",
                                                  name) if line["name"] == name)
            ours.append(line["ns"] * 1e-9)
            percent.append(line["percent"] if line["of"] != "-" else math.nan)

        turns = [rapt, lambda: theirs.append(seconds_of(call))]
        for turn in turns if i % 2 == 0 else turns[::-1]:
            turn()
        ratios.append(theirs[-1] / ours[-1])
    return (statistics.median(ours), statistics.median(theirs), statistics.median(ratios),
            statistics.median(percent))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=Path, default=ROOT / "build/release")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--filter", default="")
    arguments = parser.parse_args()
    print(f"PyTorch {torch.__version__}\n\n| case | rapt ms | PyTorch ms | ratio | % of peak |\n"
          "|---|---:|---:|---:|---:|")
    for program, make in (("bench_products", product), ("bench_layers", layer)):
        path = arguments.build / "bench" / program
        for line in lines_of(path, "--repetitions", "1", "--filter", arguments.filter):  # the names
            name = line["name"]
            if "2 threads" in name:
                continue
            ours, theirs, ratio, percent = compare(path, name, make(name), arguments.rounds)
            shown = "" if math.isnan(percent) else f"{percent:.1f}"
            print(f"| {name} | {1e3 * ours:.3f} | {1e3 * theirs:.3f} | {ratio:.2f} | {shown} |",
                  flush=True)


if __name__ == "__main__":
    main()
