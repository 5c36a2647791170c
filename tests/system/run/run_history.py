#!/usr/bin/env python3
"""`bellwether history`: what the candidates of a host saw, after resignations, kills and restarts.

    run_history.py BELLWETHER WITNESS SHIM [NAME...]

Each test ends with the check of run_faults.py: never two commands alive at once, and tokens only grow."""
import datetime
import json
import os
import signal
import subprocess
import sys
import time

sys.dont_write_bytecode = True

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "kit"))
from peer_lib import PeerRoom  # noqa: E402
from run_faults import main  # noqa: E402
from run_lib import HANG_S, wait_for  # noqa: E402

TESTS = []
NOBODY = 65534


def test(function):
    TESTS.append((function.__name__, function, None))
    return function


def run_history(room, *words, directory="history", **more):
    return subprocess.run([room.bellwether, "history", "--history-dir", os.path.join(room.dir, directory), *words], capture_output=True, text=True,
                          check=False, timeout=HANG_S, **more)


def history(room, *words, code=0, **more):
    done = run_history(room, *words, **more)
    assert done.returncode == code, f"history {words}: exit {done.returncode}: {done.stdout}{done.stderr}"
    return done.stdout if code == 0 else done.stderr


def changes(room, *words, **more):
    return [json.loads(line) for line in history(room, "--json", *words, **more).splitlines()]


def changes_so_far(room, *words, **more):
    """The same, but no changes if there is no file yet."""
    done = run_history(room, "--json", *words, **more)
    assert done.returncode in (0, 66), f"history {words}: exit {done.returncode}: {done.stdout}{done.stderr}"
    return [json.loads(line) for line in done.stdout.splitlines()]


def short(found):
    """The changes without times: (event, leader, token)."""
    return [(change["event"], change["leader"], change["token"]) for change in found]


def seen(room, wanted, *words, **more):
    """Waits until the history shows these changes; the candidates write them in the background."""
    def shown():
        """the history to show the changes"""
        return short(changes_so_far(room, *words, **more)) == wanted
    try:
        wait_for(shown, pause=0.1)
    except Exception as error:
        raise AssertionError(f"expected {wanted}, found {history(room, *words, **more)}") from error
    return changes(room, *words, **more)


def resign(room):
    subprocess.run([room.bellwether, "resign", "--store", room.store, "--election", room.election], check=True, timeout=2 * HANG_S,
                   stdout=subprocess.DEVNULL)


@test
def history_shows_each_leadership_with_its_reason_and_each_gap(room):
    a = room.candidate("a")
    room.started(1)
    b = room.candidate("b")
    b.said("leader")
    resign(room)
    room.started(2)
    assert b.leads()
    b.signal(signal.SIGKILL)  # its guardian kills the work and releases
    room.started(3)
    a.signal(signal.SIGTERM)
    a.wait()
    found = seen(room, [("found", None, 0), ("elected", "a", 1), ("lost", "a", 1), ("elected", "b", 2), ("lost", "b", 2), ("elected", "a", 3),
                        ("lost", "a", 3)])
    assert [change["reason"] for change in found if change["event"] == "lost"] == ["resigned", "released: its work is confirmed dead", "shut-down"]
    assert all("led_ms" in change and not change["at_least"] for change in found if change["event"] == "lost"), found
    assert [change["at_least"] for change in found if change["event"] == "elected"] == [True, False, False], found
    assert all(change["election"] == room.election for change in found)
    text = history(room, "--election", room.election).splitlines()
    assert len(text) == 7 and " lost     a token 1: resigned, after " in text[2] and text[2].startswith(found[2]["time"]), text
    assert text[3].endswith(" without a leader") and "elected  b token 2, after " in text[3], text


@test
def history_since_keeps_the_change_before_it(room):
    a = room.candidate("a")
    room.started(1)
    found = seen(room, [("found", None, 0), ("elected", "a", 1)])
    time.sleep(0.01)  # so that the next change has another time
    since = datetime.datetime.now(datetime.timezone.utc).isoformat()  # with an offset of +00:00
    a.signal(signal.SIGTERM)
    a.wait()
    assert short(changes(room, "--since", since)) == [("elected", "a", 1), ("lost", "a", 1)]
    assert changes(room, "--since", since)[0] == found[1]
    assert len(changes(room, "--since", "1h")) == 3 and len(changes(room, "--since", "2026-01-01T00:00:00Z")) == 3
    assert short(changes(room, "--since", "0s")) == [("lost", "a", 1)]
    for wrong in ("yesterday", "2026-13-01T00:00:00Z", "2026-01-01"):
        assert "invalid --since" in history(room, "--since", wrong, code=64), wrong


