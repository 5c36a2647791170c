#!/usr/bin/env python3
"""Many clients, slow clients, and more work than the service can do: lease holders keep their leases.

    serve_crowds.py BELLWETHER WITNESS CONFORMANCE LOAD [--long] [NAME...]

LOAD is bench/serve_load.c. The short form holds 1,000 idle connections and 200 watchers; --long holds 10,000
and 1,000."""
import json
import os
import re
import resource
import select
import socket
import subprocess
import sys
import threading
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "kit"))
from run_lib import wait_for  # noqa: E402
from serve_lib import Nodes, b64  # noqa: E402
from serve_wire import GRANT, KEEP_ALIVE, WATCH, Wire, fields, frame, literal, read_fields, varint  # noqa: E402
from store_lib import TIMEOUT_S, Place, Skip, Suite  # noqa: E402

LONG = "--long" in sys.argv
sys.argv = [word for word in sys.argv if word != "--long"]
LOAD = os.path.abspath(sys.argv.pop(4))
SMALL = os.environ.get("TEST_SIZE") == "small"
CONNECTIONS, WATCHERS = (10000, 1000) if LONG else (300, 50) if SMALL else (1000, 200)
suite = Suite()


def watch_message(key):
    """WatchRequest: create_request (1) with its key (1)."""
    inner = b"\x0a" + varint(len(key)) + key
    return b"\x0a" + varint(len(inner)) + inner


# ---- slow and leaderless streams ----

@suite.test
def incomplete_request_is_reset_and_its_connection_continues():
    with Place("slow") as place:
        nodes = Nodes(place, suite.bellwether)
        wire = Wire(nodes.ports[0])
        half = wire.call("/etcdserverpb.KV/Put")
        wire.socket.sendall(frame(0, 0, half, b"\0\0\0\0\x64half"))
        silent = wire.call("/etcdserverpb.KV/Put")  # a head without a body
        idle = wire.call(KEEP_ALIVE)                # a stream may send at any time
        lease = wire.grant(60)
        assert wire.end(half) == 8 and wire.end(silent) == 8  # CANCEL
        assert wire.keep_alive(lease) == 60 and idle not in wire.ended
        wire.close()


@suite.test
def endless_head_ends_its_connection():
    with Place("head") as place:
        nodes = Nodes(place, suite.bellwether)
        wire = Wire(nodes.ports[0])
        begun = time.monotonic()
        wire.socket.sendall(frame(1, 0, 1, literal(":method", "POST")))  # no END_HEADERS
        try:
            while True:
                wire.read_frame()  # any response would interrupt the head
        except ConnectionError:
            pass
        assert time.monotonic() - begun > 10, "hung up on for another reason"
        assert nodes.is_healthy(nodes.ports[0])


@suite.test
def streams_that_require_a_leader_end_without_one_and_others_stay():
    with Place("leaderless") as place:
        nodes = Nodes(place, suite.bellwether, 3)
        wire = Wire(nodes.ports[0])
        wants = [wire.call(WATCH, watch_message(b"k"), False, hasleader="true"), wire.call(KEEP_ALIVE, None, hasleader="true")]
        other = wire.call(WATCH, watch_message(b"k"), False)
        assert wire.message(wants[0]) and wire.message(other)  # created
        plain = nodes.stream("/v3/watch", {"create_request": {"key": b64("k")}})
        assert plain.line()["result"]["created"]
        for server in nodes.servers[1:]:
            server.kill()
        for stream in wants:
            assert wire.end(stream) == 0
        assert other not in wire.ended
        for server in nodes.servers[1:]:
            server.start()
        wait_for(lambda: nodes.is_healthy(nodes.ports[0]), TIMEOUT_S)
        nodes.post("/v3/kv/put", {"key": b64("k"), "value": ""})
        assert plain.line()["result"]["events"] and wire.message(other)
        plain.close()
        wire.close()


# ---- clients that break the protocol ----

