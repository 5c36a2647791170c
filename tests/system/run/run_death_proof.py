#!/usr/bin/env python3
"""Death proofs (net/death_proof.h): which predecessor on `bellwether serve` a successor with --stonith fences, on real nodes and
processes, when the server puts a proof, and when a guardian sends the clean close that reveals it.

    run_death_proof.py BELLWETHER WITNESS CONFORMANCE SHIM [NAME...]

The successor runs in a cgroup namespace of its own. So it cannot examine the work of its predecessor, as on another host, and
only the proof can keep it from fencing."""
import base64
import hashlib
import hmac
import json
import os
import signal
import socket
import subprocess
import sys
import threading

sys.dont_write_bytecode = True
for folder in ("serve", "kit"):
    sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", folder))
from run_lib import lives, lose, send, stat_of, text_of, wait_for  # noqa: E402
from serve_lib import Nodes, b64, own_address  # noqa: E402
from serve_wire import FAREWELL, PROOF, Wire, frame  # noqa: E402
from store_lib import SANITIZED, TIMEOUT_S, Place, Skip, Suite  # noqa: E402

SHIM = os.path.abspath(sys.argv.pop(4))
suite = Suite()
LONG_S = 3600  # a TTL that no test outlives


def elsewhere():
    """The command that runs another one in a cgroup namespace of its own, with the same pid."""
    for words in (["unshare", "--cgroup"], ["unshare", "--user", "--map-root-user", "--cgroup"]):
        done = subprocess.run([*words, "true"], capture_output=True, text=True, check=False, timeout=60)
        if done.returncode == 0:
            return words
    raise Skip(f"this machine permits no cgroup namespace: {done.stderr.strip()}")


class Fenced:
    """An election on nodes of its own, whose successors fence what they cannot examine."""

    def __init__(self, name, ttl="1h", count=1):
        self.place = Place(name)
        self.nodes = Nodes(self.place, suite.bellwether, count)
        self.name, self.ttl, self.side = name, ttl, f"/bellwether/{name}/"
        self.url, self.headers = f"bellwether://{self.nodes.endpoints()}/", {}

    def __enter__(self):
        self.room = suite.room(self.url, ttl=self.ttl).__enter__()
        self.room.election = self.name
        self.log = os.path.join(self.room.dir, "fenced")
        self.near = self.room.words
        return self

    def __exit__(self, *error):
        self.room.__exit__(*error)
        self.place.__exit__(*error)

    def leader(self, name, count):
        candidate = self.room.candidate(name)
        self.room.started(count, TIMEOUT_S)
        return candidate

    def successor(self, name="b"):
        words = elsewhere()
        self.room.words = lambda name: [*words, *self.near(name)]
        candidate = self.room.candidate(name, options=["--stonith", f"echo $BELLWETHER_FENCE >> {self.log}"])
        self.room.words = self.near
        return candidate

    def fenced(self):
        return text_of(self.log).split()

    def value(self, key):
        """The value of a key of the election; None: it does not exist."""
        answer = self.done("kv/range", {"key": b64(self.side + key)})
        return base64.b64decode(answer["kvs"][0]["value"]).decode() if answer.get("kvs") else None

    def put(self, key, value):
        self.done("kv/put", {"key": b64(self.side + key), "value": b64(value)})

    def done(self, path, body):
        status, answer = self.nodes.post("/v3/" + path, body, headers=self.headers)
        assert status == 200, (path, answer)
        return answer

    def lease(self):
        """The lease of the leader."""
        found = self.done("kv/range", {"key": b64(self.name + "/"), "range_end": b64(self.name + "0"), "sort_target": "CREATE",
                                       "sort_order": "ASCEND"})
        return found["kvs"][0]["lease"]

    def has(self, lease):
        return int(self.nodes.post("/v3/lease/timetolive", {"ID": lease})[1].get("TTL", -1)) >= 0

    def proof(self):
        """the death proof"""
        return self.value("death-proof")


def kill_both(leader):
    """Kills supervisor and guardian, so that no process confirms that the work is dead."""
    guardian = wait_for(leader.guardian)
    leader.signal(signal.SIGSTOP)
    wait_for(lambda: stat_of(leader.pid)[0] == "T")
    for pid in (guardian, leader.pid):
        send(pid, signal.SIGKILL)
    wait_for(lambda: not lives(guardian))


# ---- bellwether run --stonith ----

