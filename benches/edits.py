"""Prints the seconds from an edit to tests that are ready to run, for one file of each kind.

A comment is appended to each file, the tests of its crate are built, and the comment is removed. The first round is a warm-up; the
second is printed.

    python3 benches/edits.py
"""

import pathlib
import subprocess
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
EDITS = [
    ("a rule of the domain", "crates/domain/src/triage.rs", ["-p", "staffai-domain", "--lib"]),
    ("an actor", "crates/actors/src/journal.rs", ["-p", "staffai-actors", "--lib"]),
    ("the playground's page", "crates/playground/src/page.rs", ["-p", "staffai-playground", "--lib"]),
    ("a tool", "crates/tools/src/roll_dice.rs", ["-p", "staffai-tools", "--lib"]),
    ("a route of the web", "crates/web/src/api/usage.rs", ["-p", "staffai-web", "--lib"]),
    ("the start of the program", "src/app/assemble.rs", ["-p", "staffai", "--lib"]),
]


def build(arguments: list[str]) -> float:
    """Returns the seconds of building these tests."""
    begun = time.monotonic()
    subprocess.run(["cargo", "test", "--quiet", "--all-features", "--no-run", *arguments], cwd=ROOT, check=True, stderr=subprocess.DEVNULL)
    return time.monotonic() - begun


def main() -> None:
    """Prints the table."""
    print("| an edit of | seconds to tests that are ready |\n|---|---|")
    for name, file, arguments in EDITS:
        path = ROOT / file
        text = path.read_text()
        build(arguments)
        try:
            path.write_text(text + "// edited\n")
            seconds = build(arguments)
        finally:
            path.write_text(text)
        print(f"| {name} (`{file}`) | {seconds:.1f} |", flush=True)


if __name__ == "__main__":
    main()
