#!/usr/bin/env python3
"""Five hosts, each algorithm, each fault: the outcome that the simulator predicts.

    peer_matrix.py BELLWETHER WITNESS RELAY [--all] [--jobs N] [--only WORD]... [--list]

Hosts are network namespaces (netns_lib.py). On each one a `bellwether peer` runs the witness (run_witness.c), which knows
nothing of Bellwether and tells when two are alive at once. What must come is asked of `bellwether sim run` with the same
algorithm and fault, and the same first leader: who leads in the end, and whether two lead while the fault lasts.

 - Raft, and every algorithm with the quorum guard: never two commands at once; tokens only grow.
 - Without the guard: two in a partition where the simulator has two, which every peer reports when it has healed, by event and
   metric; and then one again.
 - In the end exactly one command runs, on a host that leads in some run of the simulator.

On a machine where processes stand still for half a second leaders are suspected that did nothing wrong. A case with another outcome
is therefore repeated if such a stall was measured meanwhile. Two commands at once, or a token that does not grow, fail the case at
once.

Without --all a selection is run. --only keeps the cases whose name contains the word."""
import argparse
import concurrent.futures
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "kit"))
import stall
from netns_lib import Network, Relay, why_not
from run_lib import Tap, lives, send, stat_of, wait_for

HOSTS = 5
PORT, SLOW_PORT = 7400, 7500
TTL_S = 2.0
TIMEOUT_S = 60.0       # only detects a hang, however slow the machine is
PAUSE_S = 2 * TTL_S + 2  # longer than any promise
STEADY_S = 1.0
SPLIT_S = 2.0
STALL_S = 0.5          # a shorter stall lets no leader be suspected
SEEDS = 20
KEY = "8f1d2c3b4a59687786a5b4c3d2e1f00112233445566778899aabbccddeeff001"
ALGORITHMS = ["bully", "bully-notify", "bully-next-in-line", "bully-candidates", "ring-list", "ring-max", "ring-chang-roberts",
              "ring-hirschberg-sinclair", "invitation", "lowest-id", "stable", "raft"]
RANKED = set(ALGORITHMS) - {"invitation", "stable", "raft"}  # whose leader depends only on which nodes are alive


