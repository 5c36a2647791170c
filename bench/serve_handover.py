#!/usr/bin/env python3
"""Measures the time without a running command after a holder on `bellwether serve` dies: from the kill to the first instruction of
the next command.

    serve_handover.py BELLWETHER WITNESS [ROUNDS]

Three durable nodes on loopback with default settings; two candidates of `bellwether run` on bellwether://, TTL 10 s. Their command
is the tests' witness (run_witness.c), which writes the kernel's monotonic time as its first action. The time starts just before the
signal is sent. If only the supervisor is killed, its guardian confirms the work's death and closes the shared connection cleanly,
and the service revokes the lease after the hold-off. If both are killed, no process can confirm the death, and the lease must expire."""
import os
import signal
import sys
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tests", "system", "kit"))

from run_lib import Room, send  # noqa: E402
from serve_lib import Nodes  # noqa: E402
from store_lib import Place  # noqa: E402

BOTH_ROUNDS = 3


def pair(programs, nodes):
    """Starts candidates of which A leads and B waits; each chooses its node."""
    room = Room(*programs, ttl="10s", kill_after="2s", store=f"bellwether://{nodes.endpoints()}/{time.monotonic_ns()}")
    a = room.candidate("a")
    room.started(1)
    b = room.candidate("b")
    b.said("leader")
    time.sleep(0.05)
    return room, a


def kill_supervisor(programs, nodes):
    room, a = pair(programs, nodes)
    with room:
        before = time.monotonic_ns()
        a.signal(signal.SIGKILL)
        return (int(room.started(2, 60)[3]) - before) / 1e6


def kill_both(programs, nodes):
    room, a = pair(programs, nodes)
    with room:
        guardian = a.guardian()
        a.signal(signal.SIGSTOP)
        before = time.monotonic_ns()
        send(guardian, signal.SIGKILL)
        a.signal(signal.SIGKILL)
        return (int(room.started(2, 60)[3]) - before) / 1e6


def main():
    if len(sys.argv) not in (3, 4):
        sys.exit("usage: serve_handover.py BELLWETHER WITNESS [ROUNDS]")
    programs, rounds = sys.argv[1:3], int(sys.argv[3]) if len(sys.argv) > 3 else 40
    with Place("handover") as place:
        nodes = Nodes(place, programs[0], 3)
        print(f"{'hand-over, 3 nodes, TTL 10 s':30} {'rounds':>6} {'median ms':>10} {'p99 ms':>8} {'worst ms':>9}")
        for name, measure, count in (("SIGKILL of the supervisor", kill_supervisor, rounds),
                                     ("SIGKILL of both", kill_both, BOTH_ROUNDS)):
            times = sorted(measure(programs, nodes) for _ in range(count))
            p99 = times[min(count - 1, count * 99 // 100)]
            print(f"{name:30} {count:6} {times[count // 2]:10.2f} {p99:8.2f} {times[-1]:9.2f}", flush=True)


if __name__ == "__main__":
    main()
