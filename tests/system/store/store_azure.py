#!/usr/bin/env python3
"""The Azure store on Azurite, Microsoft's development storage: faults, strangers, credentials, hostile answers.

    store_azure.py BELLWETHER WITNESS CONFORMANCE [NAME...]

Azure's leases last 15 s at least: the tests that wait for their ends run beside each other, behind the first."""
import base64
import json
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "kit"))
import azure_rest as rest  # noqa: E402
from run_lib import lives, send, wait_for  # noqa: E402
from store_lib import Place, Server, Skip, Suite, free_ports, listens, program  # noqa: E402

VERSION = "3.35.0"
TTL = "15s"
TTL_S = 15.0
PUNCTUAL = {"kill_after": "2s"}
PATIENCE_S = 120.0  # nothing is judged by it
HERE = os.path.dirname(os.path.abspath(__file__))

suite = Suite()
begun = []  # tests that run beside the others


class Beside:
    """A test in a thread of its own."""

    def __init__(self, function):
        self.function, self.error = function, None
        self.thread = threading.Thread(target=self.run, daemon=True)

    def run(self):
        try:
            self.function()
        except BaseException as error:  # noqa: BLE001 raised again where the test is told
            self.error = error

    def told(self):
        if not self.thread.ident:
            self.thread.start()
        self.thread.join()
        if self.error:
            raise self.error


def beside(function):
    one = Beside(function)
    if suite.wants(function.__name__):
        begun.append(one)

    def told():
        one.told()
    told.__name__ = function.__name__
    suite.test(told)
    return function


def say(text):
    print("# " + text, flush=True)


def azurite(place, *options, name="azurite", port=None):
    done = subprocess.run([os.path.join(HERE, "..", "..", "npm.sh"), "azurite", VERSION], capture_output=True, text=True, check=False)
    if done.returncode:
        raise Skip(f"azurite is not here: {done.stdout.strip() or done.stderr.strip()}")
    port = port or free_ports()[0]
    words = [os.path.join(done.stdout.strip(), "azurite-blob"), "--blobHost", "127.0.0.1", "--blobPort", str(port),
             "--disableTelemetry", "--skipApiVersionCheck", "--silent", *options]
    if "--inMemoryPersistence" not in options:
        words += ["--location", place.folder(name)]
    return Server(place, name, words, port).start()


shared = {"lock": threading.Lock()}


def common():
    """The port of a server for all tests that do it no harm; each has a container of its own there."""
    with shared["lock"]:
        if "server" not in shared:
            shared["place"] = Place("azure")
            shared["server"] = azurite(shared["place"], "--inMemoryPersistence")
        return shared["server"].port


def url(port, path="elections", more="", scheme="http"):
    return f"azure://{rest.ACCOUNT}/{path}?endpoint={scheme}://127.0.0.1:{port}{more}"


def room(store, **more):
    return suite.room(store, ttl=TTL, retry="1s", **more)


def status(store, election="e", env=None):
    code, out, err = suite.answer("status", "--store", store, "--election", election, "--json", env=env)
    assert code in (0, 1), (code, out, err)
    return json.loads(out)


def fails(store, words, env=None, code=69):
    """`status` fails with this code and says all the words."""
    got, out, err = suite.answer("status", "--store", store, "--election", "e", "--timeout", "3s", env=env)
    assert got == code, (got, out, err)
    for word in words:
        assert word in err, (word, err)
    return err


# ---- the suite ----

MANY = "many_elections_are_held_at_once"  # as many as the server can within a lease: alone


@suite.test
def conformance_of_many_elections():
    suite.run_conformance("azure", url(common()), only=MANY)
    for one in begun:
        one.thread.start()
        time.sleep(0.3)  # not all at once


@beside
def conformance_of_the_store():
    suite.run_conformance("azure", url(common()), only="-" + MANY)


# ---- two candidates ----

