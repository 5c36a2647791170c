#!/usr/bin/env python3
"""This version with 0.1.0: data and members of the older one, upgraded and taken back, as docs/reference/compatibility.md says.

    ship_compat.py BELLWETHER WITNESS SOURCE [OLDER]

OLDER is the program of 0.1.0; without it, the test builds that commit from the history of SOURCE, in a directory that it
removes."""
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import traceback

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "kit"))
from peer_lib import PeerRoom  # noqa: E402
from run_lib import HANG_S, Room, Tap, wait_for  # noqa: E402

COMMIT = "f34d659cb91996ed1a0c262afa3deb871a9fe103"
PROTOCOL = 3  # the newest version of the protocol between `serve` nodes that 0.1.0 supports
OURS, WITNESS, SOURCE = (os.path.abspath(path) for path in sys.argv[1:4])
UPGRADE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "serve", "serve_upgrade.py")
BUILD_S = 1200  # ends a build that hangs
tap = Tap()
TESTS = []


class Missing(Exception):
    """This machine cannot build 0.1.0; the text says why."""


def test(function):
    TESTS.append(function)
    return function


def sh(*words, why, **more):
    done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, timeout=BUILD_S,
                          stdin=subprocess.DEVNULL, **more)
    if done.returncode:
        raise Missing(f"{why}: {done.stdout.strip()[-2000:]}")


def build(work):
    """Builds 0.1.0 without its tests, and returns its program."""
    if not shutil.which("git") or not os.path.exists(os.path.join(SOURCE, ".git")):
        raise Missing("the source has no history")
    sh("git", "-C", SOURCE, "cat-file", "-e", COMMIT + "^{commit}", why=f"commit {COMMIT} is not in the history")
    tree, archive = os.path.join(work, "source"), os.path.join(work, "source.tar")
    os.mkdir(tree)
    sh("git", "-C", SOURCE, "archive", "-o", archive, COMMIT, why="cannot read 0.1.0")
    sh("tar", "-xf", archive, "-C", tree, why="cannot unpack 0.1.0")
    out = os.path.join(work, "build")
    sh("meson", "setup", out, tree, why="cannot configure 0.1.0")
    sh("ninja", "-j", str(min(2, os.cpu_count() or 1)), "-C", out, "bellwether", "src/store/bellwether-store-peer.so",
       why="cannot build 0.1.0")
    return os.path.join(out, "bellwether")


def status(program, room):
    done = subprocess.run([program, "status", "--store", room.store, "--election", room.election, "--json"], capture_output=True,
                          text=True, check=False, timeout=HANG_S)
    assert done.returncode == 0, (program, done.stdout, done.stderr)
    found = json.loads(done.stdout)
    return found["leader"], found["token"]


@test
def sqlite_file_of_one_version_is_used_by_the_other(older):
    with Room(older, WITNESS) as room:
        for turn, program in enumerate((older, OURS, older, OURS), 1):
            room.bellwether = program
            candidate = room.candidate(f"c{turn}")
            room.started(turn)
            assert candidate.leads()
            assert status(older, room) == status(OURS, room) == (f"c{turn}", turn)
            candidate.signal(signal.SIGTERM)
            candidate.wait()
        room.judge()


@test
def candidates_of_both_versions_succeed_each_other(older):
    with Room(older, WITNESS) as room:
        first = room.candidate("a")
        room.started(1)
        room.bellwether = OURS
        second = room.candidate("b")
        second.said("leader")
        first.signal(signal.SIGKILL)
        room.started(2)
        assert second.leads()
        room.bellwether = older
        third = room.candidate("c")
        third.said("leader")
        subprocess.run([older, "resign", "--store", room.store, "--election", room.election], check=True, timeout=HANG_S,
                       stdout=subprocess.DEVNULL)
        room.started(3)
        assert third.leads() and [int(line[1]) for line in room.starts()] == [1, 2, 3]
        room.judge()


def replaced(room, peers, name, program):
    """Stops a peer cleanly and starts it on the same directory with another program; waits until it takes part."""
    peers[name].signal(signal.SIGTERM)
    peers[name].wait()
    room.bellwether = program
    peers[name] = room.candidate(name)
    room.all_alive(3)
    leader = room.agreed()

    def works():
        """the leader that all see to run the command"""
        return peers[leader].leads()
    wait_for(works)


@test
def bully_peers_with_a_quorum_are_replaced_one_after_the_other_and_back(older):
    with PeerRoom(older, WITNESS, ttl="2s", more=["--algorithm", "bully", "--quorum"]) as room:
        peers = {name: room.candidate(name) for name in room.ports}
        room.all_alive(3)
        room.started(1)
        room.agreed()
        for program in (OURS, older):
            for name in room.ports:
                replaced(room, peers, name, program)
        room.judge()


@test
def raft_peers_are_restarted_together_on_the_data_of_the_other_version(older):
    with PeerRoom(older, WITNESS) as room:
        for turn, program in enumerate((older, OURS, older), 1):
            room.bellwether = program
            peers = room.start()
            room.started(turn)
            for peer in peers:
                peer.signal(signal.SIGTERM)
            for peer in peers:
                peer.wait()
        room.judge()


@test
def raft_peer_is_refused_among_peers_of_the_older_version(older):
    with PeerRoom(older, WITNESS) as room:
        peers = {name: room.candidate(name) for name in room.ports}
        room.all_alive(3)
        leader = room.leader(1).name
        other = next(name for name in peers if name != leader)
        peers[other].signal(signal.SIGTERM)
        peers[other].wait()
        room.bellwether = OURS
        refused = room.candidate(other)
        assert refused.wait() != 0 and "same settings" in refused.said("fatal-error")["message"], refused.text()
        assert len(room.starts()) == 1 and peers[leader].process.poll() is None
        room.judge()


def upgrade(older):
    """Runs the tests of serve_upgrade.py in which nodes of both programs replace each other. The others need a program that
    knows only version 1 of the protocol."""
    done = subprocess.run([sys.executable, UPGRADE, OURS, f"{older}:{PROTOCOL}", older, "nodes_"], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, check=False, timeout=BUILD_S)
    results = re.findall(r"^(not ok|ok) \d+ - (.*)$", done.stdout, re.M)
    for verdict, name in results:
        tap.result(verdict == "ok", f"serve: {name}", "" if verdict == "ok" else done.stdout)
    if not results or (done.returncode and all(verdict == "ok" for verdict, _ in results)):
        tap.result(False, f"serve: the upgrade tests ended with {done.returncode}", done.stdout)


def main():
    work = tempfile.mkdtemp(prefix="bellwether-compat-")
    try:
        older = os.path.abspath(sys.argv[4]) if len(sys.argv) > 4 else build(work)
        upgrade(older)
        for function in TESTS:
            try:
                function(older)
                tap.result(True, function.__name__)
            except Exception as error:  # noqa: BLE001
                tap.result(False, function.__name__, traceback.format_exc() + "\n".join(getattr(error, "__notes__", [])))
    except Missing as why:
        tap.skip("compatibility with 0.1.0", str(why).replace("\n", " "))
    finally:
        shutil.rmtree(work, ignore_errors=True)
    return tap.end()


if __name__ == "__main__":
    sys.exit(main())
