#!/bin/sh
# Draws the pictures of the documentation again; the same program gives the same bytes. The test `pictures` fails if the
# pictures in the tree differ from these.
#     make.sh [BELLWETHER [DIRECTORY]]
set -eu
bellwether=${1:-build/bellwether}
out=${2:-$(dirname "$0")}
"$bellwether" sim run --algorithm raft --nodes 5 --crash leader@2s..4s --partition 1,2,5/3,4@6s..10s --until 12s \
    --no-timeline --svg "$out/raft.svg" >/dev/null
"$bellwether" sim run --algorithm bully --nodes 5 --crash leader@2s..4s --partition 1,2,3/4,5@6s..10s --until 12s \
    --no-timeline --svg "$out/bully.svg" >/dev/null
