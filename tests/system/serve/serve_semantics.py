#!/usr/bin/env python3
"""Comparison with a real etcd: both get the same requests, and every answer must be the same: values, revisions,
versions, counts, events, statuses, error codes and error texts. Only ids of cluster and member, the term, and
one second of a TTL may differ.

    serve_semantics.py BELLWETHER WITNESS CONFORMANCE [--follower] [--random FROM-TO] [NAME...]

--follower asks a follower in a cluster of three. --random runs the random cases of these seeds (default: 1-25).

A case is a list of steps; it starts without keys and leases, and with both at the same revision."""
import http.client
import json
import os
import random
import re
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "kit"))
from serve_lib import Etcd, Nodes, b64  # noqa: E402
from store_lib import Place, Skip, Suite  # noqa: E402

FOLLOWER = "--follower" in sys.argv
sys.argv = [word for word in sys.argv if word != "--follower"]
SEEDS = (1, 25)
if "--random" in sys.argv:
    at = sys.argv.index("--random")
    SEEDS = tuple(int(number) for number in sys.argv[at + 1].split("-"))
    del sys.argv[at:at + 2]
suite = Suite()
CASES = []


def case(name, *steps):
    CASES.append((name, steps))


# ---- steps ----

def call(path, **body):
    return lambda target, base: target.post(path, absolute(body, base))


class Rev(int):
    """A revision relative to the one at the start of the case."""


def absolute(value, base):
    if isinstance(value, Rev):
        return str(base + value)
    if isinstance(value, dict):
        return {k: absolute(v, base) for k, v in value.items()}
    return [absolute(v, base) for v in value] if isinstance(value, list) else value


def keys(key, end=None):
    return {"key": b64(key), **({} if end is None else {"range_end": b64(end)})}


def op_put(key, value="", **more):
    return {**keys(key), "value": b64(value), **more}


def put(key, value="", **more):
    return call("/v3/kv/put", **op_put(key, value, **more))


def get(key, end=None, **more):
    return call("/v3/kv/range", **keys(key, end), **more)


def delete(key, end=None, **more):
    return call("/v3/kv/deleterange", **keys(key, end), **more)


def compare(key, what, value, result="EQUAL", end=None):
    field = {"VERSION": "version", "CREATE": "create_revision", "MOD": "mod_revision", "VALUE": "value", "LEASE": "lease"}[what]
    return {**keys(key, end), "target": what, "result": result, field: b64(value) if what == "VALUE" else value}


def txn(compares=(), then=(), otherwise=()):
    return call("/v3/kv/txn", compare=list(compares), success=list(then), failure=list(otherwise))


def t_put(*a, **k):
    return {"request_put": op_put(*a, **k)}


def t_get(key, end=None, **more):
    return {"request_range": {**keys(key, end), **more}}


def t_delete(key, end=None, **more):
    return {"request_delete_range": {**keys(key, end), **more}}


def t_txn(compares=(), then=(), otherwise=()):
    return {"request_txn": {"compare": list(compares), "success": list(then), "failure": list(otherwise)}}


def grant(number, ttl=100):
    return call("/v3/lease/grant", ID=number, TTL=ttl)


def revoke(number):
    return call("/v3/lease/revoke", ID=number)


def left(number, with_keys=False):
    return call("/v3/lease/timetolive", ID=number, keys=with_keys)


def leases():
    return call("/v3/lease/leases")


def compact(revision):
    return call("/v3/kv/compaction", revision=revision)


def lines(path, body, count, *steps):
    """So many lines of a stream; the steps run after the first line."""
    def step(target, base):
        stream = target.stream(path, absolute(body, base))
        try:
            seen = [stream.answer.status, stream.line()]
            done = [s(target, base) for s in steps]
            return seen + [stream.line() for _ in range(count - 1)] + done
        finally:
            stream.close()
    return step


def replay(key, count, end=None, **more):
    """So many past events: etcd puts several revisions into one response, ours come one by one."""
    def step(target, base):
        stream = target.stream("/v3/watch", {"create_request": absolute({**keys(key, end), **more}, base)})
        try:
            created, events = stream.line(), []
            while len(events) < count:
                events += stream.line()["result"]["events"]
            return [created, events]
        finally:
            stream.close()
    return step


def too_late(key, start):
    """A watch of compacted history: the text of the reason is our own."""
    def step(target, base):
        stream = target.stream("/v3/watch", {"create_request": {**keys(key), "start_revision": base + start}})
        try:
            created, end = stream.line(), stream.line()["result"]
            return [created, end["canceled"], end["compact_revision"]]
        finally:
            stream.close()
    return step


def watch(key, count, *steps, end=None, **more):
    return lines("/v3/watch", {"create_request": {**keys(key, end), **more}}, count, *steps)


def keep_alive(*numbers):
    def step(target, _base):
        body = "".join(json.dumps({"ID": n}) for n in numbers)
        status, text, _ = target.ask("POST", "/v3/lease/keepalive", body)
        return [status, sorted((json.loads(line) for line in text.splitlines()), key=str)]
    return step


