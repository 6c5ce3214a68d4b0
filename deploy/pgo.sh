#!/usr/bin/env bash
# Release build with profile-guided optimisation: builds an instrumented program, runs the benchmark with it, and builds the release
# with the resulting profile.
#
#   deploy/pgo.sh [CARGO ARGUMENTS]      e.g. --features redis-cluster,redis-sentinel; takes two release builds and some minutes
#
# The program is target/pgo/staffai; `cargo bench --bench turns -- --program target/pgo/staffai` measures it.
set -euo pipefail
cd "$(dirname "$0")/.."

readonly WORK="$PWD/target/pgo" SCENES=m1,m2,m3,m4,m11
# One codegen unit, optimised across all crates.
readonly PROFILE=(CARGO_PROFILE_RELEASE_LTO=fat CARGO_PROFILE_RELEASE_CODEGEN_UNITS=1)
# Packed relocations save 5 % of the file and require glibc 2.36 or later at run time. Identical functions are merged. Cold calls are
# not inlined.
readonly LINKING="-Clink-arg=-Wl,-z,pack-relative-relocs -Clink-arg=-Wl,--icf=safe -Cllvm-args=-inlinecold-threshold=5"
host=$(rustc -vV | sed -n 's/^host: //p')
profdata="$(rustc --print sysroot)/lib/rustlib/$host/bin/llvm-profdata"
[ -x "$profdata" ] || rustup component add llvm-tools

# With an explicit target, build scripts are not instrumented.
build() { env "${PROFILE[@]}" cargo build --locked --release --bin staffai --target "$host" --target-dir "$WORK/$1" "${@:2}"; }
built() { echo "$WORK/$1/$host/release/staffai"; }

rm -rf "$WORK/counts"
RUSTFLAGS="$LINKING -Cprofile-generate=$WORK/counts" build counting "$@"
# An instrumented program is slow and may miss the goals of the benchmark; its profile is valid nevertheless.
count() {
    cargo bench --locked --bench turns -- --quick --only "$2" --program "$(built counting)" || [ -n "$(ls "$WORK/counts" 2>/dev/null)" ]
    "$profdata" merge -o "$WORK/$1.profdata" "$WORK/counts"
}
count start m6
count all "$SCENES"

# Orders the functions: those needed at start, then all others that ran, the most frequent first. Fewer pages of code are then read
# into memory.
ran() {
    "$profdata" show --all-functions --counts "$WORK/$1.profdata" | awk '
        /^  [^ ].*:$/ { name = substr($0, 3, length($0) - 3); sub(/^[^;]*;/, "", name) }
        /Block counts:/ { most = 0; gsub(/.*\[|[],]/, ""); for (i = 1; i <= NF; i++) if ($i > most) most = $i; if (most) print most, name }
    ' | sort -rn | cut -d" " -f2-
}
{ ran start; ran all; } | awk '!known[$0]++' >"$WORK/order"
ORDERING="-Clink-arg=-Wl,--symbol-ordering-file=$WORK/order -Clink-arg=-Wl,--no-warn-symbol-ordering"
RUSTFLAGS="$LINKING $ORDERING -Cprofile-use=$WORK/all.profdata" build optimised "$@"
cp "$(built optimised)" "$WORK/staffai"
ls -l "$WORK/staffai"
