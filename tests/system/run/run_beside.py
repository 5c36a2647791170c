#!/usr/bin/env python3
"""Processes beside the work of `bellwether run`: health, hooks, standby, transfer, fencing.

    run_beside.py BELLWETHER WITNESS SHIM [NAME...]

Each test ends with the check of run_faults.py: never two commands alive at once, and tokens only grow."""
import datetime
import os
import resource
import shutil
import signal
import sqlite3
import subprocess
import sys
import time

sys.dont_write_bytecode = True

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "kit"))
from run_faults import TTL_S, Skip, main, without_sanitizer  # noqa: E402
from run_lib import install_script, lives, text_of, wait_for  # noqa: E402

TESTS = []


def test(function):
    TESTS.append((function.__name__, function, None))
    return function


@test
def unhealthy_leader_steps_down_and_unhealthy_candidate_does_not_contend(room):
    fit = os.path.join(room.dir, "fit")
    options = ["--health-cmd", f"test -e {fit}", "--health-interval", "1s"]
    a = room.candidate("a", options=options)
    a.said("unhealthy")
    time.sleep(0.3)
    assert not room.starts(), "an unfit candidate was elected"
    open(fit, "wb").close()
    room.started(1)
    b = room.candidate("b")
    b.said("leader")
    os.unlink(fit)
    room.started(2)
    assert b.leads() and a.said("step-down")["reason"] == "unhealthy"


ATTEMPTS = 8  # for checks that count only if the machine was not paused meanwhile; the test measures that


def longest(times):
    return max(later - earlier for earlier, later in zip(times, times[1:]))


@test
def leader_steps_down_when_its_work_makes_no_progress(room):
    progress = os.path.join(room.dir, "progress")
    a = room.candidate("a", options=["--progress-file", progress, "--progress-within", "1s", "--health-interval",
                                     "50ms"])
    for number in range(1, ATTEMPTS + 1):
        room.started(number)
        written = [time.monotonic()]
        for step in range(15):
            with open(progress, "w", encoding="utf-8") as file:
                file.write("x" * step)
            written.append(time.monotonic())
            time.sleep(0.1)
        lost = len(a.events("step-down")) >= number
        if lost and longest(written + [time.monotonic()]) >= 0.9:
            continue  # no such pause happened
        assert not lost, "it made progress"
        break
    assert a.said("step-down", count=number)["reason"] == "unhealthy"
    room.started(number + 1)  # once it does not lead, it is healthy again


BARKS = """
import os, socket, sys, time
s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
for i in range(int(sys.argv[2])):
    s.sendto(b'WATCHDOG=1', chr(0) + os.environ['NOTIFY_SOCKET'][1:])
    with open(sys.argv[1], 'a') as file:
        print(time.time(), file=file)
    time.sleep(0.1)
time.sleep(100)
"""


def barking(room, name, count):
    """Starts a leader whose work sends WATCHDOG=1 `count` times and then stops; returns it and the file with the times."""
    out = os.path.join(room.dir, name + ".barks")
    return room.candidate(name, command=[sys.executable, "-c", BARKS, out, str(count)],
                          options=["--watchdog", "1s", "--health-interval", "50ms", "--once"]), out


def barked(out):
    return [float(line) for line in text_of(out).splitlines()]


def longest_silence(a, out):
    """The longest pause between two messages of its work, from its start to the step-down."""
    begun, ended = seconds(a.said("started")), seconds(a.said("step-down"))
    return longest([begun, *(t for t in barked(out) if t < ended), ended])


@test
def leader_steps_down_when_watchdog_messages_stop(room):
    for number in range(ATTEMPTS):
        a, out = barking(room, f"a{number}", 15)
        assert a.said("step-down")["reason"] == "unhealthy" and a.wait() == 76
        if len(barked(out)) == 15:
            return
        assert longest_silence(a, out) >= 0.9, "it stepped down while the watchdog barked"
    raise AssertionError(f"silent for a second in each of {ATTEMPTS} attempts")


