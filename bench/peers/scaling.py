#!/usr/bin/env python3
"""Exact attention against length beside PyTorch: the times of `rapt plot scaling`, in turn.

    bench/peers/scaling.py [--build DIR] [--lengths 512,4096] [--causal] [--rounds N]

Two heads, head_dim 64, f32, one thread, CPU time. A row per length: the median over the rounds of
either, and of (time of PyTorch) / (time of rapt) in the same round. The last column draws both, on a
logarithmic axis: r is rapt, t is PyTorch.
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
    sys.exit(f"{error}; first: pip install -r {ROOT / 'bench/peers/requirements.txt'}")

HEADS, HEAD_DIM = 2, 64
LEAST, MOST, CELLS = 1e-5, 1e2, 56  # seconds and characters of the drawing
SAMPLE_SECONDS, SAMPLES = 1e-3, 3


def by_rapt(rapt, n, causal):
    problem = f"h{HEADS}q{n}k{n}d{HEAD_DIM}" + (":mask=causal" if causal else "")
    run = subprocess.run([rapt, "bench", problem, "--json", "--repetitions", str(SAMPLES)],
                         capture_output=True, text=True)
    if run.returncode != 0:
        sys.exit(run.stderr)
    return json.loads(run.stdout)["problems"][0]["time"]["median_seconds"]


def by_pytorch(n, causal):
    inputs = [torch.randn(1, HEADS, n, HEAD_DIM) for _ in range(3)]

    def seconds(calls):
        start = time.thread_time()
        for _ in range(calls):
            torch.nn.functional.scaled_dot_product_attention(*inputs, is_causal=causal)
        return (time.thread_time() - start) / calls

    with torch.inference_mode():
        seconds(1)
        calls = math.ceil(SAMPLE_SECONDS / seconds(1))
        return statistics.median(seconds(calls) for _ in range(SAMPLES))


def drawing(ours, theirs):
    def cell(seconds):
        place = math.log(seconds / LEAST) / math.log(MOST / LEAST)
        return min(max(round(place * CELLS), 0), CELLS - 1)

    line = ["."] * CELLS
    line[cell(theirs)] = "t"
    line[cell(ours)] = "r"
    return "".join(line)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=Path, default=ROOT / "build/release")
    parser.add_argument("--lengths", default="128,256,512,1024,2048,4096,8192,16384")
    parser.add_argument("--causal", action="store_true")
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    print(f"PyTorch {torch.__version__}\n\n| n | rapt ms | PyTorch ms | ratio | 10 us to 100 s |\n"
          "|---:|---:|---:|---:|---|")
    for n in map(int, arguments.lengths.split(",")):
        ours, theirs = [], []
        turns = [lambda n=n: ours.append(by_rapt(arguments.build / "cli/rapt", n, arguments.causal)),
                 lambda n=n: theirs.append(by_pytorch(n, arguments.causal))]
        for i in range(arguments.rounds):
            for turn in turns if i % 2 == 0 else turns[::-1]:
                turn()
        ratio = statistics.median(t / o for o, t in zip(ours, theirs, strict=True))
        ours, theirs = statistics.median(ours), statistics.median(theirs)
        print(f"| {n} | {1e3 * ours:.3f} | {1e3 * theirs:.3f} | {ratio:.2f} | `{drawing(ours, theirs)}` |",
              flush=True)


if __name__ == "__main__":
    main()
