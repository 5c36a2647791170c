#!/usr/bin/env python3
"""The etcd store on real servers, one and three: the conformance suite, faults, foreign clients (etcdctl, Go), TLS, users and
hostile replies.

    store_etcd.py BELLWETHER WITNESS CONFORMANCE [--long] [NAME...]

--long adds the suite over TLS with a user, and 1,000 waiting candidates."""
import json
import os
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
import urllib.request

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "kit"))
import stall  # noqa: E402
from run_lib import lives, send, wait_for  # noqa: E402
from serve_lib import go_program  # noqa: E402
from store_lib import SANITIZED, Place, Server, Suite, free_ports, program  # noqa: E402

LONG = "--long" in sys.argv
sys.argv = [word for word in sys.argv if word != "--long"]
suite = Suite()
TIMEOUT_S = 180.0  # timeout of waits; no result depends on it. On a busy disk etcd needs more than a minute to start
PASSWORD = "s3cret-and-only-in-a-file"
QUICK = ["--heartbeat-interval", "50", "--election-timeout", "500"]  # timing of the cluster's own leader


def say(text):
    print("# " + text, flush=True)


class Cluster:
    """etcd members on loopback, each with its own data."""

    def __init__(self, place, count=1, options=(), tls=None):
        self.place, self.tls = place, tls
        etcd, ports = program("etcd", "etcd-server"), free_ports(2 * count)
        scheme = "https" if tls else "http"
        self.ports, peers = ports[:count], ports[count:]
        cluster = ",".join(f"m{i}=http://127.0.0.1:{peers[i]}" for i in range(count))
        more = ["--cert-file", tls["cert"], "--key-file", tls["key"]] if tls else []
        self.members = [
            Server(place, f"etcd{i}", [
                etcd, "--name", f"m{i}", "--data-dir", place.folder(f"data{i}"), "--logger", "zap", "--log-level", "error",
                "--listen-client-urls", f"{scheme}://127.0.0.1:{self.ports[i]}",
                "--advertise-client-urls", f"{scheme}://127.0.0.1:{self.ports[i]}",
                "--listen-peer-urls", f"http://127.0.0.1:{peers[i]}",
                "--initial-advertise-peer-urls", f"http://127.0.0.1:{peers[i]}",
                "--initial-cluster", cluster, "--initial-cluster-token", place.name, *more, *options],
                port=self.ports[i], ready=lambda i=i: self.healthy(i)) for i in range(count)]
        for member in self.members:
            member.start(wait=False)
        for member in self.members:
            member.wait_ready()

    def healthy(self, i):
        return self.ctl("endpoint", "health", endpoints=f"127.0.0.1:{self.ports[i]}", check=False).returncode == 0

    def ctl_words(self, *words, endpoints=None):
        more = ["--cacert", self.tls["ca"], "--cert", self.tls["user_cert"], "--key", self.tls["user_key"]] if self.tls else []
        return [program("etcdctl", "etcd-client"), "--endpoints", endpoints or self.endpoints(), *more, *words]

    def ctl(self, *words, endpoints=None, check=True):
        done = subprocess.run(self.ctl_words(*words, endpoints=endpoints), env=dict(os.environ, ETCDCTL_API="3"),
                              capture_output=True, text=True, timeout=60, check=False)
        assert not check or done.returncode == 0, f"etcdctl {words}: {done.stdout}{done.stderr}"
        return done

    def endpoints(self):
        return ",".join(f"127.0.0.1:{p}" for p in self.ports)

    def url(self, path=""):
        return f"etcd://{self.endpoints()}{path}"

    def leader(self):
        """The index of the member that is the cluster's leader."""
        def known():
            """the cluster to have a leader"""
            out = self.ctl("endpoint", "status", "-w", "json", check=False).stdout
            for entry in json.loads(out or "[]"):
                if entry["Status"]["leader"] == entry["Status"]["header"]["member_id"]:
                    return [self.ports.index(int(entry["Endpoint"].rsplit(":", 1)[1]))]
            return None
        return wait_for(known, TIMEOUT_S, 0.05)[0]


def status(url, election="e"):
    code, out, err = suite.answer("status", "--store", url, "--election", election, "--json")
    assert code in (0, 1), (code, out, err)
    return json.loads(out)


def in_line(url, count, election="e"):
    def enough():
        """`count` candidates in the queue"""
        return len(status(url, election).get("candidates", [])) >= count
    wait_for(enough, TIMEOUT_S, 0.02)


# ---- the suite ----

