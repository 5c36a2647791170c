#!/usr/bin/env python3
"""Faults of processes, stores and clocks against `bellwether run`, each checked by an independent witness.

    run_faults.py BELLWETHER WITNESS SHIM [NAME...]

Every test is named after the fault it survives and ends with the same check: never two commands alive at once, and tokens
only grow. Real processes and real time; TTLs are short."""
import concurrent.futures
import contextlib
import json
import os
import resource
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
import traceback

sys.dont_write_bytecode = True

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "kit"))
import stall  # noqa: E402
from run_lib import HANG_S, Room, Tap, install, lives, lose, send, wait_for, why_not_contained  # noqa: E402

TTL_S = 1.5
LONG_TTL_S = 4 * HANG_S  # with its third, the interval of polls, it is longer than any wait of a test
AT_ONCE = 4  # they mostly wait
KINDS = ["cgroup", "pidns", "subreaper"]
TESTS = []


class Skip(Exception):
    pass


def test(function):
    TESTS.append((function.__name__, function, None))
    return function


def test_each_containment(function):
    for kind in KINDS:
        TESTS.append((f"{function.__name__}[{kind}]", function, kind))
    return function


def long_ttl(room):
    """A successor that takes over within a quarter of this TTL waited neither for expiry nor for the next poll, due after a third."""
    room.options[1] = f"{LONG_TTL_S}s"


def two(room, *modes, **more):
    """Starts two candidates: A leads with these modes, B waits. B's work has no special mode."""
    a = room.candidate("a", *modes, **more)
    room.started(1)
    b = room.candidate("b")
    b.said("leader")
    return a, b


# ---- 1 to 4: the process tree ----

@test_each_containment
def sigkill_of_the_supervisor_leaves_no_orphan(room):
    long_ttl(room)
    a, b = two(room, "double-fork", "ignore-term")
    wait_for(lambda: [x for x in room.lines() if x[0] == "daemon"])
    a.signal(signal.SIGKILL)
    room.started(2)  # the guardian released: the TTL is longer than this test
    assert b.leads() and a.said("guardian-released")["token"] == 1
    assert a.said("supervisor-died")["level"] == "error"
    assert not b.events("predecessor-dead"), "the guardian's release was not believed"


@test_each_containment
def double_fork_and_setsid_do_not_escape(room):
    a, _ = two(room, "double-fork", "setsid", "ignore-term")
    wait_for(lambda: [x for x in room.lines() if x[0] == "daemon"])
    a.signal(signal.SIGTERM)
    room.started(2)
    assert a.wait() == 128 + signal.SIGTERM


@test_each_containment
def work_without_a_death_signal_dies_with_its_supervisor(room):
    a, b = two(room, "no-death-signal", "ignore-term")
    work = a.said("started")["pid"]
    a.signal(signal.SIGKILL)
    room.started(2)
    assert not lives(work) and b.leads()


@test_each_containment
def work_without_a_death_signal_dies_with_its_guardian(room):
    a, _ = two(room, "no-death-signal", "ignore-term")
    work = a.said("started")["pid"]
    send(a.guardian(), signal.SIGKILL)
    room.started(2)
    assert not lives(work)


def stop_signal(number):
    def run(room):
        a, _ = two(room, "slow=100")
        work = a.said("started")["pid"]
        a.signal(number)
        line = room.started(2)
        assert a.wait() == 128 + number
        reported = [x for x in room.lines() if x[0] == "signal"]
        assert reported and reported[0][1] == str(int(number)), f"the work was not told: {reported}"
        ends = [x for x in room.lines() if x[0] == "end"]
        assert ends and int(ends[0][3]) < int(line[3]), "released before the work's end"
        assert not lives(work)
        assert len(reported) == 1, f"told more than once: {reported}"
    return run


for _number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
    TESTS.append((f"{_number.name.lower()}_is_forwarded_and_released_after_death", stop_signal(_number), None))


@test
def other_signals_reach_the_command_and_stop_nothing(room):
    a = room.candidate("a")
    room.started(1)
    for number in (signal.SIGUSR1, signal.SIGUSR2, signal.SIGWINCH):
        a.signal(number)
        wait_for(lambda: [x for x in room.lines() if x[0] == "signal" and x[1] == str(int(number))])
    assert a.leads() and a.process.poll() is None


