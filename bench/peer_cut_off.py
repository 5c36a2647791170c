#!/usr/bin/env python3
"""Measures the time without a running command after the leader's host is cut off silently. Five hosts (network namespaces), raft.
The time runs from the cut to the next leader's command. Lower bound: 1.5 times the detection time, and the promise to the old leader.

    peer_cut_off.py BELLWETHER WITNESS RELAY [ROUNDS]"""
import os
import statistics
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tests", "system", "kit"))
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tests", "system", "peer"))
sys.dont_write_bytecode = True

from netns_lib import why_not  # noqa: E402
from peer_matrix import TTL_S, Peers  # noqa: E402

PROGRAMS = [os.path.abspath(p) for p in sys.argv[1:4]]
ROUNDS = int(sys.argv[4]) if len(sys.argv) > 4 else 5
DETECT_S, PERIOD_S, DRIFT = 0.5, 0.1, 0.01
PROMISE_S = (TTL_S * 5 / 4 + 2 * PERIOD_S) * (1 + DRIFT) / (1 - DRIFT)


def main():
    if why_not():
        print(f"skipped: {why_not()}")
        return
    seen = []
    with Peers(PROGRAMS, "raft", True) as peers:
        peers.start_all()
        for _ in range(ROUNDS):
            leader = peers.await_one()
            time.sleep(2 * PROMISE_S)
            peers.net.isolate(leader)
            began = time.monotonic()
            peers.await_running(lambda hosts: hosts and leader not in hosts, "another to work")
            seen.append(time.monotonic() - began)
            peers.net.heal()
            peers.judge()
    print(f"TTL {TTL_S:g} s: cut off to the next command {statistics.median(seen):.2f} s median of {ROUNDS}, worst {max(seen):.2f}; "
          f"1.5 x detection + promise = {1.5 * DETECT_S + PROMISE_S:.2f} s")


if __name__ == "__main__":
    main()
