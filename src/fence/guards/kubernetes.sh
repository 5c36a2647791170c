#!/bin/sh
# Changes a Kubernetes object only with a token at least as high as the highest it has seen:
#
#   kubernetes_guard.sh KIND/NAME TOKEN [OPERATION]...
#
# An OPERATION is one of a JSON Patch: '{"op":"replace","path":"/data/mode","value":"active"}'. The object's annotation
# bellwether/token contains the highest token. One patch tests that the object is unchanged since it was read, raises the
# annotation and applies the operations: the API server does all of it or nothing. In any language: read the object, compare
# the tokens, and write the object with the resourceVersion that was read.
# Exit code 0: written. 77: ESTALE, the token is older. 64: ENOTOKEN, or wrong usage. 74: the object cannot be read or changed.
# KUBECONFIG and the pod's service account apply as for kubectl; set KUBECTL to use another program.
[ $# -ge 2 ] || { echo "usage: $0 KIND/NAME TOKEN [OPERATION]..." >&2; exit 64; }
object=$1 token=$2 changes=
shift 2
case $token in
'' | 0* | *[!0-9]* | ????????????????????*) echo "ENOTOKEN: invalid token '$token': expected a positive number" >&2; exit 64 ;;
esac
for change; do changes="$changes,$change"; done
fields='{.metadata.resourceVersion} {.metadata.annotations.bellwether/token} {.metadata.annotations}'
round=0 last=
while [ $round -lt 10 ]; do
    all=$(${KUBECTL:-kubectl} get "$object" -o "jsonpath=$fields") || exit 74
    version=${all%% *} rest=${all#* }
    highest=${rest%% *} make=
    [ "$version" != "$last" ] || exit 74 # the object is unchanged: the patch itself is invalid
    last=$version
    case $highest in *[!0-9]*) echo "the annotation bellwether/token of $object is not a number" >&2; exit 74 ;; esac
    if [ "${highest:-0}" -gt "$token" ]; then
        echo "ESTALE: token $token is older than $highest" >&2
        exit 77
    fi
    [ -n "${rest#* }" ] || make='{"op":"add","path":"/metadata/annotations","value":{}},'
    test='{"op":"test","path":"/metadata/resourceVersion","value":"'$version'"}'
    raise='{"op":"add","path":"/metadata/annotations/bellwether~1token","value":"'$token'"}'
    ${KUBECTL:-kubectl} patch "$object" --type=json -p "[$test,$make$raise$changes]" >&2 && exit 0
    round=$((round + 1)) # another client changed it meanwhile: compare with that
done
exit 74