@test_each_containment
def killed_guardian_is_replaced_after_its_work_is_dead(room):
    a, _ = two(room, "double-fork", "ignore-term")
    first = a.guardian()
    send(first, signal.SIGKILL)
    room.started(2)
    second = wait_for(a.guardian)
    assert second != first
    room.candidates[1].signal(signal.SIGTERM)
    room.started(3)
    assert a.leads()


# ---- 5, 6: work that does not end ----

@test_each_containment
def work_that_ignores_term_is_dead_before_expiry(room):
    long_ttl(room)
    a, _ = two(room, "ignore-term", "double-fork")
    before = time.monotonic_ns()
    a.signal(signal.SIGTERM)
    line = room.started(2)
    took = (int(line[3]) - before) / 1e9
    assert took > 0.15, f"killed after {took:.3f} s, kill-after is 0.2 s"
    assert a.wait() == 128 + signal.SIGTERM


@test
def leadership_is_not_released_while_frozen_work_is_not_dead(room):
    freezer = "/sys/fs/cgroup/freezer"
    group = os.path.join(freezer, f"bellwether-test-{os.getpid()}")
    try:
        os.mkdir(group)
    except OSError as error:
        raise Skip(f"no cgroup v1 freezer to stop a process for good: {error}") from error
    try:
        a, _ = two(room)
        work = a.said("started")["pid"]
        with open(group + "/cgroup.procs", "w", encoding="utf-8") as file:
            file.write(str(work))
        with open(group + "/freezer.state", "w", encoding="utf-8") as file:
            file.write("FROZEN")
        a.signal(signal.SIGTERM)
        a.said("not-dead")
        time.sleep(TTL_S)
        assert len(room.starts()) == 1, "somebody started while the old work was there"
        assert not a.events("released")
    finally:
        try:
            with open(group + "/freezer.state", "w", encoding="utf-8") as file:
                file.write("THAWED")
        except OSError:
            pass
    room.started(2)
    os.rmdir(group)


# ---- 6b, 7: supervisor and guardian ----

@test_each_containment
def successor_kills_the_work_when_supervisor_and_guardian_are_killed(room):
    proves = room.containment != "subreaper"  # with subreaper, no process is left that can prove the work dead
    if proves:
        long_ttl(room)
    a, b = two(room, "double-fork", "ignore-term")
    wait_for(lambda: [x for x in room.lines() if x[0] == "daemon"])
    guardian = a.guardian()
    before = time.monotonic_ns()
    a.signal(signal.SIGSTOP)  # neither may notice the death of the other
    send(guardian, signal.SIGKILL)
    a.signal(signal.SIGKILL)
    line = room.started(2)
    took = (int(line[3]) - before) / 1e9
    assert b.leads()
    assert proves or took > TTL_S / 2, f"took {took:.1f} s: the lease had not expired, and nobody had proved the death"


@test_each_containment
def job_shorter_than_a_renewal_confirms_the_work_of_its_predecessor(room):
    a = room.candidate("a")
    room.started(1)
    guardian = a.guardian()
    a.signal(signal.SIGSTOP)  # neither may notice the death of the other
    send(guardian, signal.SIGKILL)
    a.signal(signal.SIGKILL)
    a.wait()
    b = room.candidate("b", "for=1")
    assert b.wait() == 0 and b.said("predecessor-dead")["holder"] == "a"
    shown = subprocess.run([room.bellwether, "status", "--store", room.store, "--election", room.election, "--json"], check=False,
                           capture_output=True, timeout=HANG_S)
    record = json.loads(shown.stdout)
    assert record["owed"] == [] and record["clean"], record
    past = subprocess.run([room.bellwether, "history", "--history-dir", os.path.join(room.dir, "history")], check=True,
                          capture_output=True, text=True, timeout=HANG_S).stdout.splitlines()
    assert "released: its work is confirmed dead" in past[-1], past


@test_each_containment
def sigstop_of_both_past_the_ttl_starts_no_second_command(room):
    a, b = two(room, "double-fork", "ignore-term")
    wait_for(lambda: [x for x in room.lines() if x[0] == "daemon"])
    guardian = a.guardian()
    a.signal(signal.SIGSTOP)
    send(guardian, signal.SIGSTOP)
    room.started(2)
    assert b.leads()
    send(guardian, signal.SIGCONT)
    a.signal(signal.SIGCONT)
    time.sleep(0.3)
    room.judge()
    b.signal(signal.SIGTERM)
    room.started(3)
    assert a.leads()


