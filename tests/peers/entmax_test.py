#!/usr/bin/env python3
"""entmax_test.py RAPT: sparsemax and entmax, values and gradients, with the package entmax."""
import sys

from rapt_by_files import Comparison, Rapt, np, skip

try:
    import entmax
    import torch
except ImportError as error:
    skip(error)

rapt, compare = Rapt(sys.argv[1]), Comparison()
generator = np.random.default_rng(7)
B, H, N, M, D = 1, 2, 19, 150, 8

# The package's bisection halves an interval 50 times by default: exact to 1e-15 of it.
PEERS = {
    "sparsemax": ("sparsemax", lambda s: entmax.sparsemax(s, dim=-1)),
    "entmax15": ("entmax15", lambda s: entmax.entmax15(s, dim=-1)),
    "entmax": ("entmax(1.25)", lambda s: entmax.entmax_bisect(s, 1.25, dim=-1, n_iter=100)),
}
known = [name for name in PEERS if name in rapt.names("normalizers")]
if not known:
    skip("this rapt has no " + ", ".join(PEERS))
for name in known:
    spec, weights_of = PEERS[name]
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
            what = f"{spec}, deviation {deviation}{', causal' * causal}: "
            compare.close(what + "output", ours["output"], output.detach(), 1e-10)
            for member, leaf in (("d_query", q), ("d_key", k), ("d_value", v)):
                compare.close(what + member, ours[member], leaf.grad, 1e-8)
compare.exit()