class Peers:
    """Peers on hosts of one network, and their commands."""

    def __init__(self, programs, algorithm, guarded, slow=False):
        self.bellwether, self.witness, self.relay = programs
        self.algorithm, self.guarded = algorithm, guarded
        self.dir = tempfile.mkdtemp(prefix="bellwether-peers-", dir=os.environ.get("TMPDIR", "/tmp"))
        self.keys = os.path.join(self.dir, "keys")
        with open(os.open(self.keys, os.O_WRONLY | os.O_CREAT, 0o600), "w", encoding="utf-8") as file:
            file.write(KEY + "\n")
        self.net = Network(HOSTS)
        self.slow = slow
        self.process = {}
        self.two = False  # two led at once, as predicted
        self.times = ["--ttl", f"{TTL_S}s", "--kill-after", "300ms"]
        self.more = []  # additional options of every peer
        self.spaces = {}
        for number, host in self.net.hosts.items():
            self.spaces[os.stat(f"/run/netns/{host.space}").st_ino] = number
            if slow:
                Relay(self.relay, f"{host.address}:{PORT}", 100, 50, seed=number, host=host, listen=f"{host.address}:{SLOW_PORT}")

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        if error is not None and hasattr(error, "add_note"):
            error.add_note(self.story())
        for number in list(self.process):
            self.stop(number, signal.SIGKILL)
        wait_for(lambda: not self.running(), TIMEOUT_S)
        self.net.remove()
        shutil.rmtree(self.dir, ignore_errors=True)

    def story(self):
        parts = ["witness:"] + [" ".join(line) for line in self.lines()[-40:]]
        for number in sorted(self.net.hosts):
            parts.append(f"peer {number}:")
            try:
                with open(os.path.join(self.dir, f"{number}.err"), encoding="utf-8", errors="replace") as file:
                    parts += file.read().splitlines()[-12:]
            except OSError:
                pass
        return "\n".join(parts)

    # ---- processes ----

    def address(self, number):
        return f"{self.net[number].address}:{SLOW_PORT if self.slow else PORT}"

    def start(self, number, founder=True):
        host = self.net[number]
        others = ",".join(self.address(n) for n in self.net.hosts if n != number)
        words = [self.bellwether, "peer", "--id", str(number), "--listen", f"{host.address}:{PORT}", "--advertise",
                 self.address(number), "--join", others, "--data", os.path.join(self.dir, f"data{number}"), "--algorithm",
                 self.algorithm, "--key-file", self.keys, *self.times, "--log", "json", "--http",
                 "unix:" + os.path.join(self.dir, f"{number}.http")]
        words += ["--expect", str(HOSTS)] if founder else []
        words += ["--quorum"] if self.guarded and self.algorithm != "raft" else []
        words += self.more + ["--", self.witness, self.dir] + ([] if self.guarded else ["stay"])
        os.makedirs(os.path.join(self.dir, f"data{number}"), exist_ok=True)
        with open(os.path.join(self.dir, f"{number}.err"), "ab") as errors:
            self.process[number] = host.start(words, stdin=subprocess.DEVNULL, stdout=errors, stderr=errors, start_new_session=True)

    def start_all(self):
        for number in self.net.hosts:
            self.start(number)

    def stop(self, number, how):
        process = self.process.pop(number)
        send(process.pid, signal.SIGCONT)
        send(process.pid, how)
        process.wait(TIMEOUT_S)

    def check_alive(self):
        for number, process in self.process.items():
            assert process.poll() is None, f"peer {number} ended by itself with {process.returncode}"

    # ---- logs of the peers ----

    def events(self, number):
        """The names of the events that this peer logged, in order."""
        try:
            with open(os.path.join(self.dir, f"{number}.err"), encoding="utf-8", errors="replace") as file:
                lines = file.readlines()
        except OSError:
            return []
        reported = []
        for line in lines:
            try:
                reported.append(json.loads(line).get("event"))
            except ValueError:
                pass
        return reported

    def splits(self, number):
        """The value of this peer's metric."""
        done = subprocess.run(["curl", "-s", "--unix-socket", os.path.join(self.dir, f"{number}.http"), "http://x/metrics"],
                              capture_output=True, text=True, check=False, timeout=TIMEOUT_S)
        values = [line.split()[1] for line in done.stdout.splitlines() if line.startswith("bellwether_splits_total{")]
        return int(values[0]) if values else 0

    def await_two(self, good, what):
        """Waits until two have led for longer than a claim may be in flight: a shorter overlap is not reported."""
        self.await_running(good, what)
        time.sleep(SPLIT_S)
        self.two = True

    def await_reports(self):
        """Waits until every peer has logged and counted the split; one of the two leaders starts the recovery."""
        def reported():
            return all({"split-brain", "split-seen"} & set(self.events(n)) and self.splits(n) > 0 for n in self.process)
        reported.__doc__ = f"every peer to report the split; now {({n: self.events(n)[-6:] for n in self.process})}"
        wait_for(reported, TIMEOUT_S, 0.1)
        assert any("split-brain" in self.events(n) for n in self.process), "nobody takes the recovery on"

    # ---- log of the witness ----

    def lines(self):
        try:
            with open(os.path.join(self.dir, "log"), encoding="utf-8") as file:
                return [line.split() for line in file.read().splitlines()]
        except FileNotFoundError:
            return []

    def running(self):
        """Hosts on which a command runs now."""
        hosts = []
        for line in self.lines():
            if line[0] in ("start", "overlap") and lives(int(line[2])):
                try:
                    hosts.append(self.spaces[os.stat(f"/proc/{line[2]}/ns/net").st_ino])
                except (OSError, KeyError):
                    pass
        return sorted(hosts)

    def await_running(self, good, what):
        def there():
            return good(self.running())
        there.__doc__ = f"{what}; now on {self.running()}"
        wait_for(there, TIMEOUT_S, 0.02)
        return self.running()

    def await_one(self, among=None):
        """Waits until exactly one command has run for a while, on one of these hosts. Returns the host."""
        since, last = time.monotonic(), None
        until = since + TIMEOUT_S
        while time.monotonic() < until:
            now = self.running()
            self.check_alive()
            if now != last:
                since, last = time.monotonic(), now
            if len(now) == 1 and (among is None or now[0] in among) and time.monotonic() - since >= STEADY_S:
                return now[0]
            time.sleep(0.02)
        raise AssertionError(f"not one command on one of {sorted(among or self.net.hosts)} but on {last}")

    def judge(self):
        if not self.guarded:
            return
        stall.judge_overlaps(self.lines())
        stall.judge_tokens([int(line[1]) for line in self.lines() if line[0] == "start"])