@suite.test
def conformance_three_members():
    with Place("etcd") as place:
        suite.run_conformance("three members", Cluster(place, 3).url())


# ---- hand-over and loss ----

@suite.alone
def a_leadership_is_handed_over_by_watch():
    with Place("etcd") as place:
        url = Cluster(place).url()
        with suite.room(url, ttl="10s", kill_after="1s") as room:
            gaps = []
            room.candidate("ada")
            room.started(1, TIMEOUT_S)
            room.candidate("ben")
            in_line(url, 2)
            for i in range(1, 8):
                time.sleep(0.3)  # the waiting candidate has started its watch
                assert suite.command("resign", "--store", url, "--election", "e")[0] == 0
                start = room.started(i + 1, TIMEOUT_S)
                last = [line for line in room.lines() if line[0] in ("signal", "end")][-1]
                gaps.append((int(start[3]) - int(last[3])) / 1e6)
            room.judge()
        code, out, err = suite.command("store", "check", url, "--json")
        assert code == 0 and json.loads(out)["server"].startswith("etcd 3."), (out, err)
        say(f"the work's end to the next one's start: {sorted(gaps)[len(gaps) // 2]:.2f} ms in the middle of {gaps}")
        say(f"store check: {out.strip()[:600]}")


@suite.test
def successor_leads_after_ttl_when_holder_is_killed():
    with Place("etcd") as place:
        url = Cluster(place).url()
        with suite.room(url, ttl="2s") as room:
            ada = room.candidate("ada", options=["--value", "http://ada"])
            room.started(1, TIMEOUT_S)
            ben = room.candidate("ben")
            assert ben.said("leader", TIMEOUT_S)["leader"] == "ada"
            assert status(url)["value"] == "http://ada"
            guardian, work = ada.guardian(), int(room.starts()[0][2])
            for pid in (guardian, ada.pid):
                send(pid, signal.SIGKILL)
            room.started(2, TIMEOUT_S)
            assert not lives(work)

            def settled():
                """Ada's owed work to be settled"""
                return status(url)["owed"] == []
            wait_for(settled, TIMEOUT_S, 0.05)
            room.judge()


@suite.test
def late_write_is_rejected_when_holder_was_stopped():
    with Place("etcd") as place:
        cluster = Cluster(place)
        script = place.file("guard.sh", suite.command("guard", "print", "etcd")[1])

        def write(token, value):
            done = subprocess.run(["sh", script, "ledger", token, "ledger/last", value], capture_output=True, text=True,
                                  timeout=60, check=False, env=dict(os.environ, ETCDCTL_ENDPOINTS=cluster.endpoints()))
            return done.returncode, done.stderr
        with suite.room(cluster.url(), ttl="2s") as room:
            ada = room.candidate("ada")
            first = room.started(1, TIMEOUT_S)
            assert write(first[1], "ada") == (0, "")
            for pid in (ada.pid, ada.guardian(), int(first[2])):
                send(pid, signal.SIGSTOP)
            room.candidate("ben")
            second = room.started(2, TIMEOUT_S)
            assert write(second[1], "ben") == (0, "")
            code, err = write(first[1], "ada, late")  # the write she would send from another machine
            assert code == 77 and "ESTALE" in err, (code, err)
            assert cluster.ctl("get", "--print-value-only", "ledger/last").stdout.strip() == "ben"
            room.judge()


@suite.test
def guard_rejects_stale_or_missing_token():
    with Place("etcd") as place:
        cluster = Cluster(place)
        script = place.file("guard.sh", suite.command("guard", "print", "etcd")[1])

        def write(token, value, resource="k"):
            return subprocess.run(["sh", script, resource, token, "k", value], capture_output=True, text=True, timeout=60,
                                  check=False, env=dict(os.environ, ETCDCTL_ENDPOINTS=cluster.endpoints())).returncode

        def read():
            return cluster.ctl("get", "--print-value-only", "k").stdout[:-1]
        assert write("9", "a") == 0 and write("10", 'two "quoted"\\ lines\nhere') == 0
        assert read() == 'two "quoted"\\ lines\nhere'
        assert write("9", "c") == 77 and write("10", "d") == 0 and write("8", "e", "another 'resource'") == 0
        for none in ("", "0", "-1", "ten", "123456789012345678901"):
            assert write(none, "f") == 64, none
        assert write("18446744073709551615", "g") == 0 and write("18446744073709551614", "h") == 77
        assert read() == "g"


# ---- faults ----

class Starved(Exception):
    """The members waited for a CPU, so that this attempt proves nothing."""


