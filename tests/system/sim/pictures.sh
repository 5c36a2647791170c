#!/bin/sh
# Checks that the pictures of the documentation are those that the program draws now. Prints TAP.
#     pictures.sh BELLWETHER
set -u
bellwether=$1
pictures=$(cd "$(dirname "$0")/../../.." && pwd)/docs/pictures
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0
count=0
result() { # NAME STATUS
    count=$((count + 1))
    if [ "$2" -eq 0 ]; then
        echo "ok $count - $1"
    else
        failed=1
        echo "not ok $count - $1"
        echo "# run docs/pictures/make.sh $bellwether and commit the pictures"
    fi
}
sh "$pictures/make.sh" "$bellwether" "$work"
result "the pictures are drawn" $?
for picture in "$work"/*.svg; do
    name=$(basename "$picture")
    cmp "$picture" "$pictures/$name" >/dev/null 2>&1
    result "docs/pictures/$name is current" $?
done
[ "$count" -ge 3 ]
result "there are pictures" $?
echo "1..$count"
exit "$failed"
