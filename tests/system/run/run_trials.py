#!/usr/bin/env python3
"""Fault trials: leaders of `bellwether run` are killed, stopped, continued and cut off from their store. Two must never lead.

    run_trials.py BELLWETHER WITNESS SHIM [--trials N | --seconds S] [--rooms R] [--seed S] [--tap]

Each room has three candidates on one embedded store, with works that ignore TERM, fork twice or leave their session. A
trial picks a fault for the leader, then waits for the next leader. After every trial the independent witness is checked: no
overlap, and tokens only grow. The program prints a table and exits with 1 if anything was wrong. The same seed repeats the
choices, but not the timing, because these are real processes."""
import argparse
import collections
import os
import random
import signal
import sqlite3
import sys
import threading
import time

sys.dont_write_bytecode = True

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "kit"))
from run_lib import HANG_S, Room, Tap, lives, send, wait_for, why_not_contained  # noqa: E402

MODES = [[], ["ignore-term"], ["double-fork"], ["double-fork", "ignore-term"], ["setsid", "ignore-term"],
         ["double-fork", "setsid", "ignore-term"], ["slow=100"]]
KINDS = ["auto", "cgroup", "pidns", "subreaper"]


class Trials:
    """State that all rooms share."""

    def __init__(self, options):
        self.options = options
        self.lock = threading.Lock()
        self.left = options.trials
        self.until = time.monotonic() + options.seconds if options.seconds else None
        self.done = collections.Counter()
        self.handover = collections.defaultdict(list)
        self.trouble = []
        self.started = 0
        self.missing = {kind: why for kind in KINDS if (why := why_not_contained(kind))}
        self.kinds = [kind for kind in KINDS if kind not in self.missing]

    def take(self):
        with self.lock:
            if self.trouble or (self.until and time.monotonic() > self.until) or (not self.until and self.left <= 0):
                return False
            self.left -= 1
            return True

    def count(self, fault, seconds):
        with self.lock:
            self.done[fault] += 1
            self.handover[fault].append(seconds)


