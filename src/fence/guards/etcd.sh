#!/bin/sh
# Writes a key of etcd only with a token at least as high as the highest it has seen:
#
#   etcd_guard.sh RESOURCE TOKEN [KEY VALUE]...
#
# The highest token stands in the key RESOURCE/guard, as 20 digits, so that etcd's comparison of bytes is one of
# numbers. One transaction compares it, raises it and writes; in any language that transaction is
#
#   IF   value(RESOURCE/guard) < DIGITS~
#   THEN put RESOURCE/guard DIGITS; put KEY VALUE; ...
#
# and, where there is no such key yet, IF version(RESOURCE/guard) = 0 with the same puts. Do not delete the guard's key.
# Exit 0: written. 77: ESTALE, the token is old. 64: ENOTOKEN, or usage. 74: etcd did not answer. ETCDCTL_ENDPOINTS and
# the other settings of etcdctl apply.
quote() { printf '%s' "$1" | sed -e 's/\\/\\\\/g' -e 's/"/\\"/g' -e '1h;1!H;$!d;x;s/\n/\\n/g'; }

[ $# -ge 2 ] || { echo "usage: $0 RESOURCE TOKEN [KEY VALUE]..." >&2; exit 64; }
guard=$(quote "$1/guard") token=$2 puts=
shift 2
case $token in
'' | 0 | *[!0-9]* | ?????????????????????*) echo "ENOTOKEN: '$token' is no token" >&2; exit 64 ;;
esac
while [ ${#token} -lt 20 ]; do token=0$token; done
while [ $# -ge 2 ]; do
    puts="$puts
put \"$(quote "$1")\" \"$(quote "$2")\""
    shift 2
done

# The transaction of etcdctl: comparisons, an empty line, what to do if they hold, an empty line, what else.
try() {
    printf '%s\n\nput "%s" %s%s\n\nget "%s"\n\n' "$1" "$guard" "$token" "$puts" "$guard" | ETCDCTL_API=3 etcdctl txn
}
round=0
while [ $round -lt 10 ]; do
    said=$(try "value(\"$guard\") < \"$token~\"") || exit 74
    case $said in SUCCESS*) exit 0 ;; esac
    highest=$(printf '%s\n' "$said" | tail -n 1)
    case $highest in [0-9]*) echo "ESTALE: token $token is older than $highest" >&2; exit 77 ;; esac
    said=$(try "version(\"$guard\") = \"0\"") || exit 74
    case $said in SUCCESS*) exit 0 ;; esac
    round=$((round + 1)) # somebody has just made it: compare with that
done
exit 74
