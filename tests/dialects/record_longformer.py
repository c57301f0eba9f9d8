#!/usr/bin/env python3
"""Records what Hugging Face's LongformerSelfAttention computes, as a C++ header.

    record_longformer.py            write recorded_longformer.h in this folder, to be clang-formatted
    record_longformer.py --check    compare with it; exit 77 if a package or its version is missing

One sequence of 24 tokens, two heads, head_dim 4, a window of 4 keys to both sides. Recorded are the
six projections and the output: with the first three tokens global, and with scattered ones.
"""
import sys
from pathlib import Path

HEADER = Path(__file__).with_name("recorded_longformer.h")

try:
    import torch
    import transformers

    import recorded_header
    from transformers.models.longformer import modeling_longformer
except ImportError as error:
    print("skipped:", error)
    sys.exit(77)

LENGTH, HEADS, DIM, REACH = 24, 2, 4, 4
GLOBAL = {"first": [0, 1, 2], "scattered": [0, 9, 10, 17]}
PROJECTIONS = ("query", "key", "value", "query_global", "key_global", "value_global")


def attention_layer():
    config = modeling_longformer.LongformerConfig(
        hidden_size=HEADS * DIM, num_attention_heads=HEADS, attention_window=[2 * REACH],
        attention_probs_dropout_prob=0.0)
    torch.manual_seed(1)
    layer = modeling_longformer.LongformerSelfAttention(config, 0).eval()
    for name in PROJECTIONS:  # scores of about 1 or 2
        torch.nn.init.normal_(getattr(layer, name).weight, std=0.6)
    return layer


def output_of(layer, hidden, tokens):
    is_global = torch.zeros(1, LENGTH, dtype=torch.bool)
    is_global[0, tokens] = True
    return layer(hidden, attention_mask=is_global * 10000.0,
                 is_index_masked=torch.zeros(1, LENGTH, dtype=torch.bool),
                 is_index_global_attn=is_global, is_global_attn=True)[0]


def by_heads(rows):
    """[1, length, heads * dim] as [heads, length, dim]."""
    return rows[0].reshape(LENGTH, HEADS, DIM).transpose(0, 1)


def header():
    layer = attention_layer()
    hidden = torch.randn(1, LENGTH, HEADS * DIM)
    arrays = {name: getattr(layer, name)(hidden) for name in PROJECTIONS}
    arrays |= {f"output_{name}": output_of(layer, hidden, tokens)
               for name, tokens in GLOBAL.items()}
    version = transformers.__version__
    text = f"""#pragma once
// Written by record_longformer.py with transformers {version}, torch {torch.__version__.split('+')[0]}.
// Projections and outputs [2 heads, 24 tokens, 4 dims] of Longformer's attention. `first` and
// `scattered` are the global tokens of output_first and output_scattered.
#include <cstdint>

namespace recorded_longformer {{

constexpr int64_t kHeads = {HEADS}, kLength = {LENGTH}, kDim = {DIM}, kReach = {REACH};
"""
    for name, tokens in GLOBAL.items():
        text += f"constexpr int64_t {name}[] = {{{', '.join(map(str, tokens))}}};\n"
    for name, rows in arrays.items():
        text += "\n" + recorded_header.array_of(name, by_heads(rows).numpy(), DIM)
    return text + "\n}  // namespace recorded_longformer\n"


if __name__ == "__main__":
    with torch.no_grad():
        sys.exit(recorded_header.write_or_check(HEADER, header(), sys.argv[1:]))
