#!/usr/bin/env python3
"""rapt beside PyTorch, ONNX Runtime, entmax, reformer-pytorch and performer-pytorch, call by call in turn.

    bench/peers/compare.py [--library FILE] [--rounds N] [--filter TEXT] [--record]

One thread each. Before the clock runs, the outputs must agree, and so must the gradients
(training.py, bf16.py, sparse.py, patterns.py, lsh.py). In each round every library computes the problem once, beginning with
another one each time, so that whatever happens to the machine happens to all. Time is CPU time of
the thread, and it is checked that no other thread worked; a short problem is called several times in
each turn. A ratio is the median over the rounds of (time of the other) / (time of rapt in the same
round).
"""
import argparse
import datetime
import json
import math
import os
import statistics
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(HERE), str(HERE.parent)]
os.environ["OPENBLAS_NUM_THREADS"] = "1"  # NumPy's threads go on waiting behind a float64 reference

try:
    import numpy as np
    import onnxruntime
    import torch
    import bf16
    import decode
    import feature_maps
    import lsh
    import opponents
    import patterns
    import sparse
    import training
    import training_memory
except ImportError as error:
    sys.exit(f"{error}; first: pip install -r {HERE / 'requirements.txt'}")
import machine
from rapt_by_ctypes import Rapt

# Sums of 4,096 numbers of order 1 in float32 differ by about 1e-6 between orders of summation; a
# wrong mask, scale or layout by 1e-1.
LARGEST_DIFFERENCE = 1e-4
# Others may work for this share of the time: the interpreter's own threads do.
LARGEST_SHARE_OF_OTHER_THREADS = 0.05
# A turn takes at least that long: looking at the clock takes 0.5 microseconds.
SECONDS_OF_TURN = 2e-3


class Case:
    """goal: how many times as fast as PyTorch."""

    def __init__(self, name, n, head_dim, goal, mask="none", value_dim=None, batch=1, heads=2):
        self.name, self.n, self.head_dim, self.goal, self.mask = name, n, head_dim, goal, mask
        self.value_dim = value_dim or head_dim
        self.batch, self.heads = batch, heads


LENGTHS = (1024, 2048, 4096)
CASES = (
    [Case(f"full d=64 n={n}", n, 64, 1.2) for n in LENGTHS] +
    [Case(f"full d=128 n={n}", n, 128, 1.12) for n in LENGTHS] +
    [Case(f"causal d={d} n={n}", n, d, 1.35, "causal") for d in (64, 128) for n in (2048, 4096)] +
    [Case("boolean mask d=64 n=2048", 2048, 64, 2, "boolean"),
     Case("d=64 d_v=32 n=2048", 2048, 64, 3, value_dim=32)] +
    [Case(f"batch 8, 12 heads, d=64 n={n}", n, 64, goal, batch=8, heads=12)
     for n, goal in ((16, 2), (32, 1.6), (64, 1.6), (128, 1.4), (256, 1.3), (512, 1.25))])


def prepare(case, rapt):
    """name -> (call, output as an array [batch, heads, n, value_dim] of what the call returned)."""
    generator = np.random.default_rng(1)

    def normal(dim):
        return generator.standard_normal((case.batch, case.heads, case.n, dim), dtype=np.float32)

    query, key, value = normal(case.head_dim), normal(case.head_dim), normal(case.value_dim)
    # Half of the pairs, at random: no tile can be skipped.
    allowed = generator.random((case.n, case.n)) < 0.5
    if case.mask == "boolean":
        rapt_call = rapt.attention(query, key, value, "boolean(m)", m=allowed)
    else:
        rapt_call = rapt.attention(query, key, value, "causal" if case.mask == "causal" else None)
    problem = (query, key, value, case.mask, allowed)
    return {"rapt": (rapt_call, lambda output: output),
            "PyTorch": opponents.pytorch(*problem),
            "ONNX Runtime": opponents.onnx_runtime(*problem)}


def largest_difference(calls):
    """Of the others' outputs from rapt's."""
    outputs = {name: output_of(call()) for name, (call, output_of) in calls.items()}
    return float(np.max([np.abs(output - outputs["rapt"]).max()  # NaN if one is
                         for output in outputs.values()]))


