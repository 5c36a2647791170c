#!/usr/bin/env python3
"""`bellwether cluster` on real nodes: what it shows and does, what it refuses, backups, and a cluster restored after all of its
nodes were lost.

    serve_cluster.py BELLWETHER WITNESS CONFORMANCE [NAME...]"""
import json
import os
import signal
import socket
import stat
import struct
import subprocess
import sys
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "kit"))
from run_lib import wait_for  # noqa: E402
from serve_lib import Cluster  # noqa: E402
from store_lib import PATIENCE_S, Place, Server, Skip, Suite, free_ports, program  # noqa: E402

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
def status_shows_every_member_and_what_is_wrong(cluster):
    def settled():
        """all to know a leader and each other's address for clients"""
        return ask(cluster, "status")[0] == 0
    wait_for(settled, PATIENCE_S, 0.05)
    leader = cluster.leads()
    code, shown, _ = ask(cluster, "status", "--json", at="b")
    shown = json.loads(shown)
    assert code == 0 and shown["well"] is True and [m["name"] for m in shown["members"]] == ["a", "b", "c"], shown
    assert [m["name"] for m in shown["members"] if m["role"] == "leader"] == [leader], shown
    dead = next(n for n in "abc" if n != leader)
    cluster.nodes[dead].kill()
    code, shown, _ = ask(cluster, "status", at=leader)
    assert code == 1 and "not well" in shown and "cannot connect" in shown, shown
    code, _, said = suite.command("cluster", "status", "--endpoints", cluster.at(dead), "--timeout", "1s")
    assert code == 69 and "no answer" in said, said


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
        return ask(cluster, "promote", "d")[0] == 0
    wait_for(promoted, PATIENCE_S, 0.1)
    cluster.nodes["d"].wait_ready()
    code, shown, said = ask(cluster, "transfer", "d", "--json")
    assert code == 0 and json.loads(shown) == {"done": "leads now", "id": 4}, (shown, said)
    assert cluster.leads() == "d"
    code, shown, said = ask(cluster, "remove", "d")
    assert code == 0 and shown == "member 4 removed\n", (shown, said)
    assert cluster.ends("d")[0] == 0
    code, _, said = ask(cluster, "remove", "zz")
    assert code == 1 and "no member 'zz'; there are a (1), b (2), c (3)" in said, said


@on(1)
def what_is_not_a_command_is_refused(cluster):
    for words, text in ((["add", "nonsense"], "is not HOST:PORT"), (["remove"], "usage: "), (["status", "--user", "bob"], "--password-file"),
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
    assert code == 0 and "as of index" in shown, said
    assert stat.S_IMODE(os.stat(file).st_mode) == 0o600, "it holds every value and the users"
    cluster.ctl("snapshot", "save", file + ".etcdctl", endpoints=cluster.at("c"))
    cluster.ctl("put", "late", "1")
    for name in "abc":
        cluster.nodes[name].kill()
    for i, name in enumerate("abc"):  # the two files are one and the same
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
    cluster.nodes["a"].kill()  # one of the old cluster comes back: it is a stranger, and nobody hears it
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


def cluster_of_three(cluster):
    cluster.peer.update(b=1, c=2)
    return cluster


# ---- versions ----

def frame(kind, body):
    return struct.pack("<IB", len(body) + 1, kind) + body


class Other(threading.Thread):
    """A node of another version: it answers whoever connects with the versions and the verdict given."""

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
                link.sendall(self.reply)
                self.asked.set()
                link.recv(1)


def greet(port, highest, lowest, kind=1):
    """What a node answers to the HELLO (or JOIN) of one that speaks these versions: its own two, and the verdict."""
    body = struct.pack("<II", highest, lowest) + (struct.pack("<QII", 1, 9, 1) if kind == 1 else b"") + struct.pack("<I", 1) + b"127.0.0.1"
    with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S) as link:
        link.sendall(frame(kind, body))
        answer = link.recv(4096)
    length, kind = struct.unpack("<IB", answer[:5])
    assert kind == 8 and len(answer) == length + 4, answer
    return struct.unpack("<III", answer[5:17])


@on(3)
def nodes_of_different_versions_agree_or_refuse(cluster):
    port = cluster.peer["a"]
    foreign, too_new, too_old, unknown = 2, 3, 4, 5
    assert greet(port, 3, 1) == (3, 1, foreign), "spoken with, but of another cluster"
    assert greet(port, 7, 1) == (3, 1, foreign), "a newer one that still speaks ours is spoken with in ours"
    assert greet(port, 7, 4) == (3, 1, too_new)
    assert greet(port, 0, 0) == (3, 1, too_old)
    assert greet(port, 7, 1, kind=9) == (3, 1, unknown)
    assert greet(port, 7, 4, kind=9) == (3, 1, too_new)

    def relied_on():
        """all to have said what they speak"""
        return greet(port, 1, 1) == (3, 1, too_old)
    wait_for(relied_on, PATIENCE_S, 0.05)
    cluster.ctl("put", "a", "1")


@on(1)
def a_node_too_new_for_the_cluster_does_not_touch_its_disk(cluster):
    """Others that speak nothing we know say so before anything is made or changed."""
    other, port = Other(0, 0, 3), free_ports(1)[0]
    folder = os.path.join(cluster.place.dir, "never")
    code, _, said = suite.command("serve", "--node", "d", "--join", f"127.0.0.1:{other.port}", "--peer", f"127.0.0.1:{port}",
                                  "--data", folder, "--listen", "127.0.0.1:0")
    assert code == 65 and "no protocol in common" in said and other.asked.is_set(), (code, said)
    assert not os.path.exists(folder)


# ---- under a service manager ----

@suite.test
def a_service_manager_is_told_and_watches():
    with Place("notify") as place, socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(os.path.join(place.dir, "notify"))
        manager.settimeout(PATIENCE_S)
        port = free_ports(1)[0]
        node = Server(place, "node", [os.path.abspath(suite.bellwether), "serve", "--data", os.path.join(place.dir, "data"), "--listen",
                                      f"127.0.0.1:{port}"], port=port,
                      env={"NOTIFY_SOCKET": os.path.join(place.dir, "notify"), "WATCHDOG_USEC": "100000"}).start()
        said = [manager.recv(4096).decode() for _ in range(4)]
        assert said[0] == "READY=1" and "STATUS=default leads, term 1" in said and said.count("WATCHDOG=1") == 2, said
        node.group(signal.SIGTERM)
        while manager.recv(4096) != b"STOPPING=1":
            pass
        assert node.process.wait(PATIENCE_S) == 0


@suite.test
def the_unit_is_sound_and_lets_little_through():
    analyze, here = program("systemd-analyze", "systemd"), os.path.dirname(os.path.abspath(__file__))
    with Place("unit") as place, open(os.path.join(here, "../../../packaging/bellwether-serve@.service"), encoding="utf-8") as unit:
        path = place.file("bellwether-serve@.service", unit.read().replace("/usr/bin/bellwether", os.path.abspath(suite.bellwether)))
        done = subprocess.run([analyze, "verify", "--man=no", path], capture_output=True, text=True, timeout=PATIENCE_S, check=False)
        assert "bellwether-serve" not in done.stderr, done.stderr
        done = subprocess.run([analyze, "security", "--offline=true", "--threshold=20", path], capture_output=True, text=True,
                              timeout=PATIENCE_S, check=False)
        if "unrecognized option" in done.stderr:
            raise Skip("this systemd-analyze does not judge files")
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr


if suite.small:
    suite.wanted = suite.wanted or ["restored_after", "added_promoted", "versions"]
suite.main(2)
