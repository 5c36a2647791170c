"""Three durable nodes of `bellwether serve`, or of etcd, for the programs that compare them."""
import http.client
import json
import os
import ssl
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tests", "system", "kit"))
sys.dont_write_bytecode = True

from serve_lib import Authority  # noqa: E402
from store_lib import Place, Server, Skip, free_ports, listens, program  # noqa: E402,F401

LIMIT_S = 60


class Cluster:
    """A running cluster. `ca` is the certificate authority of its clients' port; None: no TLS."""

    def __init__(self, place, ports, make, ca=None):
        self.place, self.ports, self.ca, self.token, self.has_users = place, ports, ca, None, False
        self.servers = [make(i) for i in range(3)]
        for server in self.servers:
            server.start(wait=False)
        for server in self.servers:
            server.wait_ready()

    def endpoints(self):
        return ",".join(f"127.0.0.1:{port}" for port in self.ports)

    def ctl(self, *words, check=True):
        scheme = "https" if self.ca else "http"
        tls = ["--cacert", self.ca] if self.ca else []
        user = ["--user", "root:secret"] if self.has_users else []
        return subprocess.run([program("etcdctl", "etcd-client"), "--command-timeout=20s", "--endpoints",
                               ",".join(f"{scheme}://127.0.0.1:{port}" for port in self.ports), *tls, *user, *words],
                              capture_output=True, text=True, env=dict(os.environ, ETCDCTL_API="3"), check=check, timeout=LIMIT_S)

    def statuses(self):
        done = self.ctl("endpoint", "status", "-w", "json", check=False)
        return {row["Endpoint"].split("//")[-1]: row["Status"] for row in json.loads(done.stdout or "[]")}

    def leader(self):
        """The leader's endpoint, HOST:PORT."""
        until = time.monotonic() + LIMIT_S
        while time.monotonic() < until:
            for endpoint, status in self.statuses().items():
                if status.get("leader") and status["leader"] == status["header"]["member_id"]:
                    return endpoint
            time.sleep(0.1)
        raise AssertionError("no leader")

    def term(self):
        return max(int(status["raftTerm"]) for status in self.statuses().values())

    def pid_at(self, endpoint):
        return self.servers[self.ports.index(int(endpoint.split(":")[1]))].process.pid

    def pids(self):
        return [server.process.pid for server in self.servers]

    def disk_mb(self, which=0):
        """Allocated blocks below the data directory of a node."""
        total = 0
        for folder, _, files in os.walk(os.path.join(self.place.dir, f"data-{'abc'[which]}")):
            for name in files:
                try:
                    total += os.stat(os.path.join(folder, name)).st_blocks * 512
                except FileNotFoundError:
                    pass  # removed meanwhile
        return total / 1e6

    def require_users(self):
        """Turns authentication on; the load programs get a token of root."""
        for words in (["user", "add", "root:secret"], ["role", "add", "root"], ["user", "grant-role", "root", "root"], ["auth", "enable"]):
            done = self.ctl(*words, check=False)
            assert done.returncode == 0 or "already" in done.stderr + done.stdout, f"{words}: {done.stderr}"
        self.has_users = True
        self.token = self.sign_in()

    def sign_in(self):
        """A token of root, by the JSON gateway."""
        port = int(self.leader().split(":")[1])
        context = ssl.create_default_context(cafile=self.ca) if self.ca else None
        link = http.client.HTTPSConnection("127.0.0.1", port, timeout=LIMIT_S, context=context) if self.ca else \
            http.client.HTTPConnection("127.0.0.1", port, timeout=LIMIT_S)
        try:
            link.request("POST", "/v3/auth/authenticate", body=json.dumps({"name": "root", "password": "secret"}))
            return json.loads(link.getresponse().read())["token"]
        finally:
            link.close()

    def environment(self):
        """What the load programs need to reach this cluster."""
        more = {"LOAD_CA": self.ca} if self.ca else {}
        if self.token:
            more["LOAD_TOKEN"] = self.token
        return dict(os.environ, **more)


def ours(place, bellwether, tls=False):
    peers, ports = free_ports(3), free_ports(3)
    nodes = ",".join(f"{n}=127.0.0.1:{p}" for n, p in zip("abc", peers))
    authority = Authority(place, "ca") if tls else None
    pair = authority.sign("server") if tls else ()
    words = ["--cert", pair[0], "--key", pair[1]] if tls else []

    def make(i):
        return Server(place, "abc"[i], [os.path.abspath(bellwether), "serve", "--node", "abc"[i], "--cluster", nodes, "--data",
                                        place.folder("data-" + "abc"[i]), "--listen", f"127.0.0.1:{ports[i]}", *words],
                      ready=lambda: listens(ports[i]))
    return Cluster(place, ports, make, authority.crt if tls else None)


def etcd(place, tls=False):
    binary = program("etcd", "etcd-server")
    peers, ports = free_ports(3), free_ports(3)
    nodes = ",".join(f"{n}=http://127.0.0.1:{p}" for n, p in zip("abc", peers))
    authority = Authority(place, "ca") if tls else None
    pair = authority.sign("server") if tls else ()
    words = ["--cert-file", pair[0], "--key-file", pair[1]] if tls else []
    scheme = "https" if tls else "http"

    def make(i):
        peer, own = f"http://127.0.0.1:{peers[i]}", f"{scheme}://127.0.0.1:{ports[i]}"
        return Server(place, "abc"[i], [binary, "--name", "abc"[i], "--data-dir", place.folder("data-" + "abc"[i]),
                                        "--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--listen-client-urls", own,
                                        "--advertise-client-urls", own, "--initial-cluster", nodes, "--logger", "zap",
                                        "--log-level", "error", "--quota-backend-bytes", str(8 << 30), *words],
                      ready=lambda: listens(ports[i]))
    return Cluster(place, ports, make, authority.crt if tls else None)


def starts(bellwether, tls=False):
    """The functions that start each kind of cluster, by name."""
    return {"bellwether": lambda place: ours(place, bellwether, tls), "etcd": lambda place: etcd(place, tls)}


def status_kb(pid, name):
    with open(f"/proc/{pid}/status", encoding="utf-8") as file:
        return next(int(line.split()[1]) for line in file if line.startswith(name))


def resident_mb(pid):
    return status_kb(pid, "VmRSS") / 1024


def peak_mb(pid):
    return status_kb(pid, "VmHWM") / 1024


def cpu_seconds(pid):
    with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
        fields = file.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
