"""rapt's FAVOR+ beside performer-pytorch and beside chunks of products in PyTorch: the problems, the
goal and the table's rows.

All use one projection, which rapt is given. performer-pytorch (lucidrains/performer-pytorch) adds an
epsilon to every feature and stabilises keys by their maximum over all tokens; its outputs differ
from those of the formula, and are not compared. The form in chunks computes the formula: features
relative to their largest exponent, a state of sums over the chunks before, and the weights within a
chunk as a masked matrix. The chunk is the fastest of CHUNKS.
"""
import contextlib
import io
import statistics
import time
from importlib import metadata

import numpy as np
import torch

from rapt_by_ctypes import variant_of

N, HEADS, HEAD_DIM, FEATURES = 8192, 1, 64, 256
GOAL = 2  # beside each; an aim: no table in bench/results has these rows yet
CHUNKS = (64, 128, 256)

with contextlib.redirect_stdout(io.StringIO()):  # it prints that it has no CUDA kernels
    try:
        from performer_pytorch import performer_pytorch as performer
    except ImportError:
        performer = None


class Case:
    def __init__(self, causal):
        self.causal = causal
        self.name = f"favor {FEATURES} features, {'causal' if causal else 'bidirectional'}, n={N}"


CASES = [Case(causal) for causal in (False, True)]


def by_rapt(case, inputs, projection, rapt):
    method = variant_of(f"favor({FEATURES},projection=w)", {"w": projection})
    return rapt.attention(*inputs, mask="causal" if case.causal else None, method=method)


def by_package(case, inputs, projection):
    query, key, value = (torch.from_numpy(x)[None] for x in inputs)
    rows = torch.from_numpy(projection)
    attend = (performer.causal_linear_attention_noncuda if case.causal
              else performer.linear_attention)

    def call():
        with torch.inference_mode():
            return attend(performer.softmax_kernel(query, projection_matrix=rows, is_query=True),
                          performer.softmax_kernel(key, projection_matrix=rows, is_query=False),
                          value)
    return call


def in_chunks(case, inputs, projection, chunk):
    query, key, value = (torch.from_numpy(x) for x in inputs)
    rows = torch.from_numpy(projection).mT * HEAD_DIM ** -0.25
    ones = torch.ones(*value.shape[:-1], 1)

    def features(x, largest_of):
        exponents = x @ rows - x.square().sum(-1, keepdim=True) * (0.5 * HEAD_DIM ** -0.5)
        return (exponents - exponents.amax(largest_of, keepdim=True)).exp_()

    def call():
        with torch.inference_mode():
            phi_q, phi_k = features(query, -1), features(key, (-2, -1))
            rows_of_keys = torch.cat([value, ones], -1)
            if not case.causal:
                sums = phi_q @ (phi_k.mT @ rows_of_keys)
                return sums[..., :-1] / sums[..., -1:]
            state = torch.zeros(HEADS, FEATURES, HEAD_DIM + 1)
            output = torch.empty_like(value)
            for first in range(0, N, chunk):
                part = slice(first, first + chunk)
                q, k, v = phi_q[:, part], phi_k[:, part], rows_of_keys[:, part]
                sums = q @ state + (q @ k.mT).tril_() @ v
                output[:, part] = sums[..., :-1] / sums[..., -1:]
                state += k.mT @ v
            return output
    return call


def fastest(calls):
    def seconds(call):
        call()
        start = time.thread_time()
        call()
        return time.thread_time() - start
    return min(calls, key=seconds)


def prepare(case, rapt):
    """name -> call, and the largest difference of the output in chunks from rapt's."""
    generator = np.random.default_rng(0)
    inputs = [generator.standard_normal((HEADS, N, HEAD_DIM), dtype=np.float32) * np.float32(0.5)
              for _ in range(3)]
    projection = generator.standard_normal((FEATURES, HEAD_DIM), dtype=np.float32)
    calls = {"rapt": by_rapt(case, inputs, projection, rapt),
             "chunks": fastest([in_chunks(case, inputs, projection, chunk) for chunk in CHUNKS])}
    difference = float(np.abs(np.asarray(calls["chunks"]()) - calls["rapt"]()).max())
    if performer is not None:
        calls["package"] = by_package(case, inputs, projection)
    return calls, difference


def head():
    package = (f"performer-pytorch {metadata.version('performer-pytorch')}" if performer
               else "performer-pytorch, which is not installed,")
    return ["",
            f"FAVOR+, {FEATURES} features of a given projection, one head, d={HEAD_DIM}, beside "
            f"{package} and a form in chunks, written in PyTorch. The largest difference is that "
            "of the form in chunks.",
            "",
            "| case | rapt ms | package ms | ratio | chunks ms | ratio | goal | "
            "| largest difference |",
            "|---|---:|---:|---:|---:|---:|---:|---|---:|"]


def row(case, seconds, difference):
    def ratio(name):
        return statistics.median(x / r for x, r in zip(seconds[name], seconds["rapt"]))

    def cells(name):
        if name not in seconds:
            return "not installed | "
        return f"{1e3 * min(seconds[name]):.1f} | {ratio(name):.2f}"

    reached = min(ratio(name) for name in seconds if name != "rapt")
    verdict = "met" if reached >= GOAL else f"short by {100 * (1 - reached / GOAL):.1f} %"
    return (f"| {case.name} | {1e3 * min(seconds['rapt']):.1f} | {cells('package')} "
            f"| {cells('chunks')} | {GOAL} | {verdict} | {difference:.1e} |")
