#!/usr/bin/env python3
"""Death proofs (net/death_proof.h): which predecessor on `bellwether serve` a successor with --stonith fences, on real nodes and
processes, and when the server puts a proof.

    run_death_proof.py BELLWETHER WITNESS CONFORMANCE [NAME...]

The successor runs in a cgroup namespace of its own. So it cannot examine the work of its predecessor, as on another host, and
only the proof can keep it from fencing."""
import base64
import hashlib
import hmac
import json
import os
import signal
import subprocess
import sys

sys.dont_write_bytecode = True
for folder in ("serve", "kit"):
    sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", folder))
from run_lib import lives, send, stat_of, text_of, wait_for  # noqa: E402
from serve_lib import Nodes, b64  # noqa: E402
from serve_wire import FAREWELL, PROOF, Wire  # noqa: E402
from store_lib import TIMEOUT_S, Place, Skip, Suite  # noqa: E402

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
        found = e.done("kv/range", {"key": b64(e.name + "/"), "range_end": b64(e.name + "0"), "sort_target": "CREATE",
                                    "sort_order": "ASCEND"})
        e.done("lease/revoke", {"ID": found["kvs"][0]["lease"]})
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
            return int(e.nodes.post("/v3/lease/timetolive", {"ID": str(self.lease)})[1].get("TTL", -1)) < 0
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


suite.main(at_once=4)
