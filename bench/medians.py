#!/usr/bin/env python3
"""Makes Markdown tables of the JSON lines that several processes of the benchmarks printed.

    bench/medians.py BUILD_INFO < lines

Each number is the median over the processes (memory: one process per case). A goal of the forward
pass is met by the percentage of the peak or by the multiply-adds per cycle, of which a core does at
most two.
"""
import json
import statistics
import sys

import machine

MOST_FMA_PER_CYCLE = 2


def shortfall(goal, reached):
    """For goals that are a least value."""
    return "met" if reached >= goal else f"short by {100 * (1 - reached / goal):.1f} %"


def excess(goal, reached):
    """For goals that are a most value."""
    return "met" if reached <= goal else f"beyond by {100 * (reached / goal - 1):.1f} %"


def of_peak(goal, m):
    return shortfall(goal, max(m["percent"], 100 * m["fma_per_cycle"] / MOST_FMA_PER_CYCLE))


class Table:
    """columns: (heading, field, format). A field of None is what `verdict` says of the goal and the
    medians; "goal" is "-" where none was set."""

    def __init__(self, name, title, about, columns, verdict=None):
        self.name, self.title, self.about, self.columns = name, title, about, columns
        self.verdict = verdict

    def cell(self, field, form, first, medians):
        goal = first.get("goal", 0)
        if field is None:
            return self.verdict(goal, medians) if goal else "-"
        if field == "goal":
            return f"{goal:g}" if goal else "-"
        if form is None:
            return first[field]
        # What was not measured is 0.
        return format(medians[field], form) if medians[field] else "-"

    def lines(self, cases):
        counts = {len(rows) for rows in cases.values()}
        if len(counts) != 1:
            sys.exit(f"{self.title}: some cases were measured more often than others: "
                     f"{sorted(counts)}")
        processes = counts.pop()
        often = "one process each" if processes == 1 else f"median of {processes} processes"
        yield f"## {self.title}"
        yield ""
        yield f"{self.about} {often[0].upper()}{often[1:]}."
        yield ""
        yield "| " + " | ".join(heading for heading, _, _ in self.columns) + " |"
        yield "|" + "|".join("---:" if form else "---" for _, _, form in self.columns) + "|"
        for rows in cases.values():
            medians = {field: statistics.median(row[field] for row in rows)
                       for field, value in rows[0].items() if not isinstance(value, str)}
            yield "| " + " | ".join(self.cell(field, form, rows[0], medians)
                                    for _, field, form in self.columns) + " |"
        yield ""


SPEED_COLUMNS = [("case", "name", None), ("instruction set", "isa", None), ("ms", "ms", ".2f"),
                 ("GF/s", "gflops", ".1f"), ("peak", "peak_gflops", ".1f"), ("of", "peak", None),
                 ("% of peak", "percent", ".1f"), ("FMA/cycle", "fma_per_cycle", ".2f"),
                 ("GHz", "clock_ghz", ".2f"), ("goal %", "goal", ".0f"), ("", None, None)]

TABLES = [
    Table("forward", "Forward pass",
          "One thread, 2 heads unless said; thread CPU time, best of a process's repetitions. "
          "Useful flops: 2 (head_dim + value_dim) per allowed score; peak: a loop of the named "
          "instruction in the same process before and after each case (f64: half of f32's); "
          "FMA/cycle: whole vectors, dot products where these are the peak.",
          SPEED_COLUMNS, of_peak),
    Table("backward", "Backward pass",
          "Gradients of query, key and value from the state that the forward pass left, which is not "
          "part of the time; all else as above. Useful flops: 6 head_dim + 4 value_dim per allowed "
          "score.",
          SPEED_COLUMNS, of_peak),
    Table("ratios", "What options cost",
          "f32, no other mask, d = 64, 2 heads, one thread; forward, or backward pass alone; against "
          "the plain call, in turn in one process. Ratio: median over the rounds; ms: each one's best.",
          [("option", "name", None), ("ms", "ms", ".2f"), ("plain ms", "plain_ms", ".2f"),
           ("ratio", "ratio", ".3f"), ("goal", "goal", ".0f"), ("", None, None)],
          lambda goal, m: excess(goal, m["ratio"])),
    Table("small calls", "Small calls",
          "f32, n = 4, d = 8, one thread; CPU time of one call in rows of 1,000.",
          [("call", "name", None), ("ns", "ns", ".0f"), ("goal", "goal", ".0f"),
           ("", None, None)],
          lambda goal, m: excess(goal, m["ns"])),
    Table("threads", "Threads",
          "f32, d = 64, n = 2,048; wall time, best of a process's repetitions; the FMA loop in the "
          "same process and by the same threads.",
          [("case", "name", None), ("threads", "threads", ".0f"), ("ms, one", "one_ms", ".2f"),
           ("ms, all", "all_ms", ".2f"), ("scaling", "scaling", ".3f"),
           ("of the FMA loop's", "of_fma", ".3f"), ("goal", "goal", ".0f"), ("", None, None)],
          lambda goal, m: shortfall(goal, m["of_fma"])),
    Table("jobs", "Jobs of the thread pool", "Microseconds of wall time, two threads.",
          [("what", "name", None), ("threads awake", "awake_us", ".2f"),
           ("asleep", "asleep_us", ".2f")]),
    Table("memory", "Memory",
          "Causal, d = 64, 2 heads, all threads; growth of the process's peak of resident memory "
          "beyond inputs and outputs, MiB.",
          [("dtype, capture", "name", None), ("n", "tokens", ".0f"),
           ("growth", "growth_mib", ".1f"), ("workspace", "workspace_mib", ".2f"),
           ("the matrices", "matrix_mib", ".0f"), ("limit", "goal", ".0f"), ("", None, None)],
          lambda goal, m: excess(goal, m["growth_mib"])),
]


def main(build_info):
    cases = {}  # table -> name -> the lines of all processes, in the order of the first
    for line in sys.stdin:
        row = json.loads(line)
        cases.setdefault(row["table"], {}).setdefault(row["name"], []).append(row)
    if not cases:
        sys.exit("no measurement came in")
    unknown = set(cases) - {table.name for table in TABLES}
    if unknown:
        sys.exit(f"no table for {sorted(unknown)}")

    print(f"- Machine: {machine.description()}")
    clocks = [statistics.median(row["clock_ghz"] for row in rows)
              for rows in cases.get("forward", {}).values()]
    if clocks:
        print(f"- Clock in the kernels: {min(clocks):.2f} to {max(clocks):.2f} GHz")
    print(f"- rapt {build_info}")
    print()
    for table in TABLES:
        if table.name in cases:
            print("\n".join(table.lines(cases[table.name])))


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])
