"""The site of the documentation: a preprocessor of mdBook (docs/book.toml), and with `check DIRECTORY` a test of what it built.

Links that lead out of docs lead to the repository. docs/parts.md, the first page, has a section of the README. The test: every page is in docs/SUMMARY.md, and every link, anchor and picture
of the site leads somewhere.
"""

import json
import posixpath
import re
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

ROOT = Path(__file__).parents[2]
HOME = "https://rollplan.dev/rollplan"
LINK = re.compile(r"(\]\()([^)\s]+)(\))")


def absolute(link: str, page: str) -> str:
    """A link of a page below docs, with the address of the repository if it leads out of docs."""
    if urlsplit(link).scheme or link.startswith("#"):
        return link
    path = posixpath.normpath(posixpath.join("docs", posixpath.dirname(page), link.partition("#")[0]))
    # Folders and files that mdBook does not copy are in the repository only.
    if path.startswith("docs/") and (ROOT / path).is_file():
        return link
    return f"{HOME}/{path}" + (f"#{link.partition('#')[2]}" if "#" in link else "")


def section_of_readme() -> str:
    """The section that helps to find a page, with links from docs."""
    heading = "## Which part do I need?\n"
    _, _, rest = (ROOT / "README.md").read_text().partition(heading)
    section = heading[1:] + rest.partition("\n[docs/SUMMARY.md]")[0]
    return LINK.sub(lambda it: f"{it[1]}{posixpath.relpath(it[2], 'docs')}{it[3]}", section)


def rewrite(items: list[Any]) -> None:
    for item in items:
        chapter = item.get("Chapter") if isinstance(item, dict) else None
        if not chapter:
            continue
        page = chapter["path"] or ""
        if page == "parts.md":
            chapter["content"] = section_of_readme()
        chapter["content"] = LINK.sub(lambda it: f"{it[1]}{absolute(it[2], page)}{it[3]}", chapter["content"])
        rewrite(chapter["sub_items"])


class Page(HTMLParser):
    """The links and anchors of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.anchors: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if value and name == "id":
                self.anchors.add(value)
            if value and ((tag == "a" and name == "href") or (tag == "img" and name == "src")):
                self.links.append(value)


def check(site: Path) -> list[str]:
    pages = {path: Page(path.read_text()) for path in site.rglob("*.html")}
    problems = []
    for path, page in pages.items():
        # It has the anchors of all pages, and no links of its own.
        if path.name in ("print.html", "404.html", "toc.html"):
            continue
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path.resolve()
            if target.is_dir():
                target /= "index.html"
            if not target.exists():
                problems.append(f"{path}: {link}: no such file")
            elif parts.fragment and unquote(parts.fragment) not in pages.get(target, Page("")).anchors:
                problems.append(f"{path}: {link}: no such heading")
    summary = (ROOT / "docs/SUMMARY.md").read_text()
    for file in sorted((ROOT / "docs").rglob("*.md")):
        name = file.relative_to(ROOT / "docs").as_posix()
        if name != "SUMMARY.md" and f"]({name})" not in summary:
            problems.append(f"docs/SUMMARY.md does not have {name}")
    return problems


def main() -> int:
    match sys.argv[1:]:
        case ["supports", _]:
            return 0
        case ["check", site]:
            problems = check(Path(site).resolve())
            print("\n".join(problems), file=sys.stderr, end="\n" if problems else "")
            return 1 if problems else 0
    _, book = json.load(sys.stdin)
    rewrite(book.get("items") or book["sections"])
    json.dump(book, sys.stdout)
    return 0


if __name__ == "__main__":
    sys.exit(main())
