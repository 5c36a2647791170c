#!/usr/bin/env python3
"""`bellwether peer transfer` among real processes on loopback. After each transfer, the named peer leads. A transfer that the
algorithm cannot carry out is refused at once, before the leader stops its work.

    peer_transfer.py BELLWETHER WITNESS [NAME...]

The witness proves that two commands never run at once. A refusal must come before --wait is over, which is longer than the timeout of
the test. A transfer that takes more than 5 s counts as missed, unless the machine stalled meanwhile."""
import concurrent.futures
import json
import os
import random
import sys
import time
import traceback

sys.dont_write_bytecode = True

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "kit"))
import stall  # noqa: E402
from peer_lib import PeerRoom  # noqa: E402
from run_lib import Tap  # noqa: E402

HANG_S = 60.0
STALL_S = 0.5  # a shorter stall lets no leader be suspected
TRANSFERS = 25
# Algorithms that let any member lead. Ranking algorithms hand over only to the next in rank (see below).
ANY = (("raft", 3), ("raft", 5), ("stable", 3), ("stable --quorum", 3), ("stable --quorum", 5), ("invitation", 3),
       ("invitation --quorum", 3), ("ring-list", 3), ("ring-max --quorum", 3))
# Ranking algorithms: the first leader, and the next in rank.
RANKED = (("bully", 3, 2, 1), ("bully --quorum", 3, 2, 1), ("lowest-id", 1, 2, 3), ("lowest-id --quorum", 1, 2, 3))


def peers(programs, words, size):
    algorithm, *quorum = words.split()
    return PeerRoom(*programs, size=size, ttl="2s", more=["--algorithm", algorithm, *quorum])


def judge(room, words):
    """Checks that two commands never ran at once and that tokens grew; without a quorum there are no tokens."""
    if "raft" in words or "--quorum" in words:
        room.judge()


def transfer(room, to):
    """Runs a transfer. Returns the exit code, the leader named in the answer, and the duration in seconds."""
    began = time.monotonic()
    code, out, errors = room.ask("transfer", str(to), "--wait", "10m", "--json")
    return code, json.loads(out)["leader"] if code == 0 and out else errors.strip(), time.monotonic() - began


def named_peer_leads_after_every_transfer(programs, words, size):
    draw = random.Random(words + str(size))
    with peers(programs, words, size) as room:
        room.start()
        room.leader(1, HANG_S)
        room.all_alive(size)
        missed = []
        for i in range(TRANSFERS):
            before = room.agreed()
            to = draw.choice([name for name in room.ports if name != before])
            watch = stall.Watch(candidate.pid for candidate in room.candidates)
            code, leader, seconds = transfer(room, to)
            if (code, str(leader)) != (0, to):
                missed.append((i, before, to, code, leader, round(seconds, 1)))
                room.leader(1, HANG_S)
            elif seconds > 5 and not watch.excuses(STALL_S, f"transfer {i} ({words})"):
                missed.append((i, before, to, "late", round(seconds, 1)))
        assert not missed, missed
        judge(room, words)


def transfer_against_rank_is_refused_at_once_and_the_leader_continues(programs, words, first, second, third):
    with peers(programs, words, 3) as room:
        room.start()
        room.leader(1, HANG_S)
        room.all_alive(3)

        def leads():
            return room.agreed() == str(first)
        while not leads():
            time.sleep(0.05)
        room.leader(1, HANG_S)
        starts = len(room.starts())
        code, said, _ = transfer(room, third)
        assert code == 1 and "rank" in said, (code, said)
        assert len(room.starts()) == starts, "the leader stopped its work for a transfer that it refused"
        code, leader, seconds = transfer(room, second)
        assert (code, leader) == (0, second), (code, leader, seconds)
        code, leader, seconds = transfer(room, first)  # and back, although the target has just stepped down
        assert (code, leader) == (0, first), (code, leader, seconds)
        judge(room, words)


def run_one(tap, programs, name, function, *more):
    try:
        function(programs, *more)
    except Exception:  # any failure belongs to this test
        tap.result(False, name, traceback.format_exc())
    else:
        tap.result(True, name)


def main():
    programs, names = sys.argv[1:3], sys.argv[3:]
    tap = Tap()
    tests = [(named_peer_leads_after_every_transfer, words, size) for words, size in ANY]
    tests += [(transfer_against_rank_is_refused_at_once_and_the_leader_continues, *row) for row in RANKED]
    with concurrent.futures.ThreadPoolExecutor(3) as pool:
        for function, words, *more in tests:
            name = f"{function.__name__} ({words}, {more[0] if len(more) == 1 else 3} peers)"
            if not names or any(part in name for part in names):
                pool.submit(run_one, tap, programs, name, function, words, *more)
    sys.exit(tap.end())


if __name__ == "__main__":
    main()