def stay_while_one_member_fails():
    with Place("etcd") as place:
        cluster = Cluster(place, 3, QUICK)
        with suite.room(cluster.url(), ttl="6s", retry="200ms") as room:
            ada = room.candidate("ada")
            room.started(1, TIMEOUT_S)
            room.candidate("ben")
            in_line(cluster.url(), 2)

            def stays():
                assert not ada.events("step-down"), ada.events("step-down")
                assert len(room.starts()) == 1
            for i in range(3):  # each member in turn: the ones that candidates use, and the cluster's leader
                watch = stall.Watch([member.process.pid for member in cluster.members] + [ada.pid])
                cluster.members[i].pause()
                time.sleep(4)
                cluster.members[i].resume()
                cluster.members[i].wait_ready()
                if ada.events("step-down") and watch.excuses(1.0, "the pause of a member"):
                    raise Starved
            stays()
            watch = stall.Watch([member.process.pid for member in cluster.members] + [ada.pid])
            leader = cluster.leader()
            cluster.members[leader].kill()
            time.sleep(4)
            if ada.events("step-down") and watch.excuses(1.0, "the death of a member"):
                raise Starved
            stays()
            cluster.members[leader].start()
            ada.signal(signal.SIGTERM)
            room.started(2, TIMEOUT_S)
            room.judge()


@suite.test
def holder_stays_when_one_member_fails():
    for _ in range(stall.ATTEMPTS):
        try:
            return stay_while_one_member_fails()
        except Starved:
            continue
    raise AssertionError("the members waited for a CPU in each attempt")


@suite.test
def work_stops_in_time_when_store_is_cut_off():
    with Place("etcd") as place:
        cluster = Cluster(place, 3, QUICK)
        proxies = [place.proxy(port) for port in cluster.ports]
        with suite.room("etcd://" + ",".join(f"127.0.0.1:{p.port}" for p in proxies), ttl="2s", retry="200ms") as room:
            ada = room.candidate("ada")
            room.started(1, TIMEOUT_S)
            for i, fault in enumerate(("cut", "drop", "mute")):
                for proxy in proxies:
                    getattr(proxy, fault)()
                assert ada.said("step-down", TIMEOUT_S, i + 1)["reason"] == "unreachable"
                ada.said("confirmed-dead", TIMEOUT_S, i + 1)
                for proxy in proxies:
                    proxy.heal()
                room.started(i + 2, TIMEOUT_S)
            for proxy in proxies:
                proxy.delay(1.5)
            ada.said("step-down", TIMEOUT_S, 4)
            for proxy in proxies:
                proxy.heal()
            room.started(5, TIMEOUT_S)
            room.judge()


@suite.test
def work_stops_when_server_fails_and_token_grows_after_restart():
    with Place("etcd") as place:
        cluster = Cluster(place)
        with suite.room(cluster.url(), ttl="2s", retry="200ms") as room:
            candidates = [room.candidate("ada"), room.candidate("ben")]
            room.started(1, TIMEOUT_S)
            server = cluster.members[0]
            for i, (away, back) in enumerate(((server.kill, server.start), (server.pause, server.resume))):
                leader = room.leading()
                lost = len(leader.events("step-down"))
                away()
                assert leader.said("step-down", TIMEOUT_S, lost + 1)["reason"] == "unreachable"
                leader.said("confirmed-dead", TIMEOUT_S, lost + 1)
                back()
                room.started(i + 2, TIMEOUT_S)
            room.judge()


@suite.test
def no_candidate_leads_too_early_when_server_lost_its_data():
    with Place("etcd") as place:
        cluster = Cluster(place)
        for i in range(50):
            cluster.ctl("put", "some", str(i))  # so that its revisions are higher than a new server's
        with suite.room(cluster.url(), ttl="4s", retry="200ms") as room:
            ada = room.candidate("ada")
            room.started(1, TIMEOUT_S)
            ben = room.candidate("ben")
            in_line(cluster.url(), 2)
            ada.signal(signal.SIGSTOP)  # she does not notice; her guardian does, in time
            cluster.members[0].kill()
            shutil.rmtree(os.path.join(place.dir, "data0"))
            cluster.members[0].start()
            room.started(2, TIMEOUT_S)
            assert "lost data" in json.dumps(ben.events()), ben.events()
            ada.signal(signal.SIGCONT)
            ada.said("step-down", TIMEOUT_S)
            stall.judge_overlaps(room.lines())