@test
def paused_supervisor_reads_watchdog_messages_before_it_steps_down(room):
    room.options[1] = "60s"
    for number in range(ATTEMPTS):
        a, out = barking(room, f"a{number}", 10000)
        wait_for(lambda: barked(out) or not lives(a.pid))
        a.signal(signal.SIGSTOP)
        time.sleep(1.2)  # longer than the watchdog's timeout
        a.signal(signal.SIGCONT)
        heard = len(barked(out))
        wait_for(lambda: len(barked(out)) > heard + 3 or not lives(a.pid))
        if not a.events("step-down"):
            return
        assert longest_silence(a, out) >= 0.9, "what had come was not heard"
        a.wait()
    raise AssertionError(f"silent for a second in each of {ATTEMPTS} attempts")


@test
def the_standby_command_runs_while_not_leading_and_ends_before_the_work(room):
    out = os.path.join(room.dir, "standby")
    line = f"trap 'sleep 0.1; echo off >> {out}; exit' TERM; echo on >> {out}; while :; do sleep 0.02; done"
    a = room.candidate("a")
    room.started(1)
    b = room.candidate("b", options=["--standby", line],
                       command=["sh", "-c", f"echo work >> {out}; exec {room.witness} {room.dir}"])

    def text():
        return text_of(out).split()
    wait_for(lambda: text() == ["on"])
    a.signal(signal.SIGTERM)
    room.started(2)
    assert b.leads() and text() == ["on", "off", "work"], text()
    ask(room, "resign")
    wait_for(lambda: len(text()) > 3)


@test
def candidate_does_not_contend_when_memory_or_disk_is_low(room):
    a = room.candidate("a", options=["--min-memory", "900T", "--health-interval", "100ms"])
    b = room.candidate("b", options=["--min-disk", "900T", "--health-interval", "100ms"])
    assert "memory" in a.said("unhealthy")["message"]
    assert "free" in b.said("unhealthy")["message"]
    time.sleep(0.3)
    assert not room.starts()
    room.candidate("c", options=["--min-memory", "1M", "--min-disk", "1k"])
    room.started(1)


@test
def hooks_receive_the_change_in_their_environment(room):
    out = os.path.join(room.dir, "hooks")
    hook = f"echo $BELLWETHER_EVENT leader=$BELLWETHER_LEADER token=$BELLWETHER_TOKEN $BELLWETHER_REASON >> {out}"
    a = room.candidate("a", options=["--on-elected", hook, "--on-lost", hook])
    room.started(1)
    room.candidate("b", options=["--on-leader-change", hook])

    def seen(text):
        def found():
            return text in text_of(out)
        found.__doc__ = text
        return found
    wait_for(seen("elected leader=a token=1"))
    wait_for(seen("leader-change leader=a token=1"))
    a.signal(signal.SIGTERM)
    wait_for(seen("lost leader= token=1 shut-down"))
    wait_for(seen("leader-change leader=b token=2"))
    a.wait()


