#!/usr/bin/env python3
"""The DynamoDB store on dynalite: faults, AWS's lock client, credentials, signatures, hostile answers.

    store_dynamodb.py BELLWETHER WITNESS CONFORMANCE [NAME...]"""
import json
import os
import random
import re
import signal
import socket
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "kit"))
import dynamodb_lib as aws  # noqa: E402
import stall  # noqa: E402
from run_lib import lives, send, wait_for  # noqa: E402
from store_lib import Place, Server, Suite, free_ports  # noqa: E402

TABLE = "locks"
TTL_S = 3.0
PUNCTUAL = {"kill_after": "1s"}
TIMEOUT_S = 60.0  # timeout of a hung test; no test asserts on it
ID, SECRET = "AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"

suite = Suite()
for name in [n for n in os.environ if n.startswith("AWS_")]:
    del os.environ[name]
USER_HOME = os.environ.get("HOME", "")
os.environ["HOME"] = "/nonexistent"  # so that the user's own keys are not used
KEYS = {"AWS_ACCESS_KEY_ID": ID, "AWS_SECRET_ACCESS_KEY": SECRET}

def say(text):
    print("# " + text, flush=True)


def dynalite(place, *options):
    port = free_ports()[0]
    return Server(place, "dynalite", aws.server_words(port, *options, home=USER_HOME), port).start()


def ready(place, *options):
    """Starts a server with the table."""
    server = dynalite(place, *options)
    aws.make_table(server.port, TABLE)
    return server


def url(port, more="", table=TABLE):
    return f"dynamodb://eu-central-1/{table}?endpoint=http://127.0.0.1:{port}{more}"


def room(store, **more):
    return suite.room(store, ttl=f"{TTL_S:.0f}s", retry="200ms", env=KEYS, **more)


def status(store, env=None):
    code, out, err = suite.answer("status", "--store", store, "--election", "e", "--json", env=env or KEYS)
    assert code in (0, 1), (code, out, err)
    return json.loads(out)


def fails(store, words, env=None, code=69):
    """Asserts that `status` fails with this code and prints all the words."""
    got, out, err = suite.answer("status", "--store", store, "--election", "e", "--timeout", "3s",
                                 env=KEYS if env is None else env)
    assert got == code, (got, out, err)
    for word in words:
        assert word in err, (word, err)
    return err


# ---- the suite ----

@suite.test
def conformance_of_the_store():
    with Place("dynamodb") as place:
        suite.run_conformance("dynamodb", url(ready(place).port), env=KEYS)


# ---- two candidates ----

@suite.test
def a_resigned_leadership_is_handed_over():
    with Place("dynamodb") as place:
        store = url(ready(place).port)
        with room(store) as meeting:
            meeting.candidate("ada")
            meeting.started(1, TIMEOUT_S)
            meeting.candidate("ben").said("leader", TIMEOUT_S)
            code, out, err = suite.command("resign", "--store", store, "--election", "e", "--wait", "60s", env=KEYS)
            assert code == 0, (code, out, err)
            start = meeting.started(2, TIMEOUT_S)
            ended = [int(line[3]) for line in meeting.lines() if line[0] in ("end", "signal")][0]
            say(f"work asked to stop -> the next work started: {(int(start[3]) - ended) / 1e6:.0f} ms, polling every 100 to 200 ms")
            meeting.judge()


@suite.test
def killed_holder_is_replaced_after_its_item_is_unchanged_for_a_ttl():
    with Place("dynamodb") as place:
        with room(url(ready(place).port)) as meeting:
            first = meeting.candidate("ada")
            meeting.started(1, TIMEOUT_S)
            meeting.candidate("ben").said("leader", TIMEOUT_S)
            before = time.monotonic()
            for pid in (first.pid, first.guardian()):
                send(pid, signal.SIGKILL)
            meeting.started(2, TIMEOUT_S)
            say(f"followed {time.monotonic() - before:.1f} s after it was killed; TTL {TTL_S} s")
            meeting.judge()