@suite.test
def hosts_of_two_clusters_are_rejected():
    with Place("etcd") as place, Place("other") as other:
        one, two = Cluster(place), Cluster(other)
        proxy = place.proxy(one.ports[0])
        with suite.room(f"etcd://127.0.0.1:{proxy.port},{two.endpoints()}", ttl="2s", retry="200ms") as room:
            proxy.cut()
            ada = room.candidate("ada")
            room.started(1, TIMEOUT_S)  # in the second cluster
            two.members[0].kill()
            ada.said("store-unavailable", TIMEOUT_S)  # first with another cause: no server is running
            proxy.heal()
            ada.said("step-down", TIMEOUT_S)

            def named():
                """the cause to be reported"""
                return "different clusters" in json.dumps(ada.events())
            wait_for(named, TIMEOUT_S, 0.05)
            assert one.ctl("get", "--prefix", "e/", "--keys-only").stdout.strip() == ""
            two.members[0].start()
            room.started(2, TIMEOUT_S)
            room.judge()


@suite.test
def lost_acquire_reply_is_recognised():
    with Place("etcd") as place:
        cluster = Cluster(place)
        proxy = place.proxy(cluster.ports[0])
        swallowed = []

        def swallow(data):
            if b'"holder":"ada"' in data and not swallowed:
                swallowed.append(data)
                return b""
            return data
        proxy.replace(swallow)
        with suite.room(f"etcd://127.0.0.1:{proxy.port}", ttl="10s", kill_after="1s", retry="200ms") as room:
            ada = room.candidate("ada")
            start = room.started(1, TIMEOUT_S)
            assert swallowed and int(start[1]) == status(cluster.url())["token"]
            assert len(ada.events("elected")) == 1, ada.events("elected")
            room.judge()


@suite.test
def queue_position_survives_server_restart():
    with Place("etcd") as place:
        cluster = Cluster(place)
        with suite.room(cluster.url(), ttl="8s", kill_after="1s", retry="200ms") as room:
            ada = room.candidate("ada")
            room.started(1, TIMEOUT_S)
            room.candidate("ben")
            in_line(cluster.url(), 2)
            room.candidate("cleo")
            in_line(cluster.url(), 3)
            cluster.members[0].restart()
            assert [c["id"] for c in status(cluster.url())["candidates"]] == ["ada", "ben", "cleo"]
            ada.signal(signal.SIGTERM)
            room.started(2, TIMEOUT_S)
            assert status(cluster.url())["leader"] == "ben"
            room.judge()


@suite.test
def named_successor_leads_before_queued_candidates():
    with Place("etcd") as place:
        url = Cluster(place).url()
        with suite.room(url, ttl="5s", retry="1s") as room:
            room.candidate("ada")
            room.started(1, TIMEOUT_S)
            for count, name in enumerate(("ben", "cleo", "dora"), 2):
                room.candidate(name)
                in_line(url, count)
            code, out, err = suite.command("transfer", "--to", "dora", "--store", url, "--election", "e")
            assert code == 0, (out, err)
            room.started(2, TIMEOUT_S)
            assert status(url)["leader"] == "dora", status(url)
            room.judge()


@suite.test
def candidate_with_higher_priority_takes_over_leadership():
    with Place("etcd") as place:
        suite.preferred_candidate_gets_the_lead(Cluster(place).url())


# ---- foreign clients ----

def etcdctl_elect(place, cluster, election, value):
    """Starts `etcdctl elect`; returns its process. It prints its key when it leads, and resigns on SIGINT."""
    log = open(os.path.join(place.dir, value), "wb")
    process = subprocess.Popen(cluster.ctl_words("elect", election, value), env=dict(os.environ, ETCDCTL_API="3"),
                               stdout=log, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)
    server = Server(place, value + "-elect", [])
    server.process = process
    return process


def leads(place, value):
    def elected():
        """etcdctl to lead"""
        with open(os.path.join(place.dir, value), encoding="utf-8") as file:
            return value in file.read()
    return elected


@suite.test
def etcdctl_and_bellwether_exclude_each_other():
    with Place("etcd") as place:
        cluster = Cluster(place)
        for prefix, election in (("", "e"), ("/jobs/night", "jobs/night/e")):
            url, outsider, late = cluster.url(prefix), "stranger" + prefix[-5:], "late" + prefix[-5:]
            first = etcdctl_elect(place, cluster, election, outsider)
            wait_for(leads(place, outsider), TIMEOUT_S, 0.02)
            with suite.room(url, ttl="3s") as room:
                ada = room.candidate("ada")
                assert ada.said("leader", TIMEOUT_S)["leader"] == outsider
                seen = status(url)
                assert seen["leader"] == outsider and not room.starts(), seen
                first.send_signal(signal.SIGINT)
                token = int(room.started(1, TIMEOUT_S)[1])
                assert token > seen["token"]
                second = etcdctl_elect(place, cluster, election, late)
                in_line(url, 2)
                assert not leads(place, late)()
                shown = cluster.ctl("get", "--prefix", election + "/", "--keys-only").stdout.split()
                assert len(shown) == 2, shown  # only the two election keys
                assert suite.command("resign", "--store", url, "--election", "e")[0] == 0
                wait_for(leads(place, late), TIMEOUT_S, 0.02)
                assert status(url)["leader"] == late
                second.send_signal(signal.SIGINT)
                room.started(2, TIMEOUT_S)
                room.judge()