def not_fenced(election):
    with election as e:
        a = e.leader("a", 1)
        b = e.successor()
        b.said("leader", TIMEOUT_S)
        a.signal(signal.SIGKILL)
        e.room.started(2, TIMEOUT_S)
        assert not e.fenced() and not b.events("predecessor-unreachable"), b.text()
        assert not json.loads(e.value("record")).get("owed")
        assert e.proof() is None, "the successor leaves the proof of its predecessor"
        e.room.judge()


@suite.test
def holder_is_not_fenced_when_its_guardian_confirmed_the_death():
    not_fenced(Fenced("confirmed"))


@suite.test
def holder_is_not_fenced_when_its_guardian_confirmed_the_death_to_three_nodes():
    not_fenced(Fenced("three", count=3))


@suite.test
def holder_with_a_user_is_not_fenced_when_its_guardian_confirmed_the_death():
    election = Fenced("users")
    for name, role in (("root", "root"), ("ada", "app")):
        election.done("auth/user/add", {"name": name, "password": "word"})
        election.done("auth/role/add", {"name": role})
        election.done("auth/user/grant", {"user": name, "role": role})
    for prefix in ("users/", "/bellwether/"):
        election.done("auth/role/grant", {"name": "app", "perm": {"permType": "READWRITE", "key": b64(prefix),
                                                                  "range_end": b64(prefix[:-1] + "0")}})
    election.done("auth/enable", {})
    election.headers = {"Authorization": election.done("auth/authenticate", {"name": "root", "password": "word"})["token"]}
    election.url = f"bellwether://ada@{election.nodes.endpoints()}/?password-file={election.place.file('password', 'word')}"
    not_fenced(election)


@suite.test
def holder_is_not_fenced_when_the_successor_starts_after_the_death():
    with Fenced("later") as e:
        a = e.leader("a", 1)
        a.signal(signal.SIGKILL)
        assert len(wait_for(e.proof, TIMEOUT_S)) == 64
        b = e.successor()
        e.room.started(2, TIMEOUT_S)
        assert not e.fenced() and not b.events("predecessor-unreachable"), b.text()
        e.room.judge()


@suite.test
def holder_is_fenced_when_supervisor_and_guardian_are_killed():
    with Fenced("both", ttl="3s") as e:
        a = e.leader("a", 1)
        b = e.successor()
        b.said("leader", TIMEOUT_S)
        kill_both(a)
        b.said("fenced", TIMEOUT_S)
        assert e.fenced() == ["a"]
        e.room.started(2, TIMEOUT_S)


@suite.test
def holder_is_fenced_when_an_operator_revokes_its_lease():
    """The lease ends early, but nobody confirmed that the work is dead: the processes of the holder are stopped."""
    with Fenced("operator") as e:
        a = e.leader("a", 1)
        b = e.successor()
        b.said("leader", TIMEOUT_S)
        for pid in (wait_for(a.guardian), a.pid):
            send(pid, signal.SIGSTOP)
            wait_for(lambda pid=pid: stat_of(pid)[0] == "T")
        e.done("lease/revoke", {"ID": e.lease()})
        b.said("fenced", TIMEOUT_S)
        assert e.fenced() == ["a"] and e.proof() is None


@suite.test
def holder_is_fenced_when_the_proof_is_of_an_earlier_token():
    with Fenced("stale", ttl="3s") as e:
        e.leader("a", 1).signal(signal.SIGKILL)
        stale = wait_for(e.proof, TIMEOUT_S)
        c = e.leader("c", 2)
        assert e.proof() is None
        e.put("death-proof", stale)
        b = e.successor()
        b.said("leader", TIMEOUT_S)
        kill_both(c)
        b.said("fenced", TIMEOUT_S)
        assert e.fenced() == ["c"]
        e.room.started(3, TIMEOUT_S)
        assert e.proof() is None, "the successor leaves a stale proof"


@suite.test
def holder_is_fenced_when_the_proof_is_forged():
    with Fenced("forged", ttl="3s") as e:
        a = e.leader("a", 1)
        hashed = json.loads(e.value("record"))["death_hash"]
        b = e.successor()
        b.said("leader", TIMEOUT_S)
        e.put("death-proof", hashed)  # all that a reader of the record knows
        kill_both(a)
        b.said("fenced", TIMEOUT_S)
        assert e.fenced() == ["a"]


