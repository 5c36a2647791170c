#!/usr/bin/env python3
"""`bellwether run --shards`: shards spread over real launchers and supervisors, checked by an independent witness.

    run_shards.py BELLWETHER WITNESS MODULE [NAME...]      MODULE: store_unlisted.c

Every shard has its own witness. Each test ends with the same check for each shard: never two commands at once, and tokens only
grow."""
import collections
import concurrent.futures
import fcntl
import json
import os
import pty
import random
import re
import select
import signal
import sqlite3
import subprocess
import sys
import time
import traceback

sys.dont_write_bytecode = True

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "kit"))
import stall  # noqa: E402
from run_lib import ELECTION, Room, Tap, lives, send, stat_of, text_of, wait_for  # noqa: E402

SHARDS = 9
SHARDS_TIMEOUT_S = 60.0  # seconds until something that should happen counts as hanging
AT_ONCE = 3  # they mostly wait
TESTS = []


def test(function):
    TESTS.append((function.__name__, function))
    return function


class Shard:
    """The witness of one shard: a directory that all its commands share."""

    def __init__(self, room, number):
        self.dir = os.path.join(room.dir, str(number))
        self.number = number
        os.mkdir(self.dir)

    def lines(self, name="log"):
        return [line.split() for line in text_of(os.path.join(self.dir, name)).splitlines()]

    def starts(self):
        return [line for line in self.lines() if line[0] == "start"]

    def runs(self):
        """True while a command of the shard runs. The lock belongs to its process tree."""
        with open(os.path.join(self.dir, "lock"), "a", encoding="utf-8") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return False
            except OSError:
                return True

    def owner(self):
        """The candidate whose token the running command has; None if no command runs."""
        starts = self.starts()
        if not starts or not self.runs():
            return None
        names = {words[1]: words[0] for words in self.lines("who")}
        return names.get(starts[-1][1])


class ShardRoom(Room):
    def __init__(self, bellwether, witness, module):
        super().__init__(bellwether, witness, retry="500ms")  # for a busy machine: three retry intervals
        self.modules = os.path.dirname(os.path.abspath(module))
        self.shards = [Shard(self, i) for i in range(SHARDS)]

    def launcher(self, name, before="", modes="", shards=SHARDS, unlisted=False):
        """Starts a launcher. Each command first runs the shell code `before`."""
        store = ["--store", "kubernetes://" + self.db] if unlisted else []
        return self.candidate(name, options=["--shards", str(shards)] + store, command=self.work(before, modes),
                              env={"BELLWETHER_MODULES": self.modules} if unlisted else None)

    def launcher_words(self, name):
        """The complete command line of a launcher."""
        return [self.bellwether, "run", "--store", "sqlite:" + self.db, "--election", ELECTION, "--id", name,
                *self.options, "--shards", str(SHARDS), "--", *self.work("", "")]

    def work(self, before, modes):
        script = (f'd={self.dir}/$BELLWETHER_SHARD; echo "$BELLWETHER_ID $BELLWETHER_TOKEN" >>$d/who; {before}\n'
                  f'exec {self.witness} $d {modes}')
        return ["sh", "-c", script]

    def owners(self):
        return [shard.owner() for shard in self.shards]

    def spread(self, *loads):
        """Waits until every shard runs and the candidates have these loads. Returns the owner of each shard."""
        def reached():
            owners = self.owners()
            counts = collections.Counter(owners)
            return owners if None not in counts and sorted(counts.values()) == sorted(loads) else None
        reached.__doc__ = f"loads of {loads}"
        try:
            return wait_for(reached, SHARDS_TIMEOUT_S, 0.02)
        except AssertionError as error:
            raise AssertionError(f"{error}; now {self.owners()}") from error

    def judge(self):
        for shard in self.shards:
            stall.judge_overlaps(shard.lines(), f"shard {shard.number}: ")
            tokens = [int(line[1]) for line in shard.starts()]
            stall.judge_tokens(tokens, f"shard {shard.number}: ")

    def ask(self, *words):
        done = subprocess.run([self.bellwether, words[0], "--store", "sqlite:" + self.db, "--election", *words[1:]],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=SHARDS_TIMEOUT_S, check=False)
        return done.returncode, done.stdout


def supervisors(launcher):
    """The pids of a launcher's supervisors, by shard."""
    found = {}
    for entry in filter(str.isdigit, os.listdir("/proc")):
        stat = stat_of(int(entry))
        if not stat or stat[1] != launcher.pid:
            continue
        try:
            with open(f"/proc/{entry}/environ", "rb") as file:
                for word in file.read().split(b"\0"):
                    if word.startswith(b"BELLWETHER_SHARD="):
                        found[int(word.split(b"=")[1])] = int(entry)
        except OSError:
            pass
    return found


