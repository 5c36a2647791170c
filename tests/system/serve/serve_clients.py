#!/usr/bin/env python3
"""`bellwether serve` with clients written for etcd: etcdctl, Go's concurrency package, python3-etcd3, curl; on one
node and on three. The tests of a client that is not installed are skipped by name.

    serve_clients.py BELLWETHER WITNESS CONFORMANCE [NAME...]"""
import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "kit"))
from run_lib import wait_for  # noqa: E402
from serve_lib import Etcd, Nodes, acknowledged, b64, go_program, python_with  # noqa: E402
from serve_wire import Wire  # noqa: E402
from store_lib import TIMEOUT_S, Place, Server, Skip, Suite, program  # noqa: E402

suite = Suite()
HOST = b"Host: localhost\r\n"


def on(count):
    """A test on so many nodes; it gets the place and the nodes."""
    def wrap(function):
        def run():
            with Place("clients") as place:
                function(place, Nodes(place, suite.bellwether, count))
        run.__name__ = function.__name__ + ("_on_one_node" if count == 1 else f"_on_{count}_nodes")
        suite.test(run)
        return function
    return wrap


def on_one_and_three(function):
    on(1)(function)
    on(3)(function)
    return function


class Background:
    """A client that keeps running; its lines."""

    def __init__(self, place, name, words, stdin=None):
        self.process = subprocess.Popen(words, env=dict(os.environ, ETCDCTL_API="3"), stdin=stdin, stdout=subprocess.PIPE,
                                        stderr=subprocess.STDOUT, text=True, start_new_session=True)
        Server(place, name, []).process = self.process

    def line(self):
        return self.process.stdout.readline().rstrip("\n")

    def lines(self, count):
        return [self.line() for _ in range(count)]

    def interrupt(self):
        self.process.send_signal(signal.SIGINT)
        self.process.communicate(timeout=TIMEOUT_S)
        return self.process.returncode


def ctl(place, nodes, name, *words):
    return Background(place, name, nodes.ctl_words(*words))


# ---- etcdctl ----

@on_one_and_three
def etcdctl_keys(_place, nodes):
    assert nodes.ctl("put", "a", "1").stdout == "OK\n"
    assert nodes.ctl("put", "a", "2", "--prev-kv").stdout == "OK\na\n1\n"
    assert nodes.ctl("get", "a").stdout == "a\n2\n"
    assert nodes.ctl("get", "a", "--print-value-only").stdout == "2\n"
    for i in range(5):
        nodes.ctl("put", f"k{i}", str(9 - i))
    assert nodes.ctl("get", "k", "--prefix", "--limit", "2", "--keys-only").stdout.split() == ["k0", "k1"]
    assert nodes.ctl("get", "k", "--prefix", "--sort-by", "VALUE", "--order", "ASCEND", "--keys-only").stdout.split()[0] == "k4"
    assert nodes.ctl("get", "k3", "--from-key", "--keys-only").stdout.split() == ["k3", "k4"]
    assert nodes.ctl("del", "k", "--prefix").stdout == "5\n"
    assert nodes.ctl("txn", stdin='mod("a") > "0"\n\nput a 3\n\nput a 4\n\n').stdout == "SUCCESS\n\nOK\n"
    assert nodes.ctl("get", "a", "--consistency", "s").stdout.startswith("a\n")


@on_one_and_three
def etcdctl_get_of_an_old_revision_and_compaction(_place, nodes):
    for value in "1234":
        nodes.ctl("put", "a", value)
    assert nodes.ctl("get", "a", "--rev", "3").stdout == "a\n2\n"
    assert nodes.ctl("compaction", "4").stdout == "compacted revision 4\n"
    refused = nodes.ctl("get", "a", "--rev", "3", check=False)
    assert refused.returncode == 1 and "required revision has been compacted" in refused.stderr, refused
    assert "future revision" in nodes.ctl("get", "a", "--rev", "99", check=False).stderr


