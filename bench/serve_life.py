#!/usr/bin/env python3
"""Measures three durable nodes of `bellwether serve`: the time from an empty directory to the first write, the time from the leader's
kill or stop to the next write, idle memory and CPU time, and the bytes per lease with many leases.

    serve_life.py BELLWETHER SERVE_LOAD [ROUNDS] [LEASES]"""
import http.client
import json
import os
import signal
import statistics
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tests", "system", "kit"))
sys.dont_write_bytecode = True

from run_lib import cpu_seconds, private_dirty_kb, wait_for  # noqa: E402
from serve_lib import Nodes  # noqa: E402
from store_lib import Place, free_ports  # noqa: E402

BELLWETHER, LOAD = map(os.path.abspath, sys.argv[1:3])
ROUNDS = int(sys.argv[3]) if len(sys.argv) > 3 else 50
LEASES = int(sys.argv[4]) if len(sys.argv) > 4 else 1000000
TIMEOUT_S = 60


class Probe:
    """Sends puts to each of these ports until one succeeds; the time starts at go()."""

    def __init__(self, ports):
        self.process = subprocess.Popen([LOAD, "probe", ",".join(f"127.0.0.1:{p}" for p in ports), "20"], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)
        self.process.stdout.readline()

    def go(self):
        self.process.stdin.write("go\n")
        self.process.stdin.flush()

    def milliseconds(self):
        said = json.loads(self.process.stdout.readline())
        self.process.wait()
        assert said["ok"], "no write succeeded"
        return said["us"] / 1000


def from_nothing(place, round_number):
    """Returns the milliseconds from three starts to a write that all nodes can read, polled every millisecond."""
    clients, peers = free_ports(3), free_ports(3)
    cluster = ",".join(f"{n}=127.0.0.1:{p}" for n, p in zip("abc", peers))
    words = [[BELLWETHER, "serve", "--node", n, "--cluster", cluster, "--data", place.folder(f"new-{round_number}-{n}"), "--listen",
              f"127.0.0.1:{p}"] for n, p in zip("abc", clients)]
    began = time.monotonic()
    nodes = [subprocess.Popen(w, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL) for w in words]
    try:
        while not put(clients[0]):
            assert time.monotonic() - began < TIMEOUT_S, "never served"
            time.sleep(0.001)
        return (time.monotonic() - began) * 1000
    finally:
        for node in nodes:
            node.kill()
            node.wait()


def put(port):
    link = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        link.request("POST", "/v3/kv/put", body='{"key": "YQ==", "value": "YQ=="}')
        return link.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        link.close()


def leader_gone(nodes, how):
    """Returns the milliseconds without service, median and maximum."""
    seen = []
    for _ in range(ROUNDS):
        first = nodes.leader()
        probe = Probe([p for i, p in enumerate(nodes.ports) if i != first])
        server = nodes.servers[first]
        server.process.send_signal(how)
        probe.go()
        seen.append(probe.milliseconds())
        if how == signal.SIGSTOP:
            server.process.send_signal(signal.SIGCONT)
        else:
            server.process.wait()
            server.start()
        wait_for(lambda: all(nodes.is_healthy(p) for p in nodes.ports), TIMEOUT_S)
        time.sleep(0.3)
    return statistics.median(seen), max(seen)


def idle(nodes, seconds=20):
    pids = [server.process.pid for server in nodes.servers]
    before = [cpu_seconds(pid) for pid in pids]
    time.sleep(seconds)
    spent = [(cpu_seconds(pid) - b) * 60 / seconds for pid, b in zip(pids, before)]
    return [private_dirty_kb(pid) for pid in pids], spent


def many_leases(nodes):
    """Returns the resident bytes per lease, at the node that grew most."""
    pids = [server.process.pid for server in nodes.servers]
    before = [resident(pid) for pid in pids]
    subprocess.run([LOAD, "grant", f"127.0.0.1:{nodes.ports[nodes.leader()]}", str(LEASES), "8"], check=True, timeout=900,
                   stdout=subprocess.DEVNULL)
    time.sleep(2)
    return max((resident(pid) - b) * 1024 / LEASES for pid, b in zip(pids, before))


def resident(pid):
    with open(f"/proc/{pid}/status", encoding="utf-8") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("VmRSS"))


def main():
    with Place("bench-life") as place:
        starts = [from_nothing(place, i) for i in range(min(ROUNDS, 10))]
        print(f"3 empty directories to the first write   {statistics.median(starts):9.1f} ms median, worst {max(starts):.1f}")
        nodes = Nodes(place, BELLWETHER, 3)
        memory, spent = idle(nodes)
        print(f"idle node                                {max(memory):9d} kB Private_Dirty, {max(spent):.3f} CPU seconds a minute")
        for name, how in (("SIGKILL", signal.SIGKILL), ("SIGSTOP", signal.SIGSTOP)):
            median, worst = leader_gone(nodes, how)
            print(f"leader {name} to the next write          {median:9.1f} ms median of {ROUNDS}, worst {worst:.1f}")
        print(f"{LEASES} leases                           {many_leases(nodes):9.0f} bytes resident each")


if __name__ == "__main__":
    main()
