#!/bin/sh
# Draws the pictures of the documentation anew; the same program gives the same bytes.
#     make.sh [BELLWETHER]
set -eu
bellwether=${1:-build/bellwether}
here=$(dirname "$0")
"$bellwether" sim run --algorithm raft --nodes 5 --crash leader@2s..4s --partition 1,2,5/3,4@6s..10s --until 12s \
    --no-timeline --svg "$here/raft.svg" >/dev/null
"$bellwether" sim run --algorithm bully --nodes 5 --crash leader@2s..4s --partition 1,2,3/4,5@6s..10s --until 12s \
    --no-timeline --svg "$here/bully.svg" >/dev/null
