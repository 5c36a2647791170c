#!/usr/bin/env python3
"""A full database: what is refused, what goes on, and how an operator gets out of it, side by side with a real
etcd; then on three nodes.

    serve_quota.py BELLWETHER UNUSED UNUSED [NAME...]"""
import json
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "kit"))
from run_lib import wait_for  # noqa: E402
from serve_lib import Cluster, Etcd, Link, Nodes, b64  # noqa: E402
from store_lib import TIMEOUT_S, Place, Suite  # noqa: E402

suite = Suite()
QUOTA = 16 << 20
UNAVAILABLE = 14
NO_SPACE = "etcdserver: mvcc: database space exceeded"
VALUE = b64(os.urandom(700000))


def alarms(target, port=None):
    return target.post("/v3/maintenance/alarm", {}, port=port)[1].get("alarms", [])


def fill(port, most=60):
    """Puts until the node is full. Returns the number of acknowledged puts, and the refusal. On a slow machine the
    leader may change; the outcome of such a put is unknown."""
    link, acknowledged = Link(port), 0
    for i in range(most):
        status, answer = link.post("/v3/kv/put", {"key": b64(f"k{i % 8}"), "value": VALUE})
        if status != 200 and answer["code"] != UNAVAILABLE:
            return acknowledged, answer
        acknowledged += status == 200
    raise AssertionError("never full")


def leases_go_on(target):
    """A function that renews a lease."""
    lease = target.post("/v3/lease/grant", {"TTL": 600})[1]["ID"]

    def renew():
        status, answer = target.post("/v3/lease/keepalive", {"ID": lease})
        assert status == 200 and int(answer["result"]["TTL"]) == 600, answer
    return renew


def ours(place):
    return Nodes(place, suite.bellwether, options=["--quota-bytes", str(QUOTA)])


def etcd(place):
    return Etcd(place, options=["--quota-backend-bytes", str(QUOTA)])


def life_of_a_full_node(target):
    """What clients see, step by step; equal for ours and etcd."""
    seen = []
    renew = leases_go_on(target)
    count, refusal = fill(target.ports[0])
    assert 8 < count < 30, count
    seen.append(refusal)
    wait_for(lambda: alarms(target), TIMEOUT_S, 0.02)
    seen.append([alarm["alarm"] for alarm in alarms(target)])
    # A small put is refused like a large one, and so are grants and transactions that could put.
    put = {"requestPut": {"key": b64("t"), "value": b64("1")}}
    seen.append(target.post("/v3/kv/put", {"key": b64("small"), "value": b64("1")}))
    seen.append(target.post("/v3/lease/grant", {"TTL": 60}))
    seen.append(target.post("/v3/kv/txn", {"success": [put]}))
    seen.append(target.post("/v3/kv/txn", {"failure": [put]}))
    # Reads, deletes, renewals and transactions without puts go on; nothing is lost.
    for i in range(8):
        kvs = target.post("/v3/kv/range", {"key": b64(f"k{i}")})[1]["kvs"]
        assert kvs[0]["value"] == VALUE, i
    renew()
    seen.append(target.post("/v3/kv/txn", {"success": [{"requestRange": {"key": b64("none")}}]})[1].get("succeeded"))
    seen.append(target.post("/v3/kv/deleterange", {"key": b64("k7")})[1]["deleted"])
    seen.append([target.ask("GET", "/health" + query)[0] for query in ("", "?exclude=NOSPACE", "?exclude=CORRUPT")])
    status = json.loads(target.ctl("endpoint", "status", "-w", "json").stdout)[0]["Status"]
    seen.append([word.split()[1] for word in status["errors"]])
    seen.append([line.split()[1] for line in target.ctl("alarm", "list").stdout.splitlines()])
    # Space is made, but the alarm stays until it is disarmed.
    revision = int(target.post("/v3/kv/range", {"key": b64("k1")})[1]["header"]["revision"])
    seen.append(target.post("/v3/kv/compaction", {"revision": str(revision), "physical": True})[0])
    if isinstance(target, Etcd):
        target.ctl("defrag")
    seen.append(target.post("/v3/kv/put", {"key": b64("small"), "value": b64("1")}))
    seen.append([line.split()[1] for line in target.ctl("alarm", "disarm").stdout.splitlines()])
    seen.append([target.ctl("alarm", "disarm").stdout, target.ctl("alarm", "list").stdout])
    seen.append(target.post("/v3/kv/put", {"key": b64("small"), "value": b64("1")})[0])
    seen.append(target.ask("GET", "/health")[0])
    renew()
    # It fills up again.
    seen.append(fill(target.ports[0])[1])
    wait_for(lambda: alarms(target), TIMEOUT_S, 0.02)
    return seen


