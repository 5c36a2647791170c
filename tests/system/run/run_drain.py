#!/usr/bin/env python3
"""`bellwether drain` and `undrain`. Each "host" of these tests is a drain directory of its own.

    run_drain.py BELLWETHER WITNESS SHIM [NAME...]

Each test ends with the check of run_faults.py: never two commands alive at once, and tokens only grow."""
import json
import os
import signal
import subprocess
import sys
import time

sys.dont_write_bytecode = True

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "kit"))
from peer_lib import PeerRoom  # noqa: E402
from run_faults import main, need_shim  # noqa: E402
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
def command_with_n_is_not_run_again_after_drain_and_undrain(room):
    host = Host(room, "one")
    a = room.candidate("a", options=[*host.options, "--no-wait", "-E", "0"])
    room.started(1)
    host.drain()
    host.undrain()
    assert a.wait() == 76 and a.said("leadership-lost")["reason"] == "resigned"
    assert len(room.starts()) == 1, "the command ran again"


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


@test
def drain_directory_is_readable_by_all_users_whatever_the_umask(room):
    directory = os.path.join(room.dir, "new", "drain")
    subprocess.run([room.bellwether, "drain", "--wait", "0", "--drain-dir", directory], umask=0o077, check=True, timeout=HANG_S,
                   stdout=subprocess.DEVNULL)
    modes = {path: oct(os.stat(os.path.join(directory, path)).st_mode & 0o777) for path in ("..", ".", "candidates", "drained")}
    assert modes == {"..": "0o755", ".": "0o755", "candidates": "0o644", "drained": "0o644"}, modes


@test
def candidate_warns_once_that_it_cannot_look(room):
    host = Host(room, "one")
    os.symlink(host.directory, host.directory)  # a loop: no user can look into it, not even root
    a = room.candidate("a", options=host.options)
    room.started(1)
    time.sleep(2.5)  # it looks more than once
    assert len(a.events("drain-unreadable")) == 1, a.events()
    os.unlink(host.directory)
    host.drain()
    a.said("drained")


@test
def drain_waits_for_candidates_that_find_the_lock_file_only_now(room):
    host = Host(room, "one")
    os.mkdir(host.directory)  # as a mounted directory: it exists, but it has no lock file
    begin = time.monotonic()
    host.drain()
    assert time.monotonic() - begin >= 2, "candidates look once per second; drain did not wait for them"


@test
def second_drain_waits_too_for_candidates_that_find_the_lock_file_only_now(room):
    host = Host(room, "one")
    begin = time.monotonic()
    host.drain("--wait", "0")  # creates the lock file
    host.drain()
    # The time of a file may be a tick of the kernel older than this clock.
    assert time.monotonic() - begin >= 1.9, "candidates look once per second; the second drain did not wait for them"


@test
def candidate_locks_the_current_file_after_the_directory_was_replaced(room):
    host = Host(room, "one")
    host.drain()
    host.undrain()
    a = room.candidate("a", options=host.options)
    room.started(1)
    os.rename(host.directory, host.directory + "-old")
    os.mkdir(host.directory)
    open(os.path.join(host.directory, "candidates"), "ab").close()

    def listed():
        """the candidate to hold a lock in the new directory"""
        return host.drain("--status", code=1)["candidates"] == [a.pid]
    wait_for(listed, pause=0.1)
    assert host.drain()["candidates"] == [] and a.said("released")


@test
def drained_candidate_keeps_its_lock_while_an_acquisition_is_under_way(room):
    need_shim(room)
    room.options[1] = f"{4 * HANG_S}s"
    host, stall = Host(room, "one"), os.path.join(room.dir, "stall")
    host.drain()
    host.undrain()
    b = room.candidate("b")
    room.started(1)
    a = room.candidate("a", options=host.options, env={"SHIM_STALL": stall}, shim=room.shim)

    def entered():
        """the candidate to be listed, so that its next write is the acquisition"""
        return "a" in spread(room)[0]
    wait_for(entered, pause=0.1)
    a.said("leader")
    open(stall, "xb").close()
    b.signal(signal.SIGTERM)  # it releases, and A acquires

    def stalled():
        """the acquisition to reach the disk"""
        return os.path.getsize(stall)
    wait_for(stalled)
    host.drain("--wait", "0")
    a.said("drained")
    time.sleep(0.5)  # it looks again
    assert host.drain("--status")["candidates"] == [a.pid], "the store may give it the lease"
    os.unlink(stall)
    assert host.drain()["candidates"] == [] and a.said("released")
    assert len(room.starts()) == 1 and not a.events("elected")


@test
def status_shows_a_hostile_file_safely(room):
    host = Host(room, "one")
    host.drain()
    with open(os.path.join(host.directory, "drained"), "w", encoding="utf-8") as file:
        json.dump({"drained": False, "candidates": [1], "time": "\x1b[2J", "by": "\x1b[1m", "reason": "a\nb"}, file)
    found = host.drain("--status")
    assert found["drained"] is True and found["candidates"] == [], found
    done = subprocess.run([room.bellwether, "drain", "--status", *host.options], capture_output=True, text=True, check=True, timeout=HANG_S)
    assert done.stdout == "drained since ?[2J by ?[1m: a?b\n", done.stdout


@test
def undrain_removes_a_file_that_it_cannot_read(room):
    host = Host(room, "one")
    host.drain()
    drained = os.path.join(host.directory, "drained")
    os.unlink(drained)
    os.symlink("nowhere", drained)  # candidates obey it; it is never followed
    assert host.undrain() == {"drained": False, "was_drained": True}
    assert not os.path.lexists(drained)


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
def unhealthy_host_is_not_listed_and_hands_over_its_shards(room):
    for name in "ab":
        room.candidate(name, options=["--drain-dir", os.path.join(room.dir, "drain"), "--shards", "4", "--ttl", "10s", "--health-interval", "300ms",
                                      "--health-cmd", f"test ! -e {room.dir}/sick-{name}"], command=["sleep", "1000"])

    def shared():
        """both hosts to lead shards"""
        return spread(room) == ({"a", "b"}, {"a", "b"})

    def alone():
        """host b to be the only candidate, and to lead each shard"""
        return spread(room) == ({"b"}, {"b"})
    wait_for(shared, pause=0.1)
    sick = os.path.join(room.dir, "sick-a")
    open(sick, "xb").close()
    wait_for(alone, pause=0.1)
    os.unlink(sick)
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


@test
def drained_peers_that_come_first_in_rank_leave_leadership_to_the_last(room):
    for algorithm in ("bully", "ring-list", "lowest-id"):
        with PeerRoom(room.bellwether, room.witness, more=["--algorithm", algorithm, "--quorum"]) as peers:
            hosts = {name: Host(peers, name) for name in peers.ports}
            for name, host in hosts.items():
                peers.candidate(name, options=host.options)
            peers.all_alive(3)
            ranks = "123" if algorithm == "lowest-id" else "321"

            def first_leads(ranks=ranks):
                """the first in rank to lead"""
                return peers.agreed() == ranks[0]
            wait_for(first_leads)
            for name in ranks[:2]:
                hosts[name].drain()

            def last_leads(ranks=ranks):
                """the peer that is not drained to run the command"""
                leader = peers.candidates[int(ranks[2]) - 1]
                return peers.agreed() == ranks[2] and leader.events("started") and leader.leads()
            wait_for(last_leads, pause=0.1)
            peers.judge()


if __name__ == "__main__":
    main(TESTS)
