#!/usr/bin/env python3
"""Every named crash point of `bellwether serve` (src/os/crash.h): a node dies there under load, dies there
again during recovery, starts again, and has everything that was acknowledged.

    serve_crash.py SERVE_CRASH SOURCES [--long] [NAME...]

SERVE_CRASH is the program with the points compiled in; the points are those found in SOURCES. The name of a
point decides how it is reached: most on a single node, bootstrap and snapshots from a leader on three. With
--long every point of a single node is also reached later and on three nodes."""
import concurrent.futures
import contextlib
import glob
import http.client
import itertools
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import traceback

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "kit"))
from run_lib import Tap, wait_for
from serve_lib import Link, b64
from store_lib import TIMEOUT_S, Place, free_ports

PROGRAM, SOURCES = os.path.abspath(sys.argv[1]), sys.argv[2]
LONG = "--long" in sys.argv
WANTED = [word for word in sys.argv[3:] if word != "--long"]
LEAST = 60  # the minimum number of points
VALUE = "v" * 6000  # so that segments and snapshots come soon
KEYS = 12
TORN = "wal.batch.torn-in-the-middle"


def points():
    text = "".join(open(path, encoding="utf-8").read() for path in sorted(glob.glob(SOURCES + "/**/*.c", recursive=True)))
    found = re.findall(r'\bBW_CRASH(?:_TORN|_HOLE)?\(\s*"([^"]+)"', text)
    with open(os.path.join(SOURCES, "os/file.h"), encoding="utf-8") as file:
        bodies = dict(re.findall(r"(bw_file_\w+)\((.*?)\n}\n", file.read(), re.S))
    steps = {name: re.findall(r'BW_CRASH_STEP\(crash, "([^"]+)"', body) for name, body in bodies.items()}
    steps["bw_file_replace"] += steps["bw_file_publish"]
    for call, name in re.findall(r'(bw_file_\w+)\([^;]*?BW_CRASH_FILE\("([^"]+)"', text):
        found += [f"{name}.{step}" for step in steps[call]]
    return sorted(set(found))


class Node:
    """One node; `at` is its crash point."""

    def __init__(self, place, name, port, cluster=None):
        self.name, self.port, self.log = name, port, os.path.join(place.dir, name + ".log")
        self.data = place.folder(name)
        self.words = [PROGRAM, "serve", "--node", name, "--data", self.data, "--listen", f"127.0.0.1:{port}"]
        self.words += ["--cluster", cluster] if cluster else []
        self.process = None

    def start(self, at=None, passes=0):
        environment = {k: v for k, v in os.environ.items() if not k.startswith("BW_CRASH")}
        if at:
            environment.update(BW_CRASH_AT=at, BW_CRASH_PASS=str(passes))
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(self.words, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment)

    def lives(self):
        if self.process is None or self.process.poll() is None:
            return self.process is not None
        assert self.process.returncode == -signal.SIGKILL, f"{self.name} ended with {self.process.returncode}:\n{self.tail()}"
        return False

    def ready(self):
        link = http.client.HTTPConnection("127.0.0.1", self.port, timeout=TIMEOUT_S)
        try:
            link.request("GET", "/health")
            return link.getresponse().status == 200
        except (OSError, http.client.HTTPException):
            return False
        finally:
            link.close()

    def wait_ready(self, may_die=False):
        """True: it serves. False: it died first, as expected."""
        until = time.monotonic() + TIMEOUT_S
        while not self.ready():
            if not self.lives():
                assert may_die, f"{self.name} died:\n{self.tail()}"
                return False
            assert time.monotonic() < until, f"{self.name} does not serve:\n{self.tail()}"
            time.sleep(0.01)
        return True

    def wait_death(self):
        wait_for(lambda: not self.lives(), TIMEOUT_S, 0.005)

    def kill(self):
        if self.process and self.process.poll() is None:
            self.process.kill()
        if self.process:
            self.process.wait()

    def tail(self):
        with open(self.log, encoding="utf-8", errors="replace") as file:
            return "".join(file.readlines()[-15:])


