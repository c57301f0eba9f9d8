#!/usr/bin/env python3
"""Records what reformer-pytorch computes in one round, as a C++ header.

    record_reformer.py            write recorded_reformer.h in this folder
    record_reformer.py --check    compare with it; exit 77 if the package or its version is missing

32 rows of 4 numbers, chunks of 4, 8 buckets: the package draws its rotations from PyTorch's
generator, which is set back to the state in which they are recorded.
"""
import importlib.metadata
import re
import sys
from pathlib import Path

HEADER = Path(__file__).with_name("recorded_reformer.h")
VERSION = "1.4.4"

try:
    import torch
    from reformer_pytorch import LSHAttention
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
    text = f"""#pragma once
// Written by record_reformer.py with reformer-pytorch {importlib.metadata.version("reformer-pytorch")}.
// LSHAttention of one round: rows and value [{ROWS}, {DIM}], rotations [{DIM}, {ROWS // CHUNK // 2}], chunks of {CHUNK}.

namespace recorded_reformer {{

"""
    for name, tensor in computed().items():
        numbers = [f"{x:.9g}" for x in tensor.flatten().tolist()]
        numbers = [(x if "." in x or "e" in x else x + ".0") + "f" for x in numbers]
        lines = [", ".join(numbers[i:i + 6]) for i in range(0, len(numbers), 6)]
        text += f"constexpr float {name}[] = {{\n    " + ",\n    ".join(lines) + ",\n};\n"
    return text + "\n}  // namespace recorded_reformer\n"


def main(arguments):
    found = importlib.metadata.version("reformer-pytorch")
    if found != VERSION:
        print(f"skipped: reformer-pytorch {found}; expected {VERSION}")
        return 77
    text = header()
    if arguments != ["--check"]:
        HEADER.write_text(text)
        return 0
    number = re.compile(r"-?\d+\.\d+(?:e-?\d+)?(?=f)")
    new, recorded = number.findall(text), number.findall(HEADER.read_text())
    same = len(new) == len(recorded) and all(
        abs(float(a) - float(b)) < 1e-6 for a, b in zip(new, recorded))
    print("as recorded" if same else "not as recorded")
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
