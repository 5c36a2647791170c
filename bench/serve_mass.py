#!/usr/bin/env python3
"""Measures mass events at three durable nodes of `bellwether serve` and of etcd, in turn: leases that expire in one second, watchers
of one key, and candidates in one queue whose head dies. For each: the time until all are served, the worst delay of a client that
puts a small key every 5 ms meanwhile, and the memory of the leader.

    serve_mass.py BELLWETHER SERVE_MASS [--scale PART] [--only ours|etcd]

With --scale 0.01 the events have 1 % of their size."""
import argparse
import json
import os
import subprocess
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.dont_write_bytecode = True

import serve_clusters as clusters  # noqa: E402

PREPARE_S = 100  # leases get so much time to be granted before they all expire
DEATHS = 20
LIMIT_S = 500


def events(scale):
    """Name, command line after the endpoint."""
    leases, watchers, candidates = (max(int(n * scale), 100) for n in (100000, 100000, 10000))
    prepare = max(int(PREPARE_S * scale), 10)
    return [(f"{leases} leases expire in one second", ["expire"], [leases, 8, prepare]),
            (f"{watchers} watchers of one key", ["watchers"], [watchers, 20]),
            (f"{candidates} candidates, the head dies", ["queue"], [candidates, candidates // 90 + 1, DEATHS])]


def measure(server, start, program, command, words):
    with clusters.Place("mass-" + server) as place:
        cluster = start(place)
        endpoint = cluster.leader()
        pid = cluster.pid_at(endpoint)
        before = clusters.resident_mb(pid)
        done = subprocess.run([program, *command, endpoint, *map(str, words)], capture_output=True, text=True, timeout=LIMIT_S,
                              check=False)
        if done.returncode != 0:
            return {"error": done.stderr.strip().splitlines()[-1:] or [done.stdout.strip()[-200:]]}
        figures = json.loads(done.stdout.splitlines()[-1])
        figures["peak_mb"] = clusters.peak_mb(pid)
        time.sleep(5)
        figures["before_mb"], figures["after_mb"] = before, clusters.resident_mb(pid)
        return figures


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bellwether")
    parser.add_argument("serve_mass")
    parser.add_argument("--scale", type=float, default=1)
    parser.add_argument("--only", choices=["ours", "etcd"])
    given = parser.parse_args()
    starts = clusters.starts(given.bellwether)
    print(f"{'':38} {'server':10} {'done ms':>9} {'canary ms, median before':>25} {'worst':>8} {'MB before':>10} {'peak':>6} {'after':>6}")
    failed = False
    for name, command, words in events(given.scale):
        for server, start in starts.items():
            if given.only and server != {"ours": "bellwether"}.get(given.only, given.only):
                continue
            got = measure(server, start, os.path.abspath(given.serve_mass), command, words)
            if "error" in got:
                print(f"{name:38} {server:10} failed: {got['error']}", flush=True)
                failed |= server == "bellwether"
                continue
            print(f"{name:38} {server:10} {got['ms']:9.1f} {got['canary_before_us'] / 1000:25.1f} {got['canary_worst_us'] / 1000:8.1f}"
                  f" {got['before_mb']:10.0f} {got['peak_mb']:6.0f} {got['after_mb']:6.0f}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
