#!/usr/bin/env python3
"""A cluster is upgraded while it serves. Programs with an older and a newer protocol are built from the same
sources, compiled with other numbers.

    serve_upgrade.py BELLWETHER OLDER NEWER [NAME...]

OLDER supports version 1 of the peer protocol, BELLWETHER all up to its newest, NEWER only 9."""
import base64
import glob
import hashlib
import itertools
import os
import re
import sys
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "kit"))
from run_lib import wait_for  # noqa: E402
from serve_lib import Cluster, Link, b64, newest_version  # noqa: E402
from store_lib import TIMEOUT_S, Place, Suite  # noqa: E402

suite = Suite()
OURS, OLDER, NEWER = (os.path.abspath(path) for path in (suite.bellwether, suite.witness, suite.conformance))
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
            level(cluster, 1)
            restart(cluster, name, OURS).start()
        level(cluster, newest_version())
        holder.end()
        # The older program does not know what all rely on now: it reports that and changes nothing.
        refused(cluster, "b", OLDER, f"rely on version {newest_version()}", "speaks 1")
        assert holder.any("/v3/kv/range", {"key": b64("held")}).get("kvs")


@suite.test
def nodes_go_back_to_the_older_version_under_load_and_lose_nothing():
    with Place("upgrade") as place:
        cluster = Cluster(place, OLDER, 3)
        ports = [cluster.client[name] for name in "abc"]
        holder, writers = Holder(ports), [Writer(i, ports[i:] + ports[:i]) for i in range(3)]
        # As long as one member has never declared the newer version, the others can go back.
        for name, program in (("a", OURS), ("b", OURS), ("a", OLDER), ("b", OLDER), ("b", OURS), ("a", OURS)):
            level(cluster, 1)
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


@suite.test
def node_too_new_for_the_others_leaves_its_directory_unchanged():
    with Place("upgrade") as place:
        cluster = Cluster(place, OURS, 3)
        holder = Holder([cluster.client[name] for name in "ab"])
        refused(cluster, "c", NEWER, "speaks an older protocol", "nothing was changed here")
        holder.end()


suite.main(2)
