#!/usr/bin/env python3
"""`bellwether peer` as real processes on loopback: only the leader runs the command.

    peer_run.py BELLWETHER WITNESS PERIODIC_JOB [--long] [NAME...]

The witness detects two commands at once and tokens that do not grow. A few tests run at the same time, because they mostly
wait. --long adds tests that wait for leases to expire."""
import concurrent.futures
import os
import re
import signal
import subprocess
import sys
import traceback

sys.dont_write_bytecode = True

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "kit"))
import stall  # noqa: E402
from peer_lib import PeerRoom  # noqa: E402
from run_lib import Tap, free_ports, send, text_of, wait_for  # noqa: E402

HANG_S = 60.0
STALL_S = 0.5  # a shorter stall takes no leadership away
TESTS, LONG, PERIODIC_JOB = [], set(), []


def test(function):
    TESTS.append((function.__name__, function))
    return function


def long_test(function):
    LONG.add(function.__name__)
    return test(function)


def killed(leader):
    leader.signal(signal.SIGKILL)
    leader.wait()


@test
def only_the_leader_runs_the_command_and_its_successor_when_killed(programs):
    with PeerRoom(*programs, ttl="10s") as room:
        room.start()
        first = room.leader(1, HANG_S)
        room.agreed()
        killed(first)
        second = room.leader(2, HANG_S)
        assert second.name != first.name
        room.candidates.remove(first)
        room.candidate(first.name)  # it comes back while another peer leads
        room.all_alive(3)
        assert room.agreed() == second.name
        room.judge()


@test
def resign_and_transfer_end_the_work_first(programs):
    with PeerRoom(*programs) as room:
        room.start()
        first = room.leader(1, HANG_S)
        room.agreed()
        for peer in room.candidates:
            assert not [e for e in peer.events() if e["level"] != "info"], "a healthy start logs no warning"
        code, out, errors = room.ask("resign")
        assert code == 0 and "leads with token" in out, (code, out, errors)
        second = room.leader(2, HANG_S)
        assert second.name != first.name
        third = ({"1", "2", "3"} - {first.name, second.name}).pop()
        answer = room.json("transfer", "--to", third)
        assert str(answer["leader"]) == third
        assert room.leader(3, HANG_S).name == third
        assert [e["reason"] for e in first.events("released")] == ["resigned"]
        assert [e["reason"] for e in second.events("released")] == ["transferred"]
        assert len([line for line in room.lines() if line[0] == "signal"]) == 2
        for words in (["members"], ["status"]):
            out = room.ask(*words)[1]
            assert out and all(line == line.rstrip() for line in out.splitlines()), f"trailing blanks: {out!r}"
            assert "never" not in out and "e+" not in out, out
        code, _, errors = room.ask("transfer", "77")
        assert code == 66 and "no such peer" in errors
        code, _, errors = room.ask("transfer", third)
        assert code == 0 and "already" in errors
        room.judge()


@test
def resign_waits_until_a_leader_is_elected(programs):
    with PeerRoom(*programs) as room:
        names = list(room.ports)
        for name in names[:2]:
            room.candidate(name)
        wait_for(lambda: room.ask("members")[0] == 0, HANG_S, 0.05)
        code, _, errors = room.ask("resign", "--wait", "100ms")
        assert code == 69 and "no leader" in errors, (code, errors)
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            asked = pool.submit(room.done, "resign", "--wait", "50s")
            room.candidate(names[2])  # the third founder
            assert "leads" in asked.result()
        room.judge()


@test
def peer_whose_promises_differ_is_refused_with_the_names_of_the_options(programs):
    with PeerRoom(*programs) as room:
        room.start()
        room.leader(1, HANG_S)
        room.agreed()
        room.add("4")
        other = room.candidate("4", options=["--detect", "400ms"])  # heartbeats every 80 ms instead of 100 ms
        assert other.wait(HANG_S) == 64, other.text()
        message = other.events("fatal-error")[-1]["message"]
        assert "--ttl, --period, --detect below 500ms, and --drift above 9%" in message, message
        assert not other.events("started")
        room.judge()


def await_missed(room, leader, *names):
    """Waits until the leader no longer considers these peers alive."""
    def missed():
        alive = {str(m["id"]) for m in room.json("members", at=[leader.name])["members"] if m["state"] == "alive"}
        return not alive & set(names)
    missed.__doc__ = f"{leader.name} to miss {names}"
    wait_for(missed, HANG_S, 0.05)


