#!/usr/bin/env python3
"""The Azure store on Azurite, Microsoft's development storage: faults, foreign clients, credentials, hostile answers.

    store_azure.py BELLWETHER WITNESS CONFORMANCE [NAME...]

Azure's leases last at least 15 s. Tests that wait for a lease to expire run in parallel, after the first test."""
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
import stall  # noqa: E402
from run_lib import lives, send, wait_for  # noqa: E402
from store_lib import Place, Server, Skip, Suite, free_ports, listens, program  # noqa: E402

TTL = "15s"
TTL_S = 15.0
PUNCTUAL = {"kill_after": "2s"}
TIMEOUT_S = 120.0  # timeout of a hung test; no test asserts on it

suite = Suite()
begun = []  # tests that run in parallel


class Parallel:
    """A test in its own thread."""

    def __init__(self, function):
        self.function, self.error = function, None
        self.thread = threading.Thread(target=self.run, daemon=True)

    def run(self):
        try:
            self.function()
        except BaseException as error:  # noqa: BLE001 raised again when the result is read
            self.error = error

    def result(self):
        if not self.thread.ident:
            self.thread.start()
        self.thread.join()
        if self.error:
            raise self.error


def parallel(function):
    one = Parallel(function)
    if suite.wants(function.__name__):
        begun.append(one)

    def wait_for_result():
        one.result()
    wait_for_result.__name__ = function.__name__
    suite.test(wait_for_result)
    return function


def say(text):
    print("# " + text, flush=True)


def azurite(place, *options, name="azurite", port=None):
    port = port or free_ports()[0]
    words = rest.server_words(port, *options)
    if "--inMemoryPersistence" not in options:
        words += ["--location", place.folder(name)]
    return Server(place, name, words, port).start()


shared = {"lock": threading.Lock()}


def common():
    """The port of a shared server for tests that do not harm it. Each test uses its own container."""
    with shared["lock"]:
        if "server" not in shared:
            shared["place"] = Place("azure")
            shared["server"] = azurite(shared["place"], "--inMemoryPersistence")
        return shared["server"].port


def url(port, path="elections", more="", scheme="http"):
    return f"azure://{rest.ACCOUNT}/{path}?endpoint={scheme}://127.0.0.1:{port}{more}"


def room(store, **more):
    return suite.room(store, ttl=TTL, retry="1s", **more)


def judged(action, seconds):
    """Judges an action on the shared server, unless the machine stalled or the server waited for a CPU."""
    common()
    return stall.judge(action, seconds, pids=[shared["server"].process.pid])


def status(store, election="e", env=None):
    def ask(_):
        code, out, err = suite.answer("status", "--store", store, "--election", election, "--json", env=env)
        assert code in (0, 1), (code, out, err)
        return json.loads(out)
    return judged(ask, 1.0)


def fails(store, words, env=None, code=69):
    """Asserts that `status` fails with this code and prints all the words."""
    got, out, err = suite.answer("status", "--store", store, "--election", "e", "--timeout", "3s", env=env)
    assert got == code, (got, out, err)
    for word in words:
        assert word in err, (word, err)
    return err


# ---- the suite ----

MANY = "one_client_holds_many_elections"  # as many as the server can handle within a lease, so it runs alone


@suite.test
def conformance_of_many_elections():
    suite.run_conformance("azure", url(common()), only=MANY)
    for one in begun:
        one.thread.start()
        time.sleep(0.3)  # spreads the starts


@parallel
def conformance_of_the_store():
    suite.run_conformance("azure", url(common()), only="-" + MANY)


# ---- two candidates ----

@parallel
def a_resigned_leadership_is_handed_over():
    # ben polls: if the server gives him no answer for some seconds, ada may lead again
    judged(lambda number: resign_and_follow(url(common(), f"resigned-{number}")), 0.5)


