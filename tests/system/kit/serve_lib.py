"""Nodes of `bellwether serve` and a real etcd for the tests of the service, reached with etcdctl and JSON over
HTTP."""
import base64
import http.client
import json
import os
import re
import shutil
import socket
import subprocess
import threading

from run_lib import wait_for
from store_lib import TIMEOUT_S, Server, Skip, free_ports, program


HERE = "subjectAltName=IP:127.0.0.1,DNS:localhost"


def newest_version():
    """The newest version of the protocol between nodes that the source knows."""
    header = os.path.join(os.path.dirname(__file__), "../../../src/core/replica/protocol.h")
    with open(header, encoding="utf-8") as file:
        return int(re.search(r"#define BW_MESH_VERSION (\d+)u", file.read()).group(1))


def b64(text):
    return base64.b64encode(text if isinstance(text, bytes) else text.encode()).decode()


def own_address():
    """An address of this machine that is not loopback."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
            return probe.getsockname()[0]
        except OSError as error:
            raise Skip(f"no address but loopback: {error}") from error


class Target:
    """A service with etcd's API on loopback ports."""

    ports, servers = (), ()

    def endpoints(self):
        return ",".join(f"127.0.0.1:{p}" for p in self.ports)

    def ctl_words(self, *words, endpoints=None):
        return [program("etcdctl", "etcd-client"), "--endpoints", endpoints or self.endpoints(), *words]

    def ctl(self, *words, endpoints=None, stdin=None, check=True, timeout=60):
        done = subprocess.run(self.ctl_words(*words, endpoints=endpoints), env=dict(os.environ, ETCDCTL_API="3"), input=stdin,
                              capture_output=True, text=True, timeout=timeout, check=False)
        assert not check or done.returncode == 0, f"etcdctl {words}: {done.stdout}{done.stderr}"
        return done

    def ask(self, verb, path, body=None, headers=None, port=None):
        """(status, body, headers) of one request."""
        link = http.client.HTTPConnection("127.0.0.1", port or self.ports[0], timeout=TIMEOUT_S)
        try:
            link.request(verb, path, body=body, headers=headers or {})
            answer = link.getresponse()
            return answer.status, answer.read(), dict(answer.getheaders())
        finally:
            link.close()

    def post(self, path, body, port=None, headers=None):
        status, text, _ = self.ask("POST", path, json.dumps(body), headers, port)
        return status, json.loads(text)

    def stream(self, path, body, port=None, headers=None):
        return Stream(port or self.ports[0], path, body, headers)

    def is_healthy(self, port):
        try:
            return self.ask("GET", "/health", port=port)[0] == 200
        except (OSError, http.client.HTTPException):
            return False

    def leader(self):
        """The number of the leader's node."""
        def known():
            """a leader"""
            for i, port in enumerate(self.ports):
                try:
                    if re.search(rb"^etcd_server_is_leader 1", self.ask("GET", "/metrics", port=port)[1], re.M):
                        return [i]
                except (OSError, http.client.HTTPException):
                    pass
            return None
        return wait_for(known, TIMEOUT_S, 0.02)[0]


def acknowledged(done):
    """True if etcdctl succeeded. False if the cluster has no leader at the moment; another failure fails the test."""
    passing = ("no leader", "leader changed", "request timed out", "deadline exceeded", "Unavailable", "connection refused")
    assert done.returncode == 0 or any(words in done.stderr for words in passing), done
    return done.returncode == 0


class Stream:
    """A stream of the gateway: one line per message."""

    def __init__(self, port, path, body, headers=None):
        self.link = http.client.HTTPConnection("127.0.0.1", port, timeout=TIMEOUT_S)
        self.link.request("POST", path, body=json.dumps(body), headers=headers or {})
        self.answer = self.link.getresponse()

    def line(self):
        """The next message. If the connection ended, raises OSError; a complete line must be JSON."""
        try:
            line = self.answer.readline()
        except AttributeError as error:  # http.client, after the connection broke inside a chunk
            raise OSError("the connection broke") from error
        try:
            return json.loads(line)
        except ValueError as error:
            assert not line.endswith(b"\n"), f"a message is not JSON: {line!r}"
            raise OSError(f"the stream ended: {line!r}") from error

    def close(self):
        self.link.close()


class Link:
    """One connection that is kept open. A failure raises OSError; then the outcome of the request is unknown."""

    def __init__(self, port, host="127.0.0.1", patience=TIMEOUT_S):
        self.port, self.host, self.patience, self.link = port, host, patience, None

    def post(self, path, body):
        try:
            if not self.link:
                self.link = http.client.HTTPConnection(self.host, self.port, timeout=self.patience)
            self.link.request("POST", path, json.dumps(body))
            answer = self.link.getresponse()
            return answer.status, json.loads(answer.read())
        except (OSError, http.client.HTTPException, ValueError) as error:
            self.close()
            raise OSError(str(error)) from error

    def close(self):
        if self.link:
            self.link.close()
        self.link = None