@test_each_containment
def sigstop_of_the_supervisor_past_the_ttl_ends_the_work_before_expiry(room):
    a, b = two(room, "double-fork", "ignore-term")
    work = a.said("started")["pid"]
    a.signal(signal.SIGSTOP)
    wait_for(lambda: not lives(work), HANG_S)
    room.started(2, HANG_S)  # if the guardian had been late, the witness would have seen two
    assert b.leads()
    a.signal(signal.SIGCONT)
    time.sleep(0.2)


@test_each_containment
def sigstop_of_the_guardian_past_the_ttl_ends_the_work_in_time(room):
    a, _ = two(room, "double-fork", "ignore-term")
    send(a.guardian(), signal.SIGSTOP)
    a.said("guardian-died")
    room.started(2)
    wait_for(a.guardian)


# ---- 9: resources run out ----

def limited(room, limit, most, wait="1s"):
    """Runs a candidate with this resource limit. Returns its exit code, after its last output if the code is unexpected. (Python
    must not run in a child of a process with threads, so another program sets the limit.)"""
    words = ["prlimit", f"--{limit}={most}:{most}", room.bellwether, "run", "--store", room.store, "--election", "e", *room.options, "-w", wait, "--", "true"]
    ended = subprocess.run(words, check=False, stderr=subprocess.PIPE, timeout=60)
    return ended.returncode if ended.returncode in (69, 71, 75, 127) else (ended.stderr[-300:], ended.returncode)


@test
def start_fails_cleanly_without_descriptors(room):
    a = room.candidate("a")
    room.started(1)
    codes = {count: limited(room, "nofile", count) for count in range(4, 23)}
    codes[23] = limited(room, "nofile", 23, "5s")  # enough: in this time the store answers and names the leader
    assert all(code in (69, 71, 75) for code in codes.values()), codes
    assert codes[4] == 71 and codes[23] == 75, codes
    assert a.leads() and not a.events("step-down")


@test
def start_fails_cleanly_without_memory(room):
    without_sanitizer(room, "needs terabytes")
    a = room.candidate("a")
    room.started(1)
    codes = {kib: limited(room, "as", kib << 10) for kib in range(5000, 12000, 500)}
    while codes[min(codes)] == (b"", -11):  # the kernel ends a program that it cannot map
        del codes[min(codes)]
    assert len(codes) > 10, codes
    codes[400000] = limited(room, "as", 400000 << 10, "5s")
    assert all(code in (69, 71, 75, 127) for code in codes.values()), codes  # 127: the loader
    assert codes[400000] == 75, codes
    assert a.leads() and not a.events("step-down")


@test
def start_fails_cleanly_without_processes(room):
    if os.geteuid() != 0:
        raise Skip("needs a user of its own: root")
    without_sanitizer(room, "starts a process of its own at the end")
    user = 61184 + os.getpid() % 4096  # a user id of this run only: the limit counts all processes of a user
    os.chmod(room.dir, 0o777)
    program = install(room.bellwether, os.path.join(room.dir, "bellwether"))
    words = ["prlimit", "--nproc=1:1", program, "run", "--store", room.store, "--election", "e", *room.options, "-w", "1s", "--", "true"]
    try:
        ended = subprocess.run(words, check=False, stderr=subprocess.PIPE, timeout=60, user=user, group=user, extra_groups=[])
    except PermissionError as error:
        raise Skip(f"cannot be another user: {error}") from error
    if ended.stderr.startswith(b"prlimit: "):
        raise Skip(f"that user may not run it: {ended.stderr}")
    assert ended.returncode == 71 and b"cannot start" in ended.stderr, ended


@test
def leader_without_free_descriptors_renews_and_releases(room):
    without_sanitizer(room, "opens files at the end")
    a, b = two(room)
    resource.prlimit(a.pid, resource.RLIMIT_NOFILE, (3, 3))
    time.sleep(2 * TTL_S)
    assert a.leads() and not a.events("step-down")
    a.signal(signal.SIGTERM)
    room.started(2)
    assert b.leads() and a.wait() == 128 + signal.SIGTERM


# ---- 13, 15, 16, 22: the store ----

