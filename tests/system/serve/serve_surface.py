#!/usr/bin/env python3
"""Parts of etcd's API that need more than one request each, side by side with a real etcd: both run the same steps, and
what clients see must be the same.

    serve_surface.py BELLWETHER WITNESS CONFORMANCE [NAME...]"""
import json
import os
import queue
import re
import signal
import subprocess
import sys
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "kit"))
import stall  # noqa: E402
from run_lib import wait_for  # noqa: E402
from serve_lib import Etcd, Nodes, b64  # noqa: E402
from store_lib import STALL_S, TIMEOUT_S, Place, Suite  # noqa: E402

suite = Suite()


def on_both(count=1, options=(), etcd_options=()):
    """A test that runs with etcd and with ours; it gets the place and the target."""
    def wrap(function):
        def run():
            with Place("surface") as place:
                function(place, Etcd(place, count, etcd_options))
                function(place, Nodes(place, suite.bellwether, count, options))
        run.__name__ = function.__name__
        suite.test(run)
        return function
    return wrap


@on_both(count=3, etcd_options=["--heartbeat-interval", "20", "--election-timeout", "200"])
def write_whose_leader_stops_is_reported_as_timed_out(_place, target):
    leader = target.leader()
    follower = target.ports[(leader + 1) % 3]
    target.servers[leader].group(signal.SIGSTOP)
    try:
        status, answer = target.post("/v3/kv/put", {"key": b64("k"), "value": b64("v")}, follower)
    finally:
        target.servers[leader].group(signal.SIGCONT)
    assert status == 200 or answer["message"].startswith("etcdserver: request timed out"), answer


# ---- streams that require a leader ----

def watch_with_leader(target, port):
    """(status, first line) of a new watch that requires a leader, and the stream."""
    stream = target.stream("/v3/watch", {"create_request": {"key": b64("k")}}, port, {"Grpc-Metadata-hasleader": "true"})
    return stream.answer.status, stream.line(), stream


@on_both(3)
def streams_that_require_a_leader_are_not_refused_before_an_election_timeout(_place, target):
    def opened(_number):
        for server in target.servers:
            if not server.process or server.process.poll() is not None:
                server.start()
        leader = target.leader()
        last = next(i for i in range(3) if i != leader)
        for i in range(3):
            if i != last:
                target.servers[i].kill()
        status, line, stream = watch_with_leader(target, target.ports[last])
        assert status == 200 and line["result"].get("created"), (status, line)
        return last, stream
    last, stream = stall.judge(opened, STALL_S, "the watch")
    ended = stream.line()
    assert ended["error"]["message"] == "etcdserver: no leader" and ended["error"]["grpc_code"] == 14, ended
    stream.close()

    def refused():
        """a new watch to be refused"""
        status, line, another = watch_with_leader(target, target.ports[last])
        another.close()
        return status == 503 and line["error"]["message"] == "etcdserver: no leader"
    wait_for(refused, TIMEOUT_S, 0.1)


# ---- leases and transactions ----

@on_both()
def lease_with_a_ttl_of_zero_or_below_gets_the_shortest_ttl(_place, target):
    for ttl in ("0", "-5"):
        status, answer = target.post("/v3/lease/grant", {"TTL": ttl})
        assert status == 200 and 1 <= int(answer["TTL"]) <= 2, answer


@on_both()
def headers_inside_a_transaction_have_only_the_revision(_place, target):
    put, get = {"request_put": {"key": b64("k")}}, {"request_range": {"key": b64("k")}}
    request = {"success": [put, get, {"request_delete_range": {"key": b64("x")}}, {"request_txn": {"success": [get]}}]}
    status, answer = target.post("/v3/kv/txn", request)
    assert status == 200, answer
    headers = [next(iter(response.values()))["header"] for response in answer["responses"]]
    revision = {"revision": answer["header"]["revision"]}
    assert headers == [revision, revision, revision, {}], headers


# ---- sizes ----

