#!/usr/bin/env python3
"""A random attacker sends datagrams and TCP bytes to three `bellwether peer`, beside a prober of their status endpoint.

    peer_adversary.py BELLWETHER WITNESS [--seconds S] [--seed N]

The attacker has no key. It is one of the addresses that the peers join, so it receives real frames. It repeats, redirects, damages,
cuts and floods them, and makes others up; on TCP it also opens many connections, stops in the middle and never reads. It attacks
peers with a key file and peers without one.

The test fails if a peer exits or a sanitizer reports, if its memory grows by more than MEMORY, if a probe waits more than 100 ms longer
than the machine itself stood still, or if two leaders' commands run at once. See docs/concepts/testing.md."""
import os
import random
import select
import socket
import struct
import subprocess
import sys
import threading
import time

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..", "kit"), os.path.join(HERE, "..", "adversary")]
import target  # noqa: E402

os.environ["TMPDIR"] = target.quick_directory()
from grammar import damaged, log_uniform  # noqa: E402
from peer_lib import PeerRoom  # noqa: E402
from run_lib import Tap, free_ports  # noqa: E402
from target import MB, CanaryProcess, REPORT, resident, sanitizer_environment  # noqa: E402

SHORT_PROGRAMS = 100
MEMORY = 64 * MB
KEPT = 300  # recorded frames
HELD = 200  # open connections of the attacker


class Recorder(threading.Thread):
    """An address that the peers know: keeps the datagrams and the first bytes of each stream that they send to it."""

    def __init__(self, port):
        super().__init__(daemon=True)
        self.udp, self.tcp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM), socket.socket()
        self.tcp.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.udp.bind(("127.0.0.1", port))
        self.tcp.bind(("127.0.0.1", port))
        self.tcp.listen(50)
        self.datagrams, self.streams, self.links, self.stopped = [], [], [], False
        self.start()

    def run(self):
        while not self.stopped:
            ready = select.select([self.udp, self.tcp, *self.links], [], [], 0.1)[0]
            for at in ready:
                self.take(at)

    def take(self, at):
        if at is self.tcp:
            self.links = [*self.links, at.accept()[0]][-50:]
            return
        try:
            data = at.recv(65536)
        except OSError:
            data = b""
        if at is not self.udp and not data:
            self.links.remove(at)
            at.close()
        elif data:
            kept = self.datagrams if at is self.udp else self.streams
            kept.append(data)
            del kept[:-KEPT]


