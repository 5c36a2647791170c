#!/usr/bin/env python3
"""The DynamoDB store on dynalite: faults, AWS' lock client, credentials, signatures, hostile answers.

    store_dynamodb.py BELLWETHER WITNESS CONFORMANCE [NAME...]"""
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
from concurrent.futures import ThreadPoolExecutor

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "kit"))
import dynamodb_lib as aws  # noqa: E402
from run_lib import lives, send, wait_for  # noqa: E402
from store_lib import Place, Server, Skip, Suite, free_ports  # noqa: E402

VERSION = "4.0.0"
TABLE = "locks"
TTL_S = 3.0
PUNCTUAL = {"kill_after": "1s"}
PATIENCE_S = 60.0  # nothing is judged by it
HERE = os.path.dirname(os.path.abspath(__file__))
ID, SECRET = "AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"

suite = Suite()
for name in [n for n in os.environ if n.startswith("AWS_")]:
    del os.environ[name]
USER_HOME = os.environ.get("HOME", "")
os.environ["HOME"] = "/nonexistent"  # whose user has keys there is not asked
KEYS = {"AWS_ACCESS_KEY_ID": ID, "AWS_SECRET_ACCESS_KEY": SECRET}

def say(text):
    print("# " + text, flush=True)


def dynalite(place, *options):
    done = subprocess.run([os.path.join(HERE, "..", "..", "npm.sh"), "dynalite", VERSION], capture_output=True, text=True, check=False,
                          env=dict(os.environ, HOME=USER_HOME))
    if done.returncode:
        raise Skip(f"dynalite is not here: {done.stdout.strip() or done.stderr.strip()}")
    port = free_ports()[0]
    words = [os.path.join(done.stdout.strip(), "dynalite"), "--host", "127.0.0.1", "--port", str(port), "--createTableMs", "0",
             *options]
    return Server(place, "dynalite", words, port).start()


def ready(place, *options):
    """A server with the table."""
    server = dynalite(place, *options)
    aws.make_table(server.port, TABLE)
    return server


def url(port, more="", table=TABLE):
    return f"dynamodb://eu-central-1/{table}?endpoint=http://127.0.0.1:{port}{more}"


def room(store, **more):
    os.environ.update(KEYS)
    return suite.room(store, ttl=f"{TTL_S:.0f}s", retry="200ms", **more)


def status(store, env=None):
    code, out, err = suite.answer("status", "--store", store, "--election", "e", "--json", env=env or KEYS)
    assert code in (0, 1), (code, out, err)
    return json.loads(out)


def fails(store, words, env=None, code=69):
    """`status` fails with this code and says all the words."""
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
            meeting.started(1, PATIENCE_S)
            meeting.candidate("ben").said("leader", PATIENCE_S)
            code, out, err = suite.command("resign", "--store", store, "--election", "e", "--wait", "60s")
            assert code == 0, (code, out, err)
            start = meeting.started(2, PATIENCE_S)
            ended = [int(line[3]) for line in meeting.lines() if line[0] in ("end", "signal")][0]
            say(f"work told to end -> the other's started: {(int(start[3]) - ended) / 1e6:.0f} ms, looking every 100 to 200 ms")
            meeting.judge()


@suite.test
def a_killed_holder_is_followed_after_its_item_stood_still_for_a_ttl():
    with Place("dynamodb") as place:
        with room(url(ready(place).port)) as meeting:
            first = meeting.candidate("ada")
            meeting.started(1, PATIENCE_S)
            meeting.candidate("ben").said("leader", PATIENCE_S)
            before = time.monotonic()
            for pid in (first.pid, first.guardian()):
                send(pid, signal.SIGKILL)
            meeting.started(2, PATIENCE_S)
            say(f"followed {time.monotonic() - before:.1f} s after it was killed; TTL {TTL_S} s")
            meeting.judge()