@test
def history_says_that_an_end_was_not_seen(room):
    north, south = ({"BELLWETHER_HISTORY_DIR": os.path.join(room.dir, name)} for name in ("north", "south"))
    a = room.candidate("a", env=north)
    room.started(1)
    b = room.candidate("b", env=south)
    b.said("leader")
    seen(room, [("found", None, 0), ("elected", "a", 1)], directory="north")
    a.signal(signal.SIGSTOP)  # the guardian ends the work in time; the lease expires
    room.started(2)
    a.signal(signal.SIGKILL)
    a.wait()
    again = room.candidate("c", env=north)
    again.said("leader")
    found = seen(room, [("found", None, 0), ("elected", "a", 1), ("lost", "a", 1), ("found", "b", 2)], directory="north")
    assert found[2]["reason"] == "its end was not seen" and "led_ms" not in found[2] and "gap_ms" not in found[3], found
    files = [os.path.join(room.dir, name, "leaderships.jsonl") for name in ("north", "south")]
    done = subprocess.run([room.bellwether, "history", "--json", *files], capture_output=True, text=True, check=True, timeout=HANG_S)
    merged = [json.loads(line) for line in done.stdout.splitlines()]
    assert short(merged) == [("found", None, 0), ("elected", "a", 1), ("lost", "a", 1), ("elected", "b", 2)], merged
    assert "led_ms" in merged[2] and merged[2]["reason"] != "its end was not seen", merged


def write_history(room, name, *lines):
    """A file of a history: (second, event, leader, token, request, store, observer) per line."""
    path = os.path.join(room.dir, name)
    with open(path, "w", encoding="utf-8") as file:
        for second, event, leader, token, request, store, observer in lines:
            line = {"time": f"2026-11-19T15:30:{second:02}.000000Z", "event": event, "election": "nightly", "leader": leader,
                    "token": token, "request": request, "reason": "", "seen_by": observer}
            file.write(json.dumps({**line, **({"store": store} if store else {})}) + "\n")
    return path


def read_history(room, *words, code=0):
    done = subprocess.run([room.bellwether, "history", *words], capture_output=True, text=True, check=False, timeout=HANG_S)
    assert done.returncode == code, done
    return done.stdout if code == 0 else done.stderr


@test
def merged_history_shows_a_leadership_once_when_one_observer_does_not_know_its_request(room):
    one = write_history(room, "h1", (10, "elected", "web1", 20, "5dc4", "", "web1"), (16, "lost", "web1", 20, "5dc4", "", "web1"))
    for unknown in ("0", ""):
        other = write_history(room, "h3", (9, "elected", "web1", 20, unknown, "", "web3"))
        for files in ((one, other), (other, one)):
            assert len(read_history(room, *files).splitlines()) == 2, read_history(room, *files)


@test
def history_keeps_elections_of_the_same_name_in_two_stores_apart(room):
    file = write_history(room, "both", (1, "elected", "a", 1, "11", "sqlite:/a.db", "a"), (2, "elected", "b", 1, "22", "etcd://e1", "b"),
                         (3, "lost", "a", 1, "11", "sqlite:/a.db", "a"), (4, "lost", "b", 1, "22", "etcd://e1", "b"))
    lines = read_history(room, file).splitlines()
    assert len(lines) == 4 and not any("not seen" in line for line in lines), lines
    assert ["sqlite:/a.db" in line for line in lines] == [True, False, True, False] and "etcd://e1" in lines[1], lines
    only = [json.loads(line) for line in read_history(room, file, "--store", "etcd://e1", "--json").splitlines()]
    assert [(line["event"], line["leader"], line["store"]) for line in only] == [("elected", "b", "etcd://e1"), ("lost", "b", "etcd://e1")]
    assert "sqlite:" not in read_history(room, file, "--store", "sqlite:/a.db"), "one store needs no column"
    assert "no change in store etcd://e2" in read_history(room, file, "--store", "etcd://e2", code=66)


@test
def history_joins_two_urls_of_one_store_and_lines_without_a_store(room):
    file = write_history(room, "one", (1, "elected", "a", 1, "11", "", "old"), (2, "elected", "a", 1, "11", "etcd://e1,e2", "a"),
                         (3, "lost", "a", 1, "11", "etcd://e2,e1", "b"), (4, "elected", "b", 2, "22", "etcd://e2,e1", "b"))
    for words in ((), ("--store", "etcd://e1,e2"), ("--store", "etcd://e2,e1")):
        lines = read_history(room, file, *words).splitlines()
        assert [line.split()[2] for line in lines] == ["elected", "lost", "elected"], lines


@test
def history_of_a_candidate_names_its_store(room):
    room.candidate("a", "for=1").wait()
    assert {change["store"] for change in changes(room, "--store", room.store)} == {room.store}


