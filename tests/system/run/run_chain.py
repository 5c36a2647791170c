#!/usr/bin/env python3
"""Work that is hard to find: a chain of processes that each fork the next one and exit within 2 to 4 ms.

    run_chain.py BELLWETHER WITNESS [NAME...]

Containment is `subreaper`, the only kind without root. A scan of /proc may miss the chain, so "confirmed dead" must be a proof: the
process that inherits the orphans has no children. Busy loops and many idle processes run beside it, because a scan of an idle machine
rarely misses one. The witness (run_witness.c) checks every round: no second work starts while a process of the chain lives."""
import os
import signal
import subprocess
import sys
import time
import traceback

sys.dont_write_bytecode = True

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "kit"))
import stall  # noqa: E402
from run_lib import HANG_S, Room, Tap, send, stat_of, wait_for  # noqa: E402

TTL_S = 3.0
LONG_TTL_S = 4 * HANG_S  # longer than any wait of a test
ROUNDS = 6
TESTS = []


def test(function):
    TESTS.append(function)
    return function


class Beside:
    """Other processes of the machine: many that sleep, and enough to keep all cores busy."""

    def __init__(self, idle, busy):
        script = "for i in $(seq $0); do sleep 1000 & done; for i in $(seq $1); do (while :; do :; done) & done; wait"
        self.words = ["sh", "-c", script, str(idle), str(busy)]

    def __enter__(self):
        self.shell = subprocess.Popen(self.words, start_new_session=True)

    def __exit__(self, kind, error, trace):
        os.killpg(self.shell.pid, signal.SIGKILL)
        self.shell.wait()


def pair(room, *modes, **more):
    """Starts two candidates: A leads and runs a chain, B waits."""
    a = room.candidate("a", "chain", *modes, **more)
    room.started(1)
    wait_for(lambda: [x for x in room.lines() if x[0] == "daemon"])
    b = room.candidate("b")
    b.said("leader")
    return a, b


def rounds(programs, fault, ttl_s=LONG_TTL_S, count=ROUNDS, **more):
    for _ in range(count):
        with Room(*programs, containment="subreaper", ttl=f"{ttl_s}s", kill_after="500ms") as room:
            a, b = pair(room, **more)
            with Beside(idle=0, busy=2 * (os.cpu_count() or 1)):
                fault(room, a, b)
            room.judge()


def second_start(room):
    """When the next work started, according to the witness."""
    wait_for(lambda: len([x for x in room.lines() if x[0] in ("start", "overlap")]) >= 2)
    room.judge()
    return int(room.started(2)[3])


@test
def the_next_work_starts_after_the_chain_is_dead_when_the_supervisor_gets_term(programs):
    def fault(room, a, b):
        a.signal(signal.SIGTERM)
        second_start(room)
        assert b.leads() and a.wait() == 128 + signal.SIGTERM
    rounds(programs, fault)


@test
def the_next_work_starts_after_the_chain_is_dead_when_the_supervisor_is_killed(programs):
    def fault(room, a, b):
        a.signal(signal.SIGKILL)
        second_start(room)
        assert b.leads() and a.said("guardian-released")
    rounds(programs, fault)


@test
def the_next_work_starts_after_the_chain_is_dead_when_the_guardian_is_killed(programs):
    def fault(room, a, _):
        send(a.guardian(), signal.SIGKILL)
        second_start(room)
        assert a.said("confirmed-dead")
    rounds(programs, fault)


def kill_both(a):
    guardian = a.guardian()
    a.signal(signal.SIGSTOP)  # it must not notice the death of the guardian
    send(guardian, signal.SIGKILL)
    a.signal(signal.SIGKILL)


@test
def the_lease_expires_first_when_supervisor_and_guardian_are_killed(programs):
    def fault(room, a, b):
        before = time.monotonic_ns()
        kill_both(a)
        took = (second_start(room) - before) / 1e9
        assert took > TTL_S / 2, f"{took:.2f} s: the last renewal is at most a third of the TTL old, so the lease had not expired"
        assert b.leads()
    rounds(programs, fault, TTL_S, 2)


def hidden_daemon(room):
    """A hook that leaves a process behind whose environment contains nothing of ours."""
    path = os.path.join(room.dir, "daemon.pid")
    return f"env -i setsid sleep 1000 & echo $! > {path}.new; mv {path}.new {path}", path


@test
def process_left_by_a_hook_does_not_delay_confirmation_when_the_guardian_is_killed(programs):
    with Room(*programs, containment="subreaper", ttl=f"{LONG_TTL_S}s") as room:
        hook, path = hidden_daemon(room)
        a, _ = pair(room, options=["--on-elected", hook])
        wait_for(lambda: os.path.exists(path))
        send(a.guardian(), signal.SIGKILL)
        second_start(room)
        assert a.said("confirmed-dead")
        room.judge()


@test
def nothing_is_released_when_an_earlier_child_prevents_confirmation(programs):
    with Room(*programs, containment="subreaper", ttl=f"{TTL_S}s") as room:
        # Start times are counted in clock ticks; the child is older than the guardian by more than one tick.
        words = room.words("a") + room.options + ["--", room.witness, room.dir, "chain"]
        with open(os.path.join(room.dir, "a.log"), "wb") as log:
            shell = subprocess.Popen(["sh", "-c", 'sleep 1000 & sleep 0.1; exec "$@"', "sh", *words], stderr=log, start_new_session=True)
        try:
            room.started(1)
            b = room.candidate("b")
            b.said("leader")
            before = time.monotonic_ns()
            send(guardian_of(shell.pid), signal.SIGKILL)
            assert shell.wait(60) == 71
            took = (second_start(room) - before) / 1e9
            assert took > TTL_S, f"{took:.2f} s"
            assert b.leads()
            room.judge()
        finally:
            os.killpg(shell.pid, signal.SIGKILL)
            shell.wait()


def guardian_of(pid):
    for entry in filter(str.isdigit, os.listdir("/proc")):
        stat = stat_of(int(entry))
        if stat and stat[1] == pid:
            with open(f"/proc/{entry}/comm", encoding="utf-8") as file:
                if file.read().strip() == "bw-guardian":
                    return int(entry)
    raise AssertionError("no guardian")


def main():
    programs, wanted = sys.argv[1:3], sys.argv[3:]
    tap = Tap()
    with Beside(idle=400, busy=0):
        for function in TESTS:
            if wanted and not any(w in function.__name__ for w in wanted):
                continue
            try:
                function(programs)
                tap.result(True, function.__name__)
            except (AssertionError, stall.Violation, subprocess.TimeoutExpired, OSError, IndexError):
                tap.result(False, function.__name__, traceback.format_exc())
    sys.exit(tap.end())


if __name__ == "__main__":
    main()