@suite.test
def second_message_on_a_unary_call_ends_the_call_and_not_the_server():
    with Place("second") as place:
        nodes = Nodes(place, suite.bellwether)
        name = b"\x0a\x01e"
        wire = Wire(nodes.ports[0])
        assert wire.message(wire.call("/v3electionpb.Election/Campaign", name))  # becomes leader
        for path in ("/v3electionpb.Election/Campaign", "/v3lockpb.Lock/Lock", "/etcdserverpb.KV/Range"):
            calls = [wire.call(path, name, False) for _ in range(20)]
            wire.grant(60)  # by now they wait in the queue
            for call in calls:
                wire.send(call, name)
            for call in calls:
                wire.socket.sendall(frame(3, 0, call, b"\0\0\0\x08"))
        nodes.post("/v3/kv/deleterange", {"key": b64("e/"), "range_end": b64("e0")})  # wakes any call that still waits
        assert nodes.is_healthy(nodes.ports[0]) and wire.grant(60)
        wire.close()


def fill(nodes, count, size):
    for i in range(count):
        assert nodes.post("/v3/kv/put", {"key": b64(f"k{i}"), "value": b64("v" * size)})[0] == 200


@suite.test
def responses_are_not_built_for_a_client_that_does_not_read():
    with Place("unread") as place:
        nodes = Nodes(place, suite.bellwether)
        fill(nodes, 100, 100000)
        before = metric(nodes, "process_resident_memory_bytes")
        wire = Wire(nodes.ports[0])
        wire.socket.sendall(frame(4, 0, 0, b"\0\x04\0\0\0\0"))  # windows of zero
        calls = [wire.call("/etcdserverpb.KV/Range", b"\x0a\x01k\x12\x01l") for _ in range(100)]
        other = Wire(nodes.ports[0])
        assert other.grant(60)
        grown = metric(nodes, "process_resident_memory_bytes") - before
        print(f"# 100 unread responses of 10 MB: {grown / 1e6:.0f} MB resident", flush=True)
        assert grown < 200e6, grown
        wire.socket.sendall(frame(4, 0, 0, b"\0\x04\x7f\xff\xff\xff") + frame(8, 0, 0, b"\x7f\xfe\0\0"))
        got = 0
        while got < len(calls) * 10000000:  # it finally reads, and gets everything
            more = len(wire.socket.recv(1 << 20))
            assert more, got
            got += more
        wire.close()


@suite.test
def json_response_over_32_mib_arrives_complete():
    with Place("large") as place:
        nodes = Nodes(place, suite.bellwether)
        fill(nodes, 35, 1000000)
        status, found = nodes.post("/v3/kv/range", {"key": b64("k"), "range_end": b64("l")})[:2]
        assert status == 200
        assert [len(kv["value"]) for kv in found["kvs"]] == [1333336] * 35


