# Sourced by the shell tests: prints results in the Test Anything Protocol (TAP), like the C tests.
#     tap_ok NAME            tap_not_ok NAME [FILE with details]
#     tap_skip NAME WHY      tap_end        prints the plan; status 1 if a test failed
tap_count=0
tap_failed=0

tap_ok() {
    tap_count=$((tap_count + 1))
    echo "ok $tap_count - $1"
}

tap_not_ok() {
    tap_count=$((tap_count + 1))
    tap_failed=$((tap_failed + 1))
    echo "not ok $tap_count - $1"
    [ $# -lt 2 ] || sed 's/^/# /' "$2"
}

tap_skip() {
    tap_count=$((tap_count + 1))
    echo "ok $tap_count - $1 # SKIP $2"
}

# Passes if FILE is empty, otherwise fails and prints it.
tap_empty() {
    if [ -s "$2" ]; then tap_not_ok "$1" "$2"; else tap_ok "$1"; fi
}

tap_end() {
    echo "1..$tap_count"
    [ "$tap_failed" -eq 0 ]
}