@on_one_and_three
def etcdctl_watch(place, nodes):
    nodes.ctl("put", "a", "1")
    nodes.ctl("put", "a", "2")
    nodes.ctl("del", "a")
    past = ctl(place, nodes, "past", "watch", "a", "--rev", "2", "--prev-kv")
    assert past.lines(3) == ["PUT", "a", "1"]
    assert past.lines(5) == ["PUT", "a", "1", "a", "2"]
    assert past.lines(5) == ["DELETE", "a", "2", "a", ""], "a deletion carries what it deleted"
    now = ctl(place, nodes, "now", "watch", "--prefix", "x/")
    def watched():
        """both watches to exist"""
        counts = [re.search(rb"mvcc_watcher_total (\d+)", nodes.ask("GET", "/metrics", port=p)[1]).group(1) for p in nodes.ports]
        return sum(map(int, counts)) == 2
    wait_for(watched, TIMEOUT_S, 0.02)
    nodes.ctl("put", "a", "3")
    assert past.lines(3) == ["PUT", "a", "3"]
    nodes.ctl("put", "x/more", "0")
    assert now.lines(3) == ["PUT", "x/more", "0"]
    past.interrupt()
    now.interrupt()


@on_one_and_three
def etcdctl_lease(_place, nodes):
    lease = re.search(r"lease (\w+) granted with TTL\(60s\)", nodes.ctl("lease", "grant", "60").stdout).group(1)
    nodes.ctl("put", "a", "1", "--lease", lease)
    nodes.ctl("put", "b", "1", "--lease", lease)
    shown = nodes.ctl("lease", "timetolive", lease, "--keys").stdout
    assert re.search(r"granted with TTL\(60s\), remaining\(\d\ds\), attached keys\(\[(a b|b a)\]\)", shown), shown
    assert lease in nodes.ctl("lease", "list").stdout
    assert f"lease {lease} keepalived with TTL(60)" in nodes.ctl("lease", "keep-alive", "--once", lease).stdout
    assert nodes.ctl("lease", "revoke", lease).stdout == f"lease {lease} revoked\n"
    assert nodes.ctl("get", "", "--prefix", "--keys-only").stdout == ""
    assert "already expired" in nodes.ctl("lease", "timetolive", lease).stdout
    assert "requested lease not found" in nodes.ctl("lease", "revoke", lease, check=False).stderr


@on_one_and_three
def expired_lease_deletes_its_keys(place, nodes):
    lease = nodes.ctl("lease", "grant", "2").stdout.split()[1]
    kept = nodes.ctl("lease", "grant", "2").stdout.split()[1]
    alive = ctl(place, nodes, "alive", "lease", "keep-alive", kept)
    assert "keepalived" in alive.line()
    nodes.ctl("put", "a", "1", "--lease", lease)
    nodes.ctl("put", "b", "1", "--lease", kept)
    def gone():
        """the key to go with its lease"""
        return nodes.ctl("get", "a").stdout == ""
    wait_for(gone, TIMEOUT_S, 0.1)
    alive.lines(2)
    assert nodes.ctl("get", "b").stdout == "b\n1\n"
    alive.interrupt()


@on_one_and_three
def etcdctl_elect(place, nodes):
    listener = ctl(place, nodes, "listener", "elect", "--listen", "e")
    first = ctl(place, nodes, "first", "elect", "e", "ada")
    key, value = first.lines(2)
    assert value == "ada" and key.startswith("e/"), (key, value)
    assert listener.lines(2) == [key, "ada"]
    second = ctl(place, nodes, "second", "elect", "e", "ben")
    def waiting():
        """two candidates in the queue"""
        return len(nodes.ctl("get", "e/", "--prefix", "--keys-only").stdout.split()) == 2
    wait_for(waiting, TIMEOUT_S, 0.05)
    assert first.interrupt() == 0
    assert second.lines(2)[1] == "ben"
    assert listener.lines(2)[1] == "ben"
    second.interrupt()
    listener.interrupt()