def guard(port, token, value):
    """Writes with the condition that `bellwether guard print dynamodb` prints. Returns False if rejected."""
    code, text, err = suite.command("guard", "print", "dynamodb")
    assert code == 0, err
    text = re.sub(r"(?m)^#.*$", "", text)
    for mark, word in (("MY_TABLE", "work"), ("MY_ID", "1"), ("MY_TOKEN", str(token)), ("MY_VALUE", value)):
        text = text.replace(mark, word)
    try:
        aws.call(port, "UpdateItem", json.loads(text))
        return True
    except aws.Condition:
        return False


@suite.test
def a_stopped_holder_is_followed_and_its_late_write_rejected():
    with Place("dynamodb") as place:
        port = ready(place).port
        aws.make_table(port, "work", "id")
        with room(url(port)) as meeting:
            first = meeting.candidate("ada")
            old = meeting.started(1, TIMEOUT_S)[1]
            assert guard(port, old, "early")
            meeting.candidate("ben").said("leader", TIMEOUT_S)
            stopped = [first.pid, first.guardian(), int(meeting.starts()[0][2])]
            for pid in stopped:
                send(pid, signal.SIGSTOP)

            def led_on():
                """a second leadership's token"""
                return [line[1] for line in meeting.lines() if line[0] in ("start", "overlap") and line[1] != old]
            new = wait_for(led_on, TIMEOUT_S, 0.02)[0]
            assert int(new) > int(old)
            assert guard(port, new, "newer")
            assert not guard(port, old, "late"), "the late write of a paused leader went through"
            item = aws.call(port, "GetItem", {"TableName": "work", "Key": {"id": {"S": "1"}}})["Item"]
            assert item["content"]["S"] == "newer", item
            for pid in reversed(stopped):
                send(pid, signal.SIGCONT)
            wait_for(lambda: not lives(stopped[2]), TIMEOUT_S, 0.02)


# ---- the store fails ----

def steps_down_in_time(meeting, candidate, break_it):
    """The work is dead before another candidate could take over. The work ends at once but has one second to do so (PUNCTUAL). A
    machine that stalls delays the end."""
    work = int(meeting.started(1, TIMEOUT_S)[2])
    candidate.said("started", TIMEOUT_S)
    break_it()
    watch = stall.Watch([candidate.pid, candidate.guardian()])
    before = time.monotonic()  # requests sent from now on renew nothing
    wait_for(lambda: not lives(work), TIMEOUT_S, 0.005)
    spent = time.monotonic() - before
    assert spent < TTL_S + watch.longest(), f"the work lived for {spent:.1f} s"
    return spent


@suite.test
def a_paused_server_ends_the_work_in_time():
    with Place("dynamodb") as place:
        server = ready(place)
        with room(url(server.port), **PUNCTUAL) as meeting:
            first = meeting.candidate("ada")
            say(f"server paused: the work was dead after {steps_down_in_time(meeting, first, server.pause):.1f} s of {TTL_S} s")
            server.resume()
            meeting.started(2, TIMEOUT_S)
            meeting.judge()


@suite.test
def errors_and_throttling_for_a_whole_ttl_end_the_work_in_time():
    throttled = json.dumps({"__type": "com.amazonaws.dynamodb.v20120810#ProvisionedThroughputExceededException"}).encode()
    for line, body in ((b"503 Busy", b""), (b"400 Bad Request", throttled)):
        with Place("dynamodb") as place:
            proxy = place.proxy(ready(place).port)
            with room(url(proxy.port), **PUNCTUAL) as meeting:
                first = meeting.candidate("ada")
                reply = b"HTTP/1.1 " + line + b"\r\nContent-Length: %d\r\n\r\n" % len(body) + body
                steps_down_in_time(meeting, first, lambda: proxy.replace(lambda data, t=reply: t))
                proxy.heal()
                meeting.started(2, TIMEOUT_S)
                meeting.judge()