def raw(verb, path, body=""):
    """Only the status, where the texts differ."""
    return lambda target, _base: target.ask(verb, path, body)[0]


def without_header(step):
    def bare(target, base):
        status, answer = step(target, base)
        return status, {k: v for k, v in answer.items() if k != "header"}
    return bare


def ctl(*words, stdin=None):
    def step(target, base):
        done = target.ctl(*[str(base + w) if isinstance(w, Rev) else w for w in words], stdin=stdin, check=False)
        errors = [line for line in done.stderr.splitlines() if line.startswith("Error")]
        out = re.sub(r'"(cluster_id|member_id|raft_term)":\d+', r'"\1":0', done.stdout)
        return [done.returncode, out, errors]
    return step


# ---- allowed differences ----

def normal(value):
    if isinstance(value, (list, tuple)):
        return [normal(v) for v in value]
    if not isinstance(value, dict):
        return value
    out = {k: normal(v) for k, v in value.items() if k not in ("cluster_id", "member_id", "raft_term")}
    granted = int(out.get("grantedTTL", 0))
    if granted and granted - 2 <= int(out.get("TTL", 0)) <= granted:
        out["TTL"] = "all of it"
    if "leases" in out:
        out["leases"] = sorted(out["leases"], key=str)
    if out.get("keys"):
        out["keys"] = sorted(out["keys"])
    return out


def clear(target):
    """Removes all keys and leases; returns the revision."""
    for lease in target.post("/v3/lease/leases", {})[1].get("leases", []):
        target.post("/v3/lease/revoke", lease)
    return int(target.post("/v3/kv/deleterange", keys("\0", "\0"))[1]["header"]["revision"])


def level(targets):
    revisions = [clear(t) for t in targets]
    if len(set(revisions)) > 1:
        for target, revision in zip(targets, revisions):
            for _ in range(max(revisions) - revision + 1):  # both have a key to remove
                target.post("/v3/kv/put", keys("level"))
        revisions = [clear(t) for t in targets]
    assert revisions[0] == revisions[1], revisions
    return revisions[0]


def compare_both(targets, steps):
    base = level(targets)
    for number, step in enumerate(steps):
        ours, theirs = (normal(step(t, base)) for t in targets)
        assert ours == theirs, f"step {number + 1}:\n  ours: {json.dumps(ours)}\n  etcd: {json.dumps(theirs)}"


# ---- the cases ----

NEW = [compare("k", "VERSION", 0)]
OLD = [compare("k", "VERSION", 0, "GREATER")]
ABC = [put("a", "1"), put("b", "3"), put("c", "2"), put("a", "4"), put("d", "0")]

case("a first put", put("k", "v"), get("k"))
case("a put over a put", put("k", "v"), put("k", "w"), get("k"))
case("a put shows what was there", put("k", "v"), put("k", "w", prev_kv=True), put("new", "x", prev_kv=True))
case("an empty value", put("k", ""), get("k"), put("k", "", prev_kv=True))
case("a put without a key", put("", "v"))
case("a put of bytes that are no text", put(b"\xff\x00\x01", b"\x00\xfe"), get(b"\xff\x00\x01"))
case("a put keeps the value", put("k", "v"), put("k", ignore_value=True), get("k"))
case("a put keeps the value of nothing", put("k", ignore_value=True))
case("a put keeps the value, and gives one", put("k", "v"), put("k", "w", ignore_value=True))
case("a put keeps the lease", grant(5), put("k", "v", lease=5), put("k", "w", ignore_lease=True), get("k"))
case("a put keeps the lease of nothing", put("k", "v", ignore_lease=True))
case("a put keeps the lease, and gives one", grant(5), put("k", "v"), put("k", "w", lease=5, ignore_lease=True))
case("a put with an unknown lease", put("k", "v", lease=77), get("k"))
case("a put with a negative lease", put("k", "v", lease=-4))
case("a put without a lease detaches", grant(5), put("k", "v", lease=5), put("k", "w"), left(5, True), revoke(5), get("k"))
case("a put with another lease moves", grant(5), grant(6), put("k", "v", lease=5), put("k", "w", lease=6), left(5, True),
     left(6, True), revoke(5), get("k"), revoke(6), get("k"))

case("a get of nothing", get("k"))
case("a get without a key", get(""))
case("a get of all", *ABC, get("\0", "\0"))
case("a get of a range", *ABC, get("b", "d"))
case("a get of an empty range", *ABC, get("d", "b"), get("b", "b"))
case("a get from a key on", *ABC, get("b", "\0"))
case("a get with a limit", *ABC, get("a", "z", limit=2), get("a", "z", limit=4), get("a", "z", limit=9))
case("a get with a negative limit", *ABC, get("a", "z", limit=-1))
case("a get of the count", *ABC, get("a", "z", count_only=True), get("a", "z", count_only=True, limit=1))
case("a get of the keys", *ABC, get("a", "z", keys_only=True))
for order in ("NONE", "ASCEND", "DESCEND"):
    for by in ("KEY", "VERSION", "CREATE", "MOD", "VALUE"):
        case(f"a get sorted {order} by {by}", *ABC, get("a", "z", sort_order=order, sort_target=by),
             *([] if order == "NONE" else [get("a", "z", sort_order=order, sort_target=by, limit=2)]))  # etcd applies the limit before it sorts
