"""Peers of `bellwether peer` as real processes on loopback, checked by the witness of run_lib.

A PeerRoom is a Room whose candidates are peers. Each peer is named by its number, and keeps its port and directory when it is
restarted."""
import json
import os
import subprocess

from run_lib import HANG_S, Room, free_ports, wait_for


def free_port(host="127.0.0.1"):
    return free_ports(1, host)[0]


class PeerRoom(Room):
    def __init__(self, bellwether, witness, size=3, ttl="1500ms", kill_after="200ms", more=(), host="127.0.0.1"):
        super().__init__(bellwether, witness, ttl=ttl, kill_after=kill_after)
        self.options += list(more)
        self.host = host
        self.ports = {str(i): port for i, port in enumerate(free_ports(size, host), 1)}
        self.expect = size
        self.keys = ()
        self.others = None  # addresses to join, or options that name the other peers; None: all ports

    def address(self, name):
        return f"[{self.host}]:{self.ports[name]}" if ":" in self.host else f"{self.host}:{self.ports[name]}"

    def words(self, name):
        others = self.others or ["--join", ",".join(map(self.address, self.ports))]
        expect = ["--expect", str(self.expect)] if self.expect else []
        return [self.bellwether, "peer", "--id", name, "--listen", self.address(name), *others, "--data",
                os.path.join(self.dir, "data" + name), "--election", self.election, *expect, *self.keys]

    def add(self, name):
        """Adds a port for one more peer."""
        self.ports[name] = free_port(self.host)
        self.expect = 0

    def start(self, *modes):
        """Starts one peer for each port."""
        return [self.candidate(name, *modes) for name in self.ports]

    def ask(self, *words, keys=None, at=None):
        """Runs a client command. Returns its exit code, output and error output."""
        joins = ",".join(map(self.address, at or self.ports))
        line = [self.bellwether, "peer", *words, "--join", joins, "--election", self.election,
                *(self.keys if keys is None else keys)]
        done = subprocess.run(self.from_where(line), capture_output=True, text=True, check=False, timeout=60)
        return done.returncode, done.stdout, done.stderr

    def done(self, *words, **more):
        """Runs a client command that must succeed. Returns its output."""
        code, out, errors = self.ask(*words, **more)
        assert code == 0, f"{' '.join(words)}: exit {code}, output {out!r}, errors {errors!r}"
        return out

    def from_where(self, line):
        """The command line of a client: on this host, or on a host of the test."""
        return line

    def json(self, *words, **more):
        code, out, errors = self.ask(*words, "--json", **more)
        assert out, f"{words}: exit {code}, {errors}"
        return json.loads(out)

    def all_alive(self, count, seconds=HANG_S):
        """Waits until one of them sees `count` members alive."""
        def seen():
            code, out, _ = self.ask("members", "--json")
            if code != 0:
                return False
            return sum(m["state"] == "alive" for m in json.loads(out)["members"]) >= count
        seen.__doc__ = f"{count} members to be alive"
        wait_for(seen, seconds, 0.05)

    def agreed(self, seconds=HANG_S):
        """Waits until all see the same leader. Returns its number."""
        def same():
            code, out, _ = self.ask("status", "--json")
            if code != 0:
                return None
            leaders = {peer.get("leader") for peer in json.loads(out)["peers"] if peer["answered"]}
            return leaders.pop() if len(leaders) == 1 else None
        same.__doc__ = "all to see one leader"
        return str(wait_for(same, seconds, 0.05))