def guard(port, token, value):
    """A write with the condition that `bellwether guard print dynamodb` prints; False: rejected."""
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
            old = meeting.started(1, PATIENCE_S)[1]
            assert guard(port, old, "early")
            meeting.candidate("ben").said("leader", PATIENCE_S)
            stopped = [first.pid, first.guardian(), int(meeting.starts()[0][2])]
            for pid in stopped:
                send(pid, signal.SIGSTOP)

            def led_on():
                """a second leadership's token"""
                return [line[1] for line in meeting.lines() if line[0] in ("start", "overlap") and line[1] != old]
            new = wait_for(led_on, PATIENCE_S, 0.02)[0]
            assert int(new) > int(old)
            assert guard(port, new, "newer")
            assert not guard(port, old, "late"), "the late write of a paused leader went through"
            item = aws.call(port, "GetItem", {"TableName": "work", "Key": {"id": {"S": "1"}}})["Item"]
            assert item["content"]["S"] == "newer", item
            for pid in reversed(stopped):
                send(pid, signal.SIGCONT)
            wait_for(lambda: not lives(stopped[2]), PATIENCE_S, 0.02)


# ---- the store fails ----

def steps_down_in_time(meeting, candidate, break_it):
    """The work is dead before another could take over. It ends at once but is given a second (PUNCTUAL): a machine may stand still
    for that long, and it is dead in time."""
    work = int(meeting.started(1, PATIENCE_S)[2])
    candidate.said("started", PATIENCE_S)
    break_it()
    before = time.monotonic()  # what is asked from now on renews nothing
    wait_for(lambda: not lives(work), PATIENCE_S, 0.005)
    spent = time.monotonic() - before
    assert spent < TTL_S, f"the work lived for {spent:.1f} s"
    return spent


@suite.test
def a_paused_server_ends_the_work_in_time():
    with Place("dynamodb") as place:
        server = ready(place)
        with room(url(server.port), **PUNCTUAL) as meeting:
            first = meeting.candidate("ada")
            say(f"server paused: the work was dead after {steps_down_in_time(meeting, first, server.pause):.1f} s of {TTL_S} s")
            server.resume()
            meeting.started(2, PATIENCE_S)
            meeting.judge()


@suite.test
def errors_and_throttling_for_a_whole_ttl_end_the_work_in_time():
    throttled = json.dumps({"__type": "com.amazonaws.dynamodb.v20120810#ProvisionedThroughputExceededException"}).encode()
    for line, body in ((b"503 Busy", b""), (b"400 Bad Request", throttled)):
        with Place("dynamodb") as place:
            proxy = place.proxy(ready(place).port)
            with room(url(proxy.port), **PUNCTUAL) as meeting:
                first = meeting.candidate("ada")
                told = b"HTTP/1.1 " + line + b"\r\nContent-Length: %d\r\n\r\n" % len(body) + body
                steps_down_in_time(meeting, first, lambda: proxy.replace(lambda data, t=told: t))
                proxy.heal()
                meeting.started(2, PATIENCE_S)
                meeting.judge()


@suite.test
def a_killed_server_that_comes_back_with_its_data_gives_a_higher_token():
    with Place("dynamodb") as place:
        server = ready(place, "--path", place.folder("data"))
        with room(url(server.port)) as meeting:
            meeting.candidate("ada")
            meeting.started(1, PATIENCE_S)
            meeting.candidate("ben").said("leader", PATIENCE_S)
            server.restart()
            code, out, err = suite.command("resign", "--store", meeting.store, "--election", "e", "--wait", "60s")
            assert code == 0, (code, out, err)
            meeting.started(2, PATIENCE_S)
            meeting.judge()


@suite.test
def a_server_that_forgot_everything_ends_the_work():
    with Place("dynamodb") as place:
        server = ready(place)
        with room(url(server.port)) as meeting:
            meeting.candidate("ada")
            work = int(meeting.started(1, PATIENCE_S)[2])
            server.restart()
            aws.make_table(server.port, TABLE)
            wait_for(lambda: not lives(work), PATIENCE_S, 0.01)
            meeting.started(2, PATIENCE_S)  # with a token that began anew: see the docs
            assert not [line for line in meeting.lines() if line[0] == "overlap"]


@suite.test
def lost_answers_to_acquire_make_no_second_leader():
    with Place("dynamodb") as place:
        proxy = place.proxy(ready(place).port)
        with room(url(proxy.port)) as meeting:
            with room(url(proxy.target)) as other:
                holder = other.candidate("zoe")
                other.started(1, PATIENCE_S)
                meeting.candidate("ada").said("leader", PATIENCE_S)
                proxy.delay(0.1)  # so that the cut falls between a request and its answer
                holder.signal(signal.SIGTERM)
                holder.wait(PATIENCE_S)
                for _ in range(6):
                    proxy.mute()
                    time.sleep(0.3)
                    proxy.heal()
                    proxy.delay(0.1)
                    time.sleep(0.2)
                proxy.heal()
                meeting.started(1, PATIENCE_S)
                meeting.judge()