class Prediction:
    """What the simulator predicts for this algorithm and fault, over a few seeds."""

    def __init__(self, bellwether, algorithm, guarded, *faults, first=None, script="", resigns=None):
        words = [bellwether, "sim", "run", "--algorithm", algorithm, "--nodes", str(HOSTS), "--datagrams", "--runs", str(SEEDS),
                 "--json", *faults, "--script", "-"]
        if guarded and algorithm != "raft":
            words.append("--quorum")
        if first and algorithm not in RANKED:  # the first leader is random; what follows is not
            script = f"at 1s transfer {first}\n" + script
        reported = self.run(words, script)
        self.two = reported["max_leaders_at_once"] > 1 and not guarded
        self.leaders = self.leaders_of(reported)
        if resigns:
            # A leader that could not renew releases its leadership when the network is back; the nodes of the simulator do that
            # only on command.
            # With a quorum, it releases during the fault, when its lease ends; that it is then isolated changes the round.
            for at in (["4s"] if guarded else []) + [resigns[1]]:
                self.leaders |= self.leaders_of(self.run(words, f"{script}at {at} resign {resigns[0]}\n"))
        assert self.leaders, f"the simulator has no leader: {words}"
        if algorithm not in RANKED and not first:
            self.leaders = set(range(1, HOSTS + 1))

    @staticmethod
    def run(words, script=None):
        done = subprocess.run(words, input=script, capture_output=True, text=True, check=False, timeout=300)
        assert done.returncode == 0, f"{words}: {done.stderr}"
        return json.loads(done.stdout)

    @staticmethod
    def leaders_of(reported):
        return {int(node) for node in reported["runs_by_leader"] if int(node) > 0}


# ---- faults: each gets the peers and a function that asks the simulator; it leaves a healed network ----

def leader_killed(peers, ask):
    """the leader's process is killed"""
    leader = peers.await_one(ask("--until", "4s").leaders)
    peers.stop(leader, signal.SIGKILL)
    return ask("--crash", f"{leader}@2s", "--until", "10s", first=leader).leaders - {leader}


def leader_paused(peers, ask):
    """the leader's supervisor is stopped for longer than any promise; its guardian ends the work"""
    leader = peers.await_one()
    pid = peers.process[leader].pid
    send(pid, signal.SIGSTOP)
    wait_for(lambda: stat_of(pid)[0] == "T", TIMEOUT_S)
    peers.await_running(lambda hosts: hosts and leader not in hosts, f"a command elsewhere than on {leader}")
    send(pid, signal.SIGCONT)
    return ask("--pause", f"{leader}@2s..8s", "--until", "16s", first=leader, resigns=(leader, "8001ms")).leaders