@test
def leader_change_hook_runs_once_per_leader_with_the_reason(room):
    out, vacancies = os.path.join(room.dir, "changes"), os.path.join(room.dir, "vacancies")
    hook = ["--on-leader-change", f"echo $BELLWETHER_LEADER $BELLWETHER_TOKEN $BELLWETHER_REASON >> {out}.$BELLWETHER_ID",
            "--on-vacant", f"echo $BELLWETHER_EVENT$BELLWETHER_LEADER >> {vacancies}.$BELLWETHER_ID"]

    def lines(name, count):
        def enough():
            return len(text_of(f"{out}.{name}").splitlines()) >= count
        enough.__doc__ = f"{count} changes of leader at {name}"
        wait_for(enough)
        return text_of(f"{out}.{name}").splitlines()
    a = room.candidate("a", options=hook)
    room.started(1)
    lines("a", 1)
    b = room.candidate("b", options=hook)
    assert lines("b", 1) == ["a 1 found"]
    assert ask(room, "transfer", "--to", "b", "--wait", "30s") == 0
    room.started(2)
    assert lines("a", 2) == ["a 1 found", "b 2 transferred"]
    assert a.said("step-down")["level"] == "info"
    assert ask(room, "resign", "--wait", "30s") == 0
    room.started(3)
    assert lines("b", 3)[:2] == ["a 1 found", lines("b", 2)[1]] and lines("b", 3)[2] == "a 3 resigned"
    assert b.said("step-down")["level"] == "info"
    for name in "ab":
        changes = lines(name, 3)
        assert len(changes) == 3 and [line.split()[:2] for line in changes] == [["a", "1"], ["b", "2"], ["a", "3"]], changes
        assert set(text_of(f"{vacancies}.{name}").splitlines()) <= {"vacant"}
    assert text_of(f"{vacancies}.a") or text_of(f"{vacancies}.b")


@test
def shutdown_waits_for_hooks_unless_signalled_twice(room):
    out = os.path.join(room.dir, "hooks")
    a = room.candidate("a", options=["--on-lost", f"sleep 0.5; echo told >> {out}"])
    room.started(1)
    b = room.candidate("b", options=["--ttl", "100s", "--on-lost", "sleep 1000"])
    a.signal(signal.SIGTERM)
    assert a.wait() == 128 + signal.SIGTERM and text_of(out) == "told\n"
    room.started(2)
    room.candidate("c")
    b.signal(signal.SIGTERM)
    room.started(3)
    b.signal(signal.SIGTERM)
    assert b.wait() == 128 + signal.SIGTERM


def seconds(event):
    return datetime.datetime.fromisoformat(event["time"].replace("Z", "+00:00")).timestamp()


