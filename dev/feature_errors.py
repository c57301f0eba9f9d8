#!/usr/bin/env python3
"""Keeps the table of errors in docs/methods/favor.md and the pictures of docs/methods true.

    dev/feature_errors.py RAPT            write the table between its marks, and the pictures
    dev/feature_errors.py --check RAPT    only compare; exits with 1 if one is not current

RAPT is the built program. The table has the error of favor over features, relative to exact
attention, beside that of mean and beside the error that independent rows are predicted to have: with
z_j = x + y_j for a query x and the keys y_j of a weight p_j, the delta method gives

    E |output - exact|^2 = sum_jj' p_j p_j' (e^(z_j . z_j') - 1) (v_j - o) . (v_j' - o) / features

since E[e^(w . (z_j + z_j'))] = e^(|z_j + z_j'|^2 / 2) for normal rows w. The pictures show the
weights of exact attention and those that methods imply: their output where values are the identity.
"""
import math
import random
import re
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

PAGE = Path(__file__).resolve().parent.parent / "docs" / "methods" / "favor.md"
BEGIN, END = "<!-- errors -->\n", "<!-- end of errors -->\n"
TOKENS, DIM, SEEDS = 64, 16, 4
FEATURES = (16, 64, 256, 1024, 4096)
DEVIATIONS = (0.25, 0.5, 0.75, 1.0)
PICTURE_TOKENS, PICTURE_DEVIATION = 24, 0.75
PICTURES = {"exact.svg": None, "favor_64.svg": "favor:64", "favor_1024.svg": "favor:1024",
            "linear_elu.svg": "linear:elu", "linear_taylor.svg": "linear:taylor"}  # name: method


def write_npy(path, rows):
    shape = f"({len(rows)}, {len(rows[0])})"
    head = f"{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}, }}".ljust(117) + "\n"
    data = b"".join(struct.pack(f"<{len(row)}d", *row) for row in rows)
    path.write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head.encode() + data)


def read_npy(path):
    data = path.read_bytes()
    begin = 10 + struct.unpack("<H", data[8:10])[0]
    rows, columns = map(int, re.search(rb"\((\d+), (\d+)\)", data[:begin]).groups())
    numbers = struct.unpack(f"<{rows * columns}d", data[begin:])
    return [numbers[i * columns:(i + 1) * columns] for i in range(rows)]


class Problem:
    """Normal queries, keys and values, as files."""

    def __init__(self, rapt, folder, tokens, deviation, value=None):
        self.rapt, self.folder = rapt, Path(folder)
        source = random.Random(f"{tokens} {deviation}")

        def normal(spread):
            return [[source.gauss(0, spread) for _ in range(DIM)] for _ in range(tokens)]

        self.query, self.key = normal(deviation), normal(deviation)
        self.value = value or normal(1)
        for name in ("query", "key", "value"):
            write_npy(self.folder / f"{name}.npy", getattr(self, name))

    def run(self, *more):
        files = [word for name in ("query", "key", "value")
                 for word in (f"--{name}", f"{name}.npy")]
        done = subprocess.run([self.rapt, "attend", *files, *more, "--force"], cwd=self.folder,
                              capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(done.stderr)

    def output(self, method=None):
        self.run("--output", "output.npy", *(["--method", method] if method else []))
        return read_npy(self.folder / "output.npy")


def dot(a, b):
    return sum(x * y for x, y in zip(a, b))


def relative_error(outputs, exact):
    """The root of the mean over outputs of |output - exact|^2 / |exact|^2."""
    size = sum(dot(row, row) for row in exact)
    squares = [sum((a - b) ** 2 for row, true in zip(output, exact) for a, b in zip(row, true))
               for output in outputs]
    return math.sqrt(sum(squares) / len(squares) / size)


def predicted(problem, exact):
    """The predicted relative error times the root of the number of features."""
    root = DIM ** -0.25
    x, y = ([[root * v for v in row] for row in rows] for rows in (problem.query, problem.key))
    of_keys = [[dot(a, b) for b in y] for a in y]
    of_values = [[dot(a, b) for b in problem.value] for a in problem.value]
    total = 0.0
    for row, o in zip(x, exact):
        scores = [dot(row, key) for key in y]
        powers = [math.exp(s) for s in scores]
        weights = [p / sum(powers) for p in powers]
        along, square, own = [dot(o, v) for v in problem.value], dot(o, o), dot(row, row)
        for j, p in enumerate(weights):
            for k, r in enumerate(weights):
                covariance = math.expm1(own + scores[j] + scores[k] + of_keys[j][k])
                total += p * r * covariance * (of_values[j][k] - along[j] - along[k] + square)
    return math.sqrt(total / sum(dot(o, o) for o in exact))


def table(rapt):
    lines = ["| deviation of queries and keys | mean of values | " +
             " | ".join(f"{m:,}" for m in FEATURES) + " |", "|---:|---:|" + "---:|" * len(FEATURES)]
    for deviation in DEVIATIONS:
        with tempfile.TemporaryDirectory() as folder:
            problem = Problem(rapt, folder, TOKENS, deviation)
            exact = problem.output()
            cells = [f"{relative_error([problem.output('mean')], exact):.2f}"]
            factor = predicted(problem, exact)
            for features in FEATURES:
                outputs = [problem.output(f"favor:{features},seed={seed}") for seed in range(SEEDS)]
                expected = factor / math.sqrt(features)
                digits = ",.0f" if expected >= 10 else ".2f"
                cells.append(f"{relative_error(outputs, exact):.2f} ({expected:{digits}})")
        lines.append(f"| {deviation} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def picture(rapt, method):
    """The weights of exact attention, or those that a method implies, as a picture. They are drawn
    as weights of scores that are their logarithms."""
    identity = [[float(i == j) for j in range(PICTURE_TOKENS)] for i in range(PICTURE_TOKENS)]
    with tempfile.TemporaryDirectory() as folder:
        problem = Problem(rapt, folder, PICTURE_TOKENS, PICTURE_DEVIATION, identity)
        weights = problem.output(method)
        write_npy(problem.folder / "logs.npy", [[math.log(w) for w in row] for row in weights])
        problem.run("--scale", "0", "--bias", "logs.npy", "--heatmap", "weights.svg")
        return (problem.folder / "weights.svg").read_text(encoding="utf-8")


def main(arguments):
    check = arguments[:1] == ["--check"]
    arguments = arguments[check:]
    if len(arguments) != 1:
        print(__doc__, file=sys.stderr)
        return 2
    rapt = str(Path(arguments[0]).resolve())
    page = PAGE.read_text(encoding="utf-8")
    before, rest = page.split(BEGIN)
    _, after = rest.split(END)
    files = {PAGE: before + BEGIN + table(rapt) + END + after}
    for name, method in PICTURES.items():
        files[PAGE.parent / "pictures" / name] = picture(rapt, method)
    wrong = 0
    for path, text in files.items():
        old = path.read_text(encoding="utf-8") if path.exists() else ""
        if old == text:
            continue
        wrong += 1
        if check:
            print(f"{path} is not current")
        else:
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf-8")
            print(f"written: {path}")
    if check:
        print("Write them anew: dev/feature_errors.py build/release/cli/rapt" if wrong
              else "The table and the pictures are current.")
    return 1 if check and wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
