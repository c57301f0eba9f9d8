"""C++ headers of numbers that other projects compute: writing them, and comparing with them."""
import re

import numpy as np


def rows(array, width):
    """Lines of `width` f32 literals."""
    text = ""
    for row in np.asarray(array, np.float64).reshape(-1, width):
        cells = ("kNan" if np.isnan(x) else np.format_float_positional(
            np.float32(x), unique=True, trim="0") + "f" for x in row)
        text += "    " + ", ".join(cells) + ",\n"
    return text


def array_of(name, array, width):
    return f"constexpr float {name}[] = {{\n{rows(array, width)}}};\n"


def write_or_check(path, text, arguments):
    """Writes `text`; with --check compares its numbers with those of the file. Returns the exit
    code: 77 if other versions of the packages, in the second line, have written the file."""
    if arguments != ["--check"]:
        path.write_text(text)
        return 0
    old = path.read_text()
    if text.splitlines()[1] != old.splitlines()[1]:
        print("skipped: other versions:", text.splitlines()[1], "recorded:", old.splitlines()[1])
        return 77
    number = re.compile(r"-?\d+\.\d+(?=f)|kNan")
    new, recorded = number.findall(text), number.findall(old)
    same = len(new) == len(recorded) and all(
        a == b or abs(float(a) - float(b)) < 1e-6 for a, b in zip(new, recorded))
    print("as recorded" if same else "not as recorded")
    return 0 if same else 1
