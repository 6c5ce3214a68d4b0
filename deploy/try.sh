#!/usr/bin/env bash
# Tests the image without a container engine: makes its root file system and runs the program in it as the image's user, read-only,
# without capabilities, in separate namespaces; then tests health check, conversation and drain.
#
#   deploy/try.sh [BINARY | LAYOUT]      needs root, Debian and python3; takes half a minute. Default: target/release/staffai
#
# LAYOUT is the folder that deploy/image.sh makes. It is unpacked by umoci, and the program gets the environment, the user, the working
# directory and the arguments that the image names.
#
# Exits with 0 if all tests pass, 1 if one fails, 77 if this machine cannot run them.
set -euo pipefail
cd "$(dirname "$0")/.."

readonly USER_ID=65534 BINARY="${1:-target/release/staffai}"

cannot() { echo "skipped: $*" >&2; exit 77; }
wrong() { echo "wrong: $*" >&2; [ -f "${log:-}" ] && tail -n 20 "$log" >&2; exit 1; }
well() { echo "ok: $*"; }

[ "$(id -u)" = 0 ] || cannot "namespaces and a root file system need root"
for tool in unshare nsenter python3; do command -v "$tool" >/dev/null || cannot "$tool is missing"; done
unshare --mount --pid --net --ipc --uts --fork true 2>/dev/null || cannot "the system allows no namespaces"
[ -x "$BINARY" ] || cannot "$BINARY is missing; build it or name another one"

work=$(mktemp -d); chmod 0755 "$work"
inner=
finish() {
    [ -z "$inner" ] || kill -KILL "$inner" 2>/dev/null || true
    wait 2>/dev/null || true
    rm -rf --one-file-system "$work"
}
trap finish EXIT

# The settings of the Dockerfile; an image layout has its own.
settings=(PATH=/usr/local/bin STAFFAI_DATA_DIR=/data STAFFAI_HTTP_ADDR=0.0.0.0:8420 LOG_FORMAT=json)
if [ -f "$BINARY/oci-layout" ]; then
    command -v umoci >/dev/null || cannot "umoci is missing"
    umoci unpack --image "$BINARY:staffai" "$work/bundle" >/dev/null || wrong "the layout cannot be unpacked"
    mv "$work/bundle/rootfs" "$work/root"
    mapfile -t settings < <(python3 - "$work/bundle/config.json" "$USER_ID" <<'SETTINGS'
import json, sys
process = json.load(open(sys.argv[1]))["process"]
assert process["user"]["uid"] == process["user"]["gid"] == int(sys.argv[2]), process["user"]
assert process["args"] == ["staffai", "run"] and process["cwd"] == "/etc/staffai", process
names = [value for value in process["env"] if value.split("=")[0] not in ("HOME", "TERM")]
print("\n".join(names))
SETTINGS
    )
    [ "${#settings[@]}" = 4 ] || wrong "the image names other settings: ${settings[*]}"
    well "image layout: user, arguments, working directory, ${settings[*]}"
else
    deploy/root.sh "$BINARY" "$work/root" || cannot "no root file system could be made"
fi
install -d -m 0700 -o "$USER_ID" -g "$USER_ID" "$work/data"
well "root file system, $(du -sh "$work/root" | cut -f1), $(find "$work/root" -type f | wc -l) files"

# The image has no shell and no tools, so rights are dropped on the way in: as.py ROOT USER NAME=VALUE... COMMAND...
cat >"$work/as.py" <<'AS'
import ctypes, os, sys
root, user, rest = sys.argv[1], int(sys.argv[2]), sys.argv[3:]
split = next(at for at, word in enumerate(rest) if "=" not in word)
values, command = dict(word.split("=", 1) for word in rest[:split]), rest[split:]
libc = ctypes.CDLL(None)
os.chroot(root)
os.chdir("/etc/staffai")
for capability in range(64):
    libc.prctl(24, capability, 0, 0, 0)  # PR_CAPBSET_DROP
os.setgroups([])
os.setgid(user)
os.setuid(user)
assert libc.prctl(38, 1, 0, 0, 0) == 0  # PR_SET_NO_NEW_PRIVS
if command[0] == "touch":
    os.close(os.open(command[1], os.O_WRONLY | os.O_CREAT))
else:
    os.execve("/usr/local/bin/" + command[0], command, values)
AS

