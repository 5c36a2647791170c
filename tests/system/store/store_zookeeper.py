#!/usr/bin/env python3
"""The ZooKeeper store on a real ensemble of three servers: conformance, faults, foreign clients, hostile replies.

    store_zookeeper.py BELLWETHER WITNESS CONFORMANCE [--long] [NAME...]"""
import glob
import itertools
import json
import os
import random
import re
import signal
import socket
import subprocess
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "kit"))
import stall  # noqa: E402
from run_lib import send, wait_for  # noqa: E402
from store_lib import SANITIZED, Place, Skip, Suite, program  # noqa: E402
from zookeeper_lib import JARS, PYTHON, Ensemble, mode  # noqa: E402

LONG = "--long" in sys.argv
sys.argv = [word for word in sys.argv if word != "--long"]
suite = Suite()
HERE = os.path.dirname(os.path.abspath(__file__))
TIMEOUT_S = 60.0            # timeout of a hung test; no test asserts on it
PASSWORD = "s3cret-and-only-in-a-file"


_shared, _making = {}, threading.Lock()


def ensemble(name="whole"):
    """Returns a shared ensemble: one for tests that leave it intact, one for the others."""
    with _making:
        if name not in _shared:
            _shared[name] = Ensemble(Place("zookeeper"))
    return _shared[name]


_paths = itertools.count(1)


def room(url, ttl="3s", kill_after="500ms", retry="500ms"):
    return suite.room(url, ttl=ttl, kill_after=kill_after, retry=retry)


def path():
    return f"/test-{os.getpid()}-{next(_paths)}"


def pair(r, *modes, env=None):
    """A leads, B waits behind it."""
    a = r.candidate("a", *modes, env=env)
    r.started(1, TIMEOUT_S)
    b = r.candidate("b", *modes, env=env)
    b.said("leader", TIMEOUT_S)
    return a, b


def comment(text):
    print("# " + text, flush=True)


# ---- the suite all stores pass ----

@suite.test
def conformance_curator():
    suite.run_conformance("zookeeper", ensemble().url(path()))


@suite.test
def conformance_kazoo():
    if not LONG:
        raise Skip("the same code under other names: with --long")
    suite.run_conformance("zookeeper?recipe=kazoo", ensemble().url(path(), more="?recipe=kazoo"))


@suite.test
def store_check_reports_the_granted_session_timeout():
    code, out, errors = suite.command("store", "check", ensemble().url(path()), "--json")
    assert code == 0 and "granted a session of 15000 ms" in json.loads(out)["server"], (code, out, errors)


# ---- hand-over ----

def stamp(event):
    text = event["time"]
    seconds = time.mktime(time.strptime(text[:19], "%Y-%m-%dT%H:%M:%S"))
    return seconds + float("0." + text[20:].rstrip("Z"))


@suite.alone
def resignation_wakes_the_next_candidate_in_the_queue():
    with room(ensemble().url(path()), ttl="10s", kill_after="2s") as r:
        took, trips = [], []
        pair(r)
        for turn in range(6):
            suite.command("resign", "--store", r.store, "--election", "e")
            r.started(turn + 2, TIMEOUT_S)
        r.judge()
        events = sorted((e for c in r.candidates for e in c.events()), key=stamp)
        dead = [stamp(e) for e in events if e["event"] == "confirmed-dead"]
        released = [stamp(e) for e in events if e["event"] == "released"]
        started = [stamp(e) for e in events if e["event"] == "started"][1:]
        for d, e, s in zip(dead, released, started):
            trips.append((e - d) * 1000)
            took.append((s - d) * 1000)
        comment("hand-over, from the release being sent to the next command's start, ms: "
                + " ".join(f"{t:.1f}" for t in took) + "; one quorum write of the same moments: "
                + " ".join(f"{t:.1f}" for t in trips))
        assert len(took) >= 5


