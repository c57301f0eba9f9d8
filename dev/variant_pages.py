#!/usr/bin/env python3
"""Keeps docs/variants/NAME.md, a page per score, normaliser, change of rows or products, true.

    dev/variant_pages.py RAPT            run the commands of every page, write what they printed and
                                         the pictures that they drew
    dev/variant_pages.py --check RAPT    only compare; exits with 1 if a page or picture is not current

RAPT is the built program. Pages are written by hand, but for what stands below the "$ " lines of
their ```console blocks (dev/command_pages.py). The commands of a page draw its pictures, NAME.svg
or NAME_*.svg, which lie in docs/variants/pictures. A variant that `rapt list` has and that has no page gets one
to be completed; docs/variants/index.md must have a link to each. A mask is drawn in letters, by
`rapt mask`, and may do without a page.
"""
import json
import sys
import tempfile
from pathlib import Path

import command_pages
from command_pages import Failed, first_difference

PAGES = Path(__file__).resolve().parent.parent / "docs" / "variants"
# What `rapt list` calls them, and the option of `rapt attend` that takes one.
KINDS = {"scores": "--score {0}", "normalizers": "--normalizer {0}", "row-changes": "--{0}",
         "products": '--{0} "..."'}
# Each begins a paragraph of every page.
PARTS = ("**When.**", "**Source.**", "**Cost.**")

SKELETON = """# {name}

{doc}.

**When.**

```console
$ rapt attend --text "the dog saw the other dog run" --scale 2 {option} --heatmap {name}.svg
```

| softmax | {name} |
|---|---|
| ![Weights of softmax](pictures/softmax.svg) | ![Weights with {name}](pictures/{name}.svg) |

**Source.** {source}.

**Cost.**
"""


def variants(environment):
    """Name: its page as it begins; None for a mask, which has no picture."""
    listed = json.loads(
        command_pages.ran(f"rapt list masks {' '.join(KINDS)} --json", None, environment))
    pages = {mask["name"]: None for mask in listed["masks"]
             if (PAGES / f"{mask['name']}.md").exists()}
    for kind, option in KINDS.items():
        for variant in listed[kind]:
            name, doc = variant["name"], variant["doc"]
            pages[name] = SKELETON.format(name=name, doc=doc[0].upper() + doc[1:],
                                          source=variant["source"], option=option.format(name))
    return pages


def missing_parts(page):
    paragraphs = [paragraph.strip() for paragraph in page.split("\n\n")]
    for part in PARTS:
        if not any(p.startswith(part) and len(p) > len(part) for p in paragraphs):
            yield f"a paragraph that begins with {part}"


def refreshed(name, page, has_picture, environment):
    """The files of a variant as they are now: path below docs/variants: text."""
    with tempfile.TemporaryDirectory() as folder:
        files = {f"{name}.md": command_pages.refreshed(page, folder, environment)}
        for picture in sorted(Path(folder).glob("*.svg")):
            if picture.stem != name and not picture.stem.startswith(f"{name}_"):
                raise Failed(f"{picture.name}: a picture of this page is called {name}.svg or "
                             f"{name}_*.svg")
            files[f"pictures/{picture.name}"] = picture.read_text(encoding="utf-8")
    if has_picture and f"pictures/{name}.svg" not in files:
        raise Failed(f"no command of this page draws {name}.svg")
    return files


def main(arguments):
    check = arguments[:1] == ["--check"]
    arguments = arguments[check:]
    if len(arguments) != 1:
        print(__doc__, file=sys.stderr)
        return 2
    index = PAGES / "index.md"
    index_text = index.read_text(encoding="utf-8")
    wrong, known = 0, {index.name}
    with command_pages.environment_with(arguments[0]) as environment:
        pages = variants(environment)
        for name, skeleton in pages.items():
            path = PAGES / f"{name}.md"
            page = path.read_text(encoding="utf-8") if path.exists() else skeleton
            lacks = list(missing_parts(page))
            if f"({path.name})" not in index_text:
                lacks.append(f"a link in {index.name}")
            for part in lacks:
                print(f"{path} lacks {part}")
            wrong += len(lacks)
            try:
                files = refreshed(name, page, skeleton is not None, environment)
            except Failed as failure:
                print(f"{path}: {failure}")
                wrong += 1
                continue
            known |= files.keys()
            for file, new in files.items():
                target = PAGES / file
                old = target.read_text(encoding="utf-8") if target.exists() else ""
                if new == old:
                    continue
                if check:
                    print(f"{target} is not current: {first_difference(old, new)}")
                    wrong += 1
                else:
                    target.write_text(new, encoding="utf-8")
                    print(f"written: {target}")
    for path in sorted(PAGES.rglob("*.*")):
        if path.relative_to(PAGES).as_posix() not in known and not wrong:
            print(f"{path}: there is no such variant, and no page draws it")
            wrong += 1
    if check and not wrong:
        print(f"{len(pages)} pages are current.")
    elif check:
        print("Write them anew: dev/variant_pages.py build/release/cli/rapt")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