def resign_and_follow(store):
    with room(store) as meeting:
        first = meeting.candidate("ada")
        meeting.started(1, TIMEOUT_S)
        meeting.candidate("ben").said("leader", TIMEOUT_S)
        before = time.monotonic_ns()
        status(store)
        round_trip = time.monotonic_ns() - before
        code, out, err = suite.command("resign", "--store", store, "--election", "e", "--wait", "60s")
        assert code == 0, (code, out, err)
        start = meeting.started(2, TIMEOUT_S)
        ended = [int(line[3]) for line in meeting.lines() if line[0] in ("end", "signal")][0]
        say(f"work asked to stop -> the next work started: {(int(start[3]) - ended) / 1e6:.0f} ms, polling every 0.5 to 1 s "
            f"(one `status`: {round_trip / 1e6:.0f} ms)")
        assert str(first.events("started")[-1]["token"]) != start[1], "the successor is another candidate"
        meeting.judge()


def kill_both(candidate):
    guardian = candidate.guardian()
    for pid in (candidate.pid, guardian):
        send(pid, signal.SIGKILL)


@parallel
def a_killed_holder_is_followed_when_azure_ends_its_lease():
    with room(url(common(), "killed")) as meeting:
        first = meeting.candidate("ada")
        meeting.started(1, TIMEOUT_S)
        meeting.candidate("ben").said("leader", TIMEOUT_S)
        before = time.monotonic()
        kill_both(first)
        meeting.started(2, TIMEOUT_S)
        say(f"followed {time.monotonic() - before:.1f} s after it was killed; TTL {TTL}")
        meeting.judge()


def guard(blob, token, data=b"x"):
    """Writes through the guard that `bellwether guard print azure` prints. Returns its exit code."""
    code, text, err = suite.command("guard", "print", "azure")
    assert code == 0, err
    done = subprocess.run([sys.executable, "-", blob, str(token)], input=text.replace("sys.stdin.buffer.read()", repr(data)).encode(),
                          capture_output=True, timeout=60, check=False)
    assert done.returncode in (0, 77), done.stderr.decode()
    return done.returncode


@parallel
def a_stopped_holder_is_followed_and_its_late_write_rejected():
    port = common()
    with room(url(port, "stopped")) as meeting:
        blob = f"http://127.0.0.1:{port}/{rest.ACCOUNT}/stopped/result?{rest.account_sas()}"
        first = meeting.candidate("ada")
        old = meeting.started(1, TIMEOUT_S)[1]
        assert guard(blob, old) == 0
        meeting.candidate("ben").said("leader", TIMEOUT_S)
        guardian = first.guardian()
        for pid in (first.pid, guardian):
            send(pid, signal.SIGSTOP)
        # The work is stopped too, as if the whole machine slept.
        work = int(meeting.starts()[0][2])
        send(work, signal.SIGSTOP)

        def led_on():
            """a second leadership's token"""
            return any(line[0] in ("start", "overlap") and line[1] != old for line in meeting.lines())
        wait_for(led_on, TIMEOUT_S, 0.05)
        new = [line[1] for line in meeting.lines() if line[1] != old][0]
        assert int(new) > int(old)
        assert guard(blob, new) == 0
        assert guard(blob, old) == 77, "the late write of a paused leader went through"
        assert guard(blob, new) == 0
        for pid in (work, guardian, first.pid):
            send(pid, signal.SIGCONT)
        wait_for(lambda: not lives(work), TIMEOUT_S, 0.05)


# ---- the store fails ----

def steps_down_in_time(meeting, candidate, break_it, timeout=TIMEOUT_S):
    """The work is dead before Azure could grant the lease to another client. The work ends at once but has two seconds to do so
    (PUNCTUAL). A machine that stalls delays the end."""
    work = int(meeting.started(1, TIMEOUT_S)[2])
    candidate.said("started", TIMEOUT_S)
    break_it()
    watch = stall.Watch([candidate.pid, candidate.guardian()])
    before = time.monotonic()  # requests sent from now on renew nothing
    wait_for(lambda: not lives(work), timeout, 0.01)
    spent = time.monotonic() - before
    assert spent < TTL_S + watch.longest(), f"the work lived for {spent:.1f} s"
    return spent


