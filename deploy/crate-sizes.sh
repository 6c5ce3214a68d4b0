#!/usr/bin/env bash
# Prints the bytes of each crate's functions in the program, the largest first. A generic function counts for the crate that defines
# it; inlined code counts for the caller.
#
#   cargo bench --bench turns --no-run && deploy/crate-sizes.sh [PROGRAM WITH SYMBOLS]
set -euo pipefail
cd "$(dirname "$0")/.."
program=${1:-target/release/staffai}

functions=$(nm --print-size --demangle=rust "$program" | awk '$3 ~ /^[tTwW]$/')
[ -n "$functions" ] || { echo "$program has no symbols: 'cargo bench --bench turns --no-run' makes one that has" >&2; exit 1; }
awk '
    {
        name = substr($0, index($0, $4))
        gsub(/^[<&*(\[]+|^(mut|dyn|const) /, "", name)
        crate = match(name, /^[a-z_][a-z0-9_]*(::|<)/) ? substr(name, RSTART, RLENGTH) : "C, assembly and others"
        sub(/(::|<)$/, "", crate)
        bytes = 0
        for (at = 1; at <= length($2); at++) bytes = bytes * 16 + index("0123456789abcdef", substr($2, at, 1)) - 1
        sizes[crate] += bytes
        all += bytes
    }
    END {
        printf "%8.0f KiB of functions\n", all / 1024
        for (crate in sizes) if (sizes[crate] > 64 * 1024) printf "%8.0f KiB %s\n", sizes[crate] / 1024, crate | "sort -rn"
    }
' <<<"$functions"
