#!/usr/bin/env python3
"""`bellwether drain` and `undrain`. Each "host" of these tests is a drain directory of its own.

    run_drain.py BELLWETHER WITNESS SHIM [NAME...]

Each test ends with the check of run_faults.py: never two commands alive at once, and tokens only grow."""
import json
import os
import signal
import subprocess
import sys

sys.dont_write_bytecode = True

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "kit"))
from peer_lib import PeerRoom  # noqa: E402
from run_faults import main  # noqa: E402
from run_lib import HANG_S, wait_for  # noqa: E402

TESTS = []


def test(function):
    TESTS.append((function.__name__, function, None))
    return function


class Host:
    """A host: its drain directory, and the option with which its candidates watch it."""

    def __init__(self, room, name):
        self.bellwether, self.directory = room.bellwether, os.path.join(room.dir, "host-" + name)
        self.options = ["--drain-dir", self.directory]

    def command(self, name, *words, code=0):
        done = subprocess.run([self.bellwether, name, *self.options, "--json", *words], capture_output=True, text=True, check=False,
                              timeout=2 * HANG_S)
        assert done.returncode == code, f"{name} {words}: exit {done.returncode}: {done.stdout}{done.stderr}"
        return json.loads(done.stdout) if done.stdout else done.stderr

    def drain(self, *words, code=0):
        return self.command("drain", *words, code=code)

    def undrain(self):
        return self.command("undrain")


@test
def drained_host_hands_over_and_does_not_contend_until_undrain(room):
    north, south = Host(room, "north"), Host(room, "south")
    a = room.candidate("a", options=north.options)
    room.started(1)
    b = room.candidate("b", options=south.options)
    b.said("leader")
    assert north.drain("--reason", "new kernel")["candidates"] == []
    room.started(2)
    assert b.leads() and a.said("step-down")["reason"] == "resigned" and a.said("drained")
    assert north.drain("--status")["reason"] == "new kernel"
    assert south.drain("--status", code=1) == {"drained": False, "candidates": []}  # the host was never drained: no lock file
    south.drain()
    b.said("released")
    assert len(room.starts()) == 2, "a drained candidate contended"
    assert north.undrain() == {"drained": False, "was_drained": True}
    room.started(3)
    assert a.leads() and a.said("undrained") and not b.events("undrained")


@test
def drained_host_stays_drained_after_a_restart_of_its_candidates(room):
    host = Host(room, "one")
    host.drain()
    a = room.candidate("a", options=host.options)
    a.said("drained")
    late = room.candidate("late", options=[*host.options, "--no-wait"])
    assert late.wait() == 75
    a.destroy()
    b = room.candidate("b", options=host.options)
    b.said("drained")
    assert not room.starts()
    host.undrain()
    room.started(1)
    assert host.drain("--status", code=1)["candidates"] == [b.pid]


@test
def drain_reports_a_candidate_that_has_not_handed_over(room):
    host = Host(room, "one")
    host.drain()  # creates the directory, so that the candidate has a lock from the start
    host.undrain()
    a = room.candidate("a", options=host.options)
    room.started(1)
    a.signal(signal.SIGSTOP)  # it cannot react, so the outcome depends on no time limit
    found = host.drain("--wait", "200ms", code=75)
    assert found["drained"] and found["candidates"] == [a.pid]
    a.signal(signal.SIGCONT)
    assert host.drain()["candidates"] == []
    assert a.said("drained") and a.said("released")


@test
def drained_leader_ends_its_work_before_drain_returns(room):
    host = Host(room, "one")
    a = room.candidate("a", "ignore-term", options=host.options)
    work = int(room.started(1)[2])
    host.drain()
    assert not os.path.exists(f"/proc/{work}") or open(f"/proc/{work}/stat", encoding="utf-8").read().split()[2] in "ZX"
    assert a.said("confirmed-dead")


@test
def drain_says_why_a_directory_cannot_be_used(room):
    host = Host(room, "one")
    host.directory = os.path.join(room.dir, "log", "drain")  # `log` is a file
    host.options = ["--drain-dir", host.directory]
    open(os.path.join(room.dir, "log"), "ab").close()
    why = host.drain(code=74)
    assert "cannot create" in why and host.directory in why, why


def spread(room):
    """The candidates of a sharded election, and the leader of each shard."""
    done = subprocess.run([room.bellwether, "status", "--store", room.store, "--election", room.election, "--json"], capture_output=True, text=True,
                          check=False, timeout=HANG_S)
    found = json.loads(done.stdout or "{}")
    return {c["id"] for c in found.get("candidates", [])}, {s["leader"] for s in found.get("shards", [])}


@test
def drained_host_hands_over_its_shards(room):
    hosts = {name: Host(room, name) for name in "ab"}
    for name, host in hosts.items():
        room.candidate(name, options=[*host.options, "--shards", "4", "--ttl", "10s"], command=["sleep", "1000"])

    def shared():
        """both hosts to lead shards"""
        return spread(room) == ({"a", "b"}, {"a", "b"})

    def alone():
        """host b to be the only candidate, and to lead each shard"""
        return spread(room) == ({"b"}, {"b"})
    wait_for(shared, pause=0.1)
    hosts["a"].drain()
    wait_for(alone, pause=0.1)
    hosts["a"].undrain()
    wait_for(shared, pause=0.1)


@test
def drained_peer_hands_over_and_still_votes(room):
    with PeerRoom(room.bellwether, room.witness) as peers:
        hosts = {name: Host(peers, name) for name in peers.ports}
        by_name = {name: peers.candidate(name, options=host.options) for name, host in hosts.items()}
        peers.all_alive(3)
        first = peers.leader(1).name
        hosts[first].drain()
        second = peers.leader(2).name
        assert second != first and by_name[first].said("drained")
        hosts[second].drain()
        third = peers.leader(3).name
        assert third not in (first, second)
        by_name[second].destroy()  # the last candidate leads only with the vote of a drained one

        def renewed():
            """the leader to be the one that is not drained"""
            return peers.agreed() == third
        wait_for(renewed)
        assert len(peers.starts()) == 3, peers.starts()
        peers.judge()


if __name__ == "__main__":
    main(TESTS)
