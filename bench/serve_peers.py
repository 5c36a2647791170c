#!/usr/bin/env python3
"""Compares `bellwether serve` with etcd and ZooKeeper: three durable nodes each, in turn on this machine, with the same client for the
first two. All share the machine with the client, so compare the ratios within one run, not the figures.

    serve_peers.py BELLWETHER SERVE_LOAD [ZOOKEEPER_LOAD] [SECONDS] [--table] [--rounds N] [--data MB] [--full]

Without --table: cycles and keep-alives. With --table: also values of 10 KB, 100 KB and 1.4 MB by many writers at all nodes, TLS,
authentication, the latency of one client, leader changes, failed writes, CPU time, memory, disk, idle CPU time, and restart and
catch-up with DATA megabytes. Bellwether and etcd alternate, in N rounds; the table shows medians. --skip-restart leaves the last
two out. --full puts 10,000 values of 100 KB instead of 2,000, 400 of 1.4 MB instead of 200, and 10,000 of 10 KB."""
import argparse
import json
import os
import socket
import statistics
import subprocess
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.dont_write_bytecode = True

import serve_clusters as clusters  # noqa: E402
from serve_clusters import Place, Server, Skip, free_ports, program  # noqa: E402

JARS = "/usr/share/java"
ROUNDS = 3
LOAD_LIMIT_S = 600
# name, writers, puts, puts with --full, bytes
SIZES = (("10 KB", 64, 4000, 10000, 10000), ("100 KB", 200, 2000, 10000, 100000), ("1.4 MB", 16, 200, 400, 1400000))
DATA_VALUE = 100000
IDLE_S = 20


def zookeeper(place):
    java = program("java", "default-jre-headless")
    if not GIVEN.zookeeper_load or not os.path.exists(f"{JARS}/zookeeper.jar"):
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


def load(*words, by=None, env=None):
    """The figures that a load program prints, of all its lines."""
    done = subprocess.run([by or GIVEN.serve_load, *map(str, words)], capture_output=True, text=True, check=True, timeout=LOAD_LIMIT_S,
                          env=env)
    figures = {}
    for line in done.stdout.splitlines():
        figures.update(json.loads(line))
    return figures


def cycles(run, rounds=ROUNDS):
    figures = {}
    run(64, 1)  # warm
    for clients in (1, 64, 256):
        runs = [run(clients, GIVEN.seconds) for _ in range(rounds)]
        figures[f"{clients} clients, cycles/s"] = statistics.median(r["per_s"] for r in runs)
        figures[f"{clients} clients, p50 us"] = statistics.median(r["p50_us"] for r in runs)
        figures[f"{clients} clients, client's core"] = statistics.median(r["client_core"] for r in runs)
    return figures


def small(start, name):
    with Place("bench-" + name) as place:
        endpoint = start(place).leader()
        figures = cycles(lambda clients, seconds: load("cycles", endpoint, clients, min(clients, 8), seconds))
        figures["keep-alives/s, 100,000 leases"] = load("keepalive", endpoint, 100000, 8, GIVEN.seconds)["per_s"]
    return figures


def small_zookeeper():
    with Place("bench-zookeeper") as place:
        ports = zookeeper(place)
        first = next(port for port in ports if mode(port) == "leader")
        return cycles(lambda clients, seconds: load(f"127.0.0.1:{first}", clients, min(clients, 8), seconds, by=GIVEN.zookeeper_load))


# ---- the table: one round for one kind of cluster ----

def brief_cycles(cluster, label, counts):
    endpoint, env, figures = cluster.leader(), cluster.environment(), {}
    load("cycles", endpoint, 64, 8, 1, env=env)  # warm
    for clients in counts:
        got = load("cycles", endpoint, clients, min(clients, 8), GIVEN.seconds, env=env)
        figures[f"{label}{clients} clients, cycles/s"] = got["per_s"]
        if clients == 1:
            figures[f"{label}1 client, p50 us"] = got["p50_us"]
        figures[f"{label}failed requests"] = figures.get(f"{label}failed requests", 0) + got["errors"]
    return figures


