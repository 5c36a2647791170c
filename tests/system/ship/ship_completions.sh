#!/bin/sh
# Completions for bash, zsh and fish: each shell offers what `bellwether --complete` prints.
#     ship_completions.sh BELLWETHER SOURCE
set -u
. "$2/tests/tap.sh"
bell=$(cd "$(dirname "$1")" && pwd)
here=$(cd "$2/packaging/completions" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
PATH=$bell:$PATH XDG_CONFIG_HOME=$work XDG_DATA_HOME=$work XDG_CACHE_HOME=$work HOME=$work
export PATH XDG_CONFIG_HOME XDG_DATA_HOME XDG_CACHE_HOME HOME
touch "a file.conf"

in_bash() { # word...
    bash --norc -c '. "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _bellwether; printf "%s\n" "${COMPREPLY[@]}"' \
        bash "$here/bellwether.bash" "$@"
}
# Outside a completion, zsh has neither compadd nor _files: these print instead.
in_zsh() { # word...
    zsh -f -c 'compadd() { print -rl -- "${(@P)2}" }; _files() { print -rl -- *(N) }; file=$1; shift; words=("$@"); CURRENT=$#
        complete_it() { source "$file" }; complete_it' zsh "$here/_bellwether" "$@"
}
in_fish() { # word...
    fish -N -c 'source $argv[1]; complete -C (string join " " -- $argv[2..-1])' "$here/bellwether.fish" "$@" | cut -f 1
}

compare() { # shell name word...
    shell=$1 name=$2
    shift 2
    if ! command -v "$shell" >/dev/null; then
        tap_skip "$shell completes $name" "no $shell"
        return
    fi
    "in_$shell" bellwether "$@" 2>"$work/said" | sort >"$work/got"
    bellwether --complete "$@" | sort | diff - "$work/got" >>"$work/said"
    [ -s "$work/got" ] || echo "no completions" >>"$work/said"
    tap_empty "$shell completes $name" "$work/said"
}

for shell in bash zsh fish; do
    compare $shell "a command" ru
    compare $shell "an option" run --sto
    compare $shell "a word of an option" run --log ""
    if command -v $shell >/dev/null; then
        in_$shell bellwether run --config "" 2>&1 | sed 's/\\//g' | grep -qx 'a file.conf' || echo "no file offered" >"$work/said"
        tap_empty "$shell completes a file" "$work/said"
    else
        tap_skip "$shell completes a file" "no $shell"
    fi
done
tap_end