def answered(link, path, body):
    """Waits for an answer: a node that is far behind or has no leader yet refuses."""
    def good():
        """an answer"""
        status, answer = link.post(path, body)
        assert status in (200, 503), (status, answer)
        return [answer] if status == 200 else None
    return wait_for(good, TIMEOUT_S, 0.01)[0]


class Load:
    """Sequential writes, and what the answers promised. There is one writer: the last acknowledged value of a key,
    or one that was tried after it, must be there."""

    def __init__(self, nodes):
        self.nodes, self.links = nodes, [Link(node.port) for node in nodes]
        self.count = itertools.count(1)
        self.may, self.leases, self.acked = {}, set(), 0

    def put(self, link):
        number = next(self.count)
        key, value = f"k{number % KEYS}", f"{number} {VALUE}"
        may = self.may.setdefault(key, [None])
        may.append(value)
        status, answer = link.post("/v3/kv/put", {"key": b64(key), "value": b64(value)})
        if status == 200:
            may[:] = [value]
        return status == 200

    def grant(self, link):
        lease = next(self.count) + 1000
        status, _ = link.post("/v3/lease/grant", {"ID": str(lease), "TTL": "3000"})
        if status == 200:
            self.leases.add(lease)
        return status == 200

    def once(self, link):
        good = self.grant(link) if next(self.count) % 9 == 0 else self.put(link)
        self.acked += good
        return good

    def until_death(self, node, most=100000):
        """Loads the node until it dies, or until so many more were acknowledged."""
        link, end = self.links[self.nodes.index(node)], self.acked + most
        until = time.monotonic() + TIMEOUT_S
        while node.lives() and self.acked < end:
            assert time.monotonic() < until, f"{node.name} neither dies nor goes on:\n{node.tail()}"
            try:
                if not self.once(link):
                    time.sleep(0.005)
            except OSError:
                time.sleep(0.002)
        return not node.lives()

    def some(self, node, count):
        assert not self.until_death(node, count), f"{node.name} died:\n{node.tail()}"

    def found(self, node, local=False):
        """What differs from what was promised, read at this node; with `local` from its own data."""
        link, wrong = self.links[self.nodes.index(node)], []
        link.close()  # it may be from an earlier process
        for key, may in self.may.items():
            kvs = answered(link, "/v3/kv/range", {"key": b64(key), "serializable": local}).get("kvs", [])
            value = kvs[0]["value"] if kvs else None
            if value not in [b64(v) if v else None for v in may]:
                wrong.append(key)
        there = {int(lease["ID"]) for lease in answered(link, "/v3/lease/leases", {}).get("leases", [])}
        return wrong + sorted(self.leases - there)

    def check(self, node):
        wrong = self.found(node)
        assert not wrong, f"acknowledged, but not there at {node.name}: {wrong}\n{node.tail()}"
        wait_for(lambda: not self.found(node, local=True), TIMEOUT_S, 0.01)


def again(node, load):
    """Starts it without a crash, twice: recovery is repeatable."""
    for _ in range(2):
        node.kill()
        node.start()
        node.wait_ready()
        load.check(node)
    load.some(node, 3)


def die_alone(place, point, passes, before=None):
    """A single node dies at the point under load, and again when it restarts."""
    node = Node(place, "n0", free_ports()[0])
    load = Load([node])
    try:
        if before:
            node.start(before, 9)
            load.until_death(node)
        for life in range(2):
            node.start(point, passes if life == 0 else 0)
            if point.startswith("wal.close."):
                node.wait_ready()
                load.some(node, 5)
                node.process.terminate()
            died = load.until_death(node, 100000 if life == 0 else 150)
            assert died or life, f"{point} was never reached"
        again(node, load)
    finally:
        node.kill()


