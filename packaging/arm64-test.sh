#!/bin/sh
# The part of arm64.sh that runs in the Debian with both architectures: /source is the source, /build the build directory.
#     arm64-test.sh JOBS
set -eu
cd /
[ -e /build/build.ninja ] || meson setup /build /source --cross-file /source/packaging/arm64.ini >/tmp/setup || {
    tail -20 /tmp/setup >&2
    exit 1
}
ninja -j"$1" -C /build --quiet
file=$(od -An -t x1 -j 18 -N 2 /build/bellwether)
[ "$file" = ' b7 00' ] || { # e_machine of an ELF file: EM_AARCH64
    echo "the program in /build is not for arm64" >&2
    exit 1
}

programs=0 failed='' cases=0
for program in /build/tests/unit-*; do
    [ -f "$program" ] || continue
    programs=$((programs + 1))
    if CMOCKA_MESSAGE_OUTPUT=TAP timeout 900 qemu-aarch64 "$program" >/tmp/out 2>&1; then
        cases=$((cases + $(grep -c '^ok' /tmp/out)))
    else
        failed="$failed ${program##*/}"
        echo "--- ${program##*/}"
        grep -v '^ok' /tmp/out | tail -20
    fi
done
echo "unit tests: $programs programs, $cases passed tests; failed:${failed:- none}"
[ "$programs" -gt 0 ]

# Commands that must succeed, and what they must print.
wrong=$failed
expect() { # NAME PATTERN COMMAND...
    name=$1 pattern=$2
    shift 2
    if timeout 120 "$@" >/tmp/out 2>&1 && grep -q "$pattern" /tmp/out; then
        echo "ok: $name"
    else
        echo "FAILED: $name"
        tail -20 /tmp/out
        wrong="$wrong $name"
    fi
}

cat >/tmp/run.sh <<'END'
exec qemu-aarch64 /build/bellwether run --store sqlite:/tmp/elections.db --election smoke --once -- sh -c 'echo "token $BELLWETHER_TOKEN"'
END
expect "run leads on a new SQLite file" '^token 1$' sh /tmp/run.sh
expect "run leads again with the next token" '^token 2$' sh /tmp/run.sh
expect "peer --help" 'algorithm' qemu-aarch64 /build/bellwether peer --help
cat >/tmp/peer.sh <<'END'
exec qemu-aarch64 /build/bellwether peer --id 1 --listen 127.0.0.1:7101 --join 127.0.0.1:7101 --expect 1 --data /tmp/peer \
    --election smoke --once -- sh -c 'echo "token $BELLWETHER_TOKEN"'
END
expect "a single Raft peer leads" '^token [0-9]' sh /tmp/peer.sh

qemu-aarch64 /build/bellwether serve --data /tmp/serve --listen 127.0.0.1:2379 >/tmp/serve.log 2>&1 &
serve=$!
put='{"key":"Zm9v","value":"YmFy"}' left=600
until curl -sf -d "$put" http://127.0.0.1:2379/v3/kv/put >/tmp/put 2>&1 || [ "$left" -eq 0 ]; do
    left=$((left - 1))
    sleep 0.1
done
expect "serve answers a put" '"revision"' cat /tmp/put
expect "serve answers a get" '"YmFy"' curl -sf -d '{"key":"Zm9v"}' http://127.0.0.1:2379/v3/kv/range
kill "$serve" && wait "$serve" || wrong="$wrong serve-exit"
[ -z "$wrong" ]
