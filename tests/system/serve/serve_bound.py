#!/usr/bin/env python3
"""Leases that end with their client's connection: each rule of docs/guides/serve.md by itself, on real nodes and
sockets; then leaders of `bellwether run` that are killed in every way, checked by the independent witness.

    serve_bound.py BELLWETHER WITNESS CONFORMANCE [--trials N] [NAME...]

To show that a lease did not end, a test waits for a later event: a second lease, bound and closed later, is
gone, the first is not."""
import collections
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "kit"))
from run_lib import lives, send, stat_of, wait_for  # noqa: E402
from serve_lib import Authority, Nodes, b64, certificate_words, own_address  # noqa: E402
from serve_wire import FAREWELL, GRANT, HEADERS, PROOF, Wire, fields, frame, read_fields  # noqa: E402
from store_lib import TIMEOUT_S, Place, Suite  # noqa: E402

TRIALS = 8 if os.environ.get("TEST_SIZE") == "small" else 24
if "--trials" in sys.argv:
    where = sys.argv.index("--trials")
    TRIALS = int(sys.argv[where + 1])
    del sys.argv[where:where + 2]
suite = Suite()
LONG_S = 3600  # a TTL that no test outlives
BIND = {"bellwether_bind": "connection"}
HOLD_OFF_S = 0.010


def there(nodes, lease, port=None):
    status, answer = nodes.post("/v3/lease/timetolive", {"ID": str(lease)}, port=port)
    return status == 200 and int(answer.get("TTL", -1)) >= 0


def wait_gone(nodes, lease):
    def gone():
        """the lease to be revoked"""
        return not there(nodes, lease)
    wait_for(gone, TIMEOUT_S)


def after_a_later_one(nodes, port=None):
    """Another client binds a lease and disconnects; when that lease is revoked, everything due before has
    happened."""
    wire = Wire(port or nodes.ports[0])
    lease = wire.grant(LONG_S, **BIND)
    wire.close()
    wait_gone(nodes, lease)


class Cluster:
    """Nodes shared by tests that do not harm them."""

    def __init__(self):
        self.place = self.nodes = None
        self.lock = threading.Lock()

    def get(self):
        with self.lock:
            if not self.nodes:
                self.place = Place("bound")
                self.nodes = Nodes(self.place, suite.bellwether, 3)
            return self.nodes

    def close(self):
        if self.place:
            self.place.__exit__(None, None, None)


shared = Cluster()


# ---- whose close counts ----

def goes_after_hold_off(close):
    nodes = shared.get()
    wire = Wire(nodes.ports[0])
    lease = wire.grant(LONG_S, **BIND)
    key = b64(f"bound-{lease}")
    nodes.post("/v3/kv/put", {"key": key, "value": "", "lease": str(lease)})
    watch = nodes.stream("/v3/watch", {"create_request": {"key": key}})
    assert watch.line()["result"]["created"]
    begun = time.monotonic()
    close(wire)
    event = watch.line()["result"]["events"][0]
    assert event["type"] == "DELETE", event
    assert time.monotonic() - begun >= HOLD_OFF_S, "revoked before its hold-off"
    watch.close()
    assert not there(nodes, lease)


@suite.test
def a_lease_ends_a_hold_off_after_its_clients_fin_and_not_before():
    goes_after_hold_off(Wire.close)


@suite.test
def a_reset_from_the_client_counts_as_its_close():
    goes_after_hold_off(Wire.reset)


@suite.test
def a_lease_that_was_not_bound_outlasts_its_connection():
    nodes = shared.get()
    wire = Wire(nodes.ports[0])
    lease, strange = wire.grant(LONG_S), wire.grant(LONG_S, bellwether_bind="something")
    wire.close()
    after_a_later_one(nodes)
    assert there(nodes, lease) and there(nodes, strange)


@suite.test
def lease_stays_when_the_server_closes():
    nodes = shared.get()
    wire = Wire(nodes.ports[0])
    lease = wire.grant(LONG_S, **BIND)
    wire.socket.sendall(b"\0\0\1\6\0\0\0\0\0x")  # a PING of one byte: a connection error
    try:
        while True:
            wire.step()
    except ConnectionError:
        pass
    wire.close()
    after_a_later_one(nodes)
    assert there(nodes, lease)


