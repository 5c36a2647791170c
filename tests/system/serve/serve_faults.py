#!/usr/bin/env python3
"""`bellwether serve` on disks that fail, fill up or stall, with damaged data, and with a leader that was
suspended.

    serve_faults.py BELLWETHER SHIM SERVE_CRASH [NAME...]

A preloaded shim (serve_shim.c) makes the disk fail; damage is done to the files themselves."""
import glob
import hashlib
import json
import os
import shutil
import signal
import socket
import struct
import subprocess
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "kit"))
from run_lib import wait_for
from serve_lib import Link, Nodes, b64
from store_lib import TIMEOUT_S, Place, Server, Suite, free_ports

SUITE = Suite()
SHIM, CRASH = os.path.abspath(SUITE.witness), os.path.abspath(SUITE.conformance)
BIG = "v" * (1 << 20)
EIO, ENOSPC, EROFS = 5, 28, 30


class Disks(Nodes):
    """Nodes whose disks fail on command."""

    def __init__(self, place, count=1, bellwether=None, options=()):
        self.place = place
        ports = free_ports(2 * count)
        self.ports, peers = ports[:count], ports[count:]
        cluster = ",".join(f"n{i}=127.0.0.1:{port}" for i, port in enumerate(peers))
        self.servers = [self.server(i, [] if count == 1 else ["--cluster", cluster], bellwether or SUITE.bellwether, options)
                        for i in range(count)]
        for server in self.servers:
            server.start(wait=False)
        for server in self.servers:
            server.wait_ready()

    def server(self, i, cluster, bellwether, options):
        words = [os.path.abspath(bellwether), "serve", "--node", f"n{i}", *cluster, "--data", self.place.folder(f"n{i}"), "--listen",
                 f"127.0.0.1:{self.ports[i]}", *options]
        environment = {"LD_PRELOAD": SHIM, "SHIM_DISK": self.order_file(i)}
        if "ASAN_OPTIONS" in os.environ:
            environment["ASAN_OPTIONS"] = os.environ["ASAN_OPTIONS"] + ":verify_asan_link_order=0"
        return Server(self.place, f"n{i}", words, port=self.ports[i], env=environment, ready=lambda: self.is_healthy(self.ports[i]))

    def order_file(self, i):
        return os.path.join(self.place.dir, f"disk{i}")

    def order(self, i, what=""):
        new = self.order_file(i) + ".new"
        with open(new, "w", encoding="utf-8") as file:
            file.write(what)
        os.replace(new, self.order_file(i))

    def said(self, i):
        with open(self.servers[i].log, encoding="utf-8", errors="replace") as file:
            return file.read()

    def link(self, i, patience=TIMEOUT_S):
        return Link(self.ports[i], patience=patience)

    def ended(self, i):
        return self.servers[i].process.wait(TIMEOUT_S)

    def folder(self, i):
        return self.place.folder(f"n{i}")


def put(link, key, value="v", lease=None):
    body = {"key": b64(key), "value": b64(value)}
    if lease:
        body["lease"] = str(lease)
    return link.post("/v3/kv/put", body)


def value_of(link, key):
    status, answer = link.post("/v3/kv/range", {"key": b64(key)})
    assert status == 200, answer
    return [kv["value"] for kv in answer.get("kvs", [])]


def put_until(link, count, value="v", prefix="k"):
    """Puts until one fails; returns how many were acknowledged."""
    for number in range(count):
        try:
            status, _ = put(link, f"{prefix}{number}", value)
        except OSError:
            return number
        if status != 200:
            return number
    return count


def wait_for_put(nodes, key, but=()):
    """Waits until one of the nodes acknowledges a put."""
    def taken():
        """a put that is acknowledged"""
        for i in range(len(nodes.ports)):
            if i in but:
                continue
            try:
                if put(nodes.link(i, 2), key)[0] == 200:
                    return True
            except OSError:
                pass
        return False
    wait_for(taken, TIMEOUT_S, 0.02)


