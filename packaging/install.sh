#!/bin/sh
# Builds and installs Bellwether below a prefix, or removes what was installed there.
#     install.sh install PREFIX BUILD      install.sh uninstall PREFIX
# BUILD is a build directory of its own, without tests. $DESTDIR comes before every path; installed files do not contain it.
# PREFIX/share/bellwether/manifest lists the installed files, and (with a slash at the end) the directories that did not exist
# before. So uninstall needs no build directory, and a new version removes the files that only the old one had.
set -eu
action=$1 prefix=${2%/} build=${3:-}
cd "$(dirname "$0")/.."
case $prefix in
/*) ;;
*)
    echo "cannot $action: invalid prefix '$2': expected an absolute path below /, for example prefix=/usr/local" >&2
    exit 64
    ;;
esac
case ${DESTDIR:=} in '' | /*) ;; *) DESTDIR=$PWD/$DESTDIR ;; esac
DESTDIR=${DESTDIR%/}
export DESTDIR
manifest=$DESTDIR$prefix/share/bellwether/manifest
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
sort=env\ LC_ALL=C\ sort

# Removes the files of a list, then its directories, the deepest first. A directory that contains other files stays.
remove() { # list
    while IFS= read -r path; do
        case $path in */) ;; *) rm -f -- "$DESTDIR$path" ;; esac
    done <"$1"
    $sort -r "$1" | while IFS= read -r path; do
        case $path in */) rmdir -- "$DESTDIR$path" 2>/dev/null || true ;; esac
    done
}

# Prints the paths that Meson has just installed or created, without DESTDIR.
installed() {
    while IFS= read -r path; do
        case $path in "$DESTDIR"/?*) ;; *) continue ;; esac
        [ ! -d "$path" ] || [ -L "$path" ] || path=$path/
        printf '%s\n' "${path#"$DESTDIR"}"
    done <"$build/meson-logs/install-log.txt"
}

make_build() {
    if [ -e "$build/build.ninja" ]; then
        meson configure "$build" -Dprefix="$prefix"
    else
        meson setup "$build" --prefix "$prefix" -Dtests=false -Dwerror=false
    fi >"$work/said" 2>&1 && ninja -C "$build" >>"$work/said" 2>&1 || {
        tail -40 "$work/said" >&2
        exit 1
    }
}

install_all() {
    make_build
    meson install -C "$build" --no-rebuild >"$work/said" 2>&1 || {
        tail -5 "$work/said" >&2
        echo "cannot install below $DESTDIR$prefix; run as root, or choose a prefix that you can write to" >&2
        exit 1
    }
    installed >"$work/new"
    touch "$work/old"
    [ ! -e "$manifest" ] || $sort -u "$manifest" >"$work/old"
    own=$prefix/share/bellwether
    [ -d "$DESTDIR$own" ] || echo "$own/" >>"$work/new"
    echo "$own/manifest" >>"$work/new"
    grep '/$' "$work/old" >>"$work/new" || true # created by an earlier installation
    $sort -u "$work/new" >"$work/all"
    $sort "$work/old" | LC_ALL=C comm -23 - "$work/all" >"$work/gone"
    remove "$work/gone"
    mkdir -p "$DESTDIR$own"
    install -m 644 "$work/all" "$manifest"
    echo "installed below $DESTDIR$prefix; to remove it: make uninstall prefix=$prefix${DESTDIR:+ DESTDIR=$DESTDIR}"
}

uninstall_all() {
    if [ ! -e "$manifest" ]; then
        echo "cannot uninstall: no file $manifest; give the prefix and DESTDIR of the installation" >&2
        exit 1
    fi
    cp "$manifest" "$work/old"
    remove "$work/old"
    echo "removed from $DESTDIR$prefix"
}

case $action in
install) install_all ;;
uninstall) uninstall_all ;;
esac
[ -n "$DESTDIR" ] || [ "$(id -u)" -ne 0 ] || ldconfig 2>/dev/null || true