class Attacker:
    """Makes and executes programs. What it repeats was recorded, so the bytes differ from run to run; the choices follow the seed."""

    def __init__(self, recorder, ports, seed):
        self.recorder, self.ports, self.seed, self.held, self.last = recorder, ports, seed, [], []
        self.udp = recorder.udp

    def program(self, number):
        r = random.Random(f"{self.seed}/{number}")
        self.last = []
        acts = r.choices([self.repeat, self.garble, self.make_up, self.stream, self.connections], k=log_uniform(r, 1, 12))
        for act in acts:
            port = r.choice(self.ports)
            self.last.append(f"{act.__name__} to {port}: {act(r, port)}")

    def recorded(self, r, kept):
        return r.choice(kept) if kept else r.randbytes(100)

    def send(self, data, port):
        try:
            self.udp.sendto(data[:60000], ("127.0.0.1", port))
        except OSError:
            pass

    def repeat(self, r, port):
        """The same datagram many times, or many of them out of order; also to peers that they were not meant for."""
        count, one = log_uniform(r, 1, 3000), self.recorded(r, self.recorder.datagrams)
        for _ in range(count):
            self.send(one if r.random() < 0.7 else self.recorded(r, self.recorder.datagrams), port)
        return f"{count} datagrams of {len(one)} bytes"

    def garble(self, r, port):
        count = log_uniform(r, 1, 1000)
        for _ in range(count):
            data = self.recorded(r, self.recorder.datagrams)
            if r.random() < 0.5:  # in the header
                at = r.randrange(min(48, len(data)))
                data = data[:at] + r.randbytes(r.choice([1, 4])) + data[at + 1:]
            self.send(damaged(r, data), port)
        return f"{count} damaged datagrams"

    def make_up(self, r, port):
        count = log_uniform(r, 1, 1000)
        for _ in range(count):
            self.send(r.choice([b"", bytes([1]), b"\0" * 48, r.randbytes(r.choice([47, 48, 64, 65, 1232, 1500, 60000]))]), port)
        return f"{count} made-up datagrams"

    def stream_bytes(self, r):
        data = self.recorded(r, self.recorder.streams)
        return r.choice([data, data * log_uniform(r, 1, 200), damaged(r, data), data[:r.randrange(len(data) + 1)],
                         struct.pack("<I", r.choice([0, 1, 100, 1 << 16, 1 << 31, 0xffffffff])) + data[4:], struct.pack("<H", 0xffff) + data[2:],
                         r.randbytes(log_uniform(r, 1, 100000)), b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01\x02\0\x01" + r.randbytes(300)])

    def connect(self, port):
        try:
            link = socket.create_connection(("127.0.0.1", port), 5)
        except OSError:
            return None
        link.settimeout(0.2)
        return link

    def stream(self, r, port):
        link, sent = self.connect(port), 0
        for _ in range(log_uniform(r, 1, 10) if link else 0):
            data = self.stream_bytes(r)
            try:
                link.sendall(data)
                sent += len(data)
            except OSError:
                break
        self.leave(r, link)
        return f"{sent} bytes on a stream"

    def connections(self, r, port):
        count = log_uniform(r, 1, 100)
        for _ in range(count):
            self.leave(r, self.connect(port))
        return f"{count} connections"

    def leave(self, r, link):
        """Closes, resets, half-closes or keeps a connection."""
        if not link:
            return
        how = r.choice(["close", "reset", "half", "keep", "keep"])
        if how == "reset":
            link.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        if how == "half":
            try:
                link.shutdown(socket.SHUT_WR)
            except OSError:
                pass
        if how in ("keep", "half"):
            self.held.append(link)
            for at in self.held[:-HELD]:
                at.close()
            del self.held[:-HELD]
        else:
            link.close()

    def close(self):
        for at in self.held:
            at.close()


class Attack:
    def __init__(self, bellwether, witness, seed, key):
        self.bellwether, self.witness, self.seed, self.key, self.count, self.sum = bellwether, witness, seed, key, 0, {}

    def run(self, programs, until=None):
        """Returns None, or what failed."""
        os.environ.update(sanitizer_environment())
        extra, *http = free_ports(4)
        recorder = Recorder(extra)
        with PeerRoom(self.bellwether, self.witness, 3, ttl="5s") as room:
            if self.key:
                path = os.path.join(room.dir, "keys")
                with open(path, "wb") as file:
                    file.write(subprocess.run([self.bellwether, "peer", "keygen"], capture_output=True, check=True, timeout=60).stdout)
                os.chmod(path, 0o600)
                room.keys = ("--key-file", path)
            room.others = ["--join", ",".join([*map(room.address, room.ports), f"127.0.0.1:{extra}"])]
            peers = [room.candidate(name, options=["--http", f"127.0.0.1:{port}"]) for name, port in zip(room.ports, http)]
            room.started(1, 60)
            self.record_clients(room, extra)
            canary = CanaryProcess(http[0], peers[0].pid, ["status"])
            attacker = Attacker(recorder, list(room.ports.values()), self.seed)
            try:
                why = self.attack(programs, until, attacker, canary, peers)
            finally:
                attacker.close()
                self.sum = dict(canary.close(), recorded=f"{len(recorder.datagrams)} datagrams, {len(recorder.streams)} streams")
                recorder.stopped = True
            room.judge()
            for peer in peers:
                report = REPORT.search(peer.text())
                why = peer.text()[report.start():][:6000] if report else why
            return why

    def record_clients(self, room, port):
        """Clients with the key ask the attacker instead of a peer. They wait for an answer in vain."""
        for command in ("members", "status", "resign"):
            words = [self.bellwether, "peer", command, "--join", f"127.0.0.1:{port}", "--election", room.election, *room.keys]
            try:
                subprocess.run(words, capture_output=True, check=False, timeout=1)
            except subprocess.TimeoutExpired:
                pass

    def attack(self, programs, until, attacker, canary, peers):
        base = {peer.pid: resident(peer.pid)[0] for peer in peers}
        for number in programs:
            if until and time.monotonic() > until:
                return None
            attacker.program(number)
            self.count += 1
            why = f"the prober: {canary.bad[0]}" if canary.bad else None
            for peer in peers:
                if peer.process.poll() is not None:
                    why = f"peer {peer.name} ended with {peer.process.returncode}\n{peer.text()[-4000:]}"
                elif resident(peer.pid)[0] > base[peer.pid] + MEMORY:
                    why = f"peer {peer.name}: {resident(peer.pid)[0] / MB:.0f} MB resident, {base[peer.pid] / MB:.0f} before"
            if why:
                return "\n".join([why, f"repeat: peer_adversary.py BELLWETHER WITNESS --seed {self.seed}; program {number}:", *attacker.last])
        return None


def main():
    tap, words = Tap(), sys.argv
    seconds = float(words[words.index("--seconds") + 1]) / 2 if "--seconds" in words else None
    given = words[words.index("--seed") + 1] if "--seed" in words else None
    chance = str(random.SystemRandom().randrange(1 << 32))
    for key, seed in ((True, given or (chance if seconds else "1")), (False, given or chance)):
        attack, begun = Attack(words[1], words[2], seed, key), time.monotonic()
        why = attack.run(range(1 << 30 if seconds else SHORT_PROGRAMS), seconds and begun + seconds)
        tap.comment(f"seed {seed}: {attack.count} programs in {time.monotonic() - begun:.1f} s; the prober: {attack.sum}")
        tap.result(not why, f"peers_{'with' if key else 'without'}_a_key_survive_a_random_attacker", why or "")
    sys.exit(tap.end())


if __name__ == "__main__":
    main()