@suite.test
def lease_stays_when_its_node_dies():
    with Place("death") as place:
        nodes = Nodes(place, suite.bellwether, 3)
        wire = Wire(nodes.ports[1])
        lease = wire.grant(LONG_S, **BIND)
        nodes.servers[1].kill()
        wire.close()
        wait_for(lambda: nodes.is_healthy(nodes.ports[0]), TIMEOUT_S)
        after_a_later_one(nodes)
        assert there(nodes, lease)


@suite.test
def response_reports_binding_and_hold_off():
    nodes = shared.get()
    with Place("curl") as place:
        message = os.path.join(place.dir, "grant")
        with open(message, "wb") as file:
            file.write(b"\0\0\0\0\2\x08\x3c")
        words = ["curl", "-s", "--http2-prior-knowledge", "--max-time", "60", "-D", "-", "-o", "/dev/null", "-H", "content-type: application/grpc",
                 "--data-binary", "@" + message, f"http://127.0.0.1:{nodes.ports[0]}/etcdserverpb.Lease/LeaseGrant"]
        said = subprocess.run(words + ["-H", "bellwether-bind: connection"], capture_output=True, text=True, check=True).stdout
        assert "bellwether-bound: 10" in said.splitlines(), said
        assert "bellwether-bound" not in subprocess.run(words, capture_output=True, text=True, check=True).stdout


# ---- bound to another connection ----

def moves(first, second):
    nodes = shared.get()
    old, new = Wire(nodes.ports[first]), Wire(nodes.ports[second])
    moved, stays = old.grant(LONG_S, **BIND), old.grant(LONG_S, **BIND)
    assert new.keep_alive(moved, **BIND) == LONG_S
    old.close()
    wait_gone(nodes, stays)
    after_a_later_one(nodes)
    assert there(nodes, moved), "revoked by a binding that was not its own any more"
    new.close()
    wait_gone(nodes, moved)


@suite.test
def a_lease_bound_to_another_connection_outlasts_the_first():
    moves(0, 0)


@suite.test
def lease_can_be_rebound_at_another_node():
    for first, second in ((0, 1), (1, 2), (2, 0)):
        moves(first, second)


@suite.test
def user_does_not_end_a_lease_with_keys_of_others_by_disconnecting():
    with Place("bound") as place:
        nodes = Nodes(place, suite.bellwether, 1)

        def done(path, body, **headers):
            status, answer = nodes.post("/v3/" + path, body, headers=headers)
            assert status == 200, (path, answer)
            return answer
        for name, role in (("root", "root"), ("ada", "app")):
            done("auth/user/add", {"name": name, "password": "word"})
            done("auth/role/add", {"name": role})
            done("auth/user/grant", {"user": name, "role": role})
        done("auth/role/grant", {"name": "app", "perm": {"permType": "READWRITE", "key": b64("/app/"), "range_end": b64("/app0")}})
        done("auth/enable", {})
        root, ada = (done("auth/authenticate", {"name": name, "password": "word"})["token"] for name in ("root", "ada"))
        lease = int(done("lease/grant", {"TTL": LONG_S}, Authorization=root)["ID"])
        wire = Wire(nodes.ports[0])
        assert wire.keep_alive(lease, authorization=ada, **BIND) == LONG_S  # a lease without keys is open to every user
        done("kv/put", {"key": b64("/other"), "lease": str(lease)}, Authorization=root)

        def is_there(key):
            return int(done("kv/range", {"key": b64(key)}, Authorization=root).get("count", 0)) == 1

        def own_ended():
            """the user's own lease to be revoked"""
            return not is_there("/app/own")
        wire.close()
        for _ in range(2):
            later = Wire(nodes.ports[0])
            own = later.grant(LONG_S, authorization=ada, **BIND)
            done("kv/put", {"key": b64("/app/own"), "lease": str(own)}, Authorization=root)
            later.close()
            wait_for(own_ended, TIMEOUT_S)
        assert is_there("/other")


