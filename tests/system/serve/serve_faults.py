#!/usr/bin/env python3
"""`bellwether serve` on disks that fail, fill up or stand still, with damaged data, and with a leader that was asleep.

    serve_faults.py BELLWETHER SHIM SERVE_CRASH [NAME...]

The disk's faults are made by a preloaded shim (serve_shim.c); damage is done to the files themselves."""
import glob
import hashlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "kit"))
from run_lib import wait_for
from serve_lib import Link, Nodes, b64
from store_lib import PATIENCE_S, Place, Server, Suite, free_ports

SUITE = Suite()
SHIM, CRASH = os.path.abspath(SUITE.witness), os.path.abspath(SUITE.conformance)
BIG = "v" * (1 << 20)
EIO, ENOSPC, EROFS = 5, 28, 30


class Disks(Nodes):
    """Nodes whose disks take orders."""

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

    def link(self, i, patience=PATIENCE_S):
        return Link(self.ports[i], patience=patience)

    def ended(self, i):
        return self.servers[i].process.wait(PATIENCE_S)

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
    """Puts until one fails; how many were acknowledged."""
    for number in range(count):
        try:
            status, _ = put(link, f"{prefix}{number}", value)
        except OSError:
            return number
        if status != 200:
            return number
    return count


def somebody_takes(nodes, key, but=()):
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
    wait_for(taken, PATIENCE_S, 0.02)


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
def a_node_that_cannot_sync_leaves_the_lead_to_others():
    with Place("faults") as place:
        nodes = Disks(place, 3)
        leader = nodes.leader()
        assert put_until(nodes.link(leader), 5) == 5
        nodes.order(leader, f"sync {EIO}")
        somebody_takes(nodes, "after", but=[leader])
        assert nodes.ended(leader) == -signal.SIGABRT
        nodes.order(leader)
        nodes.servers[leader].start()
        assert value_of(nodes.link(leader), "after") == [b64("v")]


@SUITE.test
def a_full_disk_ends_the_node_with_a_sentence_and_loses_nothing():
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
def a_snapshot_that_cannot_be_written_is_told_and_the_node_serves_on():
    with Place("faults") as place:
        nodes = Disks(place, bellwether=CRASH)  # it makes snapshots early
        nodes.order(0, f"space {EROFS}")
        assert put_until(nodes.link(0), 60, prefix="one") == 60
        wait_for(lambda: "cannot write a snapshot in" in nodes.said(0), PATIENCE_S)
        assert put_until(nodes.link(0), 5, prefix="two") == 5
        assert not glob.glob(nodes.folder(0) + "/snapshot-0*")
        assert nodes.said(0).count("cannot write a snapshot in") <= 2, "tried again at once, again and again"


@SUITE.test
def a_disk_that_cannot_be_written_refuses_the_start_with_a_sentence():
    with Place("faults") as place:
        nodes = Disks(place)
        nodes.servers[0].kill()
        nodes.order(0, f"space {EROFS}")
        nodes.servers[0].start(wait=False)
        assert nodes.ended(0) not in (0, None)
        assert f"cannot open the data in {nodes.folder(0)}: Read-only file system" in nodes.said(0), nodes.said(0)


class Renewer(threading.Thread):
    """Keeps a lease alive at whatever node answers, as a client would."""

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
def a_leader_whose_disk_stands_still_steps_down_and_no_lease_is_lost():
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
        wait_for(lambda: "has stood still" in nodes.said(leader), PATIENCE_S)
        somebody_takes(nodes, "after", but=[leader])
        time.sleep(3)  # longer than the short lease lasts without renewal
        nodes.order(leader)
        wait_for(lambda: nodes.is_healthy(nodes.ports[leader]), PATIENCE_S, 0.02)
        assert renewer.end() == 0, "a lease that was renewed all the time was refused"
        for i in range(3):
            assert leases_at(nodes, i) == {*range(1, 21), 99}, f"n{i}: {leases_at(nodes, i)}"
            assert value_of(nodes.link(i), "after") == [b64("v")]