class Nodes(Target):
    """One node of ours, or several that form a cluster."""

    def __init__(self, place, bellwether, count=1, options=(), wait=True):
        ports = free_ports(2 * count)
        self.ports, peers = ports[:count], ports[count:]
        names = [f"n{i}" for i in range(count)]
        cluster = ",".join(f"{name}=127.0.0.1:{port}" for name, port in zip(names, peers))
        alone = [] if count == 1 else ["--cluster", cluster]
        self.servers = [
            Server(place, f"bellwether-{name}", [
                os.path.abspath(bellwether), "serve", "--node", name, *alone, "--data", place.folder(name), "--listen",
                f"127.0.0.1:{port}", *options],
                   port=port, ready=lambda port=port: self.is_healthy(port)) for name, port in zip(names, self.ports)]
        for server in self.servers:
            server.start(wait=False)
        for server in self.servers if wait else []:
            server.wait_ready()


class Cluster(Target):
    """Nodes that join and leave, by name."""

    def __init__(self, place, bellwether, count=3, options=()):
        self.bellwether, self.options = os.path.abspath(bellwether), list(options)
        self.place, self.nodes, self.client, self.peer = place, {}, {}, {}
        names = [chr(ord("a") + i) for i in range(count)]
        for name in names:
            self.give_ports(name)
        cluster = ",".join(f"{name}=127.0.0.1:{self.peer[name]}" for name in names)
        for name in names:
            self.make(name, "--cluster", cluster)
        for name in names:
            self.nodes[name].start(wait=False)
        for name in names:
            self.nodes[name].wait_ready()

    def give_ports(self, name):
        self.client[name], self.peer[name] = free_ports(2)

    def make(self, name, *words):
        port = self.client[name]
        self.nodes[name] = Server(self.place, f"node-{name}-{len(self.place.servers)}", [
            self.bellwether, "serve", "--node", name, "--data", os.path.join(self.place.dir, name), "--listen",
            f"127.0.0.1:{port}", *self.options, *words], port=port, ready=lambda: self.all_live() and self.is_healthy(port))
        return self.nodes[name]

    def all_live(self):
        """A node that could not start keeps the others waiting, so report that one."""
        for node in self.nodes.values():
            assert not node.process or node.process.poll() in (None, 0, -9), node.tail()
        return True

    @property
    def ports(self):
        return [self.client[name] for name, node in list(self.nodes.items()) if node.process and node.process.poll() is None]

    def at(self, name):
        return f"127.0.0.1:{self.client[name]}"

    def peers(self, *names):
        return ",".join(f"127.0.0.1:{self.peer[name]}" for name in names or self.peer)

    def joiner(self, name, via):
        return self.make(name, "--join", self.peers(*via), "--peer", self.peers(name))

    def members(self, at=None):
        shown = json.loads(self.ctl("member", "list", "-w", "json", endpoints=at and self.at(at)).stdout)
        return {m["ID"]: m for m in shown["members"]}

    def number(self, name, at=None):
        return next(i for i, m in self.members(at).items() if m.get("name") == name)

    def add(self, name, at, *words):
        """Adds and starts the node, without waiting for it."""
        self.give_ports(name)
        self.ctl("member", "add", name, f"--peer-urls=http://{self.peers(name)}", *words, endpoints=self.at(at))
        return self.joiner(name, [n for n in self.nodes if n != name]).start(wait=False)

    def remove(self, name, at, check=True):
        return self.ctl("member", "remove", format(self.number(name, at), "x"), endpoints=self.at(at), check=check)

    def votes(self, name, at):
        def voter():
            assert self.nodes[name].process.poll() is None, self.nodes[name].tail()
            mine = [m for m in self.members(at).values() if m.get("name") == name]
            return mine and not mine[0].get("isLearner")
        voter.__doc__ = f"{name} to vote"
        try:
            wait_for(voter, TIMEOUT_S, 0.05)
        except AssertionError as why:
            raise AssertionError(f"{why}; of {self.members(at)}, it says: {self.nodes[name].tail()}") from why

    def leads(self):
        """The name of the leader's node."""
        running = [name for name, node in list(self.nodes.items()) if node.process and node.process.poll() is None]
        return running[self.leader()]

    def ends(self, name):
        """Exit code and last lines of a node that ends by itself."""
        return self.nodes[name].process.wait(TIMEOUT_S), self.nodes[name].tail()


