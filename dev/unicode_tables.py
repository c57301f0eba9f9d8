"""Tables of code points as C++ arrays, which the scripts record_*.py write into src/text."""


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
