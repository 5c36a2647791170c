#!/usr/bin/env python3
"""A random hostile client attacks `bellwether serve` over HTTP/2 and HTTP/1.1, beside a well-behaved client.

    serve_adversary.py BELLWETHER [--seconds S] [--seed N] [--world NAME] [--programs FROM..TO]

The calls come from the grammar of the service (tests/system/adversary). The test fails if the server exits or a sanitizer reports,
if a response to a valid call is cut off, if memory grows with what a client sends, if something is left of clients that are gone, or
if an operation of the well-behaved client takes more than 100 ms longer than the machine itself stood still. A failure prints the
programs that ran at that moment and the command that repeats them.

--seconds attacks for so long, in rounds with changing seeds and worlds. A world is the content of the server before the attack."""
import http.client
import os
import random
import socket
import sys
import time

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..", "kit"), os.path.join(HERE, "..", "adversary")]
os.environ["TMPDIR"] = os.environ.get("ADVERSARY_DIR") or __import__("target").quick_directory()
import stall  # noqa: E402
from growth import judge_kind, kinds  # noqa: E402
from programs import Player, Program  # noqa: E402
from run_lib import Tap  # noqa: E402
from serve_lib import Nodes, b64  # noqa: E402
from store_lib import Place  # noqa: E402
from target import MB, CanaryProcess, Target, reset_peak, resident, sanitizer_environment, wait_until  # noqa: E402

# Keys before the attack, their size, and the number of transactions that overwrite 100 small keys.
WORLDS = {"empty": (0, 0, 0), "many": (120, 100000, 0), "large": (36, 1000000, 0), "old": (10, 1000, 100)}
SHORT_PROGRAMS = 40
SHORT_KINDS = 12
ROUND_PROGRAMS = 400
SCRIPT_LINES = 60
PER_CONNECTION = 72 * MB  # what the limits of src/serve/front/front.h permit: unread responses and incomplete requests
SLACK = 96 * MB
LIMIT_S = 0.1  # what a well-behaved client may wait for others
SANITIZED = 3  # sanitizers multiply memory
SANITIZED_TIME = 6
TRIES, STALL_S = 3, 0.1  # a round whose machine stalled is repeated
# The service builds a response in one turn: 36 MB as JSON take about 100 ms, and a quiet machine is faster than a busy one.
LARGER = {"many": 2, "large": 3}


def sanitized(bellwether):
    with open(bellwether, "rb") as file:
        return b"__asan_init" in file.read()


