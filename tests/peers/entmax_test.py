#!/usr/bin/env python3
"""entmax_test.py RAPT: sparsemax and entmax, values and gradients, also those of an alpha per head,
with the package entmax."""
import sys
import tempfile

import entmax
import numpy as np
import torch

from rapt_by_files import Comparison, Rapt

rapt, compare = Rapt(sys.argv[1]), Comparison()
generator = np.random.default_rng(7)
B, H, N, M, D = 2, 2, 19, 150, 8

# The package's bisection halves an interval 50 times by default: exact to 1e-15 of it.
PEERS = {
    "sparsemax": lambda s: entmax.sparsemax(s, dim=-1),
    "entmax15": lambda s: entmax.entmax15(s, dim=-1),
    "entmax(1.25)": lambda s: entmax.entmax_bisect(s, 1.25, dim=-1, n_iter=100),
}
for spec, weights_of in PEERS.items():
    for deviation in (0.3, 1, 4):
        query = generator.standard_normal((B, H, N, D)) * deviation
        key, value = generator.standard_normal((2, B, H, M, D))
        d_output = generator.standard_normal((B, H, N, D))
        for causal in (False, True):
            options = ["--normalizer", spec] + (["--mask", "causal"] if causal else [])
            ours = rapt.attend(query, key, value, *options, d_output=d_output)
            q, k, v = (torch.tensor(x, requires_grad=True) for x in (query, key, value))
            scores = q @ k.mT / D ** 0.5
            if causal:
                scores = scores.masked_fill(torch.ones(N, M, dtype=torch.bool).triu(1), -1e9)
            output = weights_of(scores) @ v
            output.backward(torch.tensor(d_output))
            what = f"{spec}, deviation {deviation}{', causal' * causal}"
            compare.close(what + ": output", ours["output"], output.detach(), 1e-10)
            compare.gradients(what, ours, 1e-8, d_query=q, d_key=k, d_value=v)


def learned(alphas, deviation, causal=False):
    """alphas [H], [B, H] or [1] for all heads, and their gradients."""
    query = generator.standard_normal((B, H, N, D)) * deviation
    key, value = generator.standard_normal((2, B, H, M, D))
    d_output = generator.standard_normal((B, H, N, D))
    with tempfile.TemporaryDirectory() as folder:
        np.save(f"{folder}/alphas.npy", alphas)
        spec = f"entmax:{folder}/alphas.npy"
        ours = rapt.attend(query, key, value, "--normalizer", spec,
                           *(["--mask", "causal"] if causal else []), d_output=d_output)
    q, k, v, a = (torch.tensor(x, requires_grad=True) for x in (query, key, value, alphas))
    scores = q @ k.mT / D ** 0.5
    if causal:
        scores = scores.masked_fill(torch.ones(N, M, dtype=torch.bool).triu(1), -1e9)
    output = entmax.entmax_bisect(scores, a[..., None, None], dim=-1, n_iter=100) @ v
    output.backward(torch.tensor(d_output))
    what = f"alphas {alphas.tolist()}, deviation {deviation}{', causal' * causal}"
    compare.close(f"{what}: output", ours["output"], output.detach(), 1e-10)
    compare.gradients(what, ours, 1e-8, d_query=q, d_key=k, d_value=v)
    numbers = [gradient for of, gradient in ours["numbers"].items() if ": alphas[" in of]
    # Their formula divides differences of numbers of size 1 by (alpha - 1)^2, 400 times them for
    # 1.05, and sums them over 2 x 19 x 150 pairs: 400 x 5700 x 1e-15 = 2e-9.
    compare.close(f"{what}: gradient", numbers, a.grad.flatten(), 1e-8)


for deviation in (0.3, 1, 4):
    for causal in (False, True):
        learned(np.array([1.2, 1.7]), deviation, causal)
learned(np.array([[1.05, 1.5], [1.9, 2.0]]), 2)
learned(np.array([1.35]), 2)
compare.exit()
