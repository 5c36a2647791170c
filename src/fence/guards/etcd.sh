#!/bin/sh
# Writes a key of etcd only with a token at least as high as the highest it has seen:
#
#   etcd_guard.sh RESOURCE TOKEN [KEY VALUE]...
#
# The key RESOURCE/guard contains the highest token as 20 digits, so that etcd's comparison of bytes compares
# numbers. One transaction compares it, raises it and writes. In any language that transaction is
#
#   IF   value(RESOURCE/guard) < DIGITS~
#   THEN put RESOURCE/guard DIGITS; put KEY VALUE; ...
#
# and, if that key does not exist yet, IF version(RESOURCE/guard) = 0 with the same puts. Do not delete the guard's key.
# Exit code 0: written. 77: ESTALE, the token is older. 64: ENOTOKEN, or wrong usage. 74: etcd did not answer.
# ETCDCTL_ENDPOINTS and the other settings of etcdctl apply.
quote() { printf '%s' "$1" | sed -e 's/\\/\\\\/g' -e 's/"/\\"/g' -e '1h;1!H;$!d;x;s/\n/\\n/g'; }

[ $# -ge 2 ] || { echo "usage: $0 RESOURCE TOKEN [KEY VALUE]..." >&2; exit 64; }
guard=$(quote "$1/guard") token=$2 puts=
shift 2
case $token in
'' | 0 | *[!0-9]* | ?????????????????????*) echo "ENOTOKEN: invalid token '$token': expected a positive number" >&2; exit 64 ;;
esac
while [ ${#token} -lt 20 ]; do token=0$token; done
while [ $# -ge 2 ]; do
    puts="$puts
put \"$(quote "$1")\" \"$(quote "$2")\""
    shift 2
done

# Input of etcdctl txn: comparisons, an empty line, operations if they hold, an empty line, operations otherwise.
try() {
    printf '%s\n\nput "%s" %s%s\n\nget "%s"\n\n' "$1" "$guard" "$token" "$puts" "$guard" | ETCDCTL_API=3 etcdctl txn
}
round=0
while [ $round -lt 10 ]; do
    reply=$(try "value(\"$guard\") < \"$token~\"") || exit 74
    case $reply in SUCCESS*) exit 0 ;; esac
    highest=$(printf '%s\n' "$reply" | tail -n 1)
    case $highest in [0-9]*) echo "ESTALE: token $token is older than $highest" >&2; exit 77 ;; esac
    reply=$(try "version(\"$guard\") = \"0\"") || exit 74
    case $reply in SUCCESS*) exit 0 ;; esac
    round=$((round + 1)) # another client has just created it: compare with that
done
exit 74