@suite.test
def tokens_are_czxids_and_waiters_are_served_in_order():
    with room(ensemble().url(path()), ttl="10s", kill_after="2s") as r:
        names = ["a", "b", "c", "d"]
        for i, name in enumerate(names):
            c = r.candidate(name, "for=1500" if i == 0 else "for=50")
            if i == 0:
                r.started(1, TIMEOUT_S)
            else:
                c.said("leader", TIMEOUT_S)
        r.leader(4, TIMEOUT_S)
        r.judge()
        order = [e["id"] for e in sorted((e for c in r.candidates for e in c.events("started")), key=stamp)]
        assert order == names, f"served as {order}"


def crowd(count, rounds):
    program_path = os.path.join(os.path.dirname(suite.conformance), "store-crowd")
    done = subprocess.run([program_path, ensemble().url(path()), str(count), str(rounds)], capture_output=True, text=True,
                          timeout=900, check=False)
    comment(done.stdout.strip())
    assert done.returncode == 0, done.stdout + done.stderr


@suite.test
def one_of_fifty_waiting_candidates_wakes():
    crowd(50, 10)


@suite.test
def one_of_a_thousand_waiting_candidates_wakes():
    if not LONG:
        raise Skip("takes its time: with --long")
    crowd(1000, 50)


@suite.test
def transfer_skips_the_candidates_in_front():
    with room(ensemble().url(path()), ttl="10s", kill_after="2s") as r:
        pair(r)
        c = r.candidate("c")
        c.said("leader", TIMEOUT_S)
        wait_for(lambda: len(ensemble().tree(r.store[r.store.rindex("/"):] + "/e")) == 3, TIMEOUT_S, 0.1)
        status, out, errors = suite.command("transfer", "--store", r.store, "--election", "e", "--to", "c")
        assert status == 0, out + errors
        r.started(2, TIMEOUT_S)
        assert c.leads()
        r.judge()


@suite.test
def candidate_with_higher_priority_takes_over_leadership():
    suite.preferred_candidate_gets_the_lead(ensemble().url(path()), ttl="4s")


@suite.test
def status_lists_the_elections_below_the_path():
    e, p = ensemble(), path()
    with room(e.url(p), ttl="10s") as r:
        assert suite.elections_of(r.store) == {}
        suite.status_lists_two_elections(r.store, r)
        r.election = "50% done"
        assert r.candidate("third", command=["true"]).wait() == 0
        # nodes that are no elections of this recipe: of kazoo, and without a candidate; and one that is
        code = ("import sys\nfrom kazoo.client import KazooClient\nc = KazooClient(hosts=sys.argv[1]); c.start(60)\n"
                "for node in sys.argv[2:]: c.create(node, b'them', makepath=True)\nc.stop()")
        guid = "7d2f4c5e-1a2b-4c3d-9e8f-001122334455"
        nodes = [f"{p}/theirs/_c_{guid}-latch-0000000000", f"{p}/kazoo/{guid.replace('-', '')}__lock__0000000000", f"{p}/empty/x"]
        done = subprocess.run([PYTHON, "-c", code, e.hosts(), *nodes], capture_output=True, text=True, timeout=120, check=False)
        if "No module named 'kazoo'" in done.stderr:
            raise Skip("kazoo is not here: install python3-kazoo")
        assert done.returncode == 0, done.stderr
        found = suite.elections_of(r.store)
        assert sorted(found) == ["50% done", "led", "left", "theirs"], found
        assert found["theirs"]["leader"] == "them", found["theirs"]
        r.judge()


# ---- the holder dies, stops, is cut off ----

@suite.test
def a_killed_holder_is_followed_when_its_session_ends():
    with room(ensemble().url(path())) as r:
        a, b = pair(r)
        guardian = a.guardian()
        before = time.monotonic()
        a.signal(signal.SIGKILL)
        send(guardian, signal.SIGKILL)
        r.started(2, TIMEOUT_S)
        comment(f"a killed holder (TTL 3 s, session 4.5 s) was followed after {time.monotonic() - before:.2f} s")
        assert b.leads()
        r.judge()


