#!/bin/sh
# Checks the house style as far as a script can. Examines the files that git tracks or would add, so build directories are excluded.
#     tidy.sh
set -u
cd "$(dirname "$0")/.." || exit 1
. tests/tap.sh
found=$(mktemp)
all=$(mktemp)
trap 'rm -f "$found" "$all"' EXIT

git ls-files --cached --others --exclude-standard | while read -r file; do
    [ -f "$file" ] && echo "$file"
done | sort -u >"$all"
code=$(grep -E '\.[ch]$' "$all")
text=$(grep -vE '(^|/)LICENSE$|\.(svg|png|db)$' "$all")
here=tests/tidy.sh # contains the patterns that it searches for

# Bodies of functions: from a line that is `{` to the line that is `}`, both included.
awk 'FNR == 1 { open = 0 }
     /^{/ { open = FNR }
     /^}/ && open { if (FNR - open + 1 > 70) print FILENAME ":" open ": function of " FNR - open + 1 " lines"; open = 0 }' \
    $code >"$found"
tap_empty "no function has more than 70 lines" "$found"

awk 'FNR == 801 { print FILENAME " has more than 800 lines" }' $code >"$found"
tap_empty "no file has more than 800 lines" "$found"

sed -n 's,/[^/]*$,,p' "$all" | sort | uniq -c | awk '$1 > 30 { print $2 " has " $1 " files" }' >"$found"
tap_empty "no folder has more than 30 files" "$found"

LC_ALL=C.UTF-8 awk 'length($0) > 100 { print FILENAME ":" FNR ": " length($0) " columns" }' $code >"$found"
tap_empty "no line of code has more than 100 columns" "$found"

for file in $code; do
    case $(head -c 2 "$file") in '/*') ;; *) echo "$file does not open with a comment" ;; esac
done >"$found"
tap_empty "every source file begins with a comment that describes it" "$found"

grep -InE '\b(TODO|FIXME|XXX|HACK)\b' $text /dev/null | grep -v "^$here:" >"$found"
tap_empty "no comment contains TODO, FIXME, XXX or HACK" "$found"

grep -niE '\bcopyright\b|\(c\) *20[0-9][0-9]' $code /dev/null >"$found"
tap_empty "no copyright banners" "$found"

# These lines may go to the journal, where bw_print_line adds their priority.
grep -nE '\b(fprintf|vfprintf|fputs) *\(stderr|\bperror *\(' \
    $(echo "$code" | grep -E '^src/(serve|run|store|net|peer|cli/serve)/') /dev/null >"$found"
tap_empty "programs that run under systemd print lines with bw_print_line" "$found"

tab=$(printf '\t')
grep -In "$tab" $(echo "$text" | grep -vE '(^|/)(Makefile|debian/rules)$|^go/.*\.go$') /dev/null >"$found"
tap_empty "no tabs outside makefiles and Go" "$found"

grep -InE ' +$' $text /dev/null >"$found"
tap_empty "no trailing blanks" "$found"

grep -InE '(^|[^A-Za-z0-9_.>~$-])/(work|root|home)(/|\b)' $text /dev/null | grep -v "^$here:" |
    grep -v 'cgroup:/work' >"$found"
tap_empty "no absolute path of a developer's machine" "$found"

grep -nE '\b(sleep|usleep|nanosleep|clock_gettime|gettimeofday|time) *\(' \
    $(echo "$code" | grep -E '^tests/' | grep -vE '^tests/(system|conformance)/') /dev/null >"$found"
grep -nE '(^|[;&| ])sleep [0-9]' $(echo "$text" | grep -E '^tests/.*\.sh$' | grep -vE '^tests/(system|conformance)/') /dev/null |
    grep -v "^$here:" >>"$found"
tap_empty "tests outside tests/system and tests/conformance use virtual time" "$found"

grep -nE '^(static )?(struct|enum|union)? ?[a-z_0-9 *]+\b(test|case)_?[0-9]+\(' $code /dev/null >"$found"
tap_empty "tests have names, not numbers" "$found"

grep -nE '\b(s?rand|s?random|[dejlmn]rand48)(_r)? *\(|hrtime\(\) *%' $(echo "$code" | grep -E '^(src|sim|include)/') /dev/null >"$found"
tap_empty "random numbers come from a seeded generator, never from libc or a clock" "$found"

grep -nE '^typedef (struct|union|enum)\b' $code /dev/null >"$found"
tap_empty "structs are not hidden behind typedefs" "$found"

version=$(sed -n "1s/.*version : '\([0-9.]*\)'.*/\1/p" meson.build)
for file in README.md node/package.json packaging/compose/compose.yml packaging/kubernetes/serve/kustomization.yaml \
    packaging/kubernetes/sidecar/kustomization.yaml python/pyproject.toml docs/guides/containers.md include/bellwether.h; do
    named=$(grep -oE '(version |"version": "|version = "|bellwether:|newTag: |example ")[0-9]+\.[0-9]+\.[0-9]+' "$file" | grep -oE '[0-9.]+$' | sort -u)
    [ "$named" = "$version" ] || echo "$file names version ${named:-none}, and meson.build names $version" | tr '\n' ' '
done >"$found"
tap_empty "every file that names the version names that of meson.build" "$found"

if command -v clang-format >/dev/null; then
    clang-format --dry-run --Werror $code 2>&1 | grep -E 'error:' | sed 's/: error:.*//' | sort -u >"$found"
    tap_empty "clang-format would change nothing" "$found"
else
    tap_skip "clang-format would change nothing" "no clang-format"
fi
tap_end
