#!/usr/bin/env python3
"""`bellwether peer --shards`: shards spread over real peers, one independent witness per shard.

    peer_shards.py BELLWETHER WITNESS [NAME...]

Each test ends with the same judgement, shard by shard: never two works at once, tokens only grow."""
import json
import os
import resource
import signal
import sys
import time
import traceback

sys.dont_write_bytecode = True

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "kit"))
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "run"))
from peer_lib import PeerRoom, free_port  # noqa: E402
from run_lib import Tap  # noqa: E402
from run_shards import PATIENT, Shard, ShardRoom, supervisors, wait_for  # noqa: E402

SMALL = os.environ.get("TEST_SIZE") == "small"
PEERS, SHARDS = (3, 6) if SMALL else (5, 20)
TESTS = []


def test(function):
    TESTS.append((function.__name__, function))
    return function


class Shards(PeerRoom):
    """Peers whose works are watched by one witness per shard."""
    owners, spread, work, judge = ShardRoom.owners, ShardRoom.spread, ShardRoom.work, ShardRoom.judge

    def __init__(self, bellwether, witness, size=PEERS, shards=SHARDS, more=()):
        super().__init__(bellwether, witness, size=size, more=more)
        self.shards = [Shard(self, i) for i in range(shards)]

    def peer(self, name, before="", modes="", shards=None):
        return self.candidate(name, options=["--shards", str(shards or len(self.shards))], command=self.work(before, modes))

    def all(self, **more):
        return [self.peer(name, **more) for name in self.ports]

    def even(self, peers):
        """The loads of so many peers that share all shards."""
        each, rest = divmod(len(self.shards), peers)
        return self.spread(*([each + 1] * rest + [each] * (peers - rest)))


def starts_of(room):
    return [len(shard.starts()) for shard in room.shards]


