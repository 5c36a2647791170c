#!/usr/bin/env python3
"""`bellwether cluster` on real nodes: its output and effects, its refusals, backups, and a cluster restored after
all of its nodes were lost.

    serve_cluster.py BELLWETHER WITNESS CONFORMANCE [NAME...]"""
import json
import os
import signal
import socket
import stat
import struct
import sys
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "kit"))
from run_lib import wait_for  # noqa: E402
from serve_lib import Cluster, Etcd, newest_version  # noqa: E402
from store_lib import TIMEOUT_S, Place, Server, Suite, free_ports  # noqa: E402

suite = Suite()


def on(count=3):
    """A test on so many nodes."""
    def wrap(function):
        def run():
            with Place("cluster") as place:
                function(Cluster(place, suite.bellwether, count))
        run.__name__ = function.__name__
        suite.test(run)
        return function
    return wrap


def ask(cluster, *words, at="a", **more):
    """Exit code, output and errors of a cluster command."""
    return suite.command("cluster", *words, "--endpoints", cluster.at(at), **more)


@on(3)
def status_shows_every_member_and_its_problems(cluster):
    def settled():
        """all to know a leader and each other's client address"""
        return ask(cluster, "status")[0] == 0
    wait_for(settled, TIMEOUT_S, 0.05)
    leader = cluster.leads()
    code, shown, _ = ask(cluster, "status", "--json", at="b")
    shown = json.loads(shown)
    assert code == 0 and shown["well"] is True and [m["name"] for m in shown["members"]] == ["a", "b", "c"], shown
    assert [m["name"] for m in shown["members"] if m["role"] == "leader"] == [leader], shown
    dead = next(n for n in "abc" if n != leader)
    cluster.nodes[dead].kill()
    code, shown, _ = ask(cluster, "status", at=leader)
    assert code == 1 and "unhealthy" in shown and "cannot connect" in shown, shown
    rows = {line.split()[1]: line.split()[2] for line in shown.splitlines()[1:]}
    assert rows[dead] == "unknown" and sorted(rows.values()) == ["follower", "leader", "unknown"], shown
    code, _, said = suite.command("cluster", "status", "--endpoints", cluster.at(dead), "--timeout", "1s")
    assert code == 69 and "no response" in said, said


@on(3)
def status_names_a_missing_quorum(cluster):
    def settled():
        """all to know a leader and each other's client address"""
        return ask(cluster, "status", at="c")[0] == 0
    wait_for(settled, TIMEOUT_S, 0.05)
    cluster.nodes["a"].kill()
    _, shown, _ = ask(cluster, "status", at="c")
    assert "unhealthy" in shown and "no quorum" not in shown, shown
    cluster.nodes["b"].kill()
    def unled():
        """the last node to report that there is no leader"""
        return ask(cluster, "status", at="c")[0] == 69
    wait_for(unled, TIMEOUT_S, 0.05)
    _, shown, _ = ask(cluster, "status", at="c")
    assert "unhealthy, no quorum: 1 of 3 answer" in shown, shown
    _, shown, _ = ask(cluster, "status", "--json", at="c")
    assert json.loads(shown)["quorum"] is False, shown


@on(3)
def node_that_moved_reports_its_new_address(cluster):
    """As in docs/guides/cluster.md: it is only started with --peer and the new address."""
    def settled():
        """all to be healthy"""
        return ask(cluster, "status", at="a")[0] == 0
    wait_for(settled, TIMEOUT_S, 0.05)
    old = cluster.peers("c")
    cluster.nodes["c"].group(15)
    assert cluster.nodes["c"].process.wait(TIMEOUT_S) == 0
    cluster.peer["c"] = free_ports(1)[0]
    cluster.make("c", "--peer", cluster.peers("c")).start()
    wait_for(settled, TIMEOUT_S, 0.05)
    for name in "abc":
        _, shown, _ = ask(cluster, "status", at=name)
        assert cluster.peers("c") in shown and old not in shown, shown
    assert cluster.ctl("put", "k", "v", endpoints=cluster.at("c")).stdout == "OK\n"


