#!/usr/bin/env python3
"""Elections, faults, drains and upgrades on one machine, for hours, with memory, descriptors and disk flat.

    soak.py BELLWETHER WITNESS SERVE_CRASH [--seconds N] [--seed N]

Four elections run at the same time, with three candidates each: on sqlite, on a cluster of three nodes of `serve`, among three
peers, and of four shards among three other peers. Each candidate is a host of its own: it has its own drain directory. A random
action follows the other: kill a candidate, stop it for a while, resign, drain and undrain a host, upgrade a host (drain, replace
the program, restart, undrain), kill a node of `serve` or upgrade it (replace the program, SIGTERM, start), run short-lived
commands.

Candidate 1 of each election and node a of `serve` are never killed or restarted. Their memory (Private_Dirty) and descriptors
are measured every few seconds, and the size of all data directories. The nodes run SERVE_CRASH, the program with small segments and
early snapshots: the log that a node of `serve` keeps in memory is as long after a minute as it will ever be, so a leak is visible. The second quarter of the run is compared with the last
one. The run also fails if two commands ran at once, if a token did not grow, if a drain failed, or if an election ends
without a leader."""
import argparse
import glob
import json
import os
import random
import shutil
import signal
import statistics
import subprocess
import sys
import threading
import time

sys.dont_write_bytecode = True

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "system", "kit"))
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "system", "run"))
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "system", "peer"))
import stall  # noqa: E402
from peer_lib import PeerRoom  # noqa: E402
from peer_shards import Shards  # noqa: E402
from run_lib import HANG_S, Room, Tap, install, private_dirty_kb, wait_for  # noqa: E402
from serve_lib import Cluster  # noqa: E402
from store_lib import Place  # noqa: E402

NAMES = ["1", "2", "3"]
STEADY = "1"  # never killed, never restarted
SHARDS = 4
SAMPLE_S = 3.0
GROWTH, SLACK_KB = 1.10, 1024  # of the median memory, from the second quarter to the last
SLACK_FDS = 4
DISK_GROWTH, DISK_SLACK_KB = 1.5, 192 * 1024  # `serve` reserves the segments of its log in advance and removes old ones in steps


def disk_kb(*folders):
    total = 0
    for folder in folders:
        for top, _, files in os.walk(folder):
            for name in files:
                try:
                    total += os.stat(os.path.join(top, name)).st_blocks // 2
                except OSError:
                    pass  # removed meanwhile
    return total


def replace_program(program, name):
    """Installs the same program again, as a package does it. `name`: no other thread uses it."""
    fresh = f"{program}.{name}"
    install(program, fresh)
    os.rename(fresh, program)


class Election:
    """Three candidates of one election. Each action ends when the candidates are as many as before."""

    def __init__(self, name, room):
        self.name, self.room, self.actions = name, room, 0
        self.by_name = {}
        for candidate in NAMES:
            self.start(candidate)
        wait_for(self.led, pause=0.2)

    def drain_dir(self, name):
        return os.path.join(self.room.dir, "host-" + name)

    def start(self, name):
        old = self.by_name.get(name)
        if old:
            self.room.candidates.remove(old)
            os.unlink(old.errors)  # the log of an ended process
        self.by_name[name] = self.launch(name)

    def launch(self, name):
        return self.room.candidate(name, options=["--drain-dir", self.drain_dir(name)])

    def command(self, *words, codes=(0,)):
        done = subprocess.run([self.room.bellwether, *words], capture_output=True, text=True, check=False, timeout=4 * HANG_S)
        assert done.returncode in codes, f"{self.name}: {words}: exit {done.returncode}: {done.stdout}{done.stderr}"
        return done.stdout

    def about(self, *words, codes=(0,)):
        """Runs a command on the election, with the address of its store or of its peers."""
        if isinstance(self.room, PeerRoom):
            return self.command("peer", *words, "--join", ",".join(map(self.room.address, NAMES)), "--election", self.room.election,
                                codes=codes)
        return self.command(*words, "--store", self.room.store, "--election", self.room.election, codes=codes)

    def any_other(self, rng):
        return rng.choice([name for name in NAMES if name != STEADY])

    # ---- actions ----

    def kill(self, rng):
        name = self.any_other(rng)
        self.by_name[name].process.kill()
        self.by_name[name].wait()
        self.by_name[name].err.close()
        self.start(name)

    def freeze(self, rng):
        candidate = self.by_name[rng.choice(NAMES)]
        candidate.signal(signal.SIGSTOP)
        time.sleep(rng.uniform(0.1, 3))
        candidate.signal(signal.SIGCONT)

    def resign(self, _rng):
        self.about("resign", codes=(0, 1, 66, 69, 75))  # the leader may be frozen or new

    def drain(self, rng):
        self.drained(rng.choice(NAMES), lambda: time.sleep(rng.uniform(0, 1)))

    def upgrade(self, rng):
        name = self.any_other(rng)

        def replace():
            replace_program(self.room.bellwether, self.name)
            self.by_name[name].destroy()
            self.start(name)
        self.drained(name, replace)

    def drained(self, name, then):
        found = json.loads(self.command("drain", "--drain-dir", self.drain_dir(name), "--json"))
        assert found["candidates"] == [], found
        then()
        self.command("undrain", "--drain-dir", self.drain_dir(name))

    def look(self, _rng):
        self.about("status", codes=(0, 1, 69, 75))

    def act(self, rng):
        getattr(self, rng.choice(["kill", "freeze", "resign", "drain", "upgrade", "look"]))(rng)
        self.actions += 1

    def led(self):
        """a leader"""
        return bool(self.about("status", codes=(0, 1, 69, 75))) and self.room.starts()

    def leaderships(self):
        return len(self.room.starts())

    def ends_well(self):
        """Checks that a candidate leads, and the witness."""
        wait_for(self.led, pause=0.2)
        self.room.judge()
        steady = self.by_name[STEADY]
        assert steady.process.poll() is None, f"{self.name}: the steady candidate has ended:\n{steady.text()[-2000:]}"