class World:
    """A room in which faults happen."""

    def __init__(self, trials, number):
        self.trials, self.number = trials, number
        self.random = random.Random(trials.options.seed * 1000 + number)
        self.serial = 0
        self.history = collections.deque(maxlen=6)
        self.graves = collections.deque(maxlen=4)

    def newcomer(self):
        self.serial += 1
        knob = os.path.join(self.room.dir, "realtime")
        shim = self.trials.options.shim if self.random.random() < 0.5 and not self.trials.options.sanitized else None
        return self.room.candidate(f"c{self.serial}", *self.random.choice(MODES), env={"SHIM_REALTIME": knob}, shim=shim)

    def refill(self):
        alive = [c for c in self.room.candidates if c.process.poll() is None]
        for c in self.room.candidates:
            if c not in alive:
                self.graves.append((c.name, c.process.returncode, c.events()[-10:]))
                c.err.close()
                os.unlink(c.errors)
        self.room.candidates = alive
        while len(self.room.candidates) < 3:
            self.newcomer()
        for c in self.room.candidates: # it has opened the store: otherwise it would create a missing one
            c.said("containment")

    def leader(self):
        """The candidate that runs the newest work and is itself alive."""
        starts = self.room.starts()
        if not starts:
            return None
        for c in self.room.candidates:
            started = c.events("started")
            if started and str(started[-1]["token"]) == starts[-1][1] and lives(started[-1]["pid"]) and lives(c.pid):
                return c
        return None

    def successor(self):
        """A leader. Meanwhile all candidates may have ended, each by an earlier fault, so new ones start."""
        self.refill()
        return self.leader()

    # ---- faults: each returns the time from which a new leader is awaited ----

    def kill_supervisor(self, leader):
        leader.signal(signal.SIGKILL)

    def kill_guardian(self, leader):
        send(leader.guardian() or 0x3fffffff, signal.SIGKILL)

    def kill_both(self, leader):
        guardian = leader.guardian() or 0x3fffffff
        if self.random.random() < 0.5:
            leader.signal(signal.SIGSTOP)
        pids = [leader.pid, guardian]
        self.random.shuffle(pids)
        for pid in pids:
            send(pid, signal.SIGKILL)

    def pause(self, *pids):
        for pid in pids:
            send(pid, signal.SIGSTOP)
        time.sleep(self.random.choice([0.05, 0.5, 1.2, 1.45, 1.6, 2.2]))
        order = list(pids)
        self.random.shuffle(order)
        for pid in order:
            send(pid, signal.SIGCONT)

    def stop_supervisor(self, leader):
        self.pause(leader.pid)

    def stop_guardian(self, leader):
        self.pause(leader.guardian() or 0x3fffffff)

    def stop_both(self, leader):
        self.pause(leader.pid, leader.guardian() or 0x3fffffff)

    def stop_then_kill(self, leader):
        guardian = leader.guardian() or 0x3fffffff
        send(guardian, signal.SIGSTOP)
        leader.signal(signal.SIGKILL)
        time.sleep(self.random.choice([0.01, 0.3, 1.6]))
        send(guardian, signal.SIGCONT)

    def end_in_order(self, leader):
        leader.signal(self.random.choice([signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT]))

    def kill_work(self, leader):
        started = leader.events("started")
        send(started[-1]["pid"], signal.SIGKILL)

    def lock_store(self, leader):
        connection = sqlite3.connect(self.room.db, isolation_level=None, timeout=5)
        try:
            connection.execute("BEGIN EXCLUSIVE")
            time.sleep(self.random.choice([0.1, 0.6, 1.2, 2.0]))
            connection.execute("ROLLBACK")
        except sqlite3.OperationalError:
            pass
        connection.close()

    def move_store_away(self, leader):
        away = self.room.db + ".away"
        os.rename(self.room.db, away)
        time.sleep(self.random.choice([0.1, 0.6, 1.2, 2.0]))
        os.rename(away, self.room.db)

    def jump_wall_clock(self, leader):
        knob = os.path.join(self.room.dir, "realtime")
        with open(knob + ".new", "w", encoding="utf-8") as file:
            file.write(f"{self.random.choice([-86400, -1, 0, 2, 86400])}\n")
        os.rename(knob + ".new", knob)
        time.sleep(0.05)

    FAULTS = [kill_supervisor, kill_supervisor, kill_guardian, kill_guardian, kill_both, kill_both, stop_supervisor,
              stop_guardian, stop_both, stop_then_kill, end_in_order, kill_work, lock_store, move_store_away,
              jump_wall_clock]

    def trial(self):
        leader = wait_for(self.successor, HANG_S, 0.005)
        fault = self.random.choice(self.FAULTS)
        begun = time.monotonic()
        self.history.append(f"{time.strftime('%M:%S')} {fault.__name__} {leader.name}")
        fault(self, leader)
        wait_for(self.successor, HANG_S, 0.005)
        self.room.judge()
        self.trials.count(fault.__name__.replace("_", " "), time.monotonic() - begun)

    def run(self):
        kind = self.trials.kinds[self.number % len(self.trials.kinds)]
        with Room(self.trials.options.bellwether, self.trials.options.witness, containment=kind) as self.room:
            try:
                while self.trials.take():
                    self.trial()
                self.room.judge()
            except Exception as error:  # pylint: disable=broad-except
                self.complain(kind, error)
            with self.trials.lock:
                self.trials.started += len(self.room.starts())

    def complain(self, kind, error):
        lines = [f"room {self.number} ({kind}): {type(error).__name__}: {error}"]
        lines += list(self.history) + [" ".join(x) for x in self.room.lines()[-12:]]
        for c in self.room.candidates:
            lines += [f"{c.name} {e['time'][14:-1]} {e['event']}: {e['message']}" for e in c.events()[-12:]]
        for name, code, events in self.graves:
            lines += [f"{name} (dead, {code}) {e['time'][14:-1]} {e['event']}: {e['message']}" for e in events]
        with self.trials.lock:
            self.trials.trouble.append("\n".join(lines))


def read_options():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("bellwether")
    parser.add_argument("witness")
    parser.add_argument("shim")
    parser.add_argument("--trials", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=0)
    parser.add_argument("--rooms", type=int, default=8)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--tap", action="store_true")
    options = parser.parse_args()
    if os.environ.get("TEST_SIZE") == "small":
        options.seconds /= 3
    with open(options.bellwether, "rb") as file:
        options.sanitized = b"__asan_init" in file.read()
    return options


def print_table(trials, seconds):
    print(f"{'fault':22} {'trials':>7} {'median s':>9} {'worst s':>8}   until somebody leads again")
    for fault in sorted(trials.done):
        times = sorted(trials.handover[fault])
        print(f"{fault:22} {trials.done[fault]:7} {times[len(times) // 2]:9.3f} {times[-1]:8.3f}")
    print(f"{sum(trials.done.values())} trials, {trials.started} works started, never two at once, "
          f"tokens only grew; {seconds:.0f} s, seed {trials.options.seed}")


def main():
    options = read_options()
    trials = Trials(options)
    if not trials.kinds:
        sys.exit(f"no containment can be used here: {trials.missing}")
    begun = time.monotonic()
    rooms = [threading.Thread(target=World(trials, n).run) for n in range(options.rooms)]
    for room in rooms:
        room.start()
    for room in rooms:
        room.join()
    if options.tap:
        tap = Tap()
        tap.result(not trials.trouble and sum(trials.done.values()) > 0,
                   "never two commands at once and tokens only grow, whatever fails", "\n".join(trials.trouble))
        for kind, why in trials.missing.items():
            tap.skip(f"trials in rooms with {kind}", why)
        sys.exit(tap.end())
    if trials.trouble:
        print("\n".join(trials.trouble))
        sys.exit(1)
    print_table(trials, time.monotonic() - begun)
    for kind, why in trials.missing.items():
        print(f"skipped: rooms with {kind}: {why}")


if __name__ == "__main__":
    main()