@on(3)
def members_are_added_promoted_removed_and_lead(cluster):
    cluster.give_ports("d")
    code, shown, said = ask(cluster, "add", cluster.peers("d"), "--learner")
    assert code == 0 and "member 4 added" in shown and f"--peer {cluster.peers('d')}" in shown, (shown, said)
    code, _, said = ask(cluster, "promote", "4")
    assert code == 1 and "in sync with leader" in said, said
    cluster.joiner("d", "abc").start(wait=False)
    def promoted():
        """d to be promoted"""
        code, shown, said = ask(cluster, "promote", "d")
        assert code == 0 or "in sync with leader" in said or "no member 'd'" in said, (code, shown, said)  # refused only until then
        return code == 0
    wait_for(promoted, TIMEOUT_S, 0.1)
    cluster.nodes["d"].wait_ready()
    code, shown, said = ask(cluster, "transfer", "d", "--json")
    assert code == 0 and json.loads(shown) == {"done": "leads now", "id": 4}, (shown, said)
    assert cluster.leads() == "d"
    code, shown, said = ask(cluster, "remove", "d")
    assert code == 0 and shown == "member 4 removed\n", (shown, said)
    assert cluster.ends("d")[0] == 0
    code, _, said = ask(cluster, "remove", "zz")
    assert code == 1 and "no member 'zz'; the members are a (1), b (2), c (3)" in said, said


@on(1)
def unknown_command_is_refused(cluster):
    for words, text in ((["add", "nonsense"], "expected HOST:PORT"), (["remove"], "usage: "), (["status", "--user", "bob"], "--password-file"),
                        (["restore", "x"], "usage: "), (["restore", "x", "--node", "q", "--data", "y", "--cluster", "a=h:1"], "not in --cluster"),
                        (["frob"], "unknown command")):
        code, _, said = suite.command("cluster", *words, *(["--endpoints", cluster.at("a")] if words[0] not in ("restore", "frob") else []))
        assert code == 64 and text in said, (words, code, said)


def restore(cluster, file, name, folder, *more):
    there = ",".join(f"{n}=127.0.0.1:{cluster.peer[n]}" for n in "abc")
    return suite.command("cluster", "restore", file, "--node", name, "--cluster", there, "--data",
                         os.path.join(cluster.place.dir, folder), *more)


@on(3)
def a_cluster_is_restored_after_all_its_nodes_were_lost(cluster):
    for i in range(50):
        cluster.post("/v3/kv/put", {"key": "a2V5", "value": "dmFsdWU="})
    lease = cluster.ctl("lease", "grant", "3600").stdout.split()[1]
    cluster.ctl("put", "leased", "1", "--lease", lease)
    file = os.path.join(cluster.place.dir, "backup")
    code, shown, said = ask(cluster, "snapshot", file, at="b")
    assert code == 0 and "up to index" in shown, said
    assert stat.S_IMODE(os.stat(file).st_mode) == 0o600, "it holds every value and the users"
    cluster.ctl("snapshot", "save", file + ".etcdctl", endpoints=cluster.at("c"))
    cluster.ctl("put", "late", "1")
    for name in "abc":
        cluster.nodes[name].kill()
    for i, name in enumerate("abc"):  # the two files are identical
        code, _, said = restore(cluster, file if i else file + ".etcdctl", name, "new-" + name)
        assert code == 0, said
    code, _, said = restore(cluster, file, "a", "new-a")
    assert code == 65 and "is not empty" in said, said
    for name in "abc":
        cluster.make(name, "--data", os.path.join(cluster.place.dir, "new-" + name)).start(wait=False)
    for name in "abc":
        cluster.nodes[name].wait_ready()
    assert cluster.ctl("get", "key", "--print-value-only").stdout == "value\n"
    assert cluster.ctl("get", "late").stdout == "", "it was written after the snapshot"
    assert cluster.ctl("lease", "timetolive", lease, "--keys").stdout.count("attached keys([leased])") == 1
    cluster.ctl("put", "more", "1")
    cluster.nodes["a"].kill()  # a node of the old cluster returns: it is foreign and ignored
    cluster.make("a").start(wait=False)
    assert cluster.ctl("get", "more", "--print-value-only", endpoints=cluster.at("b")).stdout == "1\n"
    assert len(cluster.members("b")) == 3


@on(1)
def a_damaged_backup_is_refused(cluster):
    cluster.ctl("put", "a", "1")
    file = os.path.join(cluster.place.dir, "backup")
    assert ask(cluster, "snapshot", file)[0] == 0
    with open(file, "rb") as whole:
        good = bytearray(whole.read())
    length = struct.unpack("<Q", good[-536:-528])[0]
    for place in (0, 9, 60, 200, length - 20, length - 1):
        bad = bytearray(good)
        bad[place] ^= 0x40
        with open(file, "wb") as out:
            out.write(bad)
        code, _, said = suite.command("cluster", "restore", file, "--node", "a", "--cluster", "a=127.0.0.1:1", "--data",
                                      os.path.join(cluster.place.dir, "never"))
        assert code == 65 and "backup" in said, (place, said)
        assert not os.path.exists(os.path.join(cluster.place.dir, "never"))
    with open(file, "wb") as out:
        out.write(good[:100])
    assert restore(cluster_of_three(cluster), file, "a", "never")[0] == 65


