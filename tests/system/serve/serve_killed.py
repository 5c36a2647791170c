#!/usr/bin/env python3
"""All nodes of a cluster are killed with SIGKILL during large writes and started again: each recovers everything
that was acknowledged.

    serve_killed.py BELLWETHER SERVE_CRASH LOAD [--long] [--rounds N] [NAME...]

LOAD is bench/serve_load.c. The short form uses SERVE_CRASH, whose log has segments of 256 KB and whose
snapshots come early, so that a batch is often larger than a segment. --long overwrites one key 10,000 times
with 100 KB by 200 writers on BELLWETHER, N times (default 10), each time in empty directories. No write may fail there,
and the leader must stay."""
import glob
import json
import os
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "kit"))
import stall
from run_lib import wait_for
from serve_lib import Nodes, b64
from store_lib import STALL_S, TIMEOUT_S, Place, Suite

LONG = "--long" in sys.argv
ROUNDS = int(sys.argv.pop(sys.argv.index("--rounds") + 1)) if "--rounds" in sys.argv else 10
sys.argv = [word for word in sys.argv if word not in ("--long", "--rounds")]
SUITE = Suite()
CRASH, LOAD = os.path.abspath(SUITE.witness), os.path.abspath(SUITE.conformance)
SEGMENT = 256 << 10  # of SERVE_CRASH
VALUE_MAX = (1536 << 10) - 64  # together with its key below the request limit
KEY = "key"
CALM = ["--heartbeat", "200ms", "--detect", "1s"]


class Load:
    """Puts to one key at all nodes; `end` returns what was acknowledged."""

    def __init__(self, nodes, writers, count, size):
        self.count = count
        self.process = subprocess.Popen([LOAD, "puts", nodes.endpoints(), KEY, str(writers), str(count), str(size)],
                                        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def end(self):
        said, _ = self.process.communicate(timeout=1800)
        assert self.process.returncode == 0, said
        figures, acknowledged = (json.loads(line) for line in said.splitlines())
        return {**figures, **acknowledged, "count": self.count}


def term_of(nodes):
    """The term of the leader that all nodes follow."""
    def agreed():
        """all nodes to follow one leader"""
        seen = [nodes.post("/v3/maintenance/status", {}, port=port)[1] for port in nodes.ports]
        terms = {int(status["raftTerm"]) for status in seen if int(status.get("leader", 0))}
        return terms if len(terms) == 1 and all(int(status.get("leader", 0)) for status in seen) else None
    return wait_for(agreed, TIMEOUT_S, 0.02).pop()


def record_at(nodes, port):
    """The key as stored at this node."""
    status, answer = nodes.post("/v3/kv/range", {"key": b64(KEY), "serializable": True}, port=port)
    assert status == 200, answer
    return answer["kvs"][0] if answer.get("kvs") else {"mod_revision": "0", "version": "0"}


def kill_all(nodes):
    for server in nodes.servers:
        server.process.kill()
    for server in nodes.servers:
        server.process.wait()


def start_all(nodes):
    for server in nodes.servers:
        server.start(wait=False)
    for server in nodes.servers:
        server.wait_ready()


def check(nodes, reported):
    """Every node has the newest acknowledged write, or a later one, and all writes before it."""
    for port in nodes.ports:
        def caught_up(port=port):
            """a node to have what was acknowledged"""
            return int(record_at(nodes, port)["mod_revision"]) >= reported["revision"]
        wait_for(caught_up, TIMEOUT_S, 0.02)
        record = record_at(nodes, port)
        revisions = int(record["mod_revision"]) - int(record.get("create_revision", 0)) + 1
        assert int(record["version"]) == revisions, f"a write is missing: {record['version']} of {revisions}"
        assert reported["acknowledged"] <= revisions, f"{reported['acknowledged']} were acknowledged, {revisions} are there"
        if int(record["mod_revision"]) == reported["revision"]:
            assert record["value"][:20] == b64(f"{reported['number']:016}")[:20], "another value than was acknowledged"


def largest_segment(nodes):
    folders = [server.words[server.words.index("--data") + 1] for server in nodes.servers]
    largest = 0
    for path in (path for folder in folders for path in glob.glob(folder + "/wal-0*.log")):
        try:
            largest = max(largest, os.path.getsize(path))
        except FileNotFoundError:
            pass  # a snapshot has replaced it meanwhile
    return largest


def log_of(nodes):
    return "\n".join(server.tail() for server in nodes.servers)


def some_are_acknowledged(nodes, load):
    reported = load().end()
    assert reported["acknowledged"], f"{reported}\n{log_of(nodes)}"
    return reported


def all_are_acknowledged(nodes, load):
    """No write fails, and the leader stays."""
    before = term_of(nodes)
    reported = load().end()
    after = term_of(nodes)
    assert reported["errors"] == 0 and reported["acknowledged"] == reported["count"], f"{reported}\n{log_of(nodes)}"
    assert before == after, f"term {before} to {after}: {reported}\n{log_of(nodes)}"
    return reported


def kill_after_writes(nodes, writers, count, size, judge=some_are_acknowledged):
    """Repeats the load only if the machine stalled for about as long as a leader may be silent."""
    reported = stall.judge(lambda _: judge(nodes, lambda: Load(nodes, writers, count, size)), STALL_S, "the load")
    largest = largest_segment(nodes)
    kill_all(nodes)
    start_all(nodes)
    check(nodes, reported)
    return dict(reported, largest=largest)


def kill_during_writes(nodes, writers, count, size, wanted):
    """Kills the nodes after so many writes. The load then ends by itself: every connection is gone."""
    load = Load(nodes, writers, count, size)
    begun = int(record_at(nodes, nodes.ports[0])["mod_revision"])
    wait_for(lambda: int(record_at(nodes, nodes.ports[0])["mod_revision"]) >= begun + wanted, TIMEOUT_S, 0.01)
    kill_all(nodes)
    reported = load.end()
    start_all(nodes)
    check(nodes, reported)
    return reported


def short(function):
    return function if LONG else SUITE.test(function)


@short
def nodes_killed_after_writes_around_segment_size_recover_all_of_them():
    with Place("killed") as place:
        nodes = Nodes(place, CRASH, 3, CALM)
        largest = 0
        for size in (SEGMENT // 3, SEGMENT - 4400, SEGMENT - 64, SEGMENT, SEGMENT + 64, VALUE_MAX):
            writers = max(4, 10 * SEGMENT // size)
            largest = max(largest, kill_after_writes(nodes, writers, 2 * writers, size)["largest"])
        assert largest > SEGMENT, "no batch was larger than a segment"


@short
def nodes_killed_during_large_writes_recover_all_acknowledged_ones():
    with Place("killed") as place:
        nodes = Nodes(place, CRASH, 3, CALM)
        for wanted in (30, 90, 150):
            kill_during_writes(nodes, 200, 1000000, 100 << 10, wanted)


def long_round(number):
    def killed():
        begun = time.monotonic()
        with Place("killed") as place:
            reported = kill_after_writes(Nodes(place, SUITE.bellwether, 3), 200, 10000, 100 << 10, all_are_acknowledged)
            SUITE.tap.comment(f"{reported} {time.monotonic() - begun:.0f} s")
    killed.__name__ = f"nodes_killed_after_10000_writes_of_100_kb_come_back_with_all_of_them_round_{number}"
    SUITE.test(killed)


if __name__ == "__main__":
    for n in range(ROUNDS if LONG else 0):
        long_round(n + 1)
    SUITE.main()
