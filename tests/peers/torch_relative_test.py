#!/usr/bin/env python3
"""torch_relative_test.py RAPT: relative positions, values and gradients, with the dense formulas of
the papers in PyTorch, float64.

Tables have their rows as the papers number them, each with the index of its row for every pair;
where a paper counts i - j, rapt gets the rows in reverse.

What is allowed: both sides round by 1e-16 numbers of size up to 16, at most 5 x 8 + 300 of them on
the way to an output (the longest problem): 5e-13. A gradient is made of three such sums one after
the other and sums them for each of three terms: 1e-11. A row of a table or a bias sums what up to
2 x 4 x 210 queries give, whose errors have no common sign: sqrt(1680) x 2e-12.
"""
import math
import sys

import numpy as np
import torch

from rapt_by_files import Comparison, Rapt

rapt, compare = Rapt(sys.argv[1]), Comparison()
generator = np.random.default_rng(7)
B, H, N, M, D, E = 2, 4, 37, 53, 16, 11  # E: the length of values


def distances(n, m, bottom_right=False):
    """j - i [n, m], as rapt counts; i from the end of the keys with bottom_right."""
    return torch.arange(m) - torch.arange(n)[:, None] - (m - n) * bottom_right


def dense(q, k, v, t, index, scale, key_term):
    """Scores [B, H, n, m] by tables t of the papers, and what a weighted sum of values is."""
    shifted = lambda of: q + t[of][..., None, :] if of in t else q
    scores = shifted("content_bias") @ k.mT
    if "key_rows" in t:
        scores = scores + key_term(shifted("position_bias"), t["key_rows"])
    if "query_rows" in t:
        scores = scores + torch.einsum("...jd,...ijd->...ij", k, t["query_rows"][..., index, :])

    def averaged(weights):
        output = weights @ v
        if "value_rows" in t:
            output = output + torch.einsum("...ij,...ije->...ie", weights,
                                           t["value_rows"][..., index, :])
        return output
    return scale * scores, averaged


