"""Subjects of torture.py: `run` on each store with a server of its own."""
import contextlib
import json
import os
import shutil
import subprocess
import sys

import azure_rest
import dynamodb_lib
import zookeeper_lib
from postgres_lib import PLACES, Postgres
from run_lib import free_ports, wait_for
from serve_lib import Authority
from state import callers, is_allocation, read_state
from store_lib import Place, Skip, listens, program
from subjects import WAIT, Run, subject

STORE_TESTS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "store")


@subject
class RunOnRedis(Run):
    """`run` with a Redis server as its store"""

    name, module = "run-redis", "redis"

    @staticmethod
    def missing():
        return None if shutil.which("redis-server") else "redis-server is not installed: install redis-server"

    def prepare(self):
        port = free_ports(1)[0]
        self.start(["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", self.place], self.calm, "redis")
        wait_for(lambda: listens(port))
        self.store = f"redis://127.0.0.1:{port}"


class Waiting(Run):
    """A candidate that waits (-w): once it has started, it must be elected."""

    codes = Run.waiting_codes

    def words(self, wait=WAIT):
        return super().words(wait)


@subject
class RunOnKubernetes(Waiting):
    """`run` with a stand-in for a Kubernetes API server as its store"""

    name, module, share = "run-kubernetes", "kubernetes", 0.5

    def prepare(self):
        port = free_ports(1)[0]
        self.start([sys.executable, os.path.join(STORE_TESTS, "kube_standin.py"), str(port), self.path("leases")], self.calm, "standin")
        wait_for(lambda: listens(port))
        with open(self.path("kubeconfig"), "w", encoding="utf-8") as file:
            json.dump({"apiVersion": "v1", "kind": "Config", "current-context": "here",
                       "clusters": [{"name": "c", "cluster": {"server": f"http://127.0.0.1:{port}"}}],
                       "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u", "namespace": "testing"}}],
                       "users": [{"name": "u", "user": {}}]}, file)  # JSON is YAML
        os.chmod(self.path("kubeconfig"), 0o600)
        self.store = f"kubernetes://testing?kubeconfig={self.path('kubeconfig')}"


class SharedServer(Waiting):
    """All runs of the subject share a server."""

    @classmethod
    def require(cls):
        """Raises Skip if the server is not installed."""

    @classmethod
    def launch(cls, place):
        """Prepares a server. Returns its command, a function that tells whether it is ready, and the user that it runs as."""
        raise NotImplementedError

    @classmethod
    def missing(cls):
        try:
            cls.require()
            return None
        except Skip as why:
            return str(why)

    @classmethod
    @contextlib.contextmanager
    def shared(cls, bench):
        with Place(f"torture-{cls.module}") as place:
            words, ready, user = cls.launch(place)
            with open(os.path.join(place.dir, "server.log"), "ab") as log:
                server = bench.watcher.start(words, user=user, cwd=place.dir, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
            try:
                wait_for(ready, pause=0.02)
                yield bench
            finally:
                server.kill()
                server.wait()
                bench.watcher.remove(server.pid)

    def unique(self):
        """A name that no other run has."""
        return "run" + os.path.basename(os.path.dirname(self.place)).rpartition("-")[2].replace("_", "x")


def out_of_memory_in_openssl(state):
    """If OpenSSL 3.0 runs out of memory while it loads an algorithm, it refuses that algorithm until the process ends. Then the
    candidate gives up after --wait."""
    return is_allocation(state) and any(module.startswith("libcrypto") for module in callers(state))


@subject
class RunOnPostgres(SharedServer):
    """`run` with a PostgreSQL server as its store; all runs share the server, and each has a database of its own"""

    name, module, share = "run-postgres", "postgres", 0.3
    cluster = None

    @classmethod
    def require(cls):
        program("initdb", "postgresql", *PLACES)
        program("psql", "postgresql-client", *PLACES)

    @classmethod
    def launch(cls, place):
        cls.cluster = Postgres(place, fsync="off").create()
        return cls.cluster.words(), cls.cluster.answers, cls.cluster.user

    def prepare(self):
        database = self.unique()
        self.cluster.sql(f'CREATE DATABASE "{database}"')
        self.store = self.cluster.url(database=database)

    def judge_end(self, code, name, success):
        if out_of_memory_in_openssl(read_state(self.env["TORTURE_STATE"])):
            self.codes = (*self.codes, 69)
        return super().judge_end(code, name, success)


@subject
class RunOnZookeeper(SharedServer):
    """`run` with a ZooKeeper server as its store; all runs share the server, and each has a path of its own"""

    name, module, share = "run-zookeeper", "zookeeper", 0.5
    port = None

    @classmethod
    def require(cls):
        zookeeper_lib.java()

    @classmethod
    def launch(cls, place):
        cls.port = free_ports()[0]
        return zookeeper_lib.server_words(place, 0, cls.port), lambda: zookeeper_lib.mode(cls.port), None

    def prepare(self):
        self.store = f"zookeeper://127.0.0.1:{self.port}/{self.unique()}"

    @staticmethod
    def may_crash(state):
        """The client library of ZooKeeper uses the memory that it asks for without a check, or asserts that it got it."""
        return is_allocation(state) and callers(state)[0].startswith("libzookeeper")


@subject
class RunOnAzure(SharedServer):
    """`run` with Azurite over TLS as its store; all runs share the server, and each has a container of its own"""

    name, module, share, ttl = "run-azure", "azure", 0.3, "15s"
    port = authority = None

    @classmethod
    def require(cls):
        azure_rest.server_words(0)
        program("openssl", "openssl")

    @classmethod
    def launch(cls, place):
        cls.port, cls.authority = free_ports()[0], Authority(place, "authority")
        cert, key = cls.authority.sign("azurite")
        return azure_rest.server_words(cls.port, "--inMemoryPersistence", "--cert", cert, "--key", key), lambda: listens(cls.port), None

    def prepare(self):
        self.store = (f"azure://{azure_rest.ACCOUNT}/{self.unique().lower()}?endpoint=https://127.0.0.1:{self.port}"
                      f"&ca-file={self.authority.crt}")


@subject
class RunOnDynamodb(SharedServer):
    """`run` with dynalite as its store; all runs share the server, and each has a table of its own"""

    name, module, share = "run-dynamodb", "dynamodb", 0.5
    port = None

    @classmethod
    def require(cls):
        dynamodb_lib.server_words(0)

    @classmethod
    def launch(cls, place):
        cls.port = free_ports()[0]
        return dynamodb_lib.server_words(cls.port), lambda: listens(cls.port), None

    def prepare(self):
        table = self.unique()
        dynamodb_lib.make_table(self.port, table)
        for env in (self.env, self.calm):
            env.update(AWS_ACCESS_KEY_ID="AKIDEXAMPLE", AWS_SECRET_ACCESS_KEY="secret")
        self.store = f"dynamodb://eu-central-1/{table}?endpoint=http://127.0.0.1:{self.port}"

    @staticmethod
    def may_crash(state):
        """libcurl 7.88 signs with HMAC, and does not check whether it got memory for the hash (Curl_HMAC_init)."""
        modules = [module for module in callers(state) if not module.startswith("libcrypto")]
        return is_allocation(state) and callers(state)[0].startswith("libcrypto") and modules[0].startswith("libcurl")