@on_one_and_three
def etcdctl_lock(place, nodes):
    first = ctl(place, nodes, "first", "lock", "l")
    key = first.line()
    assert key.startswith("l/")
    second = ctl(place, nodes, "second", "lock", "l")
    def waiting():
        """two candidates in the queue"""
        return len(nodes.ctl("get", "l/", "--prefix", "--keys-only").stdout.split()) == 2
    wait_for(waiting, TIMEOUT_S, 0.05)
    first.interrupt()
    assert second.line() not in ("", key)
    second.interrupt()
    assert nodes.ctl("lock", "l", "echo", "ran").stdout == "ran\n"
    assert nodes.ctl("get", "l/", "--prefix", "--keys-only").stdout == "", "nobody holds it any more"


@on(3)
def etcdctl_cluster(_place, nodes):
    members = nodes.ctl("member", "list").stdout.splitlines()
    assert len(members) == 3 and all("started" in m for m in members), members
    assert nodes.ctl("endpoint", "health").stderr.count("is healthy") + nodes.ctl("endpoint", "health").stdout.count("is healthy") >= 3
    urls = ",".join(f"http://127.0.0.1:{port}" for port in nodes.ports)  # Go's client then sends the whole URL as authority
    status = json.loads(nodes.ctl("endpoint", "status", "-w", "json", endpoints=urls).stdout)
    leaders = {entry["Status"]["leader"] for entry in status}
    assert len(leaders) == 1 and len(status) == 3, status
    leader = leaders.pop()
    ids = [entry["Status"]["header"]["member_id"] for entry in status]
    other = next(i for i in ids if i != leader)
    at_leader = next(e["Endpoint"] for e in status if e["Status"]["header"]["member_id"] == leader)
    not_leader = next(e["Endpoint"] for e in status if e["Status"]["header"]["member_id"] == other)
    moved = nodes.ctl("move-leader", f"{other:x}", endpoints=",".join([at_leader, not_leader]))
    assert "Leadership transferred" in moved.stdout, moved
    def followed():
        """all nodes to follow the new leader"""
        new = json.loads(nodes.ctl("endpoint", "status", "-w", "json").stdout)
        return all(entry["Status"].get("leader") == other for entry in new)
    wait_for(followed, TIMEOUT_S, 0.05)
    bad = nodes.ctl("move-leader", "77", endpoints=not_leader, check=False)
    assert "bad leader transferee" in bad.stderr, bad


def contents(target):
    """All keys and values, as docs/guides/from-etcd.md compares them."""
    return target.ctl("get", "--prefix", "", "--hex").stdout


def is_mirrored(place, source, target):
    """Mirrors what is there and what follows: the steps of docs/guides/from-etcd.md."""
    source.ctl("put", "before", "1")
    source.ctl("put", "replaced", "1")
    source.ctl("put", "deleted", "1")
    source.post("/v3/kv/put", {"key": b64(b"\0key\xff"), "value": b64(bytes(range(256)) * 1000)})
    source.ctl("put", "leased", "1", "--lease", source.ctl("lease", "grant", "600").stdout.split()[1])
    mirror = ctl(place, source, "mirror", "make-mirror", target.endpoints())

    def followed():
        """a put to reach the mirror"""
        source.ctl("put", "live", "1")
        return target.ctl("get", "live").stdout
    wait_for(followed, TIMEOUT_S, 0.1)
    source.ctl("put", "replaced", "2")
    source.ctl("del", "deleted")
    source.ctl("txn", stdin="\nput first 1\nput second 2\n\n\n")

    def equal():
        """equal contents"""
        return contents(source) == contents(target)
    wait_for(equal, TIMEOUT_S, 0.1)
    mirror.interrupt()
    keys = source.ctl("get", "--prefix", "", "--keys-only", "--hex").stdout.split()
    assert len(keys) == 7, keys
    kv = target.post("/v3/kv/range", {"key": b64("leased")})[1]["kvs"][0]
    assert "lease" not in kv, kv


@on(1)
def etcdctl_make_mirror_from_etcd_and_back(place, nodes):
    is_mirrored(place, Etcd(place), nodes)
    with Place("clients") as other:
        is_mirrored(other, nodes, Etcd(other))


