#!/bin/sh
# Links all archives into one relocatable object in which only the public symbols are global, and archives it. A program that
# links it can use any name for its own symbols.
#     static.sh OUT MAP OBJCOPY AR CC... -- ARCHIVE...
set -eu
out=$1 map=$2 objcopy=$3 ar=$4
shift 4
compiler=
while [ "$1" != -- ]; do
    compiler="$compiler $1"
    shift
done
shift
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
sed -n 's/^ *\(bw_[a-z_]*\);$/\1/p' "$map" >"$work/public"
$compiler -r -nostdlib -o "$work/bellwether.o" -Wl,--whole-archive "$@" -Wl,--no-whole-archive
"$objcopy" --keep-global-symbols="$work/public" "$work/bellwether.o"
rm -f "$out"
"$ar" rcsD "$out" "$work/bellwether.o"
