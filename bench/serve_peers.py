#!/usr/bin/env python3
"""Compares the speed of `bellwether serve` with etcd and ZooKeeper: three durable nodes each, one after the other on this machine,
with the same client for the first two. Compare the ratios, not the figures: all share the machine with the client.

    serve_peers.py BELLWETHER SERVE_LOAD [ZOOKEEPER_LOAD] [SECONDS]"""
import json
import os
import socket
import statistics
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tests", "system", "kit"))
sys.dont_write_bytecode = True

from store_lib import Place, Server, Skip, free_ports, listens, program  # noqa: E402

BELLWETHER, LOAD = map(os.path.abspath, sys.argv[1:3])
ZOOKEEPER_LOAD = next((word for word in sys.argv[3:] if not word.isdigit()), None)
SECONDS = next((word for word in sys.argv[3:] if word.isdigit()), "3")
JARS = "/usr/share/java"
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


def zookeeper(place):
    java = program("java", "default-jre-headless")
    if not ZOOKEEPER_LOAD or not os.path.exists(f"{JARS}/zookeeper.jar"):
        raise Skip("zookeeper or its client library is not installed")
    peers, clients = free_ports(6), free_ports(3)
    lines = "".join(f"server.{i + 1}=127.0.0.1:{peers[2 * i]}:{peers[2 * i + 1]}\n" for i in range(3))
    for i, port in enumerate(clients):
        data = place.folder(f"data{i}")
        place.file(f"data{i}/myid", f"{i + 1}\n")
        config = place.file(f"zoo{i}.cfg", f"tickTime=2000\ninitLimit=10\nsyncLimit=5\ndataDir={data}\nclientPort={port}\n"
                            f"clientPortAddress=127.0.0.1\nadmin.enableServer=false\nmaxClientCnxns=0\n"
                            f"4lw.commands.whitelist=*\n{lines}")
        Server(place, f"zk{i}", [java, "-Xmx1g", "-cp", f"{JARS}/zookeeper.jar", "org.apache.zookeeper.server.quorum.QuorumPeerMain",
                                 config], ready=lambda port=port: mode(port) != "").start(wait=False)
    for server in place.servers:
        server.wait_ready()
    return clients


def mode(port):
    """Returns the mode that a ZooKeeper server reports; "" before it has one."""
    try:
        with socket.create_connection(("127.0.0.1", port), 5) as link:
            link.sendall(b"srvr")
            words = link.makefile().read().split()
    except OSError:
        return ""
    return words[words.index("Mode:") + 1] if "Mode:" in words else ""


def load(*words, by=LOAD):
    done = subprocess.run([by, *map(str, words)], capture_output=True, text=True, check=True, timeout=300)
    return json.loads(done.stdout.splitlines()[-1])


def leader(ports):
    """Returns the leader's endpoint, as etcdctl reports it."""
    for _ in range(200):
        done = subprocess.run([program("etcdctl", "etcd-client"), "--command-timeout=2s", "endpoint", "status", "-w", "json",
                               "--endpoints=" + ",".join(f"127.0.0.1:{p}" for p in ports)], capture_output=True, text=True,
                              env=dict(os.environ, ETCDCTL_API="3"), check=False)
        for row in json.loads(done.stdout or "[]"):
            status = row["Status"]
            if status.get("leader") and status["leader"] == status["header"]["member_id"]:
                return row["Endpoint"]
        time.sleep(0.1)
    raise AssertionError("no leader")


def cycles(run):
    figures = {}
    run(64, 1)  # warm
    for clients in (1, 64, 256):
        runs = [run(clients, SECONDS) for _ in range(ROUNDS)]
        figures[f"{clients} clients, cycles/s"] = statistics.median(r["per_s"] for r in runs)
        figures[f"{clients} clients, p50 us"] = statistics.median(r["p50_us"] for r in runs)
        figures[f"{clients} clients, client's core"] = statistics.median(r["client_core"] for r in runs)
    return figures


def measure(start, name):
    with Place("bench-" + name) as place:
        endpoint = leader(start(place))
        figures = cycles(lambda clients, seconds: load("cycles", endpoint, clients, min(clients, 8), seconds))
        figures["keep-alives/s, 100,000 leases"] = load("keepalive", endpoint, 100000, 8, SECONDS)["per_s"]
    return figures


def measure_zookeeper():
    with Place("bench-zookeeper") as place:
        ports = zookeeper(place)
        first = next(port for port in ports if mode(port) == "leader")
        return cycles(lambda clients, seconds: load(f"127.0.0.1:{first}", clients, min(clients, 8), seconds, by=ZOOKEEPER_LOAD))


def main():
    columns = {"bellwether": lambda: measure(ours, "ours"), "etcd": lambda: measure(etcd, "etcd"), "zookeeper": measure_zookeeper}
    seen = {}
    for name, column in columns.items():
        try:
            seen[name] = column()
        except Skip as why:
            print(f"{name}: skipped: {why}")
            seen[name] = {}
    print(f"{'':34}" + "".join(f" {name:>12}" for name in columns) + f" {'/ etcd':>9} {'/ zookeeper':>12}")
    for key, value in seen["bellwether"].items():
        others = [seen[name].get(key) for name in ("etcd", "zookeeper")]
        shown = "".join(f" {other:12.2f}" if other else f" {'':12}" for other in others)
        ratios = [f"{value / other:.2f}" if other else "" for other in others]
        print(f"{key:34} {value:12.2f}{shown} {ratios[0]:>9} {ratios[1]:>12}")


if __name__ == "__main__":
    main()
