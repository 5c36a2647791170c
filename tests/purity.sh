#!/bin/sh
# The line of the design stays true: what stands above it does no I/O, reads no clock, allocates nothing and keeps no
# state of its own. Looks at the symbols of the pure library: everything undefined in it must be defined in it or be on
# the list below, and no object may own writable data.
#     purity.sh [BUILD]
set -u
cd "$(dirname "$0")/.." || exit 1
. tests/tap.sh
library=${1:-build}/src/core/libbellwether-core.a
found=$(mktemp)
trap 'rm -f "$found"' EXIT

# Memory and strings; libm; what the compiler itself asks for (stack protector, checked mem* functions, the table of
# addresses, 128-bit division).
allowed='memcpy memset memmove memchr memcmp strcmp strlen strncmp
exp log log2 log10 log1p expm1 sqrt pow erf erfc fabs floor ceil lround round
__stack_chk_fail __memcpy_chk __memset_chk __memmove_chk _GLOBAL_OFFSET_TABLE_
__divti3 __udivti3 __modti3 __umodti3'

own=$(nm --defined-only "$library" 2>/dev/null | awk 'NF == 3 { print $3 }' | sort -u)
if [ -z "$own" ]; then
    tap_not_ok "the pure library $library exists"
    tap_end
    exit
fi

nm -A -u "$library" | awk '{ split($1, at, ":"); print $NF, at[2] }' | sort -u | while read -r symbol object; do
    printf '%s\n' "$own" $allowed | grep -qxF -- "$symbol" || echo "$object uses $symbol"
done >"$found"
tap_empty "pure objects use only each other, memory functions and libm" "$found"

# By section: constant tables of pointers stand in .data.rel.ro, which the loader makes read-only.
nm -A --defined-only -f sysv "$library" |
    awk -F'|' '$NF ~ /^ *\.t?(data|bss)/ && $NF !~ /\.data\.rel\.ro/ { n = split($1, at, ":"); print at[n - 1], "owns", at[n] }' \
        >"$found"
tap_empty "pure objects own no writable data" "$found"
tap_end
