#!/bin/sh
# cc.sh CLANG WORD...   as `CLANG WORD...` for one program of several sources, but each source by itself: at once, and by ccache where there
# is one. Sources end in .c; libraries (-l, .a) are for the link alone.
set -eu
clang=$1
shift
flags='' libraries='' out=
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
while [ $# -gt 0 ]; do
    case $1 in
    *.c) printf '%s\n' "$1" ;;
    -o) out=$2 && shift ;;
    -l* | *.a) libraries="$libraries $1" ;;
    *) flags="$flags $1" ;;
    esac
    shift
done >"$dir/sources"
compiler=$clang
! command -v ccache >/dev/null || compiler="ccache $clang"
export CCACHE_NOHASHDIR=1 CCACHE_BASEDIR="${PWD%/*}"
nl -nln "$dir/sources" | xargs -P "$(nproc)" -n 2 sh -c "exec $compiler $flags -c \"\$2\" -o '$dir'/\"\$1\".o" cc
# shellcheck disable=SC2086 words are meant to be split
$clang $flags "$dir"/*.o -o "$out" $libraries