@SUITE.test
def a_failed_sync_ends_the_node_and_is_never_acknowledged():
    with Place("faults") as place:
        nodes = Disks(place)
        link = nodes.link(0)
        assert put_until(link, 5) == 5
        nodes.order(0, f"sync {EIO}")
        assert put_until(link, 1, prefix="lost") == 0, "acknowledged without a sync"
        assert nodes.ended(0) == -signal.SIGABRT
        assert "cannot sync the log" in nodes.said(0) and "Input/output error" in nodes.said(0), nodes.said(0)
        nodes.order(0)
        nodes.servers[0].start()
        for number in range(5):
            assert value_of(nodes.link(0), f"k{number}") == [b64("v")]


@SUITE.test
def node_that_cannot_sync_gives_up_leadership():
    with Place("faults") as place:
        nodes = Disks(place, 3)
        leader = nodes.leader()
        assert put_until(nodes.link(leader), 5) == 5
        nodes.order(leader, f"sync {EIO}")
        wait_for_put(nodes, "after", but=[leader])
        assert nodes.ended(leader) == -signal.SIGABRT
        nodes.order(leader)
        nodes.servers[leader].start()
        assert value_of(nodes.link(leader), "after") == [b64("v")]


@SUITE.test
def full_disk_ends_the_node_with_a_message_and_loses_nothing():
    with Place("faults") as place:
        nodes = Disks(place)
        nodes.order(0, f"space {ENOSPC}")
        acked = put_until(nodes.link(0), 40, BIG)
        assert 0 < acked < 40, f"{acked}: no segment was turned"
        assert nodes.ended(0) == -signal.SIGABRT
        assert "cannot make a new segment" in nodes.said(0) and "No space left on device" in nodes.said(0), nodes.said(0)
        nodes.order(0)
        nodes.servers[0].start()
        for number in range(acked):
            assert value_of(nodes.link(0), f"k{number}") == [b64(BIG)]
        assert put_until(nodes.link(0), 1, prefix="again") == 1


@SUITE.test
def failed_snapshot_is_reported_and_the_node_keeps_serving():
    with Place("faults") as place:
        nodes = Disks(place, bellwether=CRASH)  # it makes snapshots early
        nodes.order(0, f"space {EROFS}")
        assert put_until(nodes.link(0), 60, prefix="one") == 60
        wait_for(lambda: "cannot write a snapshot in" in nodes.said(0), TIMEOUT_S)
        assert put_until(nodes.link(0), 5, prefix="two") == 5
        assert not glob.glob(nodes.folder(0) + "/snapshot-0*")
        assert nodes.said(0).count("cannot write a snapshot in") <= 2, "tried again at once, again and again"


@SUITE.test
def start_on_a_read_only_disk_is_refused_with_a_message():
    with Place("faults") as place:
        nodes = Disks(place)
        nodes.servers[0].kill()
        nodes.order(0, f"space {EROFS}")
        nodes.servers[0].start(wait=False)
        assert nodes.ended(0) not in (0, None)
        assert f"cannot open the data in {nodes.folder(0)}: Read-only file system" in nodes.said(0), nodes.said(0)


class Renewer(threading.Thread):
    """Keeps a lease alive at any node that answers, as a client would."""

    def __init__(self, nodes, lease):
        super().__init__(daemon=True)
        self.nodes, self.lease, self.over, self.refused = nodes, lease, threading.Event(), 0
        self.start()

    def run(self):
        while not self.over.wait(0.2):
            for i in range(len(self.nodes.ports)):
                try:
                    status, answer = self.nodes.link(i, 1).post("/v3/lease/keepalive", {"ID": str(self.lease)})
                except OSError:
                    continue
                if status == 200:
                    self.refused += int(answer["result"].get("TTL", 0)) == 0
                    break

    def end(self):
        self.over.set()
        self.join()
        return self.refused


def leases_at(nodes, i):
    status, answer = nodes.link(i).post("/v3/lease/leases", {})
    assert status == 200, answer
    return {int(lease["ID"]) for lease in answer.get("leases", [])}