def measure(calls, rounds):
    """calls: name -> function without arguments. name -> seconds per call, of each round."""
    names = list(calls)
    seconds = {name: [] for name in names}
    for name in names:  # warm-up
        calls[name]()
    start = time.thread_time()
    calls["rapt"]()
    often = math.ceil(SECONDS_OF_TURN / (time.thread_time() - start))
    process_start, thread_start = time.process_time(), time.thread_time()
    for i in range(rounds):
        turn = i % len(names)
        for name in names[turn:] + names[:turn]:
            call = calls[name]
            start = time.thread_time()
            for _ in range(often):
                call()
            seconds[name].append((time.thread_time() - start) / often)
    thread = time.thread_time() - thread_start
    others = time.process_time() - process_start - thread
    if others > LARGEST_SHARE_OF_OTHER_THREADS * thread:
        sys.exit(f"other threads worked for {others:.2f} s beside {thread:.2f} s of the one that "
                 "is timed; the comparison would not be fair")
    return seconds


HEAD = ["",
        "| case | rapt ms | PyTorch ms | ratio | goal | | ONNX Runtime ms | ratio | its operator "
        "| largest difference |",
        "|---|---:|---:|---:|---:|---|---:|---:|---|---:|"]


def row(case, seconds, difference):
    def milliseconds(name):
        return f"{1e3 * min(seconds[name]):.3f}"

    def ratio(name):
        return statistics.median(x / r for x, r in zip(seconds[name], seconds["rapt"]))

    reached = ratio("PyTorch")
    verdict = "met" if reached >= case.goal else f"short by {100 * (1 - reached / case.goal):.1f} %"
    return (f"| {case.name} | {milliseconds('rapt')} | {milliseconds('PyTorch')} "
            f"| {reached:.2f} | {case.goal} | {verdict} | {milliseconds('ONNX Runtime')} "
            f"| {ratio('ONNX Runtime'):.2f} | {opponents.onnx_operator(case.mask)} "
            f"| {difference:.1e} |")


