#!/usr/bin/env python3
"""`bellwether peer --shards`: shards spread over real peers, one independent witness per shard.

    peer_shards.py BELLWETHER WITNESS [NAME...]

Each test ends with the same check for each shard: never two commands at once, and tokens only grow."""
import json
import os
import resource
import signal
import subprocess
import sys
import time
import traceback

sys.dont_write_bytecode = True

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "kit"))
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "run"))
import stall  # noqa: E402
from peer_lib import PeerRoom, free_port  # noqa: E402
from run_lib import Tap  # noqa: E402
from run_shards import SHARDS_TIMEOUT_S, Shard, ShardRoom, supervisors, wait_for  # noqa: E402

SMALL = os.environ.get("TEST_SIZE") == "small"
PEERS, SHARDS = (3, 6) if SMALL else (5, 20)
STALL_S = 0.3  # a machine that stalls for so long may cost a leader its lease before it starts the work
TESTS = []


def test(function):
    TESTS.append((function.__name__, function))
    return function


class Shards(PeerRoom):
    """Peers whose commands are checked by one witness per shard."""
    owners, spread, work, judge = ShardRoom.owners, ShardRoom.spread, ShardRoom.work, ShardRoom.judge

    def __init__(self, bellwether, witness, size=PEERS, shards=SHARDS, more=()):
        super().__init__(bellwether, witness, size=size, more=more)
        self.shards = [Shard(self, i) for i in range(shards)]

    def peer(self, name, before="", modes="", shards=None):
        options = ["--shards", str(shards or len(self.shards)), "--drain-dir", self.drain_dir(name)]
        return self.candidate(name, options=options, command=self.work(before, modes))

    def drain_dir(self, name):
        return os.path.join(self.dir, "drain-" + name)

    def drain(self, name, command="drain", code=0):
        """Drains or undrains the host of a peer."""
        done = subprocess.run([self.bellwether, command, "--drain-dir", self.drain_dir(name), "--json"], capture_output=True, text=True,
                              timeout=2 * SHARDS_TIMEOUT_S, check=False)
        assert done.returncode == code, f"{command}: exit {done.returncode}: {done.stdout}{done.stderr}"
        return json.loads(done.stdout)

    def all(self, **more):
        return [self.peer(name, **more) for name in self.ports]

    def even(self, peers):
        """The loads of this many peers that share all shards."""
        each, rest = divmod(len(self.shards), peers)
        return self.spread(*([each + 1] * rest + [each] * (peers - rest)))


def starts_of(room):
    return [len(shard.starts()) for shard in room.shards]


@test
def only_the_shards_of_a_killed_peer_move_and_a_new_peer_gets_its_share(room):
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
def work_knows_its_shard_and_commands_show_its_leader(room):
    room.all(before=f'echo "$BELLWETHER_SHARD $BELLWETHER_SHARDS $BELLWETHER_ELECTION" >>{room.dir}/env')
    owners = room.even(PEERS)
    with open(os.path.join(room.dir, "env"), encoding="utf-8") as file:
        seen = set(file.read().splitlines())
    assert seen == {f"{i} {SHARDS} {room.election}.{i}" for i in range(SHARDS)}, seen

    def agreed():
        """all to see the same leaders"""
        code, out, _ = room.ask("status", "--json")
        return json.loads(out) if code == 0 else None
    status = wait_for(agreed, SHARDS_TIMEOUT_S, 0.05)
    assert [str(shard["leader"]) for shard in status["shards"]] == owners, status
    assert sorted(peer["shards"] for peer in status["peers"]) == sorted(owners.count(name) for name in room.ports)
    old = owners[3]
    to = next(name for name in room.ports if name != old)
    code, out, errors = room.ask("transfer", to, "--shard", "3", "--wait", "60s")
    assert code == 0 and f"{to} leads" in out, (code, out, errors)
    wait_for(lambda: room.shards[3].owner() == to, SHARDS_TIMEOUT_S, 0.02)
    code, out, errors = room.ask("resign", "--shard", "2")
    assert code == 0, (code, out, errors)
    room.even(PEERS)