@contextlib.contextmanager
def locked(path, readers=False):
    """Locks the database: no other process can write to it; with `readers`, none can read it either."""
    connection = sqlite3.connect(path, isolation_level=None, timeout=HANG_S)
    if readers:
        connection.execute("PRAGMA locking_mode=EXCLUSIVE")
    connection.execute("BEGIN EXCLUSIVE")
    try:
        yield
    finally:
        connection.execute("ROLLBACK")
        connection.close()


@test
def work_stops_in_time_when_the_store_is_locked_and_restarts_afterwards(room):
    a, b = two(room)
    work = a.said("started")["pid"]
    with locked(room.db):
        watch = stall.Watch([a.pid, a.guardian()])
        since = time.monotonic()
        wait_for(lambda: not lives(work), HANG_S)
        took = time.monotonic() - since
        assert took < TTL_S + watch.longest(), f"the work outlived its lease: {took:.1f} s"
        reason = a.said("step-down")["reason"]
        assert reason == "unreachable", reason
        time.sleep(max(0.0, 3 * TTL_S - took))
        assert len(room.starts()) == 1, "a second work while nobody could write that it leads"
    room.started(2, HANG_S)
    assert a.process.poll() is None and b.process.poll() is None


@test
def work_stops_and_candidates_retry_when_the_database_is_moved_away(room):
    a, b = two(room)
    work = a.said("started")["pid"]
    os.rename(room.db, room.db + ".away")
    wait_for(lambda: not lives(work), HANG_S)
    a.said("store-unavailable")
    time.sleep(1.0)
    assert a.process.poll() is None and b.process.poll() is None and len(room.starts()) == 1
    os.rename(room.db + ".away", room.db)
    room.started(2, HANG_S)


@test
def no_second_leader_when_the_database_is_removed(room):
    a = room.candidate("a", "ignore-term")
    room.started(1)
    for name in os.listdir(room.dir):
        if name.startswith("elections.db") and not name.endswith(".locks"):
            os.unlink(os.path.join(room.dir, name))
    b = room.candidate("b")
    b.said("containment")
    room.started(2)
    a.said("step-down")
    room.leading()


def remove_database(room, locks):
    for name in os.listdir(room.dir):
        path = os.path.join(room.dir, name)
        if name.endswith(".locks"):
            if locks:
                shutil.rmtree(path)
        elif name.startswith("elections.db"):
            os.unlink(path)


@test
def removed_database_is_detected_before_the_next_renewal(room):
    room.options[1] = "60s"
    a = room.candidate("a")
    room.started(1)
    remove_database(room, locks=False)
    assert "cannot find the database" in a.said("store-unavailable")["message"]
    assert a.leads() and not a.events("step-down")


@test
def replaced_database_is_detected_before_the_next_renewal(room):
    room.options[1] = "60s"
    a = room.candidate("a")
    room.started(1)
    remove_database(room, locks=True)
    a.said("store-unavailable")
    subprocess.check_call([room.bellwether, "store", "init", "--store", room.store], stdout=subprocess.DEVNULL)
    assert a.said("step-down")["reason"] == "taken"
    room.epochs = [1]  # the database is gone, and with it the token, which starts again at 1


@test
def no_second_leader_when_the_database_and_its_locks_are_removed(room):
    a = room.candidate("a", "ignore-term")  # its work survives for the whole of --kill-after
    room.started(1)
    remove_database(room, locks=True)
    b = room.candidate("b")
    b.said("containment")
    room.started(2)
    assert a.said("step-down")["reason"] == "taken"
    room.judge()  # never two commands at once, and no token twice


def listed(room):
    out = subprocess.run([room.bellwether, "candidates", "--store", room.store, "--election", room.election], check=False,
                         capture_output=True, text=True).stdout
    return [line.split()[0] for line in out.splitlines()]


@test
def duplicate_id_is_reported_and_the_first_candidate_stays_listed(room):
    room.candidate("a")
    room.started(1)
    hasty = room.candidate("hasty", options=["--id", "a", "--no-wait"])
    assert hasty.process.wait(HANG_S) == 75
    assert "same --id" in hasty.said("gave-up")["message"]
    assert listed(room) == ["a"]
    twin = room.candidate("twin", options=["--id", "a"])
    twin.said("duplicate-id")
    send(twin.pid, signal.SIGTERM)
    twin.process.wait(HANG_S)
    assert listed(room) == ["a"]