@suite.test
def foreign_leader_that_leaves_unseen_is_owed():
    """On a slow connection a candidate reads the current leader before it gets its own position in the queue."""
    with Place("etcd") as place:
        cluster = Cluster(place)
        cluster.ctl("put", "e/1", "gopher")
        line = place.proxy(cluster.ports[0])
        line.delay(0.1)
        with suite.room(f"etcd://127.0.0.1:{line.port}", ttl="60s") as room:  # no candidate reads again by itself within this time
            room.candidate("ada")
            in_line(cluster.url(), 2)
            cluster.ctl("del", "e/1")
            room.started(1, TIMEOUT_S)
            owed = status(cluster.url())["owed"]
            assert owed == [{"id": "gopher", "containment": ""}], owed


@suite.test
def foreign_leader_that_ends_before_a_candidate_is_in_the_queue_is_listed_as_unconfirmed():
    with Place("etcd") as place:
        cluster = Cluster(place)
        cluster.ctl("put", "e/1", "gopher")
        line = place.proxy(cluster.ports[0])
        line.delay(0.5)  # the candidate needs two more round trips after its first read
        with suite.room(f"etcd://127.0.0.1:{line.port}", ttl="60s") as room:
            assert room.candidate("ada").said("leader", TIMEOUT_S)["leader"] == "gopher"
            cluster.ctl("del", "e/1")
            room.started(1, TIMEOUT_S)
            owed = status(cluster.url())["owed"]
            assert owed == [{"id": "gopher", "containment": ""}], owed


@suite.test
def go_and_bellwether_exclude_each_other():
    with Place("etcd") as place:
        built = go_program(os.path.dirname(os.path.abspath(suite.conformance)))
        cluster = Cluster(place)

        def go(value):
            process = subprocess.Popen([built, cluster.endpoints(), "e", value, "2"], stdin=subprocess.PIPE,
                                       stdout=subprocess.PIPE, text=True)
            Server(place, value, []).process = process
            assert process.stdout.readline() == "READY\n"
            return process
        with suite.room(cluster.url(), ttl="2s") as room:
            first = go("gopher")
            token = int(first.stdout.readline().split()[1])
            ada = room.candidate("ada")
            assert ada.said("leader", TIMEOUT_S)["leader"] == "gopher"
            first.kill()  # its lease expires: it is unknown whether its work has ended
            start = room.started(1, TIMEOUT_S)
            assert int(start[1]) > token
            owed = status(cluster.url())["owed"]
            assert owed == [{"id": "gopher", "containment": ""}], owed
            second = go("second")
            in_line(cluster.url(), 2)
            ada.signal(signal.SIGTERM)
            assert int(second.stdout.readline().split()[1]) > int(start[1])
            room.candidate("ben")
            in_line(cluster.url(), 2)
            second.stdin.write("resign\n")
            second.stdin.flush()
            room.started(2, TIMEOUT_S)
            room.judge()


# ---- authorization and TLS ----

def certificates(place):
    """Makes a CA, and certificates for 127.0.0.1 and for the user lead."""
    openssl, path = program("openssl", "openssl"), place.folder("tls")

    def run(*words):
        subprocess.run([openssl, *words], cwd=path, check=True, capture_output=True, timeout=120)
    new = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    run("req", "-x509", *new, "-keyout", "ca.key", "-out", "ca.crt", "-subj", "/CN=test authority", "-days", "2")
    place.file("tls/ext", "subjectAltName=IP:127.0.0.1\n")
    for name in ("etcd", "lead"):
        run("req", *new, "-keyout", name + ".key", "-out", name + ".csr", "-subj", "/CN=" + name)
        run("x509", "-req", "-in", name + ".csr", "-CA", "ca.crt", "-CAkey", "ca.key", "-CAcreateserial", "-out", name + ".crt",
            "-days", "2", "-extfile", "ext")
    return {"ca": os.path.join(path, "ca.crt"), "cert": os.path.join(path, "etcd.crt"), "key": os.path.join(path, "etcd.key"),
            "user_cert": os.path.join(path, "lead.crt"), "user_key": os.path.join(path, "lead.key")}