@suite.test
def a_killed_server_that_comes_back_with_its_data_gives_a_higher_token():
    with Place("dynamodb") as place:
        server = ready(place, "--path", place.folder("data"))
        with room(url(server.port)) as meeting:
            meeting.candidate("ada")
            meeting.started(1, TIMEOUT_S)
            meeting.candidate("ben").said("leader", TIMEOUT_S)
            server.restart()
            code, out, err = suite.command("resign", "--store", meeting.store, "--election", "e", "--wait", "60s", env=KEYS)
            assert code == 0, (code, out, err)
            meeting.started(2, TIMEOUT_S)
            meeting.judge()


@suite.test
def server_that_lost_all_data_ends_the_work():
    with Place("dynamodb") as place:
        server = ready(place)
        with room(url(server.port)) as meeting:
            meeting.candidate("ada")
            work = int(meeting.started(1, TIMEOUT_S)[2])
            server.restart()
            aws.make_table(server.port, TABLE)
            wait_for(lambda: not lives(work), TIMEOUT_S, 0.01)
            meeting.started(2, TIMEOUT_S)  # with a token that restarted: see the docs
            stall.judge_overlaps(meeting.lines())


@suite.test
def lost_replies_to_acquire_make_no_second_leader():
    with Place("dynamodb") as place:
        proxy = place.proxy(ready(place).port)
        with room(url(proxy.port)) as meeting:
            with room(url(proxy.target)) as other:
                holder = other.candidate("zoe")
                other.started(1, TIMEOUT_S)
                meeting.candidate("ada").said("leader", TIMEOUT_S)
                proxy.delay(0.1)  # so that the cut falls between a request and its answer
                holder.signal(signal.SIGTERM)
                holder.wait(TIMEOUT_S)
                for _ in range(6):
                    proxy.mute()
                    time.sleep(0.3)
                    proxy.heal()
                    proxy.delay(0.1)
                    time.sleep(0.2)
                proxy.heal()
                meeting.started(1, TIMEOUT_S)
                meeting.judge()


# ---- AWS's lock client ----

@suite.test
def lock_client_and_bellwether_wait_for_each_other():
    with Place("dynamodb") as place:
        port = ready(place).port
        store = url(port)
        client = aws.LockClient(port, TABLE, "e", "lock-client-1")
        assert client.try_acquire()
        with room(store) as meeting:
            first = meeting.candidate("ada")
            first.said("leader", TIMEOUT_S)
            until = time.monotonic() + 2 * TTL_S
            while time.monotonic() < until:  # it renews: no candidate takes over
                assert client.heartbeat()
                time.sleep(0.5)
            assert not meeting.starts()
            assert status(store)["leader"] == "lock-client-1"
            assert client.release()
            meeting.started(1, TIMEOUT_S)
            # The reverse: Bellwether renews, and the lock client cannot acquire during two of its leases.
            other = aws.LockClient(port, TABLE, "e", "lock-client-2", 1000)
            until = time.monotonic() + 2 * TTL_S
            while time.monotonic() < until:
                assert not other.try_acquire()
                time.sleep(0.1)
            first.signal(signal.SIGTERM)
            first.wait(TIMEOUT_S)
            assert other.try_acquire(), "a released lock is free at once"
            meeting.candidate("ben").said("leader", TIMEOUT_S)  # the lock client stops renewing: ben follows
            start = meeting.started(2, TIMEOUT_S)
            assert not other.heartbeat()
            assert int(start[1]) > 1
            meeting.judge()


@suite.test
def a_lock_client_follows_a_killed_holder():
    with Place("dynamodb") as place:
        port = ready(place).port
        with room(url(port)) as meeting:
            first = meeting.candidate("ada")
            meeting.started(1, TIMEOUT_S)
            for pid in (first.pid, first.guardian()):
                send(pid, signal.SIGKILL)
            client = aws.LockClient(port, TABLE, "e", "lock-client")
            wait_for(client.try_acquire, TIMEOUT_S, 0.05)
            assert not lives(int(meeting.starts()[0][2]))
            client.release()
            meeting.candidate("ben")
            start = meeting.started(2, TIMEOUT_S)
            assert int(start[1]) > 1, "the token went back after a lock client deleted the item"
            meeting.judge()