@beside
def a_resigned_leadership_is_handed_over():
    store = url(common(), "resigned")
    with room(store) as meeting:
        first = meeting.candidate("ada")
        meeting.started(1, PATIENCE_S)
        meeting.candidate("ben").said("leader", PATIENCE_S)
        before = time.monotonic_ns()
        status(store)
        round_trip = time.monotonic_ns() - before
        code, out, err = suite.command("resign", "--store", store, "--election", "e", "--wait", "60s")
        assert code == 0, (code, out, err)
        start = meeting.started(2, PATIENCE_S)
        ended = [int(line[3]) for line in meeting.lines() if line[0] in ("end", "signal")][0]
        say(f"work told to end -> the other's started: {(int(start[3]) - ended) / 1e6:.0f} ms, looking every 0.5 to 1 s "
            f"(one `status`: {round_trip / 1e6:.0f} ms)")
        assert not first.leads()
        meeting.judge()


def kill_both(candidate):
    guardian = candidate.guardian()
    for pid in (candidate.pid, guardian):
        send(pid, signal.SIGKILL)


@beside
def a_killed_holder_is_followed_when_azure_ends_its_lease():
    with room(url(common(), "killed")) as meeting:
        first = meeting.candidate("ada")
        meeting.started(1, PATIENCE_S)
        meeting.candidate("ben").said("leader", PATIENCE_S)
        before = time.monotonic()
        kill_both(first)
        meeting.started(2, PATIENCE_S)
        say(f"followed {time.monotonic() - before:.1f} s after it was killed; TTL {TTL}")
        meeting.judge()


def guard(blob, token, data=b"x"):
    """Writes by the guard that `bellwether guard print azure` prints; its exit code."""
    code, text, err = suite.command("guard", "print", "azure")
    assert code == 0, err
    done = subprocess.run([sys.executable, "-", blob, str(token)], input=text.replace("sys.stdin.buffer.read()", repr(data)).encode(),
                          capture_output=True, timeout=60, check=False)
    assert done.returncode in (0, 77), done.stderr.decode()
    return done.returncode


@beside
def a_stopped_holder_is_followed_and_its_late_write_rejected():
    port = common()
    with room(url(port, "stopped")) as meeting:
        blob = f"http://127.0.0.1:{port}/{rest.ACCOUNT}/stopped/result?{rest.account_sas()}"
        first = meeting.candidate("ada")
        old = meeting.started(1, PATIENCE_S)[1]
        assert guard(blob, old) == 0
        meeting.candidate("ben").said("leader", PATIENCE_S)
        guardian = first.guardian()
        for pid in (first.pid, guardian):
            send(pid, signal.SIGSTOP)
        # The work itself is stopped too: a whole machine that slept.
        work = int(meeting.starts()[0][2])
        send(work, signal.SIGSTOP)

        def led_on():
            """a second leadership's token"""
            return any(line[0] in ("start", "overlap") and line[1] != old for line in meeting.lines())
        wait_for(led_on, PATIENCE_S, 0.05)
        new = [line[1] for line in meeting.lines() if line[1] != old][0]
        assert int(new) > int(old)
        assert guard(blob, new) == 0
        assert guard(blob, old) == 77, "the late write of a paused leader went through"
        assert guard(blob, new) == 0
        for pid in (work, guardian, first.pid):
            send(pid, signal.SIGCONT)
        wait_for(lambda: not lives(work), PATIENCE_S, 0.05)


# ---- the store fails ----

def steps_down_in_time(meeting, candidate, break_it, patience=PATIENCE_S):
    """The work is dead before Azure could give the lease to another. It ends at once but is given two seconds (PUNCTUAL): a machine may
    stand still for that long, and it is dead in time."""
    work = int(meeting.started(1, PATIENCE_S)[2])
    candidate.said("started", PATIENCE_S)
    break_it()
    before = time.monotonic()  # what is asked from now on renews nothing
    wait_for(lambda: not lives(work), patience, 0.01)
    spent = time.monotonic() - before
    assert spent < TTL_S, f"the work lived for {spent:.1f} s"
    return spent