@suite.test
def full_node_behaves_like_etcd():
    with Place("quota") as place:
        reference = life_of_a_full_node(etcd(place))
        assert reference[0]["error"] == NO_SPACE, reference
        found = life_of_a_full_node(ours(place))
        for step, (one, other) in enumerate(zip(reference, found)):
            assert one == other, (step, one, other)


@suite.test
def alarms_of_members_are_raised_and_cleared_by_hand_like_etcd():
    steps = [{"action": "DEACTIVATE", "memberID": "7", "alarm": "NOSPACE"}, {"action": "ACTIVATE", "memberID": "7", "alarm": "NOSPACE"},
             {"action": "ACTIVATE", "memberID": "7", "alarm": "NOSPACE"}, {"action": "ACTIVATE", "memberID": "5", "alarm": "NOSPACE"},
             {"action": "GET", "alarm": "CORRUPT"}, {"action": "DEACTIVATE", "memberID": "7", "alarm": "NOSPACE"},
             {"action": "GET"}, {"action": "DEACTIVATE", "memberID": "5", "alarm": "NOSPACE"}, {"action": "GET"}]
    with Place("quota") as place:
        one, other = etcd(place), ours(place)

        def supported():
            """the leader to record that all members support alarms"""
            return other.post("/v3/maintenance/alarm", {**steps[0], "action": "ACTIVATE"})[0] == 200
        wait_for(supported, TIMEOUT_S, 0.02)
        other.ctl("alarm", "disarm")
        for step in steps:
            seen = [target.post("/v3/maintenance/alarm", step) for target in (one, other)]
            assert seen[0] == seen[1], (step, seen)


@suite.test
def alarm_of_one_node_stops_all_and_survives_restarts():
    with Place("quota") as place:
        cluster = Cluster(place, suite.bellwether, 3, ["--quota-bytes", str(QUOTA)])
        leader = cluster.leads()
        follower = next(name for name in "abc" if name != leader)
        count, refusal = fill(cluster.client[follower])
        assert refusal["error"] == NO_SPACE, refusal
        for name in "abc":
            def raised(name=name):
                """the alarm on every node"""
                return alarms(cluster, cluster.client[name])
            wait_for(raised, TIMEOUT_S, 0.02)
            status, answer = cluster.post("/v3/kv/put", {"key": b64("x"), "value": b64("1")}, port=cluster.client[name])
            assert status != 200 and answer["error"] == NO_SPACE, (name, answer)
        for name in "abc":
            cluster.nodes[name].kill()
        for name in "abc":
            cluster.nodes[name].start(wait=False)

        def kept():
            """the alarm after a restart of all nodes"""
            try:
                return [alarm["alarm"] for alarm in alarms(cluster, cluster.client[leader])]
            except OSError:
                return None  # it starts
        assert wait_for(kept, TIMEOUT_S, 0.05) == ["NOSPACE"]
        found = cluster.post("/v3/kv/range", {"key": b64("k"), "range_end": b64("l"), "keys_only": True})[1]
        revision = int(found["header"]["revision"])
        assert len(found["kvs"]) == 8 and revision >= count + 1, (count, found)
        cluster.ctl("del", "k0", "k9")
        cluster.ctl("compact", str(revision + 1))
        cluster.ctl("alarm", "disarm")
        cluster.ctl("put", "x", "1")


@suite.test
def node_with_a_smaller_quota_raises_the_alarm_for_the_writes_of_others():
    with Place("quota") as place:
        cluster = Cluster(place, suite.bellwether, 3)
        small = cluster.nodes["b"]
        small.group(15)
        assert small.process.wait(TIMEOUT_S) == 0, small.tail()
        small.words += ["--quota-bytes", str(QUOTA)]
        small.start()
        number = cluster.number("b")
        _, refusal = fill(cluster.client["a"])
        assert refusal["message"] == NO_SPACE, refusal
        assert alarms(cluster) == [{"memberID": str(number), "alarm": "NOSPACE"}], alarms(cluster)


@suite.test
def quota_above_the_maximum_is_refused():
    for word in ("8589934593", "-1", "2G"):
        code, _, err = suite.command("serve", "--quota-bytes", word)
        assert code == 64 and "--quota-bytes" in err and word in err, (code, err)


suite.main(2)
