#!/usr/bin/env python3
"""Twenty percent of all packets are lost, but no peer fails: does the leader change? Five hosts (network namespaces),
default settings, with the phi detector and with Raft's own timers, side by side.

    peer_lossy.py BELLWETHER WITNESS RELAY [--seconds N]"""
import argparse
import json
import os
import sys
import time
import traceback

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "kit"))
from netns_lib import why_not
from peer_matrix import Peers
from run_lib import Tap

LOSS = 20
CASES = {"bully with phi": ("bully", True), "lowest-id with phi": ("lowest-id", True), "raft": ("raft", True)}


def elections(peers):
    """How often each peer was elected, according to its own log."""
    count = 0
    for number in peers.net.hosts:
        with open(os.path.join(peers.dir, f"{number}.err"), encoding="utf-8", errors="replace") as file:
            for line in file:
                try:
                    count += json.loads(line).get("event") == "elected"
                except ValueError:
                    pass
    return count


def main():
    reader = argparse.ArgumentParser()
    reader.add_argument("programs", nargs=3)
    reader.add_argument("--seconds", type=float, default=20)
    options = reader.parse_args()
    programs = [os.path.abspath(p) for p in options.programs]
    tap, reason = Tap(), why_not()
    rooms, before = {}, {}
    for name, (algorithm, guarded) in CASES.items():
        if reason:
            tap.skip(name, reason)
            continue
        peers = rooms[name] = Peers(programs, algorithm, guarded)
        peers.times = []
        peers.start_all()
        peers.await_one()
        before[name] = elections(peers)
        peers.net.loss(LOSS)
    time.sleep(options.seconds if rooms else 0)
    for name, peers in rooms.items():
        with peers:
            try:
                more = elections(peers) - before[name]
                assert more == 0, f"{more} more elections in {options.seconds:g} s\n{peers.story()}"
                tap.result(True, f"{name}: {LOSS} % loss for {options.seconds:g} s, no election")
            except Exception:  # the other cases still run
                tap.result(False, name, traceback.format_exc())
    return tap.end()


if __name__ == "__main__":
    sys.exit(main())
