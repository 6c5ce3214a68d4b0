"""Runs the targets of the fuzzer with libFuzzer, guided by coverage, and prints one line for each.

`python3 tests/fuzz.py SECONDS [TARGET...]`: each target, or those named, for so long. A target is a test with a call of
`bolero::check!`. It fails if an input causes a panic, takes over 10 s, or needs over 1 GiB; the input is then kept in
`__fuzz__/.../crashes` beside the target, where `cargo test` reads it from then on. New inputs that reach new code stay
below `target/fuzz/corpus`; those kept in the repository are in `__fuzz__/.../corpus`.
"""

import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
TOOLS = ROOT / "target" / "fuzz-tools"
VERSION = "0.13.5"
# The longest input, in bytes; the most memory, in MiB; the longest time for one input, in seconds.
LENGTH, MEMORY, TIMEOUT = 16_384, 1_024, 10
TARGET = re.compile(r"#\[test\]\s+fn (?P<name>\w+)\(\) \{\s+bolero::check!")
DONE = re.compile(r"^stat::number_of_executed_units: (\d+)", re.MULTILINE)
PEAK = re.compile(r"^stat::peak_rss_mb: +(\d+)", re.MULTILINE)
COVERED = re.compile(r"cov: (\d+) ft: (\d+) corp: (\d+)")


class Target(NamedTuple):
    """A test that the fuzzer can run: its package, its path in the crate and its file."""

    package: str
    path: str
    file: Path

    @property
    def name(self) -> str:
        """Returns the last part of its path."""
        return self.path.rsplit("::", 1)[-1]


def targets() -> list[Target]:
    """Returns the targets of all crates."""
    found = []
    for file in sorted((ROOT / "crates").glob("*/src/**/*.rs")):
        text = file.read_text()
        if "bolero::check!" not in text:
            continue
        crate, _, *inner = file.relative_to(ROOT / "crates").parts
        modules = [*inner[:-1], Path(inner[-1]).stem]
        if "mod tests {" in text:
            modules.append("tests")
        found += [Target(f"staffai-{crate}", "::".join([*modules, name]), file) for name in TARGET.findall(text)]
    return found


def tool() -> str:
    """Returns the program that builds and runs targets; installs it if it is missing."""
    program = TOOLS / "bin" / "cargo-bolero"
    if not program.exists():
        command = ["cargo", "install", "--quiet", "--locked", "--version", VERSION, "--root", str(TOOLS), "cargo-bolero"]
        subprocess.run(command, check=True)
    return str(program)


def fuzz(target: Target, seconds: int) -> tuple[bool, list[str]]:
    """Runs a target. Returns True if no input broke it, and its figures."""
    kept = target.file.parent / "__fuzz__" / target.path.replace("::", "__") / "corpus"
    found = ROOT / "target" / "fuzz" / "corpus" / target.package / target.name
    for folder in (kept, found):
        folder.mkdir(parents=True, exist_ok=True)
    limits = [f"-max_len={LENGTH}", f"-rss_limit_mb={MEMORY}", f"-timeout={TIMEOUT}", "-print_final_stats=1"]
    command = [tool(), "bolero", "test", target.path, "--package", target.package, "--all-features"]
    command += ["--engine", "libfuzzer", "--sanitizer", "NONE", "--rustc-bootstrap", "-T", f"{seconds}s"]
    command += ["--target-dir", str(ROOT / "target")]
    command += ["--corpus-dir", str(found), "--engine-args", " ".join([str(kept), *limits])]
    run = subprocess.run(
        command, cwd=ROOT / "crates" / target.package.removeprefix("staffai-"), stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True, errors="replace", check=False,
    )
    said = run.stdout
    done, peak, covered = DONE.search(said), PEAK.search(said), COVERED.findall(said)
    passed = run.returncode == 0 and done is not None
    if not passed:
        print(said[-6_000:])
    figures = [done[1] if done else "-", *(covered[-1][1:] if covered else ["-", "-"]), peak[1] if peak else "-"]
    return passed, figures


def main() -> int:
    """Returns the exit code of the run."""
    if len(sys.argv) < 2 or not sys.argv[1].isdigit():
        print(__doc__)
        return 2
    seconds, names = int(sys.argv[1]), sys.argv[2:]
    chosen = [target for target in targets() if not names or target.name in names]
    if unknown := set(names) - {target.name for target in chosen}:
        print("no such target: " + ", ".join(sorted(unknown)))
        return 2
    print(f"{'target':<28}{'runs':>12}{'features':>10}{'corpus':>8}{'MiB':>6}", flush=True)
    broken = []
    for target in chosen:
        passed, figures = fuzz(target, seconds)
        runs, features, corpus, peak = figures
        print(f"{target.name:<28}{runs:>12}{features:>10}{corpus:>8}{peak:>6}{'' if passed else '  BROKEN'}", flush=True)
        if not passed:
            broken.append(target.name)
    print("no input broke a target" if not broken else "broken: " + ", ".join(broken))
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