case("a get sorted by numbers of enums", *ABC, get("a", "z", sort_order=2, sort_target=3))
case("a get sorted by an unknown target", *ABC, raw("POST", "/v3/kv/range", '{"key":"YQ==","sort_target":"NO"}'))
case("a get filtered by modification", *ABC, get("a", "z", min_mod_revision=Rev(3)), get("a", "z", max_mod_revision=Rev(3)),
     get("a", "z", min_mod_revision=Rev(3), max_mod_revision=Rev(4), limit=1))
case("a get filtered by creation", *ABC, get("a", "z", min_create_revision=Rev(2)), get("a", "z", max_create_revision=Rev(1)),
     get("a", "z", max_create_revision=Rev(2), limit=1, sort_order="DESCEND", sort_target="CREATE"))
case("a get of the past", *ABC, get("a", "z", revision=Rev(2)), get("a", revision=Rev(1)), get("a", revision=Rev(4)))
case("a get of the past, before a delete", *ABC, delete("a"), get("a", revision=Rev(5)), get("a"), get("a", "z", revision=Rev(5)))
case("a get of the future", *ABC, get("a", revision=Rev(6)), get("a", revision=Rev(1000)))
case("a get of a negative revision", *ABC, get("a", revision=-1))
case("a get that need not be linearizable", *ABC, get("a", serializable=True))

case("a delete", put("k", "v"), delete("k"), get("k"))
case("a delete of nothing", delete("k"), get("k"))
case("a delete without a key", delete(""))
case("a delete of a range", *ABC, delete("a", "c"), get("\0", "\0"))
case("a delete shows what was there", *ABC, delete("a", "\0", prev_kv=True))
case("a delete of the last key of a lease", grant(5), put("k", "v", lease=5), delete("k"), left(5, True), revoke(5))
case("versions start again after a delete", put("k", "v"), put("k", "v"), delete("k"), put("k", "v"), get("k"))

case("a transaction without compares", txn(then=[t_put("k", "v"), t_get("k")]))
case("a transaction of nothing", txn(), txn([compare("k", "VERSION", 1)]))
for what, there, other in (("VERSION", 2, 1), ("CREATE", Rev(1), Rev(2)), ("MOD", Rev(4), Rev(5)), ("VALUE", "4", "1"), ("LEASE", 0, 7)):
    for result in ("EQUAL", "NOT_EQUAL", "GREATER", "LESS"):
        case(f"a transaction compares {what} {result}", *ABC, txn([compare("a", what, there, result)], [t_get("a")], [t_get("b")]),
             txn([compare("a", what, other, result)], [t_get("a")], [t_get("b")]))
for what, value in (("VERSION", 0), ("CREATE", 0), ("MOD", 0), ("LEASE", 0), ("VALUE", "")):
    for result in ("EQUAL", "NOT_EQUAL", "GREATER", "LESS"):
        case(f"a transaction compares {what} {result} of nothing", txn([compare("no", what, value, result)], [t_put("k", "then")],
                                                                     [t_put("k", "else")]), get("k"))
case("a transaction compares a range", *ABC, txn([compare("a", "MOD", Rev(9), "LESS", "z")], [t_get("a")]),
     txn([compare("a", "VERSION", 1, "EQUAL", "z")], [t_get("a")], [t_get("b")]), txn([compare("x", "CREATE", 0, "EQUAL", "z")]))
case("a transaction sees its own writes", txn(then=[t_put("k", "1"), t_get("k"), t_put("l", "2"), t_get("k", "z"), t_delete("m"), t_get("k")]))
case("a transaction sees its own deletes", *ABC, txn(then=[t_delete("a", "c", prev_kv=True), t_get("a", "z")]), get("a", "z"))
case("a transaction puts twice", txn(then=[t_put("k", "1"), t_put("k", "2")]), get("k"))
case("a transaction puts twice in the other branch", txn(otherwise=[t_put("k", "1"), t_put("k", "2")]), get("k"))
case("a transaction puts in both branches", txn(then=[t_put("k", "1")], otherwise=[t_put("k", "2")]), get("k"))
case("a transaction puts and deletes", txn(then=[t_put("k", "1"), t_delete("k")]), txn(then=[t_delete("a", "z"), t_put("k", "1")]), get("k"))
case("a transaction deletes twice", *ABC, txn(then=[t_delete("a"), t_delete("a", "c")]), get("a", "z"))
case("a transaction deletes beside a put", txn(then=[t_put("k", "1"), t_delete("l", "z")]), txn(then=[t_put("k", "1"), t_delete("a", "k")]))
case("a transaction with an unknown lease does nothing", txn(then=[t_put("k", "1"), t_put("l", "2", lease=99)]), get("k"))
case("a transaction without a key", txn(then=[t_put("", "1")]), txn(then=[t_get("")]), txn(then=[t_delete("")]),
     txn([compare("", "VERSION", 0)], [t_get("k")]))
