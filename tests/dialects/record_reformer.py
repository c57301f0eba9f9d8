#!/usr/bin/env python3
"""Records what reformer-pytorch computes in one round, as a C++ header.

    record_reformer.py            write recorded_reformer.h in this folder
    record_reformer.py --check    compare with it; exit 77 without the packages or with other versions

32 rows of 4 numbers, chunks of 4, 8 buckets: the package draws its rotations from PyTorch's
generator, which is set back to the state in which they are recorded.
"""
import importlib.metadata
import sys
from pathlib import Path

HEADER = Path(__file__).with_name("recorded_reformer.h")

try:
    import torch
    from reformer_pytorch import LSHAttention
    from recorded_header import array_of, write_or_check
except ImportError as error:
    print("skipped:", error)
    sys.exit(77)

ROWS, DIM, CHUNK, SEED = 32, 4, 4, 7


def computed():
    """name -> tensor, of inputs, rotations and outputs."""
    torch.manual_seed(1)
    qk, value = 2 * torch.randn(1, ROWS, DIM), torch.randn(1, ROWS, DIM)
    torch.manual_seed(SEED)
    rotations = torch.randn(1, DIM, 1, ROWS // CHUNK // 2)
    tensors = {"rows": qk, "value": value, "rotations": rotations}
    for name, causal in (("all_pairs", False), ("causal", True)):
        attention = LSHAttention(bucket_size=CHUNK, n_hashes=1, causal=causal).eval()
        torch.manual_seed(SEED)
        with torch.no_grad():
            tensors[name] = attention(qk, value)[0]
    return tensors


def header():
    package = importlib.metadata.version("reformer-pytorch")
    versions = f"reformer-pytorch {package}, torch {torch.__version__.split('+')[0]}"
    text = f"""#pragma once
// Written by record_reformer.py with {versions}.
// LSHAttention of one round: rows and value [{ROWS}, {DIM}], rotations [{DIM}, {ROWS // CHUNK // 2}], chunks of {CHUNK}.

namespace recorded_reformer {{

"""
    for name, tensor in computed().items():
        text += array_of(name, tensor.flatten(), DIM)
    return text + "\n}  // namespace recorded_reformer\n"


if __name__ == "__main__":
    sys.exit(write_or_check(HEADER, header(), sys.argv[1:]))
