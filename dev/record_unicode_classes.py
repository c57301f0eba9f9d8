#!/usr/bin/env python3
"""Writes src/text/unicode_class_ranges.inc: which code points the package tokenizers takes for
letters, numbers and white space.

    python3 -m venv build/tokenizers && build/tokenizers/bin/pip install tokenizers==0.23.3
    build/tokenizers/bin/python dev/record_unicode_classes.py             write the file
    build/tokenizers/bin/python dev/record_unicode_classes.py --check     does it say the same?

The package's ByteLevel is asked for each code point alone, beside a letter, a digit and a mark: pieces
that GPT-2's expression keeps together have the same class.
"""
import pathlib
import sys

import tokenizers
from tokenizers.pre_tokenizers import ByteLevel

FILE = pathlib.Path(__file__).resolve().parent.parent / "src/text/unicode_class_ranges.inc"
PER_LINE = 5


def class_of(character, pieces):
    """The class of a character, by the neighbour that stays in one piece with it. White space before a
    letter stays alone or, a blank, with the letter; so it is what joins with nothing before it."""
    joined = [name for name, neighbour in (("letter", "a"), ("number", "1"), ("other", "!"))
              if len(pieces(neighbour + character)) == 1]
    if len(joined) > 1:
        sys.exit(f"U+{ord(character):04X} joins with {joined}")
    return joined[0] if joined else "space"


def ranges(classes, wanted):
    found = []
    for code, name in classes:
        if name != wanted:
            continue
        if found and found[-1][1] == code - 1:
            found[-1][1] = code
        else:
            found.append([code, code])
    return found


def lines(name, found):
    yield f"constexpr CodeRange {name}[] = {{"
    items = [f"{{0x{a:x}, 0x{b:x}}}" for a, b in found]
    for i in range(0, len(items), PER_LINE):
        yield "    " + ", ".join(items[i:i + PER_LINE]) + ","
    yield "};"


def recorded():
    pieces = ByteLevel(add_prefix_space=False, use_regex=True).pre_tokenize_str
    classes = [(code, class_of(chr(code), pieces)) for code in range(0x110000)
               if not 0xD800 <= code < 0xE000]
    return "\n".join([
        f"// Written by dev/record_unicode_classes.py from tokenizers {tokenizers.__version__}; do not edit.",
        *lines("kLetters", ranges(classes, "letter")),
        *lines("kNumbers", ranges(classes, "number")),
        *lines("kSpaces", ranges(classes, "space"))]) + "\n"


if sys.argv[1:] == ["--check"]:
    same = FILE.read_text() == recorded()
    print("The classes are those of the package." if same else f"{FILE} differs from the package")
    sys.exit(0 if same else 1)
FILE.write_text(recorded())