# ---- AWS' lock client ----

@suite.test
def a_lock_client_is_waited_for_and_waits():
    with Place("dynamodb") as place:
        port = ready(place).port
        store = url(port)
        client = aws.LockClient(port, TABLE, "e", "lock-client-1")
        assert client.try_acquire()
        with room(store) as meeting:
            first = meeting.candidate("ada")
            first.said("leader", PATIENCE_S)
            until = time.monotonic() + 2 * TTL_S
            while time.monotonic() < until:  # it renews: nobody takes it
                assert client.heartbeat()
                time.sleep(0.5)
            assert not meeting.starts()
            assert status(store)["leader"] == "lock-client-1"
            assert client.release()
            meeting.started(1, PATIENCE_S)
            # The reverse: Bellwether renews, and the lock client gets nothing for two of its leases.
            other = aws.LockClient(port, TABLE, "e", "lock-client-2", 1000)
            until = time.monotonic() + 2 * TTL_S
            while time.monotonic() < until:
                assert not other.try_acquire()
                time.sleep(0.1)
            first.signal(signal.SIGTERM)
            first.wait(PATIENCE_S)
            assert other.try_acquire(), "a released lock is free at once"
            meeting.candidate("ben").said("leader", PATIENCE_S)  # and it stops renewing: ben follows
            start = meeting.started(2, PATIENCE_S)
            assert not other.heartbeat()
            assert int(start[1]) > 1
            meeting.judge()


@suite.test
def a_lock_client_follows_a_killed_holder():
    with Place("dynamodb") as place:
        port = ready(place).port
        with room(url(port)) as meeting:
            first = meeting.candidate("ada")
            meeting.started(1, PATIENCE_S)
            for pid in (first.pid, first.guardian()):
                send(pid, signal.SIGKILL)
            client = aws.LockClient(port, TABLE, "e", "lock-client")
            wait_for(client.try_acquire, PATIENCE_S, 0.05)
            assert not lives(int(meeting.starts()[0][2]))
            client.release()
            meeting.candidate("ben")
            start = meeting.started(2, PATIENCE_S)
            assert int(start[1]) > 1, "the token went back after a lock client deleted the item"
            meeting.judge()


# ---- tables, credentials, signatures ----

@suite.test
def a_table_is_made_when_told():
    with Place("dynamodb") as place:
        port = dynalite(place).port
        fails(url(port), ["there is no table locks", "store init --print"])
        code, out, err = suite.command("store", "init", url(port), "--print", env=KEYS)
        assert code == 0 and "aws dynamodb create-table" in out and "AttributeName=key" in out, (code, out, err)
        code, out, err = suite.command("store", "check", url(port, "&create=yes"), env=KEYS)
        assert code == 0, (code, out, err)
        code, out, err = suite.command("store", "check", url(port), env=KEYS)
        assert code == 0, (code, out, err)


class Judge:
    """Answers like an empty table and keeps what it was asked; for other paths it gives keys."""

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
            told = {"/": json.dumps({"Responses": {TABLE: []}, "UnprocessedKeys": {}}), "/latest/api/token": "imds-session",
                    "/latest/meta-data/iam/security-credentials/": "my-role"}.get(path, json.dumps(keys))
            connection.sendall(f"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: {len(told)}\r\n\r\n{told}".encode())


@suite.test
def requests_are_signed_with_keys_from_everywhere():
    for variable in KEYS:
        os.environ.pop(variable, None)
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
def secrets_are_shown_to_nobody():
    with Place("dynamodb") as place:
        port = ready(place).port
        code, out, err = suite.command("store", "check", url(port), env=KEYS)
        assert code == 0, err
        said = [out, err, fails(url(port), ["AWS_ACCESS_KEY_ID"], {"AWS_ACCESS_KEY_ID": "has blanks", "AWS_SECRET_ACCESS_KEY": SECRET}, 64)]
        denied = b"HTTP/1.1 400 Bad Request\r\nContent-Length: 39\r\n\r\n" + b'{"__type":"x#InvalidSignatureException"}'
        said.append(fails(url(hostile(lambda: [denied.replace(b"39", b"40")])), ["denies it", "InvalidSignature"]))
        with room(url(port)) as meeting:
            first = meeting.candidate("ada")
            meeting.started(1, PATIENCE_S)
            first.signal(signal.SIGTERM)
            first.wait(PATIENCE_S)
            with open(first.errors, encoding="utf-8") as file:
                said.append(file.read())
        for text in said:
            assert SECRET not in text and SECRET[:12] not in text and "has blanks" not in text, text