class ShardElection(Election):
    """Shards that are spread over the candidates; each shard has a witness of its own."""

    def launch(self, name):
        return self.room.peer(name)

    def drain_dir(self, name):
        return self.room.drain_dir(name)

    def resign(self, rng):
        self.about("resign", "--shard", str(rng.randrange(SHARDS)), codes=(0, 1, 66, 69, 75))

    def led(self):
        """a leader of each shard"""
        return None not in self.room.owners()

    def leaderships(self):
        return sum(len(shard.starts()) for shard in self.room.shards)


class Nodes:
    """The nodes of `serve`: b and c are killed and upgraded in turn, so that a majority always remains."""

    def __init__(self, cluster):
        self.name, self.cluster, self.actions = "serve", cluster, 0

    def act(self, rng):
        node = self.cluster.nodes[rng.choice("bc")]
        rng.choice([self.kill, self.upgrade])(node)
        time.sleep(rng.uniform(0, 2))
        node.start()
        time.sleep(rng.uniform(1, 5))
        self.actions += 1

    @staticmethod
    def kill(node):
        node.kill()

    def upgrade(self, node):
        """As `systemctl restart` after an upgrade of the package."""
        replace_program(self.cluster.bellwether, self.name)
        node.process.terminate()
        code = node.process.wait(HANG_S)
        assert code == 0, f"{node.name}: exit {code} after SIGTERM: {node.tail()}"