@parallel
def a_paused_server_ends_the_work_before_the_lease():
    with Place("azure") as place:
        server = azurite(place)
        with room(url(server.port), **PUNCTUAL) as meeting:
            first = meeting.candidate("ada")
            spent = steps_down_in_time(meeting, first, server.pause)
            say(f"server paused: the work was dead after {spent:.1f} s of {TTL_S} s")
            server.resume()
            meeting.started(2, TIMEOUT_S)
            meeting.judge()


@parallel
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
            meeting.started(2, TIMEOUT_S)
            meeting.judge()


@parallel
def a_server_that_comes_back_with_its_data_gives_a_higher_token():
    with Place("azure") as place:
        server = azurite(place)
        with room(url(server.port)) as meeting:
            meeting.candidate("ada")
            meeting.started(1, TIMEOUT_S)
            server.group(signal.SIGTERM)  # SIGKILL would lose unwritten data
            server.process.wait()
            server.start()

            def renewed():
                """ada's renewal; before it, a restarted Azurite treats every stored lease as expired"""
                return rest.call(server.port, "HEAD", "/elections/e")[1].get("x-ms-lease-state") == "leased"
            wait_for(renewed, TIMEOUT_S, 0.1)
            meeting.candidate("ben").said("leader", TIMEOUT_S)
            suite.resign(meeting, "--wait", "60s")
            meeting.started(2, TIMEOUT_S)
            meeting.judge()


@parallel
def server_that_lost_all_data_ends_the_work():
    with Place("azure") as place:
        server = azurite(place, "--inMemoryPersistence")
        with room(url(server.port)) as meeting:
            first = meeting.candidate("ada")
            work = int(meeting.started(1, TIMEOUT_S)[2])
            server.restart()
            wait_for(lambda: not lives(work), TIMEOUT_S, 0.02)
            assert first.said("step-down", TIMEOUT_S)
            meeting.started(2, TIMEOUT_S)  # with a token that restarted: see the docs
            stall.judge_overlaps(meeting.lines())


@parallel
def lost_reply_to_acquire_costs_at_most_one_lease():
    with Place("azure") as place:
        proxy = place.proxy(common())
        with room(url(proxy.port, "lost")) as meeting:
            with room(url(proxy.target, "lost")) as other:
                holder = other.candidate("zoe")
                other.started(1, TIMEOUT_S)
                meeting.candidate("ada").said("leader", TIMEOUT_S)
                proxy.delay(0.5)  # so that the cut falls between a request and its answer
                holder.signal(signal.SIGTERM)
                holder.wait(TIMEOUT_S)
                for _ in range(4):
                    proxy.mute()
                    time.sleep(0.7)
                    proxy.heal()
                    time.sleep(0.2)
                meeting.started(1, TIMEOUT_S)
                meeting.judge()


# ---- foreign clients ----

@parallel
def candidate_waits_for_a_blob_leased_by_a_foreign_client():
    port = common()
    rest.make(port, "leases", "MyLeaderCoordinatorTask", kind="PageBlob")  # as the sample creates it
    lease = rest.lease(port, "/leases/MyLeaderCoordinatorTask", "acquire", seconds=60)
    assert lease
    store = url(port, "leases/MyLeaderCoordinatorTask")
    seen = status(store)
    assert seen["leader"] == "unknown", seen
    with room(store) as meeting:
        first = meeting.candidate("ada")
        first.said("leader", TIMEOUT_S)
        assert rest.lease(port, "/leases/MyLeaderCoordinatorTask", "renew", lease)
        assert not meeting.starts()
        assert rest.lease(port, "/leases/MyLeaderCoordinatorTask", "release", lease)
        meeting.started(1, TIMEOUT_S)
        # The reverse: while Bellwether leads, no other client gets or keeps the lease.
        assert rest.lease(port, "/leases/MyLeaderCoordinatorTask", "acquire", seconds=15) is None
        assert rest.lease(port, "/leases/MyLeaderCoordinatorTask", "renew", lease) is None
        assert rest.call(port, "PUT", "/leases/MyLeaderCoordinatorTask", {"comp": "metadata"})[0] == 412
        assert status(store)["leader"] == "ada"
        first.signal(signal.SIGTERM)
        first.wait(TIMEOUT_S)
        assert rest.lease(port, "/leases/MyLeaderCoordinatorTask", "acquire", seconds=15)
        meeting.judge()