@suite.test
def keep_alive_without_metadata_does_not_rebind():
    nodes = shared.get()
    old, new = Wire(nodes.ports[0]), Wire(nodes.ports[0])
    lease = old.grant(LONG_S, **BIND)
    assert new.keep_alive(lease) == LONG_S
    new.close()
    after_a_later_one(nodes)
    assert there(nodes, lease)
    old.close()
    wait_gone(nodes, lease)


@suite.test
def binding_a_revoked_lease_is_reported():
    nodes = shared.get()
    old, new = Wire(nodes.ports[0]), Wire(nodes.ports[1])
    lease = old.grant(LONG_S, **BIND)
    old.close()
    wait_gone(nodes, lease)
    assert new.keep_alive(lease, **BIND) == 0
    new.close()


@suite.test
def many_leases_of_one_connection_end_with_it():
    nodes = shared.get()
    wire = Wire(nodes.ports[1])
    leases = set()
    for _ in range(12):
        calls = [wire.call(GRANT, fields(f1=LONG_S), **BIND) for _ in range(50)]
        leases |= {str(read_fields(wire.message(call))[2]) for call in calls}
    wire.close()

    def gone():
        """all of them to be revoked"""
        return not leases & {lease["ID"] for lease in nodes.post("/v3/lease/leases", {})[1].get("leases", [])}
    assert len(leases) == 600
    wait_for(gone, TIMEOUT_S)


# ---- clean closes ----

@suite.test
def clean_close_lease_stays_when_client_dies_without_proof():
    nodes = shared.get()
    for close in (Wire.close, Wire.reset):
        wire = Wire(nodes.ports[0])
        lease = wire.grant(LONG_S, **FAREWELL)
        close(wire)
        after_a_later_one(nodes)
        assert there(nodes, lease)


@suite.test
def clean_close_ends_the_lease():
    nodes = shared.get()
    wire = Wire(nodes.ports[0])
    lease = wire.grant(LONG_S, **FAREWELL)
    wire.farewell()
    wait_gone(nodes, lease)
    wire.close()


@suite.test
def clean_close_counts_in_the_middle_of_a_frame():
    nodes = shared.get()
    for half in (b"\0", frame(HEADERS, 4, 99, b"x" * 90)[:50], b"no frame at all"):
        wire = Wire(nodes.ports[0])
        lease = wire.grant(LONG_S, **FAREWELL)
        wire.raw.sendall(half)
        wire.farewell()
        wait_gone(nodes, lease)
        wire.close()


@suite.test
def wrong_proof_ends_no_lease():
    nodes = shared.get()

    def urgent(wire):
        wire.raw.send(b".", socket.MSG_OOB)
        wire.raw.shutdown(socket.SHUT_WR)

    def half(wire):
        wire.raw.sendall(frame(0xbe, 0, 0, PROOF)[:-1])
        wire.raw.shutdown(socket.SHUT_WR)

    for close in (urgent, half, lambda wire: wire.farewell(bytes(32))):
        wire = Wire(nodes.ports[0])
        lease = wire.grant(LONG_S, **FAREWELL)
        close(wire)
        after_a_later_one(nodes)
        assert there(nodes, lease)
        wire.close()


@suite.test
def clean_close_without_a_proof_hash_is_not_bound():
    """As requested by clients of version 1.0 and before; they wait for the TTL."""
    nodes = shared.get()
    wire = Wire(nodes.ports[0])
    lease = wire.grant(LONG_S, bellwether_bind="farewell")
    wire.raw.send(b".", socket.MSG_OOB)
    wire.close()
    after_a_later_one(nodes)
    assert there(nodes, lease)


@suite.test
def close_by_a_proxy_counts_as_close_but_not_as_clean_close():
    nodes = shared.get()
    proxy = shared.place.proxy(nodes.ports[0])
    bound, promised = Wire(proxy.port), Wire(proxy.port)
    one, other = bound.grant(LONG_S, **BIND), promised.grant(LONG_S, **FAREWELL)
    proxy.cut()
    wait_gone(nodes, one)  # therefore it is off except on loopback
    after_a_later_one(nodes)
    assert there(nodes, other)


# ---- where binding is allowed ----