@test
def dead_voter_is_removed_and_the_rest_decide_without_it(programs):
    # A long timeout, so that a busy machine causes no suspicion.
    with PeerRoom(*programs, size=4, ttl="15s", more=["--detect", "3s"]) as room:
        room.start()
        first = room.leader(1, HANG_S)
        room.agreed()
        room.all_alive(4)
        dead, living, rest = [c for c in room.candidates if c is not first]
        assert room.ask("remove", "77")[0] == 66 and room.ask("remove")[0] == 64
        code, _, errors = room.ask("remove", dead.name)
        assert code == 1 and "is alive" in errors, (code, errors)
        code, _, errors = room.ask("remove", first.name, "--force")
        assert code == 1 and "leads" in errors, (code, errors)
        killed(dead)
        await_missed(room, first, dead.name)
        code, out, errors = room.ask("remove", dead.name)
        assert code == 0 and "3 vote" in out, (code, out, errors)
        assert room.json("remove", living.name, "--force")["voters"] == 2
        assert living.wait(HANG_S) == 64 and "was removed" in living.said("fatal-error")["message"]
        room.candidates.remove(dead)
        dead = room.candidate(dead.name)  # a removed peer may come back
        wait_for(lambda: sum(m["voter"] for m in room.json("members", at=[first.name])["members"]) == 3, HANG_S, 0.05)  # by the leader
        killed(dead)
        killed(rest)
        await_missed(room, first, dead.name, rest.name)
        code, _, errors = room.ask("remove", rest.name)
        assert code == 69 and "majority" in errors, (code, errors)  # one of three is no majority
        room.judge()


def reported_a_split(candidate):
    return bool(candidate.events("split-brain") + candidate.events("split-seen"))


@test
def overlap_without_partition_is_reported_however_short(programs):
    """A stopped leader is suspected before its lease ends: for a while, its work runs beside that of its successor."""
    stall.judge(lambda _: overlap_is_reported(programs), STALL_S, "an overlap that did not come about")


def overlap_is_reported(programs):
    with PeerRoom(*programs, ttl="3s", kill_after="100ms", more=["--algorithm", "lowest-id"]) as room:
        first = room.start("stay")[0]
        room.leader(1, HANG_S)
        room.all_alive(3)
        assert room.agreed() == "1"
        first.signal(signal.SIGSTOP)

        def overlaps():
            """the successor's command to start"""
            return [line[0] for line in room.lines() if line[0] in ("start", "overlap")][1:]
        assert wait_for(overlaps, HANG_S, 0.01) != ["start"], "the first command was already dead"
        first.signal(signal.SIGCONT)  # it continues, and reports how long it acted
        for candidate in room.candidates:
            wait_for(lambda c=candidate: reported_a_split(c), HANG_S, 0.05)
        assert any(c.events("split-brain") for c in room.candidates)


@test
def handed_over_leadership_is_not_a_split(programs):
    with PeerRoom(*programs, ttl="3s", more=["--algorithm", "lowest-id"]) as room:
        room.start()
        room.leader(1, HANG_S)
        room.all_alive(3)
        for words in (["transfer", "2"], ["transfer", "1"], ["resign"], ["transfer", "1"]):
            room.agreed()
            code, out, errors = room.ask(*words)
            assert code == 0, (words, code, out, errors)
        room.agreed()
        room.started(5, HANG_S)
        assert not any(reported_a_split(c) for c in room.candidates)


def shown_limits(room):
    """The last column of `peer status`, by peer."""
    code, out, errors = room.ask("status")
    assert code == 0 and out.splitlines()[0].endswith("  MAY ACT FOR"), out + errors
    return {line.split()[0]: re.split(r" {2,}", line)[-1] for line in out.splitlines()[1:]}


@test
def status_shows_for_how_long_the_leader_may_act(programs):
    for more, limit in ((["--algorithm", "bully"], "no limit"), (["--algorithm", "raft"], r"\d[\dmsu.]*s")):
        with PeerRoom(*programs, ttl="20s", more=more) as room:
            room.start()
            leader = room.leader(1, HANG_S)
            room.agreed()
            limits = shown_limits(room)
            assert sorted(limits) == ["1", "2", "3"] and re.fullmatch(limit, limits[leader.name]), limits
            assert [limits[name] for name in limits if name != leader.name] == ["-", "-"], limits


