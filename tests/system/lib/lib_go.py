#!/usr/bin/env python3
"""The Go package on the real library: its own tests under the race detector, and its example as real processes.

    lib_go.py LIBRARY SOURCE

Verdicts depend on states, tokens and messages; times only end a test that hangs."""
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
LIBRARY, SOURCE = (os.path.abspath(path) for path in sys.argv[1:3])
sys.path.insert(0, os.path.join(SOURCE, "tests", "system", "kit"))
from run_lib import HANG_S, Tap, wait_for  # noqa: E402

BUILD_S = 600
tap = Tap()


def go(directory, *words):
    """Runs the go command; nothing is fetched. Returns what failed, or an empty text."""
    place = os.path.dirname(LIBRARY)
    environment = dict(os.environ, GO111MODULE="on", GOFLAGS="-p=2 -mod=mod -buildvcs=false", GOPROXY="off", GOSUMDB="off", CGO_ENABLED="1",
                       GOPATH=os.path.join(directory, "path"),
                       CGO_CFLAGS="-O1 -Wall -Werror -I" + os.path.join(SOURCE, "include"), CGO_LDFLAGS=f"-L{place} -Wl,-rpath,{place}")
    if not os.environ.get("HOME"):  # otherwise all builds share the cache of the user
        environment["GOCACHE"] = os.path.join(directory, "cache")
    done = subprocess.run(["go", *words], cwd=os.path.join(SOURCE, "go"), env=environment, timeout=BUILD_S, text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, check=False)
    return done.stdout if done.returncode else ""


def format_is_gofmt():
    done = subprocess.run(["gofmt", "-l", "."], cwd=os.path.join(SOURCE, "go"), timeout=HANG_S, text=True, stdout=subprocess.PIPE, check=False)
    tap.result(done.returncode == 0 and not done.stdout, "go_sources_are_formatted", done.stdout)


def own_tests(directory):
    """Reports every test of the package by its name."""
    program = os.path.join(directory, "bellwether.test")
    failed = go(directory, "test", "-race", "-c", "-o", program, ".")
    tap.result(not failed, "go_package_compiles", failed)
    if failed:
        return
    done = subprocess.run([program, "-test.v", f"-test.timeout={int(HANG_S) * 5}s"], cwd=directory, timeout=HANG_S * 6, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    for verdict, name in re.findall(r"^--- (PASS|FAIL|SKIP): (\w+)", done.stdout, re.M):
        if verdict == "SKIP":
            tap.skip(name, "the Go test skipped itself")
        else:
            tap.result(verdict == "PASS", name, done.stdout if verdict == "FAIL" else "")
    tap.result(done.returncode == 0, "go_tests_pass_under_the_race_detector", done.stdout if done.returncode else "")


def text_of(path):
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except FileNotFoundError:
        return ""


def example(directory):
    program, store, lines = (os.path.join(directory, name) for name in ("nightly", "e.db", "lines"))
    failed = go(directory, "build", "-o", program, "./examples/nightly")
    assert not failed, failed
    started = []

    def start(rounds):
        started.append(subprocess.Popen([program, "sqlite:" + store, lines, str(rounds)], stderr=subprocess.PIPE, text=True))
        return started[-1]
    try:
        for process in [start(5) for _ in range(3)]:
            assert process.wait(HANG_S) == 0
        found = re.findall(r"^token (\d+) round (\d+)$", text_of(lines), re.M)
        assert found == [(str(t), str(r)) for t in (1, 2, 3) for r in (1, 2, 3, 4, 5)], found
        leader = start(1000000)
        wait_for(lambda: "token 4 " in text_of(lines))
        waiting = start(1000000)
        leader.send_signal(signal.SIGTERM)
        assert leader.wait(HANG_S) == 0
        wait_for(lambda: "token 5 " in text_of(lines))
        idle = start(1)
        idle.send_signal(signal.SIGTERM)  # while it starts or waits for the election
        assert idle.wait(HANG_S) in (0, -signal.SIGTERM)
        waiting.kill()
        waiting.wait()
        assert start(1).wait(HANG_S) == 0 and "token 6 round 1" in text_of(lines)
    finally:
        for process in started:
            process.kill()
            process.communicate()


def main():
    if not shutil.which("go"):
        tap.skip("go_package", "golang-go is not installed")
        sys.exit(tap.end())
    directory = tempfile.mkdtemp(prefix="lib-go-")
    try:
        format_is_gofmt()
        own_tests(directory)
        try:
            example(directory)
            tap.result(True, "go_example_takes_turns_and_ends_on_sigterm")
        except (AssertionError, OSError, subprocess.TimeoutExpired) as error:
            tap.result(False, "go_example_takes_turns_and_ends_on_sigterm", repr(error))
    finally:
        subprocess.run(["chmod", "-R", "u+w", directory], check=False)  # the go command writes read-only directories
        shutil.rmtree(directory)
    sys.exit(tap.end())


main()
