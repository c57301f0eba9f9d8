#!/usr/bin/env python3
"""Records what performer-pytorch computes on one small problem, as a C++ header.

    record_performer.py            write recorded_performer.h in this folder
    record_performer.py --check    compare with it; exit 77 if the package or its version is missing

One head, five queries and seven keys of head_dim 4, three values, a given projection of six rows;
bidirectional. The package adds an epsilon to every feature, which the test that reads the header
adds, too. Its own projection is not used: its orthogonal rows are biased.
"""
import re
import sys
from importlib import metadata
from pathlib import Path

HEADER = Path(__file__).with_name("recorded_performer.h")

try:
    import numpy as np
    import torch
    from performer_pytorch.performer_pytorch import linear_attention, softmax_kernel
except ImportError as error:
    print("skipped:", error)
    sys.exit(77)

QUERIES, KEYS, DIM, VALUE_DIM, ROWS, EPSILON = 5, 7, 4, 3, 6, 1e-4
i, j, r = (np.arange(n)[:, None] for n in (QUERIES, KEYS, ROWS))
QUERY = np.sin(1 + 3 * i + np.arange(DIM)).astype(np.float32)
KEY = np.cos(2 + 2 * j - np.arange(DIM)).astype(np.float32)
VALUE = np.sin(2 * j + 5 * np.arange(VALUE_DIM)).astype(np.float32)
PROJECTION = (1.5 * np.cos(3 * r + 2 * np.arange(DIM))).astype(np.float32)


def output():
    """[QUERIES, VALUE_DIM]"""
    query, key, value = (torch.tensor(x)[None, None] for x in (QUERY, KEY, VALUE))
    projection = torch.tensor(PROJECTION)
    features = [softmax_kernel(x, projection_matrix=projection, is_query=is_query, eps=EPSILON)
                for x, is_query in ((query, True), (key, False))]
    return linear_attention(*features, value)[0, 0].numpy()


def rows(array):
    text = ""
    for row in array:
        cells = (np.format_float_positional(np.float32(x), unique=True, trim="0") + "f" for x in row)
        text += "    " + ", ".join(cells) + ",\n"
    return text


def header():
    text = f"""#pragma once
// Written by record_performer.py with performer-pytorch {metadata.version("performer-pytorch")}.

namespace recorded_performer {{

// clang-format off
constexpr int kQueries = {QUERIES}, kKeys = {KEYS}, kDim = {DIM}, kValueDim = {VALUE_DIM}, kRows = {ROWS};
constexpr double kEpsilon = {EPSILON};
"""
    for name, array in (("query", QUERY), ("key", KEY), ("value", VALUE),
                        ("projection", PROJECTION), ("output", output())):
        text += f"constexpr float {name}[] = {{\n{rows(array)}}};\n"
    return text + "// clang-format on\n\n}  // namespace recorded_performer\n"


def main(arguments):
    text = header()
    if arguments != ["--check"]:
        HEADER.write_text(text)
        return 0
    old = HEADER.read_text()
    if text.splitlines()[1] != old.splitlines()[1]:
        print("skipped: another version:", text.splitlines()[1], "recorded:", old.splitlines()[1])
        return 77
    number = re.compile(r"-?\d+\.\d+(?=f)")
    new, recorded = number.findall(text), number.findall(old)
    same = len(new) == len(recorded) and all(
        abs(float(a) - float(b)) < 1e-6 for a, b in zip(new, recorded))
    print("as recorded" if same else "not as recorded")
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