@on(3)
def clients_survive_a_leader_change(place, nodes):
    holder = ctl(place, nodes, "holder", "elect", "e", "ada")
    assert holder.lines(2)[1] == "ada"
    leader = nodes.leader()
    nodes.servers[leader].kill()
    rest = ",".join(f"127.0.0.1:{p}" for i, p in enumerate(nodes.ports) if i != leader)
    def written():
        """a write to succeed"""
        return acknowledged(nodes.ctl("put", "after", "1", endpoints=rest, check=False))
    wait_for(written, TIMEOUT_S, 0.05)
    assert nodes.ctl("get", "e/", "--prefix", "--print-value-only", endpoints=rest).stdout == "ada\n", "the lease has survived"
    nodes.servers[leader].start()
    assert nodes.ctl("get", "after", endpoints=f"127.0.0.1:{nodes.ports[leader]}").stdout == "after\n1\n"
    assert holder.process.poll() is None
    holder.interrupt()


# ---- Go ----

@on_one_and_three
def go_concurrency(place, nodes):
    built = go_program(os.path.dirname(os.path.abspath(suite.conformance)))

    def candidate(name):
        made = Background(place, name, [built, nodes.endpoints(), "e", name, "5"], stdin=subprocess.PIPE)
        assert made.line() == "READY"
        return made
    first = candidate("first")
    token = int(first.line().split()[1])
    second = candidate("second")
    def waiting():
        """two candidates in the queue"""
        return len(nodes.ctl("get", "e/", "--prefix", "--keys-only").stdout.split()) == 2
    wait_for(waiting, TIMEOUT_S, 0.05)
    first.process.stdin.write("resign\n")
    first.process.stdin.flush()
    assert first.line() == "RESIGNED"
    assert int(second.line().split()[1]) > token
    third = candidate("third")
    second.process.kill()  # its lease expires
    assert third.line().startswith("LEADER")
    third.process.kill()


# ---- python3-etcd3 ----

PYTHON = """
import sys, threading, etcd3
client = etcd3.client(host="127.0.0.1", port=int(sys.argv[1]), timeout=60)
client.put("a", "1")
value, meta = client.get("a")
assert value == b"1" and meta.version == 1, (value, meta)
assert [m.key for _, m in client.get_prefix("a")] == [b"a"]
done, answers = client.transaction(compare=[client.transactions.value("a") == "1"],
                                   success=[client.transactions.put("a", "2"), client.transactions.get("a")],
                                   failure=[client.transactions.put("a", "3")])
assert done and client.get("a")[0] == b"2", answers
lease = client.lease(60)
client.put("b", "1", lease)
assert lease.remaining_ttl > 50 and lease.granted_ttl == 60 and list(lease.keys) == [b"b"]
assert [r.TTL for r in lease.refresh()] == [60]
lease.revoke()
assert client.get("b")[0] is None
seen, ready = [], threading.Event()
def note(answer):
    seen.extend(answer.events)
    if len(seen) >= 2:
        ready.set()
number = client.add_watch_callback("w", note)
client.put("w", "1")
client.delete("w")
assert ready.wait(60), seen
assert [type(e).__name__ for e in seen] == ["PutEvent", "DeleteEvent"], seen
client.cancel_watch(number)
with client.lock("l", ttl=10) as lock:
    assert lock.is_acquired()
assert client.get("/locks/l")[0] is None
assert client.status().version.startswith("3."), client.status()
assert len(list(client.members)) == int(sys.argv[2])
assert client.delete_prefix("a").deleted == 1
client.compact(2)
print("fine")
"""


@on_one_and_three
def python_etcd3(_place, nodes):
    python = python_with("etcd3", "python3-etcd3")
    done = subprocess.run([python, "-c", PYTHON, str(nodes.ports[-1]), str(len(nodes.ports))], capture_output=True, text=True,
                          timeout=180, check=False, env=dict(os.environ, PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION="python"))
    assert done.stdout == "fine\n", done.stdout + done.stderr


# ---- curl and plain HTTP ----

def queued(nodes, name):
    return len(nodes.ctl("get", f"{name}/", "--prefix", "--keys-only").stdout.split())