def drain(terminal):
    """Reads all output, so that the writers do not block."""
    try:
        while select.select([terminal], [], [], 0)[0] and os.read(terminal, 65536):
            pass
    except OSError:
        pass


def three(room, **more):
    launchers = [room.launcher(name, **more) for name in "abc"]
    return launchers, room.spread(3, 3, 3)


@test
def nine_shards_are_spread_evenly_over_three_candidates(room):
    begun = time.monotonic()
    launchers, owners = three(room)
    wait_for(lambda: room.ask("candidates", ELECTION)[1].count("shards=9 runs=") == 3, SHARDS_TIMEOUT_S)
    code, said = room.ask("status", ELECTION)
    assert code == 0, said
    for shard, owner in enumerate(owners):
        assert any(line.split()[:3] == ["shard", str(shard), owner] for line in said.splitlines()), said
    history = ["--history-dir", os.path.join(room.dir, "history")]

    def ages():
        """the history, which is written in the background, to show when each shard's leadership began"""
        shards = json.loads(room.ask("status", ELECTION, *history, "--json")[1])["shards"]
        found = [shard["age_ms"] for shard in shards if not shard["age_is_minimum"]]
        return len(found) == SHARDS and None not in found and found
    assert all(0 <= age <= 1000 * (time.monotonic() - begun) for age in wait_for(ages, SHARDS_TIMEOUT_S))
    said = room.ask("status", ELECTION, *history)[1]
    assert len(re.findall(r"^shard .* token \d+  age \d", said, re.M)) == SHARDS, said
    assert all(launcher.process.poll() is None for launcher in launchers)


@test
def the_work_knows_its_shard(room):
    room.launcher("a", before=f'echo "$BELLWETHER_SHARD $BELLWETHER_SHARDS $BELLWETHER_ELECTION" >>{room.dir}/env')
    room.spread(SHARDS)
    with open(os.path.join(room.dir, "env"), encoding="utf-8") as file:
        assert sorted(file.read().splitlines()) == [f"{i} {SHARDS} {ELECTION}.{i}" for i in range(SHARDS)]


@test
def supervisors_shut_down_cleanly_when_the_launcher_is_killed(room):
    launchers, before = three(room, modes="slow=50")
    orphans = supervisors(launchers[0])
    assert len(orphans) == 3
    launchers[0].signal(signal.SIGKILL)
    after = room.spread(4, 5)
    for shard, owner in enumerate(before):
        if owner == "a":
            ends = [line for line in room.shards[shard].lines() if line[0] == "end"]
            assert ends, f"the work of shard {shard} was not told to end"
        elif owner != after[shard]:
            print(f"# shard {shard} moved from {owner} to {after[shard]} without need")
    wait_for(lambda: not any(lives(pid) for pid in orphans.values()), SHARDS_TIMEOUT_S)
    released = [e for e in launchers[0].events("released") if e["reason"] == "shut-down"]
    assert len(released) == 3, launchers[0].events("released")


@test
def new_candidate_gets_its_share_with_few_moves(room):
    _, before = three(room)
    starts = [len(shard.starts()) for shard in room.shards]
    room.launcher("d")
    after = room.spread(2, 2, 2, 3)
    moved = [i for i in range(SHARDS) if before[i] != after[i]]
    assert len(moved) <= 4, f"{len(moved)} moves: {before} to {after}"
    for i, shard in enumerate(room.shards):
        assert len(shard.starts()) == starts[i] + (i in moved), f"shard {i} moved more than once, or without need"


@test
def term_ends_all_shards_then_the_launcher(room):
    launchers, _ = three(room, modes="slow=50")
    for launcher in launchers:
        launcher.signal(signal.SIGTERM)
    for launcher in launchers:
        assert launcher.wait(SHARDS_TIMEOUT_S) == 128 + signal.SIGTERM
    for shard in room.shards:
        assert not shard.runs(), f"the work of shard {shard.number} outlives its launcher"
        assert len([line for line in shard.lines() if line[0] == "signal"]) == 1, "told more than once"
        code, said = room.ask("status", f"{ELECTION}.{shard.number}")
        assert code == 1 and "confirmed dead" in said and "not confirmed" not in said, said
    code, said = room.ask("candidates", ELECTION)
    assert code == 0 and said == "", said


@test
def sigterm_hands_shards_to_the_remaining_candidates(room):
    launchers, before = three(room)
    launchers[1].signal(signal.SIGTERM)
    after = room.spread(4, 5)
    assert launchers[1].wait(SHARDS_TIMEOUT_S) == 128 + signal.SIGTERM
    assert [o for o, b in zip(after, before) if b == "b"].count("b") == 0