@test
def restarted_candidate_is_not_reported_as_duplicate(room):
    a = room.candidate("a")
    room.started(1)
    for pid in (a.guardian(), a.pid):
        send(pid, signal.SIGKILL)
    again = room.candidate("again", options=["--id", "a"])
    room.started(2)
    wait_for(lambda: listed(room) == ["a"], HANG_S)
    assert not again.events("duplicate-id")


@test
def a_full_disk_stops_the_work_with_a_clear_reason(room):
    point = os.path.join(room.dir, "small")
    os.mkdir(point)
    if os.geteuid() != 0 or subprocess.call(["mount", "-t", "tmpfs", "-o", "size=1m", "none", point],
                                            stderr=subprocess.DEVNULL) != 0:
        raise Skip("needs a small file system: mount(8) and root")
    try:
        room.db = os.path.join(point, "elections.db")
        a = room.candidate("a")
        room.started(1)
        work = a.said("started")["pid"]
        with open(os.path.join(point, "fill"), "wb", buffering=0) as fill:
            try:
                while True:
                    fill.write(b"x" * 4096)
            except OSError:
                pass
            why = a.said("store-unavailable")["message"]
            assert "full" in why or "space" in why, why
            wait_for(lambda: not lives(work), HANG_S)
        os.unlink(os.path.join(point, "fill"))
        room.started(2)
        assert a.process.poll() is None
    finally:
        for c in room.candidates:
            c.destroy()
        room.candidates.clear()
        subprocess.call(["umount", "-l", point])


# ---- 27: clocks ----

def without_sanitizer(room, why):
    with open(room.bellwether, "rb") as file:
        if b"__asan_init" in file.read():
            raise Skip("the sanitizer " + why)


def need_shim(room):
    without_sanitizer(room, "must be loaded first")


def shift(path, seconds):
    with open(path + ".new", "w", encoding="utf-8") as file:
        file.write(f"{seconds}\n")
    os.rename(path + ".new", path)


@test
def leader_stays_when_the_wall_clock_jumps_by_a_day(room):
    need_shim(room)
    knob = os.path.join(room.dir, "realtime")
    shift(knob, 0)
    a = room.candidate("a", env={"SHIM_REALTIME": knob}, shim=room.shim)
    room.started(1)
    b = room.candidate("b", env={"SHIM_REALTIME": knob}, shim=room.shim)
    b.said("leader")
    for day in (86400, -86400, 0):
        shift(knob, day)
        time.sleep(TTL_S)
    assert len(room.starts()) == 1 and a.leads(), "a jump of the wall clock changed the leader"
    stamp = a.events()[0]["time"]
    a.signal(signal.SIGTERM)
    room.started(2)
    assert stamp


@test
def work_ends_after_a_resume_past_the_ttl(room):
    need_shim(room)
    knob = os.path.join(room.dir, "boottime")
    shift(knob, 0)
    a = room.candidate("a", env={"SHIM_BOOTTIME": knob}, shim=room.shim)
    room.started(1)
    work = a.said("started")["pid"]
    shift(knob, 3600)
    wait_for(lambda: not lives(work), HANG_S)  # only the clock shows it: the store answers and renews
    a.said("step-down")
    room.started(2)


# ---- messages to the guardian that are lost ----

def resign(room):
    subprocess.run([room.bellwether, "resign", "--store", room.store, "--election", room.election], check=True, timeout=HANG_S,
                   stdout=subprocess.DEVNULL)


def judge_lost(a, knob):
    assert not os.path.exists(knob), "the message was not lost"
    event = a.said("guardian-unresponsive")
    assert event["level"] == "error" and "No buffer space available" in event["message"], event
    a.said("guardian-died")


@test
def leadership_ends_when_the_start_of_its_work_cannot_be_sent(room):
    need_shim(room)
    long_ttl(room)
    knob = os.path.join(room.dir, "lose")
    lose(knob, "START")
    a = room.candidate("a", env={"SHIM_LOSE": knob}, shim=room.shim)
    line = room.started(1)
    judge_lost(a, knob)
    assert a.leads() and int(line[1]) > a.events("elected")[0]["token"], "the work of the first leadership started late"
    assert a.said("supervisor-died")["message"].startswith("the supervisor cannot send messages")


@test
def guardian_is_replaced_when_the_end_of_a_leadership_cannot_be_sent(room):
    need_shim(room)
    long_ttl(room)
    knob = os.path.join(room.dir, "lose")
    a = room.candidate("a", options=["-E", "0"], env={"SHIM_LOSE": knob}, shim=room.shim)
    room.started(1)
    lose(knob, "DISMISS")
    resign(room)
    room.started(2)
    judge_lost(a, knob)
    assert a.leads()


