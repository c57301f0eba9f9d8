#!/usr/bin/env python3
"""Writes src/text/unicode_class_ranges.inc: which code points the package tokenizers takes for
letters, numbers and white space.

    python3 -m venv build/tokenizers && build/tokenizers/bin/pip install tokenizers==0.23.3
    build/tokenizers/bin/python dev/record_unicode_classes.py             write the file
    build/tokenizers/bin/python dev/record_unicode_classes.py --check     does it say the same?

The package's ByteLevel is asked for each code point alone, beside a letter, a digit and a mark: pieces
that GPT-2's expression keeps together have the same class.
"""
import sys

from tokenizers.pre_tokenizers import ByteLevel

from unicode_tables import CODES, range_table, write_tables


def class_of(character, pieces):
    """The class of a character, by the neighbour that stays in one piece with it. White space before a
    letter stays alone or, a blank, with the letter; so it is what joins with nothing before it."""
    joined = [name for name, neighbour in (("letter", "a"), ("number", "1"), ("other", "!"))
              if len(pieces(neighbour + character)) == 1]
    if len(joined) > 1:
        sys.exit(f"U+{ord(character):04X} joins with {joined}")
    return joined[0] if joined else "space"


def recorded():
    pieces = ByteLevel(add_prefix_space=False, use_regex=True).pre_tokenize_str
    codes = {"letter": [], "number": [], "space": [], "other": []}
    for code in CODES:
        codes[class_of(chr(code), pieces)].append(code)
    return [*range_table("CodeRange", "kLetters", codes["letter"]),
            *range_table("CodeRange", "kNumbers", codes["number"]),
            *range_table("CodeRange", "kSpaces", codes["space"])]


write_tables(".", {"unicode_class_ranges.inc": recorded()})
