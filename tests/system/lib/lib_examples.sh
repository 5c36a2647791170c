#!/bin/sh
# The examples do what they say: several instances at once, one leader at a time, tokens that grow.
# An election may be shared with `bellwether run`: what that left running is dead before a program leads.
#     lib_examples.sh SOURCE COORDINATOR PERIODIC_JOB POLLABLE_LOOP BELLWETHER
set -u
. "$1/tests/tap.sh"
coordinator=$2 periodic=$3 loop=$4 bellwether=$5
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
store=$work/elections.db
found=$work/found

# What the page shows is a whole program.
awk -v fence="$(printf '\140\140\140')" '$0 == fence { on = 0 } on; $0 == fence "c" { on = 1 }' \
    "$1/docs/library.md" >"$work/program.c"
grep -q bw_run_while_leader "$work/program.c" || echo "the page shows no program" >"$found"
cc -Wall -Wextra -Werror -fsyntax-only -I "$1/include" "$work/program.c" 2>>"$found"
tap_empty "docs/library.md: the worked example compiles as it stands" "$found"

# Three instances of the job, four rounds each: rounds of one token stand together, in order.
for i in 1 2 3; do
    timeout 60 "$periodic" "$store" "$work/lines" 5 4 2>>"$found" &
done
wait
awk '$2 < token { print "token " $2 " after " token }
     $2 > token { if (token && round != 4) print "token " token " ended at round " round; token = $2; round = 0 }
     { if ($4 != ++round) print "round " $4 " of token " $2 " is out of order"; lines++ }
     END { if (lines != 12) print lines " lines" }' "$work/lines" >>"$found"
tap_empty "periodic_job: each instance has its turn, one at a time" "$found"

# 2262 primes below 20,000, whoever coordinates.
: >"$found"
for i in 1 2; do
    timeout 60 "$coordinator" "$store" "$work/sum" 20 2>>"$found" &
done
wait
grep -qx 'primes 2262 token 2' "$work/sum" || cat "$work/sum" >>"$found"
tap_empty "coordinator: the results of its workers are aggregated" "$found"

# The second waits for the first; one that is told to end resigns in good order.
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

# Supervisor and guardian are killed at once; what was started in the background, in a session of its own, lives on,
# unless in a pid namespace. Its pid may mean nothing out here: it is alive as long as its lock is held.
: >"$found"
rm -f "$work/lines"*
"$bellwether" run --store "$store" --election periodic-job -- \
    sh -c "setsid flock '$work/lock' sh -c 'echo >\"$work/held\"; exec sleep 100' & wait" 2>"$work/log" &
supervisor=$!
until [ -e "$work/held" ]; do sleep 0.05; done
flock -n "$work/lock" true && echo "the work holds no lock: the test proves nothing" >>"$found"
kill -9 "$supervisor" $(cat "/proc/$supervisor/task/$supervisor/children")
grep -q pidns "$work/log" || ! flock -n "$work/lock" true || echo "nothing was left: the test proves nothing" >>"$found"
timeout 60 "$periodic" "$store" "$work/lines" 1 1 2>>"$found" || echo "periodic_job ended with $?" >>"$found"
[ -s "$work/lines" ] || echo "it did not lead" >>"$found"
flock -n "$work/lock" true || echo "the work is still alive" >>"$found"
wait "$supervisor" 2>/dev/null
tap_empty "what a killed 'bellwether run' left running is dead before a program leads" "$found"
tap_end