@on_both()
def answers_of_any_size_arrive_whole(_place, target):
    """44 MB: more than all queues of a connection together."""
    value = b64("v" * 1_400_000)
    for i in range(24):
        status, answer = target.post("/v3/kv/put", {"key": b64(f"large{i:02}"), "value": value})
        assert status == 200, answer
    status, answer = target.post("/v3/kv/range", {"key": b64("large"), "range_end": b64("largf")})
    assert status == 200 and answer["count"] == "24", (status, answer.get("count"))
    assert [kv["key"] for kv in answer["kvs"]] == [b64(f"large{i:02}") for i in range(24)]
    assert all(kv["value"] == value for kv in answer["kvs"])
    lines = target.ctl("get", "large", "--prefix").stdout.splitlines()
    assert len(lines) == 48 and all(len(line) == 1_400_000 for line in lines[1::2]), [len(line) for line in lines]


# ---- watches ----

def watched(target, count, change, **create):
    """(fragment, keys) of the responses to a watch of all keys after `change`, until so many events have arrived."""
    stream = target.stream("/v3/watch", {"create_request": {"key": b64("\0"), "range_end": b64("\0"), **create}})
    seen = []
    try:
        assert stream.line()["result"]["created"]
        change()
        while sum(len(keys) for _, keys in seen) < count:
            result = stream.line()["result"]
            seen.append((result.get("fragment", False), [event["kv"]["key"] for event in result["events"]]))
    finally:
        stream.close()
    return seen


def compare_watches(place, prepare, count, **create):
    """Both must send the same responses to a delete of all keys."""
    seen = []
    for target in (Etcd(place), Nodes(place, suite.bellwether)):
        prepare(target)
        seen.append(watched(target, count, lambda target=target: target.post("/v3/kv/deleterange", {
            "key": b64("\0"), "range_end": b64("\0")}), **create))
    shapes = [[(fragment, len(keys)) for fragment, keys in responses] for responses in seen]
    assert seen[0] == seen[1], shapes
    return shapes[1]


@suite.test
def late_watcher_gets_a_large_revision_and_the_ones_after_it():
    with Place("late") as place:
        nodes = Nodes(place, suite.bellwether, 1)

        def fill(round_number):
            puts = [{"request_put": {"key": b64(f"k{round_number:02}-{i}"), "value": b64("v" * 50)}} for i in range(100)]
            status, answer = nodes.post("/v3/kv/txn", {"success": puts})
            assert status == 200, answer
            return int(answer["header"]["revision"])
        start = [fill(n) for n in range(30)][-1] + 1
        assert nodes.post("/v3/kv/deleterange", {"key": b64("k"), "range_end": b64("l")})[1]["deleted"] == "3000"
        for n in range(30):
            fill(n)
        stream = nodes.stream("/v3/watch", {"create_request": {"key": b64("k"), "range_end": b64("l"), "start_revision": start}})
        assert stream.line()["result"]["created"]
        assert [len(stream.line()["result"]["events"]) for _ in range(31)] == [3000] + 30 * [100]
        stream.close()


@suite.test
def late_watchers_that_do_not_read_take_little_memory_and_miss_nothing():
    with Place("late") as place:
        nodes = Nodes(place, suite.bellwether, 1)

        def resident_mb():
            text = nodes.ask("GET", "/metrics")[1].decode()
            return float(re.search(r"^process_resident_memory_bytes (\S+)", text, re.M).group(1)) / 1e6
        for n in range(40):
            puts = [{"request_put": {"key": b64(f"k{n}-{i}"), "value": b64("v" * 14000)}} for i in range(100)]
            assert nodes.post("/v3/kv/txn", {"success": puts})[0] == 200
        before = resident_mb()
        streams = [nodes.stream("/v3/watch", {"create_request": {"key": b64("k"), "range_end": b64("l"), "start_revision": 1}})
                   for _ in range(4)]
        for stream in streams:
            assert stream.line()["result"]["created"]
        grown = resident_mb() - before
        assert grown < 120, f"{grown} MB for four watchers; each must get 56 MB"
        for stream in streams:
            seen = [event["kv"]["key"] for _ in range(40) for event in stream.line()["result"]["events"]]
            assert seen == [b64(f"k{n}-{i}") for n in range(40) for i in range(100)]
            stream.close()