@test
def stopped_peer_hands_its_shards_to_the_remaining_peers(room):
    peers = room.all(modes="slow=20")
    before = room.even(PEERS)
    peers[0].signal(signal.SIGTERM)
    after = room.even(PEERS - 1)
    assert peers[0].wait(SHARDS_TIMEOUT_S) == 128 + signal.SIGTERM
    heirs = {after[i] for i in range(SHARDS) if before[i] == "1"}
    assert len(heirs) > 1, f"all went to {heirs}"
    for i, shard in enumerate(room.shards):
        assert before[i] == "1" or before[i] == after[i], f"shard {i} moved without need"
        assert before[i] != "1" or [line for line in shard.lines() if line[0] == "end"], "its work was not told to end"


def led_by_others(room, drained):
    """Waits until each shard runs on a peer that is not drained."""
    def moved():
        """every shard to run elsewhere"""
        return None not in room.owners() and drained not in room.owners()
    wait_for(moved, SHARDS_TIMEOUT_S, 0.02)


@test
def drained_peer_hands_over_its_shards_and_takes_none_until_undrain(room):
    peers = dict(zip(room.ports, room.all(modes="slow=20")))
    before = room.even(PEERS)
    assert room.drain("1")["candidates"] == []
    assert "1" not in room.owners(), "drain returned before the work of the peer had ended"
    peers["1"].said("drained")
    led_by_others(room, "1")
    for i, shard in enumerate(room.shards):
        assert before[i] != "1" or [line for line in shard.lines() if line[0] == "end"], "its work was not told to end"
    peers["1"].destroy()
    again = room.peer("1")
    again.said("drained")
    peers["2"].signal(signal.SIGKILL)
    led_by_others(room, "2")
    assert "1" not in room.owners() and not supervisors(again), "a drained peer took a shard"
    assert room.drain("1", "undrain")["was_drained"]
    room.even(PEERS - 1)
    again.said("undrained")
    assert "1" in room.owners()


@test
def killed_supervisor_is_replaced_without_affecting_other_shards(room):
    peers = room.all()
    before = room.even(PEERS)
    counts = starts_of(room)
    shard = before.index("1")
    os.kill(supervisors(peers[0])[shard], signal.SIGKILL)
    wait_for(lambda: len(room.shards[shard].starts()) > counts[shard] and room.shards[shard].owner(), SHARDS_TIMEOUT_S, 0.02)
    for i, count in enumerate(starts_of(room)):
        assert i == shard or count == counts[i], f"shard {i} was started again"


def leader_of_shard(room, shard):
    """(leader, token) of the shard, as `peer status` shows it; None if no peer leads."""
    _, out, _ = room.ask("status", "--json")
    shown = json.loads(out)["shards"][shard] if out else {"leader": 0}
    return (str(shown["leader"]), shown["token"]) if shown["leader"] else None


def kill_and_restart(room, peers, owner):
    """Kills the supervisor of shard 0 and waits until its work runs again. Every peer that leads the shard meanwhile must run it.
    Returns the new owner."""
    shard, leaders = room.shards[0], []
    count, watch = len(shard.starts()), stall.Watch(peer.pid for peer in peers)
    before = int(shard.starts()[-1][1])
    os.kill(supervisors(peers[int(owner) - 1])[0], signal.SIGKILL)

    def runs_again():
        """the shard to run again"""
        leader = leader_of_shard(room, 0)
        if leader and leader[1] > before and leader not in leaders:
            leaders.append(leader)
        return shard.owner() if len(shard.starts()) > count else None
    owner = wait_for(runs_again, 2 * SHARDS_TIMEOUT_S, 0.02)
    idle = [leader for leader in leaders if leader[1] not in [int(line[1]) for line in shard.starts()]]
    assert not idle or watch.excuses(STALL_S, f"{idle} led shard 0"), f"{idle} led shard 0 without running it"
    return owner