@beside
def a_paused_server_ends_the_work_before_the_lease():
    with Place("azure") as place:
        server = azurite(place)
        with room(url(server.port), **PUNCTUAL) as meeting:
            first = meeting.candidate("ada")
            spent = steps_down_in_time(meeting, first, server.pause)
            say(f"server paused: the work was dead after {spent:.1f} s of {TTL_S} s")
            server.resume()
            meeting.started(2, PATIENCE_S)
            meeting.judge()


@beside
def a_server_that_answers_errors_for_a_whole_lease_ends_the_work():
    with Place("azure") as place:
        server = azurite(place)
        proxy = place.proxy(server.port)
        with room(url(proxy.port), **PUNCTUAL) as meeting:
            first = meeting.candidate("ada")
            broken = b"HTTP/1.1 503 Server Busy\r\nx-ms-error-code: ServerBusy\r\nContent-Length: 0\r\n\r\n"
            spent = steps_down_in_time(meeting, first, lambda: proxy.replace(lambda data: broken))
            say(f"503 for a whole lease: the work was dead after {spent:.1f} s of {TTL_S} s")
            proxy.heal()
            meeting.started(2, PATIENCE_S)
            meeting.judge()


@beside
def a_server_that_comes_back_with_its_data_gives_a_higher_token():
    with Place("azure") as place:
        server = azurite(place)
        with room(url(server.port)) as meeting:
            meeting.candidate("ada")
            meeting.started(1, PATIENCE_S)
            server.group(signal.SIGTERM)  # killed, it would forget what it has not written yet
            server.process.wait()
            server.start()

            def renewed():
                """Ada's renewal: until then a restarted Azurite takes every lease that it has read for one that is over"""
                return rest.call(server.port, "HEAD", "/elections/e")[1].get("x-ms-lease-state") == "leased"
            wait_for(renewed, PATIENCE_S, 0.1)
            meeting.candidate("ben").said("leader", PATIENCE_S)
            suite.resign(meeting, "--wait", "60s")
            meeting.started(2, PATIENCE_S)
            meeting.judge()


@beside
def a_server_that_forgot_everything_ends_the_work():
    with Place("azure") as place:
        server = azurite(place, "--inMemoryPersistence")
        with room(url(server.port)) as meeting:
            first = meeting.candidate("ada")
            work = int(meeting.started(1, PATIENCE_S)[2])
            server.restart()
            wait_for(lambda: not lives(work), PATIENCE_S, 0.02)
            assert first.said("step-down", PATIENCE_S)
            meeting.started(2, PATIENCE_S)  # with a token that began anew: see the docs
            assert not [line for line in meeting.lines() if line[0] == "overlap"]


@beside
def a_lost_answer_to_acquire_costs_a_lease_at_the_most():
    with Place("azure") as place:
        proxy = place.proxy(common())
        with room(url(proxy.port, "lost")) as meeting:
            with room(url(proxy.target, "lost")) as other:
                holder = other.candidate("zoe")
                other.started(1, PATIENCE_S)
                meeting.candidate("ada").said("leader", PATIENCE_S)
                proxy.delay(0.5)  # so that the cut falls between a request and its answer
                holder.signal(signal.SIGTERM)
                holder.wait(PATIENCE_S)
                for _ in range(4):
                    proxy.mute()
                    time.sleep(0.7)
                    proxy.heal()
                    time.sleep(0.2)
                meeting.started(1, PATIENCE_S)
                meeting.judge()


# ---- strangers ----