@SUITE.test
def a_single_node_whose_disk_stands_still_acknowledges_nothing_and_revokes_nothing():
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
        wait_for(lambda: "has stood still" in nodes.said(0), PATIENCE_S)
        time.sleep(1.5)  # by now the leases would be over
        nodes.order(0)
        wait_for(lambda: nodes.is_healthy(nodes.ports[0]), PATIENCE_S, 0.02)
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
        waits_for(nodes, follower, "k19")


@SUITE.test
def a_former_leader_whose_disk_stalls_refuses_its_clients_and_lives_on():
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
        wait_for(lambda: "has stood still" in nodes.said(leader), PATIENCE_S)
        somebody_takes(nodes, "after", but=[leader])
        done = 0
        while done < 300:  # answered by the two others, and each told to the one that stalls
            done += put_until(nodes.link(other), 300 - done)
        assert put(nodes.link(leader), "refused")[0] == 503
        assert nodes.ask("GET", "/metrics", port=nodes.ports[leader])[0] == 200
        assert nodes.servers[leader].process.poll() is None, nodes.said(leader)
        nodes.order(leader)
        wait_for(lambda: nodes.is_healthy(nodes.ports[leader]), PATIENCE_S, 0.02)
        assert value_of(nodes.link(leader), "after") == [b64("v")]


def flip(path, part):
    """One bit of what was written, so far into it."""
    with open(path, "r+b") as file:
        used = len(file.read().rstrip(b"\0"))
        place = 4096 + int((used - 4096) * part)
        file.seek(place)
        byte = file.read(1)[0]
        file.seek(place)
        file.write(bytes([byte ^ 4]))


@SUITE.test
def a_flipped_bit_in_the_log_is_told_and_the_node_takes_no_part():
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
        assert "remove this node from the cluster and add it anew" in said, said
        somebody_takes(nodes, "after", but=[victim])


@SUITE.test
def a_flipped_bit_in_a_snapshot_is_told_and_the_node_takes_no_part():
    with Place("faults") as place:
        nodes = Disks(place, bellwether=CRASH)
        assert put_until(nodes.link(0), 60) == 60
        found = wait_for(lambda: glob.glob(nodes.folder(0) + "/snapshot-0*"), PATIENCE_S)
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


def waits_for(nodes, i, key):
    def there():
        """the key at that node itself"""
        status, answer = nodes.link(i).post("/v3/kv/range", {"key": b64(key), "serializable": True})
        return status == 200 and answer.get("kvs")
    wait_for(there, PATIENCE_S, 0.01)


def put_back(nodes, which, meanwhile):
    """A node's directory as it was before; what it says when it is started with that."""
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
def a_directory_put_back_from_a_copy_is_told_and_takes_no_part():
    with Place("faults") as place:
        nodes = Disks(place, 3)
        leader = nodes.leader()
        which = (leader + 1) % 3

        def write():
            assert put_until(nodes.link(leader), 20) == 20
            waits_for(nodes, which, "k19")
        said = put_back(nodes, which, write)
        assert "older than what this node has promised to the others" in said and "add it anew" in said, said
        somebody_takes(nodes, "after", but=[which])


@SUITE.test
def a_directory_put_back_from_before_an_election_is_told_whoever_leads():
    with Place("faults") as place:
        nodes = Disks(place, 3)
        leader = nodes.leader()
        which = (leader + 1) % 3

        def elect():
            nodes.servers[leader].kill()
            somebody_takes(nodes, "next", but=[leader])
            nodes.servers[leader].start()
        said = put_back(nodes, which, elect)
        assert "older than what this node has promised to the others" in said, said


def tells_of_life(nodes, which, life):
    def told():
        """the log to tell how often the node started"""
        try:
            return f"\nbellwether_life {life}\n".encode() in nodes.ask("GET", "/metrics", port=nodes.ports[which])[1]
        except OSError:
            return False
    wait_for(told, PATIENCE_S, 0.02)


def has_all(nodes, *which):
    """Waits until these have everything that was committed until now."""
    somebody_takes(nodes, "all")
    for i in which:
        waits_for(nodes, i, "all")


def lives_twice(nodes):
    """All nodes killed in the second life of n1, which the others have in their logs; a copy of its first."""
    tells_of_life(nodes, 1, 1)
    copy = os.path.join(nodes.place.dir, "copy")
    nodes.servers[1].kill()
    shutil.copytree(nodes.folder(1), copy)
    nodes.servers[1].start()
    tells_of_life(nodes, 1, 2)
    has_all(nodes, 0, 2)
    for server in nodes.servers:
        server.kill()
    shutil.rmtree(nodes.folder(1))
    os.rename(copy, nodes.folder(1))


