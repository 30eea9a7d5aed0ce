"""Checks that every link and anchor in the Markdown files of the tree that leads into the tree leads somewhere.

So must every mention of a page in other files: `docs/….md`, or `docs/….md, "Heading"`.
"""

import re
import subprocess
import sys
from pathlib import Path
from urllib.parse import unquote

FENCE = re.compile(r"^ {0,3}(```|~~~).*?^ {0,3}\1\s*$", re.MULTILINE | re.DOTALL)
CODE = re.compile(r"`[^`\n]*`")
LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#{1,6} +(.+?) *#*$", re.MULTILINE)
# The READMEs of packages, which are also shown elsewhere, have links with the address of the repository.
HOME = "https://rollplan.dev/rollplan"
REMOTE = re.compile(r"[a-z][a-z0-9+.-]*:")
MENTION = re.compile(r"(?<![\w/.])docs/([\w/-]+\.md)(?:,[\s/#*]+\"([^\"]+)\")?")


def anchors(text: str) -> set[str]:
    """The anchors of the headings, as GitHub and GitLab name them."""
    found: set[str] = set()
    for heading in HEADING.findall(FENCE.sub("", text)):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "")
        name = re.sub(r"[^\w\- ]", "", plain.lower()).replace(" ", "-")
        number = sum(1 for it in found if it == name or re.fullmatch(re.escape(name) + r"-\d+", it))
        found.add(f"{name}-{number}" if number else name)
    return found


def broken(file: Path) -> list[str]:
    links = LINK.findall(CODE.sub("", FENCE.sub("", file.read_text())))
    problems = []
    for link in links:
        path, _, anchor = unquote(link).partition("#")
        if path.startswith(HOME):
            target = Path(path.removeprefix(HOME).strip("/"))
        elif REMOTE.match(link):
            continue
        else:
            target = file.parent / path if path else file
        if not target.exists():
            problems.append(f"{file}: {link}: no such file")
        elif anchor and target.suffix == ".md" and anchor not in anchors(target.read_text()):
            problems.append(f"{file}: {link}: no such heading")
    return problems


def unknown(file: Path) -> list[str]:
    """The mentions of unknown pages and headings."""
    problems = []
    try:
        text = file.read_text()
    except UnicodeDecodeError:
        return []
    for path, heading in MENTION.findall(text):
        page = Path("docs", path)
        if not page.exists():
            problems.append(f"{file}: {page}: no such file")
        elif heading and re.search(rf"^#+ {re.escape(' '.join(heading.split()))}$", page.read_text(), re.MULTILINE) is None:
            problems.append(f"{file}: {page}: no heading {heading!r}")
    return problems


def main() -> int:
    files = subprocess.run(["git", "ls-files", "-z"], check=True, capture_output=True, text=True).stdout
    paths = [path for path in map(Path, files.split("\0")) if path.is_file()]
    problems = [problem for path in paths if path.suffix == ".md" for problem in broken(path)]
    problems += [problem for path in paths for problem in unknown(path)]
    print("\n".join(problems), file=sys.stderr, end="\n" if problems else "")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
