#!/usr/bin/env python3
"""SWIM with many real processes on one machine. Joins converge. All members learn of a killed member within the time that the
paper and Lifeguard's suspicion predict. The number of messages per member does not grow with the cluster.

    peer_swim.py BELLWETHER [--sizes N,N] [--period-ms MS]"""
import argparse
import json
import math
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "kit"))
import stall
from netns_lib import why_not
from run_lib import Tap, free_ports, wait_for

ALPHA, BETA = 5, 6  # parameters of Lifeguard's suspicion: bw_detector_defaults
TIMEOUT_S = 300


class Crowd:
    def __init__(self, bellwether, size, period_ms):
        self.bellwether, self.size, self.period_ms = os.path.abspath(bellwether), size, period_ms
        self.dir = tempfile.mkdtemp(prefix="bellwether-swim-", dir=os.environ.get("TMPDIR", "/tmp"))
        self.ports = dict(enumerate(free_ports(size), 1))
        self.processes = {}

    def __enter__(self):
        join = ",".join(f"127.0.0.1:{self.ports[i]}" for i in range(1, min(5, self.size) + 1))
        for number, port in self.ports.items():
            data = os.path.join(self.dir, str(number))
            os.mkdir(data)
            with open(data + ".err", "wb") as errors:
                self.processes[number] = subprocess.Popen(
                    [self.bellwether, "peer", "--id", str(number), "--listen", f"127.0.0.1:{port}", "--join", join, "--data", data,
                     "--expect", "3", "--algorithm", "lowest-id", "--detector", "swim", "--period", f"{self.period_ms}ms", "--detect",
                     f"{4 * self.period_ms}ms", "--containment", "subreaper", "--", "sleep", "100000"],
                    stdin=subprocess.DEVNULL, stdout=errors, stderr=errors)
            if number == 3:
                wait_for(lambda: self.alive(1) >= 3, TIMEOUT_S, 0.2)
        return self

    def __exit__(self, *_):
        for process in self.processes.values():
            process.send_signal(signal.SIGKILL)
        for process in self.processes.values():
            process.wait()
        shutil.rmtree(self.dir, ignore_errors=True)

    def members(self, number):
        done = subprocess.run([self.bellwether, "peer", "members", "--join", f"127.0.0.1:{self.ports[number]}", "--timeout", "5s",
                               "--json"], capture_output=True, text=True, check=False, timeout=60)
        return json.loads(done.stdout)["members"] if done.returncode == 0 else []

    def alive(self, number):
        return sum(m["state"] == "alive" for m in self.members(number))

    def traffic(self, seconds):
        """Datagrams that a member sends in a period, on average over `seconds`."""
        before, began = sent(), time.monotonic()
        time.sleep(seconds)
        periods = (time.monotonic() - began) * 1000 / self.period_ms
        return round((sent() - before) / self.size / periods, 2)

    def until_all(self, good, what):
        """Waits until the condition holds for all running members; each is asked until it does. Returns the answers."""
        answers = {}

        def all_see():
            left = [n for n in self.processes if n not in answers]
            with ThreadPoolExecutor(4) as pool:
                for number, answer in zip(left, pool.map(lambda n: good(self.members(n)), left)):
                    if answer is not None:
                        answers[number] = answer
            return len(answers) == len(self.processes)
        all_see.__doc__ = what
        wait_for(all_see, TIMEOUT_S, 0.5)
        return answers

    def converge(self):
        everybody = len(self.processes)
        self.until_all(lambda rows: True if sum(m["state"] == "alive" for m in rows) == everybody else None, "everybody to be known")

    def knows_since(self, victim):
        """When each member marked it suspect or dead, by its own clock: querying many members takes longer than the detection."""
        def since(rows):
            now = time.monotonic()
            seen = [now - m["since_ms"] / 1000 for m in rows if m["id"] == victim and m["state"] != "alive"]
            return seen[0] if seen else None
        return self.until_all(since, "the death to be known everywhere").values()


def sent():
    """Number of datagrams that the sockets of this machine have sent."""
    with open("/proc/net/snmp", encoding="utf-8") as file:
        rows = [line.split() for line in file if line.startswith("Udp:")]
    return int(rows[1][rows[0].index("OutDatagrams")])


def play(bellwether, size, period_ms, seconds):
    figures = {"members": size}
    with Crowd(bellwether, size, period_ms) as crowd:
        began = time.monotonic()
        crowd.converge()
        figures["converged_s"] = round(time.monotonic() - began, 1)
        figures["datagrams_at_first"] = crowd.traffic(seconds)
        time.sleep(seconds)
        figures["datagrams_per_member_and_period"] = crowd.traffic(seconds)
        victim = size // 2
        process = crowd.processes.pop(victim)
        watch = stall.Watch()
        process.send_signal(signal.SIGKILL)
        process.wait()
        killed = time.monotonic()
        known = sorted((since - killed) * 1000 / period_ms for since in crowd.knows_since(victim))
        figures["known_first_periods"], figures["known_everywhere_periods"] = round(known[0], 1), round(known[-1], 1)
        figures["stalled_periods"] = round(watch.longest() * 1000 / period_ms, 1)
    # First detection after e/(e-1) periods on average; the update spreads in a few log n periods; the bound includes the suspicion
    # timeout.
    figures["bound_periods"] = round(math.e / (math.e - 1) + 3 * math.log2(size) + ALPHA * BETA * math.log10(size), 1)
    return figures


def main():
    reader = argparse.ArgumentParser()
    reader.add_argument("bellwether")
    reader.add_argument("--sizes", default="6,12")
    reader.add_argument("--seconds", type=float, default=1.5, help="how long traffic is counted")
    reader.add_argument("--period-ms", type=int, default=200)
    options = reader.parse_args()
    if why_not():
        tap = Tap()
        tap.skip("SWIM with many processes", why_not())
        return tap.end()
    if "BELLWETHER_SWIM_ALONE" not in os.environ:  # a separate network: all its traffic belongs to this test
        os.environ["BELLWETHER_SWIM_ALONE"] = "1"
        os.execvp("unshare", ["unshare", "--net", "sh", "-c", 'ip link set lo up && exec "$@"', "sh", sys.executable, *sys.argv])
    tap, seen = Tap(), []
    for size in map(int, options.sizes.split(",")):
        figures = play(options.bellwether, size, options.period_ms, options.seconds)
        seen.append(figures)
        print("# " + json.dumps(figures), flush=True)
        tap.result(figures["known_everywhere_periods"] <= figures["bound_periods"] + figures["stalled_periods"],
                   f"{size} members: joins converge, a death is known everywhere in time")
    first, last = seen[0]["datagrams_per_member_and_period"], seen[-1]["datagrams_per_member_and_period"]
    tap.result(last < 2 * first + 1, f"what each sends does not grow with their number: {first} and {last} a period")
    return tap.end()


if __name__ == "__main__":
    sys.exit(main())