case("a transaction of the past", *ABC, txn(then=[t_get("a", revision=Rev(1))]), txn(then=[t_put("z"), t_get("a", revision=Rev(50))]), get("z"))
case("a transaction of 128 operations", txn(then=[t_put(f"k{i}") for i in range(128)]), get("k", "l", count_only=True))
case("a transaction of 129 operations", txn(then=[t_put(f"k{i}") for i in range(129)]), get("k", "l", count_only=True),
     txn(otherwise=[t_put(f"k{i}") for i in range(129)]), txn([compare("k", "VERSION", 0)] * 129))
case("a transaction that only reads", *ABC, txn(then=[t_get("a"), t_get("b", keys_only=True), t_get("a", "z", count_only=True)]), get("a"))
case("a transaction shows previous values", *ABC, txn(then=[t_put("a", "5", prev_kv=True), t_delete("b", prev_kv=True)]))
case("a transaction keeps values", *ABC, txn(then=[t_put("a", ignore_value=True)]), txn(then=[t_put("no", ignore_value=True)]),
     txn(then=[t_put("a", "x", ignore_value=True)]), get("a"))
case("a transaction contradicts itself in the branch that is not taken", *ABC, txn(otherwise=[t_put("a", "x", ignore_value=True)]),
     txn(then=[t_txn(OLD, [t_put("a", "x", ignore_value=True)])]), txn(otherwise=[t_put("a", ignore_lease=True, lease=5)]), get("a"))
case("a transaction reads before it writes", *ABC, txn(then=[t_get("a"), t_delete("no"), t_put("a", "5"), t_get("a"), t_delete("no")]),
     txn(then=[t_txn(then=[t_get("a"), t_txn(then=[t_put("b", "6")]), t_get("b")]), t_get("a")]))
case("a put keeps the value of nothing, with an unknown lease", put("k", ignore_value=True, lease=99))
case("a transaction that deletes nothing", txn(then=[t_delete("k")]), get("k"))

case("a transaction inside one", txn(then=[t_txn(NEW, [t_put("k", "1"), t_get("k")], [t_put("k", "2")]), t_get("k")]), get("k"))
case("a transaction inside one, the other branch", *ABC, txn(OLD, [], [t_put("x"), t_txn(OLD, [t_put("y")], [t_delete("a", "c", prev_kv=True)])]),
     get("a", "z"))
case("compares inside see what was before all of it", txn(then=[t_put("k", "1"), t_txn(NEW, [t_put("l", "new")], [t_put("l", "old")])]), get("l"))
case("several inside, and inside those", *ABC, txn(then=[
    t_txn([compare("a", "VERSION", 2)], [t_txn(NEW, [t_put("x", "1"), t_txn([compare("no", "CREATE", 5)], [t_put("y")], [t_get("a", "z")])]), t_get("x")]),
    t_txn(OLD, [t_put("z")], [t_put("z", "else", prev_kv=True)]), t_get("z")]), get("a", "\0"))
case("a transaction inside one that does nothing", txn(then=[t_txn(), t_txn(NEW), t_txn(OLD, [t_put("k")])]), get("k"))
case("only reads inside", *ABC, txn(then=[t_txn(then=[t_get("a"), t_get("b", "d", keys_only=True)])]), get("a"))
for what, list_ in (("puts in two", [t_txn(then=[t_put("k", "1")]), t_txn(then=[t_put("k", "2")])]),
                    ("puts in both branches", [t_txn(NEW, [t_put("k", "1")], [t_put("k", "2")])]),
                    ("puts inside and outside", [t_txn(then=[t_put("k", "1")]), t_put("k", "2")]),
                    ("puts outside and inside", [t_put("k", "2"), t_txn(then=[t_put("k", "1")])]),
                    ("puts in the branch not taken", [t_put("k", "2"), t_txn(NEW, [], [t_put("k", "1")])]),
                    ("puts twice inside", [t_txn(then=[t_put("k", "1"), t_put("k", "2")])]),
                    ("puts inside what is deleted outside", [t_txn(then=[t_put("k", "1")]), t_delete("a", "z")]),
                    ("deletes inside what is put outside", [t_put("k"), t_txn(then=[t_delete("a", "z")])]),
                    ("deletes in the first what the second puts", [t_txn(then=[t_delete("k")]), t_txn(then=[t_put("k", "1")])]),
                    ("puts in the first what the second deletes", [t_txn(then=[t_put("k", "1")]), t_txn(then=[t_delete("k")])]),
                    ("deletes in one branch what the other puts", [t_txn(NEW, [t_put("k", "1")], [t_delete("k")])]),
                    ("deletes everywhere", [t_delete("k"), t_txn(then=[t_delete("k")]), t_txn(then=[t_delete("a", "z")])]),
                    ("puts two levels down", [t_txn(then=[t_txn(then=[t_put("k", "1")])]), t_txn(then=[t_txn(then=[t_put("k", "1")])])])):
    case("one that " + what, txn(then=list_), get("k"), txn(OLD, [], list_), get("k"))