def guarded_cluster(place, more=()):
    """A cluster with TLS only, where only user lead may use elections below jobs/. Returns (cluster, tls, URL without credentials)."""
    tls = certificates(place)
    cluster = Cluster(place, 1, ["--auth-token-ttl", "2", *more], tls=tls)
    for words in (("user", "add", "root:" + PASSWORD), ("user", "add", "lead:" + PASSWORD), ("role", "add", "elections"),
                  ("role", "grant-permission", "elections", "--prefix=true", "readwrite", "jobs/"),
                  ("role", "grant-permission", "elections", "--prefix=true", "readwrite", "/bellwether/"),
                  ("user", "grant-role", "root", "root"), ("user", "grant-role", "lead", "elections"), ("auth", "enable")):
        cluster.ctl(*words)
    return cluster, tls, f"127.0.0.1:{cluster.ports[0]}/jobs?ca-file={tls['ca']}"


@suite.test
def a_user_leads_over_tls_and_its_token_is_renewed():
    with Place("etcd") as place:
        cluster, _, tail = guarded_cluster(place)
        secret = place.file("secret", PASSWORD + "\n", 0o600)
        with suite.room(f"etcds://lead@{tail}&password-file={secret}", ttl="3s") as room:
            ada = room.candidate("ada")
            room.started(1, TIMEOUT_S)
            time.sleep(5)  # longer than the server keeps an unused auth token, and longer than the lease
            assert not ada.events("step-down"), ada.events("step-down")
            cluster.members[0].restart(wait=False)  # it forgets all auth tokens
            ben = room.candidate("ben", env={"ETCDCTL_PASSWORD": PASSWORD})
            ben.said("leader", TIMEOUT_S)
            ada.signal(signal.SIGTERM)
            room.started(2, TIMEOUT_S)
            room.judge()
            for candidate in (ada, ben):
                with open(candidate.errors, encoding="utf-8") as file:
                    assert PASSWORD not in file.read()


@suite.test
def user_leads_after_a_slow_greeting():
    with Place("etcd") as place:
        metrics = f"http://127.0.0.1:{free_ports(1)[0]}"
        cluster, tls, _ = guarded_cluster(place, ["--listen-metrics-urls", metrics])
        secret = place.file("secret", PASSWORD + "\n", 0o600)
        line = place.proxy(cluster.ports[0])
        line.delay(0.3)  # TLS, the greeting and the password each need longer than a request may take
        url = f"etcds://lead@127.0.0.1:{line.port}/jobs?ca-file={tls['ca']}&password-file={secret}"
        with suite.room(url, ttl="2s") as room:
            room.candidate("ada")

            def authenticated():
                """the server to accept the password"""
                with urllib.request.urlopen(metrics + "/metrics", timeout=TIMEOUT_S) as answer:
                    return re.search(rb'^grpc_server_handled_total.grpc_code="OK",grpc_method="Authenticate".* [1-9]', answer.read(), re.M)
            wait_for(authenticated, TIMEOUT_S, 0.1)
            line.delay(0)
            room.started(1, TIMEOUT_S)


@suite.test
def unauthorized_user_gets_a_clear_error():
    with Place("etcd") as place:
        _, tls, tail = guarded_cluster(place)
        wrong = place.file("wrong", "wrong-" + PASSWORD, 0o600)
        right = place.file("right", PASSWORD, 0o600)
        other = certificates(Place("other"))["ca"]
        cases = [
            (f"etcds://lead@{tail}&password-file={wrong}", "authentication failed", 64),
            (f"etcds://{tail}", "user name is empty", 69),
            (f"etcds://lead@{tail.replace('/jobs', '')}&password-file={right}", "permission denied", 64),
            (f"etcds://lead@{tail.replace(tls['ca'], other)}&password-file={right}", "certificate", 69),
            (f"etcds://lead@{tail.replace('127.0.0.1', 'localhost')}&password-file={right}", "certificate", 69),
            (f"etcd://lead@{tail.split('?')[0]}?password-file={right}", "", 69),
        ]
        for url, why, expected in cases:  # 64: retrying cannot help, so the command exits
            wait = "60s" if expected == 64 else "3s"
            code, out, err = suite.command("run", "--store", url, "--election", "e", "--wait", wait, "--", "true")
            assert code == expected and why in err, (url, code, out, err)
            assert PASSWORD not in out + err