def leader_cut_off(peers, ask):
    """the leader is isolated in both directions"""
    leader = peers.await_one()
    others = [n for n in peers.net.hosts if n != leader]
    predicted = ask("--partition", f"{leader}/{','.join(map(str, others))}@2s..8s", "--until", "16s", first=leader,
                    resigns=(leader, "8001ms"))
    peers.net.isolate(leader)
    if peers.guarded:
        peers.await_running(lambda hosts: hosts and leader not in hosts, f"a command elsewhere than on {leader}")
    elif predicted.two:
        peers.await_two(lambda hosts: len(hosts) == 2 and leader in hosts, "two commands")
    peers.net.heal()
    return predicted.leaders


def partition(peers, ask):
    """two hosts and three hosts are partitioned"""
    leader = peers.await_one()
    lost = {"resigns": (leader, "8001ms")} if leader < 3 or not peers.guarded else {}
    predicted = ask("--partition", "1,2/3,4,5@2s..8s", "--until", "16s", first=leader, **lost)
    peers.net.split([1, 2], [3, 4, 5])
    if peers.guarded:
        peers.await_running(lambda hosts: hosts and set(hosts) <= {3, 4, 5}, "a command on the larger side")
    elif predicted.two:
        peers.await_two(lambda hosts: len(hosts) == 2 and len({n < 3 for n in hosts}) == 2, "a command on each side")
    peers.net.heal()
    return predicted.leaders


def one_way_loss(peers, ask):
    """one host receives nothing from the leader, but its own packets arrive"""
    leader = peers.await_one()
    other = 1 if leader != 1 else 5
    peers.net.cut_one_way(leader, other)
    time.sleep(PAUSE_S)  # the fault's duration
    peers.net.heal()
    return ask("--cut", f"{leader}>{other}@2s..8s", "--until", "16s", first=leader).leaders


def loss(peers, ask):
    """every fifth packet is lost"""
    leader = peers.await_one()
    peers.net.loss(20)
    time.sleep(PAUSE_S)
    peers.net.heal()
    return ask("--until", "20s", first=leader, script="at 2s loss 20%\nat 8s loss 0%\n", resigns=(leader, "8s")).leaders


def delay(peers, ask):
    """packets take 100 ms +- 50 ms; then the leader is killed"""
    leader = peers.await_one(ask("--latency", "50ms..150ms", "--until", "8s").leaders)
    time.sleep(PAUSE_S)
    assert peers.guarded is False or peers.await_one() == leader, "the delay alone took the lead away"
    leader = peers.await_one()
    peers.stop(leader, signal.SIGKILL)
    return ask("--latency", "50ms..150ms", "--crash", f"{leader}@4s", "--until", "16s", first=leader).leaders - {leader}


def restart_of_all(peers, ask):
    """all peers are killed at once and restarted"""
    leader = peers.await_one()
    for number in peers.net.hosts:
        send(peers.process[number].pid, signal.SIGKILL)
    for number in peers.net.hosts:
        peers.stop(number, signal.SIGKILL)
    peers.start_all()
    leaders = set()
    for late in (3, 5):  # processes do not start at the same time: the former leader may be the last
        faults = [word for n in peers.net.hosts for word in ("--crash", f"{n}@2s..{late if n == leader else 3}s")]
        leaders |= ask(*faults, "--until", "16s", first=leader).leaders
    return leaders


def goes_and_comes(number, leaves, comes=None):
    """The same in the simulator: a node that shuts down cleanly hands over first."""
    back = f"at {comes}ms restart {number}\n" if comes else ""
    return f"at {leaves}ms resign {number}\nat {leaves + 10}ms crash {number}\n{back}"


def rolling_restart(peers, ask):
    """the peers are shut down cleanly and restarted, one after the other"""
    leader = peers.await_one()
    for number in peers.net.hosts:
        peers.stop(number, signal.SIGTERM)
        peers.start(number)
        peers.await_one()
    script = "".join(goes_and_comes(n, 2000 + 4000 * i, 3000 + 4000 * i) for i, n in enumerate(peers.net.hosts))
    return ask("--until", "30s", first=leader, script=script).leaders