@beside
def a_blob_leased_by_plain_rest_is_waited_for():
    port = common()
    rest.make(port, "leases", "MyLeaderCoordinatorTask", kind="PageBlob")  # as the sample makes it
    lease = rest.lease(port, "/leases/MyLeaderCoordinatorTask", "acquire", seconds=60)
    assert lease
    store = url(port, "leases/MyLeaderCoordinatorTask")
    seen = status(store)
    assert seen["leader"] == "unknown", seen
    with room(store) as meeting:
        first = meeting.candidate("ada")
        first.said("leader", PATIENCE_S)
        assert rest.lease(port, "/leases/MyLeaderCoordinatorTask", "renew", lease)
        assert not meeting.starts()
        assert rest.lease(port, "/leases/MyLeaderCoordinatorTask", "release", lease)
        meeting.started(1, PATIENCE_S)
        # The reverse: while Bellwether leads, nobody else gets or keeps the lease.
        assert rest.lease(port, "/leases/MyLeaderCoordinatorTask", "acquire", seconds=15) is None
        assert rest.lease(port, "/leases/MyLeaderCoordinatorTask", "renew", lease) is None
        assert rest.call(port, "PUT", "/leases/MyLeaderCoordinatorTask", {"comp": "metadata"})[0] == 412
        assert status(store)["leader"] == "ada"
        first.signal(signal.SIGTERM)
        first.wait(PATIENCE_S)
        assert rest.lease(port, "/leases/MyLeaderCoordinatorTask", "acquire", seconds=15)
        meeting.judge()


@beside
def a_stranger_that_followed_a_killed_holder_is_waited_for():
    port = common()
    with room(url(port, "followed")) as meeting:
        first = meeting.candidate("ada")
        meeting.started(1, PATIENCE_S)
        kill_both(first)
        lease = wait_for(lambda: rest.lease(port, "/followed/e", "acquire", seconds=15), PATIENCE_S, 0.05)
        meeting.candidate("ben").said("leader", PATIENCE_S)
        assert len(meeting.starts()) == 1
        rest.lease(port, "/followed/e", "release", lease)
        meeting.started(2, PATIENCE_S)
        meeting.judge()


def looks_at_its_pace(lose, container):
    """A holder that lost its lease to a stranger waits as others wait: a few requests per retry interval (1 s), and its record names it
    as the leader no longer."""
    with Place("azure") as place:
        port, seen = common(), []
        proxy = place.proxy(port)
        with room(url(proxy.port, container)) as meeting:
            first = meeting.candidate("ada")
            work = int(meeting.started(1, PATIENCE_S)[2])
            lease = lose(port, first, work, f"/{container}/e")
            first.said("step-down", PATIENCE_S)
            wait_for(lambda: not lives(work), PATIENCE_S, 0.02)
            wait_for(lambda: status(url(port, container))["leader"] == "unknown", PATIENCE_S, 0.1)
            proxy.replace(lambda data: (seen.append((time.monotonic(), data.count(b"HTTP/1.1 "))), data)[1])
            time.sleep(4)
            spent, requests = time.monotonic() - seen[0][0], sum(count for _, count in seen)
            say(f"{requests} requests in {spent:.1f} s")
            assert requests <= 6 * (spent + 1), (requests, spent)  # two per look, a look in 0.5 to 1 s
            assert status(url(port, container))["leader"] == "unknown"
            assert rest.lease(port, f"/{container}/e", "release", lease)
            assert int(meeting.started(2, PATIENCE_S)[1]) > 1
            wait_for(lambda: status(url(port, container))["leader"] == "ada", PATIENCE_S, 0.1)


@beside
def a_holder_whose_lease_was_broken_waits_for_the_stranger_at_its_pace():
    def lose(port, first, work, path):
        headers = {"x-ms-lease-action": "break", "x-ms-lease-break-period": "0"}
        assert rest.call(port, "PUT", path, {"comp": "lease"}, headers)[0] == 202
        return rest.lease(port, path, "acquire", seconds=60)
    looks_at_its_pace(lose, "was-broken")


