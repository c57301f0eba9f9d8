"""LSH attention beside the package reformer-pytorch: the problem, the goal and the table's row.

The package (lucidrains/reformer-pytorch; Kitaev, Kaiser and Levskaya, 2020, arXiv:2001.04451)
counts a pair in each round in which it meets, and has as many buckets as chunks. In one round with
the same rotations the outputs must agree; in several its first chunk looks back to another round,
and each library draws rotations of its own.
"""
import importlib.metadata
import math
import statistics
import sys

import numpy as np
import torch
from reformer_pytorch import LSHAttention

from rapt_by_ctypes import variant_of

N, HEAD_DIM, CHUNK, ROUNDS, SEED = 8192, 64, 64, 4, 1
GOAL = 5  # an aim: no table in bench/results has this row yet
NAME = f"lsh, causal, {ROUNDS} rounds, n={N}"
# The largest difference of a row in which both libraries have the same pairs (LARGEST_DIFFERENCE of
# compare.py), and the largest share of rows with other pairs: ties move tokens between chunks.
DIFFERENCE_OF_SAME_PAIRS, SHARE_OF_TIES = 1e-4, 0.02
# A call of the package takes seconds.
SHARE_OF_ROUNDS, FEWEST_ROUNDS = 0.2, 3


def rounds(of_others):
    return max(FEWEST_ROUNDS, round(SHARE_OF_ROUNDS * of_others))


def by_rapt(rapt, rows, value, hashes, rotations=None):
    tensors = {} if rotations is None else {"r": rotations}
    spec = (f"lsh(rounds={hashes}, chunk={CHUNK}, buckets={N // CHUNK}, duplicates=count-all"
            f"{', rotations=r' if tensors else ''})")
    return rapt.attention(rows, rows, value, "causal", method=variant_of(spec, tensors))


def by_package(rows, value, hashes):
    attention = LSHAttention(bucket_size=CHUNK, n_hashes=hashes, causal=True).eval()
    inputs = torch.from_numpy(rows), torch.from_numpy(value)

    def call():
        with torch.inference_mode():
            return attention(*inputs)[0]

    return call


def prepare(rapt):
    """name -> call, and the difference of the outputs of one round, in the same rows: infinite where
    more rows differ than ties of hashes explain."""
    generator = np.random.default_rng(SEED)
    rows, value = (generator.standard_normal((1, N, HEAD_DIM), dtype=np.float32) for _ in range(2))
    torch.manual_seed(SEED)  # the package draws its rotations as they are drawn here
    rotations = torch.randn(1, HEAD_DIM, 1, N // CHUNK // 2)[0].transpose(0, 1).contiguous().numpy()
    torch.manual_seed(SEED)
    package = by_package(rows, value, 1)().numpy()
    ours = by_rapt(rapt, rows, value, 1, rotations)()
    # A bucket differs where two projections tie within their rounding, and with it the rows of a
    # chunk.
    of_rows = np.abs(ours - package).max(-1)
    same = of_rows <= DIFFERENCE_OF_SAME_PAIRS
    print(f"{NAME}: {1 - same.mean():.2%} of the rows have other pairs", file=sys.stderr)
    difference = float(of_rows[same].max()) if same.mean() >= 1 - SHARE_OF_TIES else math.inf
    return {"rapt": by_rapt(rapt, rows, value, ROUNDS),
            "package": by_package(rows, value, ROUNDS)}, difference


def head(of_others):
    version = importlib.metadata.version("reformer-pytorch")
    return ["",
            f"LSH attention, d={HEAD_DIM}, one head, chunks of {CHUNK}, beside reformer-pytorch "
            f"{version} in PyTorch, in {rounds(of_others)} rounds of the clock. The difference is "
            "the largest of the rows with the same pairs, in one round of hashes with the same "
            "rotations.",
            "",
            "| case | rapt ms | package ms | ratio | goal | | difference |",
            "|---|---:|---:|---:|---:|---|---:|"]


def row(seconds, difference):
    ratio = statistics.median(x / r for x, r in zip(seconds["package"], seconds["rapt"]))
    verdict = "met" if ratio >= GOAL else f"short by {100 * (1 - ratio / GOAL):.1f} %"
    return (f"| {NAME} | {1e3 * min(seconds['rapt']):.1f} | {1e3 * min(seconds['package']):.1f} "
            f"| {ratio:.1f} | {GOAL} | {verdict} | {difference:.1e} |")
