#!/bin/sh
# Runs scenarios: an input, a line of dashes, and the exact output that is expected. Prints TAP.
#     run.sh [--rewrite] BELLWETHER [FILE...]
# A file holds one or more blocks, divided by lines of four equals signs:
#     # a comment describes the scenario
#     algorithm raft           a fault script for `sim run --script script`,
#     at 2s crash leader
#     $ bellwether --version   or lines that begin with "$ ", which a shell runs one by one
#     ----
#     the output with stderr; "exit N" after a command with an exit code other than 0
# --rewrite writes the actual output into the files; review the diff before you commit it. Real times are removed
# from the output, so that a file depends only on the code.
set -u
rewrite=
[ "${1:-}" != --rewrite ] || { rewrite=1 && shift; }
[ $# -ge 1 ] || { echo "usage: run.sh [--rewrite] BELLWETHER [FILE...]" >&2 && exit 64; }
program=$(cd "$(dirname "$1")" && pwd)/$(basename "$1")
here=$(cd "$(dirname "$0")" && pwd)
shift
[ $# -gt 0 ] || set -- "$here"/*/*.txt
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/bin"
ln -s "$program" "$work/bin/bellwether"
PATH=$work/bin:$PATH
SOURCE=$(cd "$here/../.." && pwd)
export PATH SOURCE LC_ALL=C
unset NO_COLOR LANG LANGUAGE TERM
for twin in $(env | sed -n 's/^\(BELLWETHER_[A-Z_]*\)=.*/\1/p'); do unset "$twin"; done

# Runs block $1.in in the directory "scratch" and prints the output.
answer() {
    (
        cd "$work/scratch" || exit 1
        if grep -q '^\$ ' "$1.in"; then
            sed -n 's/^\$ //p' "$1.in" >"$1.commands"
            while IFS= read -r line <&3; do
                sh -c "$line" </dev/null 2>&1
                status=$?
                [ "$status" -eq 0 ] || echo "exit $status"
            done 3<"$1.commands"
        else
            grep -v '^#' "$1.in" >script
            bellwether sim run --script script 2>&1
            status=$?
            [ "$status" -eq 0 ] || echo "exit $status"
        fi
    ) | sed 's/^\(simulated [^,]*\), .*/\1/'
}

# Splits a file into 1.in, 1.want, 2.in, ...; prints the number of blocks.
cut_blocks() {
    awk -v dir="$work/blocks" '
        BEGIN { n = 1; part = "in"; printf "" >(dir "/1.in"); printf "" >(dir "/1.want") }
        /^====$/ { n++; part = "in"; printf "" >(dir "/" n ".in"); printf "" >(dir "/" n ".want"); next }
        /^----$/ && part == "in" { part = "want"; next }
        { print >(dir "/" n "." part) }
        END { print n }' "$1"
}

echo "1..$#"
number=0
failures=0
for file; do
    number=$((number + 1))
    name=$(basename "$file" .txt)
    rm -rf "$work/blocks" "$work/scratch"
    mkdir "$work/blocks" "$work/scratch"
    blocks=$(cut_blocks "$file")
    : >"$work/got"
    i=0
    while [ $i -lt "$blocks" ]; do
        i=$((i + 1))
        [ $i -eq 1 ] || echo "====" >>"$work/got"
        {
            cat "$work/blocks/$i.in"
            echo "----"
            answer "$work/blocks/$i"
        } >>"$work/got"
    done
    if cmp -s "$file" "$work/got"; then
        echo "ok $number - $name"
    elif [ -n "$rewrite" ]; then
        cp "$work/got" "$file"
        echo "ok $number - $name (rewritten)"
    else
        echo "not ok $number - $name"
        diff -u "$file" "$work/got" | sed 's/^/# /'
        failures=$((failures + 1))
    fi
done
[ "$failures" -eq 0 ]
