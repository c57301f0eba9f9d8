#!/usr/bin/env python3
"""Checks that rooms, files and functions stay small enough to be read at once.

    dev/check_sizes.py                 check this repository
    dev/check_sizes.py --self-test     measure functions of known lengths

Limits: 25 files in a folder, 500 lines in a file, 60 lines in a function (from its first line to its
closing brace). Public headers, examples and pages of variants may be more than 25, and so may data that tests
and fuzz targets read.
Functions of tests are not measured: a test that lists cases is read case by case.

Prints one line per violation and exits with 1 if there is any.
"""
import collections
import re
import subprocess
import sys
from pathlib import Path

MOST_FILES, MOST_LINES, MOST_FUNCTION_LINES = 25, 500, 60

# Folders of public headers, of examples and of pages of variants, which are read one by one, and of
# data.
CROWDED = re.compile(r"include/rapt(/.*)?|examples|fuzz/corpus/.*|tests/.*/(data|golden)|docs/variants(/pictures)?")
SOURCE = re.compile(r".*\.(h|hpp|c|cpp|py|sh|cmake)")
MEASURED = re.compile(r"(src|include|cli|check|timing|conformance|bench|examples|fuzz)/.*\.(h|c|cpp)")
# What opens a block at the start of a line and is no function.
NO_FUNCTION = re.compile(r"(namespace|struct|class|union|enum|extern|if|else|for|while|do|switch|case|"
                         r"default|try|catch|return|public|private|protected|#|//|\})\b|^[#}]")


def functions(text):
    """(first line, name, lines) of the function definitions of a formatted file: a function begins
    at the indentation at which its closing brace stands."""
    lines = text.split("\n")
    starts = {}  # indentation: line at which the last statement with it began
    ended = True  # has the line before ended a statement, or opened a block?
    for number, line in enumerate(lines):
        stripped = line.lstrip(" ")
        if not stripped:
            continue
        indent = len(line) - len(stripped)
        if stripped == "}" and indent in starts:
            first = starts[indent]
            head = " ".join(l.strip() for l in lines[first:number])
            opened = head.split("{")[0]
            if "(" in opened and "=" not in opened.split("(")[0] and not NO_FUNCTION.match(
                    re.sub(r"^template <.*?> (?=\w)", "", opened.strip())):
                name = opened.split("(")[0].split()
                yield first + 1, name[-1] if name else "?", number - first + 1
        if ended:
            starts[indent] = number
        code = stripped.split("  //")[0].rstrip()
        ended = code.startswith(("//", "#")) or code.endswith(("{", "}", ";", ":"))
        for deeper in [i for i in starts if i > indent]:
            del starts[deeper]


def tracked(root):
    listed = subprocess.run(["git", "ls-files", "--cached", "--others", "--exclude-standard"],
                            cwd=root, capture_output=True, text=True, check=True).stdout.split("\n")
    return sorted(name for name in set(listed) if name and (root / name).is_file())


def violations(root):
    names = tracked(root)
    folders = collections.Counter(str(Path(name).parent) for name in names)
    for folder, count in sorted(folders.items()):
        if count > MOST_FILES and not CROWDED.fullmatch(folder):
            yield f"{folder}: {count} files; expected at most {MOST_FILES}, cut it into rooms"
    for name in names:
        if not SOURCE.fullmatch(name):
            continue
        text = (root / name).read_text(encoding="utf-8")
        count = text.count("\n")
        if count > MOST_LINES:
            yield f"{name}: {count} lines; expected at most {MOST_LINES}, one idea per file"
        if not MEASURED.fullmatch(name):
            continue
        for first, function, length in functions(text):
            if length > MOST_FUNCTION_LINES:
                yield (f"{name}:{first}: {function}() has {length} lines; expected at most "
                       f"{MOST_FUNCTION_LINES}")


PLANTED = """namespace rapt {
}  // namespace
struct A {
  int kept(int a,
           int b) const {
    if (a) {
      return b;
    }
    return a;
  }
};
template <class E>
void long_one(const E& e) {
%s}
constexpr int kTable[] = {
    1,
};
}  // namespace rapt
""" % "".join("  call(e);\n" for _ in range(70))


def self_test():
    found = [(name, length) for _, name, length in functions(PLANTED)]
    expected = [("kept", 7), ("long_one", 73)]
    if found != expected:
        print(f"self-test: found {found}, expected {expected}")
        return 1
    print("self-test: functions are measured rightly")
    return 0


def main(arguments):
    if arguments == ["--self-test"]:
        return self_test()
    if arguments:
        print(__doc__, file=sys.stderr)
        return 2
    found = list(violations(Path(__file__).resolve().parent.parent))
    print("\n".join(found) if found else "Rooms, files and functions are small enough.")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
