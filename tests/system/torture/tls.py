"""Subjects of torture.py: connections with TLS. RunOnAzure in stores.py has one, too."""
import contextlib
import http.client
import json
import os
import signal
import ssl
import time

from run_lib import free_ports, wait_for
from serve_lib import Authority
from state import read_state
from store_lib import Place, Skip, listens, program
from stores import RunOnRedis, out_of_memory_in_openssl
from subjects import HANG_S, TTL, OnService, Run, Serve, ServeInCluster, Service, subject


class WithTls:
    """Has an authority that all runs of the subject share, and a certificate of 127.0.0.1."""

    authority = pair = None

    @staticmethod
    def missing():
        try:
            program("openssl", "openssl")
            return None
        except Skip as why:
            return str(why)

    @staticmethod
    @contextlib.contextmanager
    def shared(bench):
        with Place("torture-tls") as place:
            WithTls.authority = Authority(place, "authority")
            WithTls.pair = WithTls.authority.sign("node")
            yield bench

    @classmethod
    def certificate(cls, prefix):
        """Options of `serve` and `peer`."""
        return [prefix + "cert", cls.pair[0], prefix + "key", cls.pair[1]]

    @classmethod
    def setting(cls):
        """Settings of a store's URL."""
        return f"?ca-file={cls.authority.crt}&cert-file={cls.pair[0]}&key-file={cls.pair[1]}"

    def judge_end(self, code, name, success):
        if out_of_memory_in_openssl(read_state(self.env["TORTURE_STATE"])):
            self.codes = (*self.codes, 69)
        return super().judge_end(code, name, success)


@subject
class RunOnRedisTls(WithTls, RunOnRedis):
    """`run` with a Redis server as its store, over TLS with certificates on both sides"""

    name, share = "run-redis-tls", 0.5

    @staticmethod
    def missing():
        return RunOnRedis.missing() or WithTls.missing()

    def prepare(self):
        port = free_ports(1)[0]
        self.start(["redis-server", "--port", "0", "--tls-port", str(port), "--tls-cert-file", self.pair[0], "--tls-key-file", self.pair[1],
                    "--tls-ca-cert-file", self.authority.crt, "--bind", "127.0.0.1", "--save", "", "--dir", self.place], self.calm, "redis")
        wait_for(lambda: listens(port))
        self.store = f"rediss://127.0.0.1:{port}{self.setting()}"


@subject
class ServeTls(WithTls, Serve):
    """`serve`, one node that requires client certificates: the requests of `serve`"""

    name, share = "serve-tls", 0.2

    def problems(self):
        """If OpenSSL runs out of memory while it reads an authority, it keeps the authority without its key, and reports no error.
        The node refuses all clients until it is restarted."""
        problems = super().problems()
        refuses = "certificate is refused" in self.said("tortured") and out_of_memory_in_openssl(read_state(self.env["TORTURE_STATE"]))
        return [problem for problem in problems if not (refuses and problem == "does not become healthy")]

    def words(self):
        return [*super().words(), *self.certificate("--"), "--client-ca", self.authority.crt]

    def link(self):
        context = ssl.create_default_context(cafile=self.authority.crt)
        context.load_cert_chain(*self.pair)
        return http.client.HTTPSConnection("127.0.0.1", self.port, timeout=HANG_S / 3, context=context)


@subject
class ServeClusterTls(WithTls, ServeInCluster):
    """`serve`, one of three nodes with TLS between each other: the requests of `serve`"""

    name, share = "serve-cluster-tls", 0.5

    def node_words(self, name, port):
        return [*super().node_words(name, port), *self.certificate("--peer-"), "--peer-ca", self.authority.crt]


@subject
class RunOnServeTls(WithTls, OnService, Run):
    """`run` with `serve` as its store, over TLS with certificates on both sides"""

    name, share, service = "run-serve-tls", 0.5, ServeTls

    def prepare(self):
        super().prepare()
        self.store = f"bellwethers://127.0.0.1:{self.node.port}{self.setting()}"


@subject
class PeerTls(WithTls, Service):
    """`peer`, one of two peers with TLS between each other: found, lead, end at SIGTERM; again with a higher token"""

    name, share, codes = "peer-tls", 0.3, (64, 65, 69, 71, 74, 75, 76, 126)

    def __init__(self, bench, place, env):
        super().__init__(bench, place, env)
        self.ports = free_ports(2)
        self.join = ",".join(f"127.0.0.1:{port}" for port in self.ports)
        self.run(self.ours("peer", "keygen"), self.calm, "keygen")
        os.rename(self.path("keygen.out"), self.path("key"))
        os.chmod(self.path("key"), 0o600)

    def words(self, number):
        return self.ours("peer", "--id", str(number), "--listen", f"127.0.0.1:{self.ports[number - 1]}", "--join", self.join, "--expect", "2",
                         "--data", self.path(f"data{number}"), "--key-file", self.path("key"), *self.certificate("--tls-"),
                         "--tls-ca", self.authority.crt, "--ttl", TTL, "--kill-after", "200ms", "--log", "json", "--",
                         self.bench.program("tests/run-witness"), self.place)

    def log(self):
        return [line.split() for line in self.text("log").splitlines()]

    def text(self, name):
        with contextlib.suppress(FileNotFoundError), open(self.path(name), encoding="utf-8") as file:
            return file.read()
        return ""

    def tokens(self):
        return [int(line[1]) for line in self.log() if line[0] == "start"]

    def leads(self, process, number):
        """Waits until this peer leads, and asks the other one to transfer the leadership to it. False if it ends or does not."""
        until = time.monotonic() + HANG_S
        while process.poll() is None and time.monotonic() < until:
            if self.run(self.ours("peer", "status", "--join", self.join, "--key-file", self.path("key"), "--json"), self.calm, "status") == 0 \
                    and self.leader() == number:
                return True
            self.run(self.ours("peer", "transfer", "--to", str(number), "--join", self.join, "--key-file", self.path("key"), "--wait", "5s"),
                     self.calm, "transfer")
        return False

    def leader(self):
        line = self.text("status.out").strip().splitlines()[-1]
        leaders = {peer.get("leader") for peer in json.loads(line)["peers"] if peer["answered"]}
        return leaders.pop() if len(leaders) == 1 else None

    def problems(self):
        other = self.start(self.words(1), self.calm, "other")
        problems = self.once("tortured", self.env, (128 + signal.SIGTERM,))
        if not problems:
            problems = self.once("again", self.calm, (128 + signal.SIGTERM,))
        if other.poll() is not None:
            problems.append(f"the other peer ended with {other.poll()}")
        if any(line[0] == "overlap" for line in self.log()):
            problems.append("two commands at once")
        if self.tokens() != sorted(set(self.tokens())):
            problems.append(f"tokens do not grow: {self.tokens()}")
        return problems

    def once(self, name, env, success):
        process = self.start(self.words(2), env, name)
        led = self.leads(process, 2)
        asked = process.poll() is None
        code = self.wait_end(process)
        self.steps.append(f"{name}: exit code {code}" + (" after SIGTERM" if asked else " by itself"))
        problem = self.judge_end(code, name, success if asked else ())
        if problem:
            return [problem]
        return [f"{name}: does not lead"] if asked and not led else []