@test
def another_candidate_takes_a_shard_when_its_owner_does_not(room):
    launchers, before = three(room)
    victim = before.index("b")
    launchers[1].signal(signal.SIGSTOP)  # it stays listed, but cannot start a shard
    send(supervisors(launchers[1])[victim], signal.SIGKILL)
    wait_for(lambda: room.shards[victim].owner() in ("a", "c"), SHARDS_TIMEOUT_S, 0.02)
    launchers[1].signal(signal.SIGCONT)
    wait_for(lambda: room.shards[victim].owner() == "b", SHARDS_TIMEOUT_S, 0.02)
    room.spread(3, 3, 3)


@test
def a_shard_runs_again_at_once_when_its_supervisor_is_killed(room):
    room.options[room.options.index("--retry") + 1] = "1h"
    launcher = room.launcher("a", unlisted=True)  # without a list of candidates, it does not wait for a second round
    shard = wait_for(lambda: [s for s in room.shards if s.runs()], SHARDS_TIMEOUT_S)[0]
    time.sleep(1)  # a supervisor that has just started would not be restarted at once
    os.kill(supervisors(launcher)[shard.number], signal.SIGKILL)
    wait_for(lambda: len(shard.starts()) == 2, SHARDS_TIMEOUT_S)  # a retry interval is longer


@test
def a_failing_shard_leaves_the_others_alone(room):
    room.launcher("a", before="test $BELLWETHER_SHARD != 4 || exit 3")
    tried = room.shards[4]
    wait_for(lambda: len(tried.lines("who")) >= 3, SHARDS_TIMEOUT_S, 0.02)
    for shard in room.shards:
        assert shard is tried or (shard.owner() == "a" and len(shard.starts()) == 1), shard.number


@test
def launchers_end_when_all_shards_are_done(room):
    launchers = [room.launcher(name, modes="for=100") for name in "abc"]
    for launcher in launchers:
        assert launcher.wait(SHARDS_TIMEOUT_S) == 0
    assert all(shard.starts() for shard in room.shards)


@test
def candidates_with_another_shard_count_are_ignored(room):
    a = room.launcher("a")
    room.spread(SHARDS)
    b = room.launcher("b", shards=4)
    a.said("shard-count-mismatch", SHARDS_TIMEOUT_S)
    b.said("shard-count-mismatch", SHARDS_TIMEOUT_S)
    assert room.owners() == ["a"] * SHARDS


@test
def free_shards_are_taken_and_not_moved_without_a_candidate_list(room):
    launchers = [room.launcher(name, unlisted=True) for name in "abc"]
    assert "not moved" in launchers[0].said("shards", SHARDS_TIMEOUT_S)["message"]
    wait_for(lambda: None not in room.owners(), SHARDS_TIMEOUT_S, 0.02)
    done = subprocess.run([room.bellwether, "status", "--store", "kubernetes://" + room.db, "--election", ELECTION, "--json"],
                          capture_output=True, text=True, timeout=60, check=False,
                          env=dict(os.environ, BELLWETHER_MODULES=room.modules))
    reported = json.loads(done.stdout)
    assert done.returncode == 0 and reported["led"] == len(reported["shards"]) == SHARDS and reported["candidates"] is None, done
    before = room.owners()
    room.launcher("d", unlisted=True).said("shards", SHARDS_TIMEOUT_S)
    launchers[0].signal(signal.SIGKILL)
    wait_for(lambda: None not in room.owners() and "a" not in room.owners(), SHARDS_TIMEOUT_S, 0.02)
    for shard, owner in enumerate(before):
        assert owner == "a" or room.shards[shard].owner() == owner, f"shard {shard} moved without need"
    for launcher in room.candidates[1:]:
        launcher.signal(signal.SIGTERM)
        assert launcher.wait(SHARDS_TIMEOUT_S) == 128 + signal.SIGTERM
    assert room.owners() == [None] * SHARDS


@test
def an_interrupt_reaches_every_work_once(room):
    launcher = room.launcher("a")
    room.spread(SHARDS)
    launcher.signal(signal.SIGINT)
    assert launcher.wait(SHARDS_TIMEOUT_S) == 128 + signal.SIGINT
    for shard in room.shards:
        reported = [line for line in shard.lines() if line[0] == "signal"]
        assert [line[1] for line in reported] == [str(int(signal.SIGINT))], reported


