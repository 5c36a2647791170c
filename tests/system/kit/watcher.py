#!/usr/bin/env python3
"""Kills the process groups that a test has started if the test itself dies, also by SIGKILL.

A Watcher is a process of its own. It learns through a pipe which groups run, and the pipe ends with the test. A group is
named by its leader's pid and start time, so that no other process is killed if the number is used again.

A group reports itself, before it becomes the program, and has the pipe open until then: there is no moment at which the test
can die and leave a group behind."""
import os
import signal
import subprocess
import sys


def start_time(pid):
    """The start of a process in clock ticks since boot, as text; empty if there is none."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as stat:
            return stat.read().rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return ""


class Watcher:
    """Watches over the process groups of this process."""

    def __init__(self):
        end, self.pipe = os.pipe()
        self.process = subprocess.Popen([sys.executable, os.path.abspath(__file__)], stdin=end, start_new_session=True)
        os.close(end)
        assert self.pipe < 10, "a shell can only close descriptors of one digit"

    def start(self, words, **options):
        """Starts a program as the leader of a group of its own. `options` are those of Popen."""
        report = f'read -r {"x " * 21}begun x </proc/$$/stat; echo "+ $$ $begun" >&"$0"; eval "exec $0>&-"; exec "$@"'
        return subprocess.Popen(["/bin/sh", "-c", report, str(self.pipe), *words], pass_fds=(self.pipe,), start_new_session=True, **options)

    def remove(self, pid):
        os.write(self.pipe, f"- {pid} 0\n".encode())


def main():
    groups = {}
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    for line in sys.stdin:
        what, pid, begun = line.split(" ")
        if what == "+":
            groups[int(pid)] = begun.strip()
        else:
            groups.pop(int(pid), None)
    for pid, begun in groups.items():
        try:
            if begun and start_time(pid) == begun:
                os.killpg(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass  # it has just ended


if __name__ == "__main__":
    main()