@suite.test
def slow_reader_gets_the_last_response_complete():
    with Place("close") as place:
        nodes = Nodes(place, suite.bellwether)
        fill(nodes, 12, 1000000)
        body = json.dumps({"key": b64("k"), "range_end": b64("l")}).encode()
        with socket.socket() as link:
            link.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
            link.settimeout(TIMEOUT_S)
            link.connect(("127.0.0.1", nodes.ports[0]))
            link.sendall(b"POST /v3/kv/range HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
            got = 0
            while got < 10000000:  # the rest is in the server's queue
                got += len(link.recv(65536))
            time.sleep(5)
            while more := len(link.recv(65536)):
                got += more
        assert got > 12 * 1333336, got


# ---- crowds ----

def room_for(count):
    """File descriptors for both sides."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < count + 200:
        raise Skip(f"{count} connections need more descriptors than {hard}")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(count + 200, resource.getrlimit(resource.RLIMIT_NOFILE)[0]), hard))


def metric(nodes, name):
    found = re.search(rf"^{name} (\S+)", nodes.ask("GET", "/metrics")[1].decode(), re.M)
    return float(found.group(1))


@suite.test
def idle_connections_and_watchers_do_not_disturb_other_clients():
    room_for(CONNECTIONS + WATCHERS)
    with Place("crowd") as place:
        nodes = Nodes(place, suite.bellwether)
        before = metric(nodes, "process_resident_memory_bytes")
        idle = [Wire(nodes.ports[0]) for _ in range(CONNECTIONS)]
        watchers = [Wire(nodes.ports[0]) for _ in range(WATCHERS)]
        streams = [wire.call(WATCH, watch_message(b"crowd"), False) for wire in watchers]
        for wire, stream in zip(watchers, streams):
            assert wire.message(stream)
        begun = time.monotonic()
        nodes.post("/v3/kv/put", {"key": b64("crowd"), "value": ""})
        for wire, stream in zip(watchers, streams):
            assert wire.message(stream)
        reported = time.monotonic() - begun
        for wire in idle:  # each is still connected and answers
            wire.socket.sendall(frame(6, 0, 0, b"12345678"))
        for wire in idle:
            kind = None
            while kind != (6, 1):
                kind = wire.read_frame()[:2]
        grown = metric(nodes, "process_resident_memory_bytes") - before
        print(f"# {CONNECTIONS} idle connections and {WATCHERS} watchers: {grown / (CONNECTIONS + WATCHERS):.0f} bytes resident "
              f"each; all watchers told within {reported * 1000:.0f} ms", flush=True)
        for wire in idle + watchers:
            wire.close()


# ---- more work than can be done ----

class Keeper(threading.Thread):
    """Keeps leases alive on one connection and records the answers."""

    def __init__(self, port, count, ttl_s):
        super().__init__()
        self.wire = Wire(port)
        calls = [self.wire.call(GRANT, fields(f1=ttl_s)) for _ in range(count)]
        self.leases = [read_fields(self.wire.message(call))[2] for call in calls]
        self.stream = self.wire.call(KEEP_ALIVE, None)
        self.stop, self.lost, self.slowest, self.rounds = threading.Event(), set(), 0.0, 0
        self.start()

    def run(self):
        while not self.stop.is_set():
            begun = time.monotonic()
            for lease in self.leases:
                self.wire.send(self.stream, fields(f1=lease))
            for _ in self.leases:
                message = self.wire.message(self.stream)
                if message is None:
                    self.lost.add("the stream ended")
                    return
                answer = read_fields(message)
                if not answer.get(3):
                    self.lost.add(answer[2])
            self.slowest = max(self.slowest, time.monotonic() - begun)
            self.rounds += 1
            self.stop.wait(0.5)


def load(nodes, clients, connections, seconds):
    return subprocess.Popen([LOAD, "cycles", f"127.0.0.1:{nodes.ports[nodes.leader()]}", str(clients), str(connections), str(seconds)],
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@suite.test
def leases_are_renewed_under_five_times_the_load():
    """A thousand clients in a closed loop saturate the service; this test uses five times as many."""
    seconds = 20 if LONG else 2 if SMALL else 4
    with Place("overload") as place:
        nodes = Nodes(place, suite.bellwether, 3)
        keepers = [Keeper(port, 100, 5) for port in nodes.ports]
        loads = [load(nodes, 1000, 100, seconds) for _ in range(5)]
        said = [process.communicate(timeout=600) for process in loads]
        for keeper in keepers:
            keeper.stop.set()
        for keeper in keepers:
            keeper.join()
        for text, error in said:
            print(f"# {text.strip()} {error.strip()}", flush=True)
        print("# renewals: " + ", ".join(f"{k.rounds} rounds of {len(k.leases)}, the slowest {k.slowest * 1000:.0f} ms"
                                         for k in keepers), flush=True)
        assert not any(keeper.lost for keeper in keepers), [keeper.lost for keeper in keepers]


suite.main(at_once=4)
