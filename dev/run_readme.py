#!/usr/bin/env python3
"""Runs the commands that README.md shows, in order, from the root of the checkout.

    dev/run_readme.py [--list]

A command is a line of a fenced block marked ```sh, with its continuation lines ("\\" at the end).
Stops at the first one that fails. --list only prints what would be run and what not.
"""
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

# Commands that are about another machine, or that .ci/run has run already: their beginnings.
NOT_HERE = ["apt-get ", "sudo ", "git clone ", "cd ", "./run test", "./run bench", "./run check",
            "./run sanitizers", "dev/fresh.sh", "pip install "]


def commands_of(markdown):
    for block in re.findall(r"^```sh\n(.*?)^```", markdown, re.MULTILINE | re.DOTALL):
        for line in block.replace("\\\n", " ").splitlines():
            line = line.removeprefix("$ ").strip()
            if line and not line.startswith("#"):
                yield line


def main(arguments):
    if arguments not in ([], ["--list"]):
        print(__doc__, file=sys.stderr)
        return 2
    run = skipped = 0
    for command in commands_of((ROOT / "README.md").read_text(encoding="utf-8")):
        if any(command.startswith(beginning) for beginning in NOT_HERE):
            print(f"not run here: {command}", flush=True)
            skipped += 1
            continue
        print(f"$ {command}", flush=True)
        run += 1
        if not arguments:
            status = subprocess.run(["bash", "-c", command], cwd=ROOT, check=False).returncode
            if status != 0:
                print(f"README.md shows a command that fails with {status}: {command}",
                      file=sys.stderr)
                return 1
    if run == 0:
        print("README.md shows no command in a ```sh block", file=sys.stderr)
        return 1
    print(f"README.md: {run} commands, {skipped} left out")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