def rows_of(lines):
    """The rows of Markdown tables, each as column -> cell; a column without a title is "verdict"."""
    rows, titles = [], None
    for line in lines:
        if not line.startswith("|"):
            titles = None
            continue
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if titles is None:
            titles = [cell or "verdict" for cell in cells]
        elif not cells[0].startswith("---"):
            rows.append(dict(zip(titles, cells, strict=True)))
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--library", type=Path,
                        default=ROOT / "build/release/src/c_api/librapt_c.so")
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--filter", default="", help="only cases with this text in their name")
    parser.add_argument("--json", type=Path, help="also write the rows of all tables to this file")
    parser.add_argument("--record", action="store_true",
                        help="also write bench/results/MACHINE-peers.md")
    arguments = parser.parse_args()
    cases = [c for c in CASES if arguments.filter in c.name]
    training_cases = [c for c in training.CASES if arguments.filter in c.name]
    bf16_cases = [c for c in bf16.CASES if arguments.filter in c.name]
    sparse_cases = [c for c in sparse.CASES if arguments.filter in c.name]
    pattern_cases = [c for c in patterns.CASES if arguments.filter in c.name]
    decode_cases = [c for c in decode.CASES if arguments.filter in c.name]
    with_lsh = arguments.filter in lsh.NAME
    feature_cases = [c for c in feature_maps.CASES if arguments.filter in c.name]
    with_memory = arguments.filter in training_memory.CASE.name
    if not (cases or training_cases or bf16_cases or sparse_cases or pattern_cases or decode_cases or
            with_lsh or feature_cases or with_memory) or arguments.rounds < 1:
        parser.error("nothing to measure")
    if arguments.record and arguments.filter:
        parser.error("--record keeps the whole table; leave --filter out")
    if not arguments.library.exists():
        parser.error(f"{arguments.library} does not exist; build it: "
                     "cmake --build --preset release")

    rapt = Rapt(arguments.library)
    lines = [f"- Machine: {machine.description()}",
             f"- rapt {rapt.build_info()}, through its C interface",
             f"- PyTorch {torch.__version__}, ONNX Runtime {onnxruntime.__version__}",
             "- f32, batch 1 and 2 heads unless said, one thread; ms: best CPU time of "
             f"{arguments.rounds} rounds; ratio: median over the rounds of other / rapt; rapt and "
             "PyTorch allocate their output in each call"]
    print("\n".join(lines), flush=True)

    def add(*more):
        lines.extend(more)
        print("\n".join(more), flush=True)

    if cases:
        add(*HEAD)
    for case in cases:
        calls = prepare(case, rapt)
        difference = largest_difference(calls)
        if not difference <= LARGEST_DIFFERENCE:
            sys.exit(f"{case.name}: the outputs differ by {difference}")
        calls = {name: call for name, (call, _) in calls.items()}
        add(row(case, measure(calls, arguments.rounds), difference))
    if training_cases:
        add(*training.HEAD)
    for case in training_cases:
        calls, way, difference = training.prepare(case, rapt)
        if not difference <= LARGEST_DIFFERENCE:
            sys.exit(f"{case.name}: the gradients differ by {difference}")
        add(training.row(case, measure(calls, arguments.rounds), way, difference))
    if bf16_cases:
        add(*bf16.HEAD)
    for case in bf16_cases:
        calls, difference, errors = bf16.prepare(case, rapt)
        if not difference <= bf16.LARGEST_DIFFERENCE:
            sys.exit(f"{case.name}: the results differ by {difference}")
        add(bf16.row(case, measure(calls, arguments.rounds), difference, errors,
                     rapt.instruction_set() == "amx"))
    if sparse_cases:
        add(*sparse.head(arguments.rounds))
    for case in sparse_cases:
        calls, difference = sparse.prepare(case, rapt)
        if not difference <= LARGEST_DIFFERENCE:
            sys.exit(f"{case.name}: the results differ by {difference}")
        add(sparse.row(case, measure(calls, sparse.rounds(arguments.rounds)), difference))
    if pattern_cases:
        add(*patterns.head(arguments.rounds))
    for case in pattern_cases:
        calls, skipped, difference = patterns.prepare(case, rapt)
        if not difference <= LARGEST_DIFFERENCE:
            sys.exit(f"{case.name}: the outputs differ by {difference}")
        add(patterns.row(case, measure(calls, patterns.rounds(arguments.rounds)), skipped,
                         difference))
    if with_lsh:
        calls, difference = lsh.prepare(rapt)
        if not difference <= LARGEST_DIFFERENCE:
            sys.exit(f"{lsh.NAME}: the outputs differ by {difference}")
        add(*lsh.head(arguments.rounds),
            lsh.row(measure(calls, lsh.rounds(arguments.rounds)), difference))
    if feature_cases:
        add(*feature_maps.head())
    for case in feature_cases:
        calls, difference = feature_maps.prepare(case, rapt)
        if not difference <= LARGEST_DIFFERENCE:
            sys.exit(f"{case.name}: the results differ by {difference}")
        add(feature_maps.row(case, measure(calls, arguments.rounds), difference))
    if decode_cases:
        add(*decode.HEAD)
    for case in decode_cases:
        calls, difference = decode.prepare(case, rapt)
        if not difference <= decode.largest_difference(case):
            sys.exit(f"{case.name}: the outputs differ by {difference}")
        add(decode.row(case, decode.measure(case, calls, arguments.rounds), difference))
    if with_memory:
        add(*training_memory.HEAD, training_memory.row(training_memory.measure(arguments.library)))
    if arguments.json:
        arguments.json.write_text(json.dumps(rows_of(lines), indent=1) + "\n", encoding="ascii")
    if arguments.record:
        path = ROOT / "bench/results" / f"{machine.file_stem()}-peers.md"
        path.parent.mkdir(exist_ok=True)
        head = ("# Beside PyTorch, ONNX Runtime and entmax\n\n`bench/peers/compare.py --record`"
                f" on {datetime.datetime.now(datetime.timezone.utc):%Y-%m-%d}:\n\n")
        path.write_text(head + "\n".join(lines) + "\n", encoding="ascii")
        print(f"written: {path.relative_to(ROOT)}", file=sys.stderr)


if __name__ == "__main__":
    main()