@suite.test
def holder_of_an_older_version_is_fenced():
    """Its record contains no hash."""
    with Fenced("older", ttl="3s") as e:
        a = e.leader("a", 1)
        b = e.successor()
        b.said("leader", TIMEOUT_S)
        a.signal(signal.SIGSTOP)
        wait_for(lambda: stat_of(a.pid)[0] == "T")
        record = json.loads(e.value("record"))
        assert record.pop("death_hash")
        e.put("record", json.dumps(record))
        a.signal(signal.SIGKILL)
        b.said("fenced", TIMEOUT_S)
        assert e.fenced() == ["a"] and e.proof() is None


@suite.test
def sidecar_is_fenced_because_its_guardian_knows_nothing_about_the_work():
    with Fenced("sidecar") as e:
        a = e.room.candidate("a", options=["--http", "127.0.0.1:0"], command=[])
        a.said("elected", TIMEOUT_S)
        b = e.successor()
        b.said("leader", TIMEOUT_S)
        a.signal(signal.SIGKILL)
        b.said("fenced", TIMEOUT_S)
        assert e.fenced() == ["a"] and e.proof() is None


# ---- when the server puts a proof ----

def proof_of(token):
    return hmac.new(PROOF, token.to_bytes(8, "big"), hashlib.sha256).hexdigest()


class Leader:
    """A leader without a program: a key, a record, and a lease that a clean close ends."""

    def __init__(self, e, metadata=None):
        self.wire = Wire(e.nodes.ports[0])
        self.lease = self.wire.grant(LONG_S, **(metadata or FAREWELL))
        self.key = f"{e.name}/{self.lease:x}"
        answer = e.done("kv/put", {"key": b64(self.key), "value": b64("me"), "lease": str(self.lease)})
        self.token = int(answer["header"]["revision"])

    def ask(self, e, token):
        hashed = hashlib.sha256(proof_of(token).encode()).hexdigest()
        e.put("record", json.dumps({"holder": "me", "held": True, "token": str(token), "death_hash": hashed}))

    def wait_gone(self, e):
        def gone():
            """the lease to be revoked"""
            return not e.has(str(self.lease))
        wait_for(gone, TIMEOUT_S)


@suite.test
def server_puts_the_proof_before_it_revokes_the_lease():
    with Fenced("put") as e:
        leader = Leader(e)
        leader.ask(e, leader.token)
        watch = e.nodes.stream("/v3/watch", {"create_request": {"key": b64("\0"), "range_end": b64("\0")}})
        assert watch.line()["result"]["created"]
        leader.wire.farewell()
        events = []
        while len(events) < 2:
            events += watch.line()["result"]["events"]
        keys = [(x.get("type", "PUT"), base64.b64decode(x["kv"]["key"]).decode()) for x in events]
        assert keys == [("PUT", e.side + "death-proof"), ("DELETE", leader.key)], keys
        assert e.proof() == proof_of(leader.token)
        watch.close()
        leader.wire.close()


@suite.test
def server_puts_no_proof_unless_the_record_asks_for_it():
    with Fenced("unasked") as e:
        for asks in (None, lambda leader: leader.ask(e, leader.token - 1), lambda leader: leader.ask(e, leader.token + 1)):
            leader = Leader(e)
            if asks:
                asks(leader)
            leader.wire.farewell()
            leader.wait_gone(e)
            assert e.proof() is None
            leader.wire.close()


@suite.test
def server_puts_no_proof_when_the_close_is_not_clean():
    with Fenced("unclean") as e:
        leader = Leader(e, {"bellwether_bind": "connection"})
        leader.ask(e, leader.token)
        leader.wire.farewell()  # to this binding, the proof is a close like any other
        leader.wait_gone(e)
        assert e.proof() is None
        leader.wire.close()


# ---- when a guardian sends the clean close ----

CLEAN_CLOSE = frame(0xbe, 0, 0, bytes(32))[:9]  # its first bytes; the proof follows