case("one inside with an unknown lease does nothing", txn(then=[t_put("a"), t_txn(then=[t_put("k", lease=99)])]), get("a"))
case("one inside without a key", txn(then=[t_put("a"), t_txn(then=[t_get("")])]), txn(then=[t_txn([compare("", "VERSION", 0)])]),
     txn(then=[t_txn(NEW, [t_put("k")], [t_put("")])]), get("a"))
case("one inside has what is left of 128 operations", txn(then=[t_put(f"a{i}") for i in range(63)] + [t_txn(then=[t_put(f"k{i}") for i in range(64)])]),
     txn(then=[t_put(f"a{i}") for i in range(64)] + [t_txn(then=[t_put(f"k{i}") for i in range(64)])]), get("a", "z", count_only=True))
case("an empty operation", txn(then=[{}]), txn(then=[t_txn(then=[{}])]))

case("a grant", grant(5), leases(), left(5))
case("a grant of a lease that is there", grant(5), grant(5), leases())
case("a grant that is too long", grant(5, 9000000001), grant(6, 9000000000), leases())
case("a revoke takes its keys in one revision", grant(5), put("a", lease=5), put("b", lease=5), put("c"), revoke(5), get("\0", "\0"))
case("a revoke of nothing", revoke(55), get("k"))
case("a revoke of a lease without keys", grant(5), revoke(5), get("k"), leases())
case("what is left of nothing", left(55), left(55, True))
case("what is left of a negative id", grant(5), put("a", lease=5), left(-5), left(-5, True), left(-55), left(-55, True), left(-2**63),
     left(-2**63, True), left(2**63 - 1, True), left(0), left(0, True), revoke(-5), call("/v3/lease/keepalive", ID=-5), left(5, True))
case("what is left, with keys", grant(5), put("a", lease=5), put("b", lease=5), left(5, True), left(5))
case("a keep-alive", grant(5), keep_alive(5))
case("a keep-alive of nothing", keep_alive(55), leases())
case("keep-alives of several", grant(5), keep_alive(5, 55, 5))
case("leases one after the other", *[grant(i) for i in range(10, 20)], leases(), revoke(12), leases())

case("a watch", watch("k", 3, put("k", "v"), put("x"), delete("k")))
case("a watch shows what was there", watch("k", 4, put("k", "v"), put("k", "w"), delete("k"), prev_kv=True))
case("a watch of a range", watch("k", 4, put("k1"), put("a"), put("k2"), delete("k", "l"), end="l"))
case("a watch of everything", watch("\0", 3, put("a"), put("zz"), end="\0"))
case("a watch replays", *ABC, delete("a"), replay("a", 3, start_revision=Rev(1)))
case("a watch replays a range", *ABC, replay("a", 5, start_revision=Rev(1), end="z"))
case("a watch replays with what was there", *ABC, delete("a"), replay("a", 3, start_revision=Rev(1), prev_kv=True))
case("a watch replays from the middle", *ABC, replay("a", 1, start_revision=Rev(3)))
case("a watch of the future", watch("k", 2, put("k", "1"), put("k", "2"), put("k", "3"), start_revision=Rev(3)))
case("a watch sees a transaction as one", watch("k", 2, txn(then=[t_put("k1"), t_put("k2"), t_put("a"), t_put("k3")]), end="l"))
case("a watch sees a revoke as one", grant(5), put("k1", lease=5), put("k2", lease=5), watch("k", 2, revoke(5), end="l"))
case("a watch without puts", watch("k", 2, put("k"), delete("k"), filters=["NOPUT"]))
case("a watch without deletes", watch("k", 3, put("k"), delete("k"), put("k"), filters=["NODELETE"]))
case("a watch with an id", watch("k", 2, put("k"), watch_id=9))
case("a watch of an empty key and end", watch("", 2, put("k"), end="\0"))
case("a watch of nothing", watch("a", 1, end="a"), watch("b", 1, end="a"), watch("a", 1, start_revision=Rev(1), end="a"))
case("a watch without a key", watch("", 2, put("k"), put("\0", "v")), watch("", 2, put("a", "v"), end="b"))
case("a watch of a key with its lease", grant(5), watch("k", 2, put("k", "v", lease=5)))
case("a watch of a transaction that writes twice below", watch("a", 3, txn(then=[t_put("a", "1")]), txn(then=[t_delete("a", "b")])))
case("many watchers of one stream", lambda target, base: several_watches(target))