@beside
def a_holder_that_was_stopped_past_its_ttl_waits_for_the_stranger_at_its_pace():
    def lose(port, first, work, path):
        stopped = [first.pid, first.guardian(), work]
        for pid in stopped:
            send(pid, signal.SIGSTOP)
        lease = wait_for(lambda: rest.lease(port, path, "acquire", seconds=60), PATIENCE_S, 0.05)
        for pid in reversed(stopped):
            send(pid, signal.SIGCONT)
        return lease
    looks_at_its_pace(lose, "was-stopped")


@suite.test
def a_blob_with_anothers_content_is_refused():
    with Place("azure") as place:
        port = azurite(place).port
        rest.make(port, "elections", "e", b"somebody's data")
        err = fails(url(port), ["e holds something of somebody else's", "name another container or election"])
        assert "data" not in err
        code, _, err = suite.command("run", "--store", url(port), "--election", "e", "--log", "json", "-w", "2s", "--", "true")
        assert code == 69 and "the store answers, but cannot be used (blob e holds something" in err, (code, err)
        assert "does not answer" not in err, err
        assert rest.call(port, "HEAD", "/elections/e")[1]["content-length"] == "15"
        rest.make(port, "others", "e")
        assert rest.call(port, "PUT", "/others/e", {"comp": "metadata"}, {"x-ms-meta-owner": "me"})[0] == 200
        fails(url(port, "others"), ["e holds something of somebody else's"])
        rest.make(port, "broken", "e")
        assert rest.call(port, "PUT", "/broken/e", {"comp": "metadata"}, {"x-ms-meta-bellwether": "[1]"})[0] == 200
        fails(url(port, "broken"), ["not a record of an election"])


@beside
def the_default_ttl_is_the_shortest_that_azure_grants_and_observe_finds_the_leader_well():
    store = url(common(), "defaults")
    with suite.room(store, ttl=None) as meeting:
        first = meeting.candidate("ada")
        meeting.started(1, PATIENCE_S)
        seen = status(store)
        assert seen["leader"] == "ada" and seen["ttl_ms"] == 15000, seen
        watcher = subprocess.Popen([suite.bellwether, "observe", "--store", store, "--election", "e"], stdout=subprocess.PIPE, text=True)
        try:
            time.sleep(TTL_S * 1.4)  # renewed meanwhile
            assert first.leads()
        finally:
            watcher.terminate()
        told = watcher.communicate(timeout=PATIENCE_S)[0]
        assert "found" in told and "silent" not in told, told
        meeting.judge()


@suite.test
def one_blob_serves_one_election():
    with Place("azure") as place:
        store_port = azurite(place).port
        store = url(store_port, "leases/task")
        code, out, err = suite.command("store", "check", store)
        assert code == 0, (code, out, err)
        assert "Azurite" in out, out
        for name, code in (("a_free_leadership_is_acquired", 0), ("elections_do_not_touch_each_other", 1)):
            done = subprocess.run([suite.conformance, url(store_port, f"leases/{name}"), name], capture_output=True, text=True,
                                  timeout=600, check=False)
            assert done.returncode == code, (name, done.stdout, done.stderr)


@suite.test
def the_development_storage_needs_no_settings():
    if listens(10000):
        raise Skip("port 10000 is somebody else's")
    with Place("azure") as place:
        azurite(place, port=10000)
        store = "azure://devstoreaccount1/leases/MyLeaderCoordinatorTask"
        with room(store) as meeting:
            meeting.candidate("ada")
            meeting.started(1, PATIENCE_S)
            assert status(store)["leader"] == "ada"
            meeting.judge()


# ---- credentials ----

def certificate(place):
    words = [program("openssl", "openssl"), "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
             "-keyout", "key.pem", "-out", "cert.pem", "-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1",
             "-days", "2"]
    subprocess.run(words, cwd=place.dir, check=True, capture_output=True, timeout=60)
    return os.path.join(place.dir, "cert.pem"), os.path.join(place.dir, "key.pem")


