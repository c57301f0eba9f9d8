#!/usr/bin/env python3
"""Keeps the code of a page (Markdown) true: C++ and C are compiled and run, Python and commands run.

    page_code.py program PAGE cpp|c OUT       write the page's C++ or C as one program
    page_code.py check PAGE cpp|c PROGRAM     run it, compare what it prints with the page
    page_code.py session PAGE RAPT [--write]  run the page's Python and commands, in order

A page's ```cpp blocks, one behind the other, are one program, and so are its ```c blocks; where
none has a main(), lines that begin with # stand at the top and the others in main(). An ```output
block behind code is what it prints; what code prints must be shown.

A session is the ```python and ```console blocks of a page in one empty folder, where `rapt` is
RAPT. Python goes on from block to block. Behind "$ " lines stands what the commands print; what
differs between machines is left out as dev/command_pages.py says. --write writes what was printed
into the page. Exits with 77 where a Python package is missing that the page imports. A block under
the line "<!-- needs VARIABLE at PATH -->" is run where the environment names a folder by VARIABLE,
which stands at PATH of the session; elsewhere it stays as it is, and that is said.
"""
import contextlib
import io
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import command_pages

FENCE = re.compile(r"(?P<needs><!-- needs (?P<variable>\w+) at (?P<place>\S+) -->\n)?"
                   r"(?P<varies><!-- varies -->\n)?```(?P<language>\w+)\n(?P<body>.*?)^```$",
                   re.MULTILINE | re.DOTALL)


def blocks_of(page):
    """(language, body) of the fenced blocks, where output belongs to the language before it."""
    result, language = [], None
    for match in FENCE.finditer(page):
        if match["language"] == "output":
            result.append((f"{language} output", match["body"]))
        else:
            language = match["language"]
            result.append((language, match["body"]))
    return result


def joined(page, language):
    return "".join(body for which, body in blocks_of(page) if which == language)


def program_of(page, language):
    code = joined(page, language)
    if not code or re.search(r"\bmain\(", code):
        return code
    top = [line for line in code.splitlines() if line.startswith("#")]
    inside = ["  " + line for line in code.splitlines() if not line.startswith("#")]
    more = {"cpp": ["#include <cstdio>", "#include <vector>"], "c": ["#include <stdio.h>"]}[language]
    return "\n".join(more + top + ["", "int main() {" if language == "cpp" else "int main(void) {",
                                   *inside, "  return 0;", "}", ""])


def compared(shown, printed, what):
    if shown == printed:
        return 0
    print(f"{what} prints what the page does not show: "
          f"{command_pages.first_difference(shown, printed)}", file=sys.stderr)
    return 1


def check(path, language, program):
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run([program], cwd=folder, text=True, stdout=subprocess.PIPE, check=False)
    if done.returncode != 0:
        print(f"The {language} code of {path} ends with {done.returncode}", file=sys.stderr)
        return 1
    page = path.read_text(encoding="utf-8")
    return compared(joined(page, f"{language} output"), done.stdout, f"{path}: {language} code")


class Session:
    """Runs a page's blocks in order and makes the page that they give."""

    def __init__(self, page, folder, environment, folders):
        self.folder, self.environment, self.folders = folder, environment, folders
        self.names, self.printed, self.language = {"__name__": "__page__"}, "", None
        self.page = FENCE.sub(self.block, page)

    def block(self, match):
        language, body = match["language"], match["body"]
        if match["needs"] and not self.has_needed(match["variable"], match["place"]):
            return match[0]
        new = body
        if language == "python":
            captured = io.StringIO()
            with contextlib.redirect_stdout(captured):
                exec(compile(body, "page", "exec"), self.names)
            self.printed = captured.getvalue()
        elif language == "console":
            new = command_pages.filled(body, self.folder, self.environment)
            if match["varies"] and len(body.splitlines()) > len(command_pages.commands_of(body)):
                new = body
        elif language == "output" and self.language == "python":
            new, self.printed = self.printed, ""
        if language != "output":
            self.language = language
        if command_pages.comparable(new) == command_pages.comparable(body):
            new = body
        return f"{match['needs'] or ''}{match['varies'] or ''}```{language}\n{new}```"

    def has_needed(self, variable, place):
        if variable not in self.folders:
            print(f"a block was left out: {variable} names no folder")
            return False
        target = Path(self.folder) / place
        if not target.exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            target.symlink_to(self.folders[variable])
        return True


def session(path, rapt, write):
    old = path.read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as bin_folder:
        (Path(bin_folder) / "rapt").symlink_to(Path(rapt).resolve())
        environment = {name: value for name, value in os.environ.items()
                       if not name.startswith("RAPT_")}
        folders = {name: Path(value).resolve() for name, value in os.environ.items()
                   if name.startswith("RAPT_MODEL_")}
        environment.update(PATH=f"{bin_folder}:{environment['PATH']}", NO_COLOR="1")
        os.environ.clear()
        os.environ.update(environment)
        os.chdir(folder)
        try:
            new = Session(old, folder, environment, folders).page
        except ModuleNotFoundError as missing:
            print(f"{path.name} was not tried: {missing}")
            return 77
        except command_pages.Failed as failure:
            print(f"{path}: {failure}", file=sys.stderr)
            return 1
        finally:
            os.chdir("/")
    if write:
        path.write_text(new, encoding="utf-8")
        return 0
    return compared(old, new, str(path))


def main(arguments):
    if len(arguments) in (3, 4) and arguments[0] == "session":
        return session(Path(arguments[1]).resolve(), arguments[2], arguments[3:] == ["--write"])
    if len(arguments) == 4 and arguments[0] in ("program", "check"):
        path = Path(arguments[1]).resolve()
        if arguments[0] == "check":
            return check(path, arguments[2], arguments[3])
        page = path.read_text(encoding="utf-8")
        Path(arguments[3]).write_text(program_of(page, arguments[2]), encoding="utf-8")
        return 0
    print(__doc__, file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
