#!/usr/bin/env python3
"""Records what PyTorch, JAX, ONNX and Hugging Face compute on one small problem, as a C++ header.

    record_dialects.py            write recorded_dialects.h in this folder
    record_dialects.py --check    compare with it; exit 77 if a package or its version is missing

One head, three queries, four keys, head_dim 4, values = the identity: the output is the weights.
"""
import sys
from pathlib import Path

HEADER = Path(__file__).with_name("recorded_dialects.h")
PACKAGES = ("torch", "jax", "onnx", "transformers")

try:
    import jax
    import numpy as np
    import onnx
    import onnx.helper
    import onnx.reference
    import torch
    import transformers

    import recorded_header
    from transformers import masking_utils
    from transformers.models.gemma2 import modeling_gemma2
except ImportError as error:
    print("skipped:", error)
    sys.exit(77)

Q_LEN, K_LEN, DIM = 3, 4, 4
i, j, d = np.arange(Q_LEN)[:, None], np.arange(K_LEN)[:, None], np.arange(DIM)
QUERY = np.sin(1 + 3 * i + d).astype(np.float32) * 2      # [3, 4]
KEY = np.cos(2 + 2 * j - d).astype(np.float32) * 2        # [4, 4]
VALUE = np.eye(K_LEN, dtype=np.float32)                   # [4, 4]
ALLOWED = np.array([[1, 0, 1, 0], [0, 0, 0, 0], [0, 1, 1, 1]], bool)
BIAS = (0.5 * i - 0.25 * j.T).astype(np.float32)          # [3, 4]
CAP = 1.5


def of_torch():
    q, k, v = (torch.tensor(x)[None, None] for x in (QUERY, KEY, VALUE))
    attend = torch.nn.functional.scaled_dot_product_attention
    yield "pytorch_causal", attend(q, k, v, is_causal=True)
    yield "pytorch_mask", attend(q, k, v, attn_mask=torch.tensor(ALLOWED))
    yield "pytorch_bias", attend(q, k, v, attn_mask=torch.tensor(BIAS), scale=0.25)


def of_mha():
    mha = torch.nn.MultiheadAttention(DIM, 1, bias=False, batch_first=True)
    with torch.no_grad():
        mha.in_proj_weight.copy_(torch.eye(DIM).repeat(3, 1))
        mha.out_proj.weight.copy_(torch.eye(DIM))
    q, k, v = (torch.tensor(x)[None] for x in (QUERY, KEY, VALUE))
    causal = torch.ones(Q_LEN, K_LEN, dtype=torch.bool).triu(1)
    with torch.no_grad():
        yield "mha_causal", mha(q, k, v, attn_mask=causal, is_causal=True)[0]
        yield "mha_mask", mha(q, k, v, attn_mask=torch.tensor(~ALLOWED))[0]
        padding = torch.tensor([[False, True, False, True]])
        yield "mha_padding", mha(q, k, v, key_padding_mask=padding)[0]


def of_jax():
    q, k, v = (jax.numpy.asarray(x)[None, :, None] for x in (QUERY, KEY, VALUE))
    attend = jax.nn.dot_product_attention
    yield "jax_causal", attend(q, k, v, is_causal=True)
    yield "jax_window", attend(q, k, v, local_window_size=(1, 0))
    yield "jax_mask", attend(q, k, v, mask=ALLOWED[None, None])
    yield "jax_bias", attend(q, k, v, bias=BIAS[None, None])
    yield "jax_lengths", attend(q, k, v, key_value_seq_lengths=jax.numpy.asarray([3]))


def of_onnx():
    def attend(names, inputs, opset=24, **attributes):
        node = onnx.helper.make_node("Attention", names, ["Y"], **attributes)
        graph = onnx.helper.make_graph(
            [node], "g",
            [onnx.helper.make_tensor_value_info(
                n, onnx.helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)
             for n, x in inputs.items()],
            [onnx.helper.make_tensor_value_info("Y", 1, None)])
        model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", opset)])
        return onnx.reference.ReferenceEvaluator(model).run(None, inputs)[0]

    q, k, v = (x[None, None] for x in (QUERY, KEY, VALUE))
    plain = {"Q": q, "K": k, "V": v}
    past = {"Q": q, "K": k[:, :, 1:], "V": v[:, :, 1:], "PK": k[:, :, :1], "PV": v[:, :, :1]}
    with_past = ["Q", "K", "V", "", "PK", "PV"]
    yield "onnx_causal", attend(["Q", "K", "V"], plain, is_causal=1)
    yield "onnx_past", attend(with_past, past, is_causal=1)
    yield "onnx_mask", attend(["Q", "K", "V", "M"], dict(plain, M=ALLOWED))
    exclude = np.where(ALLOWED | (i == 1), BIAS, -np.inf).astype(np.float32)
    yield "onnx_softcap", attend(["Q", "K", "V", "M"], dict(plain, M=exclude), softcap=CAP)
    lengths = {"N": np.array([3], np.int64)}
    yield "onnx_lengths", attend(["Q", "K", "V", "", "", "", "N"], dict(plain, **lengths))
    yield "onnx_causal_lengths", attend(["Q", "K", "V", "", "", "", "N"], dict(plain, **lengths),
                                        is_causal=1)
    yield "onnx_window", attend(with_past, past, opset=25, is_causal=1, left_window_size=1)


def of_transformers():
    """A model's eager path with one cached position, so that queries have positions 1, 2 and 3."""
    q, k, v = (torch.tensor(x)[None, None] for x in (QUERY, KEY, VALUE))

    class Module(torch.nn.Module):
        head_dim, num_key_value_groups = DIM, 1

    def attend(visible, softcap=None):
        smallest = torch.finfo(torch.float32).min
        mask = torch.tensor([[0.0 if visible(*map(torch.tensor, (0, 0, a + 1, b))) else smallest
                              for b in range(K_LEN)] for a in range(Q_LEN)])[None, None]
        return modeling_gemma2.eager_attention_forward(
            Module().eval(), q, k, v, mask, scaling=DIM ** -0.5, softcap=softcap)[0]

    causal = masking_utils.causal_mask_function
    yield "hf_causal", attend(causal)
    yield "hf_window", attend(masking_utils.sliding_window_causal_mask_function(2))
    yield "hf_softcap", attend(causal, softcap=CAP)
    yield "hf_mask", attend(lambda b, h, a, c: bool(ALLOWED[a - 1, c]))


def header():
    versions = ", ".join(f"{name} {sys.modules[name].__version__.split('+')[0]}"
                         for name in PACKAGES)
    text = f"""#pragma once
// Written by record_dialects.py with {versions}.
// Weights [3 queries, 4 keys] of one problem, under each project's own words.
#include <limits>

namespace recorded {{

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
"""
    inputs = {"query": QUERY, "key": KEY, "value": VALUE, "bias": BIAS}
    for name, array in inputs.items():
        text += recorded_header.array_of(name, array, array.shape[1])
    text += f"constexpr bool allowed[] = {{{', '.join(str(bool(x)).lower() for x in ALLOWED.flat)}}};\n"
    text += f"constexpr float cap = {CAP}f;\n\n"
    for source in (of_torch, of_mha, of_jax, of_onnx, of_transformers):
        for name, weights in source():
            text += recorded_header.array_of(name, weights, K_LEN)
    return text + "\n}  // namespace recorded\n"


if __name__ == "__main__":
    sys.exit(recorded_header.write_or_check(HEADER, header(), sys.argv[1:]))