@test
def ctrl_c_on_a_terminal_reaches_every_work_once(room):
    words = room.launcher_words("a")
    pid, terminal = pty.fork()
    if pid == 0:
        os.execv(words[0], words)
    try:
        room.spread(SHARDS)
        os.write(terminal, b"\x03")
        code = wait_for(lambda: drain(terminal) or os.waitpid(pid, os.WNOHANG)[1] or None, SHARDS_TIMEOUT_S)
        assert os.waitstatus_to_exitcode(code) == 128 + signal.SIGINT, code
        pid = 0
    finally:
        if pid:
            send(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        os.close(terminal)
    for shard in room.shards:
        reported = [line for line in shard.lines() if line[0] == "signal"]
        assert [line[1] for line in reported] == [str(int(signal.SIGINT))], reported
        assert not shard.runs()


@test
def shards_run_again_after_the_store_was_unavailable_longer_than_the_ttl(room):
    three(room)
    starts = [len(shard.starts()) for shard in room.shards]
    connection = sqlite3.connect(room.db, isolation_level=None, timeout=SHARDS_TIMEOUT_S)
    connection.execute("BEGIN EXCLUSIVE")
    wait_for(lambda: not any(shard.runs() for shard in room.shards), SHARDS_TIMEOUT_S, 0.02)
    connection.execute("ROLLBACK")
    connection.close()
    room.spread(3, 3, 3)
    assert all(len(shard.starts()) > starts[i] for i, shard in enumerate(room.shards))


@test
def launcher_waits_for_a_store_that_cannot_be_opened_yet(room):
    first = room.launcher("a")
    room.spread(SHARDS)
    first.signal(signal.SIGTERM)
    first.wait(SHARDS_TIMEOUT_S)
    connection = sqlite3.connect(room.db, isolation_level=None, timeout=SHARDS_TIMEOUT_S)
    connection.execute("PRAGMA locking_mode=EXCLUSIVE")
    connection.execute("BEGIN EXCLUSIVE")
    second = room.launcher("b")
    second.said("store-unavailable", SHARDS_TIMEOUT_S)
    connection.execute("ROLLBACK")
    connection.close()
    assert set(room.spread(SHARDS)) == {"b"}


@test
def closed_standard_streams_do_no_harm(room):
    process = subprocess.Popen(["sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh", *room.launcher_words("a")])
    try:
        room.spread(SHARDS)
        process.terminate()
        assert process.wait(SHARDS_TIMEOUT_S) == 128 + signal.SIGTERM
    finally:
        process.kill()
        process.wait()
    check = sqlite3.connect(room.db).execute("PRAGMA integrity_check").fetchone()
    assert check == ("ok",), check


@test
def a_storm_of_kills_and_stops(room):
    rng = random.Random(7)
    launchers = {name: room.launcher(name) for name in "abc"}
    room.spread(3, 3, 3)
    stopped = []
    for _ in range(25):
        name = rng.choice("abc")
        launcher = launchers[name]
        pids = list(supervisors(launcher).values())
        kind = rng.choice(["kill", "term", "kill-one", "stop-one", "stop"])
        if kind in ("kill", "term"):
            launcher.signal(signal.SIGKILL if kind == "kill" else signal.SIGTERM)
            launcher.signal(signal.SIGCONT)
            launcher.wait(SHARDS_TIMEOUT_S)
            launchers[name] = room.launcher(name)
        elif kind == "stop":
            launcher.signal(signal.SIGSTOP)
            stopped.append(launcher.pid)
        elif pids:
            pid = rng.choice(pids)
            send(pid, signal.SIGKILL if kind == "kill-one" else signal.SIGSTOP)
            stopped += [pid] if kind == "stop-one" else []
        time.sleep(rng.uniform(0, 0.5))
        if len(stopped) > 2:
            send(stopped.pop(0), signal.SIGCONT)
    for pid in stopped:
        send(pid, signal.SIGCONT)
    room.spread(3, 3, 3)


def run(name, function, programs, tap):
    with ShardRoom(*programs) as room:
        try:
            function(room)
            room.judge()
            tap.result(True, name)
        except Exception:  # pylint: disable=broad-except
            details = traceback.format_exc()
            for candidate in room.candidates:
                with open(candidate.errors, encoding="utf-8", errors="replace") as file:
                    details += f"\n{candidate.name}:\n" + "".join(file.readlines()[-60:])
            tap.result(False, name, details)


def main():
    names = sys.argv[4:]
    tap = Tap()
    chosen = [(name, function) for name, function in TESTS if not names or name in names]
    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        list(pool.map(lambda test: run(*test, sys.argv[1:4], tap), chosen))
    return tap.end()


if __name__ == "__main__":
    sys.exit(main())