class Identity:
    """The endpoint of a managed identity: gives tokens as Azurite's basic check wants them."""

    def __init__(self):
        self.asked, self.refuses = [], False
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.port = self.socket.getsockname()[1]
        self.token = ".".join(self.part(p) for p in (
            {"alg": "none", "typ": "JWT"},
            {"aud": "https://storage.azure.com", "iss": "https://sts.windows.net/x/", "nbf": 0, "iat": 0, "exp": 4102444800, "ver": "1.0"},
            "s"))
        threading.Thread(target=self.serve, daemon=True).start()

    @staticmethod
    def part(value):
        return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")

    def serve(self):
        while True:
            connection, _ = self.socket.accept()
            with connection:
                head = connection.recv(65536).decode()
                self.asked.append(head)
                body = json.dumps({"access_token": self.token, "expires_in": "3599", "token_type": "Bearer"})
                line = "400 Bad Request" if self.refuses else "200 OK"
                connection.sendall(f"HTTP/1.1 {line}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n{body}".encode())


@suite.test
def a_managed_identity_opens_the_store_over_tls():
    with Place("azure") as place:
        cert, key = certificate(place)
        server = azurite(place, "--oauth", "basic", "--cert", cert, "--key", key)
        identity = Identity()
        ask = f"&auth=identity&identity-endpoint=http://127.0.0.1:{identity.port}/token&client-id=12-ab"
        store = url(server.port, more=f"{ask}&ca-file={cert}", scheme="https")
        with room(store) as meeting:
            meeting.candidate("ada")
            meeting.started(1, PATIENCE_S)
            meeting.judge()
        assert "Metadata: true" in identity.asked[0] and "client_id=12-ab" in identity.asked[0], identity.asked[0]
        fails(url(server.port, more=ask, scheme="https"), ["Azure:", "certificate"])
        identity.refuses = True
        fails(store, ["managed identity"])


@suite.test
def secrets_come_from_files_and_the_environment_and_are_shown_to_nobody():
    with Place("azure") as place:
        port = azurite(place).port
        sas = rest.account_sas()
        signature = sas.split("sig=")[1][:20]
        wrong = base64.b64encode(b"w" * 64).decode()
        plain = url(port)
        ways = [(url(port, more="&key-file=" + place.file("key", rest.KEY + "\n", 0o600)), {}),
                (url(port, more="&sas-file=" + place.file("sas", "?" + sas + "\n", 0o600)), {}),
                (plain, {"AZURE_STORAGE_KEY": rest.KEY}), (plain, {"AZURE_STORAGE_SAS_TOKEN": sas}),
                (f"azure://{rest.ACCOUNT}/elections", {"AZURE_STORAGE_CONNECTION_STRING":
                    f"DefaultEndpointsProtocol=http;AccountName={rest.ACCOUNT};AccountKey={rest.KEY};"
                    f"BlobEndpoint=http://127.0.0.1:{port}/{rest.ACCOUNT};"})]
        said = []
        for store, env in ways:
            code, out, err = suite.command("store", "check", store, env=env)
            assert code == 0, (store, code, err)
            said += [out, err]
        said.append(fails(plain, ["Azure denies it: 403"], {"AZURE_STORAGE_KEY": wrong}))
        said.append(fails(plain, ["Azure denies it: 403"], {"AZURE_STORAGE_SAS_TOKEN": sas.replace(signature, "x" * 20)}))
        said.append(fails(plain, ["AZURE_STORAGE_KEY"], {"AZURE_STORAGE_KEY": "no-base64!"}, 64))
        said.append(fails(plain, ["another account"], {"AZURE_STORAGE_CONNECTION_STRING": "AccountName=other;AccountKey=" + wrong}, 64))
        said.append(fails(url(port, more="&sas-file=" + place.file("bad", "nothing", 0o600)), ["sas-file"], code=64))
        for text in said:
            for secret in (rest.KEY[:20], signature, wrong[:20], "no-base64", "nothing"):
                assert secret not in text, text