# ---- bad input ----

@suite.test
def bad_urls_are_refused_with_a_line():
    bad = {"dynamodb://": "REGION", "dynamodb://eu-central-1": "table", "dynamodb://EU/locks": "region",
           "dynamodb://eu:80/locks": "region", "dynamodb://eu/lo": "table", "dynamodb://eu/a/b": "table",
           "dynamodb://eu/locks?endpoint=ftp://x": "https://HOST", "dynamodb://eu/locks?endpoint=http://example.org": "this machine only",
           "dynamodb://eu/locks?create=no": "'yes'", "dynamodb://eu/locks?profil=x": "did you mean 'profile'",
           "dynamodb://eu/locks?profile=x": "cannot read", "dynamodb://eu/locks?metadata-endpoint=x": "http://HOST"}
    for store, word in bad.items():
        fails(store, [word], {} if "metadata" in store else None, 64)


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
        yield b"x-%d: %s\r\n" % (i, b"y" * 1000)
    yield b"\r\n"


def endless():
    yield b"HTTP/1.1 200 OK\r\n\r\n"
    while True:
        yield b"[" * 65536


def items(*each):
    return said(json.dumps({"Responses": {TABLE: list(each)}, "UnprocessedKeys": {}}).encode())


def said(body, line=b"200 OK"):
    return lambda: [b"HTTP/1.1 " + line + b"\r\nContent-Length: %d\r\n\r\n" % len(body) + body]


@suite.test
def a_foreign_item_is_named_and_is_not_an_unreachable_store():
    store = url(hostile(items({"key": {"S": "e"}, "colour": {"S": "red"}})))
    fails(store, ["item 'e' of table locks", "not an election's", "name another table or election, or remove the item"])
    code, _, err = suite.command("run", "--store", store, "--election", "e", "--log", "json", "-w", "2s", "--", "true", env=KEYS)
    assert code == 69 and "the store answers, but cannot be used (item 'e'" in err and "does not answer" not in err, (code, err)


@suite.test
def hostile_answers_are_clear_errors():
    lock = {"key": {"S": "e"}, "ownerName": {"S": "x"}, "leaseDuration": {"S": "1000"}, "recordVersionNumber": {"S": "v"}}
    lasting = {"key": {"S": "e/bellwether"}, "token": {"N": "1"}}
    rng = random.Random(7)
    odd = "cannot be understood"
    answers = [(long_headers, "too long"), (endless, "too long"), (lambda: [rng.randbytes(4096)], "DynamoDB:"),
               (lambda: [], "DynamoDB:"), (said(b""), odd), (said(b"{"), odd), (said(b"[" * 100000), odd), (said(b"{}"), odd),
               (said(b'{"Responses":{"locks":5}}'), odd), (items(dict(lock, ownerName={"N": "1"})), odd),
               (items(dict(lock, leaseDuration={"S": "-1"})), odd), (items(dict(lock, leaseDuration={"S": "9" * 30})), odd),
               (items(dict(lock, recordVersionNumber={"S": "v" * 5000})), odd), (items(dict(lock, bellwether={"S": "[]"})), odd),
               (items(dict(lock, bellwether={"S": json.dumps({"token": -1})})), odd), (items(dict(lasting, token={"N": "-1"})), odd),
               (items(dict(lasting, token={"N": "1e3"})), odd), (items(dict(lasting, record={"S": "x"})), odd),
               (items({"key": {"S": "e/note"}, "serial": {"N": "1"}}), odd), (said(b"no", b"999 Odd"), "DynamoDB answers 999")]
    with ThreadPoolExecutor(4) as pool:  # each is asked again until the time is over
        for err in pool.map(lambda each: fails(url(hostile(each[0])), [each[1]]), answers):
            assert len(err) < 600, err


suite.main(at_once=3)