# ---- the list of elections ----

@suite.test
def status_lists_the_elections_of_the_table():
    with Place("dynamodb") as place:
        port = ready(place).port
        proxy = place.proxy(port)
        pages = []

        def count(data):
            if b"ScannedCount" in data:
                pages.append(b"LastEvaluatedKey" in data)
            return data
        proxy.replace(count)
        with room(url(proxy.port)) as meeting:
            assert suite.elections_of(meeting.store, env=KEYS) == {}
            suite.status_lists_two_elections(meeting.store, meeting, candidates=False)
            client = aws.LockClient(port, TABLE, "theirs", "lock-client")
            assert client.try_acquire()
            aws.call(port, "DeleteItem", {"TableName": TABLE, "Key": {"key": {"S": "left"}}})  # as a lock client does that releases it
            # items that are no locks, and locks whose names no election can have
            lock = {"ownerName": {"S": "x"}, "leaseDuration": {"S": "1000"}, "recordVersionNumber": {"S": "1"}}
            items = [{"key": {"S": "counter"}, "token": {"N": "7"}}, {"key": {"S": "owner"}, **lock, "ownerName": {"N": "1"}},
                     {"key": {"S": "bare/bellwether"}}, {"key": {"S": "a/b"}, **lock}, {"key": {"S": "a/b/bellwether"}, "token": {"N": "7"}},
                     {"key": {"S": "x" * 200}, **lock}]
            items += [{"key": {"S": f"data {number:03}"}, "text": {"S": "x" * 100}} for number in range(600)]
            for first in range(0, len(items), 25):
                requests = [{"PutRequest": {"Item": item}} for item in items[first:first + 25]]
                assert not aws.call(port, "BatchWriteItem", {"RequestItems": {TABLE: requests}}).get("UnprocessedItems")
            pages.clear()
            found = suite.elections_of(meeting.store, env=KEYS)
            assert sorted(found) == ["led", "left", "theirs"], sorted(found)
            assert found["theirs"]["leader"] == "lock-client" and found["led"]["leader"] == "second", found
            assert pages.count(True) >= 2 and pages[-1] is False, pages
            meeting.judge()


@suite.test
def status_names_the_right_that_a_list_needs():
    with Place("dynamodb") as place:
        proxy = place.proxy(ready(place).port)
        text = json.dumps({"__type": "com.amazon.coral.service#AccessDeniedException", "Message": "not authorized to perform: dynamodb:Scan"})
        proxy.replace(lambda _: f"HTTP/1.1 400 Bad Request\r\nContent-Length: {len(text)}\r\n\r\n{text}".encode())
        # the timeout is longer than the test's own, so an answer means that the command did not try again
        code, out, err = suite.command("status", "--store", url(proxy.port), "--timeout", "1h", env=KEYS)
        assert code == 69 and "allow dynamodb:Scan on the table, or give --election NAME" in err and not out, (code, out, err)


# ---- tables, credentials, signatures ----

@suite.test
def table_is_created_when_the_url_allows_it():
    with Place("dynamodb") as place:
        port = dynalite(place).port
        fails(url(port), ["table locks does not exist", "store init --print"])
        code, out, err = suite.command("store", "init", url(port), "--print", env=KEYS)
        assert code == 0 and "aws dynamodb create-table" in out and "AttributeName=key" in out, (code, out, err)
        code, out, err = suite.command("store", "check", url(port, "&create=yes"), env=KEYS)
        assert code == 0, (code, out, err)
        code, out, err = suite.command("store", "check", url(port), env=KEYS)
        assert code == 0, (code, out, err)


