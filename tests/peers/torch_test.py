#!/usr/bin/env python3
"""torch_test.py RAPT: masks, biases, ALiBi and top-k softmax, values and gradients, with PyTorch in
float64."""
import sys

from rapt_by_files import Comparison, Rapt, np, skip

try:
    import torch
    from torch.nn.attention.bias import causal_lower_right
except ImportError as error:
    skip(error)

rapt, compare = Rapt(sys.argv[1]), Comparison()
generator = np.random.default_rng(7)
B, H, N, M, D = 2, 4, 37, 53, 16


def problem(name, *options, mask=None, bias=None, torch_mask=None, causal=False, kv_heads=H):
    query = generator.standard_normal((B, H, N, D))
    key, value = generator.standard_normal((2, B, kv_heads, M, D))
    d_output = generator.standard_normal((B, H, N, D))
    # In float64 both are exact but for roundings of 1e-16; sums of 53 terms and of 2 x 37 x 53.
    ours = rapt.attend(query, key, value, *options, mask=mask, bias=bias, d_output=d_output)
    leaves = [torch.tensor(x, requires_grad=True) for x in (query, key, value)]
    extra = None
    if bias is not None:
        extra = torch.tensor(bias, requires_grad=True)
        torch_mask = extra if torch_mask is None else extra.masked_fill(~torch_mask, -torch.inf)
    output = torch.nn.functional.scaled_dot_product_attention(
        *leaves, attn_mask=torch_mask, is_causal=causal, enable_gqa=kv_heads != H)
    output.backward(torch.tensor(d_output))
    compare.close(f"{name}: output", ours["output"], output.detach(), 1e-12)
    for member, leaf in zip(("d_query", "d_key", "d_value"), leaves):
        compare.close(f"{name}: {member}", ours[member], leaf.grad, 1e-11)
    if extra is not None:
        compare.close(f"{name}: d_bias", ours["d_bias"], extra.grad, 1e-10)


i, j = np.arange(N)[:, None], np.arange(M)
problem("causal", "--mask", "causal", causal=True)
problem("causal at the bottom right", "--mask", "causal:bottom-right",
        torch_mask=causal_lower_right(N, M)._materialize())
problem("grouped heads", "--mask", "causal", causal=True, kv_heads=2)
allowed = generator.random((B, 1, N, M)) < 0.4
allowed[:, :, 5] = False  # a query that may attend to nothing
problem("boolean mask", mask=allowed, torch_mask=torch.tensor(allowed))
window = (j >= i - 4) & (j <= i + 2)
problem("window", "--mask", "window:4,2", torch_mask=torch.tensor(window))

bias = generator.standard_normal((1, H, N, M))
problem("bias", bias=bias)
problem("bias of a row", bias=generator.standard_normal((B, 1, 1, M)))
# ALiBi (Press et al. 2022): -slope |i - j|, slopes 2^(-8 h / heads), beside a causal mask.
slopes = 2.0 ** (-8 * np.arange(1, H + 1) / H)
problem("ALiBi by bias", "--mask", "causal", bias=-slopes[None, :, None, None] * np.abs(i - j),
        torch_mask=torch.tensor(j <= i))

# Top-k softmax, by its formula: what is below the k-th largest score is masked.
for k in (1, 7, M):
    query = generator.standard_normal((B, H, N, D))
    key, value = generator.standard_normal((2, B, H, M, D))
    d_output = generator.standard_normal((B, H, N, D))
    ours = rapt.attend(query, key, value, "--normalizer", f"top_k_softmax({k})", d_output=d_output)
    leaves = [torch.tensor(x, requires_grad=True) for x in (query, key, value)]
    scores = leaves[0] @ leaves[1].mT / D ** 0.5
    scores = scores.masked_fill(scores < scores.topk(k).values[..., -1:], -torch.inf)
    output = scores.softmax(-1) @ leaves[2]
    output.backward(torch.tensor(d_output))
    compare.close(f"top_k_softmax({k}): output", ours["output"], output.detach(), 1e-12)
    for member, leaf in zip(("d_query", "d_key", "d_value"), leaves):
        compare.close(f"top_k_softmax({k}): {member}", ours[member], leaf.grad, 1e-11)
compare.exit()
