#!/usr/bin/env bash
# Makes the image without a container engine, as an OCI image layout: the root file system of deploy/root.sh as its only layer, with the
# settings of the Dockerfile's last stage. The OCI format has no health check: set `staffai health` in the engine.
#
#   deploy/image.sh BINARY FOLDER      needs Debian's umoci and root; the image has the tag `staffai`
set -euo pipefail
cd "$(dirname "$0")/.."
readonly BINARY=$1 LAYOUT=$2
readonly IMAGE=$LAYOUT:staffai

# Prints the last stage of the Dockerfile, each instruction on one line.
stage() { sed -e ':join' -e '/\\$/ { N; s/\\\n */ /; b join' -e '}' deploy/Dockerfile | awk '/^FROM / { text = "" } { text = text $0 "\n" } END { printf "%s", text }'; }

# Prints the values of an instruction, one per line, without the punctuation of its JSON form.
values() { stage | sed -n "s/^$1 //p" | tr -d '[]",' | tr -s ' ' '\n'; }

options=(--config.user="$(values USER)" --config.workingdir="$(values WORKDIR)" --config.volume="$(values VOLUME)")
options+=(--config.exposedports="$(values EXPOSE)" --config.stopsignal="$(values STOPSIGNAL)")
for value in $(values ENV); do options+=(--config.env="$value"); done
for value in $(values ENTRYPOINT); do options+=(--config.entrypoint="$value"); done
for value in $(values CMD); do options+=(--config.cmd="$value"); done

root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
chmod 0755 "$root"
deploy/root.sh "$BINARY" "$root"
# Makes layers of equal programs equal.
created=@${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
find "$root" -exec touch --no-dereference --date="$created" {} +

rm -rf "$LAYOUT"
umoci init --layout "$LAYOUT"
umoci new --image "$IMAGE"
umoci insert --image "$IMAGE" --history.created="$(date --utc --date="$created" +%FT%TZ)" "$root" /
umoci config --image "$IMAGE" --created="$(date --utc --date="$created" +%FT%TZ)" --no-history \
    --architecture=amd64 --os=linux "${options[@]}"
umoci gc --layout "$LAYOUT"
