#!/usr/bin/env python3
"""What Doxygen reads instead of a header or a page: doxygen_filter.py FILE (docs/Doxyfile).

Headers keep plain comments and pages plain Markdown; here they get Doxygen's marks. A header:
  the comment at its top, and comments that stand alone, describe the file; that at the top also the
  class after which the file is named, if no other comment does;
  a comment above a declaration describes it and, outside of classes, what follows without a blank
  line; a comment behind a member, and its continuation lines, describe that member;
  lines of a comment that are indented by two or more (formulas, tables) keep their shape;
  members without a comment get the sentence that docs/api_words.txt has for their name, constructors
  and conversions a fixed one;
  functions that the compiler writes (= default, = delete) are left out if nothing is said of them.
A page: headings get names, links to pages, headings and headers become references, links to other
files of the repository become their names.
"""
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
COMMENT = re.compile(r"^( *)// ?(.*)$")
TRAILING = re.compile(r"^(.*?\S)( +)// (.*)$")
BY_COMPILER = re.compile(r"^ *(?:explicit )?[\w:~]+(?:& operator=)?\([^;]*\)[^;]*= (?:default|delete);$")
SEVERAL = re.compile(r"^( +)((?:static constexpr )?[\w:]+) (\w+(?: = \w+)?(?:, \w+(?: = \w+)?)+);$")
OPENING = re.compile(r"^(?:(?:typedef )?(?:struct|class|enum) .*\{|enum .*\};)$")
CLASS = re.compile(r"^(?:struct|class) (\w+)(?: final)?(?: : [^;]*)?(?: \{|$)")
ITEM = re.compile(r"^ *(?:[-*]|\d+\.) ")
LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^)\s]+)\)")


def escaped(text):
    """Plain text for Doxygen, but for `code`: no HTML, no command, no emphasis."""
    parts = text.split("`")
    for i in range(0, len(parts), 1 if len(parts) % 2 == 0 else 2):
        parts[i] = re.sub(r"[\\@#%*~|]", lambda mark: "\\" + mark[0], parts[i].replace(
            "&", "&amp;").replace("<", "&lt;").replace(">", "&gt;"))
    return "`".join(parts)


def described(lines, indent=""):
    """The lines of a comment as a Doxygen comment."""
    result, verbatim, item = [], False, False
    for number, line in enumerate(lines):
        shaped = line.startswith("  ") and not item
        if not line:  # a blank line does not end a formula that goes on after it
            rest = [later for later in lines[number + 1:] if later]
            shaped = verbatim and bool(rest) and rest[0].startswith("  ")
            item = False
        if shaped != verbatim:
            result.append("@code{.unparsed}" if shaped else "@endcode")
            verbatim = shaped
        if not shaped:
            item = bool(ITEM.match(line)) or (item and line.startswith("  "))
        result.append(line if shaped else escaped(line) if not ITEM.match(line)
                      else ITEM.match(line)[0] + escaped(line[ITEM.match(line).end():]))
    if verbatim:
        result.append("@endcode")
    return [f"{indent}/// {line}".rstrip() for line in result]


def words():
    lines = (ROOT / "docs" / "api_words.txt").read_text(encoding="utf-8").splitlines()
    return dict(line.split(": ", 1) for line in lines if line and not line.startswith("#"))


