"""rapt beside PyTorch where gradients are wanted: the problems, the goals and the table's rows."""
import statistics

import numpy as np
import torch

DROPOUT = 0.1
SEED = 1


class Case:
    """goal: how many times as fast as PyTorch. The backward pass alone, or `forward` before it."""

    def __init__(self, name, n, head_dim, goal, mask="none", value_dim=None, bias=False,
                 dropout=0.0, forward=False, heads=2):
        self.name, self.n, self.head_dim, self.goal, self.mask = name, n, head_dim, goal, mask
        self.value_dim = value_dim or head_dim
        self.bias, self.dropout, self.forward, self.heads = bias, dropout, forward, heads


LENGTHS = (1024, 2048, 4096)
CASES = (
    [Case(f"backward, full d=64 n={n}", n, 64, 1.15) for n in LENGTHS] +
    [Case(f"backward, full d=128 n={n}", n, 128, 1.08) for n in LENGTHS] +
    [Case(f"backward, causal d={d} n={n}", n, d, 1.35, "causal")
     for d in (64, 128) for n in (2048, 4096)] +
    # An additive mask [n, n] that both heads share, and its gradient.
    [Case("forward and backward, additive mask n=2048", 2048, 64, 2.5, bias=True, forward=True),
     Case(f"forward and backward, dropout {DROPOUT} n=2048", 2048, 64, 4, dropout=DROPOUT,
          forward=True),
     Case("forward and backward, d_v=32 n=2048", 2048, 64, 2.8, value_dim=32, forward=True)])


def problem(case):
    """query, key, value [1, heads, n, dim] and, if there is one, bias [n, n]; d_output."""
    generator = np.random.default_rng(1)

    def normal(*shape):
        return generator.standard_normal(shape, dtype=np.float32)

    inputs = [normal(1, case.heads, case.n, dim)
              for dim in (case.head_dim, case.head_dim, case.value_dim)]
    if case.bias:
        inputs.append(normal(case.n, case.n))
    return inputs, normal(1, case.heads, case.n, case.value_dim)


def by_rapt(case, inputs, d_output, rapt):
    """A function without arguments that computes the gradients of the inputs."""
    return rapt.gradients(*inputs, d_output=d_output, dropout=case.dropout, seed=SEED,
                          mask="causal" if case.mask == "causal" else None, forward=case.forward)


def by_pytorch(case, inputs, d_output):
    """The same by scaled_dot_product_attention and autograd as anyone would call them, and which of
    PyTorch's ways that takes: "flash", which keeps lse for the backward pass, or "math", which
    computes all scores."""
    query, key, value, *bias = leaves = [torch.from_numpy(x).requires_grad_() for x in inputs]
    gradient = torch.from_numpy(d_output)

    def attention():
        return torch.nn.functional.scaled_dot_product_attention(
            query, key, value, attn_mask=bias[0] if bias else None, dropout_p=case.dropout,
            is_causal=case.mask == "causal")

    output = attention()
    way = "flash" if "FlashAttention" in output.grad_fn.name() else "math"

    def backward():
        return torch.autograd.grad(output, leaves, gradient, retain_graph=True)

    def both():
        return torch.autograd.grad(attention(), leaves, gradient)

    return both if case.forward else backward, way


def with_dropped_pairs(inputs, d_output, kept):
    """Gradients by PyTorch's own products where these pairs are kept, for which it has no call."""
    query, key, value = leaves = [torch.from_numpy(x).requires_grad_() for x in inputs]
    weights = torch.softmax(query @ key.transpose(-1, -2) / query.shape[-1] ** 0.5, -1)
    output = (weights * torch.from_numpy(kept) / (1 - DROPOUT)) @ value
    return [x.numpy() for x in torch.autograd.grad(output, leaves, torch.from_numpy(d_output))]


def prepare(case, rapt):
    """name -> call, PyTorch's way, and the largest difference between the gradients of both, as a
    share of the largest element of that gradient."""
    inputs, d_output = problem(case)
    rapt_call = by_rapt(case, inputs, d_output, rapt)
    pytorch_call, way = by_pytorch(case, inputs, d_output)
    if case.dropout:  # each draws its own pairs: PyTorch's products take rapt's
        kept = rapt.dropout_mask(case.dropout, SEED, (1, case.heads, case.n, case.n))
        others = with_dropped_pairs(inputs, d_output, kept)
    else:
        others = [x.numpy() for x in pytorch_call()]
    difference = float(np.max([np.abs(a - b).max() / np.abs(b).max()  # NaN if one is
                               for a, b in zip(rapt_call(), others, strict=True)]))
    return {"rapt": rapt_call, "PyTorch": pytorch_call}, way, difference


HEAD = ["",
        "Gradients of query, key and value, and of the additive mask; rapt and PyTorch allocate "
        "them, and what their forward pass returns, in each call. The largest difference is a "
        "share of the largest element of a gradient. ONNX Runtime computes none.",
        "",
        "| case | rapt ms | PyTorch ms | ratio | goal | | PyTorch's way | largest difference |",
        "|---|---:|---:|---:|---:|---|---|---:|"]


def row(case, seconds, way, difference):
    ratio = statistics.median(x / r for x, r in zip(seconds["PyTorch"], seconds["rapt"]))
    verdict = "met" if ratio >= case.goal else f"short by {100 * (1 - ratio / case.goal):.1f} %"
    return (f"| {case.name} | {1e3 * min(seconds['rapt']):.3f} "
            f"| {1e3 * min(seconds['PyTorch']):.3f} | {ratio:.2f} | {case.goal} | {verdict} "
            f"| {way} | {difference:.1e} |")
