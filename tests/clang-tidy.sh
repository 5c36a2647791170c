#!/bin/sh
# Runs clang-tidy on every source file of the build, in parallel; .clang-tidy lists the checks with their reasons.
#     clang-tidy.sh [BUILD [FILE...]]
# A file without findings is skipped until the file, its includes, the settings or its compile command change. The results
# are kept in the user's cache directory, so that a fresh clone can use them too.
set -u
cd "$(dirname "$0")/.." || exit 1
. tests/tap.sh
build=${1:-build}
[ $# -eq 0 ] || shift
command -v clang-tidy >/dev/null || {
    tap_skip "clang-tidy" "no clang-tidy"
    tap_end
    exit
}
clean=${XDG_CACHE_HOME:-${HOME:-$build}/.cache}/bellwether-lint
mkdir -p "$clean"
find "$clean" -type f -mtime +30 -delete
log=$(mktemp -d)
trap 'rm -rf "$log"' EXIT

tests/lint_keys.py "$build" "$log" >"$log/keys" || exit 1
if [ $# -gt 0 ]; then for file in "$@"; do grep "^$file " "$log/keys" || echo "$file -"; done; else cat "$log/keys"; fi >"$log/files"

export clean log
lint=$(
    cat <<'FUNCTION'
file=$1 key=$2
[ ! -e "$clean/$key" ] || { touch "$clean/$key"; exit 0; }
name=$(printf '%s' "$file" | tr '/' '_')
if ! clang-tidy --quiet -p "$log" "$file" >"$log/$name" 2>/dev/null; then : >"$log/$name.failed"
elif [ "$key" != - ]; then : >"$clean/$key"; fi
FUNCTION
)
xargs -P "$(nproc)" -n 2 sh -c "$lint" lint <"$log/files"

while read -r file _; do
    name=$(printf '%s' "$file" | tr '/' '_')
    if [ -e "$log/$name.failed" ]; then tap_not_ok "$file" "$log/$name"; else tap_ok "$file"; fi
done <"$log/files"
tap_end
