#!/usr/bin/env python3
"""torch_test.py RAPT: masks, biases, ALiBi, top-k softmax, and biases before and after a softcap,
values and gradients, with PyTorch in float64."""
import sys

import numpy as np
import torch
from torch.nn.attention.bias import causal_lower_right

from rapt_by_files import Comparison, Rapt

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
    compare.gradients(name, ours, 1e-11, **dict(zip(("d_query", "d_key", "d_value"), leaves)))
    if extra is not None:
        compare.gradients(name, ours, 1e-10, d_bias=extra)


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


def top_k(k, *options, causal=False, kv_heads=H):
    """Softmax over the keys that torch.topk finds; random numbers have no ties."""
    query = generator.standard_normal((B, H, N, D))
    key, value = generator.standard_normal((2, B, kv_heads, M, D))
    d_output = generator.standard_normal((B, H, N, D))
    ours = rapt.attend(query, key, value, "--normalizer", f"top_k_softmax({k})", *options,
                       d_output=d_output, has_lse=True)
    q, key_leaf, value_leaf = (torch.tensor(x, requires_grad=True) for x in (query, key, value))
    of_heads = lambda x: x.repeat_interleave(H // kv_heads, dim=1)
    scores = q @ of_heads(key_leaf).mT / D ** 0.5
    if causal:  # the first queries have fewer keys than k
        scores = scores.masked_fill(torch.tensor(j > i), -torch.inf)
    chosen = torch.zeros_like(scores, dtype=torch.bool).scatter(-1, scores.topk(k).indices, True)
    scores = scores.masked_fill(~chosen, -torch.inf)
    output = scores.softmax(-1) @ of_heads(value_leaf)
    output.backward(torch.tensor(d_output))
    name = f"top_k_softmax({k}){', causal' * causal}, {kv_heads} heads of keys"
    compare.close(f"{name}: output", ours["output"], output.detach(), 1e-12)
    compare.close(f"{name}: lse", ours["lse"], scores.logsumexp(-1).detach(), 1e-12)
    compare.gradients(name, ours, 1e-11, d_query=q, d_key=key_leaf, d_value=value_leaf)


for k in (1, 7, M):
    top_k(k)
    top_k(k, "--mask", "causal", causal=True)
top_k(5, kv_heads=2)


def bias_order(order, cap, bias, allowed=None):
    """softcap(scale q k) + bias or softcap(scale q k + bias); gradients of scale and cap, too."""
    query = generator.standard_normal((B, H, N, D))
    key, value = generator.standard_normal((2, B, H, M, D))
    d_output = generator.standard_normal((B, H, N, D))
    ours = rapt.attend(query, key, value, "--scale", "0.4", "--softcap", repr(cap), "--bias-order",
                       order, bias=bias, mask=allowed, d_output=d_output)
    q, k, v, b, scale, caps = (torch.tensor(x, dtype=torch.float64, requires_grad=True)
                               for x in (query, key, value, bias, 0.4, cap))
    softcap = lambda scores: caps * torch.tanh(scores / caps)
    scores = scale * q @ k.mT
    scores = softcap(scores + b) if order == "before-scores" else softcap(scores) + b
    if allowed is not None:
        scores = scores.masked_fill(~torch.tensor(allowed), -torch.inf)
    output = scores.softmax(-1) @ v
    output.backward(torch.tensor(d_output))
    name = f"bias {order} with softcap {cap}{', masked' * (allowed is not None)}"
    compare.close(f"{name}: output", ours["output"], output.detach(), 1e-12)
    compare.close(f"{name}: lse", ours["lse"], scores.logsumexp(-1).detach(), 1e-12)
    compare.gradients(name, ours, 1e-11, d_query=q, d_key=k, d_value=v)
    # Sums of terms of size up to 16 over at most all pairs: 1e-16 x 16 x 2 x 4 x 37 x 53 = 2.5e-11.
    compare.gradients(name, ours, 1e-10, d_bias=b)
    for of, leaf in (("scale", scale), (f"softcap({cap:g}): cap", caps)):
        compare.close(f"{name}: gradient of {of}", ours["numbers"][of], leaf.grad, 1e-10)


allowed = generator.random((B, 1, N, M)) < 0.4
allowed[..., 0] = True
for order in ("after-scores", "before-scores"):
    for cap in (1.5, 20):
        bias_order(order, cap, generator.standard_normal((1, H, N, M)) * 2)
    bias_order(order, 1.5, generator.standard_normal((B, 1, 1, M)) * 2, allowed)
compare.exit()
