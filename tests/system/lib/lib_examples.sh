#!/bin/sh
# The examples work as described: several instances at once, one leader at a time, tokens that grow.
# An election may be shared with `bellwether run`: work that it left running is dead before a program leads.
#     lib_examples.sh SOURCE COORDINATOR PERIODIC_JOB POLLABLE_LOOP BELLWETHER LIBRARY
set -u
. "$1/tests/tap.sh"
coordinator=$2 periodic=$3 loop=$4 bellwether=$5
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
store=$work/elections.db
found=$work/found

# The docs page shows a complete program. Two instances of it: the second leads when the first gets SIGTERM.
# block PAGE NUMBER: prints that block of C of the page.
block() {
    awk -v fence="$(printf '\140\140\140')" -v wanted="$2" \
        '$0 == fence { on = 0 } on; $0 == fence "c" { on = ++seen == wanted }' "$1"
}
block "$1/docs/guides/library.md" 1 >"$work/program.c"
grep -q bw_run_while_leader "$work/program.c" || echo "the page shows no program" >"$found"
libdir=$(cd "$(dirname "$6")" && pwd)
sanitizer=$(nm -D "$6" | grep -q __asan_init && echo -fsanitize=address,undefined)
cc -Wall -Wextra -Werror $sanitizer -I "$1/include" "$work/program.c" -o "$work/program" -L "$libdir" -lbellwether \
    -Wl,-rpath,"$libdir" 2>>"$found"
tap_empty "docs/guides/library.md: the worked example compiles as it stands" "$found"
{ cat "$work/program.c" && block "$1/docs/guides/library.md" 2; } >"$work/task.c" # the second block is a task for the first
block "$1/docs/concepts/fencing.md" 1 >"$work/append.c"
for part in task append; do
    grep -q bw_guard_hold "$work/$part.c" || echo "no guard in $part.c" >>"$found"
    cc -Wall -Wextra -Werror -Wno-unused-function -fsyntax-only -I "$1/include" "$work/$part.c" 2>>"$found"
done
tap_empty "library.md and fencing.md: the code that holds a guard compiles as it stands" "$found"
if [ -x "$work/program" ]; then
    timeout 60 "$work/program" "sqlite:$store" >"$work/first" 2>&1 &
    first=$!
    until grep -q 'token 1$' "$work/first" || ! kill -0 "$first" 2>/dev/null; do sleep 0.05; done
    timeout 60 "$work/program" "sqlite:$store" >"$work/second" 2>&1 &
    second=$!
    kill "$first"
    wait "$first" || echo "the first one ended with $?" >>"$found"
    until grep -q 'token 2$' "$work/second" || ! kill -0 "$second" 2>/dev/null; do sleep 0.05; done
    kill "$second"
    wait "$second" || echo "the second one ended with $?" >>"$found"
    echo 'report: working with token 1' | cmp -s - "$work/first" || cat "$work/first" >>"$found"
    echo 'report: working with token 2' | cmp -s - "$work/second" || cat "$work/second" >>"$found"
    timeout 60 "$work/program" "sqlite:$work/none/e.db" 2>"$work/third" && echo "a store that cannot be opened is no error" >>"$found"
    grep -q '^E[A-Z]*: .' "$work/third" || cat "$work/third" >>"$found"
    tap_empty "docs/guides/library.md: the worked example hands over on SIGTERM" "$found"
fi

: >"$found"
# Three instances of the job, four rounds each: rounds of one token are contiguous and in order.
for i in 1 2 3; do
    timeout 60 "$periodic" "$store" "$work/lines" 5 4 2>>"$found" &
done
wait
awk '$2 < token { print "token " $2 " after " token }
     $2 > token { if (token && round != 4) print "token " token " ended at round " round; token = $2; round = 0 }
     { if ($4 != ++round) print "round " $4 " of token " $2 " is out of order"; lines++ }
     END { if (lines != 12) print lines " lines" }' "$work/lines" >>"$found"
tap_empty "periodic_job: each instance has its turn, one at a time" "$found"

# There are 2262 primes below 20,000, whichever instance coordinates.
: >"$found"
for i in 1 2; do
    timeout 60 "$coordinator" "$store" "$work/sum" 20 2>>"$found" &
done
wait
grep -qx 'primes 2262 token 2' "$work/sum" || cat "$work/sum" >>"$found"
tap_empty "coordinator: the results of its workers are aggregated" "$found"

# The second instance waits for the first; an instance that gets SIGTERM resigns cleanly.
: >"$found"
timeout 60 "$loop" "$store" first 1000000 >"$work/first" 2>&1 &
first=$!
until grep -q elected "$work/first" 2>/dev/null; do sleep 0.05; done
timeout 60 "$loop" "$store" second 5 >"$work/second" 2>&1 &
second=$!
until grep -q 'leader first' "$work/second" 2>/dev/null; do sleep 0.05; done
kill "$first"
wait "$first" || echo "first ended with $?" >>"$found"
wait "$second" || echo "second ended with $?" >>"$found"
grep -qx 'elected loop token 1' "$work/first" && grep -qx 'elected loop token 2' "$work/second" &&
    grep -qx done "$work/first" && grep -qx done "$work/second" || cat "$work/first" "$work/second" >>"$found"
tap_empty "pollable_loop: the next one leads when the first is told to end" "$found"

# Supervisor and guardian are killed at once. A background process in its own session survives, unless it is in a PID namespace.
# Its pid may be meaningless here: it is alive while its lock is held.
: >"$found"
rm -f "$work/lines"*
"$bellwether" run --store "$store" --election periodic-job -- \
    sh -c "setsid flock '$work/lock' sh -c 'echo >\"$work/held\"; exec sleep 100' & wait" 2>"$work/log" &
supervisor=$!
until [ -e "$work/held" ]; do sleep 0.05; done
flock -n "$work/lock" true && echo "the work holds no lock: the test proves nothing" >>"$found"
guardians=$(cat "/proc/$supervisor/task/$supervisor/children")
kill -STOP $guardians # otherwise the guardian may see the death of the supervisor and kill the work before it dies itself
kill -9 "$supervisor" $guardians
grep -q pidns "$work/log" || ! flock -n "$work/lock" true || echo "nothing was left: the test proves nothing" >>"$found"
timeout 60 "$periodic" "$store" "$work/lines" 1 1 2>>"$found" || echo "periodic_job ended with $?" >>"$found"
[ -s "$work/lines" ] || echo "it did not lead" >>"$found"
flock -n "$work/lock" true || echo "the work is still alive" >>"$found"
wait "$supervisor" 2>/dev/null
tap_empty "what a killed 'bellwether run' left running is dead before a program leads" "$found"
tap_end