def stopped_when_it_gets(room, kind):
    """Runs a leader that resigns, and stops its guardian when it receives this message. Returns the leader."""
    need_shim(room)
    knob = os.path.join(room.dir, "stop")
    a = room.candidate("a", options=["-E", "0"], env={"SHIM_STOP": knob}, shim=room.shim)
    room.started(1)
    lose(knob, kind)
    resign(room)
    wait_for(lambda: not os.path.exists(knob))
    return a


def judge_replaced(room, a):
    assert "does not respond" in a.said("guardian-unresponsive")["message"]
    a.said("guardian-died")
    room.started(2)
    assert a.leads()


@test
def guardian_is_replaced_when_it_is_stopped_at_the_end_of_a_leadership(room):
    judge_replaced(room, stopped_when_it_gets(room, "DISMISS"))


@test
def guardian_is_replaced_when_it_is_stopped_while_the_work_must_end(room):
    judge_replaced(room, stopped_when_it_gets(room, "STOP"))


@test_each_containment
def guardian_is_replaced_when_it_is_stopped_while_the_store_is_unreachable(room):
    need_shim(room)
    knob = os.path.join(room.dir, "stop")
    a = room.candidate("a", env={"SHIM_STOP": knob}, shim=room.shim)
    room.started(1)
    lose(knob, "STOP")
    with locked(room.db):
        wait_for(lambda: not os.path.exists(knob))
        a.said("confirmed-dead")  # without a renewal
    judge_replaced(room, a)


STOPPED_TTL_S = 6


def wait_of_a_late_candidate(room, bound):
    """Stops the leader and its guardian until their lease has ended; returns how long a candidate that starts then must wait, and
    how long the machine stalled meanwhile."""
    room.options[1] = f"{STOPPED_TTL_S}s"
    a = room.candidate("a", options=["--clock-uncertainty", "100ms"])
    room.started(1)
    a.said("clock-uncertainty")
    guardian = a.guardian()
    send(guardian, signal.SIGSTOP)
    a.signal(signal.SIGSTOP)
    time.sleep(STOPPED_TTL_S + 1)
    watch, before = stall.Watch(), time.monotonic()
    b = room.candidate("b", options=bound)
    b.said("elected", 5 * STOPPED_TTL_S)
    waited = time.monotonic() - before
    stalled = watch.longest()
    room.started(2)
    assert b.leads()
    return waited, stalled


@test
def takeover_needs_no_ttl_wait_when_both_declare_clock_uncertainty(room):
    waited, stalled = wait_of_a_late_candidate(room, ["--clock-uncertainty", "100ms"])
    assert waited < STOPPED_TTL_S + stalled, f"watched for {waited:.1f} s"


@test
def takeover_waits_a_ttl_when_one_side_declares_clock_uncertainty(room):
    waited, _ = wait_of_a_late_candidate(room, [])
    assert waited >= STOPPED_TTL_S, f"believed another's clock after {waited:.1f} s"


# ---- the command ends by itself ----

@test
def exit_code_is_that_of_the_command(room):
    a = room.candidate("a", "for=50", "exit=7")
    assert a.wait() == 7
    b = room.candidate("b", "for=10", "exit=0")
    assert b.wait() == 0
    assert [x[1] for x in room.starts()] == ["1", "2"]


@test
def lost_leadership_with_once_exits_with_76(room):
    a = room.candidate("a", options=["--once"])
    room.started(1)
    os.rename(room.db, room.db + ".away")
    assert a.wait() == 76
    assert a.said("released")["message"].startswith("cannot release token 1: unreachable; the store did not answer")


def judge_one_run(room, candidate, reason):
    """A candidate with -n whose leadership has ended: it exits, and does not run the command again."""
    assert candidate.wait() == 76
    assert candidate.said("leadership-lost")["reason"] == reason
    assert len(room.starts()) == 1, "the command ran again"


@test
def command_with_n_is_not_run_again_when_the_guardian_is_killed(room):
    a = room.candidate("a", options=["-n", "-E", "0"])
    room.started(1)
    send(a.guardian(), signal.SIGKILL)
    judge_one_run(room, a, "unhealthy")