@on_one_and_three
def client_that_disconnects_leaves_the_queue(place, nodes):
    """Otherwise it would become leader without knowing it."""
    mine, other = (nodes.post("/v3/lease/grant", {"TTL": 600})[1]["ID"] for _ in range(2))
    for what, number in (("election/campaign", 1), ("lock/lock", 2)):
        name = {"name": b64(f"e{number}")}
        assert nodes.post(f"/v3/{what}", {**name, "lease": mine})[0] == 200
        waits = Background(place, f"waits{number}", [program("curl", "curl"), "-sS", f"http://127.0.0.1:{nodes.ports[-1]}/v3/{what}", "-d",
                                                    json.dumps({**name, "lease": other})])
        wire = Wire(nodes.ports[-1])
        path = {1: "/v3electionpb.Election/Campaign", 2: "/v3lockpb.Lock/Lock"}[number]
        wire.call(path, b"\x0a\2" + f"e{number}".encode())  # it names no lease
        def both():
            """both to wait for their turn"""
            return b"mvcc_watcher_total 2\n" in nodes.ask("GET", "/metrics", port=nodes.ports[-1])[1]
        wait_for(both, TIMEOUT_S, 0.05)
        assert queued(nodes, f"e{number}") == 3
        waits.process.kill()
        wire.close()
        def gone():
            """both to have left the queue"""
            return queued(nodes, f"e{number}") == 1
        wait_for(gone, TIMEOUT_S, 0.05)


@on(1)
def campaign_without_a_lease_gets_one(_place, nodes):
    for what in ("election/campaign", "lock/lock"):
        status, answer = nodes.post(f"/v3/{what}", {"name": b64("e")})
        assert status == 200, answer
        nodes.ctl("del", "e/", "--prefix")
    for lease in nodes.post("/v3/lease/leases", {})[1]["leases"]:
        assert nodes.post("/v3/lease/timetolive", {"ID": lease["ID"]})[1]["grantedTTL"] == "60"


def curl(nodes, path, *words, body=None):
    words = [program("curl", "curl"), "-sS", "-m", str(int(TIMEOUT_S)), *words, f"http://127.0.0.1:{nodes.ports[0]}{path}"]
    words += ["-d", json.dumps(body)] if body is not None else []
    return subprocess.run(words, capture_output=True, text=True, timeout=2 * TIMEOUT_S, check=True).stdout


@on_one_and_three
def curl_on_the_gateway(_place, nodes):
    for how in ([], ["--http2-prior-knowledge"], ["--http1.0"], ["-H", "Transfer-Encoding: chunked"], ["-H", "Expect: 100-continue"]):
        assert "header" in json.loads(curl(nodes, "/v3/kv/put", *how, body={"key": b64("a"), "value": b64("1")}))
        found = json.loads(curl(nodes, "/v3/kv/range", *how, body={"key": b64("a")}))
        assert found["kvs"][0]["value"] == b64("1") and found["count"] == "1", found
        assert curl(nodes, "/v3/kv/range", *how, "-o", "/dev/null", "-w", "%{http_code}", body={"key": b64("a"), "revision": "99"}) == "400"
        assert json.loads(curl(nodes, "/v3/lease/revoke", *how, body={"ID": "77"})) == {
            "error": "etcdserver: requested lease not found", "message": "etcdserver: requested lease not found", "code": 5}


@on(1)
def plain_paths(_place, nodes):
    for how in ([], ["--http2-prior-knowledge"]):
        assert json.loads(curl(nodes, "/version", *how)) == {"etcdserver": "3.4.23", "etcdcluster": "3.4.0"}
        assert json.loads(curl(nodes, "/health", *how)) == {"health": "true"}
        metrics = curl(nodes, "/metrics", *how)
        assert "etcd_server_has_leader 1\n" in metrics
        assert "etcd_server_version{server_version=\"3.4." in metrics
        assert " 405" in curl(nodes, "/version", *how, "-i", body={}).splitlines()[0]
        assert " 404" in curl(nodes, "/nothing", *how, "-i").splitlines()[0]
        head = curl(nodes, "/version", *how, "-I").lower()
        assert " 200" in head and "content-length: 45" in head, head
    status, body, _ = nodes.ask("GET", "/version", body="{}")  # some clients send a body with it
    assert status == 200 and b"etcdserver" in body