# ---- bad input ----

@suite.test
def bad_urls_and_leases_are_refused_with_a_line():
    bad = {"azure://": "ACCOUNT", "azure://acc": "container", "azure://Acc/abc": "account", "azure://acc:80/abc": "account",
           "azure://acc/ab": "container", "azure://acc/abc/x.": "ends neither", "azure://acc/abc?endpoint=ftp://x": "https://HOST",
           "azure://acc/abc?endpoint=http://example.org": "this machine only", "azure://acc/abc?auth=none": "'identity'",
           "azure://acc/abc?key-fil=x": "did you mean 'key-file'", "azure://acc/abc?key-file=/no/such": "cannot read",
           "azure://acc/abc?endpoint=https://a@b": "https://HOST"}
    for store, word in bad.items():
        fails(store, [word], code=64)
    for ttl in ("14s", "61s", "10m"):
        code, _, err = suite.command("run", "--store", "azure://devstoreaccount1/abc", "--election", "e", "--ttl", ttl, "--", "true")
        assert code == 64 and "last 15s to 60s" in err, (ttl, code, err)


def hostile(answer):
    """A server that says this to everybody; its port."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve():
        while True:
            connection, _ = listener.accept()
            threading.Thread(target=say_it, args=(connection,), daemon=True).start()

    def say_it(connection):
        with connection:
            try:
                connection.recv(65536)
                for part in answer():
                    connection.sendall(part)
            except OSError:
                pass
    threading.Thread(target=serve, daemon=True).start()
    return listener.getsockname()[1]


def long_headers():
    yield b"HTTP/1.1 200 OK\r\n"
    for i in range(30 * 1024):
        yield b"x-ms-meta-%d: %s\r\n" % (i, b"y" * 1000)
    yield b"\r\n"


def head(*fields):
    return lambda: [b"HTTP/1.1 200 OK\r\n" + b"".join(f + b"\r\n" for f in fields) + b"\r\n"]


@suite.test
def hostile_answers_are_clear_errors():
    etag, state, empty = b'ETag: "1"', b"x-ms-lease-state: leased", b"Content-Length: 0"
    good = random.Random(7)
    answers = {"headers": (long_headers, "too long"),
               "garbage": (lambda: [good.randbytes(4096)], "Azure:"),
               "nothing": (lambda: [], "Azure:"),
               "no etag": (head(state, empty), "not a record"),
               "no state": (head(etag, empty), "not a record"),
               "odd state": (head(etag, b"x-ms-lease-state: odd", empty), "not a record"),
               "long etag": (head(b"ETag: " + b"e" * 4000, state, empty), "not a record"),
               "bad metadata": (head(etag, state, empty, b"x-ms-meta-bellwether: %GG"), "not a record"),
               "bad record": (head(etag, state, empty, b'x-ms-meta-bellwether: {"token":-1}'), "not a record"),
               "long record": (head(etag, state, empty, b'x-ms-meta-bellwether: {"holder":"' + b"h" * 9000 + b'"}'), "not a record"),
               "status": (lambda: [b"HTTP/1.1 999 Odd\r\nx-ms-error-code: Odd\r\nContent-Length: 0\r\n\r\n"], "Azure answers 999 Odd")}
    with ThreadPoolExecutor(4) as pool:  # each is asked again until the time is over
        for err in pool.map(lambda each: fails(url(hostile(each[0])), [each[1]]), answers.values()):
            assert len(err) < 600, err


def main():
    try:
        suite.lanes["conformance_of_the_store"] = "conformance"  # it waits for leases that end
        suite.main(at_once=3)
    finally:
        if "place" in shared:
            shared["place"].__exit__()


main()
