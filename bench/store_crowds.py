#!/usr/bin/env python3
"""Measures the cost of waiting on every store, and the order in which candidates lead: runs store-crowd on real servers on loopback.

    store_crowds.py STORE-CROWD [--candidates N] [--no-churn] [NAME...]

Prints two tables in Markdown: N (1,000) waiting candidates, and 20 candidates of which 8 come and go. docs/concepts/choosing.md contains
its output. A store whose server is not installed is named and skipped. The API server of Kubernetes is a stand-in."""
import argparse
import os
import re
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
TESTS = os.path.join(HERE, "..", "tests")
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tests", "system", "kit"))
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tests", "system", "store"))
import dynamodb_lib  # noqa: E402
from azure_rest import ACCOUNT  # noqa: E402
from kube_lib import Standin  # noqa: E402
from postgres_lib import Postgres  # noqa: E402
from store_lib import Place, Server, Skip, free_ports, program  # noqa: E402

HANDOVERS, FEW, CHURN, CHURN_HANDOVERS = 30, 20, 8, 100
JARS = "/usr/share/java"


def npm(package, version):
    done = subprocess.run([os.path.join(TESTS, "npm.sh"), package, version], capture_output=True, text=True, check=False)
    if done.returncode:
        raise Skip(f"{package} is not installed: {done.stdout.strip() or done.stderr.strip()}")
    return done.stdout.strip()


def sqlite(place):
    return "sqlite:" + os.path.join(place.dir, "elections.db")


def etcd(place):
    path, ports = program("etcd", "etcd-server"), free_ports(6)
    peers = [f"http://127.0.0.1:{p}" for p in ports[3:]]
    members = []
    for i in range(3):
        client = f"http://127.0.0.1:{ports[i]}"
        words = [path, "--name", f"m{i}", "--data-dir", place.folder(f"m{i}"), "--log-level", "error", "--listen-client-urls", client,
                 "--advertise-client-urls", client, "--listen-peer-urls", peers[i], "--initial-advertise-peer-urls", peers[i],
                 "--initial-cluster", ",".join(f"m{k}={peer}" for k, peer in enumerate(peers))]
        members.append(Server(place, f"etcd{i}", words, port=ports[i]).start(wait=False))
    for member in members:
        member.wait_ready()
    return "etcd://" + ",".join(f"127.0.0.1:{p}" for p in ports[:3])


def zookeeper(place):
    java, ports, peers = program("java", "default-jre-headless"), free_ports(3), free_ports(6)
    if not os.path.exists(f"{JARS}/zookeeper.jar"):
        raise Skip("zookeeper.jar is not installed: install zookeeper")
    lines = "".join(f"server.{i + 1}=127.0.0.1:{peers[2 * i]}:{peers[2 * i + 1]}\n" for i in range(3))
    servers = []
    for i, port in enumerate(ports):
        place.folder(f"zk{i}")
        place.file(f"zk{i}/myid", f"{i + 1}\n")
        config = place.file(f"zk{i}.cfg", f"tickTime=500\ninitLimit=50\nsyncLimit=10\ndataDir={place.dir}/zk{i}\nclientPort={port}\n"
                            "clientPortAddress=127.0.0.1\nadmin.enableServer=false\nmaxClientCnxns=0\nmaxSessionTimeout=120000\n" + lines)
        words = [java, "-Xmx256m", "-XX:+UseSerialGC", "-cp", f"{JARS}/zookeeper.jar",
                 "org.apache.zookeeper.server.quorum.QuorumPeerMain", config]
        servers.append(Server(place, f"zookeeper{i}", words, port=port).start(wait=False))
    for server in servers:
        server.wait_ready()
    return "zookeeper://" + ",".join(f"127.0.0.1:{p}" for p in ports)


def redis_server(place, name):
    port = free_ports()[0]
    words = [program("redis-server", "redis-server"), "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir",
             place.folder(name), "--maxclients", "5000"]
    return Server(place, name, words, port=port).start().port