@test
def members_and_status_show_the_view_of_each_peer(programs):
    with PeerRoom(*programs) as room:
        room.start()
        leader = room.leader(1, HANG_S)
        room.agreed()
        room.all_alive(3)
        members = room.json("members")["members"]
        assert [m["id"] for m in members] == [1, 2, 3] and all(m["voter"] for m in members)
        status = room.json("status")
        assert {p["leader"] for p in status["peers"]} == {int(leader.name)} and not status["differ"]
        assert [p["id"] for p in status["peers"] if p["leading"]] == [int(leader.name)]
        stopped = next(c for c in room.candidates if c is not leader)
        stopped.signal(signal.SIGSTOP)
        others = [c.name for c in room.candidates if c is not stopped]

        def noticed():
            states = {m["id"]: m["state"] for m in room.json("members", at=others)["members"]}
            return states[int(stopped.name)] in ("suspect", "dead")
        wait_for(noticed, HANG_S, 0.05)
        code, out, _ = room.ask("status", at=others)
        assert f"? {stopped.name} " in out and code == 0, out
        stopped.signal(signal.SIGCONT)
        room.all_alive(3)
        room.judge()


@test
def peer_that_listens_on_all_addresses_shows_the_one_that_was_asked(programs):
    with PeerRoom(*programs, size=1, more=["--insecure"]) as room:
        room.candidate("1", options=["--listen", f"0.0.0.0:{room.ports['1']}"])  # the last --listen counts
        room.leader(1, HANG_S)
        assert [m["address"] for m in room.json("members")["members"]] == [room.address("1")]
        assert [p["answered"] for p in room.json("status")["peers"]] == [True]


@test
def restarted_peers_continue_with_a_newer_token(programs):
    with PeerRoom(*programs) as room:
        peers = room.start()
        room.leader(1, HANG_S)
        for peer in peers:
            peer.signal(signal.SIGTERM)
        for peer in peers:
            assert peer.wait(HANG_S) == 128 + signal.SIGTERM
        count = len(room.starts())
        room.candidates.clear()
        room.expect = 0  # the directory already names its cluster
        room.start()
        room.started(count + 1, HANG_S)
        room.judge()


@test
def no_leader_before_all_expected_peers_have_met(programs):
    with PeerRoom(*programs) as room:
        room.candidate("1")
        room.candidate("2", options=["--wait", "2s"])
        two = room.candidates[1]
        assert two.wait(HANG_S) == 69, two.text()
        assert "this peer is not part of a cluster yet" in two.text() and "of 3 peers" in two.text()
        code, out, _ = room.ask("status", at=["1"])
        assert code == 1 and "no leader" in out, (code, out)
        assert not room.starts() and not room.json("members", at=["1"])["formed"]
        room.candidates.remove(two)
        room.candidate("2")
        room.candidate("3")
        room.started(1, HANG_S)
        room.judge()


@test
def peer_with_another_key_is_ignored(programs):
    with PeerRoom(*programs) as room:
        files = []
        for name in ("right", "wrong"):
            path = os.path.join(room.dir, name)
            with open(path, "w", encoding="utf-8", opener=lambda p, f: os.open(p, f, 0o600)) as file:
                subprocess.run([room.bellwether, "peer", "keygen"], stdout=file, check=True)
            files.append(path)
        room.keys = ("--key-file", files[0])
        room.start()
        leader = room.leader(1, HANG_S)
        room.agreed()
        room.ports["4"], = free_ports()
        room.expect, room.keys = 0, ("--key-file", files[1])
        outsider = room.candidate("4", options=["--wait", "3s"])
        for keys in (("--key-file", files[1]), ()):
            code, _, errors = room.ask("members", "--timeout", "500ms", keys=keys, at=["1", "2", "3"])
            assert code == 69 and "no peer responds" in errors, (code, errors)
        code, _, errors = room.ask("resign", "--timeout", "500ms", keys=(), at=["1", "2", "3"])
        assert code == 69, errors
        assert outsider.wait(HANG_S) == 69
        room.keys = ("--key-file", files[0])
        assert [m["id"] for m in room.json("members", at=["1"])["members"]] == [1, 2, 3]
        assert len(room.starts()) == 1 and leader.process.poll() is None
        os.chmod(files[0], 0o644)
        code, _, errors = room.ask("members")
        assert code == 64 and "read" in errors, errors


@test
def bully_with_a_quorum_has_a_token_that_grows(programs):
    with PeerRoom(*programs, ttl="2s", more=["--algorithm", "bully", "--quorum"]) as room:
        room.start()
        first = room.leader(1, HANG_S)
        room.agreed()
        killed(first)
        second = room.leader(2, HANG_S)
        assert second.name != first.name and int(room.starts()[1][1]) > int(room.starts()[0][1])
        assert not second.events("no-token")
        room.judge()


