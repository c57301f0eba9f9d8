#!/usr/bin/env python3
"""Measures what the command line costs beside attention: start-up, memory of big files, the share
of attention in a call on files.

    bench/command_line.py [RAPT] [--repetitions N]

    RAPT             the built program (build/release/cli/rapt)
    --repetitions N  runs of each start-up (50); those of the call on files are a fifth of it

Needs Python alone, and 100 MB in the folder for temporary files. Leave the machine alone meanwhile.
"""
import argparse
import json
import os
import random
import resource
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from array import array
from pathlib import Path

BUILT = Path(__file__).resolve().parent.parent / "build" / "release" / "cli" / "rapt"
HEADS, LENGTH, DIM = 8, 8192, 64


def npy_header(shape):
    text = "{'descr': '<f4', 'fortran_order': False, 'shape': (%s), }" % ", ".join(map(str, shape))
    return b"\x93NUMPY\x01\x00\x76\x00" + text.encode().ljust(117) + b"\n"


def write_holes(path, header, size):
    """A file that is all zeros behind its header and takes no room."""
    path.write_bytes(header)
    os.truncate(path, len(header) + size)


def make_files(folder):
    numbers = random.Random(1)
    for name, shape in (("tiny", (2, 4, 8)), ("query", (HEADS, LENGTH, DIM)),
                        ("key", (HEADS, LENGTH, DIM)), ("value", (HEADS, LENGTH, DIM))):
        count = shape[0] * shape[1] * shape[2]
        values = array("f", (numbers.gauss(0, 1) for _ in range(count)))
        (folder / f"{name}.npy").write_bytes(npy_header(shape) + values.tobytes())
    rows = 1 << 22
    write_holes(folder / "row.npy", npy_header((1, DIM)), 4 * DIM)
    write_holes(folder / "big.npy", npy_header((rows, DIM)), 1 << 30)
    entries = {"big": {"dtype": "F32", "shape": [rows, DIM], "data_offsets": [0, 1 << 30]}}
    text = json.dumps(entries).encode()
    text += b" " * (-len(text) % 8)
    write_holes(folder / "big.safetensors", struct.pack("<Q", len(text)) + text, 1 << 30)


def run(rapt, arguments, folder):
    """Seconds of the process from outside, the peak of its memory in bytes, and what it printed."""
    start = time.perf_counter()
    process = subprocess.Popen([rapt, *arguments], cwd=folder, stdin=subprocess.DEVNULL,
                               stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    output = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - start
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        sys.exit(f"rapt {' '.join(arguments)} ended with {process.returncode}")
    return seconds, usage, output


def attend(query, key, value, *more):
    return ["attend", "--query", query, "--key", key, "--value", value, *more]


def print_startup(rapt, folder, repetitions):
    tiny = attend("tiny.npy", "tiny.npy", "tiny.npy", "--output", "tiny_output.npy", "--force")
    print("| start-up | best | median of %d |\n|---|---:|---:|" % repetitions)
    for what, arguments in (("`rapt --version`", ["--version"]), ("`rapt list`", ["list"]),
                            ("`rapt info` of a tiny file", ["info", "tiny.npy"]),
                            ("`rapt attend` of tiny files", tiny)):
        times = [1e3 * run(rapt, arguments, folder)[0] for _ in range(repetitions)]
        print(f"| {what} | {min(times):.1f} ms | {statistics.median(times):.1f} ms |")


def print_memory(rapt, folder):
    # What this script holds counts for the program that it becomes.
    own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"\n| of a file of 1 GiB | peak memory, or {own:.0f} MiB if it is less |\n|---|---:|")
    prefix = ["--mask", "prefix:1024", "--output", "part.npy", "--force"]
    for name in ("big.npy", "big.safetensors"):
        for what, arguments in (("`info --no-stats`", ["info", "--no-stats", name]),
                                ("`info`, all of it read", ["info", name]),
                                ("`attend` to 1,024 of its keys",
                                 attend("row.npy", name, name, *prefix))):
            peak = run(rapt, arguments, folder)[1].ru_maxrss / 1024
            print(f"| {what}, {name} | {peak:.1f} MiB |")


def print_split(rapt, folder, repetitions):
    calls = []
    for _ in range(max(1, repetitions // 5)):
        (folder / "output.npy").unlink(missing_ok=True)
        calls.append(run(rapt, attend("query.npy", "key.npy", "value.npy", "--output",
                                      "output.npy", "--json"), folder))
    seconds, usage, output = min(calls, key=lambda call: call[0])
    document = json.loads(output)
    spent = document["time"]
    parts = {"reading": spent["read_seconds"], "attention": spent["wall_seconds"],
             "writing": spent["write_seconds"]}
    parts["starting and ending"] = seconds - sum(parts.values())
    print(f"\n| `rapt attend`, f32, {HEADS} heads, n = {LENGTH:,}, d = {DIM}, "
          f"{document['plan']['threads']} threads; best of {len(calls)} | | |\n|---|---:|---:|")
    for what, part in parts.items():
        print(f"| {what} | {1e3 * part:.1f} ms | {100 * part / seconds:.1f} % |")
    cpu = usage.ru_utime + usage.ru_stime
    print(f"| CPU time of attention | {1e3 * spent['cpu_seconds']:.1f} ms | "
          f"{100 * spent['cpu_seconds'] / cpu:.1f} % |")


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("rapt", nargs="?", default=str(BUILT))
    parser.add_argument("--repetitions", type=int, default=50)
    arguments = parser.parse_args()
    rapt = os.path.abspath(arguments.rapt)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if (maker := os.fork()) == 0:  # its memory ends with it
            make_files(folder)
            os._exit(0)
        os.waitpid(maker, 0)
        print_startup(rapt, folder, arguments.repetitions)
        print_memory(rapt, folder)
        print_split(rapt, folder, arguments.repetitions)


if __name__ == "__main__":
    main()