class Three:
    """Three nodes, and a load that any of them accepts."""

    def __init__(self, place):
        ports = free_ports(6)
        cluster = ",".join(f"n{i}=127.0.0.1:{port}" for i, port in enumerate(ports[3:]))
        self.nodes = [Node(place, f"n{i}", ports[i], cluster) for i in range(3)]
        self.load = Load(self.nodes)

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        for node in self.nodes:
            node.kill()

    def start(self, but=()):
        for node in self.nodes:
            if node not in but:
                node.start()

    def wait_ready(self, but=()):
        for node in self.nodes:
            if node not in but:
                node.wait_ready()

    def leader(self):
        def known():
            """a leader"""
            for node in self.nodes:
                link = http.client.HTTPConnection("127.0.0.1", node.port, timeout=TIMEOUT_S)
                try:
                    link.request("GET", "/metrics")
                    if re.search(rb"^etcd_server_is_leader 1", link.getresponse().read(), re.M):
                        return node
                except (OSError, http.client.HTTPException):
                    pass
                finally:
                    link.close()
            return None
        return wait_for(known, TIMEOUT_S, 0.01)


def die_bootstrapping(place, point, _passes):
    """One of three nodes dies while a new cluster bootstraps, twice."""
    with Three(place) as three:
        first = three.nodes[0]
        three.start(but=[first])
        for _ in range(2):
            first.start(point)
            if not first.wait_ready(may_die=True):
                first.wait_death()
        first.kill()
        first.start()
        three.wait_ready()
        three.load.some(first, 10)
        for node in three.nodes:
            three.load.check(node)
        again(first, three.load)


STRAY = "x" * 1000  # much more than what else is written meanwhile


def written(node):
    """Bytes of its log; the rest of a segment is zeros. A file removed meanwhile counts 0."""
    total = 0
    for log in pathlib.Path(node.data).glob("wal-*.log"):
        with contextlib.suppress(FileNotFoundError):
            total += len(log.read_bytes().rstrip(b"\0"))
    return total


