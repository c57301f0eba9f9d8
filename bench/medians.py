#!/usr/bin/env python3
"""Makes one Markdown table of the JSON lines that several processes of bench_forward printed.

    bench/medians.py BUILD_INFO MEMORY_LINE < lines

Each number is the median over the processes. A goal is met by the percentage of the FMA peak or by
the multiply-adds per cycle, of which a core does at most two.
"""
import json
import statistics
import sys

import machine

MOST_FMA_PER_CYCLE = 2
COLUMNS = ("ms", "gflops", "peak_gflops", "percent", "fma_per_cycle", "clock_ghz")


def verdict(goal, percent, fma_per_cycle):
    if not goal:
        return "-"
    reached = max(percent, 100 * fma_per_cycle / MOST_FMA_PER_CYCLE)
    return "met" if reached >= goal else f"short by {100 * (1 - reached / goal):.1f} %"


def main(build_info, memory_line):
    cases = {}  # name -> the lines of all processes, in the order of the first
    for line in sys.stdin:
        row = json.loads(line)
        cases.setdefault(row["name"], []).append(row)
    if not cases:
        sys.exit("no measurement came in")
    counts = {len(rows) for rows in cases.values()}
    if len(counts) != 1:
        sys.exit(f"some cases were measured more often than others: {sorted(counts)}")
    medians = {name: {c: statistics.median(row[c] for row in rows) for c in COLUMNS}
               for name, rows in cases.items()}
    clocks = [m["clock_ghz"] for m in medians.values()]

    print(f"- Machine: {machine.description()}")
    print(f"- Clock in the kernels: {min(clocks):.2f} to {max(clocks):.2f} GHz")
    print(f"- rapt {build_info}")
    print(f"- f32, 2 heads, one thread; thread CPU time, best of a process's repetitions; median of "
          f"{counts.pop()} processes")
    print("- Useful flops: 2 (head_dim + value_dim) per allowed score; peak: FMA loop in the same "
          "process before and after each case")
    print()
    print("| case | instruction set | ms | GF/s | FMA peak | % of peak | FMA/cycle | GHz | goal % | |")
    print("|---|---|---:|---:|---:|---:|---:|---:|---:|---|")
    for name, m in medians.items():
        first = cases[name][0]
        goal = first["goal_percent"]
        print(f"| {name} | {first['isa']} | {m['ms']:.2f} | {m['gflops']:.1f} "
              f"| {m['peak_gflops']:.1f} | {m['percent']:.1f} | {m['fma_per_cycle']:.2f} "
              f"| {m['clock_ghz']:.2f} | {goal or '-'} "
              f"| {verdict(goal, m['percent'], m['fma_per_cycle'])} |")
    print()
    print(f"Memory: {memory_line}")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