def guarded(r, token, value):
    """Writes through `bellwether guard print zookeeper`. Returns its exit code."""
    status, script, errors = suite.command("guard", "print", "zookeeper")
    assert status == 0, errors
    done = subprocess.run([PYTHON, "-c", script, ensemble().hosts(), r.store[r.store.rindex("/"):] + "/guarded/guard", token,
                           r.store[r.store.rindex("/"):] + "/guarded/value", value], capture_output=True, text=True, timeout=120,
                          check=False)
    if "No module named 'kazoo'" in done.stderr:
        raise Skip("kazoo is not here: install python3-kazoo")
    return done.returncode


@suite.test
def stopped_holder_is_replaced_and_its_later_writes_are_rejected():
    with room(ensemble().url(path())) as r:
        a, b = pair(r)
        guardian = a.guardian()
        for pid in (a.pid, guardian):
            send(pid, signal.SIGSTOP)
        r.started(2, TIMEOUT_S)
        old, new = (line[1] for line in r.starts())
        assert guarded(r, new, "of the new leader") == 0
        for pid in (a.pid, guardian):
            send(pid, signal.SIGCONT)
        assert guarded(r, old, "of the old leader") == 77
        assert guarded(r, "", "of nobody") == 64
        assert guarded(r, new, "of the new leader, again") == 0
        assert b.leads()
        r.judge()


@suite.test
def holder_without_connection_steps_down_in_time():
    e = ensemble()
    with Place("zk-cut") as place:
        proxies = [place.proxy(port) for port in e.ports]
        p = path()
        with room(e.url(p, [x.port for x in proxies])) as r:
            a = r.candidate("a")
            r.started(1, TIMEOUT_S)
            r.given_store = e.url(p)
            b = r.candidate("b")
            b.said("leader", TIMEOUT_S)
            for proxy in proxies:
                proxy.drop()
            a.said("step-down", TIMEOUT_S)
            r.started(2, TIMEOUT_S)
            assert b.leads()
            r.judge()
            for proxy in proxies:
                proxy.cut()
                proxy.heal()
            a.said("leader", TIMEOUT_S, 2)  # A runs again and knows the leader
            r.judge()


@suite.test
def replies_after_the_deadline_are_ignored():
    e = ensemble()
    with Place("zk-late") as place:
        proxies = [place.proxy(port) for port in e.ports]
        p = path()
        with room(e.url(p, [x.port for x in proxies])) as r:
            a = r.candidate("a")
            r.started(1, TIMEOUT_S)
            r.given_store = e.url(p)
            r.candidate("b").said("leader", TIMEOUT_S)
            for proxy in proxies:
                proxy.delay(2.5)
            a.said("step-down", TIMEOUT_S)
            r.started(2, TIMEOUT_S)
            r.judge()


# ---- servers die, stop ----

@suite.lane("hurt")
def the_ensembles_leader_is_killed_and_the_holder_stays():
    e = ensemble("hurt")
    with room(e.url(path()), ttl="20s", kill_after="2s") as r:
        a, b = pair(r)
        for _ in range(2):
            at = e.leader()
            e.servers[at].kill()
            others = [port for i, port in enumerate(e.ports) if i != at]
            wait_for(lambda: [p for p in others if mode(p) == "leader"], TIMEOUT_S, 0.05)
            e.servers[at].start()
        status, out, errors = suite.command("status", "--store", r.store, "--election", "e", "--json")
        assert status == 0 and json.loads(out)["leader"] == "a", out + errors
        assert not a.events("step-down"), a.events("step-down")
        suite.command("resign", "--store", r.store, "--election", "e")
        r.started(2, TIMEOUT_S)
        assert b.leads()
        r.judge()