@test
def command_with_n_is_not_run_again_when_the_store_was_lost(room):
    a = room.candidate("a", options=["-n", "-E", "0"])
    room.started(1)
    os.rename(room.db, room.db + ".away")
    a.said("confirmed-dead")
    os.rename(room.db + ".away", room.db)
    judge_one_run(room, a, "unreachable")


@test
def command_with_n_is_not_run_again_after_resign(room):
    a = room.candidate("a", options=["-n", "-E", "0"])
    room.started(1)
    subprocess.run([room.bellwether, "resign", "--store", room.store, "--election", room.election], check=True, timeout=HANG_S,
                   stdout=subprocess.DEVNULL)
    judge_one_run(room, a, "resigned")


@test
def quiet_log_says_why_a_command_with_n_was_stopped(room):
    room.options[room.options.index("--log") + 1] = "quiet"
    a = room.candidate("a", options=["-n"])
    room.started(1)
    subprocess.run([room.bellwether, "resign", "--store", room.store, "--election", room.election], check=True, timeout=HANG_S,
                   stdout=subprocess.DEVNULL)
    assert a.wait() == 76
    assert [(e["event"], e["level"]) for e in a.events()] == [("leadership-lost", "error")]


@test
def quiet_log_says_that_the_supervisor_died(room):
    room.options[room.options.index("--log") + 1] = "quiet"
    a = room.candidate("a")
    room.started(1)
    a.signal(signal.SIGKILL)
    a.said("supervisor-died")
    room.candidate("b", "for=1").wait()
    assert [(e["event"], e["level"], e["token"]) for e in a.events()] == [("supervisor-died", "error", 1)]


@test
def not_elected_exits_with_75_or_the_configured_code(room):
    long_ttl(room)  # -n asks once, and waits for the answer as long as the TTL allows
    room.candidate("a")
    room.started(1)
    b = room.candidate("b", options=["-n"])
    assert b.wait() == 75 and "-n" in b.said("gave-up")["message"]
    assert room.candidate("c", options=["-w", "2s", "-E", "9"]).wait() == 9


@test
def unreachable_store_exits_with_69_after_wait(room):
    first = room.candidate("first", "for=1")
    first.wait()
    with locked(room.db, readers=True):
        code = room.candidate("b", options=["-w", "1s"]).wait()
    assert code == 69, code


@test
def unreachable_store_exits_with_69_at_once_with_n(room):
    room.candidate("first", "for=1").wait()
    with locked(room.db, readers=True):
        b = room.candidate("b", options=["-n"])
        assert b.wait() == 69
    assert "unreachable" in b.said("gave-up")["message"]
    assert not [x for x in b.events("store-unavailable") if "retrying" in x["message"]]


def break_database(room):
    """Removes only elections.db: the files that are left belong to no database."""
    room.candidate("first", "for=1").wait()
    os.rename(room.db, room.db + ".away")
    os.mkdir(room.db + "-wal")


@test
def opening_the_store_is_retried_for_the_whole_wait(room):
    break_database(room)
    before = time.monotonic()
    a = room.candidate("a", options=["-w", "2s"])
    assert a.wait() == 69 and time.monotonic() - before >= 2
    assert len(a.events("store-unavailable")) == 1 and a.said("gave-up")


@test
def store_is_used_once_it_can_be_opened(room):
    break_database(room)
    a = room.candidate("a")
    a.said("store-unavailable")
    os.rmdir(room.db + "-wal")
    os.rename(room.db + ".away", room.db)
    a.said("store-available")
    room.started(2)
    assert a.leads()


@test
def read_only_database_is_reported_and_exits_with_64(room):
    if os.geteuid() == 0:
        point = os.path.join(room.dir, "ro")
        os.mkdir(point)
        if subprocess.call(["mount", "-t", "tmpfs", "none", point], stderr=subprocess.DEVNULL) != 0:
            raise Skip("root writes everywhere, and nothing can be mounted")
        try:
            open(os.path.join(point, "elections.db"), "wb").close()
            subprocess.check_call(["mount", "-o", "remount,ro", point])
            room.db = os.path.join(point, "elections.db")
            a = room.candidate("a")
            assert a.wait() == 64
        finally:
            subprocess.call(["umount", "-l", point])
    else:
        open(room.db, "wb").close()
        os.chmod(room.db, 0o400)
        a = room.candidate("a")
        assert a.wait() == 64
    assert a.text().startswith("bellwether run: --store: ") and "cannot write" in a.text(), a.text()


