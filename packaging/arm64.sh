#!/bin/sh
# Builds for arm64 and tests the programs under qemu-user: all unit tests, then `run`, `serve` and `peer`. Needs root and mmdebstrap.
#     arm64.sh DIRECTORY
# Makes a Debian in DIRECTORY/root with the cross compiler and the libraries of both architectures, from the APT sources of this
# machine; a Debian that exists is used again. Builds in DIRECTORY/root/build. Installs nothing on this machine.
set -eu
mkdir -p "$1"
out=$(cd "$1" && pwd)
cd "$(dirname "$0")/.."
root=$out/root
JOBS=${JOBS:-$(nproc)}

# The tools of the build run here, so they are of this machine's architecture. The libraries are for arm64.
packages() {
    while read -r package need _; do
        [ "$need" = build ] || continue
        case $package in
        gcc) echo gcc-aarch64-linux-gnu ;;
        lib*-dev) echo "$package:arm64" ;;
        *) echo "$package" ;;
        esac
    done <packaging/debian-deps.txt
    echo curl
    echo qemu-user
}

if [ ! -e "$out/complete" ]; then
    sources=$(ls /etc/apt/sources.list /etc/apt/sources.list.d/*.sources /etc/apt/sources.list.d/*.list 2>/dev/null || true)
    # shellcheck disable=SC1091 # every Debian has it
    . /etc/os-release
    rm -rf --one-file-system "$root"
    # shellcheck disable=SC2086 # the sources are several words
    mmdebstrap --quiet --variant=apt --architectures="$(dpkg --print-architecture),arm64" \
        --include="$(packages | paste -sd, -)" --dpkgopt='path-exclude=/usr/share/doc/*' \
        --dpkgopt='path-exclude=/usr/share/man/*' --aptopt='APT::Install-Recommends "false"' \
        "$VERSION_CODENAME" "$root" $sources >"$out/log" 2>&1 || {
        tail -20 "$out/log" >&2
        echo "cannot make a Debian with libraries for arm64; the whole log is $out/log" >&2
        exit 1
    }
    : >"$out/complete"
fi

# Everything else happens in that Debian, with mounts that end with the script.
# shellcheck disable=SC2016 # the inner shell expands the script
exec unshare --mount --pid --fork --propagation private sh -eu -c '
    root=$1 jobs=$2
    mkdir -p "$root/source"
    mount --bind "$PWD" "$root/source"
    mount -o remount,bind,ro "$root/source"
    mount -t proc proc "$root/proc"
    mount --rbind /dev "$root/dev"
    mount -t tmpfs tmpfs "$root/tmp"
    exec chroot "$root" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 TMPDIR=/tmp \
        sh /source/packaging/arm64-test.sh "$jobs"
' sh "$root" "$JOBS"
