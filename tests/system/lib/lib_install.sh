#!/bin/sh
# The installed library: its exported symbols, and C and C++ programs that build against it through pkg-config, shared and
# static.
#     lib_install.sh BUILD SOURCE
set -u
build=$1 source=$2
. "$source/tests/tap.sh"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
if ! DESTDIR=$work/root meson install -C "$build" --no-rebuild >"$work/said" 2>&1; then
    tap_not_ok "it can be installed" "$work/said"
    tap_end
    exit
fi
tap_ok "it can be installed"
header=$(find "$work/root" -name bellwether.h)
shared=$(find "$work/root" -name libbellwether.so)
libdir=$(dirname "$shared")
archive=$libdir/libbellwether.a

# Every function that the header declares. Comments are removed first, so that examples in them do not count.
sed -e 's|/\*.*\*/||' -e '/\/\*/,/\*\//d' "$header" | grep -v 'static inline\|(\*' |
    grep -oE '\bbw_[a-z_]+ *\(' | tr -d ' (' | grep -v '_default$' | sort -u >"$work/declared"
nm -D --defined-only "$shared" | awk '$2 != "A" { print $3 }' | sort >"$work/exported"

grep -v '^bw_[a-z_]*@@BELLWETHER_[0-9.]*$' "$work/exported" >"$work/odd"
tap_empty "every exported symbol is versioned and begins with bw_" "$work/odd"
sed 's/@.*//' "$work/exported" | sort -u | diff "$work/declared" - >"$work/difference"
tap_empty "what is exported is what the header declares" "$work/difference"
nm --defined-only "$archive" 2>/dev/null | awk 'NF == 3 && $2 ~ /[A-Z]/ && $2 != "V" { print $3 }' | grep -v '^\(DW\.\|__asan\|__odr\)' |
    sort -u | diff "$work/declared" - >"$work/difference"
tap_empty "the static library shows no other symbols" "$work/difference"
objdump -p "$shared" | grep -q 'SONAME *libbellwether.so.0$' || echo "no soname" >"$work/soname"
touch "$work/soname"
tap_empty "the soname carries the major version" "$work/soname"

cat >"$work/program.cc" <<'PROGRAM'
#include <bellwether.h>
#include <cstdio>
#include <string>
static int task(bw_cancel *cancel, void *arg)
{
    *static_cast<bool *>(arg) = !bw_cancelled(cancel);
    return 3;
}
int main(int, char **argv)
{
    bw_options options = bw_options_default();
    bw_run_options run = bw_run_options_default();
    bw_handle *h = nullptr;
    bool led = false;
    int result = 0;
    options.id = "c++";
    run.result = &result;
    if (bw_open(argv[1], &options, &h) != 0 || bw_run_while_leader(h, "cc", task, &led, &run) != 0)
        return std::puts(bw_why()), 1;
    return bw_close(h) == 0 && led && result == 3 && std::string(bw_error_name(BW_ESTALE)) == "ESTALE" ? 0 : 1;
}
PROGRAM
sed -e 's/<cstdio>/<stdio.h>/' -e '/<string>/d' -e 's/\*static_cast<bool \*>(arg)/*(bool *)arg/' -e 's/nullptr/NULL/' \
    -e 's/std::string(\([^)]*)\)) == "ESTALE"/\1[1] == 83/' -e 's/std:://' -e 's/\bint, char/int argc, char/' \
    -e 's/^    bw_options options/    (void)argc;\n    struct bw_options options/' \
    -e 's/^    bw_run_options/    struct bw_run_options/' -e 's/^    bw_handle/    struct bw_handle/' \
    -e 's/(bw_cancel \*/(struct bw_cancel */' "$work/program.cc" >"$work/program.c"

export PKG_CONFIG_PATH="$libdir/pkgconfig" PKG_CONFIG_SYSROOT_DIR="$work/root"
sanitizer=$(nm -D "$shared" | grep -q __asan_init && echo -fsanitize=address,undefined)
build_and_run() { # name compiler... -- libraries
    name=$1
    shift
    rm -f "$work/program"
    if "$@" $sanitizer -o "$work/program" >"$work/said" 2>&1; then
        LD_LIBRARY_PATH=$libdir ASAN_OPTIONS=detect_leaks=0 "$work/program" "$work/$name.db" >>"$work/said" 2>&1 ||
            echo "status $?" >>"$work/said"
    fi
    tap_empty "a program in $name builds and runs" "$work/said"
}

if command -v pkg-config >/dev/null && pkg-config --exists bellwether; then
    flags=$(pkg-config --cflags bellwether)
    libraries=$(pkg-config --libs bellwether)
    private=$(pkg-config --static --libs bellwether | tr ' ' '\n' | grep -v 'bellwether' | tr '\n' ' ')
    strict="-Wall -Wextra -Wpedantic -Werror"
    build_and_run C cc -std=c11 $strict $flags "$work/program.c" $libraries
    build_and_run C99-static cc -std=c99 $strict $flags "$work/program.c" "$archive" $private
    if command -v g++ >/dev/null; then
        build_and_run C++11 g++ -std=c++11 $strict $flags "$work/program.cc" $libraries
        build_and_run C++20-static g++ -std=c++20 $strict $flags "$work/program.cc" "$archive" $private
    else
        tap_skip "a program in C++ builds and runs" "no g++"
    fi
else
    tap_skip "programs build by pkg-config" "no pkg-config"
fi
tap_end
