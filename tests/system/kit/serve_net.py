"""Nodes of `bellwether serve`, each in its own network namespace; a bridge joins them, and links can be cut one
way or both.

The caller's own network namespace becomes the hub, so nothing is visible or left behind elsewhere. A cut sets a
wrong hardware address for one neighbour: packets to it are lost silently, in that direction only."""
import ctypes
import http.client
import os
import signal
import subprocess

from run_lib import wait_for
from serve_lib import Link
from store_lib import TIMEOUT_S, Skip, program

NEW_NETWORK = 0x40000000  # CLONE_NEWNET
CLIENTS, PEERS = 2379, 2380
NOWHERE = "02:00:00:00:ff:ff"


def own_network():
    """Moves this process, and all it starts from now on, into its own network."""
    program("ip", "iproute2")
    if os.geteuid() != 0 or ctypes.CDLL(None, use_errno=True).unshare(NEW_NETWORK) != 0:
        raise Skip("networks of one's own need root")


def do(*words, inside=None):
    enter = ["nsenter", "-t", str(inside), "-n"] if inside else []
    done = subprocess.run([*enter, *words], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, f"{words}: {done.stderr}"


def address(number):
    return f"10.77.0.{number + 1}"


def hardware(number):
    return f"02:00:00:00:00:{number + 1:02x}"


class NetNode:
    def __init__(self, place, number, words, env=None):
        self.number, self.name, self.log = number, f"n{number}", os.path.join(place.dir, f"n{number}.log")
        self.env = dict(os.environ, **(env or {}))
        self.process, self.stopped = None, False
        # It holds the namespace and ends with this process, however that ends.
        self.holder = subprocess.Popen(["unshare", "-n", "cat"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
        self.words = ["nsenter", "-t", str(self.holder.pid), "-n", *words, "--node", self.name, "--data", place.folder(self.name),
                      "--listen", f"{address(number)}:{CLIENTS}", "--insecure"]

    def connect(self):
        wait_for(self.is_apart, TIMEOUT_S)
        pid, number, link = self.holder.pid, self.number, f"v{self.number}"
        do("ip", "link", "add", link, "type", "veth", "peer", "name", "eth0", "netns", str(pid))
        do("ip", "link", "set", link, "master", "hub", "up")
        do("ip", "link", "set", "eth0", "address", hardware(number), "up", inside=pid)
        do("ip", "addr", "add", address(number) + "/24", "dev", "eth0", inside=pid)
        do("ip", "link", "set", "lo", "up", inside=pid)

    def is_apart(self):
        """a separate network"""
        return os.stat(f"/proc/{self.holder.pid}/ns/net").st_ino != os.stat("/proc/self/ns/net").st_ino

    def start(self):
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(self.words, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=self.env)
        self.stopped = False

    def kill(self):
        if self.process:
            self.process.kill()
            self.process.wait()

    def stop(self):
        self.process.send_signal(signal.SIGSTOP)
        self.stopped = True

    def go_on(self):
        self.process.send_signal(signal.SIGCONT)
        self.stopped = False

    def lives(self):
        return self.process is not None and self.process.poll() is None

    def ask(self, path, patience=TIMEOUT_S):
        link = http.client.HTTPConnection(address(self.number), CLIENTS, timeout=patience)
        try:
            link.request("GET", path)
            answer = link.getresponse()
            return answer.status, answer.read()
        except (OSError, http.client.HTTPException):
            return 0, b""
        finally:
            link.close()

    def ready(self):
        assert self.lives(), f"{self.name} ended with {self.process.returncode}:\n{self.tail()}"
        return self.ask("/health?exclude=NOSPACE", 2)[0] == 200  # a full node serves, too

    def leads(self):
        return not self.stopped and self.lives() and b"\netcd_server_is_leader 1" in self.ask("/metrics", 2)[1]

    def link(self, patience=TIMEOUT_S):
        return Link(CLIENTS, address(self.number), patience)

    def tail(self):
        with open(self.log, encoding="utf-8", errors="replace") as file:
            return "".join(file.readlines()[-15:])

    def close(self):
        self.kill()
        self.holder.kill()
        self.holder.communicate()
        subprocess.run(["ip", "link", "del", f"v{self.number}"], capture_output=True, check=False)


class Net:
    """`count` nodes in one cluster. The caller is in the middle and reaches all of them, whatever is cut between
    them."""

    def __init__(self, place, bellwether, count, options=()):
        cluster = ",".join(f"n{i}={address(i)}:{PEERS}" for i in range(count))
        words = [os.path.abspath(bellwether), "serve", "--cluster", cluster, *options]
        do("ip", "link", "set", "lo", "up")
        do("ip", "link", "add", "hub", "type", "bridge")
        do("ip", "addr", "add", "10.77.0.254/24", "dev", "hub")
        do("ip", "link", "set", "hub", "up")
        self.nodes = []
        self.cuts = set()
        try:
            for number in range(count):
                self.nodes.append(NetNode(place, number, words))
                self.nodes[-1].connect()
        except BaseException:
            self.close()
            raise

    def __enter__(self):
        for node in self.nodes:
            node.start()
        self.wait_ready()
        return self

    def __exit__(self, *exception):
        self.close()

    def close(self):
        for node in self.nodes:
            node.close()
        do("ip", "link", "del", "hub")

    def wait_ready(self):
        for node in self.nodes:
            wait_for(node.ready, TIMEOUT_S, 0.02)

    def leader(self):
        def known():
            """a leader"""
            return [node for node in self.nodes if node.leads()]
        return wait_for(known, TIMEOUT_S, 0.02)[-1]

    def cut(self, sender, receiver):
        """Packets from the sender to the receiver are lost."""
        self.cuts.add((sender, receiver))
        self.neighbour(sender, receiver, NOWHERE)

    def neighbour(self, sender, receiver, where):
        do("ip", "neigh", "replace", address(receiver), "lladdr", where, "dev", "eth0", "nud", "permanent",
           inside=self.nodes[sender].holder.pid)

    def heal(self):
        for sender, receiver in sorted(self.cuts):
            self.neighbour(sender, receiver, hardware(receiver))
        self.cuts.clear()