class Relay:
    """A TCP relay to a node. It records what a client sends on its first connection, and can hold that back. The node sees the later
    connections come from the address `later`, if one is given."""

    def __init__(self, port, later=None):
        self.node, self.later, self.listener = ("127.0.0.1", port), later, socket.create_server(("127.0.0.1", 0))
        self.port, self.count, self.sent, self.held = self.listener.getsockname()[1], 0, b"", None
        self.ended, self.delivering, self.over = threading.Event(), threading.Event(), threading.Event()
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                client = self.listener.accept()[0]
                source = (self.later, 0) if self.count and self.later else None
                node = socket.create_connection(self.node, TIMEOUT_S, source)
            except OSError:
                return
            node.settimeout(None)
            self.count += 1
            first = self.count == 1
            threading.Thread(target=self.pump_first if first else self.pump, args=(client, node), daemon=True).start()
            threading.Thread(target=self.pump, args=(node, client, first), daemon=True).start()

    def pump_first(self, client, node):
        for data in chunks(client):
            self.sent += data
            if self.held is None:
                pass_on(node, data)
            else:
                self.held += data
        self.ended.set()
        if self.held is not None:
            self.delivering.wait()
            pass_on(node, self.held)
        pass_on(node, None)

    def pump(self, source, sink, ends=False):
        for data in chunks(source):
            pass_on(sink, data)
        pass_on(sink, None)
        if ends:
            self.over.set()

    def hold(self):
        self.held = b""

    def deliver(self):
        """Passes on what was held back, and waits until the node has closed the connection."""
        assert self.ended.wait(TIMEOUT_S), "the first connection did not end"
        self.delivering.set()
        assert self.over.wait(TIMEOUT_S), "the node did not close the connection"


def chunks(source):
    try:
        while data := source.recv(65536):
            yield data
    except OSError:
        pass


def pass_on(sink, data):
    """Sends data, or the end of the stream: None. The receiver may have closed the connection already."""
    try:
        if data is None:
            sink.shutdown(socket.SHUT_WR)
        else:
            sink.sendall(data)
    except OSError:
        pass


def leader_behind(e, relay):
    """A leader whose connections go through the relay. Writing DISMISS to its file loses the message that ends a leadership."""
    if SANITIZED:
        raise Skip("the shim must be loaded first, and so must the sanitizer")
    knob = os.path.join(e.room.dir, "lose")
    e.room.given_store = f"bellwether://127.0.0.1:{relay.port}/"
    a = e.room.candidate("a", options=["-E", "0"], env={"SHIM_LOSE": knob}, shim=SHIM)
    e.room.given_store = e.url
    e.room.started(1, TIMEOUT_S)
    return a, knob


def lose_dismiss(e, a, knob):
    """The leader resigns, cannot dismiss its guardian, and replaces it."""
    lose(knob, "DISMISS")
    suite.resign(e.room)
    a.said("guardian-died", TIMEOUT_S)
    assert not os.path.exists(knob), "the message was not lost"


def lead_again(e, a):
    """Waits until the leader has been elected again, and returns its lease."""
    e.room.started(2, TIMEOUT_S)
    assert a.leads()
    return e.lease()


def judge_stays(e, a, lease):
    """Every revocation that was due before another client's disconnect has happened."""
    wire = Wire(e.nodes.ports[0])
    other = str(wire.grant(LONG_S, bellwether_bind="connection"))
    wire.close()
    wait_for(lambda: not e.has(other), TIMEOUT_S)
    assert e.has(lease), "the lease of the second leadership was revoked"
    assert e.lease() == lease and e.proof() is None and a.leads() and len(e.room.starts()) == 2
    e.room.judge()


@suite.test
def clean_close_of_a_living_supervisor_is_never_sent():
    with Fenced("living", ttl="12s") as e:
        relay = Relay(e.nodes.ports[0])
        a, knob = leader_behind(e, relay)
        lose_dismiss(e, a, knob)
        assert CLEAN_CLOSE not in relay.sent, "the guardian of a living supervisor sent the clean close"
        lease = lead_again(e, a)
        assert relay.count == 1, "the supervisor lost its connection"
        judge_stays(e, a, lease)
        a.signal(signal.SIGKILL)  # then its guardian sends it
        wait_for(lambda: not e.has(lease), TIMEOUT_S)
        assert CLEAN_CLOSE in relay.sent and len(e.proof()) == 64


@suite.test
def later_leadership_keeps_its_lease_when_its_first_connection_arrives_late():
    """The first connection binds the lease, and stalls before the leader resigns. The second one does not bind, as over a network.
    What the guardian of the first leadership does to the first connection reaches the node during the second leadership."""
    with Fenced("late", ttl="12s") as e:
        relay = Relay(e.nodes.ports[0], own_address())
        a, knob = leader_behind(e, relay)
        relay.hold()
        lose_dismiss(e, a, knob)
        lease = lead_again(e, a)
        assert relay.count > 1
        relay.deliver()
        judge_stays(e, a, lease)


suite.main(at_once=4)
