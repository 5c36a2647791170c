"""Programs of an adversary: what each of its connections sends, reads and leaves, made from a seed, and their execution.

A program uses a few kinds of calls and a few kinds of actions, drawn anew for each program ("swarm testing"), and repeats them a
number of times that is log-uniform. So every magnitude of every flood occurs, also in combination."""
import errno
import random
import select
import socket
import struct
import time

from grammar import METHODS, STORES, TAKES_OVER, log_uniform
from http1 import Http1
from http2 import Http2
from responses import Http1Responses, Http2Responses

SEND_S = 0.3    # time for the server to take further bytes; it may stop reading from an adversary
SETTLE_S = 3.0  # time to read the remaining responses
UNREAD_S = 0.03  # pause between two looks at a server that has unread responses: it rests after each large one
GROWTH, GROWTH_MAX = 1 << 20, 1 << 30  # bytes: less is not growth; more is not waited for
LINGERING_MAX = 60
AHEAD_PART = 0.2  # of the programs


class Program:
    """The steps of all connections in order: (connection, text, kind, argument)."""

    def __init__(self, seed, number, kinds=(Http2, Http2, Http1)):
        self.seed, self.number = seed, number
        self.r = r = random.Random(f"{seed}/{number}")
        self.methods = self.choose_methods()
        self.count = r.choice([1, 1, 1, 2, 3, 5, log_uniform(r, 1, 40)])
        self.reads = [r.choice(["all", "all", "none", "none", "slow"]) for _ in range(self.count)]
        if r.random() < 0.3:
            self.reads = [self.reads[0]] * self.count
        self.writers = [r.choice(kinds)(r, self.methods) for _ in range(self.count)]
        self.small = r.random() < 0.1  # sockets with small buffers
        self.lingers = r.random() < 0.1
        self.chosen = {kind: self.choose_acts(kind) for kind in sorted(set(kinds), key=lambda kind: kind.__name__)}
        self.bytes = 0
        self.steps = []
        for number, writer in enumerate(self.writers):
            self.add(number, "begin", "send", writer.begin())
        for _ in range(log_uniform(r, 3, 60)):
            self.draw()
        if Http1 in kinds:
            self.send_ahead()

    def send_ahead(self):
        """In a part of the programs, one more connection sends many requests ahead of the responses. It has its own random numbers, so
        the other connections do the same as without it."""
        r = random.Random(f"{self.seed}/{self.number}/ahead")
        if r.random() >= AHEAD_PART:
            return
        usable = [m for m in METHODS if m.json_path and m.name not in TAKES_OVER]
        reads = [m for m in usable if m.name == "Range"]
        writer = Http1(r, [r.choice(reads if r.random() < 0.5 else usable)])
        self.writers.append(writer)
        self.reads.append(r.choice(["all", "none", "slow"]))
        self.count += 1
        for _ in range(log_uniform(r, 1, 8)):
            text, out = writer.ahead()
            self.add(self.count - 1, text, "send", out)

    def choose_methods(self):
        r = self.r
        usable = [m for m in METHODS if m.name not in TAKES_OVER]
        heavy = [m for m in usable if m.streams or m.name in STORES] + 4 * [m for m in usable if m.name in ("Range", "Watch")]
        count = r.choice([1, 1, 2, 2, 3, 4, len(usable)])
        return [r.choice(heavy if r.random() < 0.5 else usable) for _ in range(count)]

    def choose_acts(self, kind):
        """Which actions this program uses, and how often: a factor for each name."""
        r = self.r
        names = sorted(act.__name__ for act in kind(random.Random(1), self.methods).acts()) + ["broken", "truncated", "trailers"]
        return {name: r.choice([0, 0, 1, 1, 1, 5]) for name in sorted(set(names))}

    def add(self, connection, text, kind, argument):
        self.steps.append((connection, text, kind, argument))
        self.bytes += len(argument) if kind == "send" else 0

    def draw(self):
        """One more step."""
        r, connection = self.r, self.r.randrange(self.count)
        writer = self.writers[connection]
        if r.random() < 0.08:
            self.add(connection, "pause", "pause", r.choice([0.001, 0.005, 0.02]))
            return
        if r.random() < 0.04:
            self.add(connection, "disconnect", "close", r.choice(["close", "reset", "half"]))
            self.writers[connection] = type(writer)(r, self.methods)
            self.add(connection, "begin", "send", self.writers[connection].begin())
            return
        factors, acts = self.chosen[type(writer)], writer.acts()
        weights = [weight * factors.get(act.__name__, 1) for act, weight in acts.items()]
        act = r.choices(list(acts), weights)[0] if any(weights) else next(iter(acts))
        text, out = act()
        if self.bytes < 8 << 20:
            self.add(connection, text, "slow" if len(out) < 400 and r.random() < 0.02 else "send", out)

    def script(self):
        lines = [f"program {self.number} of seed {self.seed}: {self.count} connections, "
                 f"{', '.join(sorted({m.name for m in self.methods}))}"]
        for number, (writer, reads) in enumerate(zip(self.writers, self.reads)):
            lines.append(f"  connection {number}: {type(writer).__name__}, reads {reads}{', valid calls only' if writer.valid else ''}")
        for connection, text, kind, argument in self.steps:
            size = f" ({len(argument)} bytes)" if kind == "send" else f" ({argument})" if kind in ("pause", "close") else ""
            lines.append(f"  {connection}: {text}{size}")
        return "\n".join(lines)