@parallel
def candidate_waits_for_a_foreign_client_that_replaced_a_killed_holder():
    port = common()
    with room(url(port, "followed")) as meeting:
        first = meeting.candidate("ada")
        meeting.started(1, TIMEOUT_S)
        kill_both(first)
        lease = wait_for(lambda: rest.lease(port, "/followed/e", "acquire", seconds=15), TIMEOUT_S, 0.05)
        meeting.candidate("ben").said("leader", TIMEOUT_S)
        assert len(meeting.starts()) == 1
        rest.lease(port, "/followed/e", "release", lease)
        meeting.started(2, TIMEOUT_S)
        meeting.judge()


@parallel
def status_lists_the_elections_of_the_container():
    port = common()
    with room(url(port, "listed")) as meeting:
        assert suite.elections_of(meeting.store) == {}, "there is no container"
        suite.status_lists_two_elections(meeting.store, meeting, candidates=False)
        meeting.election = "50% done\\."  # three characters that a blob's name escapes
        assert meeting.candidate("third", command=["true"]).wait(TIMEOUT_S) == 0
        for name in ("theirs", "zz", "a/b", "x" * 200, "theirs%note", "%zz"):
            rest.make(port, "listed", name)
        assert rest.lease(port, "/listed/theirs", "acquire", seconds=60)
        for number in range(150):  # more than two pages
            rest.make(port, "listed", f"data-{number:03}", b"x")
        status, answer = rest.call(port, "PUT", "/listed/other", None, {"x-ms-blob-type": "BlockBlob", "x-ms-meta-color": "red"})
        assert status == 201, (status, answer)
        found = suite.elections_of(meeting.store)
        assert sorted(found) == ["50% done\\.", "led", "left", "theirs", "zz"], sorted(found)
        assert found["theirs"]["leader"] == "unknown" and found["led"]["leader"] == "second", found
        # a URL that names a blob has one election
        assert list(suite.elections_of(url(port, "listed/zz"))) == ["zz"] and suite.elections_of(url(port, "listed/nothing")) == {}
        meeting.judge()


@parallel
def status_names_the_right_that_a_list_needs():
    port = common()
    rest.make(port, "unlisted", "e")
    env = {"AZURE_STORAGE_SAS_TOKEN": rest.account_sas("rwcl")}
    assert list(suite.elections_of(url(port, "unlisted"), env=env)) == ["e"]
    env = {"AZURE_STORAGE_SAS_TOKEN": rest.account_sas("rwc")}
    # the timeout is longer than the test's own, so an answer means that the command did not try again
    code, out, err = suite.command("status", "--store", url(port, "unlisted"), "--timeout", "1h", env=env)
    assert code == 69 and "give the right list (l) on the container, or --election NAME" in err and not out, (code, out, err)
    status(url(port, "unlisted"), env=env)  # one election needs no such right


def looks_at_its_pace(lose, container):
    """A holder that lost its lease to a foreign client polls like other candidates, with a few requests per retry interval (1 s).
    Its record no longer names it as the leader."""
    with Place("azure") as place:
        port, seen = common(), []
        proxy = place.proxy(port)
        with room(url(proxy.port, container)) as meeting:
            first = meeting.candidate("ada")
            work = int(meeting.started(1, TIMEOUT_S)[2])
            lease = lose(port, first, work, f"/{container}/e")
            first.said("step-down", TIMEOUT_S)
            wait_for(lambda: not lives(work), TIMEOUT_S, 0.02)
            wait_for(lambda: status(url(port, container))["leader"] == "unknown", TIMEOUT_S, 0.1)
            proxy.replace(lambda data: (seen.append((time.monotonic(), data.count(b"HTTP/1.1 "))), data)[1])
            time.sleep(4)
            spent, requests = time.monotonic() - seen[0][0], sum(count for _, count in seen)
            say(f"{requests} requests in {spent:.1f} s")
            assert requests <= 6 * (spent + 1), (requests, spent)  # two requests per poll, one poll per 0.5 to 1 s
            assert status(url(port, container))["leader"] == "unknown"
            assert rest.lease(port, f"/{container}/e", "release", lease)
            assert int(meeting.started(2, TIMEOUT_S)[1]) > 1
            wait_for(lambda: status(url(port, container))["leader"] == "ada", TIMEOUT_S, 0.1)


