#!/usr/bin/env python3
"""The status endpoint of `bellwether run` and of sidecars, as its clients see it.

    run_http.py BELLWETHER WITNESS SHIM [NAME...]

A sidecar has no command: its client does the work. The proof uses only answers: a positive answer is valid from its request
until its valid_ms are over, and the spans of two candidates must not overlap."""
import http.server
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time

sys.dont_write_bytecode = True

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "kit"))
from run_faults import main  # noqa: E402
from run_lib import ELECTION, HANG_S, send, stat_of, wait_for  # noqa: E402

TTL_S = 1.5
TESTS = []


def test(function):
    TESTS.append((function.__name__, function, None))
    return function


def path_of(room, name):
    return os.path.join(room.dir, name + ".sock")


def serving(room, name, *modes, options=(), **more):
    """Starts a candidate with its own socket; the socket exists when this returns."""
    c = room.candidate(name, *modes, options=["--http", "unix:" + path_of(room, name), *options], **more)
    c.said("http")
    return c


def sidecar(room, name, options=()):
    return serving(room, name, options=options, command=[])


def connect(room, name):
    s = socket.socket(socket.AF_UNIX)
    s.connect(path_of(room, name))  # blocking: it waits while the backlog is full
    s.settimeout(HANG_S)
    return s


def rest_of(s):
    data = b""
    while True:
        try:
            part = s.recv(65536)
        except ConnectionResetError:
            return data
        if not part:
            return data
        data += part


def exchange(s, request):
    s.sendall(request)
    data = rest_of(s)
    s.close()
    head, _, body = data.partition(b"\r\n\r\n")
    return (int(head.split()[1]) if head else 0), body.decode()