def one_small(start, name):
    with Place("table-" + name) as place:
        cluster = start(place)
        before = [clusters.cpu_seconds(pid) for pid in cluster.pids()]
        time.sleep(IDLE_S)
        idle = [(clusters.cpu_seconds(pid) - b) * 60 / IDLE_S for pid, b in zip(cluster.pids(), before)]
        figures = {"idle node, CPU s a minute": max(idle)}
        figures.update(brief_cycles(cluster, "", (1, 64, 256)))
        figures["keep-alives/s, 20,000 leases"] = load("keepalive", cluster.leader(), 20000, 8, GIVEN.seconds)["per_s"]
        return figures


def one_size(start, name, label, writers, count, size):
    """Values of this size to one key: its versions become history."""
    with Place("table-" + name) as place:
        cluster = start(place)
        cluster.leader()
        term, spent = cluster.term(), sum(map(clusters.cpu_seconds, cluster.pids()))
        got = load("puts", cluster.endpoints(), "key", writers, count, size)
        cpu = sum(map(clusters.cpu_seconds, cluster.pids())) - spent
        cluster.leader()
        time.sleep(5)
        return {f"{label}, writes/s": got["per_s"], f"{label}, worst ms": got["max_us"] / 1000, f"{label}, failed writes": got["errors"],
                f"{label}, leader changes": cluster.term() - term, f"{label}, CPU ms a write, 3 nodes": cpu * 1000 / count,
                f"{label}, MB resident after": max(map(clusters.resident_mb, cluster.pids())),
                f"{label}, MB on disk after": max(map(cluster.disk_mb, range(3)))}


def one_secured(start, name, label, users):
    with Place("table-" + name) as place:
        cluster = start(place)
        cluster.leader()
        if users:
            cluster.require_users()
        return brief_cycles(cluster, label + ", ", (64, 256))


def revision(cluster, which):
    """The revision that this node has, whatever the others do; 0: it does not answer."""
    for endpoint, status in cluster.statuses().items():
        if endpoint == f"127.0.0.1:{cluster.ports[which]}":
            return int(status["header"].get("revision", 0))
    return 0


def seconds_until(question):
    began = time.monotonic()
    while not question():
        assert time.monotonic() - began < LOAD_LIMIT_S, "not done in time"
        time.sleep(0.02)
    return time.monotonic() - began


def read_seconds(folder):
    """The time to read all files of a folder that are not in the page cache."""
    paths = [os.path.join(where, name) for where, _, files in os.walk(folder) for name in files]
    for path in paths:
        leave_page_cache(path)
    began = time.monotonic()
    for path in paths:
        with open(path, "rb") as file:
            while file.read(1 << 20):
                pass
    return time.monotonic() - began


