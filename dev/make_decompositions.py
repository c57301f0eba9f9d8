#!/usr/bin/env python3
"""Writes src/viz/text/decompositions.inc from Python's Unicode data.

Run it from the root of the project: dev/make_decompositions.py
"""
import pathlib
import unicodedata

# Those that src/viz/text/accents.cpp draws.
MARKS = "\u0300\u0301\u0302\u0303\u0304\u0306\u0307\u0308\u0309\u030a\u030b\u030c\u031b"
MARKS += "\u0323\u0326\u0327\u0328\u0331"
BLOCKS = [(0xC0, 0x24F), (0x370, 0x3FF), (0x400, 0x45F), (0x1E00, 0x1EFF)]

# Letters of other alphabets with the same strokes.
ALIKE = dict(zip("АВЕІЈКМНОРСТХЅ", "ABEIJKMHOPCTXS"))
ALIKE |= dict(zip("аеіјорсухѕ", "aeijopcyxs"))
ALIKE |= dict(zip("ΑΒΕΖΗΙΚΜΝΟΡΤΥΧ", "ABEZHIKMNOPTYX"))
ALIKE |= dict(zip("ον", "ov"))
ALIKE |= dict(zip("ГПФ", "ΓΠΦ"))  # as their Greek models

rows = {}
for first, last in BLOCKS:
    for code in range(first, last + 1):
        letter, *marks = unicodedata.normalize("NFD", chr(code))
        letter = ALIKE.get(letter, letter)
        changed = letter != chr(code)
        if changed and len(marks) <= 2 and all(mark in MARKS for mark in marks):
            rows[code] = [ord(letter), *map(ord, marks), 0, 0][:3]

out = [
    f"// Written by dev/make_decompositions.py from Unicode {unicodedata.unidata_version}; do not edit.",
    "constexpr Decomposition kDecompositions[] = {",
]
items = ["{" + ", ".join(f"0x{c:x}" for c in [code, *parts]) + "}" for code, parts in rows.items()]
for i in range(0, len(items), 3):
    out.append("    " + ", ".join(items[i : i + 3]) + ",")
out.append("};")
pathlib.Path("src/viz/text/decompositions.inc").write_text("\n".join(out) + "\n")
