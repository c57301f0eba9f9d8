#!/usr/bin/env python3
"""Tokenizers beside the package tokenizers: bench_tokenizers in turn with the same calls.

    bench/peers/tokenizing.py TEXT [--build DIR] [--rounds N] [--vocabulary N] [--filter TEXT]

Byte-level BPE with the expressions of GPT-2, Llama 3 and Qwen 2, BPE with byte fallback as Llama 2's
and WordPiece, each learned from the text by the package. One thread, CPU time, the best call of a turn:
the whole text in one call, pages of 1,000 bytes up to the next line in one call of the package and a
call each of rapt, and decoding. rapt also learns byte-level BPE. The ratio is the median over the rounds
of (time of the package) / (time of rapt). The package also computes offsets, which cannot be turned off;
its encode_batch_fast leaves them out and is what is timed.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

os.environ["TOKENIZERS_PARALLELISM"] = "false"
os.environ["RAYON_NUM_THREADS"] = "1"
try:
    from tokenizers import (Tokenizer, __version__, decoders, models, normalizers, pre_tokenizers,
                            trainers)
except ImportError as error:
    sys.exit(f"{error}; first: pip install -r {Path(__file__).parent / 'requirements.txt'}")

ROOT = Path(__file__).resolve().parents[2]
CALLS = 3
PAGE = 1000  # as in bench/timed/tokenizers.cpp
LLAMA_3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
           r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")


def byte_level(text, vocabulary):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.train_from_iterator([text], trainers.BpeTrainer(
        vocab_size=vocabulary, show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    return tokenizer


def split_by(expression, text, vocabulary):
    content = json.loads(byte_level(text, vocabulary).to_str())
    content["pre_tokenizer"] = {"type": "Sequence", "pretokenizers": [
        {"type": "Split", "pattern": {"Regex": expression}, "behavior": "Isolated", "invert": False},
        {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}]}
    return Tokenizer.from_str(json.dumps(content))


def byte_fallback(text, vocabulary):
    learner = Tokenizer(models.BPE())
    learner.pre_tokenizer = pre_tokenizers.Metaspace("\u2581", "first", True)
    learner.train_from_iterator(text.split("\n"), trainers.BpeTrainer(
        vocab_size=vocabulary, show_progress=False, limit_alphabet=500))
    learned = json.loads(learner.to_str())["model"]
    tokens = ["<unk>", *(f"<0x{byte:02X}>" for byte in range(256)),
              *sorted(learned["vocab"], key=learned["vocab"].get)]
    tokenizer = Tokenizer(models.BPE(
        {t: i for i, t in enumerate(dict.fromkeys(tokens))}, [tuple(m) for m in learned["merges"]],
        unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    tokenizer.normalizer = normalizers.Sequence(
        [normalizers.Prepend("\u2581"), normalizers.Replace(" ", "\u2581")])
    tokenizer.decoder = decoders.Sequence([decoders.Replace("\u2581", " "), decoders.ByteFallback(),
                                           decoders.Fuse(), decoders.Strip(" ", 1, 0)])
    return tokenizer


def word_piece(text, vocabulary):
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    tokenizer.train_from_iterator([text], trainers.WordPieceTrainer(
        vocab_size=vocabulary, show_progress=False, special_tokens=["[UNK]"]))
    return tokenizer


KINDS = {"byte-level BPE, GPT-2": byte_level,
         "byte-level BPE, Llama 3": lambda *given: split_by(LLAMA_3, *given),
         "byte-level BPE, Qwen 2": lambda *given: split_by(LLAMA_3.replace("{1,3}", ""), *given),
         "BPE with byte fallback": byte_fallback, "WordPiece": word_piece}


def pages_of(text):
    raw, pages, at = text.encode(), [], 0
    while at < len(raw):
        end = raw.find(b"\n", at + PAGE) + 1 or len(raw)
        pages.append(raw[at:end].decode())
        at = end
    return pages


def best(call):
    seconds = []
    for _ in range(CALLS):
        start = time.process_time()
        call()
        seconds.append(time.process_time() - start)
    return min(seconds)


def times_of_package(tokenizer, text, learn):
    ids, pages = tokenizer.encode(text, add_special_tokens=False).ids, pages_of(text)
    times = {"ids": len(ids)}
    if learn is not None:
        times["learn"] = best(learn)
    return times | {"encode": best(lambda: tokenizer.encode_batch_fast([text])),
                    "encode_pages": best(lambda: tokenizer.encode_batch_fast(pages)),
                    "decode": best(lambda: tokenizer.decode(ids, skip_special_tokens=False))}


def compare(arguments, name, text, wanted):
    """Prints the wanted rows of a kind."""
    tokenizer = KINDS[name](text, arguments.vocabulary)
    learn = (lambda: byte_level(text, arguments.vocabulary)) if "learn" in wanted else None
    ours, theirs = [], []
    with tempfile.TemporaryDirectory() as folder:
        tokenizer.save(f"{folder}/tokenizer.json")
        how = str(arguments.vocabulary) if learn else folder

        def rapt():
            done = subprocess.run([arguments.build / "bench/bench_tokenizers", arguments.text, how],
                                  capture_output=True, text=True, check=True)
            ours.append(json.loads(done.stdout))

        turns = [rapt, lambda: theirs.append(times_of_package(tokenizer, text, learn))]
        for i in range(arguments.rounds):
            for turn in turns if i % 2 == 0 else turns[::-1]:
                turn()
    if ours[0]["ids"] != theirs[0]["ids"]:
        sys.exit(f"{name}: rapt has {ours[0]['ids']} ids, the package {theirs[0]['ids']}")
    for what in wanted:
        a, b = [run[what] for run in ours], [run[what] for run in theirs]
        ratio = statistics.median(y / x for x, y in zip(a, b))
        print(f"| {name}: {what} | {1e3 * min(a):.1f} | {1e3 * min(b):.1f} | {ratio:.1f} |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("text", type=Path)
    parser.add_argument("--build", type=Path, default=ROOT / "build/release")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--vocabulary", type=int, default=1280)
    parser.add_argument("--filter", default="")
    arguments = parser.parse_args()
    text = arguments.text.read_bytes().decode()
    print(f"tokenizers {__version__}, {len(text.encode())} bytes, {arguments.vocabulary} tokens\n\n"
          "| | rapt ms | tokenizers ms | ratio |\n|---|---:|---:|---:|", flush=True)
    for name in KINDS:
        rows = (["learn"] if KINDS[name] is byte_level else []) + ["encode", "encode_pages", "decode"]
        wanted = [what for what in rows if arguments.filter in f"{name}: {what}"]
        if wanted:
            compare(arguments, name, text, wanted)


if __name__ == "__main__":
    main()
