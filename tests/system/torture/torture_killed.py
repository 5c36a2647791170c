#!/usr/bin/env python3
"""Tests that a killed driver of tests/torture.py leaves no process behind.

    torture_killed.py BUILD
"""
import os
import signal
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "kit"))
from run_lib import Tap, wait_for  # noqa: E402

LIMIT_S = 120  # generous: not judged


def processes_in(folder):
    """The processes whose command line names the folder."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as line:
                if folder.encode() in line.read():
                    found.append(int(pid))
        except OSError:
            continue
    return found


def killed_driver_ends_its_servers(build):
    torture = os.path.join(HERE, "..", "..", "torture.py")
    with tempfile.TemporaryDirectory(prefix="torture-killed-") as folder:
        driver = subprocess.Popen([sys.executable, torture, build, "serve", "--limit", "40", "--jobs", "1"],
                                  env=dict(os.environ, TMPDIR=folder), stdout=subprocess.DEVNULL)
        wait_for(lambda: processes_in(folder), LIMIT_S, 0.02)
        os.kill(driver.pid, signal.SIGKILL)
        driver.wait()
        wait_for(lambda: not processes_in(folder), LIMIT_S, 0.02)


def main():
    tap = Tap()
    try:
        killed_driver_ends_its_servers(sys.argv[1])
        tap.result(True, "killed_driver_ends_its_servers")
    except Exception as error:  # pylint: disable=broad-except
        tap.result(False, "killed_driver_ends_its_servers", repr(error))
    return tap.end()


if __name__ == "__main__":
    sys.exit(main())
