"""A real ZooKeeper ensemble for the tests of its store."""
import os
import re
import socket
import subprocess

from run_lib import wait_for
from store_lib import TIMEOUT_S, Server, Skip, free_ports, program

JARS = "/usr/share/java"
PYTHON = "/usr/bin/python3"  # Debian's Python, for which kazoo is installed
TICK_MS = 200


def java():
    """Path of the program that runs the servers. Skips the test if they are not installed."""
    path = program("java", "default-jre-headless")
    if not os.path.exists(f"{JARS}/zookeeper.jar"):
        raise Skip("zookeeper.jar is not here: install zookeeper")
    return path


def server_words(place, number, port, settings=""):
    """Writes the files of a server and returns the command that starts it."""
    data = place.folder(f"data{number}")
    place.file(f"data{number}/myid", f"{number + 1}\n")
    config = place.file(f"zoo{number}.cfg", f"tickTime={TICK_MS}\ninitLimit=50\nsyncLimit=10\ndataDir={data}\n"
                        f"clientPort={port}\nclientPortAddress=127.0.0.1\nadmin.enableServer=false\n"
                        f"maxClientCnxns=0\n4lw.commands.whitelist=*\nmaxSessionTimeout=60000\n{settings}\n")
    return [java(), "-Xmx128m", "-Xms24m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", f"{JARS}/zookeeper.jar",
            "org.apache.zookeeper.server.quorum.QuorumPeerMain", config]


def word(port, letters):
    """Sends a four-letter command to the server; '' if it does not answer."""
    try:
        with socket.create_connection(("127.0.0.1", port), 5) as s:
            s.settimeout(5)
            s.sendall(letters.encode())
            data = b""
            while chunk := s.recv(65536):
                data += chunk
            return data.decode(errors="replace")
    except OSError:
        return ""


def mode(port):
    found = re.search(r"^Mode: (\w+)", word(port, "srvr"), re.M)
    return found.group(1) if found else ""


class Ensemble:
    """ZooKeeper servers on loopback, each with its own data and a small heap."""

    def __init__(self, place, count=3, settings=""):
        self.place, self.count = place, count
        self.ports = free_ports(count)
        peers = free_ports(2 * count)
        lines = "".join(f"server.{i + 1}=127.0.0.1:{peers[2 * i]}:{peers[2 * i + 1]}\n" for i in range(count))
        more = settings + "\n" + (lines if count > 1 else "")
        self.servers = [Server(place, f"zk{i}", server_words(place, i, port, more), port=port, ready=lambda p=port: mode(p) != "")
                        for i, port in enumerate(self.ports)]
        self.start()

    def start(self):
        for server in self.servers:
            server.start(wait=False)
        for server in self.servers:
            server.wait_ready()

    def leader(self):
        def known():
            """a leader among the servers"""
            return [i for i, port in enumerate(self.ports) if mode(port) in ("leader", "standalone")]
        return wait_for(known, TIMEOUT_S, 0.05)[0]

    def hosts(self):
        return ",".join(f"127.0.0.1:{port}" for port in self.ports)

    def url(self, path, ports=None, more=""):
        ports = self.ports if ports is None else ports
        return "zookeeper://" + ",".join(f"127.0.0.1:{p}" for p in ports) + path + more

    def tree(self, path):
        """The children of a path, read by kazoo; [] if the path does not exist."""
        code = ("import sys\nfrom kazoo.client import KazooClient\nfrom kazoo.exceptions import NoNodeError\n"
                "c = KazooClient(hosts=sys.argv[1]); c.start(60)\n"
                "try: c.sync('/'); print('\\n'.join(sorted(c.get_children(sys.argv[2]))))\n"
                "except NoNodeError: pass\nc.stop()")
        done = subprocess.run([PYTHON, "-c", code, self.hosts(), path], capture_output=True, text=True, timeout=120, check=False)
        if "No module named 'kazoo'" in done.stderr:
            raise Skip("kazoo is not here: install python3-kazoo")
        assert done.returncode == 0, done.stderr
        return done.stdout.split()
