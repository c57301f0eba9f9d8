"""rapt beside PyTorch where a pattern leaves most pairs out: BigBird, the goals and the table's rows.

PyTorch gets the same pairs twice: as a boolean tensor for scaled_dot_product_attention, which knows
nothing of its structure, and as the blocks of FlexAttention, where torch.compile can build it.
"""
import statistics
import sys

import numpy as np
import torch
from torch._dynamo.exc import TorchDynamoException
from torch._inductor.exc import CppCompileError
from torch.nn.attention import flex_attention

HEADS, HEAD_DIM, BLOCK = 2, 64, 64
# A call of PyTorch takes seconds for 16,384 tokens.
SHARE_OF_ROUNDS, FEWEST_ROUNDS = 0.2, 3


class Case:
    """goal: how many times as fast as PyTorch with the boolean tensor."""

    def __init__(self, n, goal):
        self.name, self.n, self.goal = f"bigbird d={HEAD_DIM} n={n}", n, goal


# The goals are aims: no table in bench/results has these rows yet.
CASES = [Case(4096, 10), Case(16384, 40)]


def rounds(of_others):
    return max(FEWEST_ROUNDS, round(SHARE_OF_ROUNDS * of_others))


def blocks_of(n, rapt):
    """Which blocks attend to which: booleans [heads, n / block, n / block]. Blocks of one token are
    drawn as those of 64 are, and with values of the identity the output is the weights."""
    count = n // BLOCK
    zeros = np.zeros((1, HEADS, count, 1), np.float32)
    identity = np.broadcast_to(np.eye(count, dtype=np.float32), (1, HEADS, count, count)).copy()
    return rapt.attention(zeros, zeros, identity, "bigbird(1,3,1,3)")()[0] > 0


def by_flex_attention(tensors, blocks):
    """A function without arguments, or a word that says why there is none."""
    n = tensors[0].shape[-2]
    table = torch.from_numpy(blocks)

    def allowed(_, head, query, key):
        return table[head, query // BLOCK, key // BLOCK]

    try:
        mask = flex_attention.create_block_mask(allowed, 1, HEADS, n, n, device="cpu",
                                                BLOCK_SIZE=BLOCK)
        compiled = torch.compile(flex_attention.flex_attention)

        def call():
            with torch.inference_mode():
                return compiled(*tensors, block_mask=mask)

        call()
    except (TorchDynamoException, CppCompileError, NotImplementedError) as error:
        print(f"FlexAttention is skipped: {error}", file=sys.stderr)
        return f"skipped: {type(error).__name__}"
    return call


def prepare(case, rapt):
    """name -> call; a word if FlexAttention is not among them, else none; and the largest
    difference of the others' outputs from rapt's."""
    generator = np.random.default_rng(1)
    arrays = [generator.standard_normal((1, HEADS, case.n, HEAD_DIM), dtype=np.float32)
              for _ in range(3)]
    tensors = [torch.from_numpy(x) for x in arrays]
    blocks = blocks_of(case.n, rapt)
    allowed = torch.from_numpy(blocks.repeat(BLOCK, -2).repeat(BLOCK, -1)[None])

    def pytorch():
        with torch.inference_mode():
            return torch.nn.functional.scaled_dot_product_attention(*tensors, attn_mask=allowed)

    calls = {"rapt": rapt.attention(*arrays, "bigbird(64,3,1,3)"), "PyTorch": pytorch}
    flex = by_flex_attention(tensors, blocks)
    if callable(flex):
        calls["FlexAttention"] = flex
    ours = calls["rapt"]()
    difference = float(np.max([np.abs(call().numpy() - ours).max()  # NaN if one is
                               for name, call in calls.items() if name != "rapt"]))
    return calls, None if callable(flex) else flex, difference


def head(of_others):
    return ["",
            f"BigBird, bigbird(64,3,1,3), d={HEAD_DIM}, beside PyTorch with the same pairs as a "
            "boolean tensor, for which the goal is, and as the blocks of FlexAttention, in "
            f"{rounds(of_others)} rounds.",
            "",
            "| case | rapt ms | boolean ms | ratio | goal | | FlexAttention ms | ratio "
            "| largest difference |",
            "|---|---:|---:|---:|---:|---|---:|---:|---:|"]


def row(case, seconds, skipped, difference):
    def milliseconds(name):
        return f"{1e3 * min(seconds[name]):.1f}"

    def ratio(name):
        return statistics.median(x / r for x, r in zip(seconds[name], seconds["rapt"]))

    reached = ratio("PyTorch")
    verdict = "met" if reached >= case.goal else f"short by {100 * (1 - reached / case.goal):.1f} %"
    flex = (f"{skipped} | " if skipped else
            f"{milliseconds('FlexAttention')} | {ratio('FlexAttention'):.1f}")
    return (f"| {case.name} | {milliseconds('rapt')} | {milliseconds('PyTorch')} | {reached:.1f} "
            f"| {case.goal} | {verdict} | {flex} | {difference:.1e} |")
