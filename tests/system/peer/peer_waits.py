#!/usr/bin/env python3
"""A stopped Raft leader may keep its work until its lease ends, whatever its successors change in the membership. Two peers join,
the stopped leader is removed, and the two voters of its successor leave permanently. The remaining peers never promised anything
to the stopped leader, but must wait for its lease. A new peer with the id of the stopped leader and an empty directory does not
wait for a lease of its own id, so it must not be accepted before that lease has ended.

    peer_waits.py BELLWETHER WITNESS

Real processes on loopback, checked by the witness. Votes are random, so the test runs in several clusters at once, beside busy
loops: code without the wait failed in about every second cluster."""
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
import stall  # noqa: E402
from peer_lib import PeerRoom, free_port  # noqa: E402
from run_lib import Tap, lives, wait_for  # noqa: E402

HANG_S = 120.0
STALL_S = 0.5  # a shorter stall lets no leader be suspected
TTLS_S = (9, 18, 36)  # a machine that is too slow for the changes within one lease gets a longer one
LOOPS = 2 * (os.cpu_count() or 1)
CLUSTERS = 4
NEW = ("4", "5")


class Busy:
    """Processes that keep the processors busy."""

    def __enter__(self):
        self.loops = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(LOOPS)]

    def __exit__(self, kind, error, trace):
        for loop in self.loops:
            loop.kill()
            loop.wait()


def voters(room, at):
    """Ids of the voters, according to one of these peers; empty if none of them answers."""
    code, out, _ = room.ask("members", "--json", at=at)
    return {str(m["id"]) for m in json.loads(out)["members"] if m["voter"]} if code == 0 else set()


def await_voters(room, at, wanted):
    def there():
        return voters(room, at) == wanted
    there.__doc__ = f"the voters to be {sorted(wanted)}; now {sorted(voters(room, at))}"
    wait_for(there, HANG_S, 0.02)


def await_leader(room, names):
    """Waits until these peers agree on one of them as leader."""
    def led():
        room.judge()
        code, out, _ = room.ask("status", "--json", at=names)
        leaders = {str(p.get("leader")) for p in json.loads(out)["peers"] if p["answered"]} if code == 0 else set()
        return len(leaders) == 1 and leaders <= set(names)
    led.__doc__ = f"one of {names} to lead"
    wait_for(led, HANG_S, 0.02)


def replace_all_voters(room, stopped):
    """Changes the membership until the newcomers are the only members."""
    rest = [name for name in room.ports if name != stopped.name]
    room.others = ["--join", ",".join(map(room.address, rest))]
    for name in NEW:
        room.add(name)
        room.candidate(name)
    await_voters(room, rest, {"1", "2", "3", *NEW})
    ask_once(room, "remove", stopped.name, at=rest)
    await_voters(room, rest, {*rest, *NEW})
    for peer in [c for c in room.candidates if c.name in rest]:
        peer.signal(signal.SIGTERM)
        peer.wait(HANG_S)


def conclusive(programs, ttl_s, tap):
    """Runs one cluster; true if the stopped leader's work was alive when a newcomer led."""
    with PeerRoom(*programs, ttl=f"{ttl_s}s", more=["--leave"]) as room:
        room.start()
        leader = room.leader(1, HANG_S)
        work = int(room.started(1, HANG_S)[2])
        room.all_alive(3, HANG_S)
        room.agreed(HANG_S)
        leader.signal(signal.SIGSTOP)  # its guardian continues, and kills the work when the lease ends
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


def newcomers_wait_for_the_work_of_a_stopped_leader_when_its_voters_left(programs, tap):
    for ttl_s in TTLS_S:
        with Busy(), concurrent.futures.ThreadPoolExecutor(CLUSTERS) as pool:
            stories = [pool.submit(conclusive, programs, ttl_s, tap) for _ in range(CLUSTERS)]
        if any([story.result() for story in stories]):
            return
    raise AssertionError(f"the membership could not be changed within {TTLS_S[-1]} s")


def id_of_a_stopped_leader_is_accepted_after_its_work_is_dead(programs, tap):
    with PeerRoom(*programs, ttl=f"{TTLS_S[0]}s") as room:
        room.start()
        leader = room.leader(1, HANG_S)
        work = int(room.started(1, HANG_S)[2])
        room.all_alive(3, HANG_S)
        room.agreed(HANG_S)
        leader.signal(signal.SIGSTOP)
        rest = [name for name in room.ports if name != leader.name]
        await_leader(room, rest)
        ask_once(room, "remove", leader.name, at=rest)
        await_voters(room, rest, set(rest))
        tap.comment(f"the old work was {'alive' if lives(work) else 'dead'} when its peer was removed")
        data = os.path.join(room.dir, "data" + leader.name)
        shutil.move(data, data + ".old")
        room.ports[leader.name] = free_port()
        room.others, room.expect = ["--join", ",".join(map(room.address, rest))], 0
        room.candidate(leader.name)
        await_voters(room, rest, {"1", "2", "3"})
        assert not lives(work), "the work of the stopped leader is alive, and another peer has its number"
        await_voters(room, [leader.name], {"1", "2", "3"})
        await_leader(room, sorted(room.ports))
        ask_once(room, "transfer", leader.name, at=rest)
        room.judge()


def ask_once(room, *words, at):
    """Runs a client command, which must succeed at the first attempt, unless the machine stalled."""
    def asked(_):
        code, out, said = room.ask(*words, at=at)
        assert code == 0, (words, code, out, said)
    stall.judge(asked, STALL_S, " ".join(words))


def main():
    programs, tap = [os.path.abspath(p) for p in sys.argv[1:3]], Tap()
    for test in (newcomers_wait_for_the_work_of_a_stopped_leader_when_its_voters_left,
                 id_of_a_stopped_leader_is_accepted_after_its_work_is_dead):
        try:
            test(programs, tap)
            tap.result(True, test.__name__)
        except Exception:
            tap.result(False, test.__name__, traceback.format_exc())
    return tap.end()


if __name__ == "__main__":
    sys.exit(main())