@suite.test
def large_revision_is_sent_in_fragments_only_if_the_client_accepts_them():
    def prepare(target):
        for i in range(7):
            assert target.post("/v3/kv/put", {"key": b64(f"k{i}"), "value": b64("v" * 900_000)})[0] == 200
    with Place("surface") as place:
        assert compare_watches(place, prepare, 7, prev_kv=True, fragment=True) == [(True, 2), (True, 2), (True, 2), (False, 1)]
    with Place("surface") as place:
        assert compare_watches(place, prepare, 7, prev_kv=True) == [(False, 7)]


@suite.test
def revision_with_many_events_is_one_response():
    def prepare(target):
        for i in range(30):
            puts = [{"request_put": {"key": b64(f"k{i}/{j}")}} for j in range(100)]
            assert target.post("/v3/kv/txn", {"success": puts})[0] == 200
    with Place("surface") as place:
        assert compare_watches(place, prepare, 3000) == [(False, 3000)]


@suite.test
def quiet_watch_with_progress_notify_gets_notifications():
    """etcd 3.4 sends them every ten minutes, so only ours runs here. A notification is a response without events."""
    with Place("surface") as place:
        nodes = Nodes(place, suite.bellwether, options=["--watch-progress-notify-interval", "100ms"])
        stream = nodes.stream("/v3/watch", {"create_request": {"key": b64("k"), "progress_notify": True}})
        other = nodes.stream("/v3/watch", {"create_request": {"key": b64("k")}})
        assert stream.line()["result"]["created"] and other.line()["result"]["created"]
        assert sorted(stream.line()["result"]) == ["header"]
        revision = nodes.post("/v3/kv/put", {"key": b64("unwatched")})[1]["header"]["revision"]

        def reported():
            """a notification of the new revision"""
            result = stream.line()["result"]
            return sorted(result) == ["header"] and result["header"]["revision"] == revision
        wait_for(reported, TIMEOUT_S, 0)
        nodes.post("/v3/kv/put", {"key": b64("k")})
        result = stream.line()["result"]
        while "events" not in result:
            assert result["header"]["revision"] == revision, "a notification went ahead of an event"
            result = stream.line()["result"]
        assert other.line()["result"]["events"], "a watch without progress_notify gets only events"
        stream.close()
        other.close()


# ---- compaction ----

@suite.test
def first_notification_of_a_quiet_watch_comes_at_the_first_tick():
    with Place("surface") as place:
        nodes, order = Nodes(place, suite.bellwether, options=["--watch-progress-notify-interval", "2s"]), queue.Queue()

        def watch(key):
            stream = nodes.stream("/v3/watch", {"create_request": {"key": b64(key), "progress_notify": True}})
            assert stream.line()["result"]["created"]
            return stream

        def first_notification(key, stream):
            while "events" in stream.line()["result"]:
                pass
            order.put(key)
        streams = {"busy": watch("busy")}
        nodes.post("/v3/kv/put", {"key": b64("busy")})  # its first tick brings no notification
        streams["quiet"] = watch("quiet")
        for key, stream in streams.items():
            threading.Thread(target=first_notification, args=(key, stream), daemon=True).start()
        assert [order.get(timeout=TIMEOUT_S) for _ in streams] == ["quiet", "busy"]


@suite.test
def requests_that_need_all_members_wait_until_a_new_cluster_has_joined():
    nested = {"success": [{"request_txn": {"success": [{"request_put": {"key": b64("k")}}]}}]}
    with Place("surface") as place:
        nodes = Nodes(place, suite.bellwether, 3, wait=False)

        def first_requests(port):
            wait_for(lambda: nodes.is_healthy(port), TIMEOUT_S, 0.001)
            yield nodes.post("/v3/kv/txn", nested, port)
            yield nodes.post("/v3/auth/role/add", {"name": f"role{port}"}, port)
            yield nodes.post("/v3/maintenance/alarm", {"action": "DEACTIVATE", "alarm": "NOSPACE"}, port)
        for port in nodes.ports:
            for status, answer in first_requests(port):
                assert status == 200, answer