@suite.lane("hurt")
def a_stopped_server_is_left_for_another():
    e = ensemble("hurt")
    stall.judge(lambda _: stop_each_follower(e), 0.5)  # a server that gets no CPU is as good as stopped


def stop_each_follower(e):
    with room(e.url(path()), ttl="9s", kill_after="2s") as r:
        a, _ = pair(r)
        for server in e.servers:
            if mode(server.port) == "leader":
                continue
            server.pause()
            try:
                before = len(r.starts())
                until = time.monotonic() + 4.5
                while time.monotonic() < until:  # for longer than one renewal
                    assert len(r.starts()) == before
                    time.sleep(0.1)
            finally:
                server.resume()
        assert not a.events("step-down"), a.events("step-down")
        r.judge()


@suite.lane("hurt")
def crashed_follower_with_unsent_session_reports_does_not_shorten_the_lease():
    """A follower that crashes loses the session reports that it had not sent to the ensemble's leader."""
    e = ensemble("hurt")
    for _ in range(4 if LONG else 2):
        follower = next(i for i, port in enumerate(e.ports) if mode(port) == "follower")
        with Place("zk-news") as place:
            proxy = place.proxy(e.ports[follower])
            p = path()
            with room(e.url(p, [proxy.port])) as r:
                a = r.candidate("a", "ignore-term")  # it ignores SIGTERM and runs until it is killed
                r.started(1, TIMEOUT_S)
                r.given_store = e.url(p)
                b = r.candidate("b")
                b.said("leader", TIMEOUT_S)
                time.sleep(random.uniform(1.0, 2.2))
                e.servers[follower].kill()
                gap = stamp(b.said("elected", TIMEOUT_S)) - stamp(a.said("confirmed-dead", TIMEOUT_S))
                comment(f"elected {gap:.2f} s after the old work's death")
                assert gap > 0, "elected while the old leader's window lasted"
                r.judge()
        e.servers[follower].start()


@suite.lane("hurt")
def unreachable_ensemble_ends_leadership_and_its_return_elects_a_leader():
    e = ensemble("hurt")
    with room(e.url(path())) as r:
        a, _ = pair(r)
        for server in e.servers:
            server.kill()
        a.said("step-down", TIMEOUT_S)
        e.start()
        r.started(2, 2 * TIMEOUT_S)
        r.judge()
        assert a.said("released", TIMEOUT_S)["reason"] == "unreachable"


@suite.lane("own")
def abandoned_session_does_not_block_the_queue():
    """The server grants sessions of five minutes, so it does not expire the old session before the test ends."""
    with Place("zookeeper") as place:
        e = Ensemble(place, 1, "minSessionTimeout=300000\nmaxSessionTimeout=600000")
        for away, back in ((e.servers[0].pause, e.servers[0].resume), (e.servers[0].kill, e.servers[0].start)):
            with room(e.url(path()), ttl="2s") as r:
                r.candidate("a")
                r.candidate("b")
                r.started(1, TIMEOUT_S)
                away()
                leader = r.leader(1, TIMEOUT_S)
                leader.said("released", TIMEOUT_S)
                time.sleep(2)  # a whole TTL without the server
                back()
                r.started(2, TIMEOUT_S)
                r.judge()


# ---- the reply to a create is lost ----

@suite.test
def lost_reply_to_create_leaves_one_node():
    e = ensemble()
    with Place("zk-create") as place:
        proxy = place.proxy(e.ports[0])
        p = path()
        with room(e.url(p), ttl="10s", kill_after="2s") as r:
            r.candidate("a")
            r.started(1, TIMEOUT_S)
            proxy.replace(Swallow(b"-latch-"))  # the reply to a create contains the name
            r.given_store = e.url(p, [proxy.port])
            b = r.candidate("b")
            wait_for(lambda: proxy.change.done, TIMEOUT_S)
            b.said("leader", TIMEOUT_S)

            def two():
                """the nodes of a and b"""
                return len(e.tree(p + "/e")) >= 2
            wait_for(two, TIMEOUT_S, 0.2)
            assert proxy.accepted >= 2, "the connection was not given up"
            assert len(e.tree(p + "/e")) == 2, e.tree(p + "/e")
            r.judge()


