"""rapt beside PyTorch with the package entmax, where most weights are exactly zero: the problems,
the goal and the table's rows.

The package (deep-spin/entmax; Peters, Niculae and Martins, 2019, arXiv:1905.05702) makes weights of
a matrix of scores: products, their gradients and the order of calls are PyTorch's.
"""
import statistics

import entmax
import numpy as np
import torch

N, HEADS, HEAD_DIM = 4096, 2, 64
GOAL = 40
# The package sorts rows, or, told to, this many of their largest elements, and twice as many where
# all of them have a weight. Of 4,096 keys 2 to 24 have one here on average, and 61 at most.
LARGEST = 64
# A call of the package takes seconds.
SHARE_OF_ROUNDS, FEWEST_ROUNDS = 0.2, 3
# Sparsemax's gradient jumps where a score reaches its row's threshold. If one of 33 million is
# nearer to it than rounding moves scores, by 2e-6 at most for spread 1, that pair may have a weight
# in one library alone, and gradients differ by 1e-3 (seed 4). With this seed the nearest is 1.6e-5
# away, and 3.6e-5 for spread 4, where rounding moves scores by 9e-6 at most.
SEED = 10


class Case:
    """spread: standard deviation of the scores. forward: that pass alone, without gradients."""

    def __init__(self, normalizer, spread, forward=False):
        self.normalizer, self.spread, self.forward = normalizer, spread, forward
        passes = "forward" if forward else "forward and backward"
        self.name = f"{passes}, {normalizer}, spread {spread} n={N}"
        self.scale = spread / HEAD_DIM ** 0.5


NORMALIZERS = ("sparsemax", "entmax15")
CASES = ([Case(normalizer, spread) for normalizer in NORMALIZERS for spread in (1, 4)] +
         [Case(normalizer, 1, forward=True) for normalizer in NORMALIZERS])


def rounds(of_others):
    return max(FEWEST_ROUNDS, round(SHARE_OF_ROUNDS * of_others))


def by_rapt(case, inputs, d_output, rapt):
    """A function without arguments that computes the output alone, or the gradients of the inputs
    with the forward pass before them."""
    options = {"normalizer": case.normalizer, "scale": case.scale}
    if case.forward:
        return rapt.attention(*inputs, **options)
    return rapt.gradients(*inputs, d_output=d_output, forward=True, **options)


def by_package(case, inputs, d_output, largest=None):
    """The same by the package. largest: how many elements of a row it sorts first; none: all."""
    query, key, value = leaves = [torch.from_numpy(x).requires_grad_() for x in inputs]
    gradient = torch.from_numpy(d_output)
    weights_of = getattr(entmax, case.normalizer)

    def attention():
        return weights_of(query @ key.mT * case.scale, -1, largest) @ value

    def forward():
        with torch.inference_mode():
            return attention()

    def both():
        return torch.autograd.grad(attention(), leaves, gradient)

    return forward if case.forward else both


def prepare(case, rapt):
    """name -> call, and the largest difference of the package's results from rapt's, as a share of
    the largest element of that output or gradient."""
    generator = np.random.default_rng(SEED)
    *inputs, d_output = (generator.standard_normal((1, HEADS, N, HEAD_DIM), dtype=np.float32)
                         for _ in range(4))
    calls = {"rapt": by_rapt(case, inputs, d_output, rapt),
             "package": by_package(case, inputs, d_output),
             "package, told": by_package(case, inputs, d_output, LARGEST)}

    def results(name):
        returned = calls[name]()
        return [np.asarray(x) for x in ([returned] if case.forward else returned)]

    ours = results("rapt")
    difference = float(np.max([np.abs(a - b).max() / np.abs(b).max()  # NaN if one is
                               for name in calls if name != "rapt"
                               for a, b in zip(ours, results(name), strict=True)]))
    return calls, difference


def head(of_others):
    return ["",
            f"Sparse weights, d={HEAD_DIM}, beside the package entmax {entmax.__version__} in "
            f"PyTorch, in {rounds(of_others)} rounds; spread: standard deviation of the scores. "
            "The package sorts every row of scores; told how many elements to begin with, here "
            f"{LARGEST}, the largest of a row alone. The goal is for the package as it is called "
            "by default. The largest difference is a share of the largest element.",
            "",
            f"| case | rapt ms | package ms | ratio | goal | | k={LARGEST} ms | ratio "
            "| largest difference |",
            "|---|---:|---:|---:|---:|---|---:|---:|---:|"]


def row(case, seconds, difference):
    def milliseconds(name):
        return f"{1e3 * min(seconds[name]):.1f}"

    def ratio(name):
        return statistics.median(x / r for x, r in zip(seconds[name], seconds["rapt"]))

    reached = ratio("package")
    verdict = "met" if reached >= GOAL else f"short by {100 * (1 - reached / GOAL):.1f} %"
    return (f"| {case.name} | {milliseconds('rapt')} | {milliseconds('package')} | {reached:.1f} "
            f"| {GOAL} | {verdict} | {milliseconds('package, told')} "
            f"| {ratio('package, told'):.1f} | {difference:.1e} |")