class Soak:
    def __init__(self, bellwether, witness, serve_crash, seed):
        self.seed, self.over, self.failures, self.samples = seed, threading.Event(), [], []
        self.place = Place("soak")
        # copies of everything: a build during the run must not change the programs
        self.program = os.path.join(self.place.folder("bin"), "bellwether")
        serve = os.path.join(self.place.folder("serve"), "bellwether")
        shutil.copy2(bellwether, self.program)
        shutil.copy2(serve_crash, serve)
        witness = shutil.copy2(witness, self.place.folder("bin"))
        modules = os.environ.get("BELLWETHER_MODULES") or os.path.join(os.path.dirname(bellwether), "src", "store")
        for module in glob.glob(os.path.join(modules, "*.so")):
            shutil.copy2(module, self.place.folder("modules"))
        os.environ["BELLWETHER_MODULES"] = self.place.folder("modules")
        # the history is part of the memory, so it must have a bound that this run reaches
        self.cluster = Cluster(self.place, serve, options=["--auto-compaction-mode", "revision", "--auto-compaction-retention", "200"])
        hosts = ",".join(map(self.cluster.at, "abc"))
        rooms = [("sqlite", Room(self.program, witness)), ("bellwether", Room(self.program, witness, ttl="5s", store=f"bellwether://{hosts}/soak")),
                 ("peer", PeerRoom(self.program, witness)), ("shards", Shards(self.program, witness, size=3, shards=SHARDS))]
        for _, room in rooms:  # Candidate keeps no BELLWETHER_ variable of this program
            room.env["BELLWETHER_MODULES"] = os.environ["BELLWETHER_MODULES"]
        self.elections = [(ShardElection if name == "shards" else Election)(name, room) for name, room in rooms]
        self.actors = [*self.elections, Nodes(self.cluster)]

    def loop(self, actor):
        rng = random.Random(f"{self.seed} {actor.name}")
        while not self.over.is_set():
            try:
                actor.act(rng)
            except Exception as why:  # reported at the end, with the seed
                self.failures.append(f"{actor.name}: {why}")
                self.over.set()
            self.over.wait(rng.uniform(0, 2))

    def sample(self):
        pids = {"run " + e.name: e.by_name[STEADY].pid for e in self.elections}
        pids["serve a"] = self.cluster.nodes["a"].process.pid
        row = {}
        for name, pid in pids.items():
            row[name + " memory"] = private_dirty_kb(pid)
            row[name + " descriptors"] = len(os.listdir(f"/proc/{pid}/fd"))
        stores = [e.room.dir for e in self.elections]
        row["disk"] = disk_kb(*(os.path.join(self.place.dir, n) for n in "abc"),
                              *(os.path.join(store, f"data{n}") for store in stores[2:] for n in NAMES)) + disk_kb(stores[0] + "/elections.db.d")
        row["disk"] += sum(os.path.getsize(os.path.join(stores[0], f)) // 1024 for f in os.listdir(stores[0]) if f.startswith("elections.db"))
        self.samples.append(row)

    def run(self, seconds):
        threads = [threading.Thread(target=self.loop, args=(actor,)) for actor in self.actors]
        until = time.monotonic() + seconds
        for thread in threads:
            thread.start()
        while time.monotonic() < until and not self.over.wait(SAMPLE_S):
            self.sample()
        self.over.set()
        for thread in threads:
            thread.join()
        for name in "bc":
            if self.cluster.nodes[name].process.poll() is not None:
                self.cluster.nodes[name].start()

    def figures(self):
        """For each figure: the median of the second quarter, that of the last one, the limit, and whether it holds."""
        quarter = len(self.samples) // 4
        for key in self.samples[0]:
            values = [row[key] for row in self.samples]
            early, late = (statistics.median(values[at:at + quarter]) for at in (quarter, len(values) - quarter))
            if key.endswith("memory"):
                limit = early * GROWTH + SLACK_KB
            elif key.endswith("descriptors"):
                limit = early + SLACK_FDS
            else:
                limit = early * DISK_GROWTH + DISK_SLACK_KB
            yield key, early, late, limit

    def close(self):
        for election in self.elections:
            election.room.__exit__(None, None, None)
        self.place.__exit__(None, None, None)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("bellwether", type=os.path.abspath)
    parser.add_argument("witness", type=os.path.abspath)
    parser.add_argument("serve_crash", type=os.path.abspath)
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    given = parser.parse_args()
    tap, soak = Tap(), Soak(given.bellwether, given.witness, given.serve_crash, given.seed)
    tap.comment(f"seed {given.seed}, {given.seconds:g} s")
    try:
        soak.run(given.seconds)
        for actor in soak.actors:
            tap.comment(f"{actor.name}: {actor.actions} actions" +
                        (f", {actor.leaderships()} leaderships" if isinstance(actor, Election) else ""))
        tap.result(not soak.failures, "every action ends as it must", "\n".join(soak.failures))
        for election in soak.elections:
            try:
                election.ends_well()
                tap.result(True, f"{election.name}: never two leaders at once, and one in the end")
            except (AssertionError, stall.Violation) as why:
                tap.result(False, f"{election.name}: never two leaders at once, and one in the end", f"{why}\n{election.room.story()}")
        for key, early, late, limit in soak.figures() if len(soak.samples) >= 8 else ():
            unit = "" if key.endswith("descriptors") else " KB"
            tap.result(late <= limit, f"{key}: {early:g}{unit} in the second quarter, {late:g}{unit} in the last (limit {limit:.0f}{unit})")
    finally:
        soak.over.set()
        soak.close()
    sys.exit(tap.end())


if __name__ == "__main__":
    main()
