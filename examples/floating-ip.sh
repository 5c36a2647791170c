#!/bin/sh
# Holds a floating IPv4 address while it runs, as the command of a leader:
#     bellwether run --store URL --election vip -- floating-ip.sh 192.0.2.10/24 eth0
# It needs root (or CAP_NET_ADMIN and CAP_NET_RAW), `ip` and `arping` (Debian: iputils-arping).
#
# - It waits until no other host answers for the address (duplicate address detection).
# - It adds the address with a lifetime of 5 s and renews it every second. If this script is killed or stopped, the kernel
#   removes the address, so a former leader never keeps it for longer than that.
# - It announces the address by gratuitous ARP, so that neighbours send to this host at once.
# - On SIGTERM it removes the address and ends.
set -u
[ $# -eq 2 ] || { echo "usage: floating-ip.sh ADDRESS/PREFIX DEVICE" >&2; exit 64; }
address=$1 device=$2 ip=${1%/*} lifetime=5

stop() {
    trap '' TERM INT HUP
    ip addr del "$address" dev "$device" 2>/dev/null
    exit 0
}
trap stop TERM INT HUP

hold() { ip addr replace "$address" dev "$device" valid_lft $lifetime preferred_lft $lifetime noprefixroute; }

# The former leader may have been killed: its address lasts for its lifetime. Another host that keeps the address is an error.
tries=0
until arping -q -D -c 1 -w 1 -I "$device" "$ip"; do
    tries=$((tries + 1))
    [ $tries -le 20 ] || { echo "floating-ip.sh: another host still answers for $ip; giving up" >&2; exit 1; }
    sleep 0.5 &
    wait $!
done
hold || exit 1
arping -q -U -c 3 -I "$device" "$ip" &
while :; do
    sleep 1 & # in the background, so that a signal is handled at once
    wait $!
    hold || exit 1
done
