#!/bin/sh
# clang-tidy over every source file of the build, in parallel; .clang-tidy says which checks and why.
#     clang-tidy.sh [BUILD [FILE...]]
# A file that was clean is not looked at again until it, a header, the settings or the compile commands change.
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
cache=$build/clang-tidy
mkdir -p "$cache"
log=$(mktemp -d)
trap 'rm -rf "$log"' EXIT

# clang does not know all of gcc's options; its own view of the commands leaves those out.
python3 - "$build" "$cache" <<'PYTHON'
import json, os, sys
build, cache = sys.argv[1:]
with open(os.path.join(build, "compile_commands.json")) as f:
    commands = json.load(f)
seen, kept = set(), []
for entry in commands:
    path = os.path.normpath(os.path.join(entry["directory"], entry["file"]))
    if path in seen or not path.endswith(".c"):
        continue
    seen.add(path)
    words = [w for w in entry["command"].split() if w not in ("-ftrivial-auto-var-init=zero", "-fstack-clash-protection")]
    words = words[words[0].endswith("ccache"):]
    words[0] = "clang"
    kept.append({"directory": entry["directory"], "command": " ".join(words), "file": path})
with open(os.path.join(cache, "compile_commands.json"), "w") as f:
    json.dump(kept, f)
with open(os.path.join(cache, "files"), "w") as f:
    f.writelines(os.path.relpath(p) + "\n" for p in sorted(seen))
PYTHON

headers=$(git ls-files --cached --others --exclude-standard '*.h' '*.inc' '*.clang-tidy' | sort | xargs cat 2>/dev/null | sha256sum)
if [ $# -gt 0 ]; then printf '%s\n' "$@"; else cat "$cache/files"; fi >"$log/files"

export cache log headers
lint=$(
    cat <<'FUNCTION'
file=$1
name=$(printf '%s' "$file" | tr '/' '_')
key=$( (echo "$headers"; cat "$file") | sha256sum | cut -d' ' -f1)
[ "$(cat "$cache/$name.clean" 2>/dev/null)" = "$key" ] && exit 0
if clang-tidy --quiet -p "$cache" "$file" >"$log/$name" 2>/dev/null; then echo "$key" >"$cache/$name.clean"; else : >"$log/$name.failed"; fi
FUNCTION
)
xargs -P "$(nproc)" -n 1 sh -c "$lint" lint <"$log/files"

while read -r file; do
    name=$(printf '%s' "$file" | tr '/' '_')
    if [ -e "$log/$name.failed" ]; then tap_not_ok "$file" "$log/$name"; else tap_ok "$file"; fi
done <"$log/files"
tap_end