class Swallow:
    """Drops all replies of the connection from the first that contains the mark; later connections work."""

    def __init__(self, mark):
        self.mark, self.done, self.quiet_until = mark, False, 0.0

    def __call__(self, data):
        if not self.done and self.mark in data:
            self.done, self.quiet_until = True, time.monotonic() + 1.0
        return b"" if time.monotonic() < self.quiet_until else data


@suite.test
def lost_reply_to_an_acquire_is_recovered():
    e = ensemble()
    with Place("zk-acquire") as place:
        proxy = place.proxy(e.ports[0])
        with room(e.url(path(), [proxy.port]), ttl="20s", kill_after="2s") as r:
            proxy.replace(Swallow(b'"request"'))  # the record that is read after the write
            a = r.candidate("a")
            r.started(1, TIMEOUT_S)
            assert proxy.change.done and a.leads()
            time.sleep(0.2)
            assert not a.events("step-down")
            r.judge()


# ---- foreign clients ----

class ForeignClient:
    """A foreign client, controlled by lines on its input."""

    def __init__(self, words):
        self.process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.lines = []
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        for line in self.process.stdout:
            self.lines.append(line)

    def says(self, line, count=1):
        def said():
            return sum(x.strip() == line for x in self.lines) >= count
        said.__doc__ = f"'{line}' of the foreign client; it printed {self.lines}"
        wait_for(said, TIMEOUT_S, 0.01)

    def send_line(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.process.kill()
        self.process.wait()


def kazoo(e, p, name):
    if subprocess.run([PYTHON, "-c", "import kazoo"], stderr=subprocess.DEVNULL, check=False).returncode:
        raise Skip("kazoo is not here: install python3-kazoo")
    return ForeignClient([PYTHON, os.path.join(HERE, "zookeeper_kazoo.py"), e.hosts(), p, name, "4"])


def curator(e, p, name):
    jars = [f"{JARS}/{jar}.jar" for jar in ("curator-recipes", "curator-framework", "curator-client", "zookeeper", "slf4j-api",
                                            "guava")]
    if not os.path.exists(jars[0]):
        raise Skip("Curator is not here: install libcurator-recipes-java")
    classes = ensemble().place.folder("classes")
    if not glob.glob(classes + "/*.class"):
        subprocess.run([program("javac", "default-jdk-headless"), "-d", classes, "-cp", ":".join(jars),
                        os.path.join(HERE, "ZookeeperLatch.java")], check=True, timeout=300)
    return ForeignClient([program("java", "default-jre-headless"), "-Xmx64m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp",
                     ":".join([classes, *jars]), "ZookeeperLatch", e.hosts(), p, name, "4000"])


def contend(make, more, election="e"):
    """Each waits while the other leads, and leads when it leaves. After a foreign client dies, Bellwether waits until its session
    expires."""
    e, p = ensemble(), path()
    with room(e.url(p, more=more), ttl="6s", kill_after="1s") as r:
        with make(e, f"{p}/{election}", "foreign") as first:
            first.says("leading")
            a = r.candidate("a")
            assert a.said("leader", TIMEOUT_S)["leader"] == "foreign"
            assert not r.starts()
            first.send_line("close")
            r.started(1, TIMEOUT_S)
        with make(e, f"{p}/{election}", "foreign") as second:
            wait_for(lambda: len(e.tree(f"{p}/{election}")) == 2, TIMEOUT_S, 0.1)
            b = r.candidate("b")
            b.said("leader", TIMEOUT_S)
            assert not [x for x in second.lines if x.strip() == "leading"], "two clients lead"
            yield e, p, r, second
            a.signal(signal.SIGTERM)
            second.says("leading")
            assert [line for line in r.lines() if line[0] == "end"], "it leads while our work still runs"
            assert len(r.starts()) == 1
        r.started(2, TIMEOUT_S)  # the foreign client was killed: its session expired
        r.judge()


@suite.test
def curators_latch_and_bellwether_exclude_each_other():
    for e, p, _, latch in contend(curator, ""):
        latch.send_line("leader")
        latch.says("leader a")


@suite.test
def kazoos_election_and_bellwether_exclude_each_other():
    for e, p, _, election in contend(kazoo, "?recipe=kazoo"):
        election.send_line("contenders")
        election.says("contenders a foreign b")


@suite.test
def path_with_nodes_of_the_other_recipe_is_rejected():
    e, p = ensemble(), path()
    with kazoo(e, f"{p}/e", "foreign") as first:
        first.says("leading")
        with room(e.url(p)) as r:
            a = r.candidate("a")
            assert a.wait(TIMEOUT_S) == 64 and not r.starts()
            assert "kazoo" in a.text() and "?recipe=kazoo" in a.text(), a.text()


# ---- rejected settings ----

@suite.test
def invalid_urls_are_rejected_with_a_message():
    place = Place("zk-urls")
    with place:
        empty = place.file("secret", PASSWORD + "\n", 0o600)
        cases = {
            "zookeeper:///e": "host",
            "zookeeper://h/p?recipe=zab": "recipe",
            "zookeeper://h/p?recipes=kazoo": "recipes",
            "zookeeper://h/p?acl=all": "acl",
            "zookeeper://h/p?acl=creator": "user",
            "zookeeper://h/a/../b": "path",
            "zookeeper://u:" + PASSWORD + "@h/p": "--store-file",
            "zookeeper://u@h/p": "password",
            "zookeeper://h/p?password-file=" + empty: "user",
            "zookeeper://u@h/p?password-file=/no/such/file": "/no/such/file",
            "zookeeper://h:99999/p": "",
        }
        for url, mark in cases.items():
            status, out, errors = suite.command("run", "--store", url, "--election", "e", "--", "true")
            assert status == 64, f"{url}: {status} {errors}"
            assert mark in errors and errors.count("\n") <= 2, f"{url}: {errors}"
            assert PASSWORD not in out + errors


@suite.test
def ttl_above_the_granted_session_timeout_is_rejected():
    with room(ensemble().url(path()), ttl="60s", kill_after="2s") as r:
        a = r.candidate("a")
        assert a.wait(TIMEOUT_S) == 64 and not r.starts()
        assert "60000 ms" in a.text() and "90000 ms" in a.text(), a.text()


@suite.test
def acls_exclude_other_users_and_no_output_contains_secrets():
    e, p = ensemble(), path()
    secret = ensemble().place.file("password", PASSWORD + "\n", 0o600)
    url = e.url(p, more=f"?password-file={secret}").replace("//", "//ada@", 1)
    with room(url) as r:
        a, b = pair(r)
        suite.command("resign", "--store", url, "--election", "e")
        r.started(2, TIMEOUT_S)
        status, out, errors = suite.command("status", "--store", e.url(p), "--election", "e")
        assert status != 0 and "denied access" in errors, out + errors
        with open(f"/proc/{b.pid}/cmdline", encoding="utf-8") as file:
            assert PASSWORD not in file.read()
        for c in (a, b):
            with open(c.errors, encoding="utf-8") as file:
                assert PASSWORD not in file.read()
        assert PASSWORD not in out + errors
        r.judge()
    with room(url.replace(f"?password-file={secret}", "")) as r:  # the password in the environment
        r.candidate("c", env={"BELLWETHER_ZOOKEEPER_PASSWORD": PASSWORD})
        r.started(1, TIMEOUT_S)


# ---- hostile servers and lost data ----

class Liar:
    """A listener that answers every connection with its own bytes."""

    def __init__(self, answer):
        self.answer = answer
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.count = 0
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            try:
                s, _ = self.listener.accept()
            except OSError:
                return
            self.count += 1
            threading.Thread(target=self.speak, args=(s,), daemon=True).start()

    def speak(self, s):
        try:
            s.settimeout(20)
            s.recv(4096)
            for chunk in self.answer(s):
                s.sendall(chunk)
            s.recv(1)
        except OSError:
            pass
        s.close()


def connected(timeout_ms=4500):
    body = (0).to_bytes(4, "big") + timeout_ms.to_bytes(4, "big") + (77).to_bytes(8, "big") + (16).to_bytes(4, "big") + b"p" * 16 + b"\0"
    return len(body).to_bytes(4, "big") + body


def garbage(_):
    yield random.Random(7).randbytes(65536)


def nonsense_behind_a_good_start(_):
    yield connected()
    yield random.Random(8).randbytes(65536)


def endless(_):
    yield connected()
    yield (0x7fffff00).to_bytes(4, "big")
    for _ in range(64 * 1024):
        yield b"x" * 65536


def huge_length(_):
    yield connected()
    yield b"\xff\xff\xff\xff" + b"y" * 100


def unasked(_):
    yield connected()
    yield (16).to_bytes(4, "big") + (12345).to_bytes(4, "big") + bytes(12)


def short_answers(s):
    """Answers every request with success, but without the expected body."""
    yield connected()
    data = b""
    while chunk := s.recv(65536):
        data += chunk
        while len(data) >= 12 and len(data) >= 4 + int.from_bytes(data[:4], "big"):
            xid, data = data[4:8], data[4 + int.from_bytes(data[:4], "big"):]
            yield (16).to_bytes(4, "big") + xid + (1).to_bytes(8, "big") + bytes(4)


def nothing(_):
    yield from ()


@suite.lane("own")
def hostile_servers_give_no_leadership_and_use_little_memory():
    for answer in (garbage, nonsense_behind_a_good_start, endless, huge_length, unasked, short_answers, nothing):
        liar = Liar(answer)
        with room(f"zookeeper://127.0.0.1:{liar.port}/p") as r:
            a = r.candidate("a")
            wait_for(lambda: liar.count >= 2, TIMEOUT_S)
            time.sleep(1)
            assert a.process.poll() is None, f"{answer.__name__}: it ended with {a.process.returncode}"
            with open(f"/proc/{a.pid}/status", encoding="utf-8") as file:
                high = int(re.search(r"VmHWM:\s+(\d+)", file.read()).group(1))
            assert SANITIZED or high < 100 * 1024, f"{answer.__name__}: {high} kB"
            assert not r.starts()
        liar.listener.close()


@suite.lane("own")
def candidate_refuses_an_ensemble_whose_transaction_ids_restarted():
    with Place("zk-forgets") as place:
        e = Ensemble(place, 1)
        with room(e.url("/p")) as r:
            for _ in range(3):  # raises the transaction ids
                suite.command("run", "--store", e.url("/p"), "--election", "e", "--id", "x", "--ttl", "3s", "--kill-after", "500ms",
                              "--", "true")
            a = r.candidate("a")
            r.started(1, TIMEOUT_S)
            e.servers[0].kill()
            subprocess.run(["rm", "-rf", os.path.join(place.dir, "data0", "version-2")], check=True)
            e.servers[0].start()
            a.said("step-down", TIMEOUT_S)

            def refused():
                """an event that reports restarted transaction ids"""
                return [x for x in a.events("store-unavailable") if "transaction ids restarted" in x["message"]]
            wait_for(refused, 2 * TIMEOUT_S)
            assert len(r.starts()) == 1
            r.judge()


def main():
    try:
        suite.main()
    finally:
        for made in _shared.values():
            made.place.__exit__()


main()