class Judge:
    """Answers like an empty table and records the requests; for other paths it returns keys."""

    def __init__(self):
        self.asked = []
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.port = self.socket.getsockname()[1]
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            connection, _ = self.socket.accept()
            threading.Thread(target=self.answer, args=(connection,), daemon=True).start()

    def answer(self, connection):
        with connection:
            data = b""
            while b"\r\n\r\n" not in data:
                data += connection.recv(65536)
            head, body = data.split(b"\r\n\r\n", 1)
            found = re.search(rb"(?i)content-length: (\d+)", head)
            while found and len(body) < int(found.group(1)):
                body += connection.recv(65536)
            self.asked.append((head, body))
            path = head.split(b" ")[1].decode()
            keys = {"AccessKeyId": ID, "SecretAccessKey": SECRET, "Token": "session+token/=", "Expiration": "2100-01-01T00:00:00Z"}
            reply = {"/": json.dumps({"Responses": {TABLE: []}, "UnprocessedKeys": {}}), "/latest/api/token": "imds-session",
                    "/latest/meta-data/iam/security-credentials/": "my-role"}.get(path, json.dumps(keys))
            connection.sendall(f"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: {len(reply)}\r\n\r\n{reply}".encode())


@suite.test
def requests_are_signed_with_keys_from_every_source():
    with Place("dynamodb") as place:
        file = place.file("credentials", f"[default]\naws_access_key_id=x\naws_secret_access_key=y\n[other]\naws_access_key_id = {ID}\n"
                          f"aws_secret_access_key = {SECRET}\naws_session_token = session+token/=\n", 0o600)
        judge = Judge()
        here = f"http://127.0.0.1:{judge.port}"
        store = url(judge.port)
        ways = {"environment": (store, dict(KEYS, AWS_SESSION_TOKEN="session+token/=")),
                "profile": (store + "&profile=other", {"AWS_SHARED_CREDENTIALS_FILE": file}),
                "profile by environment": (store, {"AWS_SHARED_CREDENTIALS_FILE": file, "AWS_PROFILE": "other"}),
                "container": (store, {"AWS_CONTAINER_CREDENTIALS_FULL_URI": here + "/keys",
                                      "AWS_CONTAINER_AUTHORIZATION_TOKEN": "container-token"}),
                "machine": (store + "&metadata-endpoint=" + here, {})}
        for elsewhere in ("http://127.evil.invalid/keys", "http://127.0.0.1:80@evil.invalid/keys", "http://169.254.170.2.evil.invalid/", "ftp://x"):
            fails(store, ["AWS_CONTAINER_CREDENTIALS_FULL_URI", "https://"], {"AWS_CONTAINER_CREDENTIALS_FULL_URI": elsewhere}, 64)
        for name, (store, env) in ways.items():
            judge.asked.clear()
            err = fails(store, ["no election 'e'"], env, 66)
            head, body = [each for each in judge.asked if b"X-Amz-Target" in each[0]][-1]
            assert aws.signature_is_right(head, body, SECRET, "eu-central-1"), (name, head)
            assert b"X-Amz-Security-Token: session+token/=" in head, (name, head)
            assert SECRET not in err and SECRET.encode() not in head + body
            if name == "container":
                assert b"Authorization: container-token" in judge.asked[0][0], judge.asked[0]
            if name == "machine":
                assert any(b"X-aws-ec2-metadata-token: imds-session" in each[0] for each in judge.asked)


@suite.test
def no_output_contains_secrets():
    with Place("dynamodb") as place:
        port = ready(place).port
        code, out, err = suite.command("store", "check", url(port), env=KEYS)
        assert code == 0, err
        outputs = [out, err, fails(url(port), ["AWS_ACCESS_KEY_ID"], {"AWS_ACCESS_KEY_ID": "has blanks", "AWS_SECRET_ACCESS_KEY": SECRET}, 64)]
        denied = b"HTTP/1.1 400 Bad Request\r\nContent-Length: 39\r\n\r\n" + b'{"__type":"x#InvalidSignatureException"}'
        outputs.append(fails(url(hostile(lambda: [denied.replace(b"39", b"40")])), ["DynamoDB denied access", "InvalidSignature"]))
        with room(url(port)) as meeting:
            first = meeting.candidate("ada")
            meeting.started(1, TIMEOUT_S)
            first.signal(signal.SIGTERM)
            first.wait(TIMEOUT_S)
            with open(first.errors, encoding="utf-8") as file:
                outputs.append(file.read())
        for text in outputs:
            assert SECRET not in text and SECRET[:12] not in text and "has blanks" not in text, text