@on(1)
def snapshot_of_etcd_is_refused_with_what_to_do(cluster):
    file = os.path.join(cluster.place.dir, "etcd.snap")
    Etcd(cluster.place).ctl("snapshot", "save", file)
    code, _, said = suite.command("cluster", "restore", file, "--node", "a", "--cluster", "a=127.0.0.1:1", "--data",
                                  os.path.join(cluster.place.dir, "never"))
    assert code == 65 and "etcd.snap is a snapshot of etcd" in said and "make-mirror" in said, said
    assert not os.path.exists(os.path.join(cluster.place.dir, "never"))


def cluster_of_three(cluster):
    cluster.peer.update(b=1, c=2)
    return cluster


# ---- versions ----

def frame(kind, body):
    return struct.pack("<IB", len(body) + 1, kind) + body


class Other(threading.Thread):
    """A node of another version: it answers every connection with the given versions and verdict."""

    def __init__(self, highest, lowest, verdict):
        super().__init__(daemon=True)
        self.reply, self.asked = frame(8, struct.pack("<III", highest, lowest, verdict)), threading.Event()
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.port = self.socket.getsockname()[1]
        self.start()

    def run(self):
        while True:
            link, _ = self.socket.accept()
            with link:
                link.recv(4096)
                self.asked.set()  # before the reply: the node may end as soon as it has it
                link.sendall(self.reply)
                link.recv(1)


def greet(port, highest, lowest, kind=1):
    """A node's answer to HELLO (or JOIN) from a node with these versions: its own two, and the verdict."""
    body = struct.pack("<II", highest, lowest) + (struct.pack("<QII", 1, 9, 1) if kind == 1 else b"") + struct.pack("<I", 1) + b"127.0.0.1"
    with socket.create_connection(("127.0.0.1", port), timeout=TIMEOUT_S) as link:
        link.sendall(frame(kind, body))
        answer = link.recv(4096)
    length, kind = struct.unpack("<IB", answer[:5])
    assert kind == 8 and len(answer) == length + 4, answer
    return struct.unpack("<III", answer[5:17])


@on(3)
def nodes_of_different_versions_agree_or_refuse(cluster):
    port = cluster.peer["a"]
    foreign, too_new, too_old, unknown = 2, 3, 4, 5
    ours = newest_version()
    assert greet(port, ours, 1) == (ours, 1, foreign), "spoken with, but of another cluster"
    assert greet(port, ours + 4, 1) == (ours, 1, foreign), "a newer one that still speaks ours is spoken with in ours"
    assert greet(port, ours + 4, ours + 1) == (ours, 1, too_new)
    assert greet(port, 0, 0) == (ours, 1, too_old)
    assert greet(port, ours + 4, 1, kind=9) == (ours, 1, unknown)
    assert greet(port, ours + 4, ours + 1, kind=9) == (ours, 1, too_new)

    def relied_on():
        """all to have published their versions"""
        return greet(port, 1, 1) == (ours, 1, too_old)
    wait_for(relied_on, TIMEOUT_S, 0.05)
    cluster.ctl("put", "a", "1")


@on(1)
def node_too_new_for_the_cluster_leaves_its_disk_unchanged(cluster):
    """Nodes without a common version report this before anything is created or changed."""
    other, port = Other(0, 0, 3), free_ports(1)[0]
    folder = os.path.join(cluster.place.dir, "never")
    code, _, said = suite.command("serve", "--node", "d", "--join", f"127.0.0.1:{other.port}", "--peer", f"127.0.0.1:{port}",
                                  "--data", folder, "--listen", "127.0.0.1:0")
    assert code == 65 and "no protocol in common" in said and other.asked.is_set(), (code, said)
    assert not os.path.exists(folder)


# ---- under a service manager ----

@suite.test
def service_manager_is_notified_and_watchdog_works():
    with Place("notify") as place, socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(os.path.join(place.dir, "notify"))
        manager.settimeout(TIMEOUT_S)
        port = free_ports(1)[0]
        node = Server(place, "node", [os.path.abspath(suite.bellwether), "serve", "--data", os.path.join(place.dir, "data"), "--listen",
                                      f"127.0.0.1:{port}"], port=port,
                      env={"NOTIFY_SOCKET": os.path.join(place.dir, "notify"), "WATCHDOG_USEC": "100000"}).start()
        said = [manager.recv(4096).decode() for _ in range(4)]
        assert said[0] == "READY=1" and "STATUS=leader default, term 1" in said and said.count("WATCHDOG=1") == 2, said
        node.group(signal.SIGTERM)
        while manager.recv(4096) != b"STOPPING=1":
            pass
        assert node.process.wait(TIMEOUT_S) == 0


if suite.small:
    suite.wanted = suite.wanted or ["restored_after", "added_promoted", "versions"]
suite.main(2)