def ask(room, name, path, method="GET"):
    return exchange(connect(room, name), f"{method} {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())


def ready(room, name):
    return ask(room, name, "/healthz")[0] == 200


def says_no_in_time(room, name, away):
    """Waits for the negative answer of a candidate whose store has been unavailable since `away`. Nothing can have been renewed, so
    a positive answer to a request sent a TTL later is wrong, however late it is read."""
    while True:
        asked = time.monotonic()
        if not ready(room, name):
            return
        assert asked < away + TTL_S, f"a yes {asked - away:.3f} s after the store went away"


def leader(room, name):
    return json.loads(ask(room, name, "/leader")[1])


def metric(room, name, wanted):
    for line in ask(room, name, "/metrics")[1].splitlines():
        if line.startswith(wanted + " ") or line.startswith(wanted + "{"):
            if "reason" not in wanted or wanted in line:
                return float(line.rsplit(" ", 1)[1])
    raise AssertionError("no metric " + wanted)


@test
def leader_is_ready_and_others_report_it(room):
    serving(room, "a", options=["--value", "10.0.0.1:80"])
    room.started(1)
    b = serving(room, "b")
    b.said("leader")
    assert ready(room, "a") and ask(room, "b", "/healthz")[0] == 503
    assert ask(room, "a", "/livez")[0] == ask(room, "b", "/livez")[0] == 200
    seen = leader(room, "b")
    assert (seen["id"], seen["token"], seen["value"], seen["election"]) == ("a", 1, "10.0.0.1:80", ELECTION), seen
    assert seen["valid_ms"] == 0 and not seen["leading"]
    own = leader(room, "a")
    assert own["leading"] and 0 < own["valid_ms"] <= TTL_S * 1000, own


@test
def readiness_moves_with_the_leadership(room):
    a = serving(room, "a")
    room.started(1)
    serving(room, "b")
    a.signal(signal.SIGTERM)
    room.started(2)
    wait_for(lambda: ready(room, "b"))
    assert leader(room, "b")["token"] == 2
    a.wait()
    assert not os.path.exists(path_of(room, "a")), "the socket file is left behind"


@test
def stopped_supervisor_answers_no_after_its_deadline(room):
    a = serving(room, "a")
    room.started(1)
    assert ready(room, "a")
    s = connect(room, "a")
    a.signal(signal.SIGSTOP)
    wait_for(lambda: stat_of(a.pid)[0] == "T")
    s.sendall(b"GET /healthz HTTP/1.0\r\n\r\n")
    time.sleep(TTL_S + 0.2)
    a.signal(signal.SIGCONT)
    answer = rest_of(s)
    assert b" 503 " in answer.split(b"\r\n")[0] + b" ", answer


@test
def leader_answers_no_in_time_when_the_store_is_unavailable(room):
    serving(room, "a")
    room.started(1)
    os.rename(room.db, room.db + ".away")
    says_no_in_time(room, "a", time.monotonic())
    assert metric(room, "a", "bellwether_leader") == 0


@test
def elections_and_losses_are_counted_by_reason(room):
    flag = os.path.join(room.dir, "fit")
    open(flag, "w", encoding="utf-8").close()
    serving(room, "a", options=["--health-cmd", f"test -e {flag}", "--health-interval", "1s"])
    room.started(1)
    assert metric(room, "a", "bellwether_leader") == 1 and metric(room, "a", "bellwether_token") == 1
    os.unlink(flag)
    reason = f'bellwether_losses_total{{election="{ELECTION}",reason="unhealthy"}}'
    wait_for(lambda: metric(room, "a", reason) == 1)
    assert metric(room, "a", "bellwether_healthy") == 0
    open(flag, "w", encoding="utf-8").close()
    room.started(2)
    wait_for(lambda: metric(room, "a", "bellwether_elections_total") == 2)


def has_ipv6():
    """True if this machine has an IPv6 loopback address."""
    try:
        with socket.socket(socket.AF_INET6) as s:
            s.bind(("::1", 0))
        return True
    except OSError:
        return False


@test
def tcp_is_served_on_a_free_port_and_closed_after_one_answer(room):
    addresses = ["127.0.0.1:0", *(["[::1]:0"] if has_ipv6() else [])]
    for number, address in enumerate(addresses):
        a = room.candidate(f"a{number}", options=["--http", address, "--election", "other"])
        where = a.said("http")["address"]
        host, _, port = where.rpartition(":")
        s = socket.create_connection((host.strip("[]"), int(port)), HANG_S)
        assert exchange(s, b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n") == (200, "alive\n")


def by_host(room, name, address, host):
    """The statuses of all pages for a request with this Host."""
    options = ["--http", address, *(["--insecure"] if "0.0.0.0" in address else [])]
    where = room.candidate(name, options=options).said("http")["address"]
    statuses = set()
    for path in ("/", "/state", "/leader", "/metrics", "/livez", "/nothing"):
        if where.startswith("unix:"):
            s = connect(room, name)
        else:
            s = socket.create_connection(("127.0.0.1", int(where.rpartition(":")[2])), HANG_S)
        statuses.add(exchange(s, f"GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())[0])
    return statuses


@test
def loopback_address_refuses_the_names_of_web_sites(room):
    """A site can let its own name resolve to 127.0.0.1; the browser then lets its scripts read all responses."""
    assert by_host(room, "a", "127.0.0.1:0", "evil.example:8080") == {421}
    assert by_host(room, "b", "127.0.0.1:0", "LOCALHOST:8080") == {200, 404}
    assert by_host(room, "c", "unix:" + path_of(room, "c"), "evil.example") == {200, 404}
    assert by_host(room, "d", "0.0.0.0:0", "node.example:8080") == {200, 404}


@test
def invalid_requests_get_an_error_and_the_endpoint_continues(room):
    serving(room, "a")
    assert exchange(connect(room, "a"), b"\x16\x03\x01\x02")[0] == 400
    assert exchange(connect(room, "a"), b"GET / HTTP/1.1\r\n\r\n")[0] == 400
    assert exchange(connect(room, "a"), b"GET /healthz HTTP/1.0\r\nA: " + b"x" * 20000)[0] == 431
    assert exchange(connect(room, "a"), b"GET /" + b"x" * 300 + b" HTTP/1.0\r\n\r\n")[0] == 414
    assert ask(room, "a", "/nothing")[0] == 404
    assert ask(room, "a", "/healthz", "POST")[0] == 405
    assert ask(room, "a", "/metrics", "HEAD") == (200, "")
    for part in (b"", b"GET", b"GET /livez HTTP/1.1\r\nHo"):
        s = connect(room, "a")
        s.sendall(part)
        s.close()
    s = connect(room, "a")
    for byte in b"GET /livez HTTP/1.0\r\n\r\n":
        s.sendall(bytes([byte]))
    assert b"alive" in rest_of(s)
    room.started(1)
    wait_for(lambda: ready(room, "a"))


@test
def slow_clients_are_dropped_and_do_not_block_others(room):
    a = serving(room, "a")
    room.started(1)
    slow = []
    for _ in range(200):
        slow.append(connect(room, "a"))
        slow[-1].sendall(b"GET /healthz HTTP/1.1\r\n")
    wait_for(lambda: ready(room, "a"), HANG_S)
    fds = len(os.listdir(f"/proc/{a.pid}/fd"))
    assert fds < 64 + 40, f"{fds} descriptors"

    def dropped():
        """slow clients to be dropped when their time is over"""
        return len(os.listdir(f"/proc/{a.pid}/fd")) < 40
    wait_for(dropped, HANG_S, 0.05)
    assert len(room.starts()) == 1, "the leader fell over its status endpoint"


@test
def stale_socket_file_is_replaced_and_one_in_use_is_not(room):
    a = serving(room, "a")
    b = room.candidate("b", options=["--http", "unix:" + path_of(room, "a")])
    assert b.wait() == 71 and "in use" in b.events("start-failed")[0]["message"]
    a.signal(signal.SIGKILL)
    a.wait()
    assert os.path.exists(path_of(room, "a"))
    c = room.candidate("c", options=["--http", "unix:" + path_of(room, "a")])
    c.said("http")
    assert ask(room, "a", "/livez")[0] == 200


@test
def public_http_address_requires_permission(room):
    def refused(*words):
        done = subprocess.run([room.bellwether, "run", "--store", "sqlite:" + room.db, "--election", "x", *words],
                              stderr=subprocess.PIPE, text=True, timeout=HANG_S, check=False)
        assert done.returncode == 64, done
        return done.stderr
    for address in ("0.0.0.0:0", "[::]:0", "192.0.2.1:80"):
        assert "--insecure" in refused("--http", address, "--", "true")
    for address in ("localhost:80", "80", "127.0.0.1:99999", "unix:", "[::1]", "127.0.0.1:"):
        assert "unix:PATH" in refused("--http", address, "--", "true")
    assert "--http ADDR" in refused()
    assert "--kill-after" in refused("--http", "127.0.0.1:0", "--kill-after", "0")
    a = room.candidate("a", options=["--http", "0.0.0.0:0", "--insecure"])
    a.said("http")


# ---- streams of events ----

class Stream:
    """The stream of events of one candidate, read in a thread."""

    def __init__(self, room, name):
        self.socket, self.events, self.comments, self.over = connect(room, name), [], 0, False
        self.socket.settimeout(None)
        self.socket.sendall(b"GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n")
        self.file = self.socket.makefile("rb")
        self.status = int(self.file.readline().split()[1])
        while self.file.readline().strip():
            pass
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        kind = None
        try:
            for line in self.file:
                field, _, rest = line.decode().rstrip("\n").partition(": ")
                self.comments += field == "" and rest == "alive"
                if field == "event":
                    kind = rest
                elif field == "data":
                    event = json.loads(rest)
                    assert kind == ("status" if event["event"] == "status" else "log"), (kind, event)
                    self.events.append(event)
        except OSError:
            pass
        self.over = True

    def of(self, name, **fields):
        return [e for e in self.events if e["event"] == name and all(e[k] == v for k, v in fields.items())]

    def saw(self, name, **fields):
        wait_for(lambda: self.of(name, **fields))
        return self.of(name, **fields)[0]

    def close(self):
        self.socket.shutdown(socket.SHUT_RDWR)
        self.socket.close()


@test
def stream_reports_the_state_and_every_change(room):
    a = serving(room, "a", options=["--value", "10.0.0.1:80"])
    room.started(1)
    b = serving(room, "b")
    b.said("leader")
    streams = {name: Stream(room, name) for name in "ab"}
    first = streams["b"].saw("status")
    assert (first["election"], first["id"], first["leader"], first["token"], first["value"], first["leading"]) == (
        ELECTION, "b", "a", 1, "10.0.0.1:80", False), first
    assert streams["a"].saw("status")["leading"]
    a.signal(signal.SIGTERM)
    room.started(2)
    streams["b"].saw("status", leader="b", token=2, leading=True)
    streams["b"].saw("elected", token=2)
    streams["b"].saw("started", token=2)
    wait_for(lambda: streams["a"].over)
    assert streams["a"].of("status", leading=False) and streams["a"].of("step-down", reason="shut-down")
    assert streams["a"].of("released", token=1), "the last event is missing"


@test
def stream_of_a_sidecar_reports_changes_that_only_the_clock_makes(room):
    sidecar(room, "a")
    stream = Stream(room, "a")
    stream.saw("status", leader="a", leading=True)
    os.rename(room.db, room.db + ".away")
    wait_for(lambda: not stream.of("status")[-1]["leading"])


@test
def streams_are_limited_and_do_not_keep_out_probes(room):
    a = serving(room, "a")
    room.started(1)
    streams = [Stream(room, "a") for _ in range(16)]
    assert [s.status for s in streams] == [200] * 16
    assert Stream(room, "a").status == 503
    slow = [connect(room, "a") for _ in range(100)]
    wait_for(lambda: ready(room, "a"), HANG_S)
    assert not any(s.over for s in streams), "a probe closed a stream"
    streams[0].close()
    wait_for(lambda: Stream(room, "a").status == 200)
    for s in slow:
        s.close()
    a.signal(signal.SIGTERM)
    for s in streams[1:]:
        s.saw("released")


@test
def stream_of_a_client_that_talks_is_closed(room):
    serving(room, "a")
    room.started(1)
    quiet, chatty = Stream(room, "a"), Stream(room, "a")
    try:
        for _ in range(10):
            chatty.socket.sendall(b"x" * 1000)
    except OSError:
        pass
    wait_for(lambda: chatty.over)
    wait_for(lambda: quiet.comments)
    assert not quiet.over and ready(room, "a")


# ---- health checks over HTTP ----

class Service:
    """A test service that answers with `status` after `pause` seconds."""

    def __init__(self):
        service = self
        self.status, self.pause, self.asked = 200, 0, []

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                service.asked.append((self.path, self.headers["Host"]))
                time.sleep(service.pause)
                try:
                    self.send_response(service.status)
                    self.end_headers()
                except OSError:
                    pass

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.where = f"127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()

    def options(self):
        return ["--health-http", f"http://{self.where}/fit?deep=1", "--health-interval", "500ms"]


def unhealthy_by(change):
    def run(room):
        with Service() as service:
            a = room.candidate("a", options=service.options())
            room.started(1)
            assert service.asked[0] == ("/fit?deep=1", service.where), service.asked
            room.candidate("b")
            change(service)
            room.started(2)
            assert a.said("step-down")["reason"] == "unhealthy"
            assert "health URL" in a.events("unhealthy")[0]["message"]
    return run


for fault, how in {
        "answers_500": lambda service: setattr(service, "status", 500),
        "redirects": lambda service: setattr(service, "status", 302),
        "is_too_slow": lambda service: setattr(service, "pause", 1),
        "is_gone": lambda service: (service.server.shutdown(), service.server.server_close())}.items():
    TESTS.append((f"a_leader_whose_health_url_{fault}_steps_down", unhealthy_by(how), None))


@test
def candidate_is_not_elected_before_its_health_url_returns_2xx(room):
    with Service() as service:
        service.status = 503
        a = room.candidate("a", options=service.options())
        a.said("unhealthy")
        time.sleep(0.4)
        assert not room.starts()
        service.status = 204
        room.started(1)
        a.said("healthy")


@test
def unusable_health_url_is_refused(room):
    for url in ("https://127.0.0.1/", "localhost", "http://u@h/"):
        a = room.candidate("a", options=["--health-http", url])
        assert a.wait() == 64


# ---- sidecars ----

class Asker(threading.Thread):
    """Polls one sidecar and records every positive answer as a span of time."""

    def __init__(self, room, name):
        super().__init__(daemon=True)
        self.room, self.name_of, self.spans, self.over = room, name, [], False
        self.start()

    def run(self):
        while not self.over:
            asked = time.monotonic()
            try:
                answer = leader(self.room, self.name_of)
                if answer["leading"]:
                    self.spans.append((asked, asked + answer["valid_ms"] / 1000, answer["token"], self.name_of))
            except (OSError, ValueError):
                pass
            time.sleep(0.002)


def judge(askers):
    for asker in askers:
        asker.over = True
    for asker in askers:
        asker.join()
    spans = sorted(s for a in askers for s in a.spans)
    tokens = [s[2] for s in spans]
    assert tokens == sorted(tokens), "tokens do not grow"
    until = {}
    for begin, end, _, name in spans:
        for other, over in until.items():
            assert other == name or over <= begin, f"{other} was told yes until {over:.3f}, {name} at {begin:.3f}"
        until[name] = max(end, until.get(name, 0))
    return set(until)


def hand_over(end):
    def run(room):
        a = sidecar(room, "a")
        askers = [Asker(room, "a"), Asker(room, "b")]
        wait_for(lambda: askers[0].spans)
        b = sidecar(room, "b")
        b.said("leader")
        end(room, a)
        wait_for(lambda: askers[1].spans)
        time.sleep(0.3)
        a.signal(signal.SIGCONT)
        time.sleep(0.3)
        assert judge(askers) == {"a", "b"}
        assert not room.starts()
    return run


def kill_both(_, a):
    guardian = a.guardian()
    send(a.pid, signal.SIGKILL)
    send(guardian, signal.SIGKILL)


def kill_the_guardian(_, a):
    send(a.guardian(), signal.SIGKILL)
    a.said("released")


for fault, how in {
        "ends": lambda room, a: a.signal(signal.SIGTERM),
        "is_killed": lambda room, a: a.signal(signal.SIGKILL),
        "is_killed_with_its_guardian": kill_both,
        "loses_its_guardian": kill_the_guardian,
        "is_stopped": lambda room, a: a.signal(signal.SIGSTOP)}.items():
    TESTS.append((f"no_two_sidecars_say_yes_when_the_first_{fault}", hand_over(how), None))


@test
def sidecar_steps_down_when_the_store_is_unavailable_and_returns(room):
    a = sidecar(room, "a")
    wait_for(lambda: ready(room, "a"))
    os.rename(room.db, room.db + ".away")
    says_no_in_time(room, "a", time.monotonic())
    os.rename(room.db + ".away", room.db)
    wait_for(lambda: ready(room, "a"))
    assert a.process.poll() is None


@test
def sidecar_releases_leadership_on_a_signal(room):
    a = sidecar(room, "a")
    wait_for(lambda: ready(room, "a"))
    a.signal(signal.SIGTERM)
    assert a.wait() == 128 + signal.SIGTERM
    assert a.events("released") and not a.events("started")


@test
def sidecar_with_once_ends_when_leadership_is_lost(room):
    a = sidecar(room, "a", options=["--once"])
    wait_for(lambda: ready(room, "a"))
    os.rename(room.db, room.db + ".away")
    assert a.wait() == 76


if __name__ == "__main__":
    main(TESTS)
