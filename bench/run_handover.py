#!/usr/bin/env python3
"""Measures the time without a running command, from the old command's death to the first instruction of the next one, and the cost
of waiting.

    run_handover.py BELLWETHER WITNESS [ROUNDS]

Two candidates on the embedded store. Their command is the tests' witness (run_witness.c), which writes the kernel's monotonic
time as its first and last action. For a clean exit, resign and transfer the time starts at the old command's last action. Its
death comes a little later, so the figures are upper bounds. For SIGKILL the time starts just before the signal is sent. The TTL
is 10 s; the figures do not depend on it. Exit code 1 if a promised figure is missed."""
import os
import signal
import subprocess
import sys
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tests", "system", "kit"))

from run_lib import Room, cpu_seconds, private_dirty_kb, send, wait_for  # noqa: E402

IDLE_S = 10.0
PROMISED = {"clean exit": 5.0, "resign": 5.0, "transfer": 5.0, "SIGKILL of the supervisor": 20.0}
IDLE_DIRTY_KB, IDLE_CPU_PERCENT = 4096, 0.1


def pair(programs, *modes):
    """Starts candidates of which A leads and B waits."""
    room = Room(*programs, ttl="10s", kill_after="2s")
    a = room.candidate("a", *modes)
    room.started(1)
    b = room.candidate("b")
    b.said("leader")
    time.sleep(0.02)
    return room, a, b


def since_last_act(room):
    start = room.started(2, 9)
    end = [x for x in room.lines() if x[0] == "end"][0]
    return (int(start[3]) - int(end[3])) / 1e6


def clean_exit(programs):
    room, _, _ = pair(programs, "for=150")
    with room:
        return since_last_act(room)


def ask(room, *words):
    subprocess.run([room.bellwether, *words, "--store", "sqlite:" + room.db, "--election", "e"], check=False,
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def resign(programs):
    room, _, _ = pair(programs)
    with room:
        ask(room, "resign")
        return since_last_act(room)


def transfer(programs):
    room, _, _ = pair(programs)
    with room:
        ask(room, "transfer", "--to", "b")
        return since_last_act(room)


def kill_supervisor(programs):
    room, a, _ = pair(programs)
    with room:
        before = time.monotonic_ns()
        a.signal(signal.SIGKILL)
        return (int(room.started(2, 9)[3]) - before) / 1e6


def kill_both(programs):
    room, a, _ = pair(programs)
    with room:
        guardian = a.guardian()
        a.signal(signal.SIGSTOP)
        before = time.monotonic_ns()
        send(guardian, signal.SIGKILL)
        a.signal(signal.SIGKILL)
        return (int(room.started(2, 9)[3]) - before) / 1e6


def idle(programs):
    with Room(*programs, ttl="10s", kill_after="2s") as room:
        a = room.candidate("a")
        room.started(1)
        guardian = wait_for(a.guardian)
        time.sleep(1)
        before = cpu_seconds(a.pid) + cpu_seconds(guardian)
        time.sleep(IDLE_S)
        used = cpu_seconds(a.pid) + cpu_seconds(guardian) - before
        return private_dirty_kb(a.pid), private_dirty_kb(guardian), 100 * used / IDLE_S


def main():
    if len(sys.argv) not in (3, 4):
        sys.exit("usage: run_handover.py BELLWETHER WITNESS [ROUNDS]")
    programs, rounds = sys.argv[1:3], int(sys.argv[3]) if len(sys.argv) > 3 else 40
    good = True
    print(f"{'hand-over, TTL 10 s':28} {'rounds':>6} {'median ms':>10} {'p99 ms':>8} {'worst ms':>9}  promised (median)")
    for name, measure in (("clean exit", clean_exit), ("resign", resign), ("transfer", transfer),
                          ("SIGKILL of the supervisor", kill_supervisor), ("SIGKILL of both", kill_both)):
        times = sorted(measure(programs) for _ in range(rounds))
        median, p99 = times[len(times) // 2], times[min(len(times) - 1, len(times) * 99 // 100)]
        promised = PROMISED.get(name)
        reached = promised is None or median <= promised
        good = good and reached
        print(f"{name:28} {rounds:6} {median:10.2f} {p99:8.2f} {times[-1]:9.2f}  "
              f"{f'{promised:g} ms' if promised else '-'}{'' if reached else '  NOT REACHED'}", flush=True)
    supervisor, guardian, cpu = idle(programs)
    reached = supervisor + guardian < IDLE_DIRTY_KB and cpu < IDLE_CPU_PERCENT
    print(f"idle leader: Private_Dirty {supervisor + guardian} kB (supervisor {supervisor}, guardian {guardian}), "
          f"{cpu:.4f} % of a core; promised < {IDLE_DIRTY_KB} kB, < {IDLE_CPU_PERCENT} %{'' if reached else '  NOT REACHED'}")
    sys.exit(0 if good and reached else 1)


if __name__ == "__main__":
    main()