def grpc_health(nodes, service=b""):
    """The answer of gRPC's own health check, as balancers and probes use it; None: only an error."""
    wire = Wire(nodes.ports[0])
    try:
        return wire.message(wire.call("/grpc.health.v1.Health/Check", service and b"\x0a" + bytes([len(service)]) + service))
    finally:
        wire.close()


@on(3)
def health_without_a_leader(_place, nodes):
    assert grpc_health(nodes) == b"\x08\1", "SERVING"
    assert grpc_health(nodes, b"etcdserverpb.KV") is None, "only the whole has a health"
    for server in nodes.servers[1:]:
        server.kill()
    def unhealthy():
        """the last node to report that there is no leader"""
        status, body, _ = nodes.ask("GET", "/health")
        return (status, body) == (503, b'{"health":"false"}')
    wait_for(unhealthy, TIMEOUT_S, 0.05)
    assert grpc_health(nodes) == b"\x08\2", "NOT_SERVING"
    assert b"etcd_server_has_leader 0\n" in nodes.ask("GET", "/metrics")[1]
    def refused():
        """a stream that requires a leader to be refused"""
        stream = nodes.stream("/v3/watch", {"create_request": {"key": b64("a")}}, headers={"Grpc-Metadata-hasleader": "true"})
        stream.close()
        return stream.answer.status == 503
    wait_for(refused, TIMEOUT_S, 0.05)


def speak(nodes, *pieces, end=True):
    """Sends raw bytes, piece by piece; returns all that comes back until the connection closes."""
    with socket.create_connection(("127.0.0.1", nodes.ports[0]), TIMEOUT_S) as link:
        for piece in pieces:
            link.sendall(piece)
        if end:
            link.shutdown(socket.SHUT_WR)
        seen = b""
        while True:
            try:
                more = link.recv(65536)
            except ConnectionResetError:
                return seen
            if not more:
                return seen
            seen += more


def statuses(text):
    return [int(s) for s in re.findall(rb"HTTP/1\.1 (\d+) ", text)]


RANGE = b'{"key":"YQ=="}'
ASK = b"POST /v3/kv/range HTTP/1.1\r\n" + HOST + b"Content-Length: %d\r\n\r\n" % len(RANGE) + RANGE


@on(1)
def requests_sent_ahead_are_answered_in_order(_place, nodes):
    nodes.ctl("put", "a", "1")
    version = b"GET /version HTTP/1.1\r\n" + HOST + b"\r\n"
    seen = speak(nodes, (ASK + version) * 3000)
    assert statuses(seen) == [200] * 6000, len(statuses(seen))
    order = re.findall(rb'"(count|etcdserver)"', seen)
    assert order == [b"count", b"etcdserver"] * 3000
    assert statuses(speak(nodes, *[bytes([b]) for b in ASK])) == [200], "byte by byte"
    chunks = b"".join(b"1\r\n" + bytes([b]) + b"\r\n" for b in RANGE)
    assert statuses(speak(nodes, b"POST /v3/kv/range HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: chunked\r\n\r\n" + chunks + b"0\r\nA: b\r\n\r\n" + ASK)) == [200, 200]


