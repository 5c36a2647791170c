#!/usr/bin/env python3
"""The programs of docs/guides/other-languages.md, run as they are printed there, against real sidecars.

    http_clients.py BELLWETHER SOURCE

Each program works beside its own sidecar. When the leading sidecar ends, its program must stop and the other one must take over with
a higher token. Verdicts depend on what the programs print; times only end a test that hangs."""
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading

sys.dont_write_bytecode = True
BELLWETHER, SOURCE = (os.path.abspath(path) for path in sys.argv[1:3])
sys.path.insert(0, os.path.join(SOURCE, "tests", "system", "kit"))
from run_lib import HANG_S, Tap, free_ports, wait_for  # noqa: E402

with open(os.path.join(SOURCE, "docs", "guides", "other-languages.md"), encoding="utf-8") as page:
    PROGRAMS = dict(re.findall(r"^```(sh|python|js|go)\n(.*?)^```$", page.read(), re.M | re.S))
tap = Tap()


class Skip(Exception):
    """This machine cannot run the test; the text says why."""


class Process:
    """A process whose lines of output are collected."""

    def __init__(self, *words):
        self.lines = []
        self.process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    def read(self):
        for line in self.process.stdout:
            self.lines.append(line.strip())

    def end(self):
        self.process.kill()
        self.process.wait()
        self.reader.join()
        self.process.stdout.close()


def command_of(language, directory):
    """The words that start the program of the page."""
    program = {"sh": "sh", "python": "python3", "js": "node", "go": "go"}[language]
    if not shutil.which(program) or (language == "sh" and not shutil.which("curl")):
        raise Skip(f"{program} is not installed")
    source = os.path.join(directory, "worker." + language)
    with open(source, "w", encoding="utf-8") as file:
        file.write(PROGRAMS[language])
    if language != "go":
        return [program, source]
    built = os.path.join(directory, "worker")
    environment = dict(os.environ, GO111MODULE="off", CGO_ENABLED="0", GOFLAGS="-p=2")
    if not os.environ.get("HOME"):
        environment["GOCACHE"] = os.path.join(directory, "cache")
    subprocess.run(["go", "build", "-o", built, source], check=True, timeout=600, cwd=directory, env=environment)
    return [built]


def takes_over(language):
    directory, started = tempfile.mkdtemp(prefix="http-clients-"), []

    def start(*words):
        started.append(Process(*words))
        return started[-1]
    try:
        words = command_of(language, directory)
        ports = free_ports(2)
        sidecars = [start(BELLWETHER, "run", "--store", "sqlite:" + os.path.join(directory, "e.db"), "--election", "nightly", "--id", f"c{i}",
                          "--http", f"127.0.0.1:{port}", "--log", "quiet") for i, port in enumerate(ports)]
        workers = [start(*words, f"127.0.0.1:{port}") for port in ports]
        wait_for(lambda: workers[0].lines or workers[1].lines, HANG_S)
        first = 0 if workers[0].lines else 1
        assert re.fullmatch(r"step with token \d+", workers[first].lines[0]), workers[first].lines
        sidecars[first].process.terminate()
        wait_for(lambda: workers[1 - first].lines, HANG_S)
        tokens = [int(w.lines[-1].split()[-1]) for w in workers]
        assert tokens[1 - first] > tokens[first], tokens
        assert all(w.process.poll() is None for w in workers), "a worker has exited"
    finally:
        for process in started:
            process.end()
        shutil.rmtree(directory)


def report(language):
    name = f"{language}_program_of_the_page_takes_over"
    try:
        takes_over(language)
        tap.result(True, name)
    except Skip as why:
        tap.skip(name, str(why))
    except (AssertionError, OSError, subprocess.SubprocessError) as error:
        tap.result(False, name, repr(error))


def main():
    threads = [threading.Thread(target=report, args=[language]) for language in PROGRAMS]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    tap.result(sorted(PROGRAMS) == ["go", "js", "python", "sh"], "page_has_four_programs", "" if len(PROGRAMS) == 4 else str(sorted(PROGRAMS)))
    sys.exit(tap.end())


main()
