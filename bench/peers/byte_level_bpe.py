#!/usr/bin/env python3
"""Byte-level BPE beside the package tokenizers: bench_tokenizers in turn with the same calls.

    bench/peers/byte_level_bpe.py TEXT [--build DIR] [--rounds N] [--vocabulary N]

One thread, CPU time, the best call of a turn. The ratio is the median over the rounds of (time of the
package) / (time of rapt). The package also computes offsets, which cannot be turned off; its
encode_batch_fast leaves them out and is what is timed.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

os.environ["TOKENIZERS_PARALLELISM"] = "false"
os.environ["RAYON_NUM_THREADS"] = "1"
try:
    from tokenizers import Tokenizer, __version__, decoders, models, pre_tokenizers, trainers
except ImportError as error:
    sys.exit(f"{error}; first: pip install -r {Path(__file__).parent / 'requirements.txt'}")

ROOT = Path(__file__).resolve().parents[2]
CALLS = 3


def learn(text, vocabulary):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.train_from_iterator([text], trainers.BpeTrainer(
        vocab_size=vocabulary, show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    return tokenizer


def best(call):
    seconds = []
    for _ in range(CALLS):
        start = time.process_time()
        call()
        seconds.append(time.process_time() - start)
    return min(seconds)


def times_of_package(text, vocabulary):
    tokenizer = learn(text, vocabulary)
    ids = tokenizer.encode(text).ids
    return {"ids": len(ids), "learn": best(lambda: learn(text, vocabulary)),
            "encode": best(lambda: tokenizer.encode_batch_fast([text])),
            "decode": best(lambda: tokenizer.decode(ids))}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("text", type=Path)
    parser.add_argument("--build", type=Path, default=ROOT / "build/release")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--vocabulary", type=int, default=1280)
    arguments = parser.parse_args()
    text = arguments.text.read_bytes().decode()
    ours, theirs = [], []

    def rapt():
        done = subprocess.run([arguments.build / "bench/bench_tokenizers", arguments.text,
                               str(arguments.vocabulary)], capture_output=True, text=True, check=True)
        ours.append(json.loads(done.stdout))

    turns = [rapt, lambda: theirs.append(times_of_package(text, arguments.vocabulary))]
    for i in range(arguments.rounds):
        for turn in turns if i % 2 == 0 else turns[::-1]:
            turn()
    if ours[0]["ids"] != theirs[0]["ids"]:
        sys.exit(f"rapt has {ours[0]['ids']} ids, the package {theirs[0]['ids']}")
    print(f"tokenizers {__version__}, {ours[0]['bytes']} bytes, {arguments.vocabulary} tokens\n\n"
          "| | rapt ms | tokenizers ms | ratio |\n|---|---:|---:|---:|")
    for what in ("learn", "encode", "decode"):
        a, b = [run[what] for run in ours], [run[what] for run in theirs]
        ratio = statistics.median(y / x for x, y in zip(a, b))
        print(f"| {what} | {1e3 * min(a):.1f} | {1e3 * min(b):.1f} | {ratio:.1f} |")


if __name__ == "__main__":
    main()