def leave_page_cache(path):
    with open(path, "rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def copy_seconds(folder, megabytes):
    """The time to copy a file of so many megabytes that is not in the page cache, and to sync the copy."""
    source, target = os.path.join(folder, "copied"), os.path.join(folder, "copy")
    with open(source, "wb") as file:
        for _ in range(megabytes):
            file.write(os.urandom(1000000))
    leave_page_cache(source)
    began = time.monotonic()
    with open(source, "rb") as file, open(target, "wb") as copy:
        while piece := file.read(1 << 20):
            copy.write(piece)
        copy.flush()
        os.fsync(copy.fileno())
    return time.monotonic() - began


def one_restart(start, name):
    """DATA megabytes of live keys: a node that restarts with them, and one that misses them."""
    count = GIVEN.data * 1000000 // DATA_VALUE
    with Place("table-" + name) as place:
        cluster = start(place)
        behind = next(i for i in range(3) if f"127.0.0.1:{cluster.ports[i]}" != cluster.leader())
        server, figures = cluster.servers[behind], {}
        server.kill()
        others = ",".join(f"127.0.0.1:{port}" for i, port in enumerate(cluster.ports) if i != behind)
        got = load("puts", others, "data/*", 64, count, DATA_VALUE)
        label = f"{GIVEN.data} MB of keys"
        figures[f"{label}, failed writes"] = got["errors"]
        began = time.monotonic()
        server.start(wait=False)
        seconds_until(lambda: revision(cluster, behind) >= got["revision"])
        figures[f"{label}, catch-up s"] = time.monotonic() - began
        server.kill()
        began = time.monotonic()
        server.start(wait=False)
        seconds_until(lambda: revision(cluster, behind) >= got["revision"])
        figures[f"{label}, restart s"] = time.monotonic() - began
        figures[f"{label}, reading its files s"] = read_seconds(os.path.join(place.dir, f"data-{'abc'[behind]}"))
        figures[f"{label}, copying a file of that size s"] = copy_seconds(place.dir, GIVEN.data)
        figures[f"{label}, MB resident after"] = clusters.resident_mb(server.process.pid)
        figures[f"{label}, MB on disk after"] = cluster.disk_mb(behind)
        return figures


def parts():
    """Every part of the table: a function of a cluster's name that returns figures."""
    plain, tls = clusters.starts(GIVEN.bellwether), clusters.starts(GIVEN.bellwether, tls=True)
    yield lambda name: one_small(plain[name], name)
    for label, writers, count, full, size in SIZES:
        load_of = (label, writers, full if GIVEN.full else count, size)
        yield lambda name, load_of=load_of: one_size(plain[name], name, *load_of)
    yield lambda name: one_secured(tls[name], name, "TLS", False)
    yield lambda name: one_secured(plain[name], name, "users", True)
    if not GIVEN.skip_restart:
        yield lambda name: one_restart(plain[name], name)


def table():
    names = ("bellwether", "etcd")
    print(f"load average {os.getloadavg()[0]:.1f}, {os.cpu_count()} cores, {GIVEN.rounds} rounds")
    print(f"{'':44} {'bellwether':>12} {'etcd':>12} {'/ etcd':>8}")
    for part in parts():
        seen = {name: {} for name in names}
        for _ in range(GIVEN.rounds):
            for name in names:
                for key, value in part(name).items():
                    seen[name].setdefault(key, []).append(value)
        for key, values in seen["bellwether"].items():
            counted = "failed" in key or "changes" in key
            ours, theirs = (sum(v) if counted else statistics.median(v) for v in (values, seen["etcd"][key]))
            ratio = f"{ours / theirs:.2f}" if theirs and not counted else ""
            print(f"{key:44} {ours:12.2f} {theirs:12.2f} {ratio:>8}", flush=True)
    print(f"load average {os.getloadavg()[0]:.1f}")


def brief():
    starts = clusters.starts(GIVEN.bellwether)
    columns = {name: (lambda name=name: small(starts[name], name)) for name in starts}
    columns["zookeeper"] = small_zookeeper
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


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bellwether", type=os.path.abspath)
    parser.add_argument("serve_load", type=os.path.abspath)
    parser.add_argument("more", nargs="*", help="ZOOKEEPER_LOAD and SECONDS")
    parser.add_argument("--table", action="store_true")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--data", type=int, default=200, help="megabytes for restart and catch-up (default: 200)")
    parser.add_argument("--skip-restart", action="store_true")
    parser.add_argument("--full", action="store_true", help="10,000 values of 10 KB and of 100 KB, and 400 of 1.4 MB")
    given = parser.parse_args()
    given.zookeeper_load = next((word for word in given.more if not word.isdigit()), None)
    given.seconds = next((word for word in given.more if word.isdigit()), "3")
    return given


if __name__ == "__main__":
    GIVEN = parse()
    if GIVEN.table:
        table()
    else:
        brief()