# As a container engine does: everything is read-only except /data and /tmp, and no privileges can be gained.
cat >"$work/enter" <<'INNER'
set -euo pipefail
work=$1; user=$2; shift 2
mount --bind "$work/root" "$work/root"
mount --bind "$work/data" "$work/root/data"
mount -t tmpfs -o size=64m,mode=1777 tmpfs "$work/root/tmp"
mount -t proc -o nosuid,nodev,noexec proc "$work/root/proc"
mount -o remount,bind,ro "$work/root"
ip link set lo up 2>/dev/null || python3 -c 'import fcntl, socket, struct
s = socket.socket(); fcntl.ioctl(s, 0x8914, struct.pack("16sh", b"lo", 0x41))'
ulimit -c 0
exec python3 "$work/as.py" "$work/root" "$user" "$@"
INNER

# start COMMAND [NAME=VALUE...]: the program as the image starts it; its log goes to $log.
start() {
    local command=$1; shift
    log=$work/$command.log
    unshare --mount --pid --net --ipc --uts --fork --kill-child bash "$work/enter" "$work" "$USER_ID" "${settings[@]}" "$@" staffai "$command" >"$log" 2>"$log.err" &
    inner=$!
    # The program is the child of unshare.
    for _ in $(seq 100); do program=$(pgrep -P "$inner" || true); [ -n "$program" ] && break; sleep 0.1; done
    [ -n "$program" ] || wrong "$command did not start: $(cat "$log.err")"
}

# within COMMAND...: runs it in the namespaces, root and user of the program.
within() { nsenter --target "$program" --mount --pid --net --ipc --uts python3 "$work/as.py" "$work/root" "$USER_ID" \
    PATH=/usr/local/bin STAFFAI_HTTP_ADDR=0.0.0.0:8420 "$@"; }

healthy() {
    for _ in $(seq 150); do within staffai health >/dev/null 2>&1 && return; sleep 0.2; done
    wrong "never healthy: $(within staffai health 2>&1 || true); $(cat "$log.err")"
}

# drained [LOG]: the program stops after SIGTERM, within 30 s.
drained() {
    local begun=$SECONDS code=0 events=${1:-$log}
    kill -TERM "$program"
    wait "$inner" || code=$?
    inner=
    [ "$code" = 0 ] || wrong "SIGTERM ended in $code: $(cat "$log.err")"
    [ $((SECONDS - begun)) -le 30 ] || wrong "the end took $((SECONDS - begun)) s"
    grep -q '"event":"drain.finished"' "$events" || wrong "no drain.finished in the log"
}

[ "$(chroot "$work/root" /usr/local/bin/staffai --version)" = "staffai $(cargo pkgid --locked | sed 's/.*[#@]//')" ] || wrong "another version"
set -- DISCORD_BOT_TOKEN=MTIz.bm8.dG9rZW4 LITELLM_MODEL=none
python3 "$work/as.py" "$work/root" "$USER_ID" "${settings[@]}" "$@" staffai check --offline >"$work/check" 2>&1 ||
    wrong "check --offline: $(cat "$work/check")"
well "check: the configuration is right"

start run DISCORD_BOT_TOKEN=token LITELLM_MODEL=none DISCORD_API_URL=http://127.0.0.1:1
healthy
well "run: healthy while Discord cannot be reached"
status=/proc/$program/status
[ "$(awk '/^Uid:/ {print $2}' "$status")" = "$USER_ID" ] || wrong "it runs as another user"
[ "$(awk '/^CapEff:|^CapBnd:/ {print $2}' "$status" | sort -u)" = 0000000000000000 ] || wrong "it has capabilities"
[ "$(awk '/^NoNewPrivs:/ {print $2}' "$status")" = 1 ] || wrong "it may gain rights"
grep -q '^Max core file size *0 ' "/proc/$program/limits" || wrong "it may dump its memory"
if within touch /etc/staffai/x 2>/dev/null; then wrong "the root file system can be written to"; fi
[ "$(stat -c %a "$work/data")" = 700 ] || wrong "others may read the data directory"
well "run: user $USER_ID, no capabilities, read-only root, no memory dumps"
drained
well "run: SIGTERM ends it in order"

start playground
healthy
nsenter --target "$program" --net python3 deploy/talk.py || wrong "no answer in the playground"
well "playground: a member is answered"
drained "$work/data/playground/playground.log"
well "playground: SIGTERM ends it in order"
