"""Memory of a step of training, rapt beside PyTorch: how far does one push the peak of resident
memory beyond its inputs?

Each library works in a process of its own, since what one has given back could serve the other.
"""
import multiprocessing
from pathlib import Path

import training
from rapt_by_ctypes import Rapt


def case_of(n):
    return training.Case(f"forward and backward, dropout {training.DROPOUT} n={n}, one head", n, 64,
                         goal=None, dropout=training.DROPOUT, forward=True, heads=1)


CASE = case_of(16384)
# Loads code and begins threads, if there are any.
WARM_UP = case_of(64)


def status_mib(field):
    """A line of /proc/self/status."""
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1]) / 1024
    raise RuntimeError(f"/proc/self/status has no {field}")


def growth_mib(case, name, library):
    """Of one step in this process."""
    inputs, d_output = training.problem(case)
    # "5" sets the peak to what is held now (proc(5), clear_refs).
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    before = status_mib("VmHWM")
    if name == "rapt":
        call = training.by_rapt(case, inputs, d_output, Rapt(library))
    else:
        call, _ = training.by_pytorch(case, inputs, d_output)
    call()
    return status_mib("VmHWM") - before


def measure(library):
    """name -> MiB."""
    growth = {}
    for name in ("rapt", "PyTorch"):
        with multiprocessing.get_context("spawn").Pool(1) as process:
            process.apply(growth_mib, (WARM_UP, name, library))
            growth[name] = process.apply(growth_mib, (CASE, name, library))
    return growth


HEAD = ["",
        "Growth of the peak of resident memory beyond the inputs in a process that does one step; "
        "the output and the gradients are 16 MiB of it.",
        "",
        "| case | rapt MiB | PyTorch MiB | ratio |",
        "|---|---:|---:|---:|"]


def row(growth):
    return (f"| {CASE.name} | {growth['rapt']:.0f} | {growth['PyTorch']:.0f} "
            f"| {growth['PyTorch'] / growth['rapt']:.0f} |")
