"""Runs all tests, then repeats the failed ones, each alone.

The stories use real browsers, databases and servers, so load on the machine can cause timeouts. A test that passes
alone is named in the output and does not fail the run, for at most ALLOWED tests. A test that fails twice fails the run.

Arguments go to `cargo test`.
"""

import os
import re
import subprocess
import sys

ALLOWED = 4
FAILED = re.compile(r"^test (?P<name>\S+) \.\.\. FAILED")
PROGRAMS = re.compile(r"^error: (?P<failed>\d+) targets? failed")
RESULT = re.compile(r"^test result: FAILED\. \d+ passed; (?P<failed>\d+) failed")


def tests(arguments: list[str]) -> tuple[int, list[str]]:
    """Returns the exit code of all tests and the names of the failed ones; none if a program did not run to its end."""
    command = ["cargo", "test", "--no-fail-fast", *arguments]
    # Tests mostly wait for sockets, processes and timers, so each core runs two of them.
    environment = {"RUST_TEST_THREADS": str(2 * (os.cpu_count() or 1)), **os.environ}
    run = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
    count, programs, names = 0, 0, []
    for line in run.stdout:
        print(line, end="", flush=True)
        if test := FAILED.match(line):
            names.append(test["name"])
        elif result := RESULT.match(line):
            count += int(result["failed"])
            programs += 1
        elif ended := PROGRAMS.match(line):
            programs -= int(ended["failed"])
    return run.wait(), names if count == len(names) and programs == 0 else []


def passes(arguments: list[str], name: str) -> bool:
    """Returns True if a test passes alone."""
    command = ["cargo", "test", *arguments, "--", "--exact", name, "--nocapture"]
    run = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", check=False)
    ran = re.findall(r"^test result: ok\. (\d+) passed", run.stdout, re.MULTILINE)
    passed = run.returncode == 0 and any(int(count) > 0 for count in ran)
    if not passed:
        print(run.stdout)
    return passed


def main() -> int:
    """Returns the exit code of the run."""
    arguments = sys.argv[1:]
    code, names = tests(arguments)
    if code == 0:
        return 0
    if not 0 < len(names) <= ALLOWED:
        return code
    for name in names:
        print(f"\n=== {name} failed beside others; once more alone", flush=True)
        if not passes(arguments, name):
            print(f"=== {name} failed twice")
            return code
    print("\n=== passed alone, and failed beside others: " + ", ".join(names))
    return 0


if __name__ == "__main__":
    sys.exit(main())
