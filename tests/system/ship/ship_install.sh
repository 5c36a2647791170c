#!/bin/sh
# `make install` and `make uninstall`: installed files name the prefix and never DESTDIR, the installed program finds its
# modules, a new version removes files of the old one, and uninstall leaves only files of others.
#     ship_install.sh SOURCE
set -u
source=$1
. "$source/tests/tap.sh"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
said=$work/said
prefix="$work/a prefix" root="$work/root"
unset MAKEFLAGS MAKELEVEL DESTDIR
make_it() { # target variable...
    make -C "$source" --no-print-directory INSTALL_BUILD="$work/build" "$@" >"$said" 2>&1
}
expect() { # name; the status of the command before it decides
    if [ $? -eq 0 ]; then tap_ok "$1"; else tap_not_ok "$1" "$said"; fi
}

make_it install prefix="$prefix" DESTDIR="$root"
expect "files are installed below DESTDIR"
[ "$tap_failed" -eq 0 ] || { tap_end; exit; }
[ ! -e "$prefix" ]
expect "nothing is installed outside DESTDIR"
grep -rlF "$root" "$root" >"$said"
tap_empty "no installed file names DESTDIR" "$said"
grep -rlF "$work/build" "$root" | grep -vE '/libbellwether\.a$|\.so(\.[0-9.]*)?$|/bin/bellwether$' >"$said"
tap_empty "no installed text names the build directory" "$said"

# As a package manager does: the files move from DESTDIR to the prefix for which they were made.
mv "$root$prefix" "$prefix"
bell=$prefix/bin/bellwether
"$bell" run --store "sqlite:$work/e.db" --election install --id one -- sh -c 'echo "token $BELLWETHER_TOKEN"' >"$said" 2>&1 &&
    grep -qx 'token 1' "$said"
expect "the installed program elects a leader"
for module in "$prefix"/lib/*/bellwether/*.so "$prefix"/lib/bellwether/*.so; do
    [ -e "$module" ] || continue
    name=${module##*-store-}
    mv "$module" "$module.away"
    "$bell" --version | grep -w "${name%.so}" >"$work/without" # reported as not installed
    mv "$module.away" "$module"
    "$bell" --version | grep -w "${name%.so}" | cmp -s - "$work/without" && echo "${name%.so} is not loaded from $module"
done >"$said"
tap_empty "the installed program loads the modules below its prefix" "$said"
grep -h '^Exec[A-Za-z]*=.*bellwether" ' "$prefix"/lib/systemd/system/*.service >"$work/exec"
[ -s "$work/exec" ] || echo "no unit starts bellwether" >"$said"
grep -vF "=\"$prefix/bin/bellwether\" " "$work/exec" >>"$said"
tap_empty "every unit starts the installed program" "$said"
PKG_CONFIG_PATH=$(dirname "$(find "$prefix" -name bellwether.pc)") pkg-config --variable=libdir bellwether >"$said" 2>&1 &&
    [ -e "$(sed 's/\\//g' "$said")/libbellwether.so" ]
expect "pkg-config names the directory of the library"

mv "$prefix" "$root$prefix"
make_it uninstall prefix="$prefix" DESTDIR="$root" && ! find "$root" -mindepth 1 | grep . >"$said"
expect "uninstall leaves nothing below DESTDIR"

etc=$root/etc/bellwether # the units read it; systemd finds units below /usr and /usr/local
make_it install prefix=/usr/local DESTDIR="$root" && [ -d "$etc/run" ] && [ -d "$etc/peer" ] && [ -d "$etc/serve" ]
expect "below /usr/local, the directories for the configuration of the units are created"
echo mine >"$etc/run/mine.conf"
make_it uninstall prefix=/usr/local DESTDIR="$root" && find "$root" ! -type d >"$said" && echo "$etc/run/mine.conf" | cmp -s - "$said" &&
    [ ! -e "$etc/peer" ] && [ ! -e "$etc/serve" ]
expect "uninstall removes the empty ones of them"
rm -r "$root"

mkdir -p "$prefix/bin"
echo theirs >"$prefix/bin/theirs"
make_it install prefix="$prefix"
expect "files are installed below a prefix that exists"
echo old >"$prefix/share/bellwether/old"
echo "$prefix/share/bellwether/old" >>"$prefix/share/bellwether/manifest"
make_it install prefix="$prefix" && [ ! -e "$prefix/share/bellwether/old" ] && [ -x "$bell" ]
expect "a new version removes the files that only the old one had"
rm -rf "$work/build"
make_it uninstall prefix="$prefix" && echo theirs | cmp -s - "$prefix/bin/theirs" &&
    ! find "$prefix" -mindepth 1 ! -path "$prefix/bin" ! -path "$prefix/bin/theirs" | grep . >"$said"
expect "without a build directory, uninstall leaves only files of others"
! make_it uninstall prefix="$prefix" && grep -q 'cannot uninstall: no file' "$said"
expect "a second uninstall fails and says what is missing"
! make_it install prefix=relative && grep -q "expected an absolute path" "$said"
expect "a relative prefix is refused"
tap_end
