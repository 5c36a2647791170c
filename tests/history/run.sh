#!/bin/sh
# check-history on small histories that are right, wrong and malformed.
#     run.sh PROGRAM
set -u
here=$(dirname "$0")
program=$1
. "$here/../tap.sh"
said=$(mktemp)
trap 'rm -f "$said"' EXIT

judged() { # NAME EXIT TEXT [STEPS]
    "$program" ${4:+--steps "$4"} "$here/$1.jsonl" >"$said" 2>&1
    [ $? -eq "$2" ] && grep -qF "$3" "$said"
    if [ $? -eq 0 ]; then : >"$said"; else [ -s "$said" ] || echo "said nothing" >"$said"; fi
    tap_empty "$1 exits $2 and says: $3" "$said"
}

judged right 0 'linearizable'
judged stale_read 1 'stale_read.jsonl:3'
judged revived_lease 1 'revived_lease.jsonl:3'
judged old_revision 1 'old_revision.jsonl:2'
judged malformed 2 'malformed.jsonl:1: outcome'
judged right 3 'undecided' 1
judged right 0 'linearizable' 1000
judged right 2 'usage' none
tap_end
