#!/usr/bin/env python3
"""A random hostile client attacks the status endpoint of `bellwether run --http`, beside a prober.

    run_adversary.py BELLWETHER WITNESS [--seconds S] [--seed N]

The test fails if the supervisor exits or a sanitizer reports, if its memory exceeds the limits of src/run/status/http_server.h, if a probe
waits more than 100 ms longer than the machine itself stood still, and if the candidate loses its leadership. See
docs/concepts/testing.md."""
import http.client
import os
import random
import socket
import sys
import time

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..", "kit"), os.path.join(HERE, "..", "adversary")]
import target  # noqa: E402

os.environ["TMPDIR"] = target.quick_directory()
from grammar import log_uniform  # noqa: E402
from http1 import Http1  # noqa: E402
from http2 import Http2  # noqa: E402
from programs import Player, Program  # noqa: E402
from run_lib import Room, Tap, free_ports  # noqa: E402
from target import MB, CanaryProcess, REPORT, reset_peak, resident, sanitizer_environment  # noqa: E402

SHORT_PROGRAMS = 60
MEMORY = 24 * MB
PATHS = (b"/leader", b"/metrics", b"/events", b"/events", b"/livez", b"/healthz", b"/", b"/leader?x=" + b"y" * 200, b"http://a/livez", b"*", b"/" + b"x" * 300)


class Status(Http1):
    """Requests to the status endpoint, one per connection, in most cases."""

    def __init__(self, r, methods):
        super().__init__(r, methods)
        self.valid = False

    def get(self):
        r = self.r
        count = log_uniform(r, 1, 300) if r.random() < 0.2 else 1
        more = b"".join(b"h%d: %s\r\n" % (i, b"v" * log_uniform(r, 1, 500)) for i in range(r.randrange(4)))
        verb = r.choice([b"GET", b"GET", b"GET", b"HEAD", b"POST", b"BREW", b"G" * 30])
        path = r.choice(PATHS)
        return f"{count} times {verb.decode()} {path[:20].decode()}", (verb + b" " + path + b" HTTP/1.1\r\nHost: localhost\r\n" + more + b"\r\n") * count

    def acts(self):
        return {self.get: 5, self.broken: 1, self.truncated: 1, self.post: 0.5}


class Attack:
    def __init__(self, bellwether, witness, seed):
        self.bellwether, self.witness, self.seed = bellwether, witness, seed
        self.count, self.sum = 0, {}

    def sync(self):
        link = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
        try:
            link.request("GET", "/livez")
            link.getresponse().read()
        except (OSError, http.client.HTTPException):
            pass
        finally:
            link.close()

    def run(self, programs, until=None):
        """Returns None, or what failed."""
        os.environ.update(sanitizer_environment())
        self.port, = free_ports(1)
        with Room(self.bellwether, self.witness, ttl="30s") as room:
            self.candidate = room.candidate("a", options=["--http", f"127.0.0.1:{self.port}"])
            self.candidate.said("http", 60)
            room.started(1, 60)
            canary = CanaryProcess(self.port, self.candidate.pid, ["status"])
            player = Player(lambda: socket.create_connection(("127.0.0.1", self.port), 5), self.sync)
            try:
                why = self.attack(programs, until, canary, player)
                player.close()
            finally:
                self.sum = canary.close()
            report = REPORT.search(self.candidate.text())
            if report:
                why = self.candidate.text()[report.start():][:6000]
            if not why and len(room.starts()) != 1:
                why = f"the candidate lost its leadership: {room.starts()}"
            return why

    def attack(self, programs, until, canary, player):
        base = resident(self.candidate.pid)[0]
        for number in programs:
            if until and time.monotonic() > until:
                return None
            program = Program(self.seed, number, kinds=(Status, Status, Status, Http1, Http2))
            reset_peak(self.candidate.pid)
            player.play(program, lambda: self.candidate.process.poll() is None)
            self.count += 1
            why = None
            if self.candidate.process.poll() is not None:
                why = f"the supervisor ended with {self.candidate.process.returncode}\n{self.candidate.text()[-4000:]}"
            elif canary.bad:
                why = f"the prober: {canary.bad[0]}"
            elif resident(self.candidate.pid)[1] > base + MEMORY:
                why = f"{resident(self.candidate.pid)[1] / MB:.0f} MB resident, {base / MB:.0f} before"
            if why:
                return f"{why}\nrepeat: run_adversary.py BELLWETHER WITNESS --seed {self.seed}\n{program.script()[:6000]}"
        return None


def main():
    tap, words = Tap(), sys.argv
    seconds = float(words[words.index("--seconds") + 1]) if "--seconds" in words else None
    given = words[words.index("--seed") + 1] if "--seed" in words else None
    seeds = [given] if given else [str(random.SystemRandom().randrange(1 << 32))] if seconds else ["1", str(random.SystemRandom().randrange(1 << 32))]
    for seed in seeds:
        attack, begun = Attack(words[1], words[2], seed), time.monotonic()
        why = attack.run(range(1 << 30 if seconds else SHORT_PROGRAMS), seconds and begun + seconds)
        tap.comment(f"seed {seed}: {attack.count} programs in {time.monotonic() - begun:.1f} s; the prober: {attack.sum}")
        tap.result(not why, "status_endpoint_survives_random_clients", why or "")
    sys.exit(tap.end())


if __name__ == "__main__":
    main()