def grant(link, lease, ttl):
    status, answer = link.post("/v3/lease/grant", {"ID": str(lease), "TTL": str(ttl)})
    assert status == 200, answer


@SUITE.test
def leader_steps_down_when_its_disk_stalls_and_no_lease_is_lost():
    with Place("faults") as place:
        nodes = Disks(place, 3)
        leader = nodes.leader()
        for lease in range(1, 21):
            grant(nodes.link(leader), lease, 60)
        grant(nodes.link(leader), 99, 2)
        renewer = Renewer(nodes, 99)
        nodes.order(leader, "stall")
        try:
            put(nodes.link(leader, 0.2), "wakes the disk")
        except OSError:
            pass
        wait_for(lambda: "has not completed a write" in nodes.said(leader), TIMEOUT_S)
        wait_for_put(nodes, "after", but=[leader])
        time.sleep(3)  # longer than the short lease lasts without renewal
        nodes.order(leader)
        wait_for(lambda: nodes.is_healthy(nodes.ports[leader]), TIMEOUT_S, 0.02)
        assert renewer.end() == 0, "a lease that was renewed all the time was refused"
        for i in range(3):
            assert leases_at(nodes, i) == {*range(1, 21), 99}, f"n{i}: {leases_at(nodes, i)}"
            assert value_of(nodes.link(i), "after") == [b64("v")]


@SUITE.test
def single_node_acknowledges_and_revokes_nothing_when_its_disk_stalls():
    with Place("faults") as place:
        nodes = Disks(place)
        for lease in range(1, 6):
            grant(nodes.link(0), lease, 2)
        nodes.order(0, "stall")
        try:
            status, _ = put(nodes.link(0, 3), "meanwhile")
            assert status != 200, "acknowledged, but not on the disk"
        except OSError:
            pass
        wait_for(lambda: "has not completed a write" in nodes.said(0), TIMEOUT_S)
        time.sleep(1.5)  # by now the leases would have expired
        nodes.order(0)
        wait_for(lambda: nodes.is_healthy(nodes.ports[0]), TIMEOUT_S, 0.02)
        assert leases_at(nodes, 0) == set(range(1, 6)), "revoked in bulk, though nobody could renew them"


@SUITE.test
def a_follower_whose_disk_stalls_still_answers():
    with Place("faults") as place:
        nodes = Disks(place, 3)
        leader = nodes.leader()
        follower = (leader + 1) % 3
        nodes.order(follower, "stall")
        assert put_until(nodes.link(leader), 20) == 20
        link = nodes.link(follower)
        assert link.post("/v3/kv/range", {"key": b64("k0"), "serializable": True})[0] == 200
        assert link.post("/v3/kv/range", {"key": b64("k19")})[0] in (200, 503), "neither served nor refused"
        assert put(link, "through")[0] in (200, 503), "neither served nor refused"
        assert nodes.ask("GET", "/metrics", port=nodes.ports[follower])[0] == 200
        with open(nodes.order_file(follower), encoding="utf-8") as file:
            assert file.read() == "stall"
        nodes.order(follower)
        wait_for_key(nodes, follower, "k19")


@SUITE.test
def former_leader_refuses_its_clients_and_survives_when_its_disk_stalls():
    """More messages wait for its disk than it may hold (SERVE_CRASH may hold 64)."""
    with Place("faults") as place:
        nodes = Disks(place, 3, bellwether=CRASH)
        leader = nodes.leader()
        other = (leader + 1) % 3
        nodes.order(leader, "stall")
        try:
            put(nodes.link(leader, 0.2), "wakes the disk")
        except OSError:
            pass
        wait_for(lambda: "has not completed a write" in nodes.said(leader), TIMEOUT_S)
        wait_for_put(nodes, "after", but=[leader])
        done = 0
        while done < 300:  # answered by the two others, and each sent to the stalled one
            done += put_until(nodes.link(other), 300 - done)
        assert put(nodes.link(leader), "refused")[0] == 503
        assert nodes.ask("GET", "/metrics", port=nodes.ports[leader])[0] == 200
        assert nodes.servers[leader].process.poll() is None, nodes.said(leader)
        nodes.order(leader)
        wait_for(lambda: nodes.is_healthy(nodes.ports[leader]), TIMEOUT_S, 0.02)
        assert value_of(nodes.link(leader), "after") == [b64("v")]


