#!/usr/bin/env bash
# Installs and runs everything that deploy/release.sh made, in a clean Debian 12 with systemd as its first process: the package is
# installed, started, upgraded, removed and purged; the program of the archive answers a member; deploy/try.sh tests the image.
#
#   deploy/try-release.sh FOLDER      needs root and Debian; takes about two minutes
#
# Exits with 0 if all tests pass, otherwise with 1.
set -euo pipefail
cd "$(dirname "$0")/.."
FOLDER=$(realpath "$1")
readonly FOLDER ARRIVED=/root/arrived

wrong() { echo "wrong: $*" >&2; [ -z "${init:-}" ] || inside journalctl --no-pager -u staffai | tail -n 20 >&2; exit 1; }
well() { echo "ok: $* (${SECONDS}s)"; }
[ "$(id -u)" = 0 ] || wrong "a root file system needs root"
(cd "$FOLDER" && sha256sum --quiet --check SHA256SUMS) || wrong "checksums"

missing=()
for pair in mmdebstrap:mmdebstrap systemd-nspawn:systemd-container umoci:umoci; do
    command -v "${pair%:*}" >/dev/null || missing+=("${pair#*:}")
done
[ ${#missing[@]} = 0 ] || { apt-get update && apt-get install -y --no-install-recommends "${missing[@]}"; } >/dev/null

work=$(mktemp -d)
root=$work/root
machine='' init=''
finish() {
    [ -z "$machine" ] || { kill "$machine" 2>/dev/null; wait "$machine" 2>/dev/null; } || true
    rm -rf --one-file-system "$work"
}
trap finish EXIT
mmdebstrap --quiet --variant=minbase --include=systemd,systemd-sysv,dbus,ca-certificates bookworm "$root"
install -d "$root$ARRIVED"
cp "$FOLDER"/staffai_*.deb "$root$ARRIVED/package.deb"
cp "$FOLDER"/staffai-*.tar.gz "$root$ARRIVED/archive.tar.gz"
well "a clean Debian, $(du -sh "$root" | cut -f1)"

# A root file system without a running systemd, such as that of a container.
systemd-nspawn --quiet --register=no --keep-unit --private-network -D "$root" sh -euc "
    apt-get install -y $ARRIVED/package.deb >/dev/null 2>&1
    staffai --version && staffai tree >/dev/null
    apt-get purge -y staffai >/dev/null 2>&1
    test ! -e /usr/bin/staffai && test ! -e /etc/staffai" >"$work/log" 2>&1 || wrong "without systemd: $(cat "$work/log")"
well "package: installs and purges without systemd"

systemd-nspawn --quiet --register=no --keep-unit --private-network -D "$root" --boot </dev/null >"$work/boot.log" 2>&1 &
machine=$!
# The first process of the machine: number 1 in its own namespace, below this root.
first() {
    local place; place=$(stat -c %d:%i "$root")
    for process in /proc/[0-9]*; do
        grep -qsP '^NSpid:.*\t1$' "$process/status" && [ "$(stat -L -c %d:%i "$process/root" 2>/dev/null)" = "$place" ] && basename "$process" && return
    done
}
for _ in $(seq 100); do init=$(first || true); [ -n "$init" ] && break; sleep 0.1; done
[ -n "$init" ] || { cat "$work/boot.log"; wrong "systemd does not start"; }
inside() {
    nsenter --target "$init" --mount --uts --ipc --net --pid --root --wdns=/ \
        env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin DEBIAN_FRONTEND=noninteractive "$@"
}
for _ in $(seq 100); do state=$(inside systemctl is-system-running 2>/dev/null || true); [[ $state = running || $state = degraded ]] && break; sleep 0.2; done
well "systemd runs: $state"

healthy() {
    for _ in $(seq 150); do inside staffai health >/dev/null 2>&1 && return; sleep 0.2; done
    wrong "$1: never healthy"
}
process() { inside systemctl show --property=MainPID --value staffai; }
# The documented way to run a command with the user and the data of the service.
command_of_service() { inside staffai-service "$@"; }

inside apt-get install -y $ARRIVED/package.deb >"$work/log" 2>&1 || { cat "$work/log"; wrong "the package does not install"; }
[ "$(inside systemctl is-enabled staffai)" = enabled ] || wrong "the unit is not enabled"
inside systemctl is-failed --quiet staffai && wrong "without a token the unit must be skipped, not failed"
verified=$(inside systemd-analyze verify /lib/systemd/system/staffai.service 2>&1) && [ -z "$verified" ] || wrong "the unit: $verified"
for file in bash-completion/completions/staffai zsh/vendor-completions/_staffai fish/vendor_completions.d/staffai.fish \
    man/man1/staffai.1.gz man/man1/staffai-run.1.gz doc/staffai/copyright doc/staffai/licences.txt; do
    # minbase leaves no documentation out.
    inside test -e "/usr/share/$file" || inside test -e "/usr/share/$file.gz" || wrong "/usr/share/$file is missing"
done
[ "$(inside stat -c '%a %U' /etc/staffai/staffai.env)" = "600 root" ] || wrong "others may read the settings"
well "package: installed, enabled, and skipped without a token"

inside sh -euc 'printf token | install -m 0600 /dev/stdin /etc/staffai/discord_bot_token
    printf "%s\n" LITELLM_MODEL=none DISCORD_API_URL=http://127.0.0.1:1 >>/etc/staffai/staffai.env
    systemctl start staffai'
healthy start
status=$(inside cat "/proc/$(process)/status")
[ "$(awk '/^Uid:/ {print $2}' <<<"$status")" -gt 60000 ] || wrong "it runs as another user"
[ "$(awk '/^CapEff:|^CapBnd:/ {print $2}' <<<"$status" | sort -u)" = 0000000000000000 ] || wrong "it has capabilities"
inside systemctl reload staffai
healthy reload
command_of_service check --offline >"$work/log" 2>&1 || wrong "check: $(cat "$work/log")"
command_of_service backup - 2>"$work/log" >"$work/copy" || wrong "backup: $(cat "$work/log")"
tail -n 1 "$work/copy" | grep -q '"sha256"' || wrong "the backup has no end"
command_of_service key add tester >/dev/null 2>"$work/log" || wrong "key add: $(cat "$work/log")"
well "service: healthy as a dynamic user without capabilities and without a model key"

before=$(process)
inside apt-get install -y --reinstall $ARRIVED/package.deb >"$work/log" 2>&1 || { cat "$work/log"; wrong "the package does not upgrade"; }
healthy upgrade
[ "$(process)" != "$before" ] || wrong "the upgrade did not restart the service"
inside journalctl -u staffai -o cat | grep -q '"event":"drain.finished"' || wrong "the upgrade did not drain the service"
inside grep -q LITELLM_MODEL=none /etc/staffai/staffai.env || wrong "the upgrade replaced the settings"
command_of_service key list | grep -q ^tester || wrong "the upgrade lost data"
well "package: upgraded; the service drained, restarted, and kept settings and data"

inside apt-get remove -y staffai >"$work/log" 2>&1 || { cat "$work/log"; wrong "the package is not removed"; }
inside systemctl is-active --quiet staffai && wrong "the service still runs"
inside test -e /usr/bin/staffai && wrong "the program is still there"
inside test -s /etc/staffai/staffai.env || wrong "removing took the settings"
inside apt-get install -y $ARRIVED/package.deb >"$work/log" 2>&1 || { cat "$work/log"; wrong "the package does not install again"; }
healthy "installed again"
command_of_service key list | grep -q ^tester || wrong "removing took the data"
well "package: removed and installed again, with its settings and data"

inside apt-get purge -y staffai >"$work/log" 2>&1 || { cat "$work/log"; wrong "the package is not purged"; }
left=$(inside find / -xdev -path "$ARRIVED" -prune -o -path /var/log -prune -o -iname '*staffai*' -print)
[ -z "$left" ] || wrong "purging left: $left"
[ "$(inside systemctl list-units --all --plain --no-legend 'staffai*')" = "" ] || wrong "purging left the unit"
well "package: purged without a trace"

inside sh -euc "mkdir /opt/staffai && tar -xzf $ARRIVED/archive.tar.gz --strip-components=1 -C /opt/staffai"
inside /opt/staffai/staffai --version >/dev/null || wrong "the program of the archive does not run"
inside systemd-run --quiet --collect --unit=playground -p DynamicUser=yes -p StateDirectory=playground \
    -p WorkingDirectory=/var/lib/playground /opt/staffai/staffai playground
for _ in $(seq 150); do inside /opt/staffai/staffai health >/dev/null 2>&1 && break; sleep 0.2; done
nsenter --target "$init" --net python3 deploy/talk.py || wrong "no answer in the playground"
inside systemctl stop playground
well "archive: its playground answers a member"

mkdir "$work/image"
tar -xf "$FOLDER"/staffai-*-image.tar -C "$work/image"
deploy/try.sh "$work/image" || wrong "the image"
well "image: runs"
