#!/usr/bin/env python3
"""A cluster is upgraded while it serves. Programs with an older and a newer protocol are built from the same
sources, compiled with other numbers.

    serve_upgrade.py BELLWETHER OLDER[:VERSION] NEWER [NAME...]

OLDER supports the versions of the peer protocol up to VERSION (default: 1), BELLWETHER all up to its newest, NEWER only
9. OLDER can also be the program of an earlier release."""
import base64
import concurrent.futures
import glob
import hashlib
import itertools
import os
import re
import subprocess
import sys
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "kit"))
import stall  # noqa: E402
from run_lib import wait_for  # noqa: E402
from serve_lib import Cluster, Link, b64, newest_version  # noqa: E402
from store_lib import STALL_S, TIMEOUT_S, Place, Suite  # noqa: E402

suite = Suite()
OLDER, _, OLDEST = suite.witness.partition(":")
OLDEST = int(OLDEST or 1)  # the version that a cluster relies on while one of its nodes runs OLDER
OURS, OLDER, NEWER = (os.path.abspath(path) for path in (suite.bellwether, OLDER, suite.conformance))
DATA = 65
SIZES = (10, 10, 1000, 60000)  # of values


def contents(folder):
    """Every file in it, byte for byte."""
    return {path: hashlib.sha256(open(path, "rb").read()).hexdigest() for path in sorted(glob.glob(folder + "/*"))}


def figure(cluster, name, what):
    """A metric of this node; None: it does not answer."""
    try:
        found = re.search(rf"^{what} (\d+)".encode(), cluster.ask("GET", "/metrics", port=cluster.client[name])[1], re.M)
        return found and int(found[1])
    except OSError:
        return None


def level(cluster, expected):
    def reached():
        return all(figure(cluster, name, "bellwether_protocol_level") == expected for name in cluster.nodes)
    reached.__doc__ = f"all to rely on version {expected}"
    wait_for(reached, TIMEOUT_S, 0.05)


class Holder(threading.Thread):
    """Keeps a lease and a key under it, at any node that answers."""

    def __init__(self, ports):
        super().__init__(daemon=True)
        self.ports, self.over, self.renewed, self.lost = ports, threading.Event(), 0, None
        self.lease = self.any("/v3/lease/grant", {"TTL": 60})["ID"]
        self.any("/v3/kv/put", {"key": b64("held"), "value": b64("1"), "lease": self.lease})
        self.start()

    def any(self, path, body):
        def answered():
            """a node to answer"""
            for port in self.ports:
                try:
                    status, answer = Link(port).post(path, body)
                    if status == 200:
                        return [answer]
                except OSError:
                    pass
            return None
        return wait_for(answered, TIMEOUT_S, 0.02)[0]

    def run(self):
        while not self.over.wait(0.02):
            left = int(self.any("/v3/lease/keepalive", {"ID": self.lease}).get("result", {}).get("TTL", 0))
            if left <= 0:
                self.lost = "the lease is gone"
                return
            self.renewed += 1

    def end(self):
        self.over.set()
        self.join(TIMEOUT_S)
        assert not self.lost and self.renewed > 0, (self.lost, self.renewed)
        assert self.any("/v3/kv/range", {"key": b64("held")}).get("kvs"), "its key is gone"


class Writer(threading.Thread):
    """Writes one new key after the other, at any node that answers; keeps what was acknowledged."""

    def __init__(self, number, ports):
        super().__init__(daemon=True)
        self.number, self.ports, self.over, self.acknowledged = number, ports, threading.Event(), {}
        self.start()

    def run(self):
        link = Link(self.ports[0])
        for i in itertools.count():
            key = f"w{self.number}/{i}"
            try:
                status, answer = link.post("/v3/kv/put", {"key": b64(key), "value": b64("v" * SIZES[i % len(SIZES)])})
            except OSError:
                status = 0
            if status == 200:
                self.acknowledged[key] = answer["header"]["revision"]
            else:
                link.close()
                link = Link(self.ports[i % len(self.ports)])
            if self.over.wait(0.005):
                return

    def more(self):
        """Waits for further acknowledged writes."""
        enough = len(self.acknowledged) + 10

        def written():
            """acknowledged writes"""
            return len(self.acknowledged) >= enough
        wait_for(written, TIMEOUT_S, 0.02)

    def end(self):
        self.over.set()
        self.join(TIMEOUT_S)
        return self.acknowledged


def written_at(cluster, name):
    """The keys of the writers at this node, and their revisions."""
    _, answer = cluster.post("/v3/kv/range", {"key": b64("w"), "range_end": b64("x"), "keys_only": True, "serializable": True},
                             port=cluster.client[name])
    return {base64.b64decode(kv["key"]).decode(): kv["mod_revision"] for kv in answer.get("kvs", [])}


def restart(cluster, name, program):
    """Stops the node cleanly and starts it on the same directory with another program."""
    node = cluster.nodes[name]
    node.group(15)
    assert node.process.wait(TIMEOUT_S) == 0, node.tail()
    node.words[0] = program
    return node


