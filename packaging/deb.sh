#!/bin/sh
# Builds the Debian packages of the source as it is, and checks them with lintian.
#     deb.sh DIRECTORY
# Writes the packages and the output of the build into DIRECTORY. The build runs in a copy of the source, where
# packaging/debian is debian/. Two builds of the same source give identical packages, whatever the directory and the time.
set -eu
out=$1
cd "$(dirname "$0")/.."
mkdir -p "$out"
out=$(cd "$out" && pwd)
umask 022
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/bellwether"
if [ -e .git ]; then
    git ls-files -z --cached --others --exclude-standard
else
    find . -path './build*' -prune -o -type f -print0 # a source archive
fi | tar -c --null --ignore-failed-read --files-from - 2>/dev/null | tar -x -C "$work/bellwether"
cp -r packaging/debian "$work/bellwether/debian"
rm -f "$out"/*.deb "$out"/*.buildinfo "$out"/*.changes
# Programs outside the system's directories, for example another Python, must not take part in the build.
if ! (cd "$work/bellwether" && PATH=/usr/sbin:/usr/bin:/sbin:/bin dpkg-buildpackage --build=binary --no-sign ${JOBS:+-j"$JOBS"}) >"$out/log" 2>&1 </dev/null; then
    tail -30 "$out/log" >&2
    echo "cannot build the packages; the whole log is $out/log" >&2
    exit 1
fi
mv "$work"/*.deb "$work"/*.buildinfo "$work"/*.changes "$out"
command -v lintian >/dev/null && lintian --allow-root --fail-on error,warning,info "$out"/*.changes
ls -1 "$out"/*.deb
