#!/usr/bin/env python3
"""Keeps docs/commands/NAME.md, a page per command, true: runs what they show.

    dev/command_pages.py RAPT            run every command of every page, write what it printed
    dev/command_pages.py --check RAPT    only compare; exits with 1 if a page is not current

RAPT is the built program. A page is written by hand, but for what stands below the "$ " lines of
its ```console blocks: that is what the commands print, in order, in one empty folder per page.
A command that fails fails the page. A block under the line "<!-- varies -->" holds what differs
from run to run, such as times: it is run, but not compared and, once it is filled, not replaced;
its commands may end with 1, by which `rapt bench --compare` says that something became slower.
A command without a page gets one with its help.
"""
import contextlib
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

PAGES = Path(__file__).resolve().parent.parent / "docs" / "commands"
BLOCK = re.compile(r"(?P<varies><!-- varies -->\n)?```console\n(?P<body>.*?)^```$",
                   re.MULTILINE | re.DOTALL)
# What depends on the machine and the commit and says nothing about the page.
ANYWHERE = [(re.compile(r"\b(amx_emulated|amx|avx512|avx2|scalar)\b"), "ISA"),
            (re.compile(r"\(commit [^)]*\)"), "(commit)")]

SKELETON = """# rapt {word}

{help}

## Options

```console
$ rapt {word} --help
```
"""


class Failed(Exception):
    pass


def commands_of(body):
    """The commands of a block; one that ends in a backslash goes on in the next line."""
    commands, goes_on = [], False
    for line in body.splitlines():
        if goes_on:
            commands[-1] += "\n" + line
        elif line.startswith("$ "):
            commands.append(line[2:])
        else:
            continue
        goes_on = line.endswith("\\")
    return commands


def ran(command, folder, environment, expected=(0,)):
    done = subprocess.run(["bash", "-c", command], cwd=folder, env=environment, text=True,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, check=False)
    if done.returncode not in expected:
        raise Failed(f"'{command}' ends with {done.returncode}:\n{done.stdout}")
    return done.stdout


def filled(body, folder, environment, varies=False):
    """The block with what its commands print."""
    text = ""
    for command in commands_of(body):
        output = ran(command, folder, environment, (0, 1) if varies else (0,))
        output = "".join(line.rstrip() + "\n" for line in output.splitlines())
        text += f"$ {command}\n{output}"
    return text


def refreshed(page, folder, environment):
    """The page with every block as it is now; its commands run in the folder."""
    def block(match):
        body = match["body"]
        new = filled(body, folder, environment, match["varies"])
        if match["varies"] and len(body.splitlines()) > len(commands_of(body)):
            new = body
        elif comparable(new) == comparable(body):
            new = body  # written on another machine
        return f"{match['varies'] or ''}```console\n{new}```"
    return BLOCK.sub(block, page)


def comparable(text):
    for pattern, replacement in ANYWHERE:
        text = pattern.sub(replacement, text)
    return text


def first_difference(old, new):
    for number, (a, b) in enumerate(zip(old.splitlines() + ["(end)"], new.splitlines() + ["(end)"]),
                                    1):
        if a != b:
            return f"line {number} is\n  {a}\nand would be\n  {b}"
    return "lines are missing at its end"


@contextlib.contextmanager
def environment_with(rapt):
    """An environment in which `rapt` is the program, and nothing else tells it what to do."""
    with tempfile.TemporaryDirectory() as bin_folder:
        (Path(bin_folder) / "rapt").symlink_to(Path(rapt).resolve())
        environment = {name: value for name, value in os.environ.items()
                       if not name.startswith("RAPT_")}
        environment.update(PATH=f"{bin_folder}:{environment['PATH']}", NO_COLOR="1")
        yield environment


def main(arguments):
    check = arguments[:1] == ["--check"]
    arguments = arguments[check:]
    if len(arguments) != 1:
        print(__doc__, file=sys.stderr)
        return 2
    with environment_with(arguments[0]) as environment:
        usage = json.loads(ran("rapt --json-usage", None, environment))
        pages, stale = {}, 0
        for command in usage["commands"]:
            word = command["name"].removeprefix("rapt ")
            pages[f"{word}.md"] = SKELETON.format(word=word, help=command["help"])
        for path in sorted(PAGES.glob("*.md")):
            if path.name not in pages:
                print(f"{path}: there is no such command")
                stale += 1
        for name, skeleton in pages.items():
            path = PAGES / name
            old = path.read_text(encoding="utf-8") if path.exists() else ""
            try:
                with tempfile.TemporaryDirectory() as folder:
                    new = refreshed(old or skeleton, folder, environment)
            except Failed as failure:
                print(f"{path}: {failure}")
                stale += 1
                continue
            if new == old:
                continue
            if check:
                print(f"{path} is not current: {first_difference(old, new)}")
                stale += 1
            else:
                PAGES.mkdir(exist_ok=True)
                path.write_text(new, encoding="utf-8")
                print(f"written: {path}")
    if check and not stale:
        print(f"{len(pages)} pages are current.")
    elif check:
        print("Write them anew: dev/command_pages.py build/release/cli/rapt")
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