def is_refused(nodes, which):
    assert nodes.ended(which) == 65, nodes.said(which)
    assert "older than what this node has promised to the others" in nodes.said(which), nodes.said(which)
    assert "add it anew" in nodes.said(which), nodes.said(which)


@SUITE.test
def a_directory_of_an_earlier_life_is_known_when_all_nodes_were_restarted():
    """Nobody who runs remembers what it promised: the log does. A second start is no better than the first."""
    with Place("faults") as place:
        nodes = Disks(place, 3)
        lives_twice(nodes)
        for server in nodes.servers:
            server.start(wait=False)
        is_refused(nodes, 1)
        somebody_takes(nodes, "after", but=[1])
        nodes.servers[1].start(wait=False)
        is_refused(nodes, 1)


class Door(threading.Thread):
    """What other nodes reach a node by. It reads who connects (the HELLO's fourth field), and does not let in whom it is told not to."""

    def __init__(self, target):
        super().__init__(daemon=True)
        self.target, self.shut_for, self.slow_s, self.listener = target, None, 0, socket.create_server(("127.0.0.1", 0))
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
                if len(first) < 25 or int.from_bytes(first[21:25], "little") == self.shut_for:
                    return
                with socket.create_connection(("127.0.0.1", self.target)) as inner:
                    inner.sendall(first)
                    back = threading.Thread(target=self.pump, args=(inner, link, self.slow_s), daemon=True)
                    back.start()
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


class Doors(Disks):
    """Three nodes, each behind a door."""

    def __init__(self, place):
        self.place = place
        ports = free_ports(6)
        self.ports, peers = ports[:3], ports[3:]
        self.doors = [Door(port) for port in peers]
        place.proxies += self.doors
        cluster = ",".join(f"n{i}=127.0.0.1:{door.port}" for i, door in enumerate(self.doors))
        self.servers = [self.server(i, ["--cluster", cluster, "--peer-listen", f"127.0.0.1:{peers[i]}"], SUITE.bellwether, ())
                        for i in range(3)]
        for server in self.servers:
            server.start(wait=False)
        for server in self.servers:
            server.wait_ready()

    def shut(self, number):
        """All doors, for the node of this number; 0: for none."""
        for door in self.doors:
            door.shut_for = number


def hears(nodes, which):
    def heard():
        """a node to hear that somebody leads"""
        try:
            status, answer = nodes.link(which).post("/v3/maintenance/status", {})
        except OSError:
            return False
        return status == 200 and int(answer.get("leader", 0)) != 0
    wait_for(heard, PATIENCE_S, 0.05)


@SUITE.test
def a_directory_of_an_earlier_life_is_known_although_the_leader_was_heard_first():
    """The others reach the node, and it does not reach them: it hears who leads before it has said which life it lives."""
    with Place("faults") as place:
        nodes = Doors(place)
        lives_twice(nodes)
        nodes.shut(2)
        for server in nodes.servers:
            server.start(wait=False)
        somebody_takes(nodes, "lead", but=[1])
        hears(nodes, 1)
        time.sleep(0.5)  # heartbeats
        nodes.shut(0)
        is_refused(nodes, 1)
        somebody_takes(nodes, "after", but=[1])


@SUITE.test
def a_directory_of_an_earlier_life_is_told_so_however_late_it_can_be_reached():
    """The others hear which life it lives, and only then have a way to it: it speaks again before they know that the way is open."""
    with Place("faults") as place:
        nodes = Doors(place)
        lives_twice(nodes)
        nodes.doors[1].slow_s = 0.5
        for server in nodes.servers:
            server.start(wait=False)
        is_refused(nodes, 1)


@SUITE.test
def a_directory_of_an_earlier_life_is_known_however_often_it_was_started():
    """It may start many times while nobody is there who could tell."""
    with Place("faults") as place:
        nodes = Disks(place, 3)
        lives_twice(nodes)
        for _ in range(3):
            nodes.servers[1].start(wait=False)
            time.sleep(1.5)  # it waits for the others for half a second, then goes on
            nodes.servers[1].kill()
        for server in nodes.servers:
            server.start(wait=False)
        is_refused(nodes, 1)
        somebody_takes(nodes, "after", but=[1])