def node_at(place, host, *words):
    nodes = Nodes(place, suite.bellwether, 1, options=["--listen", "0.0.0.0:0", "--insecure", *words], wait=False)

    def listens():
        """the node to report its address"""
        with open(nodes.servers[0].log, encoding="utf-8") as file:
            return [line for line in file if "clients at" in line]
    nodes.ports = [int(wait_for(listens, TIMEOUT_S)[0].split("clients at 0.0.0.0:")[1].split(",")[0])]
    wait_for(lambda: nodes.is_healthy(nodes.ports[0]), TIMEOUT_S)
    return nodes, Wire(nodes.ports[0], host)


@suite.test
def remote_clients_are_not_bound_unless_configured():
    host = own_address()
    with Place("elsewhere") as place:
        nodes, wire = node_at(place, host)
        lease = wire.grant(LONG_S, **BIND)
        wire.close()
        after_a_later_one(nodes)
        assert there(nodes, lease)


@suite.test
def remote_clients_get_the_configured_hold_off():
    host = own_address()
    with Place("elsewhere") as place:
        nodes, wire = node_at(place, host, "--bind-hold-off", "300ms")
        lease = wire.grant(LONG_S, **BIND)
        begun = time.monotonic()
        wire.close()
        wait_gone(nodes, lease)
        assert time.monotonic() - begun >= 0.3


@suite.test
def a_hold_off_that_is_too_short_is_refused():
    code, _, said = suite.command("serve", "--bind-hold-off", "99ms")
    assert code == 64 and "use --bind-hold-off 100ms or more" in said, said


# ---- leaders of `bellwether run` ----

def pair(url, ttl, *modes, **more):
    """An election in which A leads and B waits."""
    room = suite.room(url, ttl=ttl, **more)
    a = room.candidate("a", *modes)
    room.started(1, TIMEOUT_S)
    b = room.candidate("b")
    b.said("leader", TIMEOUT_S)
    return room, a, b


def killed_supervisor(url):
    room, a, _ = pair(url, "1h")
    with room:
        a.signal(signal.SIGKILL)
        room.started(2, TIMEOUT_S)  # with an hour left
        room.judge()


def seconds_left(nodes, name):
    """The remaining time of the leader's lease, in whole seconds; elapsed ones do not count."""
    prefix = name + "/"
    _, found = nodes.post("/v3/kv/range", {"key": b64(prefix), "range_end": b64(prefix[:-1] + "0"), "sort_target": "CREATE",
                                           "sort_order": "ASCEND"})
    lease = next(kv["lease"] for kv in found["kvs"] if kv.get("lease"))
    return int(nodes.post("/v3/lease/timetolive", {"ID": lease})[1].get("TTL", 0))


def url_of(nodes, name):
    return f"bellwether://{nodes.endpoints()}/{name}"


@suite.test
def successor_of_a_killed_supervisor_does_not_wait_for_expiry():
    killed_supervisor(url_of(shared.get(), "killed"))


@suite.test
def successor_does_not_wait_for_expiry_over_tls():
    with Place("tls") as place:
        authority = Authority(place, "ca")
        nodes = Nodes(place, suite.bellwether, 1, options=certificate_words(authority.sign("server")), wait=False)
        wait_for(lambda: "clients at" in nodes.servers[0].tail(), TIMEOUT_S)
        killed_supervisor(f"bellwethers://127.0.0.1:{nodes.ports[0]}/tls?ca-file={authority.crt}")


@suite.test
def successor_over_a_network_does_not_wait_for_expiry_if_a_hold_off_is_configured():
    host = own_address()
    with Place("network") as place:
        nodes, wire = node_at(place, host, "--bind-hold-off", "100ms")
        wire.close()
        killed_supervisor(f"bellwether://{host}:{nodes.ports[0]}/network")


@suite.test
def successor_over_a_network_waits_for_expiry_if_no_hold_off_is_configured():
    host = own_address()
    with Place("network") as place:
        nodes, wire = node_at(place, host)
        wire.close()
        room, a, _ = pair(f"bellwether://{host}:{nodes.ports[0]}/network", "4s")
        with room:
            ends = time.monotonic() + seconds_left(nodes, "network")
            a.signal(signal.SIGKILL)
            second = int(room.started(2, TIMEOUT_S)[3]) / 1e9
            assert second >= ends, f"the lease was ended {ends - second:.3f} s early, although its connection was not bound"
            room.judge()


