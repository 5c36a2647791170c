#!/bin/sh
# containment.sh KIND   exits with 0 if this machine permits this containment; otherwise prints the reason and exits with 1.
# It tries without Bellwether: a test may be skipped because of the machine, but not because Bellwether fails.
mount_of_cgroup2() {
    awk '{ for (i = 7; i < NF; i++) if ($i == "-" && $(i + 1) == "cgroup2") { print $4, $5; exit } }' /proc/self/mountinfo
}

case $1 in
auto | subreaper) ;;
pidns)
    unshare --pid --fork true 2>&1 || exit 1
    ;;
cgroup)
    mount_of_cgroup2 | {
        read -r root point || { echo "cgroup v2 is not mounted" && exit 1; }
        own=$(sed -n 's/^0:://p' /proc/self/cgroup)
        dir=$point${own#"${root%/}"}/containment-$$
        mkdir "$dir" 2>&1 || exit 1
        sh -c 'echo $$ >"$1/cgroup.procs"' sh "$dir" 2>&1
        code=$?
        rmdir "$dir" 2>&1 || exit 1
        exit $code
    } || exit 1
    ;;
*)
    echo "no containment '$1'"
    exit 1
    ;;
esac