def uncommitted_entries(three, leader):
    """Kills the others, so that entries reach only the leader's log. Returns False if nothing got there because
    the leader noticed first that it was alone."""
    before = written(leader)
    for node in three.nodes:
        if node is not leader:
            node.kill()
    links = [socket.create_connection(("127.0.0.1", leader.port)) for _ in range(70)]
    for number, link in enumerate(links):
        body = json.dumps({"key": b64("stray"), "value": b64(f"{number} {STRAY}")}).encode()
        link.sendall(b"POST /v3/kv/put HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
    wait_for(lambda: b"etcd_server_is_leader 0" in metrics(leader), TIMEOUT_S, 0.01)
    leader.kill()
    for link in links:
        link.close()
    return written(leader) - before > len(STRAY)


def diverged_node(three):
    """A stopped node with entries that no other has; the others run."""
    for _ in range(20):
        three.wait_ready()
        three.load.some(three.nodes[0], 3)
        victim = three.leader()
        astray = uncommitted_entries(three, victim)
        others = [node for node in three.nodes if node is not victim]
        for node in others:
            node.start()
        if astray:
            three.wait_ready(but=[victim])
            return victim, others
        victim.start()
    raise AssertionError("no leader took anything before it noticed that it was alone")


def metrics(node):
    link = http.client.HTTPConnection("127.0.0.1", node.port, timeout=TIMEOUT_S)
    try:
        link.request("GET", "/metrics")
        return link.getresponse().read()
    finally:
        link.close()


def die_receiving(place, chosen, tell):
    """A node with uncommitted entries of its own returns and receives a snapshot (or, for a truncation, entries);
    it dies at each point in turn, twice."""
    with Three(place) as three:
        three.start()
        three.wait_ready()
        for point in chosen:
            tell(point, lambda point=point: receive_once(three, point))


def raft_index(node):
    return int(answered(Link(node.port), "/v3/maintenance/status", {})["raftIndex"])


def log_starts_after(node, index):
    """Whether all snapshots of the node cover the index: it removes the older ones after it has dropped the log up to there."""
    names = [path.name for path in pathlib.Path(node.data).glob("snapshot-*") if path.suffix != ".tmp"]
    return bool(names) and all(int(name.split("-")[1], 16) > index for name in names)


def write_until_snapshot_is_needed(three, others):
    """Writes until the running nodes have dropped all entries that the stopped one lacks."""
    three.load.some(others[0], 1)
    last = raft_index(others[0])

    def dropped():
        """a snapshot in place of the log"""
        three.load.some(others[0], 1)
        return all(log_starts_after(node, last) for node in others)
    wait_for(dropped, TIMEOUT_S, 0)


def receive_once(three, point):
    victim, others = diverged_node(three)
    if point.startswith("raft."):
        three.load.some(others[0], 2)
    else:
        write_until_snapshot_is_needed(three, others)
    for life in range(2):
        victim.start(point)
        died = not victim.wait_ready(may_die=True) or three.load.until_death(victim, 20 if life else 300)
        assert died or life, f"{point} was never reached\n{victim.tail()}"
    victim.kill()
    three.load.some(others[1], 5)
    again(victim, three.load)
    for node in three.nodes:
        three.load.check(node)


def die_in_three(place, point, passes):
    """A node of three dies at the point under load from all sides, and again when it restarts."""
    with Three(place) as three:
        three.start()
        three.wait_ready()
        three.load.some(three.nodes[0], 10)
        victim = three.leader()
        victim.kill()
        for life in range(2):
            victim.start(point, passes if life == 0 else 0)
            if victim.wait_ready(may_die=True):
                three.load.until_death(victim, 300)
        others = [node for node in three.nodes if node is not victim]
        three.load.some(others[0], 5)
        again(victim, three.load)
        for node in three.nodes:
            three.load.check(node)


OFTEN = ("wal.batch.", "wal.commit.", "raft.durable.", "raft.entries.")  # reached before there is any load
RECEIVED = ("snapshot.incoming.", "snapshot.install.", "raft.truncate.")


class Results:
    def __init__(self):
        self.tap = Tap()

    def tell(self, name, test):
        try:
            test()
            self.tap.result(True, name)
        except Exception:  # noqa: BLE001 a test that breaks is a test that failed
            self.tap.result(False, name, traceback.format_exc())

    def alone(self, job):
        label, how, point, passes = job

        def test():
            with Place("crash") as place:
                how(place, point, passes)
        self.tell(label, test)


def die_clearing(place, point, passes):
    die_alone(place, point, passes, before=TORN)


def die_reading(place, point, passes):
    die_alone(place, point, passes, before="wal.batch.after-sync")


def way_of(point):
    if point.startswith("meet."):
        return die_bootstrapping
    if point.startswith("wal.tail."):
        return die_clearing
    if point in ("wal.open.before-reading", "wal.open.before-sync"):  # only if there is a log
        return die_reading
    return die_alone


def receive(chosen, results):
    with Place("crash") as place:
        die_receiving(place, chosen, results.tell)


def main():
    found, results = points(), Results()
    results.tell(f"there are at least {LEAST} crash points: {len(found)}", lambda: len(found) >= LEAST or 1 / 0)
    chosen = [p for p in found if not WANTED or any(word in p for word in WANTED)]
    received = [p for p in chosen if p.startswith(RECEIVED)]
    jobs = [(p, way_of(p), p, 9 if p.startswith(OFTEN) else 0) for p in chosen if p not in received]
    if LONG:
        later = [p for p in chosen if way_of(p) is die_alone and p not in received]
        jobs += [(f"{p}, met {n} times before", die_alone, p, n) for p in later for n in (3, 20)
                 if not p.startswith(("identity.", "life.", "lock.", "open.", "wal.open.", "wal.close."))]
        jobs += [(f"{p}, one of three", die_in_three, p, 5) for p in later]
    with concurrent.futures.ThreadPoolExecutor(6) as pool:
        rest = [pool.submit(receive, part, results) for part in (received[::2], received[1::2]) if part]
        rest += [pool.submit(results.alone, job) for job in jobs]
        for one in rest:
            one.result()
    sys.exit(results.tap.end())


if __name__ == "__main__":
    main()