class Connection:
    """One socket of the adversary. It gives up on bytes that the server does not take."""

    def __init__(self, connect, reads, kind, small=False):
        self.socket, self.reads, self.stuck, self.closed, self.ended = connect(), reads, False, False, False
        if small:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        self.socket.setblocking(False)
        self.responses = Http1Responses() if issubclass(kind, Http1) else Http2Responses()
        self.read_bytes = 0

    def receive(self, most=1 << 30):
        """Reads what has arrived. Returns the number of bytes."""
        total = 0
        while total < most and not self.ended:
            try:
                got = self.socket.recv(min(1 << 18, most - total))
            except (BlockingIOError, InterruptedError):
                break
            except OSError as error:
                self.end(error.errno != errno.ECONNRESET)
                break
            if not got:
                self.end(True)
                break
            total += len(got)
            back = self.responses.take(got) if self.reads == "all" else b""
            if back and not self.stuck and not self.closed:
                self.push(back)
        self.read_bytes += total
        return total

    def end(self, orderly):
        self.ended = True
        if orderly and self.reads == "all":
            self.responses.end()

    def push(self, data):
        """Sends without reading; what does not fit is lost, so nothing more may follow."""
        try:
            self.stuck = self.socket.send(data) < len(data)
        except OSError:
            self.stuck = True

    def send(self, data):
        view, until = memoryview(data), time.monotonic() + SEND_S
        while view and not self.stuck and not self.ended:
            try:
                view = view[self.socket.send(view[:1 << 18]):]
                until = time.monotonic() + SEND_S
            except (BlockingIOError, InterruptedError):
                if self.reads == "all":
                    self.receive()
                select.select([self.socket], [self.socket], [], 0.05) if self.reads == "all" else select.select([], [self.socket], [], 0.05)
                self.stuck = time.monotonic() > until
            except OSError:
                self.stuck = True
        if self.reads == "all":
            self.receive()
        elif self.reads == "slow":
            self.receive(100)

    def close(self, how="close"):
        if how == "reset":
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        if how == "half":
            try:
                self.socket.shutdown(socket.SHUT_WR)
            except OSError:
                pass
            self.receive()
        self.closed = True
        self.socket.close()


class Player:
    """Executes programs against one server. sync() returns when the server has been through its event loop, however slow the machine
    is. used() is the memory that the server uses."""

    def __init__(self, connect, sync, used=lambda: 0):
        self.connect, self.sync, self.used, self.lingering, self.failures = connect, sync, used, [], []

    def open(self, program, number):
        return Connection(self.connect, program.reads[number], type(program.writers[number]), program.small)

    def play(self, program, alive=lambda: True):
        try:
            connections = [self.open(program, n) for n in range(program.count)]
        except OSError:
            return
        for connection, _, kind, argument in program.steps:
            if not alive():
                break
            self.step(program, connections, connection, kind, argument)
        self.settle(program, connections)

    def step(self, program, connections, number, kind, argument):
        at = connections[number]
        if kind == "send":
            at.send(argument)
        elif kind == "slow":
            for byte in range(0, len(argument), 50):
                at.send(argument[byte:byte + 50])
                time.sleep(0.001)
        elif kind == "pause":
            time.sleep(argument)
            self.sync()
            self.read_all(connections)
        else:
            at.close(argument)
            try:
                connections[number] = self.open(program, number)
            except OSError:
                pass

    @staticmethod
    def read_all(connections):
        return sum(at.receive() for at in connections if at.reads == "all" and not at.ended and not at.closed)

    def settle(self, program, connections):
        """Reads until nothing more comes and the server prepares no more unread responses, judges the responses, and closes the
        connections."""
        quiet, before, until = 0, self.used(), time.monotonic() + SETTLE_S
        most, unread = before, any(at.reads != "all" for at in connections)
        while quiet < 3 and time.monotonic() < until:
            time.sleep(UNREAD_S if unread else 0)
            self.sync()
            used = self.used()
            grown = most + GROWTH < used < before + GROWTH_MAX
            until = time.monotonic() + SETTLE_S if grown else until
            most = max(most, used)
            quiet = 0 if self.read_all(connections) or grown else quiet + 1
        for at, writer in zip(connections, program.writers):
            if at.reads == "all" and writer.clean and writer.valid and not at.stuck and at.responses.fault:
                self.failures.append(at.responses.fault)
        if program.lingers:
            self.lingering += connections
            for at in self.lingering[:-LINGERING_MAX]:
                at.close()
            del self.lingering[:-LINGERING_MAX]
        else:
            for at in connections:
                at.close(program.r.choice(["close", "reset"]) if at.reads != "all" else "close")

    def close(self):
        for at in self.lingering:
            at.close()
        self.lingering = []
