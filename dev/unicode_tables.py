"""Tables of code points as C++ arrays, which the scripts record_*.py write into src/text."""
import pathlib
import sys

import tokenizers

CODES = [code for code in range(0x110000) if not 0xD800 <= code < 0xE000]
HANGUL = range(0xAC00, 0xD7A4)  # syllables, which decompose by a formula


def ranges(codes):
    """[first, last] of neighbours."""
    return [[first, last] for first, last, _ in valued_ranges(dict.fromkeys(codes))]


def valued_ranges(valued):
    """[first, last, value] of neighbours with the same value."""
    found = []
    for code, value in sorted(valued.items()):
        if found and found[-1][1] == code - 1 and found[-1][2] == value:
            found[-1][1] = code
        else:
            found.append([code, code, value])
    return found


def table(kind, name, items):
    """An array of items of a type, as many on a line as fit."""
    yield f"constexpr {kind} {name}[] = {{"
    line = "   "
    for item in items:
        if len(line) + len(item) + 2 > 100:
            yield line
            line = "   "
        line += f" {item},"
    yield line
    yield "};"


def range_table(kind, name, codes):
    """An array of {first, last}."""
    return table(kind, name, [f"{{0x{a:x}, 0x{b:x}}}" for a, b in ranges(codes)])


def valued_range_table(kind, name, valued):
    """An array of {first, last, value}."""
    return table(kind, name, [f"{{0x{a:x}, 0x{b:x}, {value}}}" for a, b, value in valued_ranges(valued)])


def sequence_table(kind, name, sequences):
    """An array of {code, {code, ...}}, of a dictionary from code points to texts."""
    return table(kind, name, [f"{{0x{code:x}, {{{', '.join(f'0x{ord(c):x}' for c in to)}}}}}"
                              for code, to in sequences.items()])


def write_tables(folder, tables):
    """Writes files of a folder of src/text: {name: lines of tables}. With --check, only says whether they are
    the same, by the exit code, too."""
    head = f"// Written by dev/{pathlib.Path(sys.argv[0]).name} from tokenizers {tokenizers.__version__}; do not edit."
    text = pathlib.Path(__file__).resolve().parent.parent / "src/text"
    files = {text / folder / name: "\n".join([head, *lines]) + "\n" for name, lines in tables.items()}
    if sys.argv[1:] != ["--check"]:
        for file, content in files.items():
            file.write_text(content)
        return
    differing = [file.name for file, content in files.items() if file.read_text() != content]
    print(f"{', '.join(differing)}: differ from the package" if differing else
          "The tables are those of the package.")
    sys.exit(1 if differing else 0)