def becomes_compacted(target, revision):
    def compacted():
        """the revision to be compacted"""
        status, answer = target.post("/v3/kv/range", {"key": b64("k"), "revision": revision})
        return status == 400 and answer["message"] == "etcdserver: mvcc: required revision has been compacted"
    wait_for(compacted, TIMEOUT_S, 0.1)


def write_some(target, count):
    return [int(target.post("/v3/kv/put", {"key": b64("k")})[1]["header"]["revision"]) for _ in range(count)]


PERIODIC = ["--auto-compaction-retention", "1s"]


@on_both(3, PERIODIC, PERIODIC)
def history_older_than_the_retention_is_compacted(_place, target):
    revisions = write_some(target, 10)
    becomes_compacted(target, revisions[5])
    assert target.post("/v3/kv/range", {"key": b64("k"), "revision": revisions[9]})[0] == 200, "the newest revision stays"


@suite.test
def all_but_the_last_revisions_are_compacted():
    """etcd compacts by number every five minutes, so only ours runs here."""
    with Place("surface") as place:
        nodes = Nodes(place, suite.bellwether, options=["--auto-compaction-mode", "revision", "--auto-compaction-retention", "10"])
        revisions = write_some(nodes, 30)
        becomes_compacted(nodes, revisions[18])
        assert nodes.post("/v3/kv/range", {"key": b64("k"), "revision": revisions[19]})[0] == 200, "ten revisions before it stay"


@suite.test
def invalid_retention_is_refused():
    for words, text in ((["--auto-compaction-mode", "never"], "expected periodic or revision"),
                        (["--auto-compaction-retention", "soon"], "expected a duration"),
                        (["--auto-compaction-retention", "99999999999"], "expected a duration"),
                        (["--auto-compaction-mode", "revision", "--auto-compaction-retention", "1h"], "expected a number of revisions")):
        done = subprocess.run([suite.bellwether, "serve", *words], capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 64 and text in done.stderr, (words, done)


# ---- maintenance ----

def hashes(target, revision=0):
    """(hash, compact revision) of every member."""
    done = target.ctl("endpoint", "hashkv", "-w", "json", "--rev", str(revision))
    return [(found["HashKV"]["hash"], found["HashKV"]["compact_revision"]) for found in json.loads(done.stdout)]


@on_both(3)
def members_with_the_same_content_have_the_same_hash(_place, target):
    for i in range(300):
        status, answer = target.post("/v3/kv/put", {"key": b64(f"k{i % 100}"), "value": b64(str(i))})
        assert status == 200, answer
    middle = int(answer["header"]["revision"])

    def equal():
        """all members to have the same hash"""
        return len(set(hashes(target))) == 1
    wait_for(equal, TIMEOUT_S, 0.1)
    then = hashes(target, middle)
    assert len(then) == 3 and len(set(then)) == 1 and then[0][1] == -1, then
    target.post("/v3/kv/deleterange", {"key": b64("k1"), "range_end": b64("k2")})
    target.post("/v3/kv/put", {"key": b64("k2"), "value": b64("new")})
    wait_for(equal, TIMEOUT_S, 0.1)
    assert hashes(target, middle) == then, "later changes have no influence on the hash of a revision"
    assert hashes(target)[0][0] != then[0][0]
    assert target.post("/v3/kv/compaction", {"revision": middle + 1, "physical": True})[0] == 200
    wait_for(equal, TIMEOUT_S, 0.1)
    assert hashes(target)[0][1] == middle + 1, hashes(target)
    for revision, text in ((middle, "required revision has been compacted"), (middle + 1, "required revision has been compacted"),
                           (middle + 99, "required revision is a future revision")):
        assert text in target.ctl("endpoint", "hashkv", "--rev", str(revision), check=False).stderr, revision
    status, answer = target.post("/v3/maintenance/hash", {})
    assert status == 200 and sorted(answer) == ["hash", "header"], answer


@on_both()
def defragment_succeeds(_place, target):
    assert target.post("/v3/maintenance/defragment", {}) == (200, {})
    assert target.ctl("defrag").stdout.startswith("Finished defragmenting etcd member[")


suite.main(2)