@suite.test
def client_certificate_authenticates_without_password():
    with Place("etcd") as place:
        tls = certificates(place)
        cluster = Cluster(place, 1, ["--trusted-ca-file", tls["ca"], "--client-cert-auth"], tls=tls)
        url = f"etcds://127.0.0.1:{cluster.ports[0]}?ca-file={tls['ca']}"
        code, out, err = suite.command("run", "--store", f"{url}&cert-file={tls['user_cert']}&key-file={tls['user_key']}",
                                       "--election", "e", "--ttl", "3s", "--kill-after", "300ms", "--", "echo", "led")
        assert code == 0 and "led" in out, (code, out, err)
        code, _, err = suite.command("run", "--store", url, "--election", "e", "--wait", "1500ms", "--", "true")
        assert code == 69 and ("certificate" in err or "TLS" in err), (code, err)


def crowd(cluster, count, rounds):
    """`count` candidates wait; the leader resigns `rounds` times. The program counts woken candidates, the server counts requests."""
    def transactions():
        with urllib.request.urlopen(f"http://127.0.0.1:{cluster.ports[0]}/metrics", timeout=60) as page:
            lines = [line.split() for line in page.read().decode().splitlines()]
        return sum(int(words[1]) for words in lines if words[0].startswith("grpc_server_handled_total{") and "\"Txn\"" in words[0])
    def run(times):
        before = transactions()
        done = subprocess.run([os.path.join(os.path.dirname(suite.conformance), "store-crowd"), cluster.url(), str(count), str(times)],
                              capture_output=True, text=True, timeout=600, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return transactions() - before, done.stdout.strip()
    gathered, _ = run(1)
    all_of_it, reported = run(rounds + 1)
    asked = (all_of_it - gathered) / rounds
    say(f"{reported}; the server had {asked:.1f} transactions per hand-over")
    assert asked < count / 2, asked


if LONG:
    @suite.test
    def conformance_tls_and_a_user():
        with Place("etcd") as place:
            _, _, tail = guarded_cluster(place)
            secret = place.file("secret", PASSWORD + "\n", 0o600)
            suite.run_conformance("tls", f"etcds://lead@{tail}&password-file={secret}")

    @suite.test
    def one_of_a_thousand_waiting_candidates_wakes():
        with Place("etcd") as place:
            crowd(Cluster(place), 1000, 50)


@suite.test
def one_of_fifty_waiting_candidates_wakes():
    with Place("etcd") as place:
        crowd(Cluster(place), 50, 10)


# ---- bad input ----

@suite.test
def invalid_etcd_urls_are_rejected():
    cases = [
        ("etcd://", "host"), ("etcd://h:0", "port"), ("etcd://h:99999", "port"), ("etcd://h?colour=red", "colour"),
        ("etcd://h?ca-file=/x", "etcds"), ("etcds://h?ca-file=/nonexistent", "/nonexistent"), ("etcd://u@h", "password"),
        ("etcd://u@h?password-file=/nonexistent", "/nonexistent"), ("etcds://h?cert-file=/x", "go together"),
        ("etcd://h//x", "must not begin with"), ("etcd://h/" + "x" * 300, "longer"), ("etcd://a,b,", "empty host"),
        ("bellwether://", "host"),
    ]
    for url, why in cases:
        code, _, err = suite.command("status", "--store", url, "--election", "e")
        assert code == 64 and why in err, (url, code, err)
    code, _, err = suite.command("run", "--store", f"etcd://u:{PASSWORD}@h", "--election", "e", "--", "true")
    assert code == 64 and PASSWORD not in err
    code, _, err = suite.command("run", "--store", "etcd://127.0.0.1:1", "--election", "e", "--ttl", "1s", "--kill-after", "100ms",
                                 "--", "true")
    assert code == 64 and "2" in err, (code, err)


class Hostile:
    """A server that completes the HTTP/2 handshake and then misbehaves."""

    def __init__(self, speak, settings=b"\0\0\0\x04\0\0\0\0\0"):
        self.speak, self.settings = speak, settings
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.port = self.socket.getsockname()[1]
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            try:
                connection, _ = self.socket.accept()
            except OSError:
                return
            threading.Thread(target=self.talk, args=(connection,), daemon=True).start()

    def talk(self, connection):
        try:
            with connection:
                connection.sendall(self.settings)
                time.sleep(0.05)
                self.speak(connection)
        except OSError:
            pass

    def close(self):
        self.socket.close()


def frame(kind, flags, stream, payload):
    return struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload


def field(name, value):
    return b"\0" + bytes([len(name)]) + name + bytes([len(value)]) + value


HEADERS = field(b":status", b"200") + field(b"content-type", b"application/grpc")


def answer(payload):
    """A complete response to the first call, with this message."""
    def speak(connection):
        connection.sendall(frame(1, 4, 1, HEADERS))
        for at in range(0, len(payload), 16384):
            connection.sendall(frame(0, 0, 1, payload[at:at + 16384]))
        connection.sendall(frame(1, 5, 1, field(b"grpc-status", b"0")))
        connection.recv(65536)
        time.sleep(1)
    return speak


def message(payload):
    return b"\0" + struct.pack(">I", len(payload)) + payload


def endless_headers(connection):
    block = b"".join(field(b"x-%d" % i, b"y" * 100) for i in range(100))
    connection.sendall(frame(1, 0, 1, HEADERS))
    for _ in range(3000):  # 30 MB
        connection.sendall(frame(9, 0, 1, block))


def many_headers(connection):
    for _ in range(300):
        connection.sendall(frame(1, 4, 1, HEADERS + b"".join(field(b"x-%d" % i, b"y" * 100) for i in range(100))))


def endless_data(connection):
    connection.sendall(frame(1, 4, 1, HEADERS) + frame(0, 0, 1, b"\0\xff\xff\xff\xff"))
    for _ in range(2000):
        connection.sendall(frame(0, 0, 1, b"z" * 16384))


def floods(kind, payload):
    def speak(connection):
        for _ in range(20000):
            connection.sendall(frame(kind, 0, 0, payload) * 10)
    return speak


def noise(connection):
    connection.sendall(os.urandom(200000))


def http1(connection):
    connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")


def silence(connection):
    time.sleep(5)


@suite.test
def hostile_replies_fail_safe():
    # responses of a Txn: a header, then results that were not requested
    nested = b"\x0a\x02\x18\x05" + b"\x1a\x04\x0a\x02\x0a\x00" * 3
    cases = {
        "noise": noise, "http1": http1, "silence": silence, "endless headers": endless_headers, "many headers": many_headers,
        "endless data": endless_data, "pings": floods(6, b"12345678"), "settings": floods(4, b""),
        "garbage": answer(message(os.urandom(5000))), "empty": answer(message(b"")), "no message": answer(b""),
        "cut short": answer(b"\0\0\0\0\x09abc"), "compressed": answer(b"\1\0\0\0\x02ab"), "other answers": answer(message(nested)),
        "a million entries": answer(message(b"\x0a\x02\x18\x05" + b"\x1a\x00" * 500000)),
    }
    for name, speak in cases.items():
        hostile = Hostile(speak)
        url = f"etcd://127.0.0.1:{hostile.port}"
        words = [suite.bellwether, "run", "--store", url, "--election", "e", "--wait", "700ms", "--ttl", "2s", "--kill-after", "100ms",
                 "--", "echo", "led"]
        process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        peak = [0]

        def measure():
            try:
                with open(f"/proc/{process.pid}/status", encoding="utf-8") as file:
                    lines = [line for line in file if line.startswith("VmHWM")]
                peak[0] = int(lines[0].split()[1]) if lines else peak[0]
            except OSError:
                pass
            return process.poll() is not None
        measure.__doc__ = f"the end of run against {name}"
        wait_for(measure, TIMEOUT_S, 0.02)
        out, err = process.communicate()
        hostile.close()
        assert process.returncode == 69 and "led" not in out, (name, process.returncode, out, err)
        assert "127.0.0.1" in err or "answer" in err, (name, err)
        assert 0 < peak[0] and (SANITIZED or peak[0] < 64 * 1024), (name, peak)


@suite.test
def foreign_keys_are_named_and_not_changed():
    with Place("etcd") as place:
        cluster = Cluster(place)
        cluster.ctl("put", "/bellwether/e/record", "not a record")
        code, _, err = suite.command("run", "--store", cluster.url(), "--election", "e", "--wait", "1s", "--", "true")
        assert code == 69 and "/bellwether/e/record" in err, (code, err)
        assert cluster.ctl("get", "--print-value-only", "/bellwether/e/record").stdout == "not a record\n"
        cluster.ctl("put", "f/someone", "\x01\x02\xff stranger")  # no lease: leads until the key is deleted
        seen = status(cluster.url(), "f")
        assert seen["leader"].endswith("stranger") and seen["leader"].isprintable(), seen


suite.main(at_once=3)
