#!/usr/bin/env bash
# Makes the files of a release: an archive, a Debian package, an image, a list of components, and their checksums.
#
#   deploy/release.sh [--plain | --program FILE] FOLDER      on Debian 12 with a Rust toolchain, as root or with sudo
#   FEATURES=redis-cluster,redis-sentinel,discord-voice deploy/release.sh FOLDER      with voice channels of Discord
#
# By default, the program is built with profile-guided optimisation (deploy/pgo.sh): two builds and a benchmark. --plain builds it once,
# without a profile. --program uses an existing program.
set -euo pipefail
cd "$(dirname "$0")/.."

usage() { echo "usage: deploy/release.sh [--plain | --program FILE] FOLDER" >&2; exit 64; }
plain='' program=''
case "${1:-}" in
    --plain) plain=yes; shift ;;
    --program) program=$(realpath "${2:?a program}"); shift 2 ;;
esac
[ $# = 1 ] || usage
mkdir -p "$1"
FOLDER=$(realpath "$1")

# By default, features that let REDIS_URL alone select the topology, as in the image.
readonly FOLDER FEATURES=${FEATURES:-redis-cluster,redis-sentinel}
# The newest version of the C library that the program may need: Debian 12.
readonly GLIBC=2.36
readonly CARGO_DEB=3.8.0 CARGO_CYCLONEDX=0.5.9
readonly TOOLS=$PWD/target/tools DOCUMENTS=$PWD/target/documents STAGE=$PWD/target/package

heading() { printf '\n=== %s (%ss)\n' "$1" "$SECONDS"; }
as_root() { if [ "$(id -u)" = 0 ]; then "$@"; else sudo -n "$@"; fi; }

# debian COMMAND PACKAGE: installs a package unless its command exists.
debian() { command -v "$1" >/dev/null || { as_root apt-get update && as_root apt-get install -y --no-install-recommends "$2"; }; }

heading "tools"
debian cc gcc
debian objdump binutils
debian dpkg-shlibdeps dpkg-dev
debian python3 python3
debian umoci umoci
case "$FEATURES" in *discord-voice*)
    debian pkg-config pkg-config
    pkg-config --exists opus || as_root apt-get install -y --no-install-recommends libopus-dev ;;
esac
[ -f /etc/ssl/certs/ca-certificates.crt ] || debian update-ca-certificates ca-certificates
cargo install --quiet --locked --root "$TOOLS" --target-dir "$TOOLS/build" "cargo-deb@$CARGO_DEB" "cargo-cyclonedx@$CARGO_CYCLONEDX"
export PATH="$TOOLS/bin:$PATH"
version=$(cargo pkgid --locked | sed 's/.*[#@]//')
host=$(rustc -vV | sed -n 's/^host: //p')
[ "$host" = x86_64-unknown-linux-gnu ] || { echo "this machine is $host; releases are for x86_64-unknown-linux-gnu" >&2; exit 1; }
# Archives and images of one commit have the same times.
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
export SOURCE_DATE_EPOCH

heading "program"
# The documents are taken from an existing build: that of the tests or of the benchmark.
documents=(--all-features)
if [ -z "$program" ] && [ -n "$plain" ]; then
    cargo build --locked --release --bin staffai --features "$FEATURES"
    program=target/release/staffai
elif [ -z "$program" ]; then
    deploy/pgo.sh --features "$FEATURES"
    program=target/pgo/staffai documents=(--profile bench)
fi
needed=$(objdump -T "$program" | grep -o 'GLIBC_[0-9.]*[0-9]' | sort -Vu | tail -n 1)
[ "$(printf '%s\n' "GLIBC_$GLIBC" "$needed" | sort -V | tail -n 1)" = "GLIBC_$GLIBC" ] ||
    { echo "the program needs $needed, and Debian 12 has $GLIBC: build it there" >&2; exit 1; }
echo "the program has $(stat -c %s "$program") bytes and needs $needed at most"

heading "documents"
rm -rf "$DOCUMENTS" "$STAGE"
cargo run --locked --quiet "${documents[@]}" --example documents -- "$DOCUMENTS"
python3 deploy/licences.py --texts >"$DOCUMENTS/licences.txt"

heading "archive"
name=staffai-$version-x86_64-linux-gnu
install -D -m 0755 "$program" "$STAGE/$name/staffai"
install -m 0644 LICENSE README.md CHANGELOG.md .env.example config/default.toml deploy/staffai.service "$DOCUMENTS/licences.txt" "$STAGE/$name"
install -D -m 0644 -t "$STAGE/$name/man" "$DOCUMENTS"/*.1
install -D -m 0644 -t "$STAGE/$name/completions" "$DOCUMENTS"/{staffai.bash,staffai.fish,_staffai}
tar --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$SOURCE_DATE_EPOCH" -C "$STAGE" -c "$name" | gzip -9n >"$FOLDER/$name.tar.gz"

heading "Debian package"
install -D -m 0755 "$program" "$STAGE/target/release/staffai"
CARGO_TARGET_DIR=$STAGE/target cargo deb --locked --no-build --no-strip --quiet --output "$FOLDER/"

heading "components"
# The tool writes a file into the folder of every crate of the workspace; only that of the program is kept.
readonly LIST=staffai-release.cdx
remove_lists() { find . -path ./target -prune -o -name "$LIST.json" -exec rm {} +; }
trap remove_lists EXIT
cargo cyclonedx --quiet --format json --spec-version 1.5 --target "$host" --features "$FEATURES" --no-build-deps --override-filename "$LIST"
# Removes the path of the build folder.
sed "s#file://$PWD#file:///staffai#g" "$LIST.json" >"$FOLDER/staffai-$version.cdx.json"
remove_lists

heading "image"
as_root env SOURCE_DATE_EPOCH="$SOURCE_DATE_EPOCH" deploy/image.sh "$program" "$STAGE/image"
tar --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$SOURCE_DATE_EPOCH" -C "$STAGE/image" -cf "$FOLDER/staffai-$version-image.tar" .

heading "checksums"
(cd "$FOLDER" && rm -f SHA256SUMS && sha256sum -- * | tee SHA256SUMS)
heading "done"
