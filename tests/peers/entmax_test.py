#!/usr/bin/env python3
"""entmax_test.py RAPT: sparsemax and entmax, values and gradients, also those of an alpha per head,
with the package entmax."""
import sys
import tempfile
from pathlib import Path

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

# An alpha for each head, and its gradient.
alphas = np.array([1.2, 1.7])
query = generator.standard_normal((B, H, N, D)) * 2
key, value = generator.standard_normal((2, B, H, M, D))
d_output = generator.standard_normal((B, H, N, D))
with tempfile.TemporaryDirectory() as folder:
    np.save(Path(folder) / "alphas.npy", alphas)
    ours = rapt.attend(query, key, value, "--normalizer", f"entmax:{folder}/alphas.npy",
                       d_output=d_output)
q, k, v, a = (torch.tensor(x, requires_grad=True) for x in (query, key, value, alphas))
output = entmax.entmax_bisect(q @ k.mT / D ** 0.5, a[None, :, None, None], dim=-1, n_iter=100) @ v
output.backward(torch.tensor(d_output))
compare.close("alphas: output", ours["output"], output.detach(), 1e-10)
compare.close("alphas: d_query", ours["d_query"], q.grad, 1e-8)
numbers = {one["of"]: one["value"] for one in ours["summary"]["gradients"]["numbers"]}
for head in range(H):
    compare.close(f"alphas: gradient of head {head}", numbers[f"entmax: alphas[{head}]"],
                  a.grad[head], 1e-8)
compare.exit()
