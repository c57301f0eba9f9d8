#!/usr/bin/env python3
"""Writes src/viz/text/display_width_ranges.inc from Python's Unicode data.

Run it from the root of the project after a new Unicode version: dev/make_display_width.py
"""
import pathlib
import unicodedata


def ranges(wanted):
    found = []
    for code in range(0x110000):
        if not wanted(chr(code)):
            continue
        if found and found[-1][1] == code - 1:
            found[-1][1] = code
        else:
            found.append([code, code])
    return found


def is_wide(c):
    return unicodedata.east_asian_width(c) in "WF" and not is_zero(c)


def is_zero(c):
    # Vowels and final consonants of Hangul join the syllable before them.
    return unicodedata.category(c) in ("Mn", "Me") or 0x1160 <= ord(c) <= 0x11FF


def is_spacing_mark(c):
    return unicodedata.category(c) == "Mc"


def lines(name, found):
    yield f"constexpr CodeRange {name}[] = {{"
    items = [f"{{0x{a:x}, 0x{b:x}}}" for a, b in found]
    for i in range(0, len(items), 5):
        yield "    " + ", ".join(items[i : i + 5]) + ","
    yield "};"


out = [
    f"// Written by dev/make_display_width.py from Unicode {unicodedata.unidata_version}; do not edit.",
    "// Wide: East_Asian_Width W or F. Zero: categories Mn and Me, and joining Hangul letters.",
    "// Spacing marks: category Mc, vowel signs with a column of their own.",
    *lines("kWide", ranges(is_wide)),
    *lines("kZeroWidth", ranges(is_zero)),
    *lines("kSpacingMarks", ranges(is_spacing_mark)),
]
pathlib.Path("src/viz/text/display_width_ranges.inc").write_text("\n".join(out) + "\n")
