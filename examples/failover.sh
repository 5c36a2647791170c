#!/bin/sh
# Shows a failover on one screen: three candidates of one election on the embedded store. The leader is killed, and another
# candidate takes over. Then leadership is transferred to a named candidate. Each takeover is timed from the kill or the request
# to the first instruction of the next command, and shown with its fencing token.
#     failover.sh [BELLWETHER]     on a terminal it runs until Ctrl-C; otherwise it ends by itself
set -u
bellwether=${1:-build/bellwether}
dir=$(mktemp -d)
store=sqlite:$dir/elections.db
a= b= c=
: >"$dir/began"

stop() {
    trap - INT TERM EXIT
    for pid in $a $b $c; do kill -TERM "$pid" 2>/dev/null; done
    wait 2>/dev/null
    rm -rf "$dir"
}
trap 'stop; exit 130' INT TERM
trap stop EXIT

candidate() { # NAME: starts a candidate; its work records its start time and token
    "$bellwether" run --store "$store" --election nightly --id "$1" --log human -- sh -c '
        echo "$(date +%s%N) $BELLWETHER_ID $BELLWETHER_TOKEN" >>'"$dir"'/began
        exec sleep 1000000' 2>&1 &
}

began() { # N: waits until the N-th work has started, at most 20 s; sets at, who, token
    tries=0
    until [ "$(wc -l <"$dir/began")" -ge "$1" ]; do
        tries=$((tries + 1))
        [ $tries -le 2000 ] || { echo "failover.sh: no leader after 20 s" >&2; exit 1; }
        sleep 0.01
    done
    read -r at who token <<LINE
$(sed -n "$1p" "$dir/began")
LINE
}

pid_of() { eval "echo \$$1"; }

say() { printf '\n== %s\n' "$*"; }

row() { # WHAT SINCE: adds a line to the final table
    printf '%-32s %-8s %6s %9s ms\n' "$1" "$who" "$token" "$(((at - $2) / 1000000))" >>"$dir/table"
}

say "three candidates of the election 'nightly'; exactly one runs the work"
started=$(date +%s%N)
candidate a; a=$!
candidate b; b=$!
candidate c; c=$!
began 1
row "first election" "$started"
first=$who
sleep 1

say "SIGKILL to the leader, $first: its guardian kills the work, then another candidate starts"
killed=$(date +%s%N)
kill -KILL "$(pid_of "$first")"
began 2
row "leader $first killed" "$killed"
second=$who
sleep 1

for next in a b c; do
    [ $next = "$first" ] || [ $next = "$second" ] || break
done
say "leadership transferred to $next: bellwether transfer --to $next"
asked=$(date +%s%N)
"$bellwether" transfer --store "$store" --election nightly --to "$next"
began 3
row "transfer from $second to $next" "$asked"

say "what happened"
printf '%-32s %-8s %6s %12s\n' "" leader token "until work"
cat "$dir/table"
if [ -t 1 ]; then
    echo
    echo "Press Ctrl-C to stop. Try in another terminal:  $bellwether observe --store $store --election nightly"
    wait
fi
