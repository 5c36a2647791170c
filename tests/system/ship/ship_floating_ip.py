#!/usr/bin/env python3
"""The recipe of docs/guides/recipes/floating-ip.md: hosts in network namespaces, the script of examples/ as the command of the leader.

    ship_floating_ip.py BELLWETHER SOURCE

A client on a third host keeps an ARP entry for the floating address. The test reads this entry and the addresses of the hosts
from the kernel, not from Bellwether."""
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback

sys.dont_write_bytecode = True

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "kit"))
from netns_lib import Network, run, why_not  # noqa: E402
from run_lib import Tap, send, wait_for  # noqa: E402

FLOATING = "10.77.0.100"


class Site:
    """Two hosts that may have the address, and a client. A thread notes whenever both hosts have it."""

    def __init__(self, bellwether, source, directory):
        self.net, self.bellwether, self.directory = Network(3), bellwether, directory
        self.script = os.path.join(source, "examples", "floating-ip.sh")
        self.both, self.over = [], threading.Event()
        self.watcher = threading.Thread(target=self.watch)
        self.watcher.start()

    def watch(self):
        while not self.over.wait(0.05):
            # host 1 before and after host 2: the two cannot be read at the same instant
            if self.has(1) and self.has(2) and self.has(1):
                self.both.append(time.monotonic())

    def end(self):
        self.over.set()
        self.watcher.join()
        self.net.remove()

    def has(self, number):
        """Whether the host has the address. `ip` fails without a message if the addresses change while it reads them."""
        while True:
            done = run("ip", "-n", self.net[number].space, "-j", "-4", "addr", "show", "dev", "eth0", check=False)
            if done.returncode == 0:
                break
            assert not done.stderr.strip(), done.stderr
        return any(a.get("local") == FLOATING for link in json.loads(done.stdout or "[]") for a in link.get("addr_info", []))

    def owners(self):
        return [number for number in (1, 2) if self.has(number)]

    def hardware(self, number):
        return json.loads(run("ip", "-n", self.net[number].space, "-j", "link", "show", "dev", "eth0").stdout)[0]["address"]

    def neighbour(self):
        """The client's ARP entry for the floating address; None if it has none."""
        listed = json.loads(run("ip", "-n", self.net[3].space, "-j", "neigh", "show", FLOATING).stdout or "[]")
        return listed[0].get("lladdr") if listed else None

    def start(self, number):
        return self.net[number].start(
            [self.bellwether, "run", "--store", f"sqlite:{self.directory}/e.db", "--election", "vip", "--id", f"h{number}", "--log", "json",
             "--drain-dir", f"{self.directory}/drain{number}", "--", self.script, FLOATING + "/24", "eth0"],
            stderr=open(f"{self.directory}/h{number}.err", "ab"), start_new_session=True)

    def owned_by(self, number):
        def owned():
            return self.owners() == [number]
        owned.__doc__ = f"host {number} to have the address; owners {self.owners()}"
        wait_for(owned, pause=0.05)

    def reached_at(self, number):
        """Waits until the client's entry names this host. The client sends nothing meanwhile."""
        def named():
            return self.neighbour() == self.hardware(number)
        named.__doc__ = f"the client to know host {number}"
        wait_for(named, pause=0.05)

    def drain(self, number):
        subprocess.run([self.bellwether, "drain", "--drain-dir", f"{self.directory}/drain{number}"], check=True, capture_output=True,
                       timeout=120)

    def kill_all(self, process, number):
        """Kills the supervisor, the guardian and the work of a host at once: nothing of Bellwether can clean up."""
        pids = [int(pid) for pid in run("ip", "netns", "pids", self.net[number].space).stdout.split()]
        for pid in [process.pid, *pids]:
            send(pid, signal.SIGSTOP)
        for pid in [process.pid, *pids]:
            send(pid, signal.SIGKILL)


def address_follows_the_leader(site):
    first = site.start(1)
    site.owned_by(1)
    ask = "import socket; socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', ('%s', 9))" % FLOATING
    site.net[3].run([sys.executable, "-c", ask])  # the client learns the entry once
    site.reached_at(1)
    second = site.start(2)
    site.drain(1)
    site.owned_by(2)
    site.reached_at(2)
    site.kill_all(first, 1)
    first.wait()
    third = site.start(1)  # drained: it waits
    os.unlink(f"{site.directory}/drain1/drained")
    site.kill_all(second, 2)
    second.wait()
    site.owned_by(1)  # after the kernel has removed it from host 2
    site.reached_at(1)
    assert not site.both, f"two hosts had the address: {site.both}"
    third.terminate()
    third.wait(60)
    assert site.owners() == [], "the address is left after SIGTERM"


def main():
    tap, name = Tap(), "address_follows_the_leader"
    missing = why_not() or (None if shutil.which("arping") else "needs arping")
    if missing:
        tap.skip(name, missing)
        sys.exit(tap.end())
    directory = tempfile.mkdtemp(prefix="bellwether-ip-")
    site = Site(os.path.abspath(sys.argv[1]), sys.argv[2], directory)
    try:
        address_follows_the_leader(site)
    except Exception:  # any failure belongs to this test
        logs = "\n".join(open(os.path.join(directory, f), errors="replace").read()[-3000:] for f in os.listdir(directory) if f.endswith(".err"))
        tap.result(False, name, traceback.format_exc() + logs)
    else:
        tap.result(True, name)
    finally:
        site.end()
        shutil.rmtree(directory, ignore_errors=True)
    sys.exit(tap.end())


if __name__ == "__main__":
    main()