@parallel
def holder_with_a_broken_lease_polls_at_the_retry_interval():
    def lose(port, first, work, path):
        headers = {"x-ms-lease-action": "break", "x-ms-lease-break-period": "0"}
        assert rest.call(port, "PUT", path, {"comp": "lease"}, headers)[0] == 202
        return rest.lease(port, path, "acquire", seconds=60)
    looks_at_its_pace(lose, "was-broken")


@parallel
def holder_stopped_past_its_ttl_polls_at_the_retry_interval():
    def lose(port, first, work, path):
        stopped = [first.pid, first.guardian(), work]
        for pid in stopped:
            send(pid, signal.SIGSTOP)
        lease = wait_for(lambda: rest.lease(port, path, "acquire", seconds=60), TIMEOUT_S, 0.05)
        for pid in reversed(stopped):
            send(pid, signal.SIGCONT)
        return lease
    looks_at_its_pace(lose, "was-stopped")


@suite.test
def blob_with_foreign_content_is_rejected():
    with Place("azure") as place:
        port = azurite(place).port
        rest.make(port, "elections", "e", b"private content")
        err = fails(url(port), ["e was not created by Bellwether", "choose another container or election"])
        assert "private" not in err
        code, _, err = suite.command("run", "--store", url(port), "--election", "e", "--log", "json", "-w", "2s", "--", "true")
        assert code == 69 and "the store answers, but cannot be used (blob e was not created by Bellwether" in err, (code, err)
        assert "no response" not in err, err
        assert rest.call(port, "HEAD", "/elections/e")[1]["content-length"] == "15"
        rest.make(port, "others", "e")
        assert rest.call(port, "PUT", "/others/e", {"comp": "metadata"}, {"x-ms-meta-owner": "me"})[0] == 200
        fails(url(port, "others"), ["e was not created by Bellwether"])
        rest.make(port, "broken", "e")
        assert rest.call(port, "PUT", "/broken/e", {"comp": "metadata"}, {"x-ms-meta-bellwether": "[1]"})[0] == 200
        fails(url(port, "broken"), ["not a record of an election"])


@parallel
def default_ttl_is_azures_minimum_and_observe_reports_the_leader_healthy():
    store = url(common(), "defaults")
    with suite.room(store, ttl=None) as meeting:
        first = meeting.candidate("ada")
        meeting.started(1, TIMEOUT_S)
        seen = status(store)
        assert seen["leader"] == "ada" and seen["ttl_ms"] == 15000, seen
        watcher = subprocess.Popen([suite.bellwether, "observe", "--store", store, "--election", "e"], stdout=subprocess.PIPE, text=True)
        try:
            time.sleep(TTL_S * 1.4)  # renewed meanwhile
            assert first.leads()
        finally:
            watcher.terminate()
        shown = watcher.communicate(timeout=TIMEOUT_S)[0]
        assert "found" in shown and "silent" not in shown, shown
        meeting.judge()


@suite.test
def one_blob_serves_one_election():
    with Place("azure") as place:
        store_port = azurite(place).port
        store = url(store_port, "leases/task")
        code, out, err = suite.command("store", "check", store)
        assert code == 0, (code, out, err)
        assert "Azurite" in out, out
        for name, code in (("acquire_succeeds_when_record_is_free", 0), ("elections_do_not_touch_each_other", 1)):
            done = subprocess.run([suite.conformance, url(store_port, f"leases/{name}"), name], capture_output=True, text=True,
                                  timeout=600, check=False)
            assert done.returncode == code, (name, done.stdout, done.stderr)