@SUITE.test
def a_directory_put_back_from_before_an_election_is_known_although_the_leader_was_heard_first():
    with Place("faults") as place:
        nodes = Doors(place)
        tells_of_life(nodes, 1, 1)
        has_all(nodes, 0, 1, 2)
        copy = os.path.join(place.dir, "copy")
        shutil.copytree(nodes.folder(1), copy)  # of the same life: only those that ran since can tell
        leader = nodes.leader()
        nodes.servers[leader].kill()
        somebody_takes(nodes, "next", but=[leader])
        nodes.servers[leader].start()
        has_all(nodes, 0, 1, 2)
        nodes.servers[1].kill()
        somebody_takes(nodes, "lead", but=[1])
        shutil.rmtree(nodes.folder(1))
        os.rename(copy, nodes.folder(1))
        nodes.shut(2)
        nodes.servers[1].start(wait=False)
        hears(nodes, 1)
        time.sleep(0.5)  # heartbeats
        nodes.shut(0)
        is_refused(nodes, 1)
        nodes.servers[1].start(wait=False)
        is_refused(nodes, 1)


def send_to_sleeper(port, path, body):
    """Asks without waiting: the kernel holds it until the node wakes."""
    link = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S)
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
def a_leader_that_slept_grants_renews_reads_and_revokes_nothing_before_a_quorum_confirms_it():
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
            somebody_takes(nodes, "wake", but=[leader])
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
            time.sleep(4)  # longer than lease 8 lasts, had nobody renewed it
        finally:
            asleep.resume()
        told = {name: answer_of(link) for name, link in links.items()}
        assert renewer.end() == 0
        status, answer = told["read"]
        assert status != 200 or answer["kvs"][0]["value"] == b64("new"), f"an old value: {told}"
        status, answer = told["renewal"]
        assert status != 200 or int(answer["result"].get("TTL", 0)) == 0, f"a revoked lease was renewed: {told}"
        status, answer = told["left"]
        assert status != 200 or int(answer.get("TTL", 0)) <= 0, f"a revoked lease is said to last: {told}"
        status, answer = told["grant"]
        assert status != 200 or not answer.get("succeeded"), f"granted twice: {told}"
        assert told["revoke"][0] != 200, f"revoked twice: {told}"
        wait_for(lambda: nodes.is_healthy(nodes.ports[leader]), PATIENCE_S, 0.02)
        for i in range(3):
            assert leases_at(nodes, i) == {8, 70}, f"n{i}: {leases_at(nodes, i)}"
            assert value_of(nodes.link(i), "who") == [b64("new")]


class Some:
    """Only this one of the nodes."""

    def __init__(self, nodes, which):
        self.nodes, self.which, self.ports = nodes, which, [nodes.ports[which]]

    def link(self, _i, patience=PATIENCE_S):
        return self.nodes.link(self.which, patience)


@SUITE.test
def a_cluster_that_changed_its_leader_more_often_than_raft_counts_still_elects():
    """Raft's list of terms is bounded; a snapshot must come before it is full, however little is written."""
    with Place("faults") as place:
        nodes = Disks(place, bellwether=CRASH)  # it makes one of every eight terms
        for life in range(12):
            assert put(nodes.link(0), f"life{life}")[0] == 200
            nodes.servers[0].restart()
        wait_for(lambda: glob.glob(nodes.folder(0) + "/snapshot-0*"), PATIENCE_S)
        for life in range(12):
            assert value_of(nodes.link(0), f"life{life}") == [b64("v")]


@SUITE.test
def a_backup_is_written_without_openssl_by_the_forked_copy():
    """Another thread may hold a lock of OpenSSL at the fork: the shim ends a copy that hashes."""
    with Place("faults") as place:
        nodes = Disks(place)
        assert put_until(nodes.link(0), 20, "v" * 10000) == 20
        file = os.path.join(place.dir, "backup")
        code, shown, said = SUITE.command("cluster", "snapshot", file, "--endpoints", nodes.endpoints())
        assert code == 0 and "as of index" in shown, said
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