@test
def unreadable_database_gives_the_same_exit_code_in_run_and_status(room):
    if os.geteuid() != 0:
        raise Skip("only root can start a command as another user")
    room.candidate("first", "for=1").wait()
    os.chmod(room.dir, 0o755)
    for name in (room.db, room.db + ".locks"):
        os.chmod(name, 0)
    store = ["--store", room.store, "--election", room.election]
    environment = {"PATH": os.environ["PATH"], "BELLWETHER_HISTORY_DIR": "none"}
    for words in (["run", *store, "-n", "--", "true"], ["status", *store], ["resign", *store]):
        done = subprocess.run([room.bellwether, *words], user=65534, group=65534, extra_groups=[], check=False, env=environment,
                              capture_output=True, text=True, timeout=HANG_S)
        assert done.returncode == 64 and "Permission denied" in done.stderr, f"{words[0]}: {done}"


@test
def corrupt_database_is_reported_unchanged_and_exits_with_64(room):
    with open(room.db, "wb") as file:
        file.write(b"this is no database\n" * 200)
    a = room.candidate("a")
    assert a.wait() == 64
    assert a.text().startswith("bellwether run: --store: ") and "not a database" in a.text(), a.text()
    with open(room.db, "rb") as file:
        assert file.read() == b"this is no database\n" * 200


@test_each_containment
def command_inherits_only_the_leadership_environment(room):
    out = os.path.join(room.dir, "out")
    a = room.candidate("a", options=["--history-dir", os.path.join(room.dir, "history")], env={"BELLWETHER_HISTORY_DIR": None},
                       command=["sh", "-c", f"env | grep ^BELLWETHER_ | sort > {out}; ls /proc/self/fd >> {out}"])
    assert a.wait() == 0
    with open(out, encoding="utf-8") as file:
        lines = file.read().splitlines()
    names = [x.split("=")[0] for x in lines if "=" in x]
    assert names in (["BELLWETHER_ELECTION", "BELLWETHER_ID", "BELLWETHER_STORE", "BELLWETHER_TOKEN"],
                     ["BELLWETHER_COOKIE", "BELLWETHER_ELECTION", "BELLWETHER_ID", "BELLWETHER_STORE",
                      "BELLWETHER_TOKEN"]), names
    assert [x for x in lines if x.isdigit()] == ["0", "1", "2", "3"], f"descriptors of ours in the command: {lines}"


@test
def sidelined_signals_stay_ignored_under_nohup(room):
    a = room.candidate("a", command=["sh", "-c", "trap '' HUP; exec sleep 2"])
    a.said("started")
    words = [room.bellwether, "run", "--store", "sqlite:" + room.db, "--election", "other", *room.options, "--",
             room.witness, room.dir, "for=300"]
    process = subprocess.Popen(["nohup", *words], stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    room.started(1)
    process.send_signal(signal.SIGHUP)
    assert process.wait(HANG_S) == 0, "HUP ended it although it was ignored at start"


def describe(room):
    """Prints the logs of the witness and the candidates, to explain a failure."""
    lines = [" ".join(x) for x in room.lines()[-20:]]
    for c in room.candidates:
        lines += [f"{c.name}: {e['time'][17:-1]} {e['event']}: {e['message']}" for e in c.events()[-25:]]
    return "\n".join(lines)


def run_one(programs, name, function, kind):
    """Returns a function that reports the result to a Tap."""
    missing = why_not_contained(kind) if kind else ""
    if missing:
        return lambda tap: tap.skip(name, missing)
    with Room(programs[0], programs[1], containment=kind or "auto") as room:
        room.shim = programs[2]
        try:
            function(room)
            room.judge()
            return lambda tap: tap.result(True, name)
        except Skip as why:
            reason = str(why)
            return lambda tap: tap.skip(name, reason)
        except (AssertionError, stall.Violation, subprocess.TimeoutExpired, OSError, IndexError):
            details = traceback.format_exc() + describe(room)
            return lambda tap: tap.result(False, name, details)


def main(tests):
    programs, wanted = sys.argv[1:4], sys.argv[4:]
    tap = Tap()
    chosen = [t for t in tests if not wanted or any(w in t[0] for w in wanted)]
    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        for result in pool.map(lambda t: run_one(programs, *t), chosen):
            result(tap)
    sys.exit(tap.end())


if __name__ == "__main__":
    main(TESTS)