@test
def missing_token_without_a_quorum_is_reported(programs):
    with PeerRoom(*programs, ttl="2s", more=["--algorithm", "bully"]) as room:
        room.start()
        first = room.leader(1, HANG_S)
        assert room.starts()[0][1] == "0", "the command has a token"
        assert first.events("no-token") and "partition" in first.events("promise")[0]["message"]
        room.agreed()
        killed(first)
        second = room.leader(2, HANG_S)
        assert second.name != first.name
        stall.judge_overlaps(room.lines())


@test
def unhealthy_leader_hands_over_and_does_not_lead_until_healthy(programs):
    with PeerRoom(*programs) as room:
        sick = os.path.join(room.dir, "sick")
        for name in room.ports:
            room.candidate(name, options=["--health-cmd", f"test ! -e {sick}{name}", "--health-interval", "1s"])
        first = room.leader(1, HANG_S)
        room.agreed()
        with open(sick + first.name, "w", encoding="utf-8"):
            pass
        second = room.leader(2, HANG_S)
        assert second.name != first.name
        assert [e["reason"] for e in first.events("released")] == ["unhealthy"]
        killed(second)
        third = room.leader(3, HANG_S)
        assert third.name not in (first.name, second.name)
        room.judge()


@test
def a_sidecar_answers_for_its_peer(programs):
    with PeerRoom(*programs, kill_after="100ms") as room:
        for name in room.ports:
            path = os.path.join(room.dir, name + ".http")
            room.candidate(name, options=["--http", "unix:" + path], command=[])

        def leaders():
            found = []
            for name in room.ports:
                done = subprocess.run(["curl", "-s", "-o", "/dev/null", "-w", "%{http_code}", "--unix-socket",
                                       os.path.join(room.dir, name + ".http"), "http://x/healthz"], capture_output=True,
                                      text=True, check=False)
                found += [name] if done.stdout == "200" else []
            return found
        wait_for(leaders, HANG_S, 0.05)
        assert leaders() == [room.agreed()]


@test
def peer_ends_with_its_command_and_another_peer_runs_it(programs):
    with PeerRoom(*programs) as room:
        room.start("for=300", "exit=7")
        first = room.leader(1, HANG_S)
        assert first.wait(HANG_S) == 7
        room.started(2, HANG_S)
        room.judge()


def run_words(words):
    return subprocess.run([*words, "--", "true"], capture_output=True, text=True, check=False, timeout=HANG_S)


@test
def foreign_directory_and_used_address_exit_with_64(programs):
    with PeerRoom(*programs) as room:
        room.start()
        room.leader(1, HANG_S)
        room.agreed()
        words = room.words("1")
        words[words.index("--id") + 1] = "9"
        busy = run_words(words + ["-n"])  # temporary: a guardian that still ends its work holds the address
        assert busy.returncode == 69 and "in use" in busy.stderr, busy
        foreign = list(words)
        foreign[foreign.index("--listen") + 1] = "192.0.2.1:7000"
        foreign[foreign.index("--data") + 1] = os.path.join(room.dir, "data9")
        foreign = run_words([*foreign, "--insecure"])
        assert foreign.returncode == 64 and "Cannot assign" in foreign.stderr, foreign
        for peer in list(room.candidates):
            if peer.name == "1":
                peer.signal(signal.SIGTERM)
                peer.wait(HANG_S)
                room.candidates.remove(peer)
        done = run_words(words)
        assert done.returncode == 64 and done.stderr.startswith("bellwether peer: "), done
        room.judge()


def stopped_at_work(room, watch):
    """Stops the leader while its work runs. Returns the leader and the number of started commands. Leadership may move on before the
    stop takes effect only if the machine stalled since the watch began."""
    for _ in range(stall.ATTEMPTS):
        count = len(room.starts())
        leader = room.leader(count)
        leader.signal(signal.SIGSTOP)
        if [line[0] for line in room.lines() if line[0] in ("start", "end")][-1] == "start" and len(room.starts()) == count:
            return leader, count
        leader.signal(signal.SIGCONT)
        assert watch.excuses(STALL_S, "a leader that stepped down by itself"), "the leader stepped down by itself"
        room.started(count + 1, HANG_S)
    raise AssertionError(f"no leader kept its work in {stall.ATTEMPTS} attempts")