FLOOD = """
import os, socket, sys, time
udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
print("ready", flush=True)
while True:
    for address in sys.argv[1:]:
        host, port = address.rsplit(":", 1)
        udp.sendto(os.urandom(200), (host, int(port)))
    time.sleep(0.002)
"""


def join_and_leave(peers, ask):
    """under a flood of garbage a sixth host joins, the leader leaves, and the sixth host leaves again"""
    leader = peers.await_one()
    host = peers.net.add()
    peers.spaces[os.stat(f"/run/netns/{host.space}").st_ino] = host.number
    flood = host.start([sys.executable, "-c", FLOOD] + [peers.address(n) for n in peers.net.hosts], stdout=subprocess.PIPE)
    flood.stdout.readline()
    peers.start(host.number, founder=False)
    peers.await_one()
    peers.stop(leader, signal.SIGTERM)
    peers.await_one(set(peers.net.hosts) - {leader})
    peers.start(leader)
    peers.await_one()
    peers.stop(host.number, signal.SIGTERM)
    flood.kill()
    script = (f"at 3s join {host.number}\n" + goes_and_comes(leader, 6000, 9000) + goes_and_comes(host.number, 12000))
    return ask("--until", "20s", first=leader, script=script).leaders - {host.number}


FAULTS = [leader_killed, leader_paused, leader_cut_off, partition, one_way_loss, loss, delay, restart_of_all, rolling_restart,
          join_and_leave]
SELECTION = [("raft", True, leader_killed), ("raft", True, partition), ("bully", False, partition), ("bully", True, leader_cut_off)]


def cases(everything):
    if not everything:
        return SELECTION
    kinds = [(a, guarded) for a in ALGORITHMS for guarded in ((True,) if a == "raft" else (False, True))]
    return [(a, guarded, fault) for a, guarded in kinds for fault in FAULTS]


def name_of(case):
    algorithm, guarded, fault = case
    return f"{algorithm}{' --quorum' if guarded and algorithm != 'raft' else ''}: {fault.__doc__}"


def play(programs, case):
    algorithm, guarded, fault = case
    with Peers(programs, algorithm, guarded, slow=fault is delay) as peers:
        peers.start_all()
        try:
            among = fault(peers, lambda *faults, **more: Prediction(programs[0], algorithm, guarded, *faults, **more))
            peers.await_one(among)
            if peers.two:
                peers.await_reports()
        finally:
            peers.judge()


def main():
    reader = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    reader.add_argument("programs", nargs=3, metavar="PROGRAM")
    reader.add_argument("--all", action="store_true")
    reader.add_argument("--list", action="store_true")
    reader.add_argument("--jobs", type=int, default=4)
    reader.add_argument("--only", action="append", default=[])
    options = reader.parse_args()
    chosen = [c for c in cases(options.all) if all(word in name_of(c) for word in options.only)]
    if options.list:
        print("\n".join(map(name_of, chosen)))
        return 0
    programs = [os.path.abspath(p) for p in options.programs]
    tap, reason = Tap(), why_not()

    def one(case):
        begin = time.monotonic()
        try:
            stall.judge(lambda number: play(programs, case), STALL_S, name_of(case))
            tap.result(True, f"{name_of(case)} ({time.monotonic() - begin:.1f} s)")
        except Exception:  # the other cases still run
            tap.result(False, name_of(case), traceback.format_exc())

    if reason:
        for case in chosen:
            tap.skip(name_of(case), reason)
        return tap.end()
    with concurrent.futures.ThreadPoolExecutor(max_workers=options.jobs) as pool:
        list(pool.map(one, chosen))
    return tap.end()


if __name__ == "__main__":
    sys.exit(main())
