#!/usr/bin/env python3
"""A Raft leader that is stopped keeps its work until its lease ends, whatever its successors do to the membership meanwhile: two
peers join, the stopped leader is removed, and the two that elected its successor leave for good. The peers that are left never
promised anything to the stopped leader, and must wait for it all the same. And one that takes the number of the stopped leader,
with an empty directory, waits for no lease of its own number: it must not be taken in before that lease has ended.

    peer_waits.py BELLWETHER WITNESS

Real processes on loopback, and the proofs are the witness's. Who votes for whom is an accident, so the story is told in several
clusters at once, beside busy loops: the code that forgot the wait showed it in about every second one."""
import concurrent.futures
import json
import os
import shutil
import signal
import subprocess
import sys
import traceback

sys.dont_write_bytecode = True

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "kit"))
from peer_lib import PeerRoom, free_port  # noqa: E402
from run_lib import Tap, lives, wait_for  # noqa: E402

HANG_S = 120.0
TTLS_S = (9, 18, 36)  # a machine too slow for the changes within one lease gets a longer one
LOOPS = 2 * (os.cpu_count() or 1)
CLUSTERS = 4
NEW = ("4", "5")


class Busy:
    """Processes that take what they can get of the processors."""

    def __enter__(self):
        self.loops = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(LOOPS)]

    def __exit__(self, kind, error, trace):
        for loop in self.loops:
            loop.kill()
            loop.wait()


def voters(room, at):
    """Numbers of the voters, as one of these peers has it; empty: none of them answers."""
    code, out, _ = room.ask("members", "--json", at=at)
    return {str(m["id"]) for m in json.loads(out)["members"] if m["voter"]} if code == 0 else set()


def await_voters(room, at, wanted):
    def there():
        return voters(room, at) == wanted
    there.__doc__ = f"the voters to be {sorted(wanted)}; now {sorted(voters(room, at))}"
    wait_for(there, HANG_S, 0.02)


def await_leader(room, names):
    """Waits until these agree on one of them."""
    def led():
        room.judge()
        code, out, _ = room.ask("status", "--json", at=names)
        leaders = {str(p.get("leader")) for p in json.loads(out)["peers"] if p["answered"]} if code == 0 else set()
        return len(leaders) == 1 and leaders <= set(names)
    led.__doc__ = f"one of {names} to lead"
    wait_for(led, HANG_S, 0.02)


def replace_all_voters(room, stopped):
    """Until the newcomers are the only members."""
    rest = [name for name in room.ports if name != stopped.name]
    room.others = ["--join", ",".join(map(room.address, rest))]
    for name in NEW:
        room.add(name)
        room.candidate(name)
    await_voters(room, rest, {"1", "2", "3", *NEW})
    code, _, said = room.ask("remove", stopped.name, at=rest)
    assert code == 0, said
    await_voters(room, rest, {*rest, *NEW})
    for peer in [c for c in room.candidates if c.name in rest]:
        peer.signal(signal.SIGTERM)
        peer.wait(HANG_S)


def conclusive(programs, ttl_s, tap):
    """One story; true if the stopped leader's work was alive when a newcomer led."""
    with PeerRoom(*programs, ttl=f"{ttl_s}s", more=["--leave"]) as room:
        room.start()
        leader = room.leader(1, HANG_S)
        work = int(room.started(1, HANG_S)[2])
        room.all_alive(3, HANG_S)
        room.agreed(HANG_S)
        leader.signal(signal.SIGSTOP)  # its guardian goes on and ends the work when the lease ends
        replace_all_voters(room, leader)
        await_leader(room, NEW)
        alive = lives(work)

        def another():
            """another work to start"""
            return len([line for line in room.lines() if line[0] in ("start", "overlap")]) > 1
        wait_for(another, HANG_S)
        tap.comment(f"ttl {ttl_s} s: the old work was {'alive' if alive else 'dead'} when a newcomer led")
        room.judge()
        assert not lives(work), "the work of the stopped leader is alive beside the next"
        return alive


def work_of_a_stopped_leader_is_waited_for_when_all_its_voters_have_left(programs, tap):
    for ttl_s in TTLS_S:
        with Busy(), concurrent.futures.ThreadPoolExecutor(CLUSTERS) as pool:
            stories = [pool.submit(conclusive, programs, ttl_s, tap) for _ in range(CLUSTERS)]
        if any([story.result() for story in stories]):
            return
    raise AssertionError(f"the membership could not be changed within {TTLS_S[-1]} s")


def the_number_of_a_stopped_leader_is_taken_in_when_its_work_is_dead(programs, tap):
    with PeerRoom(*programs, ttl=f"{TTLS_S[0]}s") as room:
        room.start()
        leader = room.leader(1, HANG_S)
        work = int(room.started(1, HANG_S)[2])
        room.all_alive(3, HANG_S)
        room.agreed(HANG_S)
        leader.signal(signal.SIGSTOP)
        rest = [name for name in room.ports if name != leader.name]

        def removed():
            """the stopped leader to be removed"""
            return room.ask("remove", leader.name, at=rest)[0] == 0
        wait_for(removed, HANG_S, 0.1)
        await_voters(room, rest, set(rest))
        tap.comment(f"the old work was {'alive' if lives(work) else 'dead'} when its peer was removed")
        data = os.path.join(room.dir, "data" + leader.name)
        shutil.move(data, data + ".old")
        room.ports[leader.name] = free_port()
        room.others, room.expect = ["--join", ",".join(map(room.address, rest))], 0
        room.candidate(leader.name)
        await_voters(room, rest, {"1", "2", "3"})
        assert not lives(work), "the work of the stopped leader is alive, and another peer has its number"
        wait_for_transfer(room, leader.name, rest)
        room.judge()


def wait_for_transfer(room, to, at):
    def moved():
        return room.ask("transfer", to, "--wait", "5s", at=at)[0] == 0
    moved.__doc__ = f"the lead to pass to {to}"
    wait_for(moved, HANG_S, 0.1)


def main():
    programs, tap = [os.path.abspath(p) for p in sys.argv[1:3]], Tap()
    for test in (work_of_a_stopped_leader_is_waited_for_when_all_its_voters_have_left,
                 the_number_of_a_stopped_leader_is_taken_in_when_its_work_is_dead):
        try:
            test(programs, tap)
            tap.result(True, test.__name__)
        except Exception:
            tap.result(False, test.__name__, traceback.format_exc())
    return tap.end()


if __name__ == "__main__":
    sys.exit(main())