@suite.test
def the_development_storage_needs_no_settings():
    if listens(10000):
        raise Skip("port 10000 is in use")
    with Place("azure") as place:
        azurite(place, port=10000)
        store = "azure://devstoreaccount1/leases/MyLeaderCoordinatorTask"
        with room(store) as meeting:
            meeting.candidate("ada")
            meeting.started(1, TIMEOUT_S)
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
    """The endpoint of a managed identity: issues tokens that Azurite's basic check accepts."""

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
            meeting.started(1, TIMEOUT_S)
            meeting.judge()
        assert "Metadata: true" in identity.asked[0] and "client_id=12-ab" in identity.asked[0], identity.asked[0]
        fails(url(server.port, more=ask, scheme="https"), ["Azure:", "certificate"])
        identity.refuses = True
        fails(store, ["managed identity"])


@suite.test
def secrets_come_from_files_and_environment_and_no_output_contains_them():
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
        outputs = []
        for store, env in ways:
            code, out, err = suite.command("store", "check", store, env=env)
            assert code == 0, (store, code, err)
            outputs += [out, err]
        outputs.append(fails(plain, ["Azure denied access: HTTP 403"], {"AZURE_STORAGE_KEY": wrong}))
        outputs.append(fails(plain, ["Azure denied access: HTTP 403"], {"AZURE_STORAGE_SAS_TOKEN": sas.replace(signature, "x" * 20)}))
        outputs.append(fails(plain, ["AZURE_STORAGE_KEY"], {"AZURE_STORAGE_KEY": "no-base64!"}, 64))
        outputs.append(fails(plain, ["another account"], {"AZURE_STORAGE_CONNECTION_STRING": "AccountName=other;AccountKey=" + wrong}, 64))
        outputs.append(fails(url(port, more="&sas-file=" + place.file("bad", "nothing", 0o600)), ["sas-file"], code=64))
        for text in outputs:
            for secret in (rest.KEY[:20], signature, wrong[:20], "no-base64", "nothing"):
                assert secret not in text, text


# ---- bad input ----

@suite.test
def invalid_urls_and_leases_are_rejected_with_a_reason():
    bad = {"azure://": "ACCOUNT", "azure://acc": "container", "azure://Acc/abc": "account", "azure://acc:80/abc": "account",
           "azure://acc/ab": "container", "azure://acc/abc/x.": "must not end in", "azure://acc/abc?endpoint=ftp://x": "https://HOST",
           "azure://acc/abc?endpoint=http://example.org": "this machine only", "azure://acc/abc?auth=none": "'identity'",
           "azure://acc/abc?key-fil=x": "did you mean 'key-file'", "azure://acc/abc?key-file=/no/such": "cannot read",
           "azure://acc/abc?endpoint=https://a@b": "https://HOST"}
    for store, word in bad.items():
        fails(store, [word], code=64)
    for ttl in ("14s", "61s", "10m"):
        code, _, err = suite.command("run", "--store", "azure://devstoreaccount1/abc", "--election", "e", "--ttl", ttl, "--", "true")
        assert code == 64 and "supports leases from 15s to 1m" in err, (ttl, code, err)


def hostile(answer):
    """Starts a server that sends this to every client. Returns its port."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve():
        while True:
            connection, _ = listener.accept()
            threading.Thread(target=send_answer, args=(connection,), daemon=True).start()

    def send_answer(connection):
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
               "status": (lambda: [b"HTTP/1.1 999 Odd\r\nx-ms-error-code: Odd\r\nContent-Length: 0\r\n\r\n"], "Azure returned HTTP 999 Odd")}
    with ThreadPoolExecutor(4) as pool:  # each command retries until its timeout
        for err in pool.map(lambda each: fails(url(hostile(each[0])), [each[1]]), answers.values()):
            assert len(err) < 600, err


def main():
    try:
        suite.lanes["conformance_of_the_store"] = "conformance"  # it waits for leases to expire
        suite.main(at_once=3)
    finally:
        if "place" in shared:
            shared["place"].__exit__()


main()