def refused(cluster, name, program, *words):
    """With that program the node ends with these words and leaves its directory unchanged; with ours it is a
    member as before."""
    node = restart(cluster, name, program)
    folder = os.path.join(cluster.place.dir, name)
    before = contents(folder)
    node.start(wait=False)
    code, said = cluster.ends(name)
    assert code == DATA and all(word in said for word in words), (code, said)
    assert contents(folder) == before
    node.words[0] = OURS
    node.start()


@suite.test
def nodes_are_upgraded_one_after_the_other_and_no_lease_is_lost():
    with Place("upgrade") as place:
        cluster = Cluster(place, OLDER, 3)
        holder = Holder([cluster.client[name] for name in "abc"])
        for name in "abc":
            level(cluster, OLDEST)
            restart(cluster, name, OURS).start()
        level(cluster, newest_version())
        holder.end()
        # The older program does not know what all rely on now: it reports that and changes nothing.
        refused(cluster, "b", OLDER, f"rely on version {newest_version()}", f"speaks {OLDEST}")
        assert holder.any("/v3/kv/range", {"key": b64("held")}).get("kvs")


@suite.test
def nodes_go_back_to_the_older_version_under_load_and_lose_nothing():
    with Place("upgrade") as place:
        cluster = Cluster(place, OLDER, 3)
        ports = [cluster.client[name] for name in "abc"]
        holder, writers = Holder(ports), [Writer(i, ports[i:] + ports[:i]) for i in range(3)]
        # As long as one member has never declared the newer version, the others can go back.
        for name, program in (("a", OURS), ("b", OURS), ("a", OLDER), ("b", OLDER), ("b", OURS), ("a", OURS)):
            level(cluster, OLDEST)
            for writer in writers:
                writer.more()
            restart(cluster, name, program).start()
        restart(cluster, "c", OURS).start()
        level(cluster, newest_version())
        holder.end()
        told = {key: revision for writer in writers for key, revision in writer.end().items()}
        for name in "abc":
            def complete(name=name):
                """the node to have every acknowledged write"""
                found = written_at(cluster, name)
                return all(found.get(key) == revision for key, revision in told.items())
            wait_for(complete, TIMEOUT_S, 0.1)


def upgraded_but_c(place):
    """A cluster of three whose last node still runs the older program."""
    cluster = Cluster(place, OLDER, 3)
    for name in "ab":
        restart(cluster, name, OURS).start()
        level(cluster, OLDEST)
    return cluster


NESTED = {"success": [{"request_txn": {"success": [{"request_put": {"key": b64("nested"), "value": b64("1")}}]}}]}
NEED_ALL = (("/v3/auth/user/add", {"name": "root", "password": "secret"}), ("/v3/auth/role/add", {"name": "app"}),
            ("/v3/maintenance/alarm", {"action": "DEACTIVATE", "alarm": "NOSPACE"}), ("/v3/kv/txn", NESTED))


@suite.test
def changes_that_an_older_member_cannot_read_are_refused():
    with Place("upgrade") as place:
        cluster = upgraded_but_c(place)
        with concurrent.futures.ThreadPoolExecutor(len(NEED_ALL)) as pool:
            for status, answer in pool.map(lambda what: cluster.post(*what, port=cluster.client["a"]), NEED_ALL):
                assert status == 503 and "every member must run this version" in answer["message"], (status, answer)


def changes_wait(place):
    cluster = upgraded_but_c(place)
    node, port = restart(cluster, "c", OURS), cluster.client["a"]
    with concurrent.futures.ThreadPoolExecutor(len(NEED_ALL)) as pool:
        asked = [pool.submit(cluster.post, *what, port=port) for what in NEED_ALL]
        gone = subprocess.Popen(cluster.ctl_words("user", "add", "gone:secret", endpoints=cluster.at("a")),
                                env=dict(os.environ, ETCDCTL_API="3"), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

        def waiting():
            """all changes to wait for the member"""
            return figure(cluster, "a", "etcd_server_proposals_pending") == len(NEED_ALL) + 1
        wait_for(waiting, TIMEOUT_S, 0.02)
        gone.kill()  # the change of a client that does not wait is dropped
        gone.wait()

        def dropped():
            """the change of the killed client to be dropped"""
            return figure(cluster, "a", "etcd_server_proposals_pending") == len(NEED_ALL)
        wait_for(dropped, TIMEOUT_S, 0.02)
        node.start(wait=False)
        for (path, _), answer in zip(NEED_ALL, asked):
            assert answer.result(TIMEOUT_S)[0] == 200, (path, answer.result())
    node.wait_ready()
    assert cluster.post("/v3/kv/range", {"key": b64("nested")}, port=port)[1]["kvs"][0]["version"] == "1"
    assert cluster.post("/v3/auth/user/list", {}, port=port)[1]["users"] == ["root"]


@suite.test
def changes_wait_until_the_last_member_has_published_its_version():
    def attempt(_):  # `serve` holds a change for 5 s at most
        with Place("upgrade") as place:
            changes_wait(place)
    stall.judge(attempt, STALL_S)


@suite.test
def node_too_new_for_the_others_leaves_its_directory_unchanged():
    with Place("upgrade") as place:
        cluster = Cluster(place, OURS, 3)
        holder = Holder([cluster.client[name] for name in "ab"])
        refused(cluster, "c", NEWER, "speaks an older protocol", "nothing was changed here")
        holder.end()


suite.main(2)