case("compaction", *ABC, compact(Rev(3)), get("a", revision=Rev(2)), get("a", revision=Rev(3)), get("a", "z", revision=Rev(4)), get("a", "z"))
case("compaction twice", *ABC, compact(Rev(3)), compact(Rev(3)), compact(Rev(2)), compact(Rev(4)))
case("compaction of the future", *ABC, compact(Rev(6)), compact(Rev(1000)))
case("compaction of all", *ABC, compact(Rev(5)), get("a", "z"), get("a", revision=Rev(5)), get("a", revision=Rev(4)))
case("a watch of what is compacted", *ABC, compact(Rev(3)), too_late("a", 1), too_late("b", 2), replay("a", 1, start_revision=Rev(4)))
case("a watch from the compacted revision on", *ABC, compact(Rev(4)), replay("a", 1, start_revision=Rev(4)))
case("a transaction reads what is compacted", *ABC, compact(Rev(3)), txn(then=[t_put("z"), t_get("a", revision=Rev(1))]), get("z"))

LEADER = {"name": b64("e")}
case("an election", grant(5), call("/v3/election/campaign", name=b64("e"), lease=5, value=b64("me")),
     call("/v3/election/leader", **LEADER), get("e", "f"))
case("an election nobody leads", call("/v3/election/leader", **LEADER))
case("a campaign with an unknown lease", call("/v3/election/campaign", name=b64("e"), lease=77, value=b64("me")))
case("what elections and locks must be told", call("/v3/election/proclaim"), call("/v3/election/resign"), call("/v3/lock/unlock"))
case("a campaign won twice", grant(5), call("/v3/election/campaign", name=b64("e"), lease=5, value=b64("me")),
     without_header(call("/v3/election/campaign", name=b64("e"), lease=5, value=b64("again"))), get("e", "f"))
OWN = {"name": b64("e"), "key": b64("e/5"), "lease": 5}
case("a proclaim", grant(5), call("/v3/election/campaign", name=b64("e"), lease=5, value=b64("me")),
     call("/v3/election/proclaim", leader={**OWN, "rev": Rev(1)}, value=b64("new")), call("/v3/election/leader", **LEADER),
     call("/v3/election/proclaim", leader={**OWN, "rev": Rev(9)}, value=b64("not")))
case("a resign", grant(5), call("/v3/election/campaign", name=b64("e"), lease=5, value=b64("me")),
     call("/v3/election/resign", leader={**OWN, "rev": Rev(1)}), call("/v3/election/leader", **LEADER), get("e", "f"))
case("an observer", grant(5), call("/v3/election/campaign", name=b64("e"), lease=5, value=b64("me")),
     lines("/v3/election/observe", LEADER, 2, call("/v3/election/proclaim", leader={**OWN, "rev": Rev(1)}, value=b64("new"))))
case("a lock", grant(5), call("/v3/lock/lock", name=b64("l"), lease=5), get("l", "m"), call("/v3/lock/unlock", key=b64("l/5")), get("l", "m"))
case("a lock with an unknown lease", call("/v3/lock/lock", name=b64("l"), lease=77))

case("an alarm list", call("/v3/maintenance/alarm"), call("/v3/maintenance/alarm", action="GET"),
     call("/v3/maintenance/alarm", action=0, alarm="NONE"), call("/v3/maintenance/alarm", action="GET", alarm="NOSPACE"))
case("large requests", put("k", "v" * 1000), put("k", "v" * (1536 << 10)), put("k", "v" * 2_090_000), put("k", "v" * 2_110_000),
     txn(then=[t_put("k", "v" * 1_600_000)]), txn([compare("k", "VALUE", "v" * 1_600_000)], then=[t_put("a")]), delete("k" * 1_600_000),
     get("k" * 1_600_000), get("k"))
case("etcdctl put of a large value", ctl("put", "k", stdin="v" * 1_600_000), ctl("put", "k", stdin="v" * 1_500_000), ctl("get", "k"))
case("users are not there", call("/v3/auth/authenticate", name="root", password="x"))
case("older names of paths", call("/v3beta/kv/range", **keys("k")), call("/v3/kv/lease/leases"), call("/v3/kv/lease/timetolive", ID=4))
case("paths that are not there", raw("POST", "/v3/kv/nothing", "{}"), raw("POST", "/v3/", "{}"), raw("GET", "/nothing"), raw("POST", "/v4/kv/range", "{}"))
case("JSON that is none", raw("POST", "/v3/kv/range", "{"), raw("POST", "/v3/kv/range", "[]"), raw("POST", "/v3/kv/range", '{"key":"%"}'),
     raw("POST", "/v3/kv/range", '{"key":1}'), raw("POST", "/v3/kv/range", '{"key":"YQ==","limit":"x"}'),
     raw("POST", "/v3/kv/range", '{"key":"YQ==","limit":1.5}'), raw("POST", "/v3/kv/range", '{"key":"YQ==","serializable":"yes"}'))
