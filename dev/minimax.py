#!/usr/bin/env python3
"""Minimax polynomials by Remez exchange: where the coefficients of exp2(), log(), tanh() and, for
float, normal_cdf() in src/kernels/simd/ come from. Prints the largest error, relative to the function, and the
coefficients, lowest first, for float64 and, in brackets, rounded to float32.

  exp2  2^x                                  = c0 + c1 x + ...      |x| <= 1/2
  exp2_part  2^x - 1, relative to 2^x        = c1 x + c2 x^2 ...    |x| <= 1/64
  log   log((1 + s) / (1 - s)) / s - 2       = c1 s^2 + c2 s^4 ...  |s| <= 0.1716, see below
  tanh  tanh(x) / x - 1                      = c1 x^2 + c2 x^4 ...  |x| <= 1
  cdf   (2 Phi(-x))^(-1/8) - 1               = c1 x + c2 x^2 ...    0 <= x <= 6, see below
  cdf_by_density  e^(x^2 / 2) Phi(-x) - 1/2  = c1 x + c2 x^2 ...    0 <= x <= 5, see below

log: a mantissa between sqrt(1/2) and sqrt(2) is (1 + s) / (1 - s) with |s| <= (sqrt 2 - 1)^2.
exp2: the constant is 1 once it is rounded, so that exp2(0) = 1 exactly.
cdf: Phi is the normal distribution function. Errors are those of Phi(-x) itself, or 1e5 times less
than relative errors where it is below 1e-5.
cdf_by_density: likewise errors of Phi(-x), where e^(-x^2 / 2) counts as 1e-4 if it is less.

usage: minimax.py exp2|exp2_part|log|tanh|cdf|cdf_by_density TERMS
  in use: exp2 7 and 12, exp2_part 2, log 3 and 7, tanh 7 and 14 (float32 and float64), cdf 10,
  cdf_by_density 12
"""
import decimal
import math
import struct
import sys

decimal.getcontext().prec = 60
D = decimal.Decimal
PI = D("3.14159265358979323846264338327950288419716939937510582097494")
GRID = 800  # points on which the error is searched for extrema


def exp2(x):
    return (x * D(2).ln()).exp()


def log_of_square(z):
    s = z.sqrt()
    return ((1 + s) / (1 - s)).ln() / s - 2


def tanh_of_square(z):
    e = (2 * z.sqrt()).exp()
    return (e - 1) / (e + 1) / z.sqrt() - 1


def lower_tail(x):
    """Phi(-x) = (1 - erf(x / sqrt 2)) / 2 by the series of erf."""
    t = x / D(2).sqrt()
    power, total, n = t, D(0), 0
    while abs(power) > D("1e-45"):
        total += power / (2 * n + 1)
        n += 1
        power *= -t * t / n
    return D("0.5") - total / PI.sqrt()


def root_of_tail(x):
    return (2 * lower_tail(x)) ** (D(-1) / 8) - 1


def root_scale(x):
    """The change of the root that changes Phi(-x) by 1, or by the share of 1 in the doc."""
    tail = lower_tail(x)
    return (1 + root_of_tail(x)) / 8 / max(tail, D("1e-5"))


def tail_by_density(x):
    return (x * x / 2).exp() * lower_tail(x) - D("0.5")


def density_scale(x):
    return 1 / max((-x * x / 2).exp(), D("1e-4"))


class Task:
    """Polynomials sum_k c_k x^(first + k) on [low, high]; errors are divided by scale(x)."""

    def __init__(self, function, scale, first, low, high):
        self.function, self.scale, self.first, self.low, self.high = function, scale, first, low, high


TASKS = {
    "exp2": Task(exp2, exp2, 0, D("-0.5"), D("0.5")),
    "exp2_part": Task(lambda x: exp2(x) - 1, exp2, 1, D(-1) / 64, D(1) / 64),
    "log": Task(log_of_square, lambda z: D(2), 1, D(0), (D(2).sqrt() - 1) ** 4),
    "cdf": Task(root_of_tail, root_scale, 1, D(0), D(6)),
    "cdf_by_density": Task(tail_by_density, density_scale, 1, D(0), D(5)),
    "tanh": Task(tanh_of_square, lambda z: 1 + tanh_of_square(z), 1, D(0), D(1)),
}


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


def remez(task, terms):
    count = terms + 1
    middle, half = (task.low + task.high) / 2, (task.high - task.low) / 2

    def spread(number, offset):
        """As dense towards both ends as the extrema are; the ends themselves for offset 0."""
        steps = number - 1 + 2 * offset
        return [middle - half * D(math.cos(math.pi * (i + offset) / steps)) for i in range(number)]

    points = spread(count, 0.5)
    grid = [x for x in spread(GRID + 1, 0) if x != 0 or task.first == 0]  # 0 is no quotient
    exact = {x: (task.function(x), task.scale(x)) for x in grid + points}
    for _ in range(12):
        matrix = [[x ** (task.first + k) / exact[x][1] for k in range(terms)] + [D((-1) ** i)]
                  for i, x in enumerate(points)]
        coefficients = solve(matrix, [exact[x][0] / exact[x][1] for x in points])[:-1]
        errors = [(horner(coefficients, x) * x**task.first - exact[x][0]) / exact[x][1]
                  for x in grid]
        peaks = extrema(errors)
        while len(peaks) > count:
            peaks.pop(0 if abs(errors[peaks[0]]) < abs(errors[peaks[-1]]) else -1)
        points = [grid[i] for i in peaks]
    return coefficients, max(abs(e) for e in errors)


def main():
    if len(sys.argv) != 3 or sys.argv[1] not in TASKS:
        sys.exit(__doc__)
    task, terms = TASKS[sys.argv[1]], int(sys.argv[2])
    coefficients, error = remez(task, terms)
    print(f"{sys.argv[1]}, {terms} terms: relative error {float(error):.2e}")
    for coefficient in coefficients:
        single = struct.unpack("f", struct.pack("f", coefficient))[0]
        print(f"  {float(coefficient): .16e}  ({single: .9e})")


if __name__ == "__main__":
    main()