def ask(room, *words):
    return subprocess.run([room.bellwether, *words, "--store", "sqlite:" + room.db, "--election", "e"], check=False,
                          stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode


@test
def transfer_waits_for_on_prepare_and_is_cancelled_when_it_refuses(room):
    a = room.candidate("a")
    room.started(1)
    b = room.candidate("b", options=["--on-prepare", "exit 1"])
    c = room.candidate("c", options=["--on-prepare", "sleep 0.2"])
    b.said("leader")
    c.said("leader")
    assert ask(room, "transfer", "--to", "b", "--wait", "30s") == 1
    assert len(room.starts()) == 1 and a.leads()
    assert ask(room, "transfer", "--to", "c", "--wait", "30s") == 0
    room.started(2)
    assert c.leads() and a.said("step-down")["reason"] == "transferred"


def said(room, *words):
    done = subprocess.run([room.bellwether, *words, "--store", "sqlite:" + room.db], check=False, capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


@test
def transfer_takes_the_candidate_as_option_or_as_argument(room):
    room.candidate("a")
    room.started(1)
    b = room.candidate("b")
    b.said("leader")
    assert said(room, "transfer", "b", "--election", "e") == (0, "transferred: b leads with token 2\n")
    assert said(room, "transfer", "--to", "a", "--election", "e") == (0, "transferred: a leads with token 3\n")
    assert said(room, "transfer", "a", "--to", "b", "--election", "e")[0] == 64
    assert said(room, "transfer", "a", "b", "--election", "e")[0] == 64
    assert said(room, "transfer", "--election", "e") == (64, "bellwether transfer: missing candidate; usage: bellwether transfer --to ID\n")
    assert said(room, "transfer", "b")[0] == 64, "the argument is not the election"


@test
def request_without_waiting_names_the_leader_once(room):
    room.candidate("a")
    room.started(1)
    assert said(room, "resign", "--election", "e", "-w", "0") == (0, "asked: a has the request to step down\n")


@test
def impossible_containment_exits_with_64(room):
    """As a user who must not create cgroups. The exit code 69 would mean that the store is unreachable."""
    if os.getuid() != 0:
        return
    os.chmod(room.dir, 0o777)
    done = subprocess.run([room.bellwether, "run", "--store", "sqlite:" + os.path.join(room.dir, "other.db"), "--election", "e",
                           "--containment", "cgroup", "--log", "json", "--", "true"], user=65534, group=65534, extra_groups=[],
                          capture_output=True, text=True, check=False)
    assert done.returncode == 64 and "use --containment auto" in done.stderr, done


def leave_unconfirmed_work_on_another_host(room):
    """A database in which an earlier holder on another machine never released."""
    room.candidate("first", "for=1").wait()
    connection = sqlite3.connect(room.db)
    connection.execute("UPDATE election SET owed = ?, version = version + 1000",
                       ("far\tcgroup:/bellwether-e-1-1@another-boot-1-1\n",))
    connection.commit()
    connection.close()


@test
def unreachable_holder_is_fenced_before_the_work_starts(room):
    leave_unconfirmed_work_on_another_host(room)
    out = os.path.join(room.dir, "fenced")
    gate = os.path.join(room.dir, "gate")
    room.candidate("a", options=["--stonith", f"until [ -e {gate} ]; do sleep 0.05; done; echo $BELLWETHER_FENCE >> {out}"])
    time.sleep(TTL_S + 0.5)  # it keeps renewing
    assert len(room.starts()) == 1, "started before the fencing was done"
    open(gate, "wb").close()
    room.started(2)
    with open(out, encoding="utf-8") as file:
        assert file.read() == "far\n"


@test
def log_says_that_the_lease_of_an_unreachable_holder_has_ended(room):
    leave_unconfirmed_work_on_another_host(room)
    said = room.candidate("a").said("predecessor-unreachable")["message"]
    # not "expired": the guardian of the holder may have ended the lease early
    assert said == "the work of earlier holder 'far' cannot be examined from this host; its lease has ended and its token is fenced", said


@test
def work_does_not_start_when_fencing_fails(room):
    leave_unconfirmed_work_on_another_host(room)
    a = room.candidate("a", options=["--stonith", "echo trying; echo no such plug >&2; exit 1"])
    failed = a.said("fence-failed")
    assert failed["message"] == "cannot fence earlier holder 'far': no such plug", failed
    assert a.said("released", count=1)["reason"] == "predecessor-not-dead"
    assert a.said("step-down")["reason"] == "predecessor-not-dead"
    assert len(room.starts()) == 1
    b = room.candidate("b", options=["--stonith", "true"])
    room.started(2)
    assert b.leads()


@test
def failed_fencing_is_retried_with_backoff_and_at_once_when_settled(room):
    leave_unconfirmed_work_on_another_host(room)
    a = room.candidate("a", options=["--stonith", "exit 1", "--retry", "100ms"])
    a.said("elected", count=4)
    ended, taken = a.events("step-down"), a.events("elected")
    pauses = [seconds(taken[i + 1]) - seconds(ended[i]) for i in range(3)]
    assert all(pauses[i] >= 0.1 * 2 ** (i + 1) for i in range(3)), f"pauses: {pauses}"
    a.said("released", count=4)  # from now on it pauses for at least 1.6 s
    assert ask(room, "recover", "--settle", "far", "--ttl", "2s", "-w", "20s") == 0
    settled = time.time()
    room.started(2)
    assert a.leads()
    failed = a.events("step-down")  # try again if settling took longer than that
    paused_until = seconds(failed[-1]) + 0.1 * 2 ** len(failed)
    assert seconds(a.events("elected")[-1]) < paused_until or settled > paused_until - 1, "the pause was waited out"


@test
def failed_fencing_names_the_holder_and_the_agents_output(room):
    leave_unconfirmed_work_on_another_host(room)
    connection = sqlite3.connect(room.db)
    connection.execute("UPDATE election SET owed = ?, version = version + 1000",
                       ("far\tcgroup:/x@another-boot-1-1\nfarther\tcgroup:/y@another-boot-1-1\n",))
    connection.commit()
    connection.close()
    line = "echo about $BELLWETHER_FENCE; test $BELLWETHER_FENCE = far"
    a = room.candidate("a", options=["--stonith", line])
    assert a.said("fenced")["holder"] == "far"
    assert a.said("fence-failed")["message"] == "cannot fence earlier holder 'farther': about farther"
    assert len(room.starts()) == 1


@test
def candidate_never_fences_itself(room):
    leave_unconfirmed_work_on_another_host(room)
    far = room.candidate("far", options=["--stonith", "exit 1"])
    room.started(2)
    assert far.leads() and not far.events("fence-failed")


@test
def fence_agent_receives_key_value_lines_on_standard_input(room):
    leave_unconfirmed_work_on_another_host(room)
    tools = os.path.join(room.dir, "bin")
    os.mkdir(tools)
    reported = os.path.join(room.dir, "told")
    install_script(os.path.join(tools, "fence_stub"), f"cat > {reported}\n")
    more = os.path.join(room.dir, "more")
    with open(more, "w", encoding="utf-8") as file:
        file.write("login=root\npassword=geheim\n")
    a = room.candidate("a", options=["--fence-agent", "stub", "--fence-file", more],
                       env={"PATH": tools + ":" + os.environ["PATH"]})
    room.started(2)
    with open(reported, encoding="utf-8") as file:
        lines = file.read().split()
    assert {"action=off", "plug=far", "port=far", "login=root", "password=geheim"} <= set(lines), lines
    with open(a.errors, encoding="utf-8") as file:
        assert "geheim" not in file.read()


def core_limit(pid):
    with open(f"/proc/{pid}/limits", encoding="utf-8") as file:
        return [line.split()[4] for line in file if line.startswith("Max core file size")][0]


@test
def supervisor_with_a_secret_leaves_no_core_dump_but_work_may(room):
    without_sanitizer(room, "forbids core dumps itself")
    more = os.path.join(room.dir, "more")
    with open(more, "w", encoding="utf-8") as file:
        file.write("password=geheim\n")
    own = resource.getrlimit(resource.RLIMIT_CORE)
    resource.setrlimit(resource.RLIMIT_CORE, (own[1], own[1]))
    if own[1] == 0:
        raise Skip("core dumps are not allowed here at all")
    install_script(os.path.join(room.dir, "fence_stub"), "")
    a = room.candidate("a", options=["--fence-agent", "stub", "--fence-file", more],
                       env={"PATH": room.dir + ":" + os.environ["PATH"]})
    room.started(1)
    assert core_limit(a.pid) == "0" and core_limit(a.guardian()) == "0"
    assert core_limit(a.said("started")["pid"]) != "0"
    with open(f"/proc/{a.said('started')['pid']}/environ", "rb") as file:
        assert b"geheim" not in file.read()
    assert "geheim" not in a.text()


@test
def debian_fence_dummy_works(room):
    agent = shutil.which("fence_dummy", path=os.environ["PATH"] + ":/usr/sbin")
    if not agent:
        raise Skip("the package fence-agents is not installed")
    leave_unconfirmed_work_on_another_host(room)
    state = os.path.join(room.dir, "state")
    with open(state, "w", encoding="utf-8") as file:
        file.write("on")
    more = os.path.join(room.dir, "more")
    with open(more, "w", encoding="utf-8") as file:
        file.write(f"type=file\nstatus_file={state}\n")
    room.candidate("a", options=["--fence-agent", "dummy", "--fence-file", more],
                   env={"PATH": os.path.dirname(agent) + ":" + os.environ["PATH"]})
    room.started(2)
    with open(state, encoding="utf-8") as file:
        assert "off" in file.read()


if __name__ == "__main__":
    main(TESTS)