def said_of(declaration, owner, known):
    """A sentence for a member that has no comment, or None."""
    declaration = re.sub(r"^(template <.*?>|typedef|using|enum class|virtual|static|inline|constexpr"
                         r"|explicit|const|\[\[.*?\]\]) +", "", declaration.strip())
    found = None
    if alias := re.match(r"(\w+) = ", declaration):
        found = alias[1]
    elif enum := re.match(r"(\w+)(?: : \w+)? \{", declaration):
        found = enum[1]
    elif value := re.match(r"[^(]*?(\w+)(?:\[\w*\])? = (?!default|delete|0)", declaration):
        found = value[1]
    elif function := re.search(r"(operator[^(]*(?:\(\))?|\(\*\w+\)|\w+)\(", declaration):
        found = function[1].strip("(*)")
    elif member := re.search(r"(\w+)(?:\[\w*\])?(?: = .*| : \w+ .*|\{.*)?;", declaration):
        found = member[1]
    if not found:
        return None
    if found == owner:
        return ("A copy, or what was moved." if "other)" in declaration
                else "Made of what its arguments say; the comment of the class has the terms.")
    if found.startswith("operator"):
        return {"operator=": "A copy, or what was moved.", "operator==": "Are they the same?",
                "operator[]": "The one at this place."}.get(found, "The same, as what calls take.")
    return known.get(f"{owner}::{found}", known.get(found))


def separate(code, comment):
    """A member to a line, each with the comment that stands behind them."""
    several = SEVERAL.match(code)
    if not several:
        return [f"{code}  ///< {comment}"]
    return [f"{several[1]}{several[2]} {one};  ///< {comment}" for one in several[3].split(", ")]


def header(text, stem):
    known, owner = words(), None
    class_of_file = stem.replace("_", "")
    top_comment = []
    lines = [line for line in text.splitlines() if not BY_COMPILER.match(line)]
    result, last, column, complete = [], [], -1, True
    number = 0
    while number < len(lines):
        line = lines[number]
        comment = COMMENT.match(line)
        if comment and len(comment[1]) == column:  # goes on behind a member
            result.append(" " * column + "///< " + escaped(comment[2]))
            number += 1
            continue
        column = -1
        if comment:
            block = []
            while number < len(lines) and (more := COMMENT.match(lines[number])) \
                    and more[1] == comment[1]:
                block.append(more[2])
                number += 1
            top = number >= len(lines) or not lines[number].strip() or \
                lines[number].startswith(("#include", "namespace"))
            if top:
                result += ["/// @file"] + described(block)
                top_comment = top_comment or described(block)
                last = []
            else:
                last = described(block, comment[1])
                result += last
            complete = False
            continue
        trailing = TRAILING.match(line)
        if not line.strip() or line.startswith(("}", " ", "#")):
            if not line.strip():
                last = []
        elif complete and last and not trailing and not line.startswith(("{", "extern", "template")):
            result += last  # one comment for several declarations
        if line.startswith(("};", "} rapt")):
            owner = None
        if opened := re.match(r"(?:typedef )?(?:struct|class) (\w+)[^;]*$",
                              trailing[1] if trailing else line):
            owner = opened[1]
        begins = owner and re.match(r"  [^ }/#:]", line) or not owner and \
            re.match(r"(?:\[\[.*?\]\] )?(using|enum|inline|[A-Z]\w+ open_)", line)
        if complete and begins and not trailing and \
                not re.match(r" *///(?!<)", result[-1]):
            whole = line
            for later in lines[number + 1:number + 4]:
                if re.search(r"[;{]$", whole):
                    break
                whole += " " + later.strip()
            sentence = said_of(whole, owner, known)
            if sentence and (several := SEVERAL.match(line)):
                for one in several[3].split(", "):
                    said = said_of(f"{several[2]} {one};", owner, known)
                    result += [f"  /// {escaped(said or '')}", f"  {several[2]} {one};"]
                number += 1
                continue
            if sentence:
                result.append(f"{' ' * (len(line) - len(line.lstrip()))}/// {escaped(sentence)}")
        named = CLASS.match(line)
        if named and named[1].lower() == class_of_file and not last:
            result += top_comment
        complete = line.rstrip().endswith((";", "}", "{", ":", "*/")) or not line.strip() or bool(trailing)
        if trailing and trailing[1].count('"') % 2 == 0:
            if OPENING.match(trailing[1]):
                result += [f"/// {escaped(trailing[3])}", trailing[1]]
            else:
                column = len(trailing[1] + trailing[2])
                result += separate(trailing[1], escaped(trailing[3]))
        else:
            result.append(line)
        number += 1
    if stem == "rapt":  # the header of all
        for name in known:
            if name.startswith("namespace "):
                result += [f"/// @{name}", f"/// {known[name]}"]
    return "\n".join(result) + "\n"