def problem(name, shapes, index, *options, numbers=(), reverse=False, scale=None, causal=None,
            allowed=None, bias=None, softcap=None, key_term=None, n=N, m=M, d=D, e=E, kv_heads=H):
    """shapes: of the tables, by rapt's names. index [n, m]: the row of each pair, as the paper has
    it. numbers: what rapt is told beside them; reverse: it gets the rows of tables from the last to
    the first. causal: the distances of which only those up to 0 are allowed."""
    arrays = {"query": (B, H, n, d), "key": (B, kv_heads, m, d), "value": (B, kv_heads, m, e)}
    arrays = {of: generator.standard_normal(shape) for of, shape in (arrays | shapes).items()}
    if bias is not None:
        arrays["bias"] = bias
    d_output = generator.standard_normal((B, H, n, e))
    scale = 1 / math.sqrt(d) if scale is None else scale
    turned = lambda of, x: np.flip(x, -2) if reverse and of.endswith("_rows") else x
    ours = rapt.attend(arrays["query"], arrays["key"], arrays["value"], "--scale", repr(scale),
                       *options, bias=bias, mask=allowed, d_output=d_output,
                       relative={of: turned(of, arrays[of]) for of in shapes} | dict(numbers))
    ours = {of: turned(of, x) for of, x in ours.items()}

    leaves = {of: torch.tensor(x, requires_grad=True) for of, x in arrays.items()}
    key, value = (leaves[of].repeat_interleave(H // kv_heads, dim=1) for of in ("key", "value"))
    gathered = lambda q, rows: torch.einsum("...id,...ijd->...ij", q, rows[..., index, :])
    scores, averaged = dense(leaves["query"], key, value, {of: leaves[of] for of in shapes}, index,
                             scale, key_term or gathered)
    if bias is not None:
        scores = scores + leaves["bias"]
    if softcap is not None:
        scores = softcap * torch.tanh(scores / softcap)
    visible = torch.ones(n, m, dtype=torch.bool) if causal is None else causal <= 0
    if allowed is not None:
        visible = visible & torch.tensor(allowed)
    lse = scores.masked_fill(~visible, -torch.inf).logsumexp(-1)
    # A query that may attend to nothing has weights 0.
    weights = scores.masked_fill(~visible, -1e9).softmax(-1) * visible
    output = averaged(weights)
    output.backward(torch.tensor(d_output))

    compare.close(f"{name}: output", ours["output"], output.detach(), 1e-12)
    compare.close(f"{name}: lse", ours["lse"], lse.detach(), 1e-12)
    for of, leaf in leaves.items():
        compare.gradients(name, ours, 1e-11 if of in ("query", "key", "value") else 1e-10,
                          **{f"d_{of}": leaf})


def shaw():
    """Equations 3 to 5: clip(j - i, k) + k of 2 k + 1 rows."""
    across, at_end = distances(N, M), distances(N, M, bottom_right=True)
    for k, heads in ((4, ()), (1, (H,)), (2, (B, 1)), (60, (B, H))):
        shapes = {"key_rows": (*heads, 2 * k + 1, D), "value_rows": (*heads, 2 * k + 1, E)}
        clipped = lambda d: d.clamp(-k, k) + k
        problem(f"Shaw, k {k}", shapes, clipped(across))
        problem(f"Shaw, k {k}, causal", shapes, clipped(at_end), "--mask", "causal:bottom-right",
                numbers={"anchor": "bottom-right"}, causal=at_end)
    shapes = {"key_rows": (9, D), "value_rows": (H, 9, E)}
    clipped = lambda d: d.clamp(-4, 4) + 4
    problem("Shaw, grouped heads", shapes, clipped(across), kv_heads=2)
    allowed = generator.random((B, 1, N, M)) < 0.4
    allowed[:, :, 5] = False  # a query that may attend to nothing
    problem("Shaw, masked", shapes, clipped(across), allowed=allowed)
    for part in ("key_rows", "value_rows"):
        problem(f"Shaw, {part} alone", {part: shapes[part]}, clipped(across))


def bert():
    """relative_key_query: one table meets queries and keys, of rows i - j + k; here with two."""
    k = max(N, M) - 1
    shapes = {"key_rows": (2 * k + 1, D), "query_rows": (2 * k + 1, D)}
    problem("BERT", shapes, k - distances(N, M), reverse=True)


def transformer_xl():
    """Section 3.3: a row for each distance i - j from 0, i counted behind the memory."""
    at_end = distances(N, M, bottom_right=True)
    for heads in ((), (H,)):
        shapes = {"key_rows": (*heads, M, D), "content_bias": (*heads, D),
                  "position_bias": (*heads, D)}
        problem("Transformer-XL", shapes, (-at_end).clamp(min=0), "--mask", "causal:bottom-right",
                numbers={"center": M - 1, "anchor": "bottom-right"}, reverse=True, causal=at_end)


def music_transformer():
    """Section 3.4: rows of the distances j - i from 1 - n to 0, and a matrix that is skewed."""
    def skewed(q, rows):
        x = torch.nn.functional.pad(q @ rows.mT, (1, 0))
        return x.reshape(B, H, N + 1, N)[:, :, 1:]
    across = distances(N, N)
    problem("Music Transformer", {"key_rows": (H, N, D)}, None, "--mask", "causal", m=N,
            numbers={"center": N - 1}, causal=across, key_term=skewed)


def row_of(behind, span, exact, last):
    """The row of a distance i - j, of 2 span: DeBERTa's equation 3, on DeBERTa v2's log scale."""
    far = abs(behind)
    if exact and far > exact:
        far = exact + math.ceil(math.log(far / exact) / math.log((last - 1) / exact) * (exact - 1))
    far = far if behind > 0 else -far
    return 0 if far <= -span else 2 * span - 1 if far >= span else far + span


def deberta():
    """Equation 4: content with position, position with content, all over sqrt(3 d)."""
    for span, exact, last in ((6, 0, 0), (70, 0, 0), (6, 3, 16), (8, 4, 33), (16, 8, 50)):
        index = torch.tensor([[row_of(-x, span, exact, last) for x in row]
                              for row in distances(N, M).tolist()])
        numbers = {"center": span - 1}
        numbers |= {"exact": exact, "max_distance": last} if exact else {}
        shapes = {"key_rows": (H, 2 * span, D), "query_rows": (H, 2 * span, D)}
        name = f"DeBERTa, {2 * span} rows" + f", log scale {exact} to {last}" * (exact > 0)
        problem(name, shapes, index, numbers=numbers, reverse=True, scale=1 / math.sqrt(3 * D))


def together():
    """All tensors at once, with other parts of a call; of lengths of several blocks, too."""
    shapes = {"key_rows": (H, 7, D), "query_rows": (7, D), "value_rows": (B, 1, 7, E),
              "content_bias": (H, D), "position_bias": (B, H, D)}
    index = (distances(N, M) + 2).clamp(0, 6)
    problem("all, bias and then softcap", shapes, index, "--softcap", "2", "--bias-order",
            "before-scores", numbers={"center": 2}, softcap=2,
            bias=generator.standard_normal((1, H, N, M)))
    n, m, span, exact, last = 210, 300, 24, 12, 200
    index = torch.tensor([[2 * span - 1 - row_of(-x, span, exact, last) for x in row]
                          for row in distances(n, m, bottom_right=True).tolist()])
    shapes = {"key_rows": (H, 48, 8), "query_rows": (H, 48, 8), "value_rows": (48, 5),
              "content_bias": (8,), "position_bias": (H, 8)}
    problem("all, several blocks", shapes, index, n=n, m=m, d=8, e=5,
            numbers={"center": 23, "exact": exact, "max_distance": last, "anchor": "bottom-right"})


for of_paper in (shaw, bert, transformer_xl, music_transformer, deberta, together):
    of_paper()
compare.exit()
