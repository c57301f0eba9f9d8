#!/usr/bin/env python3
"""Minimax polynomial for 2^f on [-1/2, 1/2], by Remez exchange: where the coefficients of exp2() in
src/kernels/simd/ start from. Prints the relative error and the coefficients, lowest first; the
constant is 1 once it is rounded to float32, so that exp2(0) = 1 exactly.

usage: exp2_minimax.py [DEGREE]
"""
import decimal
import math
import sys

decimal.getcontext().prec = 50
D = decimal.Decimal
GRID = 600  # points on which the error is searched for extrema


def exp2(x):
    return (x * D(2).ln()).exp()


def solve(matrix, right):
    """Gauss-Jordan elimination with pivoting."""
    n = len(right)
    rows = [row[:] + [value] for row, value in zip(matrix, right)]
    for i in range(n):
        pivot = max(range(i, n), key=lambda r: abs(rows[r][i]))
        rows[i], rows[pivot] = rows[pivot], rows[i]
        for r in range(n):
            if r != i:
                factor = rows[r][i] / rows[i][i]
                rows[r] = [a - factor * b for a, b in zip(rows[r], rows[i])]
    return [rows[i][n] / rows[i][i] for i in range(n)]


def extrema(errors):
    """Indices of the largest error of each run of one sign."""
    found = []
    for i, error in enumerate(errors):
        if found and errors[found[-1]] * error > 0:
            if abs(error) > abs(errors[found[-1]]):
                found[-1] = i
        else:
            found.append(i)
    return found


def horner(coefficients, x):
    value = D(0)
    for coefficient in reversed(coefficients):
        value = value * x + coefficient
    return value


def remez(degree):
    count = degree + 2
    points = [-D(math.cos(math.pi * (i + 0.5) / count)) / 2 for i in range(count)]
    grid = [D(i) / GRID - D("0.5") for i in range(GRID + 1)]
    for _ in range(12):
        matrix = [[x**k / exp2(x) for k in range(degree + 1)] + [D((-1) ** i)]
                  for i, x in enumerate(points)]
        coefficients = solve(matrix, [D(1)] * count)[:-1]
        errors = [horner(coefficients, x) / exp2(x) - 1 for x in grid]
        peaks = extrema(errors)
        while len(peaks) > count:
            peaks.pop(0 if abs(errors[peaks[0]]) < abs(errors[peaks[-1]]) else -1)
        points = [grid[i] for i in peaks]
    return coefficients, max(abs(e) for e in errors)


def main():
    degree = int(sys.argv[1]) if len(sys.argv) > 1 else 6
    coefficients, error = remez(degree)
    print(f"degree {degree}: relative error {float(error):.2e}")
    for coefficient in coefficients:
        print(f"  {float(coefficient):.12e}")


if __name__ == "__main__":
    main()
