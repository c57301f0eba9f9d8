"""rapt beside PyTorch in bf16: the problems, the goals and the table's rows.

NumPy has no bf16: arrays of uint16 hold its bits. Errors are those of the outputs, as bf16, against
float64 on the same inputs: the root mean square over all elements, and the largest.
"""
import statistics

import numpy as np
import torch


class Case:
    """goal: how many times as fast as PyTorch, on a machine with AMX. Forward, or the backward pass
    alone."""

    def __init__(self, n, head_dim, goal, mask="none", backward=False, heads=2, batch=1):
        what = "backward" if backward else "forward"
        self.name = f"bf16 {what}, {'causal' if mask == 'causal' else 'full'} d={head_dim} n={n}"
        if batch > 1:
            self.name = f"bf16 batch {batch}, {heads} heads, d={head_dim} n={n}"
        self.n, self.head_dim, self.goal = n, head_dim, goal
        self.mask, self.backward, self.heads, self.batch = mask, backward, heads, batch


LENGTHS = (2048, 4096)
CASES = [Case(n, d, goal, mask, backward)
         for backward, goals in ((False, {(64, "none"): 3, (128, "none"): 2.3,
                                          (64, "causal"): 3.3, (128, "causal"): 2.5}),
                                 (True, {(64, "none"): 3.6, (128, "none"): 2.9,
                                         (64, "causal"): 3.8, (128, "causal"): 3.2}))
         for (d, mask), goal in goals.items() for n in LENGTHS]
CASES += [Case(n, 64, 1.5, heads=12, batch=8) for n in (16, 32, 64, 128, 256, 512)]


def as_bf16(x):
    """The bits of float32 numbers, rounded to bf16, as uint16."""
    return torch.from_numpy(x).to(torch.bfloat16).view(torch.int16).numpy().view(np.uint16)


def as_torch(bits):
    return torch.from_numpy(bits.view(np.int16)).view(torch.bfloat16)


def as_floats(bits):
    return (bits.astype(np.uint32) << 16).view(np.float32)


def exact_output(query, key, value, mask):
    """In float64, a head at a time."""
    output = np.empty(value.shape, np.float64)
    for head in np.ndindex(query.shape[:-2]):
        q, k, v = (as_floats(x[head]).astype(np.float64) for x in (query, key, value))
        scores = q @ k.T / q.shape[-1] ** 0.5
        if mask == "causal":
            scores[np.triu_indices(len(q), 1)] = -np.inf
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        output[head] = weights @ v / weights.sum(-1, keepdims=True)
    return output


def prepare(case, rapt):
    """name -> call; the largest difference, as a share of the largest element; and, forward, the
    errors of rapt over those of PyTorch (root mean square, largest), else None."""
    generator = np.random.default_rng(1)
    shape = (case.batch, case.heads, case.n, case.head_dim)
    query, key, value, d_output = (
        as_bf16(generator.standard_normal(shape, dtype=np.float32)) for _ in range(4))
    causal = case.mask == "causal"
    mask = "causal" if causal else None
    attention = torch.nn.functional.scaled_dot_product_attention
    leaves = [as_torch(x) for x in (query, key, value)]
    if not case.backward:
        rapt_call = rapt.attention(query, key, value, mask)

        def pytorch_call():
            with torch.inference_mode():
                return attention(*leaves, is_causal=causal)

        results = [as_floats(rapt_call())], [pytorch_call().float().numpy()]
        exact = exact_output(query, key, value, case.mask)
        own, other = (np.abs(x[0] - exact) for x in results)
        errors = (np.sqrt((own ** 2).mean() / (other ** 2).mean()), own.max() / other.max())
    else:
        rapt_call = rapt.gradients(query, key, value, d_output=d_output, mask=mask)
        for leaf in leaves:
            leaf.requires_grad_()
        output, gradient = attention(*leaves, is_causal=causal), as_torch(d_output)

        def pytorch_call():
            return torch.autograd.grad(output, leaves, gradient, retain_graph=True)

        results = ([as_floats(x) for x in rapt_call()],
                   [x.float().numpy() for x in pytorch_call()])
        errors = None
    difference = max(float(np.abs(a - b).max() / np.abs(b).max())
                     for a, b in zip(*results, strict=True))
    return {"rapt": rapt_call, "PyTorch": pytorch_call}, difference, errors


# Outputs and gradients are rounded to 8 bits, and P and dS before them.
LARGEST_DIFFERENCE = 2 ** -5

HEAD = ["",
        "bf16 in and out. The goals are for machines with AMX. The largest difference is a "
        "share of the largest element; errors against float64 are rapt's over PyTorch's.",
        "",
        "| case | rapt ms | PyTorch ms | ratio | goal | | largest difference | rms error | largest "
        "error |",
        "|---|---:|---:|---:|---:|---|---:|---:|---:|"]


def row(case, seconds, difference, errors, has_goal):
    ratio = statistics.median(x / r for x, r in zip(seconds["PyTorch"], seconds["rapt"]))
    verdict = "met" if ratio >= case.goal else f"short by {100 * (1 - ratio / case.goal):.1f} %"
    goal = f"{case.goal} | {verdict}" if has_goal else "- | -"
    shown = " | ".join(f"{x:.2f}" for x in errors) if errors else "- | -"
    return (f"| {case.name} | {1e3 * min(seconds['rapt']):.3f} "
            f"| {1e3 * min(seconds['PyTorch']):.3f} | {ratio:.2f} | {goal} "
            f"| {difference:.1e} | {shown} |")