case("JSON with unknown fields", call("/v3/lease/grant", TTL=100, ID=5, nothing={"deep": [1, {}]}), leases())
case("JSON of other shapes", raw("POST", "/v3/kv/range", '{"key":"YQ==","rangeEnd":"Yg==","limit":"1"}'),
     raw("POST", "/v3/kv/range", '{"key":"YQ==","range_end":null}'), raw("POST", "/v3/kv/range", ' {"key" : "YQ=="} '))

case("etcdctl put and get", ctl("put", "k", "v"), ctl("put", "k", "w", "--prev-kv"), ctl("get", "k"), ctl("get", "k", "-w", "json"),
     ctl("get", "--prefix", "k", "--keys-only"),
     ctl("get", "no"), ctl("get", "", "--prefix", "--count-only", "-w", "json"))
case("etcdctl get of the past", ctl("put", "k", "v"), ctl("put", "k", "w"), ctl("get", "k", "--rev", Rev(1)), ctl("get", "k", "--rev", Rev(77)))
case("etcdctl del", ctl("put", "k1", "v"), ctl("put", "k2", "v"), ctl("del", "k1", "--prev-kv"), ctl("del", "--prefix", "k"), ctl("del", "no"))
case("etcdctl txn", ctl("put", "k", "v"), ctl("txn", stdin='value("k") = "v"\n\nput k w\nget k\n\nget k\n\n'),
     ctl("txn", stdin='create("k") = "0"\n\nput k x\n\nget k\ndel k\n\n'), ctl("get", "k"))
case("etcdctl compaction", ctl("put", "k", "v"), ctl("put", "k", "w"), ctl("compaction", Rev(2)), ctl("compaction", Rev(2)),
     ctl("compaction", Rev(99)), ctl("get", "k", "--rev", Rev(1)))
case("etcdctl lease", grant(1000), ctl("lease", "revoke", "3e8"), ctl("lease", "revoke", "3e8"), ctl("lease", "timetolive", "3e8"),
     ctl("lease", "list"), ctl("lease", "keep-alive", "--once", "3e8"))
case("etcdctl watch of the past", put("k", "1"), put("k", "2"), delete("k"),
     lambda target, base: watch_process(target, 9, "watch", "k", "--rev", str(base + 1), "--prev-kv"))
case("etcdctl move-leader to nobody", ctl("alarm", "list"), ctl("endpoint", "health", "--cluster"))


# ---- random cases ----

class Random:
    """Random steps on few keys, leases and revisions, so that they meet each other's effects."""

    KEYS, LEASES, STEPS = "abcdef", (7, 8, 9), 40

    def __init__(self, seed):
        self.random, self.written = random.Random(seed), 0
        self.kinds = [(self.a_put, 8), (self.a_delete, 3), (self.a_get, 8), (self.a_txn, 8), (self.a_lease, 5), (self.a_watch, 3),
                      (self.a_compaction, 1)]

    def steps(self):
        kinds, weights = zip(*self.kinds)
        return [self.random.choices(kinds, weights)[0]() for _ in range(self.STEPS)]

    def maybe(self, chance=0.3):
        return self.random.random() < chance

    def revision(self):
        """From before the start of the case to after its end."""
        return Rev(self.random.randint(-1, self.written + 2))

    def range_words(self):
        first, last = self.random.choice(self.KEYS), self.random.choice(self.KEYS + "z")
        return {"key": first, **({"end": self.random.choice([last, last, "\0", ""])} if self.maybe(0.6) else {})}

    def put_words(self):
        words = {"key": self.random.choice(self.KEYS), "value": self.random.choice(["", "1", "2", "33"])}
        if self.maybe(0.3):
            words["lease"] = self.random.choice(self.LEASES + (0, 99))
        for name in ("prev_kv", "ignore_value", "ignore_lease"):
            if self.maybe(0.15):
                words[name] = True
        if words.get("ignore_value") and self.maybe(0.8):
            words["value"] = ""
        return words

    def get_words(self):
        words = self.range_words()
        for name in ("min_mod_revision", "max_mod_revision", "min_create_revision", "max_create_revision"):
            if self.maybe(0.15):
                words[name] = self.revision()
        for name in ("keys_only", "count_only", "serializable"):
            if self.maybe(0.15):
                words[name] = True
        if self.maybe(0.25):
            words["revision"] = self.revision()
        if self.maybe(0.5):
            words["sort_order"] = self.random.choice(["NONE", "ASCEND", "DESCEND"])
            words["sort_target"] = self.random.choice(["KEY", "VERSION", "CREATE", "MOD", "VALUE"])
        if self.maybe(0.4) and not (words.get("sort_order") == "NONE" and words["sort_target"] != "KEY"):  # a known difference
            words["limit"] = self.random.randint(0, 4)
        return words

    def delete_words(self):
        return {**self.range_words(), **({"prev_kv": True} if self.maybe(0.4) else {})}

    def a_compare(self):
        what = self.random.choice(["VERSION", "CREATE", "MOD", "VALUE", "LEASE"])
        value = {"VERSION": self.random.randint(0, 3), "VALUE": self.random.choice(["", "1", "2"]),
                 "LEASE": self.random.choice(self.LEASES + (0,))}.get(what)
        words = self.range_words()
        return compare(words["key"], what, self.revision() if value is None else value,
                       self.random.choice(["EQUAL", "NOT_EQUAL", "GREATER", "LESS"]), words.get("end"))

    def operation(self, depth):
        kind = self.random.random()
        if kind < 0.35:
            return t_put(**self.put_words())
        if kind < 0.6:
            return t_get(**self.get_words())
        if kind < 0.75 or depth == 3:
            words = self.delete_words()
            if words.get("end") == "\0":  # a known difference: etcd does not see that it overlaps with puts
                words["end"] = "z"
            return t_delete(**words)
        return t_txn(*self.txn_words(depth + 1))

    def txn_words(self, depth=0):
        def some(make, most):
            return [make() for _ in range(self.random.randint(0, most))]
        return some(self.a_compare, 2), some(lambda: self.operation(depth), 3), some(lambda: self.operation(depth), 2)

    def a_put(self):
        self.written += 1
        return put(**self.put_words())

    def a_delete(self):
        self.written += 1
        return delete(**self.delete_words())

    def a_get(self):
        return get(**self.get_words())

    def a_txn(self):
        self.written += 1
        return refused_or_done(txn(*self.txn_words()))

    def a_lease(self):
        number = self.random.choice(self.LEASES)
        return self.random.choice([grant(number), grant(number), revoke(number), left(number, True), keep_alive(number, 99), leases()])

    def a_compaction(self):
        return compact(self.revision())

    def a_watch(self):
        words = {**self.range_words(), "start_revision": Rev(max(0, self.revision()))}
        for name in ("prev_kv", "fragment"):
            if self.maybe(0.4):
                words[name] = True
        if self.maybe():
            words["filters"] = [self.random.choice(["NOPUT", "NODELETE"])]
        self.written += 2
        return history(**words)


