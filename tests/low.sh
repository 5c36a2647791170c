#!/bin/sh
# low.sh COMMAND...   runs a command at the lowest priority. For commands whose result does not depend on time, beside tests that
# wait for real clocks. Needs a session of its own if the kernel shares the cores between sessions (autogroup).
{ echo 19 >/proc/self/autogroup; } 2>/dev/null
exec nice -n 19 "$@"