@on(1)
def invalid_requests_get_an_error_response(_place, nodes):
    post = b"POST /v3/kv/put HTTP/1.1\r\n" + HOST
    for status, bad in {
        "no request at all": (400, b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"x" * 40 + b"\r\n\r\n"),
        "no version": (400, b"GET /\r\n\r\n"),
        "another version": (505, b"GET / HTTP/3.0\r\n" + HOST + b"\r\n"),
        "no host": (400, b"GET /version HTTP/1.1\r\n\r\n"),
        "two lengths": (400, post + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\n"),
        "a length that is none": (400, post + b"Content-Length: -1\r\n\r\n"),
        "a length and chunks": (400, post + b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
        "an unknown encoding": (501, post + b"Transfer-Encoding: gzip\r\n\r\n"),
        "a folded line": (400, post + b"A: b\r\n c\r\n\r\n"),
        "a space before the colon": (400, post + b"Content-Length : 2\r\n\r\n{}"),
        "an unknown expectation": (417, post + b"Expect: wonders\r\n\r\n"),
        "a bad chunk": (400, post + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n"),
        "a chunk without an end": (400, post + b"Transfer-Encoding: chunked\r\n\r\n1\r\nabc\r\n"),
        "a long head": (431, b"GET /version HTTP/1.1\r\n" + b"A: " + b"x" * 70000),
        "many lines": (431, b"GET /version HTTP/1.1\r\n" + HOST + b"A: b\r\n" * 20000 + b"\r\n"),
        "a long body": (429, post + b"Content-Length: 99999999999\r\n\r\n" + b"x" * 1000),
        "long chunks": (429, post + b"Transfer-Encoding: chunked\r\n\r\n" + b"ffffff\r\n"),
        "trailers without end": (431, post + b"Transfer-Encoding: chunked\r\n\r\n0\r\n" + b"A: b\r\n" * 5000),
        "another verb": (405, b"BREW /version HTTP/1.1\r\n" + HOST + b"Connection: close\r\n\r\n"),
        "deep JSON": (400, post + b"Connection: close\r\nContent-Length: 100000\r\n\r\n" + b"[" * 100000),
    }.values():
        seen = speak(nodes, bad)
        assert statuses(seen)[:1] == [status], (status, bad[:80], seen[:200])
    assert nodes.is_healthy(nodes.ports[0])


@on(1)
def client_may_wait_for_100_continue(_place, nodes):
    with socket.create_connection(("127.0.0.1", nodes.ports[0]), TIMEOUT_S) as link:
        link.sendall(ASK.replace(b"\r\n\r\n" + RANGE, b"\r\nExpect: 100-continue\r\n\r\n"))
        assert link.recv(100) == b"HTTP/1.1 100 Continue\r\n\r\n"
        link.sendall(RANGE)
        assert link.recv(1000).startswith(b"HTTP/1.1 200")


@on(1)
def slow_and_silent_clients_are_disconnected(_place, nodes):
    """A head that never ends, a body that never comes, a silent connection: the server closes each."""
    started = [socket.create_connection(("127.0.0.1", nodes.ports[0]), 120) for _ in range(3)]
    started[0].sendall(b"GET /version HTTP/1.1\r\nA: ")
    started[1].sendall(b"POST /v3/kv/put HTTP/1.1\r\n" + HOST + b"Content-Length: 100\r\n\r\n{")
    for link in started:
        assert link.recv(100) == b""
        link.close()
    assert nodes.is_healthy(nodes.ports[0])


@on(1)
def watcher_that_never_reads_uses_bounded_memory(_place, nodes):
    """Its connection costs a bounded amount of memory: unread events stay in the history and are not queued."""
    with open(suite.bellwether, "rb") as file:
        if b"__asan_init" in file.read():
            raise Skip("the sanitizer keeps what was freed")
    link = socket.create_connection(("127.0.0.1", nodes.ports[0]), TIMEOUT_S)
    body = json.dumps({"create_request": {"key": b64("w")}}).encode()
    link.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    link.sendall(b"POST /v3/watch HTTP/1.1\r\n" + HOST + b"Content-Length: %d\r\n\r\n" % len(body) + body)
    writer = http.client.HTTPConnection("127.0.0.1", nodes.ports[0], timeout=TIMEOUT_S)
    value = b64("x" * 500000)
    for _ in range(100):  # 50 MB of events
        writer.request("POST", "/v3/kv/put", json.dumps({"key": b64("w"), "value": value}))
        assert writer.getresponse().read()
    metrics = nodes.ask("GET", "/metrics")[1].decode()
    resident = float(re.search(r"^process_resident_memory_bytes (\S+)", metrics, re.M).group(1))
    content = float(re.search(r"^bellwether_content_bytes (\S+)", metrics, re.M).group(1))
    assert resident < content + 150e6, (resident, content)
    link.close()


# ---- malicious HTTP/2 ----

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
HEADERS, RST_STREAM, SETTINGS, PING, CONTINUATION = 1, 3, 4, 6, 9


def frame(kind, flags, stream, payload=b""):
    return len(payload).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + payload


def field(name, value):
    return b"\0" + bytes([len(name)]) + name + bytes([len(value)]) + value


REQUEST = field(b":method", b"POST") + field(b":scheme", b"http") + field(b":path", b"/etcdserverpb.Watch/Watch") + field(
    b":authority", b"a") + field(b"content-type", b"application/grpc")


def harm(nodes, pieces):
    """Sends until the server closes the connection, without reading; meanwhile an honest client is served. True:
    it was closed."""
    with socket.create_connection(("127.0.0.1", nodes.ports[0]), TIMEOUT_S) as link:
        try:
            link.sendall(PREFACE + frame(SETTINGS, 0, 0))
            for number, piece in enumerate(pieces):
                link.sendall(piece)
                if number % 50 == 0:
                    assert nodes.is_healthy(nodes.ports[0])
            link.settimeout(5)
            while link.recv(65536):
                pass
            return True
        except socket.timeout:
            return False
        except OSError:
            return True


def is_served(nodes, pieces):
    """Returns true if a PING after them is answered."""
    with socket.create_connection(("127.0.0.1", nodes.ports[0]), TIMEOUT_S) as link:
        link.sendall(PREFACE + frame(SETTINGS, 0, 0) + b"".join(pieces) + frame(PING, 0, 0, b"the last"))
        seen = b""
        while frame(PING, 1, 0, b"the last") not in seen:
            more = link.recv(65536)
            if not more:
                return False
            seen += more
        return True


def resident(nodes):
    return float(re.search(rb"^process_resident_memory_bytes (\S+)", nodes.ask("GET", "/metrics")[1], re.M).group(1))


@on(1)
def floods_of_frames_end_their_connection_alone(place, nodes):
    holder = ctl(place, nodes, "holder", "elect", "e", "ada")
    assert holder.lines(2)[1] == "ada"
    before = resident(nodes)
    few = [frame(HEADERS, 4, i, REQUEST) + frame(RST_STREAM, 0, i, b"\0\0\0\x08") for i in range(1, 200, 2)]
    few += [frame(PING, 0, 0, b"12345678"), frame(SETTINGS, 0, 0, b"\0\3\0\0\0\x64")] * 50
    few += [frame(HEADERS, 0, 201, REQUEST), frame(CONTINUATION, 4, 201, field(b"a", b"x" * 100) * 150)]
    assert is_served(nodes, few), "a little of everything is no harm"
    odd = range(1, 400001, 2)
    resets = (b"".join(frame(HEADERS, 4, i, REQUEST) + frame(RST_STREAM, 0, i, b"\0\0\0\x08") for i in odd[at:at + 100])
              for at in range(0, 100000, 100))
    assert harm(nodes, resets), "streams opened and reset"
    assert harm(nodes, (frame(PING, 0, 0, b"12345678") * 500 for _ in range(4000))), "PING"
    assert harm(nodes, (frame(SETTINGS, 0, 0, b"\0\3\0\0\0\x64") * 500 for _ in range(4000))), "SETTINGS"
    many = field(b"a", b"x" * 100) * 150
    endless = (frame(HEADERS, 0, 1, REQUEST) if i == 0 else frame(CONTINUATION, 0, 1, many) for i in range(4000))
    assert harm(nodes, endless), "CONTINUATION"
    table = b"\x40\1a\x7f\xa1\x1e" + b"y" * 4000  # an entry of 4,000 bytes, referenced again and again
    bomb = (frame(HEADERS, 5, i, REQUEST + (table if i == 1 else b"") + b"\xbe" * 16000) for i in range(1, 400, 2))
    harm(nodes, bomb)  # its streams are refused; its connection may end or not
    assert resident(nodes) < before + 100e6, (before, resident(nodes))
    assert holder.process.poll() is None
    assert nodes.ctl("get", "e", "--prefix", "--print-value-only").stdout == "ada\n"
    holder.interrupt()


suite.main(2)
