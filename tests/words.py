"""Counts the words of the documentation, page by page, without tables that programs write: python3 tests/words.py [COMMIT].

A program writes what is between `<!-- NAME: written by COMMAND -->` and `<!-- NAME ends -->`. In a page of an earlier commit, a
table counts as written, too, if its header and the start of its first row are those of such a table. `--check` fails if a page
exceeds its mark.
"""

import re
import subprocess
import sys
from pathlib import Path

WRITTEN = re.compile(r"^<!-- ([a-z ]+): written by .*? -->\n(.*?)^<!-- \1 ends -->\n", re.MULTILINE | re.DOTALL)
TABLE = re.compile(r"^(\|.*\|)\n\|[ :|-]+\|\n(\|[^|\n]*\|)?.*\n?(?:\|.*\n)*", re.MULTILINE)
# The most words of a page, or of each page of a folder.
MARKS = {
    "docs/guides": 1200,
    "docs/reference/adapters.md": 1200,
    "docs/reference/api.md": 2200,
    "docs/reference/verdict.md": 2500,
    "docs/reference/kubernetes.md": 300,
    "docs/reference/cost.md": 400,
    "docs/contributors/architecture.md": 2500,
}
# The most lines of the section of an unreleased version.
UNRELEASED_MAX = 40


def git(*args: str) -> str:
    return subprocess.run(["git", *args], check=True, capture_output=True, text=True).stdout


def is_page(file: str) -> bool:
    return file.endswith(".md") and file != "docs/SUMMARY.md"


def pages(commit: str | None) -> dict[str, str]:
    """The texts of the pages, in the working tree or in a commit."""
    if commit:
        files = git("ls-tree", "-r", "--name-only", commit, "docs", "README.md").split()
        return {file: git("show", f"{commit}:{file}") for file in files if is_page(file)}
    files = git("ls-files", "docs", "README.md").split()
    return {file: Path(file).read_text() for file in files if is_page(file) and Path(file).exists()}


def words(text: str, written: set[tuple[str, str]]) -> int:
    text = WRITTEN.sub("", text)
    text = TABLE.sub(lambda table: "" if (table[1], table[2]) in written else table[0], text)
    return len(text.split())


def main() -> int:
    args = sys.argv[1:]
    is_check = "--check" in args
    commit = next((arg for arg in args if arg != "--check"), None)
    parts = [part[2] for text in pages(None).values() for part in WRITTEN.finditer(text)]
    written = {(table[1], table[2]) for part in parts for table in TABLE.finditer(part)} if commit else set()
    total, problems = 0, []
    for page, text in sorted(pages(commit).items()):
        count = words(text, written)
        total += count
        if not is_check:
            print(f"{count:7,} {page}")
        mark = MARKS.get(page, MARKS.get(page.rpartition("/")[0]))
        if mark and count > mark:
            problems.append(f"{page} has {count} words, at most {mark} are allowed")
    if not is_check:
        print(f"{total:7,} in all")
        return 0
    section = Path("CHANGELOG.md").read_text().partition("\n## Unreleased\n")[2].partition("\n## ")[0]
    lines = len(section.strip().splitlines())
    if lines > UNRELEASED_MAX:
        problems.append(f"the unreleased section of CHANGELOG.md has {lines} lines, at most {UNRELEASED_MAX} are allowed")
    print("\n".join(problems), file=sys.stderr, end="\n" if problems else "")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
