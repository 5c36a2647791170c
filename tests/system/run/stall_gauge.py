#!/usr/bin/env python3
"""The gauge of tests/system/kit/stall.py sees that its process stood still, and only then an action is repeated. And
mutants.py gives up a catcher only if it could run.

    stall_gauge.py"""
import os
import re
import signal
import subprocess
import sys
import time
import traceback

sys.dont_write_bytecode = True

sys.path[:0] = [os.path.join(os.path.dirname(os.path.abspath(__file__)), *way) for way in (("..", "kit"), ("..", ".."))]
import mutants  # noqa: E402
import stall  # noqa: E402
from run_lib import HANG_S, Tap  # noqa: E402

STOP_S = 1.0


def measured():
    """Runs in the process that is stopped: prints each attempt, and fails until one took place without a stop."""
    def attempt(number):
        begun = time.monotonic()
        print("attempt", number, flush=True)
        sys.stdin.readline()
        assert time.monotonic() - begun < STOP_S, "stopped"
    stall.judge(attempt, STOP_S, "the attempt")


def action_is_repeated_after_a_stop():
    with subprocess.Popen([sys.executable, __file__, "measured"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout.readline() == "attempt 0\n"
        os.kill(child.pid, signal.SIGSTOP)
        time.sleep(STOP_S + 0.1)
        os.kill(child.pid, signal.SIGCONT)
        print(file=child.stdin, flush=True)
        said = child.stdout.readline()
        found = re.fullmatch(r"# the machine stalled for ([0-9.]+) s: the attempt is not judged\n", said)
        assert found and float(found.group(1)) >= STOP_S, said
        assert child.stdout.readline() == "attempt 1\n"
        out, _ = child.communicate("\n", HANG_S)
        assert child.returncode == 0 and not out, (child.returncode, out)


def two_commands_at_once_are_reported_even_after_a_stall():
    seen = []

    def attempt(number):
        seen.append(number)
        stall.judge_overlaps([["start", "1", "7"], ["overlap", "2", "8"]])
    try:
        stall.judge(attempt, 0.0)  # every attempt counts as stalled
    except stall.Violation as error:
        assert "two commands at once" in str(error) and seen == [0], (error, seen)
    else:
        raise AssertionError("the violation was not reported")
    stall.judge_overlaps([["start", "1", "7"], ["end", "1", "7"]])


def token_that_does_not_grow_is_a_violation():
    stall.judge_tokens([1, 3, 8])
    for tokens in ([2, 1], [1, 1]):
        try:
            stall.judge_tokens(tokens)
        except stall.Violation:
            continue
        raise AssertionError(f"{tokens} was accepted")


def action_that_fails_without_a_stop_is_judged():
    seen = []

    def attempt(number):
        seen.append(number)
        raise AssertionError("defect")
    try:
        stall.judge(attempt, 1000.0)
    except AssertionError as error:
        assert str(error) == "defect" and seen == [0], (error, seen)
    else:
        raise AssertionError("the failure was not reported")


def catcher_of_a_bug_that_sleeps_forever_is_judged():
    status, _, had = mutants.run_catcher(["sh", "-c", "sleep 1000 & wait"], 0.5)
    assert status is None and had >= 0.5, (status, had)


def catcher_of_a_bug_that_gets_no_cpu_is_not_judged():
    on_one_cpu = ["taskset", "-c", str(min(os.sched_getaffinity(0)))]
    with subprocess.Popen([*on_one_cpu, "sh", "-c", "while :; do :; done"]) as hog:
        try:
            status, _, had = mutants.run_catcher([*on_one_cpu, "nice", "-n", "19", "sh", "-c", "while :; do :; done"], 0.9, longest=1.0)
        except mutants.Trouble as trouble:
            assert "could run for only" in str(trouble), trouble
        else:
            raise AssertionError(f"it was judged after {had} s: {status}")
        finally:
            hog.kill()


def main():
    if sys.argv[1:] == ["measured"]:
        return measured()
    tap = Tap()
    for function in (action_is_repeated_after_a_stop, action_that_fails_without_a_stop_is_judged,
                     two_commands_at_once_are_reported_even_after_a_stall, token_that_does_not_grow_is_a_violation,
                     catcher_of_a_bug_that_sleeps_forever_is_judged, catcher_of_a_bug_that_gets_no_cpu_is_not_judged):
        try:
            function()
            tap.result(True, function.__name__)
        except Exception:  # pylint: disable=broad-except
            tap.result(False, function.__name__, traceback.format_exc())
    return tap.end()


if __name__ == "__main__":
    sys.exit(main())
