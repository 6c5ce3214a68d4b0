"""Builds all tests, runs the test programs side by side, then repeats the failed tests, each alone.

Most tests wait for sockets, processes and timers, so several programs with several tests each share the cores. The
stories use real browsers, databases and servers, so load on the machine can cause timeouts. A test that passes alone
is named in the output and does not fail the run, for at most ALLOWED tests. A test that fails twice fails the run.

Arguments go to `cargo test`. `--built FILE` in front of them reads the messages of a build with these arguments, which
was made with `--message-format=json`.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

ALLOWED = 4
CORES = os.cpu_count() or 1
# The programs that take longest, in the order of their start.
FIRST = ["page", "bot", "mcp", "lives"]
# Tests at the same time in a program. Most of them wait; browsers compute.
THREADS = {"page": CORES}
FAILED = re.compile(r"^test (?P<name>\S+) \.\.\. FAILED", re.MULTILINE)
RESULT = re.compile(r"^test result: FAILED\. \d+ passed; (?P<failed>\d+) failed", re.MULTILINE)


class Program(NamedTuple):
    """A test program: its name, its file and the folder in which it runs."""

    name: str
    file: str
    folder: Path


class Run(NamedTuple):
    """The end of a program: whether it passed, and the tests that failed; none if it did not run to its end."""

    program: Program
    passed: bool
    failed: list[str]


def messages(arguments: list[str]) -> str | None:
    """Returns the messages of a build; None if a test program could not be built."""
    command = ["cargo", "test", "--no-run", "--message-format=json-render-diagnostics", *arguments]
    run = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    return run.stdout if run.returncode == 0 else None


def built(told_by_build: str) -> list[Program]:
    """Returns the test programs of a build."""
    programs = []
    for line in told_by_build.splitlines():
        told = json.loads(line)
        if told.get("reason") != "compiler-artifact" or not told.get("executable") or not told["profile"]["test"]:
            continue
        folder = Path(told["manifest_path"]).parent
        programs.append(Program(told["target"]["name"], told["executable"], folder))
    order = {name: place for place, name in enumerate(FIRST)}
    return sorted(programs, key=lambda program: order.get(program.name, len(FIRST)))


class Ended(NamedTuple):
    """The end of a process: its exit code, its output, and the CPU time of it and of the children that it awaited."""

    code: int
    output: str
    cpu: float


def run(program: Program, *arguments: str) -> Ended:
    """Runs a test program as `cargo test` would: in the folder of its package."""
    environment = {"RUST_TEST_THREADS": str(THREADS.get(program.name, CORES + 1)), **os.environ, "CARGO_MANIFEST_DIR": str(program.folder)}
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(
            [program.file, *arguments], cwd=program.folder, env=environment, stdout=output, stderr=subprocess.STDOUT,
        )
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        output.seek(0)
        text = output.read().decode(errors="replace")
    return Ended(process.returncode, text, used.ru_utime + used.ru_stime)


def whole(program: Program) -> Run:
    """Runs all tests of a program and prints their output."""
    began = time.monotonic()
    ended = run(program)
    took = time.monotonic() - began
    print(f"--- {program.name}, {took:.0f} s, {ended.cpu:.0f} s of CPU\n{ended.output}", end="", flush=True)
    names = FAILED.findall(ended.output)
    told = RESULT.search(ended.output)
    complete = told is not None and int(told["failed"]) == len(names)
    return Run(program, ended.code == 0, names if complete else [])


def passes(program: Program, name: str) -> bool:
    """Returns True if a test passes alone."""
    ended = run(program, "--exact", name, "--nocapture")
    passed = ended.code == 0 and re.search(r"^test result: ok\. 1 passed", ended.output, re.MULTILINE) is not None
    if not passed:
        print(ended.output)
    return passed


def repeated(runs: list[Run]) -> int:
    """Repeats the failed tests, each alone, and returns the exit code of the run."""
    tests = [(run.program, name) for run in runs for name in run.failed]
    for broken in (run for run in runs if not run.failed):
        print(f"\n=== {broken.program.name} did not run to its end")
        return 101
    if len(tests) > ALLOWED:
        print(f"\n=== {len(tests)} tests failed: " + ", ".join(name for _, name in tests))
        return 101
    for program, name in tests:
        print(f"\n=== {name} failed beside others; once more alone", flush=True)
        if not passes(program, name):
            print(f"=== {name} failed twice")
            return 101
    print("\n=== passed alone, and failed beside others: " + ", ".join(name for _, name in tests))
    return 0


def main() -> int:
    """Returns the exit code of the run."""
    arguments = sys.argv[1:]
    if arguments[:1] == ["--built"]:
        told_by_build = Path(arguments[1]).read_text()
        arguments = arguments[2:]
    else:
        told_by_build = messages(arguments)
    if told_by_build is None:
        return 101
    programs = built(told_by_build)
    print(f"{len(programs)} test programs are built", flush=True)
    with ThreadPoolExecutor(CORES) as pool:
        runs = list(pool.map(whole, programs))
    failed = [run for run in runs if not run.passed]
    return repeated(failed) if failed else 0


if __name__ == "__main__":
    sys.exit(main())
