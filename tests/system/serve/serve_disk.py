#!/usr/bin/env python3
"""What nodes leave on disk: old and unfinished snapshots are removed, at start and while they serve.

    serve_disk.py BELLWETHER SERVE_CRASH UNUSED [NAME...]

SERVE_CRASH is the program with crash points, which writes snapshots after 40 entries or 1 MB of log."""
import glob
import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "kit"))
from run_lib import wait_for  # noqa: E402
from serve_lib import Cluster, Link, Nodes, b64  # noqa: E402
from store_lib import TIMEOUT_S, Place, Suite  # noqa: E402

suite = Suite()
EARLY = os.path.abspath(suite.witness)
UNFINISHED = ["snapshot-next.tmp", "snapshot-incoming.tmp", "snapshot-unwanted-next.tmp", "snapshot-unwanted-incoming.tmp"]


def snapshots(folder):
    return sorted(os.path.basename(path) for path in glob.glob(folder + "/snapshot-*"))


def only_one(folder, after=""):
    def found():
        names = snapshots(folder)
        return names if len(names) == 1 and re.fullmatch("snapshot-[0-9a-f]{16}", names[0]) and names[0] > after else None
    found.__doc__ = f"a single snapshot after {after} in {folder}"
    try:
        return wait_for(found, TIMEOUT_S, 0.05)[0]
    except AssertionError as why:
        raise AssertionError(f"{why}; found {snapshots(folder)}") from why


def fill(port, count, size, keys=4):
    link = Link(port)
    for i in range(count):
        status, answer = link.post("/v3/kv/put", {"key": b64(f"k{i % keys}"), "value": b64(os.urandom(size))})
        assert status == 200, answer
    return int(answer["header"]["revision"])


def leave_unfinished(folder):
    for name in UNFINISHED:
        with open(os.path.join(folder, name), "wb") as file:
            file.write(b"unfinished" * 1000)


@suite.test
def unfinished_snapshots_are_removed_at_start():
    with Place("disk") as place:
        leave_unfinished(place.folder("n0"))
        nodes = Nodes(place, EARLY)
        wait_for(lambda: not snapshots(place.folder("n0")), TIMEOUT_S, 0.05)
        fill(nodes.ports[0], 60, 100)
        only_one(place.folder("n0"))


@suite.test
def node_that_installs_a_snapshot_removes_the_ones_before():
    with Place("disk") as place:
        cluster = Cluster(place, EARLY, 3)
        other, victim = [name for name in "abc" if name != cluster.leads()][:2]
        folder = os.path.join(place.dir, victim)
        fill(cluster.client[other], 60, 1000)
        before = only_one(folder)
        cluster.nodes[victim].kill()
        fill(cluster.client[other], 200, 5000)  # the others drop the entries that the victim misses
        leave_unfinished(folder)
        cluster.nodes[victim].start()
        after = only_one(folder, before)
        assert after > before
        request = {"key": b64("k3"), "serializable": True}
        assert Link(cluster.client[victim]).post("/v3/kv/range", request)[1]["kvs"]
        # What is left is enough to start with.
        cluster.nodes[victim].kill()
        cluster.nodes[victim].start()
        assert Link(cluster.client[victim]).post("/v3/kv/range", request)[1]["kvs"]


@suite.test
def compaction_gives_disk_space_back():
    with Place("disk") as place:
        nodes = Nodes(place, EARLY)
        folder = place.folder("n0")
        revision = fill(nodes.ports[0], 120, 40000)

        def large():
            """a snapshot with the history"""
            return any(os.path.getsize(os.path.join(folder, name)) > 3 << 20 for name in snapshots(folder)
                       if not name.endswith(".tmp"))
        wait_for(large, TIMEOUT_S, 0.05)
        link = Link(nodes.ports[0])
        assert link.post("/v3/kv/compaction", {"revision": str(revision)})[0] == 200

        def small():
            """a small snapshot"""
            return [name for name in snapshots(folder)] and not large()
        wait_for(small, TIMEOUT_S, 0.05)
        only_one(folder)


@suite.test
def empty_node_reports_an_empty_database():
    with Place("disk") as place:
        nodes = Nodes(place, suite.bellwether)
        status = nodes.post("/v3/maintenance/status", {})[1]
        assert int(status.get("dbSize", 0)) < 4096, status
        fill(nodes.ports[0], 4, 100000)
        status = nodes.post("/v3/maintenance/status", {})[1]
        assert 400000 < int(status["dbSize"]) < 500000, status
        assert status["dbSizeInUse"] == status["dbSize"], status


suite.main(2)
