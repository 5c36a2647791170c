#!/bin/sh
# Installs the missing Debian packages of debian-deps.txt; does nothing if all are installed.
#     install-deps.sh build|deb|image|test
# Does nothing on other systems than Debian: the build then reports what is missing.
set -eu
level=$1
list=$(dirname "$0")/debian-deps.txt
command -v apt-get >/dev/null && command -v dpkg-query >/dev/null || exit 0

missing=
while read -r package need program; do
    case $package in '' | '#'*) continue ;; esac
    [ "$need" = build ] || [ "$need" = "$level" ] || [ "$level" = test ] || continue
    [ -z "$program" ] || ! command -v "$program" >/dev/null || continue
    status=$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null || true)
    [ "$status" = installed ] || missing="$missing $package"
done <"$list"
[ -n "$missing" ] || exit 0

sudo=
if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null || {
        echo "missing packages; as root run: apt-get install$missing" >&2
        exit 1
    }
    sudo=sudo
fi
echo "installing missing packages:$missing"
export DEBIAN_FRONTEND=noninteractive
log=$(mktemp)
trap 'rm -f "$log"' EXIT
apt="$sudo apt-get -o DPkg::Lock::Timeout=300" # waits for another apt, such as that of unattended-upgrades

# The timeout does not cover the lock of the package lists, and a mirror may fail for a moment.
update() {
    for pause in 5 10 20 40; do
        $apt update && return 0
        sleep "$pause"
    done
    $apt update
}

# Prevents apt from reading stdin, which may be a pipe of the caller.
if ! { update && $apt install -y --no-install-recommends $missing; } >"$log" 2>&1 </dev/null; then
    tail -20 "$log" >&2
    echo "could not install:$missing" >&2
    exit 1
fi
