#!/usr/bin/env python3
"""Writes src/text/normal_form/nfc_tables.inc: what the package tokenizers knows of NFC.

    python3 -m venv build/tokenizers && build/tokenizers/bin/pip install tokenizers==0.23.3
    build/tokenizers/bin/python dev/record_normal_form.py             write the file
    build/tokenizers/bin/python dev/record_normal_form.py --check     does it say the same?

The package is asked for each code point alone, for the order of pairs of marks, and for each pair that is
composed. Syllables of Hangul, which are composed by a formula, are left out.
"""
import sys

from tokenizers.normalizers import NFC, NFD

from unicode_tables import (CODES, HANGUL, range_table, sequence_table, table, valued_range_table,
                            write_tables)

VOWELS_AND_ENDS = [*range(0x1161, 0x1176), *range(0x11A8, 0x11C3)]  # what a syllable takes up
nfc, nfd = NFC().normalize_str, NFD().normalize_str


def mark_ranks(decomposed):
    """Of each mark the rank of its canonical class, from 1: a mark stands before those of a higher class."""
    whole = [chr(code) for code in CODES if code not in decomposed]
    high = next(c for c in whole if nfd("x" + c + "\u0334") == "x\u0334" + c)
    low = "\u0334"  # of the class 1, the lowest
    marks = [c for c in whole if nfd("x" + c + low) == "x" + low + c] + [
        c for c in whole if nfd("x" + high + c) == "x" + c + high]
    marks = sorted(set(marks))
    lower = {a: sum(nfd("x" + a + b) == "x" + b + a for b in marks if b != a) for a in marks}
    sizes = sorted(set(lower.values()))
    return {ord(a): sizes.index(lower[a]) + 1 for a in marks}


def composed(decomposed):
    """(first, second): the character that they become."""
    pairs = {}
    for code, parts in decomposed.items():
        character = chr(code)
        first, second = nfc(parts[:-1]), parts[-1]
        if len(first) == 1 and nfc(first + second) == character:
            pairs[ord(first), ord(second)] = code
        elif nfc(parts) == character:
            sys.exit(f"U+{code:04X} is not composed of two")
    return pairs


def recorded():
    decomposed = {code: nfd(chr(code)) for code in CODES
                  if code not in HANGUL and nfd(chr(code)) != chr(code)}
    ranks, pairs = mark_ranks(decomposed), composed(decomposed)
    changing = [code for code in CODES if code not in HANGUL and nfc(chr(code)) != chr(code)]
    unstable = {*changing, *ranks, *(second for _, second in pairs), *VOWELS_AND_ENDS}
    for code, parts in decomposed.items():  # so that a text may be cut before what is stable
        if code not in unstable and ord(parts[0]) in unstable:
            sys.exit(f"U+{code:04X} is stable, and begins with what is not")
    return [
        *range_table("NfcRange", "kNfcUnstable", unstable),
        *valued_range_table("NfcClass", "kNfcClasses", ranks),
        *sequence_table("NfcDecomposition", "kNfcDecomposed", decomposed),
        *table("NfcComposition", "kNfcComposed",
               [f"{{0x{a:x}, 0x{b:x}, 0x{to:x}}}" for (a, b), to in sorted(pairs.items())])]


write_tables("normal_form", {"nfc_tables.inc": recorded()})
