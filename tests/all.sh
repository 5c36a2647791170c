#!/bin/sh
# Runs all tests in phases; each script says at its top what it proves. The last line is `N passed, N failed`, followed
# by `, N skipped` if tests were skipped. The exit code is 1 if a test failed.
#     all.sh                every phase
#     all.sh short          the short phases: unit purity tidy coverage
#     all.sh long           the long phases: long sanitize tsan lint branches mutants
#     all.sh PHASE...       only these phases
# The phases `unit` and `long` run the tests of tests/meson.build without and with the suite `long`.
# A phase that cannot start counts as one failure. No test needs the network.
set -u
cd "$(dirname "$0")/.." || exit 1
jobs=${JOBS:-$(nproc)}
build=build
asan=build-asan
passed=0
failed=0
skipped=0
priority=
out=$(mktemp -d)
behind=
trap end EXIT
trap 'exit 130' INT TERM HUP
case $* in
short) wanted=" unit purity tidy coverage " ;;
long) wanted=" long sanitize tsan lint branches mutants " ;;
*) wanted=" $* " ;;
esac

end() {
    [ -z "$behind" ] || kill -s TERM "$behind" 2>/dev/null # before the command that it waits for; otherwise it would start the next one
    for session in "$out"/low.*; do
        [ ! -e "$session" ] || kill -s TERM -- "-$(cat "$session")" 2>/dev/null
    done
    rm -rf "$out"
}

add() { # passed failed skipped
    passed=$((passed + $1))
    failed=$((failed + $2))
    skipped=$((skipped + $3))
}

report() { # name from to passed failed skipped
    printf '%-10s %5d passed %3d failed %3d skipped %5d s\n' "$1" "$4" "$5" "$6" $(($3 - $2))
}

is_wanted() {
    [ "$wanted" = "  " ] && return 0
    case $wanted in *" $1 "*) return 0 ;; *) return 1 ;; esac
}

# Runs a command at the lowest priority, in a session of its own.
low() { # name command...
    session=$out/low.$1
    shift
    setsid -w sh -c 'echo $$ >"$1"; shift; exec tests/low.sh "$@"' low "$session" "$@"
    status=$?
    rm -f "$session"
    return $status
}

# Runs a script that prints TAP; judge_tap counts its results.
run_tap() { # name command...
    is_wanted "$1" || return 0
    name=$1
    shift
    date +%s >"$out/$name.from"
    "$@" >"$out/$name" 2>&1
    echo $? >"$out/$name.status"
    date +%s >"$out/$name.to"
}

judge_tap() { # name
    is_wanted "$1" || return 0
    read -r p f s <<COUNTS
$(python3 tests/count.py tap "$out/$1")
COUNTS
    [ $((p + f + s)) -gt 0 ] && { [ "$(cat "$out/$1.status")" -eq 0 ] || [ "$f" -gt 0 ]; } || f=$((f + 1))
    [ "$f" -eq 0 ] || grep -v '^ok ' "$out/$1"
    add "$p" "$f" "$s"
    report "$1" "$(cat "$out/$1.from")" "$(cat "$out/$1.to")" "$p" "$f" "$s"
}

# Runs the meson tests of one build directory.
meson_phase() { # name directory at-once arguments...
    is_wanted "$1" || return 0
    name=$1
    dir=$2
    at_once=$3
    shift 3
    started=$(date +%s)
    rm -f "$dir/meson-logs/testlog.json"
    meson test -C "$dir" --no-rebuild --num-processes "$at_once" --print-errorlogs "$@" >"$out/$name" 2>&1
    status=$?
    p=0 f=0 s=0
    [ ! -e "$dir/meson-logs/testlog.json" ] || read -r p f s <<COUNTS
$(python3 tests/count.py meson "$dir/meson-logs/testlog.json")
COUNTS
    [ $((p + f + s)) -gt 0 ] && { [ "$status" -eq 0 ] || [ "$f" -gt 0 ]; } || f=$((f + 1))
    [ "$f" -eq 0 ] || python3 tests/count.py why "$dir/meson-logs/testlog.json" || cat "$out/$name"
    add "$p" "$f" "$s"
    report "$name" "$started" "$(date +%s)" "$p" "$f" "$s"
}

compile() { # directory meson-options...
    dir=$1
    shift
    [ -e "$dir/build.ninja" ] || $priority meson setup "$dir" "$@" >"$out/setup" 2>&1 || {
        cat "$out/setup"
        return 1
    }
    $priority ninja -j"$jobs" -C "$dir" >"$out/ninja" 2>&1 || {
        grep -v '^\[' "$out/ninja" | head -60
        return 1
    }
}

verdict() {
    line="$passed passed, $failed failed"
    [ "$skipped" -eq 0 ] || line="$line, $skipped skipped"
    echo "$line"
    [ "$failed" -eq 0 ]
    exit
}

# Without a build no test can run.
started=$(date +%s)
if compile "$build"; then
    add 1 0 0
    report build "$started" "$(date +%s)" 1 0 0
else
    add 0 1 0
    verdict
fi

# In the background of the tests, which mostly wait: the build with sanitizers, which must be complete before its phase,
# clang-tidy, branch coverage and the mutants.
if is_wanted sanitize; then
    priority="low asan"
    compile "$asan" -Db_sanitize=address,undefined -Db_lundef=false -Dbuildtype=debugoptimized >"$out/asan" 2>&1 &
    asan_builds=$!
fi
if is_wanted tsan; then
    low tsan tests/tsan.py --build-only >"$out/tsan-build" 2>&1 &
    tsan_builds=$!
fi
{
    run_tap lint low lint tests/clang-tidy.sh "$build"
    run_tap branches low branches tests/branches.py --tap "$build"
    run_tap mutants low mutants tests/mutants.py --tap "$build"
} &
behind=$!

# Most tests wait for timers and processes more than they compute, so more of them run at once than there are cores.
meson_phase unit "$build" $((2 * jobs)) --no-suite long
meson_phase long "$build" $((jobs + (jobs + 1) / 2)) --suite long
if is_wanted sanitize; then
    # Finds leaks, overruns and undefined behaviour: the same tests and storms, but slower, so with fewer seeds.
    if wait "$asan_builds"; then
        UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1 ASAN_OPTIONS=detect_leaks=1:strict_string_checks=1:allocator_may_return_null=1 \
            TEST_SIZE=small meson_phase sanitize "$asan" $((jobs + (jobs + 1) / 2)) --no-suite long
    else
        cat "$out/asan"
        add 0 1 0
    fi
fi
if is_wanted tsan; then
    # Finds data races: the tests of the parts that have a second thread.
    wait "$tsan_builds"
    run_tap tsan tests/tsan.py
fi
run_tap purity tests/purity.sh "$build"
run_tap tidy tests/tidy.sh
run_tap coverage tests/coverage.py "$build"
wait "$behind"
behind=
for phase in tsan purity tidy lint coverage branches mutants; do judge_tap "$phase"; done
verdict
