#!/usr/bin/env bash
# A release build whose hot paths the compiler knows (profile-guided optimisation): builds a program that counts its own paths,
# lets it work through the benchmark, and builds the release by those counts.
#
#   deploy/pgo.sh [CARGO ARGUMENTS]      e.g. --features redis-cluster,redis-sentinel; takes two release builds and some minutes
#
# The program is target/pgo/staffai; `cargo bench --bench turns -- --program target/pgo/staffai` measures it.
set -euo pipefail
cd "$(dirname "$0")/.."

readonly WORK="$PWD/target/pgo" SCENES=m1,m2,m3,m4,m11
# One unit of code with the whole program in view.
readonly PROFILE=(CARGO_PROFILE_RELEASE_LTO=fat CARGO_PROFILE_RELEASE_CODEGEN_UNITS=1)
# Packed relocations save a twentieth of the file and want glibc 2.36 or later, there as well where the program runs; functions that
# came out the same are kept once. Calls that are rarely made are left calls.
readonly LINKING="-Clink-arg=-Wl,-z,pack-relative-relocs -Clink-arg=-Wl,--icf=safe -Cllvm-args=-inlinecold-threshold=5"
host=$(rustc -vV | sed -n 's/^host: //p')
profdata="$(rustc --print sysroot)/lib/rustlib/$host/bin/llvm-profdata"
[ -x "$profdata" ] || rustup component add llvm-tools

# Named, the target keeps what runs during the build itself, such as build scripts, apart from what is counted.
build() { env "${PROFILE[@]}" cargo build --locked --release --bin staffai --target "$host" --target-dir "$WORK/$1" "${@:2}"; }
built() { echo "$WORK/$1/$host/release/staffai"; }

rm -rf "$WORK/counts"
RUSTFLAGS="$LINKING -Cprofile-generate=$WORK/counts" build counting "$@"
# A counting program is slow, and what the benchmark holds against it is no reason to end here: its paths are counted all the same.
count() {
    cargo bench --locked --bench turns -- --quick --only "$2" --program "$(built counting)" || [ -n "$(ls "$WORK/counts" 2>/dev/null)" ]
    "$profdata" merge -o "$WORK/$1.profdata" "$WORK/counts"
}
count start m6
count all "$SCENES"

# Functions that a start needs stand first in the file, then all others that ran, the busiest before the rest: a page of code that is
# read into memory has little beside what is needed.
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