def name_of(page):
    """The name of a page in references."""
    relative = page.relative_to(ROOT)
    if str(relative) == "README.md":
        return "index"
    return "page_" + re.sub(r"\W", "_", str(relative.with_suffix("")))


def slug_of(heading):
    """GitHub's anchor of a heading."""
    return re.sub(r" ", "-", re.sub(r"[^\w\- ]", "", heading.strip().lower()))


def titled(text):
    """As lists of pages can show it: no code, and -- as it is."""
    return text.replace("`", "").replace("--", "\\--")


def code_as_it_is(code):
    """Code that Doxygen would misread: ' ends it, \\| shows its backslash, file: becomes a link."""
    text = code[1]
    if "'" not in text and "\\|" not in text and "file:" not in text:
        return code[0]
    text = re.sub(r"[\\@#%*~]", lambda mark: "\\" + mark[0], text.replace("\\|", "\0"))
    text = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return "<code>" + text.replace("--", "\\--").replace("file:", "file<b></b>:").replace(
        "\0", "\\|") + "</code>"


def linked(match, page):
    picture, text, target = match.groups()
    if re.match(r"[a-z]+:", target):
        return match[0]
    file, _, anchor = target.partition("#")
    path = (page.parent / file).resolve() if file else page
    if picture:
        return f"![{text}]({path.name})"
    if path.suffix == ".md" and (path.parent == ROOT or ROOT / "docs" in path.parents) \
            and path.name != "CHANGELOG.md":
        name = name_of(path) + (f"_{anchor}" if anchor else "")
        if anchor and path == ROOT / "README.md":
            name = f"mainpage_{anchor}"
        docs = ROOT / "docs"
        contents = (page == docs / "index.md" and path.name != "README.md") or \
            (page == docs / "variants" / "index.md" and path.parent == page.parent)
        if contents and not anchor:
            return f'@subpage {name} "{titled(text)}"'
        return f"[{text}](@ref {name})"
    if path.suffix == ".h":
        return f"[{text}](@ref {path.relative_to(ROOT / 'include')})"
    try:
        shown = path.relative_to(ROOT)
    except ValueError:
        return text
    return text if str(shown) in text or path.name in text else f"{text} (`{shown}`)"


def markdown(text, page):
    result, fence, names = [], False, {}
    for line in text.splitlines():
        if line.startswith("```"):
            fence = not fence
            if fence and line[3:] not in ("cpp", "c", "python"):
                line = "```{.unparsed}"
        elif not fence:
            heading = re.match(r"(#+) (.*)$", line)
            if heading:
                name = "mainpage" if page == ROOT / "README.md" else name_of(page)
                if heading[1] != "#":
                    name += "_" + slug_of(heading[2])
                    names[name] = names.get(name, 0) + 1  # as GitHub counts equal headings
                    name += f"-{names[name] - 1}" if names[name] > 1 else ""
                plain = titled(line) if heading[1] == "#" else line
                line = f"{plain} {{#{name}}}"
            line = re.sub(r"`([^`]*)`", code_as_it_is, line)
            line = LINK.sub(lambda match: linked(match, page), line)
        result.append(line)
    return "\n".join(result) + "\n"


def main(arguments):
    if len(arguments) != 1:
        print(__doc__, file=sys.stderr)
        return 2
    path = Path(arguments[0]).resolve()
    text = path.read_text(encoding="utf-8")
    sys.stdout.reconfigure(encoding="utf-8")
    print(markdown(text, path) if path.suffix == ".md" else header(text, path.stem), end="")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
