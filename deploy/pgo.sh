#!/usr/bin/env bash
# A release build whose hot paths the compiler knows (profile-guided optimisation): builds a program that counts its own paths,
# lets it work through the benchmark, and builds the release by those counts.
#
#   deploy/pgo.sh [CARGO ARGUMENTS]      e.g. --features redis-cluster,redis-sentinel; takes two release builds and some minutes
#
# The program is target/pgo/staffai; `cargo bench --bench turns -- --program target/pgo/staffai` measures it.
set -euo pipefail
cd "$(dirname "$0")/.."

readonly WORK="$PWD/target/pgo" SCENES=rendering,m1,m2,m3,m4
# Packed relocations save a twentieth of the file and want glibc 2.36 or later, there as well where the program runs; functions that
# came out the same are kept once.
readonly LINKING="-Clink-arg=-Wl,-z,pack-relative-relocs -Clink-arg=-Wl,--icf=safe"
host=$(rustc -vV | sed -n 's/^host: //p')
profdata="$(rustc --print sysroot)/lib/rustlib/$host/bin/llvm-profdata"
[ -x "$profdata" ] || rustup component add llvm-tools

# Named, the target keeps what runs during the build itself, such as build scripts, apart from what is counted.
build() { cargo build --locked --release --bin staffai --target "$host" --target-dir "$WORK/$1" "${@:2}"; }
built() { echo "$WORK/$1/$host/release/staffai"; }

rm -rf "$WORK/counts" "$WORK/merged.profdata"
RUSTFLAGS="$LINKING -Cprofile-generate=$WORK/counts" build counting "$@"
# A counting program is slow, and what the benchmark holds against it is no reason to end here: its paths are counted all the same.
cargo bench --locked --bench turns -- --quick --only "$SCENES" --program "$(built counting)" || [ -n "$(ls "$WORK/counts" 2>/dev/null)" ]
"$profdata" merge -o "$WORK/merged.profdata" "$WORK/counts"
RUSTFLAGS="$LINKING -Cprofile-use=$WORK/merged.profdata" build optimised "$@"
cp "$(built optimised)" "$WORK/staffai"
ls -l "$WORK/staffai"