class Round:
    """One server, one canary, and the programs FROM..TO of a seed."""

    def __init__(self, bellwether, seed, world):
        self.bellwether, self.seed, self.world = bellwether, seed, world
        self.factor, slower = (SANITIZED, SANITIZED_TIME) if sanitized(bellwether) else (1, 1)
        self.limit_s = LIMIT_S * slower * LARGER.get(world, 1)
        self.played, self.sum = [], {}

    def sync(self):
        """One request and its response; returns nothing if the server is gone."""
        try:
            self.link.request("GET", "/metrics")
            return self.link.getresponse().read().decode()
        except (OSError, http.client.HTTPException):
            self.link.close()
            return ""

    def used(self):
        """The memory that the server uses now; 0 if it has ended."""
        try:
            return resident(self.target.pid)[0]
        except (OSError, AttributeError):
            return 0

    def metric(self, name):
        text = self.sync() or self.nodes.ask("GET", "/metrics")[1].decode()
        return next(float(line.split()[1]) for line in text.splitlines() if line.startswith(name + " "))

    def fill(self):
        count, size, changes = WORLDS[self.world]
        for number in range(count):
            self.nodes.post("/v3/kv/put", {"key": b64(f"\x02{number}"), "value": b64("v" * size)})
        puts = [{"request_put": {"key": b64(f"\x03{number}"), "value": b64("v")}} for number in range(100)]
        for _ in range(changes):
            self.nodes.post("/v3/kv/txn", {"success": puts})

    def run(self, programs, until=None):
        """Returns None, or what failed. `programs`: their numbers, or kinds of growth.py."""
        os.environ.update(sanitizer_environment())
        with Place("adversary") as place:
            self.nodes = Nodes(place, self.bellwether)
            self.target = Target(self.nodes.servers[0])
            self.fill()
            os.environ["CANARY_LIMIT_S"] = str(self.limit_s)
            self.canary = CanaryProcess(self.nodes.ports[0], self.target.pid)
            own = os.getpriority(os.PRIO_PROCESS, 0)
            os.setpriority(os.PRIO_PROCESS, 0, max(own, 10))  # the server and the well-behaved client come first
            self.link = http.client.HTTPConnection("127.0.0.1", self.nodes.ports[0], timeout=120)
            self.player = Player(lambda: socket.create_connection(("127.0.0.1", self.nodes.ports[0]), 5), self.sync, self.used)
            try:
                why = self.attack(programs, until)
                self.player.close()
                why = why or self.leftovers()
            finally:
                self.sum = self.canary.close()
            why = why or self.judge(None)
            return self.target.stop() or why

    def attack(self, programs, until):
        for number in programs:
            if until and time.monotonic() > until:
                return None
            if isinstance(number, tuple):
                why = judge_kind(self, *number) or self.try_judge(None)
                if why:
                    return why
                continue
            program = Program(self.seed, number)
            reset_peak(self.target.pid)
            begun = time.monotonic()
            self.player.play(program, self.target.is_alive)
            self.played.append((begun, time.monotonic(), program.number))
            why = self.try_judge(program)
            if why:
                return f"{why}\n{self.scripts()}"
        return None

    def try_judge(self, program):
        try:
            return self.judge(program)
        except (OSError, http.client.HTTPException) as error:
            wait_until(lambda: not self.target.is_alive(), 5)  # a sanitizer writes its report first
            return self.target.fault() or f"the server does not answer: {error}"

    def judge(self, program):
        why = self.target.fault()
        if why or self.player.failures:
            return why or self.player.failures[0]
        if self.canary.bad:
            self.bad = self.canary.bad[0]
            return f"the well-behaved client: {self.bad}"
        if program is None:
            return None
        peak = resident(self.target.pid)[1]
        most = self.most(program.count + len(self.player.lingering))
        return f"{peak / MB:.0f} MB resident, expected at most {most / MB:.0f}" if peak > most else None

    def most(self, connections):
        """The most memory that the server may use: its content, a copy of the largest response, and the limits of each connection."""
        content = self.metric("bellwether_content_bytes")
        return self.factor * (self.target.base + 3 * content + SLACK + connections * PER_CONNECTION)

    def leftovers(self):
        """What is left of clients that are gone."""
        for name, most in (("bellwether_connections", 3), ("etcd_debugging_mvcc_watcher_total", 0), ("etcd_server_proposals_pending", 2)):
            if not wait_until(lambda: self.metric(name) <= most, 30):
                return f"after all its clients have gone, the server shows {name} {self.metric(name):.0f}"
        return None

    def drain(self):
        wait_until(lambda: self.metric("bellwether_connections") <= 3, 30)

    def scripts(self):
        """The programs that ran when the well-behaved client waited, or the last ones."""
        bad = getattr(self, "bad", None)
        if bad and "seconds" in bad:
            end = bad["begun"] + bad["seconds"]
            chosen = [n for begun, ended, n in self.played if begun < end and ended > bad["begun"]][:2]
        else:
            chosen = [n for _, _, n in self.played[-2:]]
        lines = [f"repeat: serve_adversary.py BELLWETHER --seed {self.seed} --world {self.world} --programs {chosen[0] if chosen else 0}..{chosen[-1] if chosen else 0}"]
        for number in chosen:
            text = Program(self.seed, number).script().splitlines()
            lines += text[:SCRIPT_LINES] + ([f"  ... {len(text) - SCRIPT_LINES} more lines"] if len(text) > SCRIPT_LINES else [])
        return "\n".join(lines)


def option(name, default=None):
    return sys.argv[sys.argv.index(name) + 1] if name in sys.argv else default


def one_round(tap, bellwether, seed, world, programs, until=None):
    begun, random_ones = time.monotonic(), isinstance(programs, range)
    for _ in range(TRIES):
        watch = stall.Watch()
        attack = Round(bellwether, seed, world)
        why = attack.run(programs, until)
        late = why and why.startswith("the well-behaved client") and watch.longest() >= STALL_S
        if not late:  # a server that is slow by itself is slow again
            break
        if until:  # the programs of this failure, however long they take
            programs, until = programs[:len(attack.played)], None
        if not programs:  # a repetition would play nothing, and pass
            break
        tap.comment(f"the machine stalled for {watch.longest():.2f} s; again: {why.splitlines()[0]}")
    kind = f"{len(attack.played)} programs" if random_ones else f"{len(programs)} kinds of attacks"
    tap.comment(f"seed {seed}, world {world}: {kind} in {time.monotonic() - begun:.1f} s; the well-behaved client: {attack.sum}")
    name = "service_survives_random_clients" if random_ones else "memory_does_not_grow_with_what_a_client_sends"
    tap.result(not why, f"{name}_in_a_world_that_is_{world}", why or "")


def main():
    bellwether, tap = sys.argv[1], Tap()
    seed, world, seconds = option("--seed"), option("--world"), option("--seconds")
    start = random.SystemRandom().randrange(1 << 32)
    if seed or option("--programs"):
        first, last = (option("--programs") or f"0..{ROUND_PROGRAMS - 1}").split("..")
        one_round(tap, bellwether, seed or "1", world or "many", range(int(first), int(last) + 1))
    elif seconds:
        until, number = time.monotonic() + float(seconds), 0
        while time.monotonic() < until:
            one_round(tap, bellwether, str(start + number), world or list(WORLDS)[number % len(WORLDS)], range(ROUND_PROGRAMS), until)
            number += 1
        one_round(tap, bellwether, "growth", "empty", kinds())
    else:
        one_round(tap, bellwether, "1", "many", range(SHORT_PROGRAMS))
        one_round(tap, bellwether, str(start), "empty", range(SHORT_PROGRAMS))
        one_round(tap, bellwether, str(start), "empty", kinds(SHORT_KINDS, str(start)))
    sys.exit(tap.end())


if __name__ == "__main__":
    main()