def redis(place):
    return f"redis://127.0.0.1:{redis_server(place, 'redis')}"


def redlock(place):
    return "redis://" + ",".join(f"127.0.0.1:{redis_server(place, f'redis{i}')}" for i in range(5)) + "?restarts=durable"


def postgres(place):
    return Postgres(place, max_connections=2100).create().start().url()


def kubernetes(place):
    return Standin(place).url()


def azure(place):
    port = free_ports()[0]
    words = [os.path.join(npm("azurite", "3.35.0"), "azurite-blob"), "--blobHost", "127.0.0.1", "--blobPort", str(port),
             "--disableTelemetry", "--skipApiVersionCheck", "--silent", "--inMemoryPersistence"]
    Server(place, "azurite", words, port).start()
    return f"azure://{ACCOUNT}/elections?endpoint=http://127.0.0.1:{port}"


def dynamodb(place):
    port = free_ports()[0]
    words = [os.path.join(npm("dynalite", "4.0.0"), "dynalite"), "--host", "127.0.0.1", "--port", str(port), "--createTableMs", "0"]
    Server(place, "dynalite", words, port).start()
    dynamodb_lib.make_table(port, "locks")
    os.environ.update(AWS_ACCESS_KEY_ID="AKIDEXAMPLE", AWS_SECRET_ACCESS_KEY="of-nobody")
    return f"dynamodb://eu-central-1/locks?endpoint=http://127.0.0.1:{port}"


# Names in the tables, and the maximum number of candidates: these stores poll their server, so a thousand would only measure polling.
STORES = [(sqlite, "`sqlite:`", None), (etcd, "`etcd://`, 3 members", None), (zookeeper, "`zookeeper://`, 3 servers", None),
          (redis, "`redis://`", None), (redlock, "`redis://`, Redlock of 5", None), (postgres, "`postgres://`", None),
          (kubernetes, "`kubernetes:`, stand-in", None), (azure, "`azure:`, Azurite", 100), (dynamodb, "`dynamodb:`, dynalite", 100)]


def measure(crowd, start, *sizes):
    with Place("crowd") as place:
        done = subprocess.run([crowd, start(place), *map(str, sizes)], capture_output=True, text=True, check=False, timeout=1800)
    found = dict(re.findall(r"([a-z0-9-]+) ([0-9.]+)", done.stdout))
    if not found:
        raise Skip(f"ended with {done.returncode}: {done.stderr[-600:]}")
    return found, "" if done.returncode == 0 else " **out of order**"


def waiting(crowd, start, name, count):
    seen, note = measure(crowd, start, count, HANDOVERS)
    return f"| {name} | {count}{note} | {seen['told']} | {seen['ask']} | {seen['requests']} | {seen['median-ms']} ms | {seen['p99-ms']} ms |"


def churning(crowd, start, name):
    seen, note = measure(crowd, start, FEW, CHURN_HANDOVERS, CHURN)
    return f"| {name}{note} | {seen['in-order']} % | {seen['longest-wait']} | {seen['passed-over']} | {seen['served']} of {FEW} |"


def table(head, rows):
    print(head, "|" + " --- |" * (head.count("|") - 1), sep="\n")
    for row in rows:
        try:
            print(row(), flush=True)
        except Skip as why:
            print("skipped:", why, file=sys.stderr, flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("crowd")
    parser.add_argument("names", nargs="*")
    parser.add_argument("--candidates", type=int, default=1000)
    parser.add_argument("--no-churn", action="store_true")
    given = parser.parse_intermixed_args()
    chosen = [each for each in STORES if not given.names or each[0].__name__ in given.names]
    table("| store | waiting | told | ask | requests | median | p99 |",
          [lambda s=s, n=n, most=most: waiting(given.crowd, s, n, min(given.candidates, most or given.candidates))
           for s, n, most in chosen])
    if given.no_churn:
        return
    print()
    table("| store | to the longest waiter | longest wait | passed over at most | served |",
          [lambda s=s, n=n: churning(given.crowd, s, n) for s, n, _ in chosen])


main()
