#!/usr/bin/env python3
"""How fast `bellwether serve` is beside etcd: three durable nodes each, one after the other on this machine, the same lean
client on both. Ratios count, not figures: both share the machine with the client.

    serve_peers.py BELLWETHER SERVE_LOAD [SECONDS]"""
import json
import os
import statistics
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tests", "system"))
sys.dont_write_bytecode = True

from store_lib import Place, Server, Skip, free_ports, listens, program  # noqa: E402

BELLWETHER, LOAD = sys.argv[1:3]
SECONDS = sys.argv[3] if len(sys.argv) > 3 else "3"
ROUNDS = 3


def ours(place):
    peers, clients = free_ports(3), free_ports(3)
    cluster = ",".join(f"{n}=127.0.0.1:{p}" for n, p in zip("abc", peers))
    for name, port in zip("abc", clients):
        Server(place, name, [BELLWETHER, "serve", "--node", name, "--cluster", cluster, "--data", place.folder("data-" + name),
                             "--listen", f"127.0.0.1:{port}"], ready=lambda port=port: listens(port)).start(wait=False)
    for server in place.servers:
        server.wait_ready()
    return clients


def etcd(place):
    binary = program("etcd", "etcd-server")
    peers, clients = free_ports(3), free_ports(3)
    cluster = ",".join(f"{n}=http://127.0.0.1:{p}" for n, p in zip("abc", peers))
    for name, peer, port in zip("abc", peers, clients):
        url, own = f"http://127.0.0.1:{peer}", f"http://127.0.0.1:{port}"
        Server(place, name, [binary, "--name", name, "--data-dir", place.folder("data-" + name), "--listen-peer-urls", url,
                             "--initial-advertise-peer-urls", url, "--listen-client-urls", own, "--advertise-client-urls", own,
                             "--initial-cluster", cluster], ready=lambda port=port: listens(port)).start(wait=False)
    for server in place.servers:
        server.wait_ready()
    return clients


def load(*words):
    done = subprocess.run([LOAD, *map(str, words)], capture_output=True, text=True, check=True, timeout=300)
    return json.loads(done.stdout.splitlines()[-1])


def leader(ports):
    """The endpoint that leads, as etcdctl sees it."""
    for _ in range(200):
        done = subprocess.run([program("etcdctl", "etcd-client"), "--command-timeout=2s", "endpoint", "status", "-w", "json",
                               "--endpoints=" + ",".join(f"127.0.0.1:{p}" for p in ports)], capture_output=True, text=True,
                              env=dict(os.environ, ETCDCTL_API="3"), check=False)
        for row in json.loads(done.stdout or "[]"):
            status = row["Status"]
            if status.get("leader") and status["leader"] == status["header"]["member_id"]:
                return row["Endpoint"]
        time.sleep(0.1)
    raise AssertionError("nobody leads")


def measure(start, name):
    figures = {}
    with Place("bench-" + name) as place:
        endpoint = leader(start(place))
        load("cycles", endpoint, 64, 8, 1)  # warm
        for clients in (1, 64, 256):
            runs = [load("cycles", endpoint, clients, min(clients, 8), SECONDS) for _ in range(ROUNDS)]
            figures[f"{clients} clients, cycles/s"] = statistics.median(r["per_s"] for r in runs)
            figures[f"{clients} clients, p50 us"] = statistics.median(r["p50_us"] for r in runs)
            figures[f"{clients} clients, client's core"] = statistics.median(r["client_core"] for r in runs)
        figures["keep-alives/s, 100,000 leases"] = load("keepalive", endpoint, 100000, 8, SECONDS)["per_s"]
    return figures


def main():
    mine = measure(ours, "ours")
    try:
        theirs = measure(etcd, "etcd")
    except Skip as why:
        print(f"etcd: skipped: {why}")
        theirs = {}
    print(f"{'':34} {'bellwether':>12} {'etcd':>12} {'ratio':>8}")
    for key, value in mine.items():
        other = theirs.get(key)
        ratio = f"{value / other:8.2f}" if other else ""
        print(f"{key:34} {value:12.2f} {other if other is not None else float('nan'):12.2f} {ratio}")


if __name__ == "__main__":
    main()
