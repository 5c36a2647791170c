#!/bin/sh
# Links archives into one relocatable object in which only the public symbols are global, and archives it. A program that links it
# can use any name for its own symbols. The object has what the shared library has: all of the archives before WITH, and what these
# need of the archives after it, so that it needs no other libraries.
#     static.sh OUT MAP OBJCOPY AR CC... -- ARCHIVE... WITH ARCHIVE...
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
whole=
while [ "$1" != WITH ]; do
    whole="$whole $1"
    shift
done
shift
$compiler -r -nostdlib -o "$work/bellwether.o" -Wl,--whole-archive $whole -Wl,--no-whole-archive -Wl,--start-group "$@" -Wl,--end-group
"$objcopy" --keep-global-symbols="$work/public" "$work/bellwether.o"
rm -f "$out"
"$ar" rcsD "$out" "$work/bellwether.o"
