#!/usr/bin/env python3
"""Writes src/text/wordpiece/*.inc: what the package tokenizers does with each code point in
BertNormalizer and BertPreTokenizer.

    python3 -m venv build/tokenizers && build/tokenizers/bin/pip install tokenizers==0.23.3
    build/tokenizers/bin/python dev/record_bert_tables.py             write the files
    build/tokenizers/bin/python dev/record_bert_tables.py --check     do they say the same?

The package is asked for each code point alone, and for the order of pairs of marks. Its tables come from
several versions of Unicode, so no library of one version has the same.
"""
import unicodedata

from tokenizers.normalizers import BertNormalizer
from tokenizers.pre_tokenizers import BertPreTokenizer

from unicode_tables import (CODES, HANGUL, range_table, sequence_table, table, valued_range_table,
                            write_tables)


def step(name):
    """One step of the normaliser, alone."""
    flags = dict(clean_text=False, handle_chinese_chars=False, strip_accents=False, lowercase=False)
    return BertNormalizer(**{**flags, name: True}).normalize_str


def changed(name):
    do = step(name)
    return {code: do(chr(code)) for code in CODES if do(chr(code)) != chr(code)}


def pair_table(name, changes):
    return table("CodeChange", name, [f"{{0x{code:x}, 0x{ord(to):x}}}" for code, to in changes.items()
                                      if len(to) == 1])


def long(changes):
    """Those to several characters."""
    return {code: to for code, to in changes.items() if len(to) > 1}


def orders(strip, stripped):
    """Marks that stay are sorted by their canonical class: of each the rank of its class, from 1. And the
    marks that are removed although they end a run of marks that are sorted."""
    marks = [chr(code) for code in CODES
             if stripped.get(code, chr(code)) == chr(code) and unicodedata.combining(chr(code))]
    lower = {a: {b for b in marks if b != a and strip("x" + a + b) == "x" + b + a} for a in marks}
    sorted_marks = set().union(*lower.values()) | {a for a in marks if lower[a]}
    sizes = sorted({len(lower[a]) for a in sorted_marks})
    rank = {ord(a): sizes.index(len(lower[a])) + 1 for a in sorted_marks}
    # A pair that is exchanged, unless what stands between them ends the run.
    high = max(sorted_marks, key=lambda a: len(lower[a]))
    low = min(lower[high])
    ends = [code for code, to in stripped.items()
            if to == "" and strip("x" + high + chr(code) + low) == "x" + high + low]
    return rank, ends


def recorded():
    cleaned = changed("clean_text")
    chinese = changed("handle_chinese_chars")
    stripped = {c: to for c, to in changed("strip_accents").items() if c not in HANGUL}
    lowered = changed("lowercase")
    rank, ends = orders(step("strip_accents"), stripped)
    pieces = {code: [text for text, _ in BertPreTokenizer().pre_tokenize_str(f"a{chr(code)}a")]
              for code in CODES}
    return {
        "character_kinds.inc": [
            *range_table("CharacterRange", "kDropped", [c for c, to in cleaned.items() if to == ""]),
            *range_table("CharacterRange", "kBlanks", [c for c, to in cleaned.items() if to == " "]),
            *range_table("CharacterRange", "kChinese", chinese),
            *range_table("CharacterRange", "kSeparators",
                         [c for c in CODES if pieces[c] == ["a", "a"]]),
            *range_table("CharacterRange", "kPunctuation",
                         [c for c in CODES if pieces[c] == ["a", chr(c), "a"]])],
        "accents.inc": [
            *range_table("CharacterRange", "kRemovedMarks", [c for c, to in stripped.items() if to == ""]),
            *range_table("CharacterRange", "kEndingMarks", ends),
            *valued_range_table("MarkRank", "kMarkRanks", rank),
            *sequence_table("CodeSequence", "kDecomposed", long(stripped)),
            *pair_table("kBaseLetters", stripped)],
        "lowercase.inc": [
            *sequence_table("CodeSequence", "kLowerSequences", long(lowered)),
            *pair_table("kLowerLetters", lowered)],
    }


write_tables("wordpiece", recorded())
