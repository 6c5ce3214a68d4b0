#!/usr/bin/env bash
# Makes the root file system of the image in a folder: only the program, its shared libraries and the CA certificates; no shell, no
# package manager, no other user.
#
#   deploy/root.sh BINARY FOLDER      on Debian; as root, so that /data has its owner
set -euo pipefail
readonly BINARY=$1 ROOT=$2 USER_ID=65534

install -D -m 0755 "$BINARY" "$ROOT/usr/local/bin/staffai"
# The libraries keep their paths. glibc resolves host names without further libraries.
ldd "$BINARY" | grep -o '/[^ ]*' | while read -r library; do install -D -m 0755 "$library" "$ROOT$library"; done
install -D -m 0644 /etc/ssl/certs/ca-certificates.crt "$ROOT/etc/ssl/certs/ca-certificates.crt"
install -d -m 0755 "$ROOT/etc/staffai" "$ROOT/proc"
install -d -m 1777 "$ROOT/tmp"
install -d -m 0700 -o "$USER_ID" -g "$USER_ID" "$ROOT/data"
printf 'hosts: files dns\n' >"$ROOT/etc/nsswitch.conf"
printf 'nobody:x:%s:%s:nobody:/data:/nonexistent\n' "$USER_ID" "$USER_ID" >"$ROOT/etc/passwd"
printf 'nogroup:x:%s:\n' "$USER_ID" >"$ROOT/etc/group"