@test
def history_needs_no_write_permission(room):
    room.candidate("a")
    room.started(1)
    wanted = [("found", None, 0), ("elected", "a", 1)]
    seen(room, wanted)
    os.chmod(room.dir, 0o755)
    copy = os.path.join(room.dir, "program")  # another user may not see the build directory
    with open(room.bellwether, "rb") as file, open(copy, "wb") as out:
        out.write(file.read())
    os.chmod(copy, 0o755)
    done = subprocess.run([copy, "history", "--json", "--history-dir", os.path.join(room.dir, "history")], capture_output=True, text=True,
                          check=False, timeout=HANG_S, user=NOBODY, group=NOBODY, cwd="/")
    assert done.returncode == 0 and short(map(json.loads, done.stdout.splitlines())) == wanted, done.stderr
    os.chmod(os.path.join(room.dir, "history", "leaderships.jsonl"), 0o600)
    done = subprocess.run([copy, "history", "--history-dir", os.path.join(room.dir, "history")], capture_output=True, text=True,
                          check=False, timeout=HANG_S, user=NOBODY, group=NOBODY, cwd="/")
    assert done.returncode == 74 and "Permission denied" in done.stderr, done


@test
def history_says_what_is_missing(room):
    assert "no history in" in history(room, code=66)
    silent = room.candidate("silent", options=["--history-dir", "none"], command=["true"])
    assert silent.wait() == 0 and not os.path.exists("none")
    assert "no history in" in history(room, code=66)
    blocked = os.path.join(room.dir, "blocked")
    open(blocked, "wb").close()  # a file: the history cannot be written
    a = room.candidate("a", env={"BELLWETHER_HISTORY_DIR": os.path.join(blocked, "x")})
    room.started(1)
    a.signal(signal.SIGTERM)
    assert a.wait() == 128 + signal.SIGTERM
    os.mkdir(os.path.join(room.dir, "history"))
    with open(os.path.join(room.dir, "history", "leaderships.jsonl"), "w", encoding="utf-8") as file:
        file.write('{"time":"2026-11-18T05:00:00Z","event":"elected","election":"e","leader":"\\u001b[2J","token":1,"seen_by":"x"}\n{"broken\n')
    assert "no change of election other" in history(room, "--election", "other", code=66)
    assert history(room) == "2026-11-18T05:00:00.000Z e                elected  ?[2J token 1\n"


@test
def observe_since_prints_the_past_first(room):
    a = room.candidate("a")
    room.started(1)
    resign(room)
    room.started(2)
    seen(room, [("found", None, 0), ("elected", "a", 1), ("lost", "a", 1), ("elected", "a", 2)])
    words = [room.bellwether, "observe", "--store", room.store, "--election", room.election, "--json", "--once"]
    since = ["--since", "1h", "--history-dir", os.path.join(room.dir, "history")]
    out = os.path.join(room.dir, "observed")
    with open(out, "wb") as file:
        observer = subprocess.Popen([*words, *since], stdout=file)
    try:
        def found():
            """the state at the start, after the past"""
            with open(out, encoding="utf-8") as file:
                return len(file.readlines()) == 5
        wait_for(found, pause=0.05)
        a.signal(signal.SIGTERM)
        assert observer.wait(HANG_S) == 0
    finally:
        observer.kill()
        observer.wait()
    with open(out, encoding="utf-8") as file:
        got = short(map(json.loads, file))
    assert got == [("found", None, 0), ("elected", "a", 1), ("lost", "a", 1), ("elected", "a", 2), ("found", "a", 2), ("lost", "a", 2)], got
    done = subprocess.run([*words, "--since", "1h", "--history-dir", room.dir], capture_output=True, text=True, check=False, timeout=HANG_S)
    assert done.returncode == 66 and "no history in" in done.stderr and not done.stdout, done
    done = subprocess.run([*words, "--since", "soon"], capture_output=True, text=True, check=False, timeout=HANG_S)
    assert done.returncode == 64 and "invalid --since" in done.stderr, done


@test
def timeline_draws_the_history(room):
    a = room.candidate("a")
    room.started(1)
    resign(room)
    room.started(2)
    a.signal(signal.SIGTERM)
    a.wait()
    lines = history(room, "--json")
    done = subprocess.run([room.bellwether, "timeline", "-"], input=lines, capture_output=True, text=True, check=False, timeout=HANG_S)
    assert done.returncode == 0 and "2 leaderships" in done.stdout, done.stderr


@test
def history_of_shards_and_peers(room):
    room.candidate("a", options=["--shards", "3", "--ttl", "10s"], command=["sleep", "1000"])

    def led():
        """a leader for each shard"""
        found = changes_so_far(room)
        return {change["election"] for change in found if change["event"] == "elected"} == {f"{room.election}.{i}" for i in range(3)}
    wait_for(led, pause=0.1)
    with PeerRoom(room.bellwether, room.witness) as peers:
        for name in peers.ports:
            peers.candidate(name)
        first = peers.leader(1)
        first.signal(signal.SIGKILL)
        second = peers.leader(2)

        def passed():
            """both leaderships in the history, and the reason of the first end"""
            found = changes(peers)
            return [change["leader"] for change in found if change["event"] == "elected"][-1:] == [second.name] and any(
                change["event"] == "lost" and change["leader"] == first.name for change in found)
        wait_for(passed, pause=0.1)
        peers.judge()


if __name__ == "__main__":
    main(TESTS)
