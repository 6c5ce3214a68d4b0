#!/usr/bin/env python3
"""Prints docs/licences.md: the licence of every crate that a release is built of, and of the fonts that it carries.

    deploy/licences.py > docs/licences.md
    deploy/licences.py --texts > licences.txt      the texts that a release must include, each with its crates

`cargo test --test tidy licences` fails while the file is not what this prints, and when a licence is not among those of deny.toml.
"""

import json
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

# Folders of a crate that no build uses.
NOT_BUILT = {"tests", "test", "examples", "benches"}

# The beginnings of the names of files with the text of a licence.
TEXTS = ("LICENSE", "LICENCE", "COPYING", "COPYRIGHT", "NOTICE", "UNLICENSE", "OFL")

HEAD = """# Licences

Made by `deploy/licences.py > docs/licences.md`; a test keeps it current. staffai itself is under the MIT licence.

## Fonts

A release with the feature `latex` contains the fonts of KaTeX, for formulas.

| fonts | from | licence |
|---|---|---|
"""

CRATES = """
## Crates

The crates in a release for Linux with all features. If a crate offers several licences, any one that `deny.toml` accepts applies.

| crate | licence |
|---|---|
"""


def metadata():
    command = ["cargo", "metadata", "--format-version", "1", "--locked", "--all-features"]
    command += ["--filter-platform", "x86_64-unknown-linux-gnu"]
    return json.loads(subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE).stdout)


def released(meta):
    """The ids of all packages that are reached without dependencies for tests."""
    nodes = {node["id"]: node for node in meta["resolve"]["nodes"]}
    wanted, seen = [meta["resolve"]["root"]], set()
    while wanted:
        one = wanted.pop()
        if one in seen:
            continue
        seen.add(one)
        for dependency in nodes[one]["deps"]:
            if any(kind["kind"] != "dev" for kind in dependency["dep_kinds"]):
                wanted.append(dependency["pkg"])
    return seen - {meta["resolve"]["root"]}


def accepted(expression, allowed):
    """True if an SPDX expression can be met by these licences: of OR one side, of AND both."""
    words = expression.replace("/", " OR ").replace("(", " ( ").replace(")", " ) ").split()

    def either():
        met = both()
        while words and words[0] == "OR":
            words.pop(0)
            met = both() or met
        return met

    def both():
        met = one()
        while words and words[0] == "AND":
            words.pop(0)
            met = one() and met
        return met

    def one():
        word = words.pop(0)
        if word == "(":
            met = either()
            words.pop(0)
            return met
        if words and words[0] == "WITH":
            words.pop(0)
            word = f"{word} WITH {words.pop(0)}"
        return word in allowed

    return either()


def texts(packages):
    """Prints each distinct text of a licence or notice, below the names of the crates that have it."""
    named, without = {}, []
    for package in packages:
        folder = Path(package["manifest_path"]).parent
        files = [file for file in sorted(folder.rglob("*")) if file.is_file() and file.name.upper().startswith(TEXTS)]
        files = [file for file in files if not NOT_BUILT & set(file.relative_to(folder).parts) and file.suffix != ".rs"]
        for file in files:
            text = file.read_text(errors="replace").replace("\r\n", "\n").strip()
            named.setdefault(text, set()).add(f"{package['name']} {package['version']}")
        if not files:
            without.append(f"{package['name']} {package['version']}: {package['license']}")
    print("The crates that staffai is built of, with the texts of their licences.")
    for text, names in sorted(named.items(), key=lambda row: sorted(row[1])):
        print("\n" + "=" * 80 + "\n" + ", ".join(sorted(names)) + "\n" + "-" * 80 + "\n\n" + text)
    print("\n" + "=" * 80 + "\nThese crates contain no text; their licences:\n\n" + "\n".join(sorted(without)))


def main():
    meta = metadata()
    ids = released(meta)
    if sys.argv[1:] == ["--texts"]:
        texts([package for package in meta["packages"] if package["id"] in ids and package["source"] is not None])
        return 0
    rules = tomllib.loads((ROOT / "deny.toml").read_text())["licenses"]
    allowed = set(rules["allow"])
    exceptions = {rule["crate"]: set(rule["allow"]) for rule in rules.get("exceptions", [])}
    rows, fonts, wrong = set(), set(), []
    for package in meta["packages"]:
        # Members of the workspace are ours.
        if package["id"] not in ids or package["source"] is None:
            continue
        name, licence = package["name"], package["license"]
        if not licence or not accepted(licence, allowed | exceptions.get(name, set())):
            wrong.append(f"{name}: {licence or 'names no licence'} is not met by the licences of deny.toml")
        rows.add((name, licence or "none"))
        folder = Path(package["manifest_path"]).parent
        for font in folder.rglob("*.[to]tf"):
            if NOT_BUILT & set(font.relative_to(folder).parts):
                continue
            # The licence lies beside the fonts.
            ofl = any("SIL OPEN FONT LICENSE" in file.read_text() for file in font.parent.glob("OFL*"))
            fonts.add((font.stem.split("-")[0], name, "SIL Open Font License 1.1" if ofl else "none"))
            if not ofl:
                wrong.append(f"{font.name} of {name}: no licence of fonts lies beside it")
    text = HEAD
    for family, crate, licence in sorted(fonts):
        text += f"| {family} | `{crate}` | {licence} |\n"
    text += CRATES
    for name, licence in sorted(rows):
        text += f"| {name} | {licence} |\n"
    sys.stdout.write(text)
    for line in wrong:
        print(line, file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