@test
def a_killed_peers_shards_alone_move_and_who_comes_gets_its_share(room):
    peers = room.all()
    before = room.even(PEERS)
    counts = starts_of(room)
    killed_at = time.monotonic()
    peers[1].signal(signal.SIGKILL)
    after = room.even(PEERS - 1)
    print(f"# the shards of the killed peer run again after {(time.monotonic() - killed_at) * 1000:.0f} ms")
    for i, shard in enumerate(room.shards):
        assert (before[i] == "2") == (before[i] != after[i]), f"shard {i}: {before[i]}, then {after[i]}"
        assert before[i] == "2" or len(shard.starts()) == counts[i], f"shard {i} was started again without need"
    room.ports[str(PEERS + 1)] = free_port()
    room.expect = 0
    room.peer(str(PEERS + 1))
    last = room.even(PEERS)
    moved = [i for i in range(len(room.shards)) if last[i] != after[i]]
    assert all(last[i] == str(PEERS + 1) for i in moved), f"{after}, then {last}"
    assert len(moved) <= -(-len(room.shards) // PEERS) + 1, f"{len(moved)} shards moved"


@test
def the_work_knows_its_shard_and_commands_see_who_leads_it(room):
    room.all(before=f'echo "$BELLWETHER_SHARD $BELLWETHER_SHARDS $BELLWETHER_ELECTION" >>{room.dir}/env')
    owners = room.even(PEERS)
    with open(os.path.join(room.dir, "env"), encoding="utf-8") as file:
        seen = set(file.read().splitlines())
    assert seen == {f"{i} {SHARDS} {room.election}.{i}" for i in range(SHARDS)}, seen

    def agreed():
        """all to see the same leaders"""
        code, out, _ = room.ask("status", "--json")
        return json.loads(out) if code == 0 else None
    status = wait_for(agreed, PATIENT, 0.05)
    assert [str(shard["leader"]) for shard in status["shards"]] == owners, status
    assert sorted(peer["shards"] for peer in status["peers"]) == sorted(owners.count(name) for name in room.ports)
    old = owners[3]
    to = next(name for name in room.ports if name != old)

    def handed_over():
        """the shard to be handed over; a peer that has just let it go may say no once"""
        code, out, _ = room.ask("transfer", to, "--shard", "3", "--wait", "3s")
        return code == 0 and (f"{to} leads" in out or not out)
    wait_for(handed_over, PATIENT, 0.05)
    wait_for(lambda: room.shards[3].owner() == to, PATIENT, 0.02)
    code, out, errors = room.ask("resign", "--shard", "2")
    assert code == 0, (code, out, errors)
    room.even(PEERS)


@test
def who_is_told_to_end_hands_its_shards_to_all_who_stay(room):
    peers = room.all(modes="slow=20")
    before = room.even(PEERS)
    peers[0].signal(signal.SIGTERM)
    after = room.even(PEERS - 1)
    assert peers[0].wait(PATIENT) == 128 + signal.SIGTERM
    heirs = {after[i] for i in range(SHARDS) if before[i] == "1"}
    assert len(heirs) > 1, f"all went to {heirs}"
    for i, shard in enumerate(room.shards):
        assert before[i] == "1" or before[i] == after[i], f"shard {i} moved without need"
        assert before[i] != "1" or [line for line in shard.lines() if line[0] == "end"], "its work was not told to end"


@test
def a_supervisor_that_is_killed_is_followed_and_the_others_do_not_notice(room):
    peers = room.all()
    before = room.even(PEERS)
    counts = starts_of(room)
    shard = before.index("1")
    os.kill(supervisors(peers[0])[shard], signal.SIGKILL)
    wait_for(lambda: len(room.shards[shard].starts()) > counts[shard] and room.shards[shard].owner(), PATIENT, 0.02)
    for i, count in enumerate(starts_of(room)):
        assert i == shard or count == counts[i], f"shard {i} was started again"


def kill_supervisor_again_and_again(room):
    """Of one shard, until a peer leads it for the second time. A peer that still counted itself as holder from the first time would
    lead it without any work, and nothing but the balance of the shards would take it away, after a minute."""
    peers = room.all()
    owners = [room.even(len(peers))[0]]
    while len(set(owners)) == len(owners):
        count = starts_of(room)[0]
        before = time.monotonic()
        os.kill(supervisors(peers[int(owners[-1]) - 1])[0], signal.SIGKILL)
        wait_for(lambda: len(room.shards[0].starts()) > count and room.shards[0].owner(), 2 * PATIENT, 0.02)
        took = time.monotonic() - before
        assert took < PATIENT / 4, f"{took:.1f} s after {owners}"
        owners.append(room.shards[0].owner())


@test
def a_shard_runs_again_when_its_supervisor_is_killed_wherever_it_goes(room):
    with Shards(room.bellwether, room.witness, size=3, shards=3) as few:
        kill_supervisor_again_and_again(few)
        few.judge()
    with Shards(room.bellwether, room.witness, size=3, shards=3, more=["--algorithm", "stable", "--quorum"]) as few:
        kill_supervisor_again_and_again(few)
        few.judge()


@test
def status_says_that_no_work_runs_when_a_leader_cannot_start_a_supervisor(room):
    with Shards(room.bellwether, room.witness, size=1, shards=2) as alone:
        peer = alone.all()[0]
        alone.even(1)
        wait_for(lambda: alone.ask("status")[0] == 0, PATIENT, 0.05)
        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.prlimit(peer.pid, resource.RLIMIT_NOFILE, (len(os.listdir(f"/proc/{peer.pid}/fd")) - 2, most))
        os.kill(supervisors(peer)[0], signal.SIGKILL)
        peer.said("shard-failed", PATIENT)
        wait_for(lambda: not alone.shards[0].runs(), PATIENT)
        code, out, _ = alone.ask("status", "--json")
        assert code != 0 and not json.loads(out)["shards"][0]["works"], (code, out)
        assert json.loads(out)["shards"][1]["works"], out
        resource.prlimit(peer.pid, resource.RLIMIT_NOFILE, (most, most))
        wait_for(lambda: len(alone.shards[0].starts()) == 2, 2 * PATIENT)
        wait_for(lambda: alone.ask("status")[0] == 0, PATIENT, 0.05)
        alone.judge()


def refused(room, peers, name):
    """Starts it with one shard more, as whatever restarts services would, until one of the others has told of it."""
    def told():
        """somebody to say whose settings differ"""
        odd = room.peer(name, shards=SHARDS + 1)
        assert odd.wait(PATIENT) == 64 and odd.events("cannot-go-on"), odd.text()
        assert f"--shards {SHARDS}," in odd.events("cannot-go-on")[-1]["message"]
        lines = [event["message"] for peer in peers for event in peer.events("settings-differ")]
        return [line for line in lines if f"peer {name} takes part" in line and f"--shards {SHARDS + 1}," in line]
    return wait_for(told, PATIENT, 0.05)


@test
def who_has_another_number_of_shards_is_refused(room):
    peers = room.all()
    room.even(PEERS)
    room.all_alive(PEERS)
    room.ports["77"] = free_port()
    room.expect = 0
    refused(room, peers, "77")
    peers[1].signal(signal.SIGTERM)
    assert peers[1].wait(PATIENT) == 128 + signal.SIGTERM
    stay = [peer for peer in peers if peer is not peers[1]]
    refused(room, stay, "2")  # a member, of an earlier life
    del room.ports["77"]
    room.even(PEERS - 1)
    room.peer("2")
    room.even(PEERS)


@test
def shards_that_are_all_done_end_the_peers(room):
    peers = room.all(modes="for=300")
    for peer in peers:
        assert peer.wait(PATIENT) == 0, peer.text()
    for shard in room.shards:
        assert len(shard.starts()) == 1, f"shard {shard.number} ran {len(shard.starts())} times"


def main():
    bellwether, witness, *names = [os.path.abspath(word) if "/" in word else word for word in sys.argv[1:]]
    tap = Tap()
    for name, function in TESTS:
        if names and name not in names:
            continue
        try:
            with Shards(bellwether, witness) as room:
                function(room)
                room.judge()
            tap.result(True, name)
        except Exception:  # pylint: disable=broad-except
            tap.result(False, name, traceback.format_exc())
    return tap.end()


if __name__ == "__main__":
    sys.exit(main())
