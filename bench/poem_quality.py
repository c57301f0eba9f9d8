#!/usr/bin/env python3
"""How good are poems by `rapt train --text poems` and `rapt generate`?

    bench/poem_quality.py [--program RAPT] [--budget 2m] [--seeds 3] [--length 4000]
                          [--words /usr/share/dict/words] [-- OPTIONS OF rapt generate]

For each seed: trains, generates, and prints the share of words that the poems or the list of words
(Debian's package wamerican) have, the share of lines as long as nine tenths of the poems' lines are
(from their 5th to their 95th percentile), and the share of lines that the poems have word for word.
Exit status 1 if a seed has fewer than 95 % of known words, a median length of lines outside of that
range, or more than 20 % of copied lines. Needs two idle cores for the budget times the seeds.
"""
import argparse
import re
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def words_in(text):
    return re.findall(r"[a-z]+(?:'[a-z]+)?", text.lower().replace("’", "'"))


def lines_in(text):
    return [line.strip() for line in text.split("\n") if line.strip()]


def run(*words):
    done = subprocess.run(list(map(str, words)), capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, words))}:\n{done.stderr}")
    return done.stdout


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--program", type=Path, default=ROOT / "build/release/cli/rapt")
    parser.add_argument("--budget", default="2m")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--length", type=int, default=4000)
    parser.add_argument("--words", type=Path, default=Path("/usr/share/dict/words"))
    parser.add_argument("generate", nargs="*")
    arguments = parser.parse_args()

    poems = (ROOT / "texts/poems.txt").read_text(encoding="utf-8")
    listed = arguments.words.read_text(encoding="utf-8").lower().split()
    known = set(words_in(poems)) | set(listed)
    own_lines = lines_in(poems)
    lengths = sorted(map(len, own_lines))
    shortest, longest = (lengths[len(lengths) * p // 100] for p in (5, 95))
    print(f"lines of the poems: {shortest} to {longest} characters\n"
          "| seed | known words | lines of usual length | copied lines |\n|---|---:|---:|---:|")
    failed = False
    for seed in range(1, arguments.seeds + 1):
        with tempfile.TemporaryDirectory() as folder:
            run(arguments.program, "train", "--text", "poems", "--budget", arguments.budget, "--seed",
                seed, "--no-pictures", "--sample-every", 0, "--output", f"{folder}/run")
            text = run(arguments.program, "generate", f"{folder}/run", "--prompt", "The ", "--length",
                       arguments.length, "--when-full", "slide", "--seed", seed, *arguments.generate)
        # The first line begins with the prompt, and the last one may have been cut.
        lines = lines_in(text)[1:-1]
        words = words_in("\n".join(lines))
        right = sum(word in known for word in words) / len(words)
        usual = sum(shortest <= len(line) <= longest for line in lines) / len(lines)
        copied = sum(line in set(own_lines) for line in lines) / len(lines)
        median = statistics.median(map(len, lines))
        failed |= right < 0.95 or copied > 0.2 or not shortest <= median <= longest
        print(f"| {seed} | {100 * right:.1f} % | {100 * usual:.1f} % | {100 * copied:.1f} % |",
              flush=True)
        print(text[:400], file=sys.stderr)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
