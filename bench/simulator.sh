#!/bin/sh
# How fast the simulator is on this machine: virtual against real time for a steady Raft group, messages per second in
# a storm with all checkers on, and a large SWIM group.
#     simulator.sh [BELLWETHER]
set -eu
bellwether=${1:-build/bellwether}

field() { python3 -c 'import json, sys; d = json.load(sys.stdin); print(eval(sys.argv[1], {}, {"d": d}))' "$1"; }

printf 'raft, 5 nodes, 100 ms heartbeats, steady: '
"$bellwether" sim run --algorithm raft --nodes 5 --period 100ms --until 10h --json |
    field '"%.0f x real time on one core" % (d["virtual_ms"] / d["wall_ms"])'