@suite.test
def lease_expires_by_ttl_when_supervisor_and_guardian_are_killed():
    nodes = shared.get()
    room, a, _ = pair(url_of(nodes, "both"), "4s")
    with room:
        guardian = wait_for(a.guardian)
        a.signal(signal.SIGSTOP)
        ends = time.monotonic() + seconds_left(nodes, "both")
        for pid in (guardian, a.pid):
            send(pid, signal.SIGKILL)
        second = int(room.started(2, TIMEOUT_S)[3]) / 1e9
        assert second >= ends, f"the lease was ended {ends - second:.3f} s early, although nobody saw the work dead"
        room.judge()


@suite.test
def lease_stays_while_the_work_is_not_dead():
    """The guardian is stopped before it can see the work dead: as if the work could not be killed."""
    nodes = shared.get()
    room, a, _ = pair(url_of(nodes, "undead"), "1h")
    with room:
        guardian = wait_for(a.guardian)
        send(guardian, signal.SIGSTOP)
        wait_for(lambda: stat_of(guardian)[0] == "T")
        a.signal(signal.SIGKILL)
        wait_for(lambda: not lives(a.pid))
        after_a_later_one(nodes)
        work = a.events("started")[-1]["pid"]
        assert lives(work) and len(room.starts()) == 1
        send(guardian, signal.SIGCONT)
        room.started(2, TIMEOUT_S)
        assert not lives(work)
        room.judge()


@suite.test
def stopped_leader_loses_its_lease_by_ttl_and_the_token_grows():
    nodes = shared.get()
    room, a, b = pair(url_of(nodes, "stopped"), "2s")
    with room:
        guardian = wait_for(a.guardian)
        for pid in (a.pid, guardian):
            send(pid, signal.SIGSTOP)
        room.started(2, TIMEOUT_S)
        for pid in (guardian, a.pid):
            send(pid, signal.SIGCONT)
        assert b.leads()
        room.judge()  # the token grew


@suite.test
def leader_rebinds_and_continues_when_its_node_dies():
    with Place("rebind") as place:
        nodes = Nodes(place, suite.bellwether, 3)
        with suite.room(url_of(nodes, "rebind"), ttl="6s") as room:
            a = room.candidate("a")
            room.started(1, TIMEOUT_S)
            b = room.candidate("b")
            b.said("leader", TIMEOUT_S)
            ours = holder_node(nodes, a.pid)
            nodes.servers[ours].kill()

            def moved():
                """the guardian to hold a connection to another node"""
                now = holder_node(nodes, wait_for(a.guardian))
                return now is not None and now != ours
            wait_for(moved, TIMEOUT_S, 0.05)
            assert len(room.starts()) == 1, "the work was stopped although its lease was kept"
            a.signal(signal.SIGKILL)
            room.started(2, TIMEOUT_S)
            room.judge()


def holder_node(nodes, pid):
    """The node that a process is connected to; None: none."""
    inodes = set()
    for fd in os.listdir(f"/proc/{pid}/fd"):
        try:
            target = os.readlink(f"/proc/{pid}/fd/{fd}")
        except OSError:
            continue
        if target.startswith("socket:["):
            inodes.add(target[8:-1])
    with open("/proc/net/tcp", encoding="utf-8") as table:
        for line in table.readlines()[1:]:
            words = line.split()
            port = int(words[2].split(":")[1], 16)
            if words[9] in inodes and words[3] == "01" and port in nodes.ports:
                return nodes.ports.index(port)
    return None


# ---- trials ----

MODES = [[], ["ignore-term"], ["double-fork", "ignore-term"], ["setsid", "ignore-term"], ["slow=30"]]


