#!/usr/bin/env python3
"""The Node.js package on the real library: its own tests, and its example as real processes.

    lib_node.py LIBRARY SOURCE

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

tap = Tap()


def run(directory, *words, timeout=HANG_S * 5, **more):
    return subprocess.run(["node", *words], cwd=directory, timeout=timeout, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          check=False, **more)


def build(package):
    place = os.path.dirname(LIBRARY)
    done = run(package, "build.js", env=dict(os.environ, CFLAGS="-Werror -I" + os.path.join(SOURCE, "include"),
                                             LDFLAGS=f"-L{place} -Wl,-rpath,{place}"))
    if "cannot find node_api.h" in done.stdout:
        tap.skip("node_package_compiles", "the headers of Node.js are not installed")
        return False
    tap.result(done.returncode == 0, "node_package_compiles", done.stdout if done.returncode else "")
    return done.returncode == 0


def own_tests(package):
    """Reports every test of the package by its name."""
    done = run(package, "--test-reporter=tap", "test.js")
    for verdict, name in re.findall(r"^(ok|not ok) \d+ - (\w+)", done.stdout, re.M):
        tap.result(verdict == "ok", name, done.stdout if verdict != "ok" else "")
    tap.result(done.returncode == 0, "node_tests_pass", done.stdout if done.returncode else "")


def text_of(path):
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except FileNotFoundError:
        return ""


def example(package):
    script, store, lines = (os.path.join(package, name) for name in ("examples/nightly.js", "e.db", "lines"))
    started = []

    def start(rounds):
        started.append(subprocess.Popen(["node", script, "sqlite:" + store, lines, str(rounds)]))
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
        waiting.kill()
        waiting.wait()
        assert start(1).wait(HANG_S) == 0 and "token 6 round 1" in text_of(lines)
    finally:
        for process in started:
            process.kill()
            process.wait()


def main():
    if not shutil.which("node"):
        tap.skip("node_package", "nodejs is not installed")
        sys.exit(tap.end())
    directory = tempfile.mkdtemp(prefix="lib-node-")
    package = os.path.join(directory, "node_modules", "bellwether")
    try:
        shutil.copytree(os.path.join(SOURCE, "node"), package, ignore=shutil.ignore_patterns("build"))
        if build(package):
            own_tests(package)
            try:
                example(package)
                tap.result(True, "node_example_takes_turns_and_ends_on_sigterm")
            except (AssertionError, OSError, subprocess.TimeoutExpired) as error:
                tap.result(False, "node_example_takes_turns_and_ends_on_sigterm", repr(error))
    finally:
        shutil.rmtree(directory)
    sys.exit(tap.end())


main()