class Etcd(Target):
    """A real etcd, the reference for ours: one member, or several that form a cluster."""

    def __init__(self, place, count=1, options=()):
        ports = free_ports(2 * count)
        self.ports, peers = ports[:count], ports[count:]
        cluster = ",".join(f"m{i}=http://127.0.0.1:{peer}" for i, peer in enumerate(peers))
        self.servers = [Server(place, f"etcd-m{i}", [
            program("etcd", "etcd-server"), "--name", f"m{i}", "--data-dir", place.folder(f"etcd{i}"), "--logger", "zap",
            "--log-level", "error", "--listen-client-urls", f"http://127.0.0.1:{port}", "--advertise-client-urls",
            f"http://127.0.0.1:{port}", "--listen-peer-urls", f"http://127.0.0.1:{peer}", "--initial-advertise-peer-urls",
            f"http://127.0.0.1:{peer}", "--initial-cluster", cluster, *options],
            port=port, ready=lambda port=port: self.is_healthy(port)) for i, (port, peer) in enumerate(zip(self.ports, peers))]
        for server in self.servers:
            server.start(wait=False)
        for server in self.servers:
            server.wait_ready()


class Authority:
    """A certificate authority for the test."""

    def __init__(self, place, name):
        self.dir = place.folder(name)
        self.crt, self.key = self.path("ca.crt"), self.path("ca.key")
        self.openssl("req", "-x509", *self.new_key("ca.key"), "-out", self.crt, "-subj", f"/CN={name}", "-days", "3650")

    def path(self, name):
        return os.path.join(self.dir, name)

    def new_key(self, name):
        return "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", self.path(name)

    @staticmethod
    def openssl(*words):
        subprocess.run([program("openssl", "openssl"), *words], check=True, capture_output=True, timeout=60)

    def sign(self, name, days=365, usage=None, cn=None, names=HERE):
        """Paths of a certificate and its key. -1 days: it expired yesterday."""
        ext, csr, crt = self.path(name + ".ext"), self.path(name + ".csr"), self.path(name + ".crt")
        with open(ext, "w", encoding="utf-8") as file:
            file.write(names + "\n" + (f"extendedKeyUsage={usage}\n" if usage else ""))
        self.openssl("req", *self.new_key(name + ".key"), "-out", csr, "-subj", f"/CN={cn or name}")
        self.openssl("x509", "-req", "-in", csr, "-CA", self.crt, "-CAkey", self.key, "-CAcreateserial", "-days", str(days), "-extfile",
                     ext, "-out", crt)
        return crt, self.path(name + ".key")


    def revoke(self, *pairs):
        """Path of the revocation list, with these certificates and all that were revoked before."""
        settings, index, crl = self.path("ca.conf"), self.path("index"), self.path("crl.pem")
        with open(settings, "w", encoding="utf-8") as file:
            file.write(f"[ca]\ndefault_ca=this\n[this]\ndatabase={index}\ndefault_md=sha256\ndefault_crl_days=30\n")
        with open(index, "a", encoding="utf-8"):
            pass
        signer = ("-config", settings, "-keyfile", self.key, "-cert", self.crt)
        for pair in pairs:
            self.openssl("ca", *signer, "-revoke", pair[0])
        self.openssl("ca", *signer, "-gencrl", "-out", crl + ".new")
        os.replace(crl + ".new", crl)
        return crl


def certificate_words(pair, ca=None, prefix="--"):
    return [f"{prefix}cert", pair[0], f"{prefix}key", pair[1], *([f"{prefix}ca", ca] if ca and prefix != "--" else [])]


BUILDING = threading.Lock()  # tests of one program run in parallel


def go_program(beside):
    """A candidate with Go's own package, built once next to the tests' programs; skipped without Go."""
    built, source = os.path.join(beside, "etcd_elect"), os.path.join(os.path.dirname(os.path.abspath(__file__)), "etcd_elect.go")
    with BUILDING:
        build_go(built, source, beside)
    return built


def build_go(built, source, beside):
    if not os.path.exists(built) or os.path.getmtime(built) < os.path.getmtime(source):
        go = program("go", "golang-go and golang-etcd-server-dev")
        if not os.path.isdir("/usr/share/gocode/src/go.etcd.io/etcd"):
            raise Skip("Go's etcd client is not here: install golang-etcd-server-dev")
        new = f"{built}.{os.getpid()}"
        env = dict(os.environ, GO111MODULE="off", GOPATH="/usr/share/gocode", GOFLAGS="-p=2")
        if not env.get("HOME"):  # Go's build cache: minutes of work that all clones and build directories share
            env["GOCACHE"] = os.path.join(beside, "gocache")
        subprocess.run([go, "build", "-o", new, source], check=True, timeout=1200, capture_output=True, env=env)
        os.replace(new, built)


def python_with(module, package):
    """Debian's own Python, if it has the module."""
    python = shutil.which("/usr/bin/python3")
    if not python or subprocess.run([python, "-c", f"import {module}"], capture_output=True, check=False).returncode:
        raise Skip(f"Python's {module} is not here: install {package}")
    return python
