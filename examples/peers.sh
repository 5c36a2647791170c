#!/bin/sh
# Three peers without any service: one leads, it is killed, and another takes over.
#     examples/peers.sh [BELLWETHER]
set -eu
bellwether=${1:-bellwether}
dir=$(mktemp -d)
pids=
trap 'kill $pids 2>/dev/null || :; wait; rm -rf "$dir"' EXIT
peers=127.0.0.1:7101,127.0.0.1:7102,127.0.0.1:7103

for i in 1 2 3; do
    "$bellwether" peer --id $i --listen 127.0.0.1:710$i --data "$dir/$i" --join $peers --expect 3 --log human -- \
        sh -c 'echo "peer $BELLWETHER_ID leads with token $BELLWETHER_TOKEN"; exec sleep 1000' &
    pids="$pids $!"
    eval "pid$i=$!"
done

until "$bellwether" peer status --join $peers --json 2>/dev/null | grep -q '"leading": *true'; do sleep 0.2; done
sleep 1
"$bellwether" peer status --join $peers
leader=$("$bellwether" peer status --join $peers --json | tr '{' '\n' | sed -n 's/.*"id": *\([0-9]*\).*"leading": *true.*/\1/p')
echo "killing peer $leader"
eval "kill -9 \$pid$leader"
sleep 1
"$bellwether" peer status --join $peers || :