def flip(path, part):
    """Flips one bit of the written data, at this fraction of it."""
    with open(path, "r+b") as file:
        used = len(file.read().rstrip(b"\0"))
        place = 4096 + int((used - 4096) * part)
        file.seek(place)
        byte = file.read(1)[0]
        file.seek(place)
        file.write(bytes([byte ^ 4]))


@SUITE.test
def flipped_bit_in_the_log_is_reported_and_the_node_does_not_start():
    with Place("faults") as place:
        nodes = Disks(place, 3)
        assert put_until(nodes.link(0), 30) == 30
        victim = (nodes.leader() + 1) % 3
        nodes.servers[victim].kill()
        flip(sorted(glob.glob(nodes.folder(victim) + "/wal-0*.log"))[0], 0.5)
        nodes.servers[victim].start(wait=False)
        assert nodes.ended(victim) == 65, nodes.said(victim)
        said = nodes.said(victim)
        assert "damage" in said and nodes.folder(victim) in said and "at byte" in said, said
        assert "Remove this node from the cluster and add it again" in said, said
        wait_for_put(nodes, "after", but=[victim])


@SUITE.test
def flipped_bit_in_a_snapshot_is_reported_and_the_node_does_not_start():
    with Place("faults") as place:
        nodes = Disks(place, bellwether=CRASH)
        assert put_until(nodes.link(0), 60) == 60
        found = wait_for(lambda: glob.glob(nodes.folder(0) + "/snapshot-0*"), TIMEOUT_S)
        nodes.servers[0].kill()
        found = sorted(glob.glob(nodes.folder(0) + "/snapshot-0*"))
        flip_in_the_middle(found[-1])
        nodes.servers[0].start(wait=False)
        assert nodes.ended(0) == 65, nodes.said(0)
        assert f"{found[-1]} is damaged" in nodes.said(0), nodes.said(0)


