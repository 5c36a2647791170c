#!/usr/bin/env python3
"""A well-behaved client beside an adversary. It holds a lease, reads and writes, campaigns, and asks for /health.

    canary.py PORT PID             on the service
    canary.py status PORT PID      on the status endpoint of `run` and `peer`

It runs until its standard input ends, and writes one JSON object per line: {"slow": ...} when an operation took more than LIMIT_S
plus the time for which the machine itself stood still, {"lost": ...} when an operation failed, and {"sum": ...} at the end. The
machine's own part is the longest stall that kit/stall.py measured, and the time for which the threads of the server and of this
process were ready to run but had no CPU (/proc/PID/schedstat)."""
import http.client
import json
import os
import socket
import sys
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.dont_write_bytecode = True
sys.path[:0] = [os.path.join(HERE, "..", "kit"), os.path.join(HERE, "..", "serve")]
import stall  # noqa: E402
from serve_wire import GRANT, KEEP_ALIVE, Wire, fields, read_fields, varint  # noqa: E402

LIMIT_S = float(os.environ.get("CANARY_LIMIT_S", "0.1"))
PAUSE_S = 0.004
TIMEOUT_S = 4    # requests that take longer time out in the service; their time is judged
REFUSED_MAX = 3  # in a row; a damaged request of the adversary may have deleted our key, which it is allowed to do
TTL_S = 30
KEY, ELECTION = b"\x01canary", b"\x01canary-election"


class Refused(AssertionError):
    """The service answered with an error."""


def delayed(pid):
    """Seconds for which the threads of a process waited for a CPU."""
    total = 0
    for task in os.listdir(f"/proc/{pid}/task"):
        try:
            with open(f"/proc/{pid}/task/{task}/schedstat", encoding="utf-8") as file:
                total += int(file.read().split()[1])
        except OSError:
            pass
    return total / 1e9


def main_thread(pid):
    """CPU seconds of the first thread of a process, and seconds for which it waited for a CPU."""
    with open(f"/proc/{pid}/schedstat", encoding="utf-8") as file:
        return [int(word) / 1e9 for word in file.read().split()[:2]]


def chunk(number, data):
    return varint(number << 3 | 2) + varint(len(data)) + data


class Canary:
    """A client of the service."""

    def __init__(self, port):
        self.health = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
        self.wire = Wire(port)
        self.wire.socket.settimeout(120)
        self.wire.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.lease = read_fields(self.ask(GRANT, fields(f1=TTL_S)))[2]
        self.keeper = self.wire.call(KEEP_ALIVE, None)

    def ask(self, path, message):
        """The response of a unary call; None: an error status."""
        return self.wire.message(self.wire.call(path, message))

    @staticmethod
    def must(response, why):
        if response is None:
            raise Refused(why)

    def keeps_its_lease(self):
        self.wire.send(self.keeper, fields(f1=self.lease))
        response = self.wire.message(self.keeper)
        assert response is not None, "the stream of keep-alives ended"
        assert read_fields(response).get(3), "the lease is gone"

    def puts(self):
        self.must(self.ask("/etcdserverpb.KV/Put", chunk(1, KEY) + chunk(2, b"value")), "a put was refused")

    def gets(self):
        self.must(self.ask("/etcdserverpb.KV/Range", chunk(1, KEY)), "a get was refused")

    def leads(self):
        response = self.ask("/v3electionpb.Election/Campaign", chunk(1, ELECTION) + fields(f2=self.lease) + chunk(3, b"canary"))
        self.must(response, "a campaign was refused")
        leader = read_fields(response)[2]
        self.must(self.ask("/v3electionpb.Election/Resign", chunk(1, leader)), "a resignation was refused")

    def is_healthy(self):
        self.health.request("GET", "/health")
        response = self.health.getresponse()
        response.read()
        assert response.status == 200, f"/health says {response.status}"

    def operations(self):
        return [self.keeps_its_lease, self.puts, self.gets, self.leads, self.is_healthy]


class StatusCanary:
    """A prober of the status endpoint: one connection per request."""

    def __init__(self, port):
        self.port = port

    def ask(self, path):
        link = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
        try:
            link.request("GET", path)
            response = link.getresponse()
            body = response.read()
        finally:
            link.close()
        assert response.status in (200, 503), f"{path} says {response.status}"
        return body

    def lives(self):
        self.ask("/livez")

    def is_ready(self):
        self.ask("/healthz")

    def names_the_leader(self):
        json.loads(self.ask("/leader"))

    def operations(self):
        return [self.lives, self.is_ready, self.names_the_leader]


def say(**what):
    print(json.dumps(what), flush=True)


def measure(operation, pid, times, refused):
    """Performs an operation and judges its time in two ways. The time on the clock counts without what the machine took. The CPU time
    of the server, while this process was ready to go on, counts on a busy machine, too: the server was at work for others."""
    watch, waited, own, cpu = stall.Watch(), delayed(pid), main_thread("self")[1], main_thread(pid)[0]
    begun = time.monotonic()
    try:
        operation()
        refused[:] = []
    except Refused as why:
        refused.append(str(why))
        if len(refused) == REFUSED_MAX and time.monotonic() - begun < TIMEOUT_S:
            raise
    took = time.monotonic() - begun
    times.append(took)
    if took > LIMIT_S:
        cpu, own = main_thread(pid)[0] - cpu, main_thread("self")[1] - own
        machine = watch.longest() + delayed(pid) - waited + own
        if took > LIMIT_S + machine or cpu > LIMIT_S + own:
            say(slow=operation.__name__, seconds=round(took, 3), machine=round(machine, 3), server_cpu=round(cpu, 3), begun=begun)


def main():
    kind = StatusCanary if sys.argv[1] == "status" else Canary
    port, pid = int(sys.argv[-2]), sys.argv[-1]
    canary, times, refused, stop = kind(port), [], [], threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), stop.set()), daemon=True).start()
    say(ready=True)
    begun = time.monotonic()
    try:
        while not stop.is_set():
            for operation in canary.operations():
                measure(operation, pid, times, refused)
                stop.wait(PAUSE_S)
    except Exception as error:  # noqa: BLE001 whatever ends the canary is a failure of the service
        say(lost=f"{type(error).__name__}: {error}", after=round(time.monotonic() - begun, 3), begun=time.monotonic())
    times.sort()
    at = {f"p{p}": round(1000 * times[min(len(times) - 1, int(len(times) * p / 100))], 2) for p in (50, 99)} if times else {}
    say(sum=dict(at, operations=len(times), max=round(1000 * times[-1], 2) if times else 0))


if __name__ == "__main__":
    main()