@test
def resigned_leader_is_not_fenced_but_a_vanished_one_is(programs):
    watch = stall.Watch()
    with PeerRoom(*programs, ttl="2s") as room:
        fenced = os.path.join(room.dir, "fenced")
        for name in room.ports:
            room.candidate(name, options=["--stonith", f"echo $BELLWETHER_FENCE >> {fenced}"])

        def names():
            return text_of(fenced).split()
        first = room.leader(1, HANG_S)
        room.agreed()
        room.done("resign")
        second = room.leader(2, HANG_S)
        assert first.name not in names()  # a peer that won but got no CPU time to announce it may still be listed
        room.agreed()
        second, count = stopped_at_work(room, watch)
        send(second.guardian(), signal.SIGKILL)
        killed(second)
        room.started(count + 1, HANG_S)
        assert second.name in names()  # so may be a peer that won after it, but lost leadership before it could act
        room.judge()


@test
def programs_elect_through_the_library(programs):
    with PeerRoom(*programs) as room:
        lines = os.path.join(room.dir, "lines")
        joins = ",".join(f"127.0.0.1:{port}" for port in room.ports.values())
        jobs = []
        for name, port in room.ports.items():
            data = os.path.join(room.dir, "data" + name)
            os.mkdir(data)
            url = f"peer:///periodic-job?id={name}&listen=127.0.0.1:{port}&data={data}&join={joins}&expect=3"
            jobs.append(subprocess.Popen([PERIODIC_JOB[0], url, lines, "5", "1000000"]))
        try:
            def written():
                """a line of the leader"""
                return os.path.exists(lines) and os.path.getsize(lines) > 0
            wait_for(written, HANG_S)
            with open(lines, encoding="utf-8") as file:
                word, token, *rest = file.readline().split()
                assert (word, rest) == ("token", ["round", "1"]) and int(token) > 0
        finally:
            for job in jobs:
                job.kill()
                job.wait()


@long_test
def successor_waits_for_the_lease_when_the_guardian_is_killed_too(programs):
    with PeerRoom(*programs, ttl="2s") as room:
        room.start()
        first = room.leader(1, HANG_S)
        room.agreed()
        guardian = first.guardian()
        first.signal(signal.SIGSTOP)
        send(guardian, signal.SIGKILL)
        killed(first)
        room.started(2, HANG_S)
        room.judge()


def leaders_limits(room):
    """The last column of `peer status` for each live peer that leads."""
    rows = [re.split(r" {2,}", line.strip(" !?")) for line in room.ask("status")[1].splitlines()[1:]]
    return [row[5] for row in rows if len(row) > 5 and row[5] != "-"]


@long_test
def status_shows_that_a_successor_may_not_act_yet(programs):
    with PeerRoom(*programs, ttl="10s") as room:
        room.start()
        first = room.leader(1, HANG_S)
        room.agreed()
        guardian = first.guardian()
        first.signal(signal.SIGSTOP)
        send(guardian, signal.SIGKILL)
        killed(first)
        left = wait_for(lambda: leaders_limits(room), HANG_S, 0.05)
        assert left == ["not now"], left
        room.started(2, HANG_S)
        room.judge()


@long_test
def successor_leads_when_the_work_of_a_stopped_leader_is_dead(programs):
    with PeerRoom(*programs, ttl="2s") as room:
        room.start()
        first = room.leader(1, HANG_S)
        room.agreed()
        first.signal(signal.SIGSTOP)
        second = room.leader(2, HANG_S)
        assert second.name != first.name
        first.signal(signal.SIGCONT)
        room.all_alive(3)
        room.agreed()
        room.judge()


@long_test
def every_algorithm_elects_a_successor_of_a_killed_leader(programs):
    for algorithm in ("bully-notify", "bully-next-in-line", "bully-candidates", "ring-list", "ring-max", "ring-chang-roberts",
                      "ring-hirschberg-sinclair", "invitation", "lowest-id", "stable"):
        with PeerRoom(*programs, ttl="2s", more=["--algorithm", algorithm]) as room:
            room.start()
            first = room.leader(1, HANG_S)
            room.agreed()
            killed(first)
            assert room.leader(2, HANG_S).name != first.name, algorithm


def run_one(tap, programs, name, function):
    try:
        function(programs)
    except Exception:  # any failure belongs to this test
        tap.result(False, name, traceback.format_exc())
    else:
        tap.result(True, name)


def main():
    words = sys.argv[1:]
    everything = "--long" in words
    programs, names = words[:2], [w for w in words[3:] if w != "--long"]
    PERIODIC_JOB.append(words[2])
    tap = Tap()
    chosen = [(n, f) for n, f in TESTS if (n in names if names else everything or n not in LONG)]
    with concurrent.futures.ThreadPoolExecutor(3) as pool:
        for name, function in chosen:
            pool.submit(run_one, tap, programs, name, function)
    sys.exit(tap.end())


if __name__ == "__main__":
    main()
