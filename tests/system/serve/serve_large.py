#!/usr/bin/env python3
"""Large values from many writers at all three nodes: no write fails, and the leader stays.

    serve_large.py BELLWETHER WITNESS LOAD [NAME...]

LOAD is bench/serve_load.c. The nodes have etcd's timeouts: a leader that is silent for 1 s is suspected. So heartbeats and their
answers must not wait for tens of megabytes. Only errors and terms are judged, not how long the writes take."""
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "kit"))
import stall  # noqa: E402
from run_lib import wait_for  # noqa: E402
from serve_lib import Nodes, b64  # noqa: E402
from store_lib import SANITIZED, TIMEOUT_S, Place, Skip, Suite  # noqa: E402

suite = Suite()
LOAD = os.path.abspath(suite.conformance)
ETCD = ["--heartbeat", "100ms", "--detect", "1s"]
HISTORY_MAX = 256 << 20  # bytes that only the history keeps
LOG_BYTES = 48 << 20  # a log of this size is due for a snapshot, if the last one was not larger
STARVED = 0.6  # a node that waits for a CPU for this part of the time may miss several heartbeats


def term_of(nodes):
    """The highest term, once all nodes have a leader."""
    statuses = []

    def all_follow():
        """all nodes to have a leader"""
        statuses[:] = [nodes.post("/v3/maintenance/status", {}, port=port)[1] for port in nodes.ports]
        return all(int(status.get("leader", 0)) for status in statuses)
    wait_for(all_follow, TIMEOUT_S)
    return max(int(status["raftTerm"]) for status in statuses)


def puts(nodes, writers, count, size):
    said = subprocess.run([LOAD, "puts", nodes.endpoints(), "key", str(writers), str(count), str(size)], capture_output=True,
                          text=True, timeout=600, check=True).stdout
    figures, acknowledged = (json.loads(line) for line in said.splitlines())
    return {**figures, **acknowledged}


def load_is_survived(nodes, writers, count, size):
    before = term_of(nodes)
    reported = puts(nodes, writers, count, size)
    after = term_of(nodes)
    suite.tap.comment(f"{reported['per_s']} writes/s of {size} bytes, {reported['errors']} failed, term {before} to {after}")
    logs = "\n".join(server.tail() for server in nodes.servers)
    assert reported["errors"] == 0 and reported["acknowledged"] == count, f"{reported}\n{logs}"
    assert before == after, f"the leader changed {after - before} times\n{logs}"
    for port in nodes.ports:
        caught_up(nodes, port, reported)


def leader_stays(writers, count, size):
    """Repeats the load only if a thread of a node waited for a CPU for most of the time."""
    for number in range(stall.ATTEMPTS):
        with Place(f"large-{number}") as place:
            nodes = Nodes(place, suite.bellwether, 3, ETCD)
            watch = stall.Watch(server.process.pid for server in nodes.servers)
            try:
                return load_is_survived(nodes, writers, count, size)
            except AssertionError:
                if not watch.excuses((time.monotonic() - watch.since) * STARVED, "this attempt"):
                    raise
    raise AssertionError("the nodes got no CPU for most of the time in each attempt: the load was never judged")


def caught_up(nodes, port, reported):
    """Waits until this node has the newest write, and all before it."""
    def has_it():
        """a node to have all writes"""
        kv = nodes.post("/v3/kv/range", {"key": b64("key"), "serializable": True, "keys_only": True}, port=port)[1]["kvs"][0]
        return int(kv["mod_revision"]) == reported["revision"] and int(kv["version"]) == reported["acknowledged"]
    wait_for(has_it, TIMEOUT_S)


@suite.alone
def values_of_100_kb_by_200_writers_fail_no_write_and_change_no_leader():
    leader_stays(200, 1500, 100000)


@suite.alone
def values_of_1400_kb_by_16_writers_fail_no_write_and_change_no_leader():
    leader_stays(16, 150, 1400000)


def figure(nodes, name):
    """One of the node's metrics."""
    text = nodes.ask("GET", "/metrics")[1].decode()
    return float(re.search(rf"^{name} (\S+)$", text, re.M).group(1))


@suite.alone
def compaction_returns_the_memory_of_replaced_versions():
    if SANITIZED:
        raise Skip("the sanitizer keeps what was freed")
    with Place("memory") as place:
        nodes = Nodes(place, suite.bellwether)
        reported = puts(nodes, 64, 4000, 100000)
        assert reported["errors"] == 0, reported
        history, before = (figure(nodes, name) for name in ("bellwether_history_bytes", "process_resident_memory_bytes"))
        assert HISTORY_MAX / 2 < history <= HISTORY_MAX + 100100, history  # the last put is trimmed with the next one
        assert before > history, before
        status, answer = nodes.post("/v3/kv/compaction", {"revision": str(reported["revision"])})
        assert status == 200, answer
        after = []

        def returned():
            """most of the memory to be returned"""
            after[:] = [figure(nodes, "process_resident_memory_bytes")]
            return after[0] < before - history and after[0] < HISTORY_MAX / 2
        try:
            wait_for(returned, TIMEOUT_S, 0.1)
        finally:
            suite.tap.comment(f"history {history / 1e6:.0f} MB, resident {before / 1e6:.0f} MB, after the compaction {after[0] / 1e6:.0f} MB")
        assert figure(nodes, "bellwether_history_bytes") < 1 << 20


@suite.alone
def a_snapshot_that_took_long_is_followed_by_the_next_one_without_a_write():
    with Place("slow") as place:
        nodes = Nodes(place, suite.bellwether)
        pid = nodes.servers[0].process.pid
        for _ in range(5):  # a writer may end before this test stops it
            load = threading.Thread(target=puts, args=(nodes, 16, 2500, 100000))
            load.start()
            writer = None
            while load.is_alive() and not writer:
                with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as children:
                    writer = next(map(int, children.read().split()), None)
            if writer:
                os.kill(writer, signal.SIGSTOP)
            load.join()
            if writer and figure(nodes, "bellwether_log_bytes") > 3 * LOG_BYTES:
                break
        else:
            raise AssertionError("no writer of a snapshot was stopped")
        os.kill(writer, signal.SIGCONT)

        def small():
            """a second snapshot, which makes the log small"""
            return figure(nodes, "bellwether_log_bytes") < LOG_BYTES
        wait_for(small, TIMEOUT_S, 0.1)


suite.main()
