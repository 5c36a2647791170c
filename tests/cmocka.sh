#!/bin/sh
# Runs a cmocka program and prints its skipped tests as TAP defines it: `ok N - NAME # SKIP`. cmocka itself
# prints `not ok N # SKIP NAME`, which TAP readers count as a failure. Exits with the program's exit code.
#     cmocka.sh PROGRAM [ARGUMENT...]
export CMOCKA_MESSAGE_OUTPUT=TAP
exec 4>&1
status=$({ {
    "$@" 3>&- 4>&-
    echo $? >&3
} | sed -u -E 's/^(not )?ok ([0-9]+) # SKIP (.*)$/ok \2 - \3 # SKIP/' >&4; } 3>&1)
exit "$status"