def kill_supervisor_again_and_again(room):
    """Kills the supervisor of one shard until a peer leads it for the second time. A peer that still considered itself the holder
    from the first time would lead it without a command, until the balancing of shards moves it."""
    peers = room.all()
    owners = [room.even(len(peers))[0]]
    while len(set(owners)) == len(owners):
        owners.append(kill_and_restart(room, peers, owners[-1]))


@test
def shard_runs_again_on_any_peer_when_its_supervisor_is_killed(room):
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
        wait_for(lambda: alone.ask("status")[0] == 0, SHARDS_TIMEOUT_S, 0.05)
        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.prlimit(peer.pid, resource.RLIMIT_NOFILE, (len(os.listdir(f"/proc/{peer.pid}/fd")) - 2, most))
        os.kill(supervisors(peer)[0], signal.SIGKILL)
        peer.said("shard-failed", SHARDS_TIMEOUT_S)
        wait_for(lambda: not alone.shards[0].runs(), SHARDS_TIMEOUT_S)
        code, out, _ = alone.ask("status", "--json")
        assert code != 0 and not json.loads(out)["shards"][0]["works"], (code, out)
        assert json.loads(out)["shards"][1]["works"], out
        resource.prlimit(peer.pid, resource.RLIMIT_NOFILE, (most, most))
        wait_for(lambda: len(alone.shards[0].starts()) == 2, 2 * SHARDS_TIMEOUT_S)
        wait_for(lambda: alone.ask("status")[0] == 0, SHARDS_TIMEOUT_S, 0.05)
        alone.judge()


def refused(room, peers, name):
    """Starts a peer with one shard more, once. It must exit, and another peer must report it."""
    earlier = [peer for peer in room.candidates if peer.name == name]  # logs to the same file
    starts = len(earlier[0].events("shard-start")) if earlier else 0
    mismatched = room.peer(name, shards=SHARDS + 1)
    assert mismatched.wait(SHARDS_TIMEOUT_S) == 64 and mismatched.events("fatal-error"), mismatched.text()
    assert f"--shards {SHARDS}," in mismatched.events("fatal-error")[-1]["message"]
    assert len(mismatched.events("shard-start")) == starts, mismatched.text()

    def reported():
        """a peer to report different settings"""
        return [event["message"] for peer in peers for event in peer.events("settings-differ") if f"peer {name} runs with" in event["message"]]
    assert all(f"--shards {SHARDS + 1}," in line for line in wait_for(reported, SHARDS_TIMEOUT_S, 0.05)), reported()


@test
def peer_with_another_shard_count_is_refused(room):
    peers = room.all()
    room.even(PEERS)
    room.all_alive(PEERS)
    room.ports["77"] = free_port()
    room.expect = 0
    refused(room, peers, "77")
    peers[1].signal(signal.SIGTERM)
    assert peers[1].wait(SHARDS_TIMEOUT_S) == 128 + signal.SIGTERM
    stay = [peer for peer in peers if peer is not peers[1]]
    refused(room, stay, "2")  # a member with an earlier incarnation
    del room.ports["77"]
    room.even(PEERS - 1)
    room.peer("2")
    room.even(PEERS)


@test
def peers_end_when_all_shards_are_done(room):
    peers = room.all(modes="for=300")
    for peer in peers:
        assert peer.wait(SHARDS_TIMEOUT_S) == 0, peer.text()
    for shard in room.shards:  # a move to another peer may have interrupted its work
        signalled = {line[2] for line in shard.lines() if line[0] == "signal"}
        finished = [line for line in shard.lines() if line[0] == "end" and line[2] not in signalled]
        assert len(finished) == 1, f"shard {shard.number} was done {len(finished)} times: {shard.lines()}"


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