class Trials:
    """One election under fire: the leader is killed or stopped again and again, and must have one successor, never
    two."""

    def __init__(self, nodes, number):
        self.nodes, self.random, self.number = nodes, random.Random(number), number
        self.serial, self.done, self.trouble = 0, collections.Counter(), None

    def refill(self):
        for c in [c for c in self.room.candidates if c.process.poll() is not None]:
            self.room.candidates.remove(c)
            c.err.close()
        while len(self.room.candidates) < 3:
            self.serial += 1
            self.room.candidate(f"c{self.serial}", *self.random.choice(MODES))

    def leader(self):
        """a leader"""
        starts = self.room.starts()
        for c in self.room.candidates if starts else ():
            started = c.events("started")
            if started and str(started[-1]["token"]) == starts[-1][1] and lives(started[-1]["pid"]) and lives(c.pid):
                return c
        return None

    def successor(self):
        """a leader; meanwhile new candidates replace those that ended"""
        self.refill()
        return self.leader()

    def clean_up(self):
        """If both supervisor and guardian were killed, nothing is left that ends the work, so end it here."""
        for pid in {int(line[2]) for line in self.room.lines()}:
            try:
                with open(f"/proc/{pid}/cmdline", encoding="utf-8") as file:
                    if self.room.dir in file.read():
                        send(pid, signal.SIGKILL)
            except OSError:
                pass

    def kill_supervisor(self, leader):
        leader.signal(signal.SIGKILL)

    def kill_guardian(self, leader):
        send(leader.guardian() or 0x3fffffff, signal.SIGKILL)

    def kill_both(self, leader):
        for pid in self.random.sample([leader.pid, leader.guardian() or 0x3fffffff], 2):
            send(pid, signal.SIGKILL)

    def stop_then_kill(self, leader):
        guardian = leader.guardian() or 0x3fffffff
        send(guardian, signal.SIGSTOP)
        leader.signal(signal.SIGKILL)
        time.sleep(self.random.choice([0.005, 0.1, 2.5]))
        send(guardian, signal.SIGCONT)

    def stop_both(self, leader):
        pids = [leader.pid, leader.guardian() or 0x3fffffff]
        for pid in pids:
            send(pid, signal.SIGSTOP)
        time.sleep(self.random.choice([0.1, 2.5]))
        for pid in self.random.sample(pids, 2):
            send(pid, signal.SIGCONT)

    def kill_node(self, _):
        server = self.random.choice(self.nodes.servers)
        with NODES_LOCK:
            server.restart()

    FAULTS = [kill_supervisor] * 8 + [kill_guardian, kill_both, stop_then_kill, stop_both, kill_node]

    def run(self, count):
        with suite.room(url_of(self.nodes, f"trials{self.number}"), ttl="2s") as self.room:
            try:
                for _ in range(count):
                    fault = self.random.choice(self.FAULTS)
                    fault(self, wait_for(self.successor, TIMEOUT_S, 0.005))
                    wait_for(self.successor, TIMEOUT_S, 0.005)
                    self.room.judge()
                    self.done[fault.__name__] += 1
            except Exception as error:  # noqa: BLE001 any exception fails the test
                self.trouble = f"seed {self.number}: {type(error).__name__}: {error}\n" + "\n".join(
                    [" ".join(x) for x in self.room.lines()[-8:]] + [c.text()[-1500:] for c in self.room.candidates])
            for c in self.room.candidates:
                c.destroy()
            self.clean_up()


NODES_LOCK = threading.Lock()  # one node is down at a time


@suite.test
def there_are_never_two_leaders_whichever_process_is_killed():
    with Place("trials") as place:
        nodes = Nodes(place, suite.bellwether, 3)
        rooms = [Trials(nodes, random.SystemRandom().randrange(1 << 30)) for _ in range(4)]
        threads = [threading.Thread(target=room.run, args=[TRIALS // len(rooms)]) for room in rooms]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        done = sum((room.done for room in rooms), collections.Counter())
        print(f"# {sum(done.values())} trials: " + ", ".join(f"{n} {k}" for k, n in sorted(done.items())), flush=True)
        trouble = [room.trouble for room in rooms if room.trouble]
        assert not trouble, "\n".join(trouble)
        assert sum(done.values()) == TRIALS // len(rooms) * len(rooms), done


try:
    suite.main(at_once=4)
finally:
    shared.close()