# ---- bad input ----

@suite.test
def invalid_urls_are_rejected_with_a_message():
    bad = {"dynamodb://": "REGION", "dynamodb://eu-central-1": "table", "dynamodb://EU/locks": "region",
           "dynamodb://eu:80/locks": "region", "dynamodb://eu/lo": "table", "dynamodb://eu/a/b": "table",
           "dynamodb://eu/locks?endpoint=ftp://x": "https://HOST", "dynamodb://eu/locks?endpoint=http://example.org": "this machine only",
           "dynamodb://eu/locks?create=no": "'yes'", "dynamodb://eu/locks?profil=x": "did you mean 'profile'",
           "dynamodb://eu/locks?profile=x": "cannot read", "dynamodb://eu/locks?metadata-endpoint=x": "http://HOST"}
    for store, word in bad.items():
        fails(store, [word], {} if "metadata" in store else None, 64)


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
        yield b"x-%d: %s\r\n" % (i, b"y" * 1000)
    yield b"\r\n"


def endless():
    yield b"HTTP/1.1 200 OK\r\n\r\n"
    while True:
        yield b"[" * 65536


def items(*each):
    return response(json.dumps({"Responses": {TABLE: list(each)}, "UnprocessedKeys": {}}).encode())


def response(body, line=b"200 OK"):
    return lambda: [b"HTTP/1.1 " + line + b"\r\nContent-Length: %d\r\n\r\n" % len(body) + body]


@suite.test
def foreign_item_is_reported_and_not_taken_for_an_unreachable_store():
    store = url(hostile(items({"key": {"S": "e"}, "colour": {"S": "red"}})))
    fails(store, ["item 'e' of table locks", "is not an election's", "choose another table or election, or remove the item"])
    code, _, err = suite.command("run", "--store", store, "--election", "e", "--log", "json", "-w", "2s", "--", "true", env=KEYS)
    assert code == 69 and "the store answers, but cannot be used (item 'e'" in err and "no response" not in err, (code, err)


@suite.test
def hostile_answers_are_clear_errors():
    lock = {"key": {"S": "e"}, "ownerName": {"S": "x"}, "leaseDuration": {"S": "1000"}, "recordVersionNumber": {"S": "v"}}
    lasting = {"key": {"S": "e/bellwether"}, "token": {"N": "1"}}
    rng = random.Random(7)
    malformed, foreign = "unexpected reply from DynamoDB", "is not an election's"
    answers = [(long_headers, "too long"), (endless, "too long"), (lambda: [rng.randbytes(4096)], "DynamoDB:"),
               (lambda: [], "DynamoDB:"), (response(b""), malformed), (response(b"{"), malformed),
               (response(b"[" * 100000), malformed), (response(b"{}"), malformed),
               (response(b'{"Responses":{"locks":5}}'), malformed), (items(dict(lock, ownerName={"N": "1"})), foreign),
               (items(dict(lock, leaseDuration={"S": "-1"})), foreign), (items(dict(lock, leaseDuration={"S": "9" * 30})), foreign),
               (items(dict(lock, recordVersionNumber={"S": "v" * 5000})), foreign), (items(dict(lock, bellwether={"S": "[]"})), foreign),
               (items(dict(lock, bellwether={"S": json.dumps({"token": -1})})), foreign), (items(dict(lasting, token={"N": "-1"})), foreign),
               (items(dict(lasting, token={"N": "1e3"})), foreign), (items(dict(lasting, record={"S": "x"})), foreign),
               (items({"key": {"S": "e/note"}, "serial": {"N": "1"}}), foreign), (response(b"no", b"999 Odd"), "DynamoDB returned HTTP 999")]
    with ThreadPoolExecutor(4) as pool:  # each command retries until its timeout
        for err in pool.map(lambda each: fails(url(hostile(each[0])), [each[1]]), answers):
            assert len(err) < 600, err


suite.main(at_once=3)