def refused_or_done(step):
    """A transaction with several faults may be refused for any of them."""
    def either(target, base):
        status, answer = step(target, base)
        return (status, answer) if status == 200 else "refused"
    return either


def history(key, end=None, **more):
    """All events of a watch until two changes that are made now. etcd puts several revisions into one response."""
    def step(target, base):
        stream = target.stream("/v3/watch", {"create_request": absolute({**keys(key, end), **more}, base)})
        try:
            created, seen = stream.line(), []
            for change in (put(key, "last"), delete(key)):
                change(target, base)
            last = int(target.post("/v3/kv/range", keys(key))[1]["header"]["revision"])
            last -= more.get("filters") == ["NODELETE"]
            if base + more["start_revision"] > last:
                return [created]
            while not created["result"].get("canceled"):
                result = stream.line()["result"]
                seen += result.get("events", [])
                if result.get("canceled"):
                    return [created, seen, result["compact_revision"]]
                if seen and int(seen[-1]["kv"]["mod_revision"]) >= last:
                    break
            return [created, seen]
        finally:
            stream.close()
    return step


def several_watches(target):
    """Two creates in one body: two watchers of one stream."""
    link = http.client.HTTPConnection("127.0.0.1", target.ports[0], timeout=60)
    create = {"create_request": keys("k")}
    link.request("POST", "/v3/watch", body=json.dumps(create) + json.dumps(create) + json.dumps({"progress_request": {}}))
    answer = link.getresponse()
    seen = [json.loads(answer.readline()) for _ in range(2)]
    target.post("/v3/kv/put", op_put("k", "v"))
    seen += sorted(({k: v for k, v in json.loads(answer.readline())["result"].items()} for _ in range(3)), key=str)
    link.close()
    return seen


def watch_process(target, count, *words):
    """So many lines of a watching etcdctl."""
    with subprocess.Popen(target.ctl_words(*words), env=dict(os.environ, ETCDCTL_API="3"), stdout=subprocess.PIPE, text=True) as process:
        seen = [process.stdout.readline() for _ in range(count)]
        process.terminate()
    return seen


# ---- the run ----

def main():
    for seed in range(SEEDS[0], SEEDS[1] + 1):
        case(f"random requests, seed {seed}", *Random(seed).steps())
    chosen = [c for c in CASES if not suite.wanted or any(w in c[0] for w in suite.wanted)]
    with Place("semantics") as place:
        try:
            targets = [Nodes(place, suite.bellwether, 3 if FOLLOWER else 1), Etcd(place)]
        except Skip as why:
            suite.tap.skip("side by side with etcd", str(why))
            sys.exit(suite.tap.end())
        if FOLLOWER:
            targets[0].ports = [targets[0].ports[targets[0].leader() - 1]]
        for name, steps in chosen:
            def run(steps=steps):
                compare_both(targets, steps)
            run.__name__ = name
            suite.run(run)
    sys.exit(suite.tap.end())


main()
