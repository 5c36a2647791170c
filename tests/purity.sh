#!/bin/sh
# Checks that the core library is pure: it does no I/O, reads no clock, allocates no memory and keeps no state of its own.
# Examines the symbols of the library: every undefined symbol must be defined in the library or be on the list below, and
# no object may own writable data.
#     purity.sh [BUILD]
set -u
cd "$(dirname "$0")/.." || exit 1
. tests/tap.sh
library=${1:-build}/src/core/libbellwether-core.a
found=$(mktemp)
trap 'rm -f "$found"' EXIT

# Allowed: memory and strings; the functions of libm that IEEE 754 defines exactly (the others are in portable_math.h); symbols that the compiler needs (stack protector, checked mem* functions, the table
# of addresses, 128-bit division).
allowed='memcpy memset memmove memchr memcmp strcmp strlen strncmp
sqrt fabs floor ceil lround round
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
tap_empty "pure objects use only each other, memory functions and exact functions of libm" "$found"

grep -rnE '^#include "' src/core | grep -v '#include "core/' >"$found"
tap_empty "files in src/core include only each other" "$found"

# Checks by section: constant tables of pointers are in .data.rel.ro, which the loader makes read-only.
nm -A --defined-only -f sysv "$library" |
    awk -F'|' '$NF ~ /^ *\.t?(data|bss)/ && $NF !~ /\.data\.rel\.ro/ { n = split($1, at, ":"); print at[n - 1], "owns", at[n] }' \
        >"$found"
tap_empty "pure objects own no writable data" "$found"
tap_end