def flip_in_the_middle(path):
    with open(path, "r+b") as file:
        file.seek(os.path.getsize(path) // 2)
        byte = file.read(1)[0]
        file.seek(os.path.getsize(path) // 2)
        file.write(bytes([byte ^ 1]))


def wait_for_key(nodes, i, key):
    def there():
        """the key at that node itself"""
        status, answer = nodes.link(i).post("/v3/kv/range", {"key": b64(key), "serializable": True})
        return status == 200 and answer.get("kvs")
    wait_for(there, TIMEOUT_S, 0.01)


def restore_copy(nodes, which, meanwhile):
    """Restores a node's directory from a copy; returns its output when it is started with that."""
    copy = os.path.join(nodes.place.dir, "copy")
    nodes.servers[which].kill()
    shutil.copytree(nodes.folder(which), copy)
    nodes.servers[which].start()
    meanwhile()
    nodes.servers[which].kill()
    shutil.rmtree(nodes.folder(which))
    os.rename(copy, nodes.folder(which))
    nodes.servers[which].start(wait=False)
    assert nodes.ended(which) == 65, nodes.said(which)
    return nodes.said(which)


@SUITE.test
def directory_restored_from_a_copy_is_refused():
    with Place("faults") as place:
        nodes = Disks(place, 3)
        leader = nodes.leader()
        which = (leader + 1) % 3

        def write():
            assert put_until(nodes.link(leader), 20) == 20
            wait_for_key(nodes, which, "k19")
        said = restore_copy(nodes, which, write)
        assert "older than what this node has promised to the others" in said and "add it again" in said, said
        wait_for_put(nodes, "after", but=[which])


@SUITE.test
def directory_restored_from_before_an_election_is_refused_by_any_leader():
    with Place("faults") as place:
        nodes = Disks(place, 3)
        leader = nodes.leader()
        which = (leader + 1) % 3

        def elect():
            nodes.servers[leader].kill()
            wait_for_put(nodes, "next", but=[leader])
            nodes.servers[leader].start()
        said = restore_copy(nodes, which, elect)
        assert "older than what this node has promised to the others" in said, said


def wait_for_incarnation(nodes, which, life):
    def reported():
        """the log to record how often the node started"""
        try:
            return f"\nbellwether_incarnation {life}\n".encode() in nodes.ask("GET", "/metrics", port=nodes.ports[which])[1]
        except OSError:
            return False
    wait_for(reported, TIMEOUT_S, 0.02)


def has_all(nodes, *which):
    """Waits until these have everything committed so far."""
    wait_for_put(nodes, "all")
    for i in which:
        wait_for_key(nodes, i, "all")


def start_twice(nodes):
    """All nodes are killed in the second incarnation of n1, which the others have in their logs; returns a copy of
    its first."""
    wait_for_incarnation(nodes, 1, 1)
    copy = os.path.join(nodes.place.dir, "copy")
    nodes.servers[1].kill()
    shutil.copytree(nodes.folder(1), copy)
    nodes.servers[1].start()
    wait_for_incarnation(nodes, 1, 2)
    has_all(nodes, 0, 2)
    for server in nodes.servers:
        server.kill()
    shutil.rmtree(nodes.folder(1))
    os.rename(copy, nodes.folder(1))


def is_refused(nodes, which):
    assert nodes.ended(which) == 65, nodes.said(which)
    assert "older than what this node has promised to the others" in nodes.said(which), nodes.said(which)
    assert "add it again" in nodes.said(which), nodes.said(which)


@SUITE.test
def directory_of_an_earlier_incarnation_is_refused_when_all_nodes_restarted():
    """No running node remembers what it promised, but the log does. A second start is refused as well."""
    with Place("faults") as place:
        nodes = Disks(place, 3)
        start_twice(nodes)
        for server in nodes.servers:
            server.start(wait=False)
        is_refused(nodes, 1)
        wait_for_put(nodes, "after", but=[1])
        nodes.servers[1].start(wait=False)
        is_refused(nodes, 1)


class PeerProxy(threading.Thread):
    """A proxy in front of a node's peer port. It reads the sender's id (the fourth field of HELLO) and can refuse
    one sender."""

    def __init__(self, target):
        super().__init__(daemon=True)
        self.target, self.refused_node, self.slow_s, self.listener = target, None, 0, socket.create_server(("127.0.0.1", 0))
        self.hold = lambda sender: None  # waits after a sender's HELLO
        self.port = self.listener.getsockname()[1]
        self.start()

    def run(self):
        while True:
            try:
                link, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.admit, args=(link,), daemon=True).start()

    def admit(self, link):
        try:
            with link:
                first = link.recv(4096)
                if len(first) < 25 or int.from_bytes(first[21:25], "little") == self.refused_node:
                    return
                with socket.create_connection(("127.0.0.1", self.target)) as inner:
                    inner.sendall(first)
                    back = threading.Thread(target=self.pump, args=(inner, link, self.slow_s), daemon=True)
                    back.start()
                    self.hold(int.from_bytes(first[21:25], "little"))
                    self.pump(link, inner)
                    back.join()
        except OSError:
            pass

    @staticmethod
    def pump(source, sink, slow_s=0):
        try:
            while some := source.recv(65536):
                time.sleep(slow_s)
                sink.sendall(some)
        except OSError:
            pass
        for end in (source, sink):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def close(self):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()


class ProxiedNodes(Disks):
    """Three nodes, each behind a proxy."""

    def __init__(self, place, options=()):
        self.place = place
        ports = free_ports(6)
        self.ports, peers = ports[:3], ports[3:]
        self.proxies = [PeerProxy(port) for port in peers]
        place.proxies += self.proxies
        cluster = ",".join(f"n{i}=127.0.0.1:{proxy.port}" for i, proxy in enumerate(self.proxies))
        self.servers = [self.server(i, ["--cluster", cluster, "--peer-listen", f"127.0.0.1:{peers[i]}"], SUITE.bellwether, options)
                        for i in range(3)]
        for server in self.servers:
            server.start(wait=False)
        for server in self.servers:
            server.wait_ready()

    def refuse_node(self, number):
        """Makes all proxies refuse the node with this id; 0: none."""
        for proxy in self.proxies:
            proxy.refused_node = number


def wait_for_leader_at(nodes, which):
    def learned():
        """a node to learn that there is a leader"""
        try:
            status, answer = nodes.link(which).post("/v3/maintenance/status", {})
        except OSError:
            return False
        return status == 200 and int(answer.get("leader", 0)) != 0
    wait_for(learned, TIMEOUT_S, 0.05)


@SUITE.test
def directory_of_an_earlier_incarnation_is_refused_after_it_received_the_leader():
    """The others reach the node, but it does not reach them: it learns of the leader before it has reported its
    incarnation."""
    with Place("faults") as place:
        nodes = ProxiedNodes(place)
        start_twice(nodes)
        nodes.refuse_node(2)
        for server in nodes.servers:
            server.start(wait=False)
        wait_for_put(nodes, "lead", but=[1])
        wait_for_leader_at(nodes, 1)
        time.sleep(0.5)  # heartbeats
        nodes.refuse_node(0)
        is_refused(nodes, 1)
        wait_for_put(nodes, "after", but=[1])


@SUITE.test
def directory_of_an_earlier_incarnation_is_refused_when_reachable_late():
    """The others receive its incarnation, and can reach it only later: it reports again before they know that the
    way is open."""
    with Place("faults") as place:
        nodes = ProxiedNodes(place)
        start_twice(nodes)
        nodes.proxies[1].slow_s = 0.5
        for server in nodes.servers:
            server.start(wait=False)
        is_refused(nodes, 1)


@SUITE.test
def directory_of_an_earlier_incarnation_is_refused_after_many_starts():
    """It may start many times while no other node is running."""
    with Place("faults") as place:
        nodes = Disks(place, 3)
        start_twice(nodes)
        for _ in range(3):
            nodes.servers[1].start(wait=False)
            time.sleep(1.5)  # it waits for the others for half a second, then continues
            nodes.servers[1].kill()
        for server in nodes.servers:
            server.start(wait=False)
        is_refused(nodes, 1)
        wait_for_put(nodes, "after", but=[1])


@SUITE.test
def directory_restored_from_before_an_election_is_refused_after_it_received_the_leader():
    with Place("faults") as place:
        nodes = ProxiedNodes(place)
        wait_for_incarnation(nodes, 1, 1)
        has_all(nodes, 0, 1, 2)
        copy = os.path.join(place.dir, "copy")
        shutil.copytree(nodes.folder(1), copy)  # of the same incarnation: only nodes that ran since can detect it
        leader = nodes.leader()
        nodes.servers[leader].kill()
        wait_for_put(nodes, "next", but=[leader])
        nodes.servers[leader].start()
        has_all(nodes, 0, 1, 2)
        nodes.servers[1].kill()
        wait_for_put(nodes, "lead", but=[1])
        shutil.rmtree(nodes.folder(1))
        os.rename(copy, nodes.folder(1))
        nodes.refuse_node(2)
        nodes.servers[1].start(wait=False)
        wait_for_leader_at(nodes, 1)
        time.sleep(0.5)  # heartbeats
        nodes.refuse_node(0)
        is_refused(nodes, 1)
        nodes.servers[1].start(wait=False)
        is_refused(nodes, 1)


@SUITE.test
def restarted_node_is_accepted_when_the_log_overtakes_its_report():
    with Place("faults") as place:
        nodes = ProxiedNodes(place, ["--detect", "2s"])
        leader = nodes.leader()
        which, behind, released = (leader + 1) % 3, (leader + 2) % 3, threading.Event()
        wait_for_incarnation(nodes, which, 1)
        nodes.servers[which].kill()
        nodes.proxies[behind].hold = lambda sender: sender == which + 1 and released.wait()
        nodes.servers[which].start()
        wait_for_incarnation(nodes, which, 2)
        has_all(nodes, behind)
        released.set()
        nodes.servers[leader].kill()
        wait_for_put(nodes, "after", but=[leader])  # needs both


def send_to_sleeper(port, path, body):
    """Asks without waiting: the kernel holds the request until the node resumes."""
    link = socket.create_connection(("127.0.0.1", port), timeout=TIMEOUT_S)
    text = json.dumps(body).encode()
    link.sendall(b"POST %s HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s" % (path.encode(), len(text), text))
    return link


def answer_of(link):
    with link:
        text = b""
        while part := link.recv(65536):
            text += part
    head, _, body = text.partition(b"\r\n\r\n")
    if b"chunked" in head:
        body = body.split(b"\r\n", 1)[1]
    return int(head.split()[1]), json.JSONDecoder().raw_decode(body.decode())[0]


@SUITE.test
def suspended_leader_does_nothing_before_a_quorum_confirms_it():
    with Place("faults") as place:
        nodes = Disks(place, 3)
        leader = nodes.leader()
        other = (leader + 1) % 3
        grant(nodes.link(leader), 7, 60)
        grant(nodes.link(leader), 8, 3)
        assert put(nodes.link(leader), "who", "old", 7)[0] == 200
        asleep = nodes.servers[leader]
        asleep.pause()
        renewer = None
        try:
            wait_for_put(nodes, "wake", but=[leader])
            renewer = Renewer(Some(nodes, other), 8)
            status, answer = nodes.link(other).post("/v3/lease/revoke", {"ID": "7"})
            assert status == 200, answer
            grant(nodes.link(other), 70, 60)
            assert put(nodes.link(other), "who", "new", 70)[0] == 200
            compare = {"key": b64("who"), "target": "VALUE", "value": b64("old")}
            links = {
                "read": send_to_sleeper(nodes.ports[leader], "/v3/kv/range", {"key": b64("who")}),
                "renewal": send_to_sleeper(nodes.ports[leader], "/v3/lease/keepalive", {"ID": "7"}),
                "left": send_to_sleeper(nodes.ports[leader], "/v3/lease/timetolive", {"ID": "7"}),
                "grant": send_to_sleeper(nodes.ports[leader], "/v3/kv/txn", {"compare": [compare], "success": [
                    {"request_put": {"key": b64("who"), "value": b64("second")}}]}),
                "revoke": send_to_sleeper(nodes.ports[leader], "/v3/lease/revoke", {"ID": "7"})}
            time.sleep(4)  # longer than lease 8 would last without renewal
        finally:
            asleep.resume()
        reported = {name: answer_of(link) for name, link in links.items()}
        assert renewer.end() == 0
        status, answer = reported["read"]
        assert status != 200 or answer["kvs"][0]["value"] == b64("new"), f"an old value: {reported}"
        status, answer = reported["renewal"]
        assert status != 200 or int(answer["result"].get("TTL", 0)) == 0, f"a revoked lease was renewed: {reported}"
        status, answer = reported["left"]
        assert status != 200 or int(answer.get("TTL", 0)) <= 0, f"a revoked lease is said to last: {reported}"
        status, answer = reported["grant"]
        assert status != 200 or not answer.get("succeeded"), f"granted twice: {reported}"
        assert reported["revoke"][0] != 200, f"revoked twice: {reported}"
        wait_for(lambda: nodes.is_healthy(nodes.ports[leader]), TIMEOUT_S, 0.02)
        for i in range(3):
            assert leases_at(nodes, i) == {8, 70}, f"n{i}: {leases_at(nodes, i)}"
            assert value_of(nodes.link(i), "who") == [b64("new")]


def candidate_moves(nodes, path, sleeper):
    """Lease 7 waits at the sleeper behind lease 6. It moves to another node and gets its turn there; then the sleeper learns that
    its client has left."""
    at, other = [i for i in range(3) if i != sleeper]
    for lease in (6, 7):
        grant(nodes.link(at), lease, 60)
    first = {"name": b64("e"), "lease": "6"}
    moved = {"name": b64("e"), "lease": "7"}
    assert nodes.link(at).post(path, first)[0] == 200
    waiting = send_to_sleeper(nodes.ports[sleeper], path, moved)
    queue = {"key": b64("e/"), "range_end": b64("e0")}
    wait_for(lambda: len(nodes.link(at).post("/v3/kv/range", queue)[1].get("kvs", [])) == 2, TIMEOUT_S, 0.02)
    nodes.servers[sleeper].pause()
    try:
        waiting.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # closing sends a reset
        waiting.close()
        wait_for_put(nodes, "wake", but=[sleeper])
        again = send_to_sleeper(nodes.ports[at], path, moved)
        assert nodes.link(other).post("/v3/lease/revoke", {"ID": "6"})[0] == 200
        status, answer = answer_of(again)
        assert status == 200, answer
    finally:
        nodes.servers[sleeper].resume()
    wait_for_key(nodes, sleeper, "wake")
    put_until(nodes.link(sleeper), 3, prefix="later")  # whatever the sleeper proposed is applied before
    return nodes.link(at).post("/v3/kv/range", {"key": b64("e/7")})[1].get("kvs", [])


@SUITE.test
def candidate_that_moved_to_another_node_keeps_its_leadership():
    for path in ("/v3/election/campaign", "/v3/lock/lock"):
        with Place("faults") as place:
            nodes = Disks(place, 3)
            assert candidate_moves(nodes, path, (nodes.leader() + 1) % 3), f"{path}: the key of the leader was removed"


class Some:
    """Only one of the nodes."""

    def __init__(self, nodes, which):
        self.nodes, self.which, self.ports = nodes, which, [nodes.ports[which]]

    def link(self, _i, patience=TIMEOUT_S):
        return self.nodes.link(self.which, patience)


@SUITE.test
def cluster_elects_after_more_leader_changes_than_raft_keeps_terms():
    """Raft's list of terms is bounded; a snapshot must come before it is full, however little is written."""
    with Place("faults") as place:
        nodes = Disks(place, bellwether=CRASH)  # it makes one every eight terms
        for life in range(12):
            assert put(nodes.link(0), f"life{life}")[0] == 200
            nodes.servers[0].restart()
        wait_for(lambda: glob.glob(nodes.folder(0) + "/snapshot-0*"), TIMEOUT_S)
        for life in range(12):
            assert value_of(nodes.link(0), f"life{life}") == [b64("v")]


@SUITE.test
def a_backup_is_written_without_openssl_by_the_forked_copy():
    """Another thread may hold a lock of OpenSSL at the fork: the shim aborts a copy that hashes."""
    with Place("faults") as place:
        nodes = Disks(place)
        assert put_until(nodes.link(0), 20, "v" * 10000) == 20
        file = os.path.join(place.dir, "backup")
        code, shown, said = SUITE.command("cluster", "snapshot", file, "--endpoints", nodes.endpoints())
        assert code == 0 and "up to index" in shown, said
        with open(file, "rb") as whole:
            content = whole.read()
        assert hashlib.sha256(content[:-32]).digest() == content[-32:]


@SUITE.test
def a_node_killed_while_it_writes_a_snapshot_can_start_at_once():
    """The writer is a process of its own: it must not keep the directory locked or a connection open."""
    with Place("faults") as place:
        nodes = Disks(place, bellwether=CRASH)
        put_until(nodes.link(0), 30)
        for _ in range(6):
            put_until(nodes.link(0), 45, "v" * 4000)
            os.kill(nodes.servers[0].process.pid, signal.SIGKILL)
            nodes.servers[0].process.wait()
            nodes.servers[0].start()
        assert value_of(nodes.link(0), "k3") in ([b64("v")], [b64("v" * 4000)])


if __name__ == "__main__":
    SUITE.main(at_once=3)
